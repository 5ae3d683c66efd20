"""Stories of a LAN in virtual time: soft state, loss and repairs, and mappings that change under load."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

import pytest

from contentcast.catalog import make_router
from contentcast.language import advertisement, subscription
from contentcast.matching import Scan
from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Effect, Input, Published, Received, SendGroup, Subscribed, Unsubscribed
from contentcast.routing.multicast import MappingId, MappingSpecification, Multicast, Row
from contentcast.routing.multicast.agreement import proposal_of
from contentcast.routing.multicast.members import EXPIRE_AFTER_S, REFRESH_EVERY_S
from contentcast.routing.setup import Life, Setup
from contentcast.simulation.trace import Trace
from contentcast.simulation.ways.segment import SegmentPlan
from contentcast.simulation.world import World
from contentcast.wire import Publish

TRADES = Space("trades", issue="string", price="float")
LAN = Topology.of(["a", "b", "c", "d"], [])
G = "udp_ipm://239.192.10.{}:6666"


def wish(number: int, text: str, client: str) -> Subscribed:
    return Subscribed(SubscriptionBatch.of(subscription(TRADES, number, text, subscriber=client)))


def trades(first: int, count: int = 1) -> Published:
    dicts = [{"issue": "IBM" if at % 2 else "SAP", "price": float(at % 100)} for at in range(first, first + count)]
    return Published(EventBatch.from_dicts(TRADES, dicts, ids=list(range(first, first + count))))


def by_issue(*issues: str, first: int = 1, id: MappingId | None = None) -> MappingSpecification:
    every = dict.fromkeys(TRADES.names, "ANY")
    rows = [
        Row(advertisement(TRADES, at, {**every, "issue": f"issue = '{issue}'"}), G.format(first + at))
        for at, issue in enumerate(issues)
    ]
    return MappingSpecification(tuple(rows), id=id or MappingId())


def world(seed: int = 1, *, loss: float = 0.0, join_s: float = 0.0, trace: Trace | None = None, **options: object) -> World:
    plan = SegmentPlan(loss=loss, join_s=join_s)
    return World(LAN, make_router("multicast", **options), seed=seed, segments=[plan], trace=trace, codec=True)


def until(world: World, fact: object, most_s: float = 60.0) -> None:
    """Lets time pass until the fact holds."""
    end = world.now + most_s
    while not fact():  # type: ignore[operator]
        assert world.now < end, "it never came true"
        world.run(until=world.now + 0.1)


def knows(world: World, one: str, other: str, wants: int) -> bool:
    member = world.router(one).state()["members"].get(other)
    return member is not None and len(member["wants"]) == wants and not member["lacks"]


# --- soft state


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


SIX = Topology.of(["a", "b", "c", "d", "e", "f"], [])


def of_six(texts: dict[str, str], **more: object) -> World:
    lan = World(SIX, make_router("multicast", hold_back=True, **more), seed=1, segments=[SegmentPlan()], codec=True)
    for number, (broker, text) in enumerate(texts.items()):
        lan.put(broker, wish(number, text, f"desk-{broker}"), at=0.1 * number)
    lan.run(until=6.0)
    return lan


def silent(lan: World, brokers: str = "abcdef") -> set[str]:
    return {each for each in brokers if lan.router(each).state().get("held back")}


def reaches_all(lan: World, publishers: str, clients: str) -> None:
    before = len(lan.delivered)
    for number, publisher in enumerate(publishers):
        lan.put(publisher, trades(100 * (before + number)), at=lan.now + 0.01 * number)
    lan.run(until=lan.now + 1.0)
    counts = Counter(client for client, _ in lan.delivered[before:])
    assert counts == {f"desk-{each}": len(publishers) for each in clients}


def test_what_three_others_tell_is_held_back_and_everybody_still_gets_everything() -> None:
    """The three with the smallest names tell; b tells more than the others want, and f wants what nobody else does."""
    lan = of_six({"a": "price < 100", "b": "price < 200", "c": "price < 100", "d": "price < 100", "e": "price < 50"})
    assert silent(lan) == {"d", "e"}
    assert lan.router("f").state()["members"]["d"]["wants"] == []
    for publisher in "abcdef":
        reaches_all(lan, publisher, "abcde")
    lan.put("f", wish(9, "price < 300", "desk-f"))
    lan.run(until=lan.now + 5.0)
    assert silent(lan) == {"d", "e"}
    reaches_all(lan, "abcdef", "abcdef")


def test_a_want_that_was_held_back_is_told_when_another_leaves() -> None:
    """At once by all who are in doubt; at the next refresh those whom it does not need keep silent again."""
    lan = of_six(dict.fromkeys("abcdef", "price < 100"))
    assert silent(lan) == {"d", "e", "f"}
    lan.leave("b")
    lan.run(until=lan.now + 0.1)
    assert "d" not in silent(lan, "acdef")
    reaches_all(lan, "acdef", "acdef")
    lan.run(until=lan.now + 5.0)
    assert silent(lan, "acdef") == {"e", "f"}
    lan.put("a", Unsubscribed((0,)))
    lan.run(until=lan.now + 0.1)
    assert "e" not in silent(lan, "acdef")
    reaches_all(lan, "acdef", "cdef")


def test_a_want_that_was_held_back_is_told_before_those_who_told_it_are_forgotten() -> None:
    lan = of_six(dict.fromkeys("abcdef", "price < 100"))
    for broker in "abc":
        lan.crash(broker)
    lan.run(until=lan.now + EXPIRE_AFTER_S - 0.1)
    assert silent(lan, "def") == set()
    lan.run(until=lan.now + 3.0)
    reaches_all(lan, "def", "def")


def test_nothing_is_held_back_that_is_wanted_reliably() -> None:
    lan = of_six(dict.fromkeys("abcdef", "price < 100"), quality="reliable")
    assert silent(lan) == set()


def test_groups_are_left_some_time_after_nobody_needs_them() -> None:
    lan = world(mapping=by_issue("IBM", "SAP"))
    lan.put("b", wish(1, "issue = 'IBM'", "desk"))
    lan.run()
    assert lan.router("b").state()["groups"] == [G.format(1)]
    lan.put("b", Unsubscribed((1,)))
    lan.run(until=lan.now + 1)
    assert lan.router("b").state()["groups"] == [G.format(1)]
    until(lan, lambda: lan.router("b").state()["groups"] == [])


# --- reliable


def exactly_once(lan: World, events: range, wanted: dict[str, str]) -> None:
    """The oracle says who gets what; everybody got it once."""
    scans = {client: Scan(TRADES) for client in wanted}
    for client, text in wanted.items():
        scans[client].add(1, subscription(TRADES, 1, text).predicate)
    expected = Counter(
        (client, number)
        for number in events
        for client in wanted
        if scans[client].match({"issue": "IBM" if number % 2 else "SAP", "price": float(number % 100)})
    )
    assert Counter(lan.delivered) == expected


WANTED = {"desk-b": "price < 50", "desk-c": "issue = 'IBM'", "desk-d": "TRUE"}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", [0.01, 0.3])
def test_reliable_is_exactly_once_and_in_order_under_loss(seed: int, loss: float) -> None:
    lan = world(seed, loss=loss, quality="reliable", mapping=by_issue("IBM", "SAP"))
    for number, (client, text) in enumerate(WANTED.items()):
        lan.put(client[-1], wish(number, text, client))
    until(lan, lambda: all(knows(lan, "a", other, 1) for other in "bcd"))
    start = lan.now
    for number in range(300):
        lan.put("a", trades(number), at=start + 0.001 * number)
    lan.run()
    exactly_once(lan, range(300), WANTED)
    for client in WANTED:
        for issue in (0, 1):  # a group each
            mine = [event for name, event in lan.delivered if name == client and event % 2 == issue]
            assert mine == sorted(mine)
    assert sum(lan.router(each).state()["streams"]["lost"] for each in "abcd") == 0


def test_best_effort_loses_what_the_network_loses() -> None:
    """The same LAN without repairs: so the test above can fail."""
    lan = world(0, loss=0.3, mapping=by_issue("IBM", "SAP"))
    for number, (client, text) in enumerate(WANTED.items()):
        lan.put(client[-1], wish(number, text, client))
    until(lan, lambda: all(knows(lan, "a", other, 1) for other in "bcd"))
    lan.put("a", trades(0, 300))
    lan.run()
    for number in range(300, 600):
        lan.put("a", trades(number), at=lan.now + 0.001 * (number - 300))
    lan.run()
    with pytest.raises(AssertionError):
        exactly_once(lan, range(600), WANTED)


def test_the_loss_of_the_last_message_is_noticed() -> None:
    """An idle sender repeats its last number."""
    lan = world(quality="reliable")
    lan.put("b", wish(1, "TRUE", "desk"))
    lan.run()
    lan.partition([["a"]])
    lan.put("a", trades(1))
    lan.run(until=lan.now + 0.1)
    assert lan.delivered == []
    lan.heal()
    assert lan.run(until=lan.now + 3.0).delivered == [("desk", 1)]


def test_who_comes_late_is_not_handed_what_was_before() -> None:
    lan = world(quality="reliable")
    lan.put("b", wish(1, "TRUE", "early"))
    lan.run()
    lan.put("a", trades(0, 1))
    lan.run()
    lan.put("c", wish(2, "TRUE", "late"))
    lan.run()
    lan.put("a", trades(1, 1))
    lan.run()
    assert Counter(lan.delivered) == Counter([("early", 0), ("early", 1), ("late", 1)])


def test_what_a_sender_no_longer_has_is_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contentcast.routing.multicast.streams.KEPT_MESSAGES", 5)
    lan = world(quality="reliable")
    lan.put("b", wish(1, "TRUE", "desk"))
    lan.run()
    lan.partition([["a"]])
    for number in range(20):
        lan.put("a", trades(number), at=lan.now + 0.01 * number)
    lan.run(until=lan.now + 1)
    lan.heal()
    lan.run()
    assert [event for _, event in lan.delivered] == [15, 16, 17, 18, 19]
    assert lan.router("b").state()["streams"]["lost"] == 15
    # The host is told, once, and tells the subscribers.
    streams = lan.router("b").streams  # type: ignore[attr-defined]
    gaps = streams.take_gaps()
    assert [(gap.sender, gap.group) for gap in gaps] == [("a", gaps[0].group)] * len(gaps)
    assert sum(gap.messages for gap in gaps) == 15
    assert streams.take_gaps() == []


def test_a_sender_that_is_gone_leaves_a_gap_that_is_told() -> None:
    """a dies before it has repeated what b lacks: the rest is handed over in order, and what is missing is told."""
    lan = world(seed=4, loss=0.5, quality="reliable")
    lan.put("b", wish(1, "TRUE", "desk"))
    until(lan, lambda: knows(lan, "a", "b", 1))
    start = lan.now
    for number in range(20):
        lan.put("a", trades(number), at=start + 0.0001 * number)
    lan.crash("a", at=start + 0.00205)
    lan.run(until=start + EXPIRE_AFTER_S + 3)
    came = [event for _, event in lan.delivered]
    gaps = lan.router("b").streams.take_gaps()  # type: ignore[attr-defined]
    missing = sum(gap.messages for gap in gaps)
    assert came == sorted(set(came))
    assert {gap.sender for gap in gaps} == {"a"}
    assert 0 < came[-1] + 1 - len(came) <= missing <= 20 - len(came)


# --- the mapping changes


class Operated(Multicast):
    """A server whose operator proposes a mapping at a time: what a host does with a message of `contentcast lan map set`."""

    plans: ClassVar[dict[str, list[tuple[float, MappingSpecification]]]] = {}

    def handle(self, input: Input, now: float) -> list[Effect]:
        due = [each for each in self.plans.get(self.broker, ()) if each[0] <= now]
        effects = super().handle(input, now)
        for each in due:
            self.plans[self.broker].remove(each)
            effects += super().handle(Received("operator", replace(proposal_of(each[1]), number=0)), now)
        return effects


def operated(seed: int, plans: dict[str, list[tuple[float, MappingSpecification]]], **more: object) -> World:
    Operated.plans = plans

    def make(broker: str, life: Life) -> Multicast:
        return Operated(broker, Setup().living(life), mapping=by_issue("IBM", "SAP"))

    return World(LAN, make, seed=seed, codec=True, segments=[SegmentPlan(join_s=0.01)], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
def test_a_mapping_changes_under_load_without_loss_or_doubling(seed: int) -> None:
    """Two servers propose different mappings at nearly the same time, while all publish and one of them is stalled."""
    one, other = by_issue("SAP", first=50), by_issue("IBM", "SAP", first=60)
    lan = operated(seed, {"a": [(3.0, one)], "c": [(3.0 + 0.001 * seed, other)]})
    for number, broker in enumerate("abcd"):
        lan.put(broker, wish(number, "TRUE", f"desk-{broker}"))
    lan.stall("b", 0.3, at=3.01)
    for number in range(800):
        lan.put("abcd"[number % 4], trades(number), at=2.5 + 0.002 * number)
    lan.run()
    assert Counter(lan.delivered) == Counter((f"desk-{each}", number) for each in "abcd" for number in range(800))
    states = [lan.router(each).state() for each in "abcd"]
    assert len({state["mapping"]["uses"] for state in states}) == 1
    assert states[0]["mapping"]["uses"][0] >= 1
    assert all(state["mapping"]["hears"] == [state["mapping"]["uses"]] for state in states)
    used = {group for state in states for group, counts in state["traffic"].items() if counts["sent"]}
    assert len(used) > 2  # the old groups and new ones


def test_who_was_away_catches_up() -> None:
    lan = operated(1, {"a": [(3.0, by_issue("IBM", first=50))]})
    for number, broker in enumerate("abcd"):
        lan.put(broker, wish(number, "TRUE", f"desk-{broker}"))
    lan.crash("d", at=2.0)
    lan.run(until=15.0)
    assert lan.router("a").state()["mapping"]["uses"] == (1, "a")
    lan.restart("d")
    lan.run()
    assert lan.router("d").state()["mapping"]["uses"] == (1, "a")
    lan.put("d", trades(1))
    lan.run()
    assert sorted(client for client, _ in lan.delivered) == ["desk-a", "desk-b", "desk-c", "desk-d"]


def test_both_halves_of_a_parted_lan_change_and_agree_when_it_is_whole_again() -> None:
    lan = operated(2, {"a": [(12.0, by_issue("IBM", first=50))], "c": [(12.0, by_issue("SAP", first=70))]})
    for number, broker in enumerate("abcd"):
        lan.put(broker, wish(number, "TRUE", f"desk-{broker}"))
    lan.run(until=2.0)
    lan.partition([["a", "b"]])
    lan.run(until=20.0)
    assert [lan.router(each).state()["mapping"]["uses"] for each in "abcd"] == [(1, "a"), (1, "a"), (1, "c"), (1, "c")]
    lan.heal()
    for number in range(2000):  # as soon as somebody is known again, it gets everything once
        lan.put("a", trades(number), at=lan.now + 0.005 * number)
    lan.run()
    counts = Counter(lan.delivered)
    assert set(counts.values()) == {1}
    for client in ("desk-c", "desk-d"):
        mine = sorted(event for name, event in counts if name == client)
        first = next(each for each in mine if each % 2)  # even ones come by a group that both halves have joined anyway
        assert [each for each in mine if each >= first] == list(range(first, 2000)), "once heard of, nothing was missed"
    assert {lan.router(each).state()["mapping"]["uses"] for each in "abcd"} == {(1, "c")}


def test_a_mapping_that_one_server_cannot_accept_is_used_by_nobody() -> None:
    class Narrow(Operated):
        def handle(self, input: Input, now: float) -> list[Effect]:
            if self.broker == "d" and isinstance(input, Received) and type(input.message).__name__ == "Proposal":
                input = replace(input, message=replace(input.message, otherwise=()))  # what it reads is not valid
            return super().handle(input, now)

    Operated.plans = {"a": [(3.0, by_issue("IBM", first=50))]}
    lan = World(
        LAN, lambda broker, life: Narrow(broker, Setup().living(life), mapping=by_issue("IBM", "SAP")), segments=[SegmentPlan()]
    )
    for number, broker in enumerate("abcd"):
        lan.put(broker, wish(number, "TRUE", f"desk-{broker}"))
    lan.run(until=6.0)
    lan.put("a", trades(1))
    lan.run()
    assert {lan.router(each).state()["mapping"]["uses"] for each in "abcd"} == {(0, "")}
    assert lan.router("a").state()["mapping"]["held up by"] == {"1 by a": ["d"]}
    assert "needs at least one group" in str(lan.router("d").state()["mapping"]["refused"])
    assert Counter(lan.delivered) == Counter((f"desk-{each}", 1) for each in "abcd")


def test_same_seed_same_trace() -> None:
    traces = []
    for _ in range(2):
        trace = Trace()
        lan = world(5, loss=0.2, quality="reliable", trace=trace)
        lan.put("b", wish(1, "TRUE", "desk"))
        lan.put("a", trades(1, 5), at=3.0)
        lan.run(until=10.0)
        traces.append(trace.digest())
    assert traces[0] == traces[1]


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
