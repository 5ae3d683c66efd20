"""Events of one space become events of others where they enter, and travel like all the rest."""

from __future__ import annotations

import pytest

from contentcast.catalog import PROTOCOLS, make_router
from contentcast.hosting.instant import Instant
from contentcast.language import parse_predicate, parse_transform
from contentcast.model import EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.model.transforms.transform import Transforms
from contentcast.network.topology import Topology
from contentcast.routing.contract import Deliver, Effect, Input, Published, Subscribed
from contentcast.routing.parts.seen import KEPT_EVENTS, Seen
from contentcast.routing.setup import Setup
from contentcast.wire import Publish

TRADES = Space("trades", issue="string", price="float", volume="int")
AMOUNTS = Space("amounts", symbol="string", amount="float")
BIG = parse_transform(TRADES, AMOUNTS, "SELECT issue AS symbol, price * volume AS amount FROM trades WHERE volume > 10")
LINE = Topology.of("abc", [("a", "b"), ("b", "c")])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_trade_reaches_those_who_want_trades_and_those_who_want_amounts(protocol: str) -> None:
    delivered: list[tuple[str, dict[str, object]]] = []

    def watch(broker: str, input: Input, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                delivered.extend((who, event) for who, events in effect.each() for event in events.to_dicts())

    setup = Setup(topology=LINE, transforms=Transforms([BIG]))
    network = Instant(LINE, make_router(protocol, setup), watch)
    trades = Subscription(1, parse_predicate(TRADES, "price < 120"), "desk-7")
    amounts = Subscription(2, parse_predicate(AMOUNTS, "amount >= 1000"), "risk")
    network.put("c", Subscribed(SubscriptionBatch.of(trades)))
    network.put("b", Subscribed(SubscriptionBatch.of(amounts)))
    events = [{"issue": "IBM", "price": 100.0, "volume": 20}, {"issue": "SAP", "price": 130.0, "volume": 5}]
    network.put("a", Published(EventBatch.from_dicts(TRADES, events)))
    assert sorted(delivered, key=str) == [("desk-7", events[0]), ("risk", {"symbol": "IBM", "amount": 2000.0})]


def test_what_was_here_before_goes_no_further() -> None:
    seen = Seen()
    events = EventBatch.from_dicts(TRADES, [{"price": 1.0}, {"price": 2.0}, {"price": 3.0}], ids=[10, 11, 12])
    first = seen.fresh(Publish("a", 1, 1, events.take([0, 1])))
    assert first is not None
    assert first.events.ids.to_pylist() == [10, 11]
    second = seen.fresh(Publish("a", 1, 1, events))
    assert second is not None
    assert second.events.ids.to_pylist() == [12], "by another way came one more"
    assert seen.fresh(Publish("a", 1, 1, events)) is None
    assert seen.fresh(Publish("a", 2, 1, events)) is not None, "another life of a begins to count anew"


def test_a_part_without_events_may_come_before_the_others() -> None:
    seen = Seen()
    events = EventBatch.from_dicts(TRADES, [{"price": 1.0}, {"price": 2.0}], ids=[10, 11])
    assert seen.fresh(Publish("a", 1, 1, events.take([]))) is None
    fresh = seen.fresh(Publish("a", 1, 1, events))
    assert fresh is not None
    assert fresh.events.ids.to_pylist() == [10, 11]
    assert seen.fresh(Publish("a", 1, 1, events.take([]))) is None
    assert seen.fresh(Publish("a", 1, 1, events)) is None


def test_memory_of_what_was_here_is_bounded() -> None:
    seen = Seen()
    events = EventBatch.from_dicts(TRADES, [{"price": 1.0}] * 1000)
    for serial in range(2 * KEPT_EVENTS // 1000):
        seen.fresh(Publish("a", 1, serial, events))
    (origin,) = seen._origins.values()
    assert origin.events == sum(map(len, origin.batches.values())) == KEPT_EVENTS
