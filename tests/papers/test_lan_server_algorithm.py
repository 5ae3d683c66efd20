"""Eide et al. 2003, section 5.5, "Outline of Server Algorithm": every clause, quoted, on a router alone.

`b` is the server that is looked at; `a` and `c` are others, whose messages are handed to it.
"""

from __future__ import annotations

from contentcast.language import subscription
from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.routing.contract import (
    Deliver,
    Effect,
    Join,
    Leave,
    Published,
    Received,
    SendGroup,
    Started,
    Subscribed,
    Timer,
    TimerFired,
    Unsubscribed,
    Via,
)
from contentcast.routing.multicast import MappingSpecification, Multicast
from contentcast.routing.multicast.agreement import proposal_of
from contentcast.routing.multicast.members import EXPIRE_AFTER_S
from contentcast.routing.multicast.server import LEAVE_AFTER_S
from contentcast.routing.setup import Setup
from contentcast.wire import Publish
from contentcast.wire.multicast import Wants
from tests.papers.test_lan_multicast import NOTIFICATION, TABLE_5, VIDEO, WANTED, group, stripe

CONTROL = TABLE_5.control
LEFT = "block_h >= 0 AND block_h < 2"


def server(name: str = "b") -> Multicast:
    made = Multicast(name, Setup(), mapping=TABLE_5)
    made.handle(Started(), 0.0)
    return made


def subscribe(server: Multicast, number: int, text: str, client: str, now: float = 0.0) -> list[Effect]:
    return server.handle(Subscribed(SubscriptionBatch.of(subscription(VIDEO, number, text, subscriber=client))), now)


def told(effects: list[Effect]) -> list[Wants]:
    """What the other servers are told on the control group."""
    sent = [each for each in effects if isinstance(each, SendGroup) and isinstance(each.message, Wants)]
    assert {each.group for each in sent} <= {CONTROL}
    return [each.message for each in sent if isinstance(each.message, Wants)]


def hear(server: Multicast, sender: str, wants: list[Wants], now: float = 0.0) -> None:
    for each in wants:
        server.handle(Received(sender, each, Via("group", CONTROL)), now)


def knowing(*others: Multicast) -> Multicast:
    """b, when it has heard of these others."""
    b = server()
    for each in others:
        hear(b, each.broker, told(wake(each, "answer", 0.0)))
    return b


def publish(server: Multicast, now: float = 1.0, **more: object) -> tuple[list[str], list[str]]:
    """The groups to which the notification of table 2 is sent, and the clients that are called."""
    effects = server.handle(Published(EventBatch.from_dicts(VIDEO, [{**NOTIFICATION, **more}])), now)
    sent = [each.group for each in effects if isinstance(each, SendGroup) and isinstance(each.message, Publish)]
    return sent, called(effects)


def called(effects: list[Effect]) -> list[str]:
    return sorted(client for each in effects if isinstance(each, Deliver) for client, _ in each.each())


def wake(server: Multicast, timer: str, now: float) -> list[Effect]:
    return server.handle(TimerFired(Timer(timer)), now)


def test_periodically_1() -> None:
    """'Forwards aggregated subscriptions to the other servers'"""
    b = server()
    subscribe(b, 1, WANTED, "screen")
    subscribe(b, 2, f"{WANTED} AND {LEFT}", "phone")
    subscribe(b, 3, "block_h = 44", "edge")
    (wants,) = told(wake(b, "refresh", 2.0))
    assert wants.since == 0  # everything, also for who has heard nothing before
    assert sum(len(batch.ids) for batch in wants.added) == 2  # the second is part of the first


def test_periodically_2() -> None:
    """'time out subscriptions which have not been refreshed'"""
    a = server("a")
    b = knowing(a)
    hear(b, "a", told(subscribe(a, 1, WANTED, "screen")), now=0.0)
    assert publish(b, now=EXPIRE_AFTER_S - 0.1) == ([group(2)], [])
    wake(b, "expire", EXPIRE_AFTER_S - 0.1)
    assert "a" in b.state()["members"]
    wake(b, "expire", EXPIRE_AFTER_S)
    assert publish(b, now=EXPIRE_AFTER_S) == ([], [])


def test_periodically_3() -> None:
    """'time out unused packet senders and packet receivers': a group is left; one socket sends to all groups."""
    b = server()
    subscribe(b, 1, f"{WANTED} AND {LEFT}", "screen")
    b.handle(Unsubscribed((1,)), 10.0)
    assert Leave(group(2)) not in wake(b, "refresh", 10.0 + LEAVE_AFTER_S - 0.1)
    assert Leave(group(2)) in wake(b, "refresh", 10.0 + LEAVE_AFTER_S)


def test_when_one_of_its_interested_parties_subscribes() -> None:
    """'Unless the subscription is covered by earlier subscriptions made by its interested parties, immediately forwards the
    subscription to the other servers'"""
    b = server()
    assert len(told(subscribe(b, 1, WANTED, "screen"))) == 1
    assert told(subscribe(b, 2, f"{WANTED} AND {LEFT}", "phone")) == []
    assert told(subscribe(b, 3, WANTED, "tablet")) == []
    assert len(told(subscribe(b, 4, "media_type = 'video'", "archive"))) == 1


def test_when_a_subscription_is_received_from_another_server() -> None:
    """'Stores/resets timeout value for the received subscription'"""
    a = server("a")
    b = knowing(a)
    hear(b, "a", told(subscribe(a, 1, WANTED, "screen")), now=0.0)
    hear(b, "a", told(wake(a, "refresh", 5.0)), now=5.0)
    wake(b, "expire", EXPIRE_AFTER_S)
    assert publish(b, now=EXPIRE_AFTER_S) == ([group(2)], [])
    wake(b, "expire", 5.0 + EXPIRE_AFTER_S)
    assert publish(b, now=5.0 + EXPIRE_AFTER_S) == ([], [])


def test_when_a_notification_is_received_from_one_of_its_objects_of_interest_1() -> None:
    """'Unless the notification is not of interest to any other server, forwards the notification to the multicast address
    associated with a covering advertisement filter': once, however many want it."""
    a, c = server("a"), server("c")
    b = knowing(a, c)
    assert publish(b) == ([], [])
    hear(b, "a", told(subscribe(a, 1, WANTED, "screen")))
    hear(b, "c", told(subscribe(c, 1, "media_type = 'video'", "archive")))
    assert publish(b) == ([group(2)], [])
    assert publish(b, block_h=12) == ([group(4)], [])  # c alone wants it
    assert publish(b, media_type="audio") == ([], [])


def test_when_a_notification_is_received_from_one_of_its_objects_of_interest_2() -> None:
    """'notifies by method call each of its interested parties which have subscriptions covering the notification'"""
    b = server()
    for number, (client, text) in enumerate({"screen": WANTED, "phone": LEFT, "edge": "block_h = 44"}.items()):
        subscribe(b, number, text, client)
    assert publish(b) == ([], ["phone", "screen"])


def test_when_a_notification_is_received_from_one_of_the_other_servers() -> None:
    """'Notifies its interested parties which have subscriptions covering the notification, by method calls': filtered again,
    since a group carries what others want as well (section 4.3.4)."""
    b = server()
    subscribe(b, 1, f"{WANTED} AND block_h = 1", "phone")
    for serial, (column, expected) in enumerate([(1, ["phone"]), (0, [])], start=1):
        events = EventBatch.from_dicts(VIDEO, [{**NOTIFICATION, "block_h": column}])
        b.handle(Received("a", Publish("a", 1, serial, events), Via("group", group(2))), 1.0)
        assert called(wake(b, "serve", 1.0)) == expected
    assert b.state()["traffic"][group(2)] == {"sent": 0, "received": 2, "wanted": 1, "discarded": 1}


def test_on_demand_1() -> None:
    """'Instantiates packet senders/receivers': a group is joined for the first subscription that needs it; to send, none is."""
    a, b = server("a"), server()
    assert b.state()["groups"] == []
    assert [each for each in subscribe(b, 1, WANTED, "screen") if isinstance(each, Join)] == [Join(group(2)), Join(group(3))]
    assert not any(isinstance(each, Join) for each in subscribe(b, 2, LEFT + " AND media_type = 'video'", "phone")[2:])
    hear(a, "b", told(wake(b, "refresh", 1.0)))
    assert publish(a) == ([group(2)], [])
    assert a.state()["groups"] == []


def test_on_demand_2() -> None:
    """'updates mapping specification': and subscriptions are checked against the new one (section 4.3.5)."""
    b = server()
    subscribe(b, 1, f"{WANTED} AND {LEFT}", "screen")
    new = MappingSpecification((stripe(7, 0, 45),), (group(5),), CONTROL)
    effects = b.handle(Received("operator", proposal_of(new)), 1.0)
    assert Join(group(7)) in effects
    wake(b, "joined", 2.0)
    assert b.agreement.uses == (1, "b")
