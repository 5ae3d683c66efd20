"""All servers of a LAN change the mapping or none: under load, after a crash, and after a parted LAN came together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from contentcast.routing.contract import Effect, Input, Received
from contentcast.routing.setup import Setup
from contentcast.simulation.ways.segment import SegmentPlan
from contentcast.simulation.world import World
from tests.simulation.lan.stage import LAN, Operated, by_issue, operated, trades, wish


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
