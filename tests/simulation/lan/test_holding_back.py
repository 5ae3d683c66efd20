"""What three others tell is held back, is told when they become fewer, and never when it may come reliably."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from contentcast.catalog import make_router
from contentcast.language import advertisement, parse_predicate
from contentcast.network.topology import Topology
from contentcast.routing.contract import Advertised, Received, SendGroup, Unsubscribed
from contentcast.routing.multicast import MappingSpecification
from contentcast.routing.multicast.agreement import proposal_of
from contentcast.routing.multicast.mapping import Quality
from contentcast.routing.multicast.members import EXPIRE_AFTER_S
from contentcast.simulation.ways.segment import SegmentPlan
from contentcast.simulation.world import World
from contentcast.wire.multicast import Proposal, Wants
from tests.simulation.lan.stage import TRADES, by_issue, trades, wish

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


def of_six_by(quality: Quality) -> World:
    rows = tuple(replace(row, quality=quality) for row in by_issue("IBM").rows)
    return of_six(dict.fromkeys("abcde", "issue = 'IBM'"), mapping=MappingSpecification(rows))


def loses_its_first_event(lan: World, client: str) -> None:
    """f publishes its first event while the client's server hears nothing for a moment."""
    lan.partition([[client[-1]]])
    lan.put("f", trades(1))
    lan.run(until=lan.now + 0.1)
    assert client not in dict(lan.delivered)
    lan.heal()
    lan.run(until=lan.now + 3.0)


def test_the_first_message_by_a_reliable_row_is_repeated_to_whom_it_did_not_reach() -> None:
    lan = of_six_by("reliable")
    assert silent(lan) == set()
    loses_its_first_event(lan, "desk-e")
    assert Counter(lan.delivered) == Counter((f"desk-{each}", 1) for each in "abcde")


def test_by_best_effort_the_same_message_is_lost() -> None:
    """So the tests around this one can fail."""
    lan = of_six_by("best effort")
    assert silent(lan) == {"d", "e"}
    loses_its_first_event(lan, "desk-e")
    assert Counter(lan.delivered) == Counter((f"desk-{each}", 1) for each in "abcd")


def test_the_first_message_that_was_advertised_as_reliable_is_repeated() -> None:
    lan = of_six_by("best effort")
    every = dict.fromkeys(TRADES.names, "ANY")
    lan.router("f").promised.add(1, parse_predicate(TRADES, "issue = 'IBM'"))  # type: ignore[attr-defined]
    lan.put("f", Advertised((advertisement(TRADES, 1, every),)))
    lan.run(until=lan.now + 0.1)
    assert silent(lan) == set()
    loses_its_first_event(lan, "desk-e")
    assert Counter(lan.delivered) == Counter((f"desk-{each}", 1) for each in "abcde")


def test_a_mapping_that_gets_a_reliable_row_has_everything_told_before_it_is_used() -> None:
    lan = of_six_by("best effort")
    assert silent(lan) == {"d", "e"}
    rows = tuple(replace(row, quality="reliable") for row in by_issue("IBM", first=50).rows)
    wished = replace(proposal_of(MappingSpecification(rows)), number=0)
    effects = lan.router("e").handle(Received("operator", wished), lan.now)
    told = [each.message for each in effects if isinstance(each, SendGroup)]
    assert [type(each) for each in told] == [Proposal, Wants]
    assert [batch.ids.tolist() for batch in told[1].added] == [[1]]


def test_who_held_back_is_not_handed_what_was_before_its_subscription() -> None:
    lan = of_six_by("reliable")
    lan.put("a", trades(1))
    lan.run(until=lan.now + 1.0)
    lan.put("f", wish(9, "issue = 'IBM'", "late"))
    lan.put("a", trades(3), at=lan.now + 1.0)
    lan.run(until=lan.now + 5.0)
    assert [event for client, event in lan.delivered if client == "late"] == [3]
