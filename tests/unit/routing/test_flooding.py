"""Flooding where clients filter, as the paper's does: every client that wants anything gets every event."""

import numpy as np
import pytest

from contentcast.language import parse_many
from contentcast.model import ContentcastError, EventBatch, Space, SubscriptionBatch
from contentcast.network.named import network
from contentcast.routing.contract import Account, Deliver, Published, Send, Subscribed, Unsubscribed
from contentcast.routing.flooding import Flooding
from contentcast.routing.setup import Setup

TRADES = Space("trades", issue="string", price="int")
EVENTS = EventBatch.from_dicts(TRADES, [{"issue": "IBM", "price": 100}, {"issue": "SUN", "price": 7}])


def flooding(filter_at: str) -> Flooding:
    router = Flooding("b1", Setup(topology=network("line:3")), filter_at=filter_at)
    wanted = parse_many(TRADES, ["issue = 'IBM'", "price > 1000", "price < 10"])
    router.handle(Subscribed(SubscriptionBatch.columns(np.arange(3), wanted, ["desk-1", "desk-1", "desk-2"])), 0.0)
    return router


def delivered(router: Flooding) -> list[tuple[str, list[str]]]:
    (deliver,) = (each for each in router.handle(Published(EVENTS), 1.0) if isinstance(each, Deliver))
    return [(client, [each["issue"] for each in events.to_dicts()]) for client, events in deliver.each()]


def test_clients_that_filter_get_everything_once() -> None:
    assert delivered(flooding("client")) == [("desk-1", ["IBM", "SUN"]), ("desk-2", ["IBM", "SUN"])]
    assert delivered(flooding("broker")) == [("desk-1", ["IBM"]), ("desk-2", ["SUN"])]


def test_a_broker_whose_clients_filter_matches_nothing_and_sends_the_same() -> None:
    kinds = {where: flooding(where).handle(Published(EVENTS), 1.0) for where in ("client", "broker")}
    assert not any(isinstance(each, Account) for each in kinds["client"])
    assert any(isinstance(each, Account) for each in kinds["broker"])
    sends = [[each.link for each in effects if isinstance(each, Send)] for effects in kinds.values()]
    assert sends == [["b2"], ["b2"]]


def test_a_client_that_wants_nothing_any_more_gets_nothing() -> None:
    router = flooding("client")
    router.handle(Unsubscribed((2,)), 0.5)
    assert [client for client, _ in delivered(router)] == ["desk-1"]
    router.handle(Unsubscribed((0, 1)), 1.5)
    assert not any(isinstance(each, Deliver) for each in router.handle(Published(EVENTS), 2.0))


def test_elsewhere_nobody_filters() -> None:
    with pytest.raises(ContentcastError, match="'broker' or 'client', got 'hub'"):
        flooding("hub")
