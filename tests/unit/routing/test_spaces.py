"""Spaces declared at one broker are known to all, gain attributes while the network runs; advertisements are kept and told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import contentcast as cc
from contentcast.catalog import PROTOCOLS, make_router
from contentcast.hosting.instant import Instant
from contentcast.model import Advertisement, Attribute, Constraint, EventBatch, Ranges, SubscriptionBatch
from contentcast.model.errors import SpaceError
from contentcast.model.values.kinds import KINDS
from contentcast.network.topology import Topology
from contentcast.routing.contract import (
    Advertised,
    Declared,
    Deliver,
    Effect,
    Input,
    LinkUp,
    Published,
    Received,
    Send,
    Subscribed,
    TimerFired,
    Unadvertised,
    Unsubscribed,
)
from contentcast.routing.flooding import Flooding
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Advertisements, DeclaredSpaces, Interest, decode, encode

LINE = Topology.of("abc", [("a", "b"), ("b", "c")])
OLD = cc.Space("trades", issue="string", price="float")
NEW = cc.Space("trades", issue="string", price="float", venue="string")


def wants(space: cc.Space, number: int, text: str, subscriber: str = "desk") -> Subscribed:
    return Subscribed(SubscriptionBatch.of(cc.Subscription(number, cc.parse_predicate(space, text), subscriber)))


class Watched:
    """A network without time, and who got what."""

    def __init__(self, protocol: str) -> None:
        self.got: Counter[tuple[str, int]] = Counter()
        self.network = Instant(LINE, make_router(protocol), self.watch)

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                for who, events in effect.each():
                    self.got.update((who, each) for each in events.ids.to_pylist())

    def publish(self, broker: str, space: cc.Space, number: int, **event: Any) -> None:
        self.network.put(broker, Published(EventBatch.from_dicts(space, [event], ids=[number])))


def test_a_space_declared_at_one_broker_is_known_to_all() -> None:
    network = Instant(LINE, make_router("flooding"))
    network.put("a", Declared(OLD))
    assert [network.routers[each].state()["spaces"]["trades"] for each in "abc"] == [OLD.to_dict()["attributes"]] * 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_attributes_can_be_added_while_the_network_runs(protocol: str) -> None:
    """Old subscriptions and events meet new ones; an event of the old version lacks what was added."""
    watched = Watched(protocol)
    put = watched.network.put
    put("a", Declared(OLD))
    put("c", wants(OLD, 1, "price < 10", "old desk"))
    watched.publish("a", OLD, 1, issue="IBM", price=5.0)
    put("b", Declared(NEW))
    put("c", wants(NEW, 2, "price < 10 AND venue = 'X'", "new desk"))
    put("b", wants(NEW, 3, "venue IS NULL", "desk without"))
    watched.publish("a", NEW, 2, issue="IBM", price=5.0, venue="X")
    watched.publish("a", OLD, 3, issue="IBM", price=5.0)
    watched.publish("c", NEW, 4, price=50.0, venue="X")
    assert watched.got == Counter(
        {("old desk", 1): 1, ("old desk", 2): 1, ("old desk", 3): 1, ("new desk", 2): 1, ("desk without", 3): 1}
    )
    put("c", Unsubscribed((1,)))
    watched.publish("a", OLD, 5, price=5.0)
    assert watched.got[("old desk", 5)] == 0
    assert watched.got[("desk without", 5)] == 1


def test_an_attribute_of_another_kind_is_refused_where_it_is_declared() -> None:
    router = Skeleton("a", Setup())
    router.handle(Declared(OLD), 0.0)
    with pytest.raises(SpaceError, match="the attribute price is float here and int there; give one another name"):
        router.handle(Declared(cc.Space("trades", price="int")), 0.0)
    assert router.handle(Declared(OLD), 0.0) == [], "nothing new"


def test_two_that_were_declared_at_once_end_alike_at_all_brokers() -> None:
    one = cc.Space("trades", price="float", venue="string")
    other = cc.Space("trades", price=Attribute("float", low=0.0, high=9.0), size="int")
    clash = cc.Space("trades", venue="int")
    routers = {each: Skeleton(each, Setup()) for each in "abc"}
    told = [
        effect.message
        for name, space in zip("abc", (one, other, clash), strict=True)
        for effect in [*routers[name].handle(LinkUp("x"), 0.0), *routers[name].handle(Declared(space), 0.0)]
        if isinstance(effect, Send) and isinstance(effect.message, DeclaredSpaces)
    ]
    for name, router in routers.items():
        for message in told if name != "b" else told[::-1]:
            if message.origin != name:
                router.handle(Received("x", message), 1.0)
    states = [router.state() for router in routers.values()]
    assert [list(each["spaces"]["trades"]) for each in states] == [["price", "venue", "size"]] * 3
    assert states[0]["spaces"]["trades"]["price"] == "float", "they disagree about the domain, so there is none"
    assert states[0]["refused spaces"] == states[2]["refused spaces"]
    assert list(states[0]["refused spaces"]) == ["trades at c"]


# --- flooding takes what it needs


def test_flooding_stores_and_tells_nobody_elses_subscriptions_and_nothing_waits_for_ever() -> None:
    told: list[Any] = []

    def watch(broker: str, input: Input, effects: list[Effect]) -> None:
        told.extend(effect.message for effect in effects if isinstance(effect, Send))
        assert not isinstance(input, TimerFired), "it has nothing to propagate"

    network = Instant(LINE, make_router("flooding"), watch)
    for number in range(600):
        network.put("a", wants(OLD, number, f"price < {number}"))
        network.put("a", Unsubscribed((number - 1,)))
    assert not any(isinstance(each, Interest) for each in told)
    a, c = network.routers["a"], network.routers["c"]
    assert isinstance(a, Flooding)
    assert (a.sizes()["subscriptions"], c.sizes()["subscriptions"]) == (1, 0)
    assert a.local._audiences.waiting <= 256, "changes that nobody asks for are folded in after a while"
    assert len(list(a.local.batches())) == 1


# --- advertisements


def advertisement(number: int, high: float, publisher: str = "feed") -> Advertisement:
    price = Constraint(Ranges.between(KINDS["float"], 0.0, high))
    allowed = {"price": (price,), "issue": (Constraint.present(KINDS["string"]),)}
    return Advertisement(number, OLD, allowed, publisher)


def test_advertisements_travel_as_they_are_and_are_kept_by_id() -> None:
    told = Advertisements("a", 1, 1, (advertisement(7, 100.0), advertisement(8, 5.0, "Zürich")))
    assert decode(encode(told), {"trades": OLD}) == told
    local = Skeleton("a", Setup())
    local.handle(Advertised(told.advertisements), 0.0)
    local.handle(Unadvertised((8, 99)), 0.0)
    assert local.state()["advertised"] == [7]


def test_protocols_that_use_advertisements_hear_all_of_them() -> None:
    network = Instant(LINE, lambda broker, life: Skeleton(broker, Setup().living(life), with_advertisements=True))
    network.put("a", Advertised((advertisement(7, 100.0),)))
    network.put("c", Advertised((advertisement(9, 1.0),)))
    network.put("a", Advertised((advertisement(8, 1.0),)))
    network.put("a", Unadvertised((7,)))
    assert [network.routers[each].state()["advertisements"] for each in "abc"] == [{"a": [8], "c": [9]}] * 3
