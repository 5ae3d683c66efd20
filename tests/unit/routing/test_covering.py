"""Covering told as stories: who is passed on, who is held back, which way events go, and what survives a change."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contentcast.catalog import make_router
from contentcast.hosting.instant import Instant
from contentcast.language import parse_predicate
from contentcast.matching import Scan
from contentcast.model import Advertisement, Attribute, EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.network.named import network
from contentcast.network.topology import Topology
from contentcast.routing.contract import (
    Advertised,
    Declared,
    Deliver,
    Effect,
    Input,
    LinkLost,
    LinkUp,
    Published,
    Received,
    Send,
    Subscribed,
    TimerFired,
    Unadvertised,
    Unsubscribed,
)
from contentcast.routing.covering import Covering
from contentcast.routing.covering.branches import branches
from contentcast.routing.covering.passing import PASS_ON
from contentcast.routing.setup import Setup
from contentcast.simulation.faults import play, replay_command
from contentcast.simulation.story import Story
from contentcast.wire import Publish, decode, encode, message_bytes
from contentcast.wire.covering import AskAgain, Everywhere, Forwarded
from contentcast.wire.framing import FRAME_HEADER_BYTES

TRADES = Space("trades", issue="string", price=Attribute("float", low=0.0, high=1000.0), volume="int")
LINE = Topology.of("abc", [("a", "b", 0.01), ("b", "c", 0.01)])
RING = Topology.of("abcd", [("a", "b", 0.01), ("b", "c", 0.01), ("c", "d", 0.01), ("a", "d", 0.01)])


class Net:
    """A network without time, what was delivered in it, and what crossed its links."""

    def __init__(self, topology: Topology, *, configured: bool = True) -> None:
        self.got: Counter[tuple[str, int]] = Counter()
        self.crossed: Counter[tuple[str, str]] = Counter()
        self.forwarded: list[tuple[str, str, Forwarded]] = []
        self.ids = 0
        setup = Setup(topology=topology if configured else None)
        self.instant = Instant(topology, make_router("covering", setup), self.watch)

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Deliver():
                    self.got.update((who, each) for who, events in effect.each() for each in events.ids.to_pylist())
                case Send(link, Publish() | Everywhere()):
                    self.crossed[broker, link] += 1
                case Send(link, Forwarded() as told):
                    self.forwarded.append((broker, link, told))

    def subscribe(self, broker: str, number: int, text: str) -> None:
        wish = Subscription(number, parse_predicate(TRADES, text), f"{broker}/{number}")
        self.instant.put(broker, Subscribed(SubscriptionBatch.of(wish)))

    def publish(self, broker: str, **event: Any) -> tuple[set[str], set[tuple[str, str]]]:
        """Who got it, and the links that it crossed."""
        self.got.clear()
        self.crossed.clear()
        self.ids += 1
        self.instant.put(broker, Published(EventBatch.from_dicts(TRADES, [event], ids=[self.ids])))
        assert all(times == 1 for times in (*self.got.values(), *self.crossed.values()))
        return {who for who, _ in self.got}, set(self.crossed)

    def way(self, broker: str, link: str) -> dict[str, Any]:
        found: dict[str, Any] = self.instant.routers[broker].state()["ways"][link]
        return found


def test_a_subscription_stops_where_one_that_covers_it_has_passed() -> None:
    """Section 2.2 of the paper: what was forwarded to a neighbour stands in for all that it subsumes."""
    net = Net(LINE)
    net.subscribe("c", 1, "price < 120")
    net.subscribe("b", 2, "issue = 'IBM' AND price < 50")
    net.subscribe("c", 3, "price < 20")
    assert net.way("b", "a") == {"passed on": ["c:1"], "held back": {"b:2": "c:1"}}
    assert net.way("c", "b") == {"passed on": ["c:1"], "held back": {"c:3": "c:1"}}
    assert net.instant.routers["a"].state()["subscriptions"] == {"c": [1]}
    who, crossed = net.publish("a", issue="IBM", price=10.0)
    assert who == {"b/2", "c/1", "c/3"}
    assert crossed == {("a", "b"), ("b", "c")}
    assert net.publish("a", issue="IBM", price=500.0) == (set(), set())


def test_a_wider_one_takes_the_place_of_those_that_went_before() -> None:
    net = Net(LINE)
    net.subscribe("c", 1, "price < 20")
    net.subscribe("c", 2, "price < 50")
    assert net.way("b", "a") == {"passed on": ["c:2"], "held back": {}}, "b was told to forget c:1"
    assert net.way("c", "b") == {"passed on": ["c:2"], "held back": {"c:1": "c:2"}}


def test_unsubscribing_sends_on_what_was_held_back() -> None:
    net = Net(LINE)
    net.subscribe("c", 1, "price < 120")
    net.subscribe("c", 2, "price < 50")
    net.subscribe("b", 3, "price < 20")
    net.instant.put("c", Unsubscribed((1,)))
    assert net.way("c", "b") == {"passed on": ["c:2"], "held back": {}}
    assert net.way("b", "a") == {"passed on": ["c:2"], "held back": {"b:3": "c:2"}}
    assert net.publish("a", price=100.0) == (set(), set())
    assert net.publish("a", price=10.0)[0] == {"c/2", "b/3"}


def test_an_id_that_asks_for_something_else_is_told_anew() -> None:
    net = Net(LINE)
    net.subscribe("c", 1, "price < 120")
    net.subscribe("c", 1, "price > 500")
    assert net.publish("a", price=100.0) == (set(), set())
    assert net.publish("a", price=600.0)[0] == {"c/1"}


def test_of_two_that_ask_for_the_same_one_is_passed_on() -> None:
    net = Net(LINE)
    net.subscribe("c", 1, "price < 120")
    net.subscribe("c", 2, "price < 120")
    net.subscribe("b", 3, "price < 120")
    assert net.way("b", "a")["passed on"] == ["c:1"]
    net.instant.put("c", Unsubscribed((1,)))
    assert net.publish("a", price=1.0)[0] == {"c/2", "b/3"}


def test_what_nothing_can_satisfy_is_told_to_nobody() -> None:
    net = Net(LINE)
    net.subscribe("c", 1, "price < 5 AND price > 7")
    net.subscribe("c", 2, "price > 5000")  # beyond the domain
    assert all(not told.added for _, _, told in net.forwarded), "neighbours greet each other, with nothing"


def test_in_a_ring_a_subscription_holds_back_only_where_its_own_tree_goes_on() -> None:
    """b's own go to a and on to d; those of c end at a, since d has c on its other side: c's cannot answer for b's at d."""
    assert branches(RING, "b")["a"].behind == {"b": frozenset("ad"), "c": frozenset("a")}
    net = Net(RING)
    net.subscribe("c", 1, "price < 120")
    net.subscribe("b", 2, "price < 50")
    assert net.way("b", "a") == {"passed on": ["b:2", "c:1"], "held back": {}}
    for broker in "abcd":
        assert net.publish(broker, price=10.0)[0] == {"c/1", "b/2"}
    net.subscribe("b", 3, "price < 200")
    assert net.way("b", "a")["passed on"] == ["b:3"], "b's covers c's wherever those go"
    for broker in "abcd":
        assert net.publish(broker, price=10.0)[0] == {"c/1", "b/2", "b/3"}


@pytest.mark.parametrize("name", ["line:6", "ring:7", "grid:3x3", "cable-wireless-24", "gryphon-39", "random:20x40"])
def test_events_go_as_in_the_trees_of_their_publishers(name: str) -> None:
    """The way back is the publisher's own shortest way, tie by tie: no link carries an event for nobody."""
    topology = network(name)
    net = Net(topology)
    dice = Random(name)
    wanted = dice.sample(topology.brokers, 4)
    for number, broker in enumerate(wanted):
        net.subscribe(broker, number, f"price < {dice.choice([50, 50, 100])}")
    for broker in topology.brokers:
        who, crossed = net.publish(broker, price=7.0)
        assert who == {f"{each}/{number}" for number, each in enumerate(wanted)}
        ways = [topology.path(broker, each) for each in wanted]
        assert crossed == {pair for way in ways for pair in pairwise(way)}


# --- advertisements


def advertisement(number: int, **texts: str) -> Advertisement:
    allowed = {}
    for name, text in texts.items():
        (conjunction,) = parse_predicate(TRADES, text).conjunctions
        allowed[name] = (dict(conjunction.items)[name],)
    return Advertisement(number, TRADES, allowed)


def test_subscriptions_are_held_back_where_nothing_they_want_is_published() -> None:
    net = Net(LINE)
    net.instant.put("a", Advertised((advertisement(1, issue="issue = 'IBM'", price="price < 100"),)))
    net.subscribe("c", 1, "price > 500")
    net.subscribe("c", 2, "price < 50")
    assert net.way("b", "a")["passed on"] == ["c:2"]
    assert net.way("c", "b")["passed on"] == ["c:2"]
    net.subscribe("a", 3, "price < 50")
    assert net.way("a", "b")["passed on"] == [], "nobody publishes behind b"
    assert net.publish("a", issue="IBM", price=10.0)[0] == {"c/2", "a/3"}
    net.instant.put("a", Advertised((advertisement(2, price="price > 900"),)))
    assert net.way("c", "b")["passed on"] == ["c:1", "c:2"]
    assert net.publish("a", price=950.0)[0] == {"c/1"}
    net.instant.put("a", Unadvertised((1, 2)))
    assert net.way("a", "b")["passed on"] == ["a:3"], "nobody advertises: everybody may publish"


def test_events_that_were_not_advertised_reach_everybody_all_the_same() -> None:
    net = Net(LINE)
    net.instant.put("a", Advertised((advertisement(1, price="price < 100"),)))
    net.subscribe("c", 1, "price > 500")
    assert net.way("c", "b")["passed on"] == []
    assert net.publish("a", price=700.0) == ({"c/1"}, {("a", "b"), ("b", "c")})
    assert net.publish("b", price=700.0)[0] == {"c/1"}, "b has advertised nothing at all"
    mixed = [{"price": 50.0}, {"price": 700.0}, {"price": 60.0}]
    net.subscribe("c", 2, "price < 55")
    net.got.clear()
    net.instant.put("a", Published(EventBatch.from_dicts(TRADES, mixed, ids=[101, 102, 103])))
    assert net.got == Counter({("c/2", 101): 1, ("c/1", 102): 1})


@given(st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_with_advertisements_everybody_gets_what_matches_once(random: Random) -> None:
    """Whatever is advertised, and whether publishers keep to it or not."""
    topology = random.choice([LINE, RING, network("random:6x9")])
    net = Net(topology, configured=random.random() < 0.5)
    scan = Scan(TRADES)
    owner: dict[int, str] = {}
    advertised: dict[int, str] = {}
    for number in range(25):
        broker = random.choice(topology.brokers)
        low = random.randint(0, 9)
        throw = random.random()
        if throw < 0.4:
            text = random.choice(
                [f"price < {low}", f"price BETWEEN {low} AND {low + 3}", f"issue = 'I{low % 3}'", "price IS NULL"]
            )
            net.subscribe(broker, number, text)
            scan.add(number, parse_predicate(TRADES, text))
            owner[number] = broker
        elif throw < 0.5 and owner:
            gone = random.choice(sorted(owner))
            net.instant.put(owner.pop(gone), Unsubscribed((gone,)))
            scan.remove(gone)
        elif throw < 0.6:
            net.instant.put(broker, Advertised((advertisement(number, price=f"price < {low}", issue="issue = 'I1'"),)))
            advertised[number] = broker
        elif throw < 0.7 and advertised:
            gone = random.choice(sorted(advertised))
            net.instant.put(advertised.pop(gone), Unadvertised((gone,)))
        else:
            event = {"price": float(random.randint(0, 9)), "issue": f"I{random.randint(0, 2)}"}
            if random.random() < 0.2:
                del event["price"]
            assert net.publish(broker, **event)[0] == {f"{owner[each]}/{each}" for each in scan.match(event)}


# --- one router, and what neighbours say


def wants(number: int, text: str = "price < 120") -> SubscriptionBatch:
    return SubscriptionBatch.of(Subscription(number, parse_predicate(TRADES, text), ""))


def sent(effects: list[Effect]) -> list[tuple[str, Forwarded]]:
    return [(each.link, each.message) for each in effects if isinstance(each, Send) and isinstance(each.message, Forwarded)]


def test_a_gap_is_asked_for_and_answered_with_the_whole() -> None:
    b = Covering("b", Setup(topology=LINE))
    b.handle(TimerFired(PASS_ON), 0.0)
    gap = b.handle(Received("a", Forwarded(1, 4, 5, (("a", wants(1)),))), 0.0)
    assert [type(each.message) for each in gap if isinstance(each, Send)] == [AskAgain]
    ((link, told),) = sent(b.handle(Received("a", Forwarded(1, 0, 6, (("a", wants(1)),))), 0.0))
    assert link == "c"
    assert (told.since, told.version) == (0, 1)
    assert b.handle(Received("a", Forwarded(1, 0, 3)), 0.0) == [], "older than what is known"
    b.handle(Received("c", AskAgain()), 1.0)
    ((link, told),) = sent(b.handle(TimerFired(PASS_ON), 1.1))
    assert (link, told.since, told.version, [origin for origin, _ in told.added]) == ("c", 0, 2, ["a"])


def test_a_link_that_went_and_came_back_before_the_timer_is_told_the_whole() -> None:
    """Seeds 21 and 171 of the fault stories: the network was the same when the timer fired, and the link had no table."""
    b = Covering("b", Setup(topology=LINE))
    b.handle(Subscribed(wants(1)), 0.0)
    assert [link for link, _ in sent(b.handle(TimerFired(PASS_ON), 0.1))] == ["a", "c"]
    b.handle(LinkLost("c"), 1.0)
    b.handle(LinkUp("c", 0.01), 1.01)
    ((link, told),) = sent(b.handle(TimerFired(PASS_ON), 1.1))
    assert (link, told.since, told.version) == ("c", 0, 2)


def test_a_neighbour_that_started_again_is_told_the_whole() -> None:
    b = Covering("b", Setup(topology=LINE))
    b.handle(Subscribed(wants(1)), 0.0)
    b.handle(TimerFired(PASS_ON), 0.1)
    b.handle(Received("c", Forwarded(1, 0, 1, (("c", wants(7, "price > 3")),))), 0.2)
    b.handle(Received("c", Forwarded(2, 0, 1)), 0.3)
    assert ("c", 0) in [(link, told.since) for link, told in sent(b.handle(TimerFired(PASS_ON), 0.4))]


@pytest.mark.parametrize("seed", [21, 171, 202])
def test_fault_stories_that_once_failed(seed: int) -> None:
    """202: the network changed while a subscription waited to be told, and it stood in the table twice."""
    outcome = play(Story.random(seed), "covering")
    assert not outcome.problems, replay_command(seed, "covering")


def test_a_space_that_gains_attributes_keeps_its_subscriptions() -> None:
    net = Net(LINE)
    net.instant.put("a", Declared(TRADES))
    net.subscribe("c", 1, "price < 120")
    wider = Space("trades", {**dict(TRADES.items()), "venue": Attribute("string")})
    net.instant.put("b", Declared(wider))
    venue = Subscription(2, parse_predicate(wider, "venue = 'X' AND price < 50"), "c/2")
    net.instant.put("c", Subscribed(SubscriptionBatch.of(venue)))
    assert net.way("b", "a")["passed on"] == ["c:1"]
    net.instant.put("c", Unsubscribed((1,)))
    net.got.clear()
    events = EventBatch.from_dicts(wider, [{"price": 10.0, "venue": "X"}, {"price": 10.0}], ids=[5, 6])
    net.instant.put("a", Published(events))
    assert net.got == Counter({("c/2", 5): 1})


# --- messages


def test_messages_there_and_back() -> None:
    spaces = {"trades": TRADES}
    told = Forwarded(3, 4, 5, (("a", wants(1)), ("c", wants(9, "issue LIKE '%X'"))), (("a", (7, 2**60)), ("b", (-1,))))
    came = decode(encode(told), spaces)
    assert isinstance(came, Forwarded)
    assert (came.incarnation, came.since, came.version, came.removed) == (3, 4, 5, told.removed)
    assert [(origin, list(batch)) for origin, batch in came.added] == [(origin, list(batch)) for origin, batch in told.added]
    assert message_bytes(told) == len(encode(told)) + FRAME_HEADER_BYTES
    assert decode(encode(AskAgain()), spaces) == AskAgain()
    flooded = decode(encode(Everywhere(Publish("a", 1, 2, EventBatch.from_dicts(TRADES, [{"price": 1.0}])))), spaces)
    assert isinstance(flooded, Everywhere)
    assert isinstance(flooded.message, Publish)
    assert flooded.message.events.to_dicts() == [{"price": 1.0}]
