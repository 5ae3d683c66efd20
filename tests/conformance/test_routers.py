"""Every protocol of the catalog delivers what the oracle says, to everybody, once. A new one joins `catalog.PROTOCOLS`.

On random connected networks, trees and with cycles, with random spaces, subscriptions and events: each subscriber gets exactly
the events that match, each exactly once; also after subscriptions came and went. What links and brokers that fail do to it
is told in tests/simulation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from contentcast.catalog import PROTOCOLS, make_router
from contentcast.hosting.instant import Instant
from contentcast.language import parse_predicate
from contentcast.matching import Scan
from contentcast.model import ContentcastError, EventBatch, Predicate, Space, Subscription, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Deliver, Effect, Input, Published, Send, Subscribed, Unsubscribed
from contentcast.routing.setup import Setup
from contentcast.wire import Publish
from tests.properties.generate import Generator

Pair = tuple[str, int]


class Network:
    """Routers of one protocol on a network where everything happens at once, and what the oracle says about it."""

    def __init__(self, protocol: str, topology: Topology, *, configured: bool) -> None:
        known = topology if configured else None
        self.topology = topology
        self.delivered: Counter[Pair] = Counter()
        self.crossed: Counter[tuple[str, str, int]] = Counter()
        self.wanted: dict[int, Subscription] = {}
        self.instant = Instant(topology, make_router(protocol, Setup(topology=known)), self.watch)

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Deliver():
                    for subscriber, events in effect.each():
                        self.delivered.update((subscriber, each) for each in events.ids.to_pylist())
                case Send(link, Publish() as publish):
                    self.crossed.update((broker, link, each) for each in set(publish.events.ids.to_pylist()))

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


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_everybody_gets_what_matches_once(protocol: str, random: Random) -> None:
    generate = Generator(random)
    topology = a_network(random)
    spaces = [generate.space() for _ in range(random.choice([1, 1, 2]))]
    if len(spaces) == 2 and spaces[0].name == spaces[1].name:
        spaces.pop()
    network = Network(protocol, topology, configured=random.random() < 0.5)
    next_id = 0
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
            note(f"{topology.links} published at {broker}")
            assert network.delivered == wanted
            assert not network.crossed or max(network.crossed.values()) == 1, "an event crossed a link twice"


@pytest.mark.parametrize("protocol", ["link-matching", "match-first", "two-tier"])
@given(st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_no_link_carries_an_event_for_nobody(protocol: str, random: Random) -> None:
    """Every broker that gets an event has a client that wants it, or passes it on towards one."""
    generate = Generator(random)
    topology = a_network(random)
    space = generate.space()
    network = Network(protocol, topology, configured=True)
    for number in range(random.randint(1, 8)):
        broker = random.choice(topology.brokers)
        network.subscribe(broker, [Subscription(number, a_predicate(generate, space), f"{broker}/x")])
    origin = random.choice(topology.brokers)
    dicts = [generate.event(space) for _ in range(8)]
    events = EventBatch.from_dicts(space, dicts)
    network.publish(origin, events)
    for event, ids in enumerate(network.oracle(events)):
        wanted = {link for each in ids for link in pairwise(topology.path(origin, network.wanted[each].broker))}
        assert {(one, other) for one, other, crossing in network.crossed if crossing == event} == wanted
