"""Reliable on a LAN: everything once and in order whatever is lost, and what cannot be had any more is told."""

from __future__ import annotations

from collections import Counter

import pytest

from contentcast.language import subscription
from contentcast.matching import Scan
from contentcast.routing.multicast.members import EXPIRE_AFTER_S
from contentcast.simulation.trace import Trace
from contentcast.simulation.world import World
from tests.simulation.lan.stage import TRADES, by_issue, knows, trades, until, wish, world


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
