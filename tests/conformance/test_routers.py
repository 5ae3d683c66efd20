"""Every protocol of the catalog keeps what it promises; a new one joins `catalog.PROTOCOLS`, and its promises with it.

On random connected networks, trees and with cycles, with random spaces, subscriptions and events: each subscriber gets exactly
the events that match, each exactly once; also after subscriptions came and went, and after brokers crashed and came back. What
else is promised is tested where it is promised. Every check has a faulty router that it must catch.
What links and brokers that fail do to it in the long run is told in tests/simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contentcast.catalog import PROTOCOLS, Promise, make_router, promising, router
from contentcast.hosting.costs import FREE
from contentcast.hosting.instant import Instant
from contentcast.language import parse_predicate
from contentcast.matching import Scan
from contentcast.model import ContentcastError, EventBatch, Predicate, Space, Subscription, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import (
    Account,
    Deliver,
    Effect,
    Input,
    Published,
    Received,
    Router,
    Send,
    Subscribed,
    Unsubscribed,
)
from contentcast.routing.multicast.aggregate import Told
from contentcast.routing.multicast.held_back import HeldBack
from contentcast.routing.setup import Setup
from contentcast.simulation import World
from contentcast.wire import Publish
from tests.properties.generate import Generator
from tests.simulation.durable import Story

Pair = tuple[str, int]
Made = str | Callable[[str, Setup], Router]
"""A protocol by name, or what makes a router."""

HOLDING_BACK = "multicast,hold_back=true"


class Network:
    """Routers of one protocol on a network where everything happens at once, and what the oracle says about it."""

    def __init__(self, protocol: Made, topology: Topology, *, configured: bool, count_steps: bool = True) -> None:
        known = topology if configured else None
        self.topology = topology
        self.delivered: Counter[Pair] = Counter()
        self.crossed: Counter[tuple[str, str, int]] = Counter()
        self.accounted: set[int] = set()
        self.wanted: dict[int, Subscription] = {}
        self.instant = Instant(topology, make_router(protocol, Setup(topology=known, count_steps=count_steps)), self.watch)

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Deliver():
                    for subscriber, events in effect.each():
                        self.delivered.update((subscriber, each) for each in events.ids.to_pylist())
                case Account(events, _):
                    self.accounted.update(events.ids.to_pylist())
                case Send(link, Publish() as publish):
                    self.crossed.update((broker, link, each) for each in publish.events.ids.to_pylist())

    def subscribe(self, broker: str, batch: list[Subscription]) -> None:
        self.instant.put(broker, Subscribed(SubscriptionBatch.of(batch)))
        self.wanted.update({each.id: replace(each, broker=broker) for each in batch})

    def unsubscribe(self, broker: str, ids: list[int]) -> None:
        self.instant.put(broker, Unsubscribed(tuple(ids)))
        for each in ids:
            del self.wanted[each]

    def at(self, broker: str) -> list[int]:
        return [each.id for each in self.wanted.values() if each.broker == broker]

    def oracle(self, events: EventBatch) -> list[list[int]]:
        scan = Scan(events.space)
        for each in self.wanted.values():
            if each.space == events.space:
                scan.add(each.id, each.predicate)
        return scan.match_batch(events)

    def publish(self, broker: str, events: EventBatch) -> Counter[Pair]:
        """Publishes and says who should get what."""
        self.delivered.clear()
        self.crossed.clear()
        self.accounted.clear()
        self.instant.put(broker, Published(events))
        wanted: set[Pair] = set()
        for event, ids in zip(events.ids.to_pylist(), self.oracle(events), strict=True):
            wanted |= {(self.wanted[each].subscriber, event) for each in ids}
        return Counter(wanted)


def a_network(random: Random) -> Topology:
    """Connected, of one to nine brokers; half of them are trees. Few delays, so that ways are often equally long."""
    brokers = [f"b{number}" for number in range(random.randint(1, 9))]
    links = {(brokers[random.randrange(at)], brokers[at]) for at in range(1, len(brokers))}
    if random.random() < 0.5 and len(brokers) > 2:
        for _ in range(random.randint(1, 6)):
            one, other = sorted(random.sample(brokers, 2))
            if (other, one) not in links:
                links.add((one, other))
    return Topology.of(brokers, [(one, other, random.choice([0.01, 0.01, 0.02])) for one, other in sorted(links)])


def a_predicate(generate: Generator, space: Space) -> Predicate:
    while True:
        try:
            return parse_predicate(space, generate.text(space, depth=2))
        except ContentcastError:
            continue


# --- the checks


def check_exact(
    protocol: Made, random: Random, *, links_once: bool = False, count_steps: bool = True, all_wanted_by_three: bool = False
) -> None:
    """Subscriptions come, change and go at random brokers; after each round everybody gets what matches, once."""
    generate = Generator(random)
    topology = a_network(random)
    spaces = [generate.space() for _ in range(random.choice([1, 1, 2]))]
    if len(spaces) == 2 and spaces[0].name == spaces[1].name:
        spaces.pop()
    network = Network(protocol, topology, configured=random.random() < 0.5, count_steps=count_steps)
    next_id = 0
    for broker in topology.brokers[:3] if all_wanted_by_three else ():
        for space in spaces:
            network.subscribe(broker, [Subscription(next_id, parse_predicate(space, "TRUE"), f"{broker}/all")])
            next_id += 1
    for round_ in range(3):
        for _ in range(random.randint(0, 6)):
            broker = random.choice(topology.brokers)
            space = random.choice(spaces)
            batch = []
            for _ in range(random.randint(1, 4)):
                mine = network.at(broker)
                again = mine and random.random() < 0.1
                number = random.choice(mine) if again else next_id
                next_id += not again
                if number not in [each.id for each in batch]:
                    subscriber = f"{broker}/{random.randint(0, 2)}"
                    batch.append(Subscription(number, a_predicate(generate, space), subscriber))
            network.subscribe(broker, batch)
        for broker in topology.brokers:
            mine = network.at(broker)
            if mine and random.random() < 0.3:
                network.unsubscribe(broker, random.sample(mine, random.randint(1, len(mine))))
        for space in spaces:
            dicts = [generate.event(space) for _ in range(random.choice([1, 1, 5, 30]))]
            events = EventBatch.from_dicts(space, dicts, ids=[1000 * round_ + at for at in range(len(dicts))])
            broker = random.choice(topology.brokers)
            wanted = network.publish(broker, events)
            assert network.delivered == wanted, f"{topology.links} published at {broker}"
            if links_once:
                assert not network.crossed or max(network.crossed.values()) == 1, "an event crossed a link twice"
    assert count_steps or not network.accounted


def check_nothing_for_nobody(protocol: Made, random: Random, *, count_steps: bool = True) -> None:
    """Every broker that gets an event has a client that wants it, or passes it on towards one."""
    generate = Generator(random)
    topology = a_network(random)
    space = generate.space()
    network = Network(protocol, topology, configured=True, count_steps=count_steps)
    for number in range(random.randint(1, 8)):
        broker = random.choice(topology.brokers)
        network.subscribe(broker, [Subscription(number, a_predicate(generate, space), f"{broker}/x")])
    origin = random.choice(topology.brokers)
    events = EventBatch.from_dicts(space, [generate.event(space) for _ in range(8)])
    network.publish(origin, events)
    for event, ids in enumerate(network.oracle(events)):
        wanted = {link for each in ids for link in pairwise(topology.path(origin, network.wanted[each].broker))}
        assert {(one, other) for one, other, crossing in network.crossed if crossing == event} == wanted


def check_survives_crashes(
    protocol: Made, random: Random, *, count_steps: bool = True, all_wanted_by_three: bool = False
) -> None:
    """A broker crashes and comes back with its clients; when all is quiet, everybody gets what matches again."""
    generate = Generator(random)
    topology = a_network(random)
    space = generate.space()
    made = make_router(protocol, Setup(count_steps=count_steps))
    world = World(topology, made, costs=FREE, seed=random.randrange(1000))
    scan, subscribers = Scan(space), {}

    def subscribe(broker: str, at: float, predicate: Predicate | None = None) -> None:
        wish = Subscription(len(subscribers), predicate or a_predicate(generate, space), f"{broker}/{len(subscribers)}")
        world.put(broker, Subscribed(SubscriptionBatch.of(wish)), at)
        scan.add(wish.id, wish.predicate)
        subscribers[wish.id] = wish.subscriber

    for broker in topology.brokers[:3] if all_wanted_by_three else ():
        subscribe(broker, 0.0, parse_predicate(space, "TRUE"))
    for _ in range(random.randint(2, 8)):
        subscribe(random.choice(topology.brokers), 0.0)
    for at in range(random.randint(1, 3)):
        crashed = random.choice(topology.brokers)
        world.crash(crashed, at=10.0 + at)
        subscribe(crashed, 10.1 + at)  # while it is down; the client asks again when it is back
        world.restart(crashed, at=10.2 + at + 0.5 * random.random())
    world.run(most_steps=200_000)
    for at, broker in enumerate(topology.brokers):
        ids = list(range(10 * at, 10 * at + 6))
        events = EventBatch.from_dicts(space, [generate.event(space) for _ in ids], ids=ids)
        before = len(world.delivered)
        world.put(broker, Published(events))
        world.run(most_steps=200_000)
        matched = zip(ids, scan.match_batch(events), strict=True)
        assert Counter(world.delivered[before:]) == Counter(
            (subscribers[who], event) for event, found in matched for who in found
        )


def check_steps(protocol: Made, random: Random) -> None:
    """Every event that enters is accounted for with its steps, if anybody wants anything of its space."""
    generate = Generator(random)
    topology = a_network(random)
    space = generate.space()
    network = Network(protocol, topology, configured=True)
    origin = random.choice(topology.brokers)
    network.subscribe(origin, [Subscription(1, a_predicate(generate, space), "x")])
    events = EventBatch.from_dicts(space, [generate.event(space) for _ in range(4)])
    network.publish(origin, events)
    assert network.accounted >= set(events.ids.to_pylist())


# --- what is promised holds

randoms = st.randoms(use_true_random=False)
both_engines = pytest.mark.parametrize("count_steps", [True, False], ids=["tree", "index"])


@both_engines
@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(randoms)
@settings(max_examples=25)
def test_everybody_gets_what_matches_once(protocol: str, count_steps: bool, random: Random) -> None:
    promises = PROTOCOLS[protocol].promises
    assert Promise.EXACT in promises, "a protocol that is not exact has no place in the catalog"
    check_exact(protocol, random, links_once=Promise.NO_LINK_TWICE in promises, count_steps=count_steps)


@both_engines
@pytest.mark.parametrize("protocol", promising(Promise.NOTHING_FOR_NOBODY))
@given(randoms)
@settings(max_examples=25)
def test_no_link_carries_an_event_for_nobody(protocol: str, count_steps: bool, random: Random) -> None:
    check_nothing_for_nobody(protocol, random, count_steps=count_steps)


@both_engines
@pytest.mark.parametrize("protocol", promising(Promise.SURVIVES_CRASHES))
@given(randoms)
@settings(max_examples=6)
def test_brokers_crash_and_come_back(protocol: str, count_steps: bool, random: Random) -> None:
    check_survives_crashes(protocol, random, count_steps=count_steps)


@pytest.mark.parametrize("check", [check_exact, check_survives_crashes])
@given(randoms)
@settings(max_examples=10)
def test_servers_of_a_lan_that_hold_back_keep_the_promises(check: Callable[..., None], random: Random) -> None:
    """Three brokers want everything: most of what the others want is told by enough others, until those crash or change."""
    check(HOLDING_BACK, random, count_steps=False, all_wanted_by_three=True)


def test_what_the_servers_hold_back_is_something(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    take = HeldBack.take

    def watched(self: HeldBack, told: Told, now: float) -> Told:
        found = take(self, told, now)
        held.append(len(self.numbers))
        return found

    monkeypatch.setattr(HeldBack, "take", watched)
    for seed in range(10):
        check_exact(HOLDING_BACK, Random(seed), count_steps=False, all_wanted_by_three=True)
    assert sum(map(bool, held)) > 10


@pytest.mark.parametrize("protocol", promising(Promise.STEPS))
@given(randoms)
@settings(max_examples=10)
def test_steps_are_told(protocol: str, random: Random) -> None:
    check_steps(protocol, random)


# --- and who breaks a promise is caught


class Faulty:
    """Link matching whose effects are spoilt."""

    spoil: Callable[[list[Effect]], list[Effect]]

    def __init__(self, broker: str, setup: Setup) -> None:
        self.broker = broker
        self._inside = router("link-matching", broker, setup)
        self.sizes, self.state = self._inside.sizes, self._inside.state

    def handle(self, input: Input, now: float) -> list[Effect]:
        return type(self).spoil(self._inside.handle(input, now))


def faulty(spoil: Callable[[list[Effect]], list[Effect]]) -> Any:
    return type("Spoilt", (Faulty,), {"spoil": staticmethod(spoil)})


def _less(effect: Effect) -> Effect:
    if isinstance(effect, Deliver) and len(effect.rows):
        return Deliver(effect.events, effect.rows[1:], effect.who[1:], effect.subscribers)
    return effect


def _is_publish(effect: Effect) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, Publish)


class Forgetful(Faulty):
    """Does not count its lives: after a crash its news is taken for old."""

    def __init__(self, broker: str, setup: Setup) -> None:
        super().__init__(broker, replace(setup, incarnation=1))

    @staticmethod
    def spoil(effects: list[Effect]) -> list[Effect]:
        return effects


class Echo(Faulty):
    """Sends every event back where it came from, once."""

    @staticmethod
    def spoil(effects: list[Effect]) -> list[Effect]:
        return effects

    def handle(self, input: Input, now: float) -> list[Effect]:
        effects = super().handle(input, now)
        if isinstance(input, Received) and isinstance(input.message, Publish) and effects:
            effects.append(Send(input.sender, input.message))
        return effects


CAUGHT: dict[str, tuple[Promise, Any, Callable[[Any, Random], None]]] = {
    "misses a delivery": (Promise.EXACT, faulty(lambda effects: [_less(each) for each in effects]), check_exact),
    "delivers twice": (
        Promise.EXACT,
        faulty(lambda effects: [*effects, *(each for each in effects if isinstance(each, Deliver))]),
        check_exact,
    ),
    "sends twice": (
        Promise.NO_LINK_TWICE,
        faulty(lambda effects: [*effects, *filter(_is_publish, effects)]),
        lambda made, random: check_exact(made, random, links_once=True),
    ),
    "floods": (Promise.NOTHING_FOR_NOBODY, "flooding", check_nothing_for_nobody),
    "sends back": (Promise.NOTHING_FOR_NOBODY, Echo, check_nothing_for_nobody),
    "does not count its lives": (Promise.SURVIVES_CRASHES, Forgetful, check_survives_crashes),
    "hides its steps": (
        Promise.STEPS,
        faulty(lambda effects: [each for each in effects if not isinstance(each, Account)]),
        check_steps,
    ),
}


@pytest.mark.parametrize("fault", CAUGHT)
def test_a_broken_promise_is_caught(fault: str) -> None:
    _, made, check = CAUGHT[fault]

    def passes(seed: int) -> bool:
        try:
            check(made, Random(seed))
        except AssertionError:
            return False
        return True

    assert not all(passes(seed) for seed in range(40))


def test_every_promise_has_a_faulty_router() -> None:
    elsewhere = {Promise.DURABLE}  # ten faulty versions are caught in tests/simulation/test_durable.py
    assert {promise for promise, _, _ in CAUGHT.values()} == set(Promise) - elsewhere


# --- with disks


@pytest.mark.parametrize("seed", [1, 7])
@pytest.mark.parametrize("protocol", promising(Promise.DURABLE))
def test_what_is_accepted_reaches_every_durable_subscription_once(protocol: str, seed: int) -> None:
    """The faulty versions of tests/simulation/test_durable.py do not pass such stories."""
    Story(seed, protocol=protocol).play()


def test_a_protocol_that_is_not_durable_does_not_promise_it() -> None:
    assert set(PROTOCOLS) - set(promising(Promise.DURABLE)) == {"overlay", "multicast"}
