"""Soft state of a LAN: who is silent is forgotten, what was lost is asked for, and an event is sent once."""

from __future__ import annotations

from collections import Counter

from contentcast.routing.contract import Effect, Input, SendGroup, Unsubscribed
from contentcast.routing.multicast import Multicast
from contentcast.routing.multicast.members import EXPIRE_AFTER_S, REFRESH_EVERY_S
from contentcast.routing.setup import Setup
from contentcast.simulation.world import World
from contentcast.wire import Publish
from tests.simulation.lan.stage import LAN, G, by_issue, knows, trades, until, wish, world


def test_who_is_silent_is_forgotten_and_remembered_when_it_is_back() -> None:
    lan = world()
    lan.put("b", wish(1, "price < 50", "desk"))
    lan.run()
    lan.crash("b")
    lan.put("a", trades(1), at=lan.now + EXPIRE_AFTER_S + 1)
    lan.run()
    assert "b" not in lan.router("a").state()["members"]
    assert lan.router("a").state()["kept back"] == 1
    lan.restart("b")
    lan.run()
    lan.put("a", trades(2))
    assert lan.run().delivered == [("desk", 2)]


def test_who_leaves_in_order_is_forgotten_at_once() -> None:
    lan = world()
    lan.put("b", wish(1, "price < 50", "desk"))
    lan.run()
    lan.leave("b")
    lan.run(until=lan.now + 0.1)
    assert "b" not in lan.router("a").state()["members"]


def test_a_change_that_was_lost_is_asked_for() -> None:
    """With half of all copies lost, everybody knows what everybody wants after some refreshes."""
    lan = world(seed=3, loss=0.5, hold_back=True)
    for number in range(6):
        lan.put(
            "bcd"[number % 3],
            wish(number, f"price BETWEEN {10 * number} AND {10 * number + 5}", f"desk-{number}"),
            at=0.1 * number,
        )
    lan.run(until=1.0)
    until(lan, lambda: all(knows(lan, one, other, 2) for one in "abcd" for other in "bcd" if one != other))


def test_a_parted_lan_works_on_both_sides_and_comes_together() -> None:
    lan = world()
    for number, broker in enumerate("abcd"):
        lan.put(broker, wish(number, "TRUE", f"desk-{broker}"))
    lan.run()
    lan.partition([["a", "b"]])
    lan.put("a", trades(1), at=lan.now + EXPIRE_AFTER_S + 1)
    lan.put("c", trades(2), at=lan.now + EXPIRE_AFTER_S + 1)
    lan.run()
    assert Counter(lan.delivered) == Counter([("desk-a", 1), ("desk-b", 1), ("desk-c", 2), ("desk-d", 2)])
    lan.heal()
    lan.run(until=lan.now + 2 * REFRESH_EVERY_S)
    lan.put("a", trades(3))
    lan.run()
    assert sorted(client for client, event in lan.delivered if event == 3) == ["desk-a", "desk-b", "desk-c", "desk-d"]


def test_groups_are_left_some_time_after_nobody_needs_them() -> None:
    lan = world(mapping=by_issue("IBM", "SAP"))
    lan.put("b", wish(1, "issue = 'IBM'", "desk"))
    lan.run()
    assert lan.router("b").state()["groups"] == [G.format(1)]
    lan.put("b", Unsubscribed((1,)))
    lan.run(until=lan.now + 1)
    assert lan.router("b").state()["groups"] == [G.format(1)]
    until(lan, lambda: lan.router("b").state()["groups"] == [])


def test_each_event_is_sent_once() -> None:
    sent: list[tuple[str, str]] = []

    class Watched(Multicast):
        def handle(self, input: Input, now: float) -> list[Effect]:
            effects = super().handle(input, now)
            sent.extend(
                (self.broker, each.group)
                for each in effects
                if isinstance(each, SendGroup) and isinstance(each.message, Publish)
            )
            return effects

    lan = World(LAN, lambda broker, life: Watched(broker, Setup().living(life), mapping=by_issue("IBM")))
    for number, broker in enumerate("bcd"):
        lan.put(broker, wish(number, "TRUE", broker))
    lan.put("a", trades(1), at=1.0)
    lan.run()
    assert sent == [("a", G.format(1))]
