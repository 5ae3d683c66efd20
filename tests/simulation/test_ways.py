"""Messages by other ways than links: to any broker, and to groups of a LAN."""

from __future__ import annotations

import pytest

from contentcast.hosting.costs import FREE
from contentcast.hosting.instant import Instant
from contentcast.hosting.perform import HostError
from contentcast.network.topology import Topology
from contentcast.routing.contract import (
    DIRECT,
    LINK,
    Effect,
    Input,
    Join,
    Leave,
    Published,
    Received,
    Send,
    SendGroup,
    SendTo,
    Started,
    Subscribed,
    Via,
)
from contentcast.simulation import SimulationError, World
from contentcast.simulation.ways.links import LinkQuality
from contentcast.simulation.ways.segment import SegmentPlan
from contentcast.wire import message_bytes
from tests.simulation.routers import Plain, answering, letter
from tests.simulation.small import trade, wish

LINE = Topology.of("abc", [("a", "b", 0.010), ("b", "c", 0.025)])


def to_c(router: Plain, input: Input, now: float) -> list[Effect]:
    return [SendTo("c", letter())] if isinstance(input, Published) else []


def came(told: list[tuple[float, str, Input]]) -> list[tuple[float, str, str, Via]]:
    return [(at, broker, each.sender, each.via) for at, broker, each in told if isinstance(each, Received)]


def test_a_message_to_any_broker_takes_the_way_there_and_counts_once_and_on_every_link() -> None:
    make, told = answering(to_c)
    world = World(LINE, make, costs=FREE)
    world.put("a", trade(1), at=1.0)
    world.run()
    ((at, *rest),) = came(told)
    assert at == pytest.approx(1.035)
    assert rest == ["c", "a", DIRECT]
    totals = world.totals()
    assert (totals["direct"], totals["crossed"], totals["messages"]) == (1, 2, 2)
    assert totals["bytes"] == 2 * message_bytes(letter())
    assert {(row["sender"], row["receiver"]): row["events"] for row in world.link_loads().to_pylist()} == {
        ("a", "b"): 1,
        ("b", "a"): 0,
        ("b", "c"): 1,
        ("c", "b"): 0,
    }


def test_it_passes_a_broker_that_is_down_and_no_link_that_is_cut() -> None:
    make, told = answering(to_c)
    world = World(LINE, make, costs=FREE)
    world.crash("b", at=0.5)
    world.put("a", trade(1), at=1.0)
    world.cut("b", "c", at=2.0)
    world.put("a", trade(2), at=3.0)
    world.crash("c", at=4.0)
    world.mend("b", "c", at=4.0)
    world.put("a", trade(3), at=5.0)
    world.run()
    assert [at for at, *_ in came(told)] == [pytest.approx(1.035)], "the second had no way, the third nobody to take it"


def test_lossy_links_lose_it_and_a_network_without_links_has_one_delay() -> None:
    make, told = answering(to_c)
    world = World(LINE, make, costs=FREE, links=LinkQuality(loss=1.0))
    world.put("a", trade(1), at=1.0)
    world.run()
    assert came(told) == []
    make, told = answering(to_c)
    world = World(Topology.of("abc"), make, costs=FREE)
    world.put("a", trade(1), at=1.0)
    world.run()
    assert [at for at, *_ in came(told)] == [pytest.approx(1.05)]


def test_a_send_to_somebody_who_is_no_neighbour_is_an_error_in_every_host() -> None:
    make, _ = answering(lambda router, input, now: [Send("c", letter())] if isinstance(input, Published) else [])
    network = Instant(LINE, make)
    with pytest.raises(HostError, match=r"broker a sends to 'c'; it has links to b\. SendTo reaches any broker"):
        network.put("a", trade(1))
    world = World(LINE, make)
    world.put("a", trade(1))
    with pytest.raises(HostError, match="broker a sends to 'c'; it has links to b"):
        world.run()


def test_an_effect_that_no_host_knows_is_an_error() -> None:
    make, _ = answering(lambda router, input, now: ["sing"] if isinstance(input, Published) else [])  # type: ignore[list-item]
    with pytest.raises(HostError, match="cannot perform 'sing'; it performs Send, SendTo, SendGroup"):
        Instant(LINE, make).put("a", trade(1))


def on_a_lan(router: Plain, input: Input, now: float) -> list[Effect]:
    """b and c join when they start; a sends what is published; a subscription makes one leave."""
    match input:
        case Started() if router.broker != "a":
            return [Join("g")]
        case Published():
            return [SendGroup("g", letter())]
        case Subscribed():
            return [Leave("g")]
    return []


def test_a_group_is_sent_to_once_and_reaches_all_members_but_the_sender() -> None:
    make, told = answering(on_a_lan)
    world = World(LINE, make, costs=FREE, segments=[SegmentPlan(delay_s=0.001)])
    world.put("a", trade(1), at=1.0)
    world.put("b", trade(2), at=2.0)
    world.put("c", wish(1, "price < 1"), at=3.0)
    world.put("a", trade(3), at=4.0)
    world.run()
    group = Via("group", "g")
    assert came(told) == [
        (pytest.approx(1.001), "b", "a", group),
        (pytest.approx(1.001), "c", "a", group),
        (pytest.approx(2.001), "c", "b", group),
        (pytest.approx(4.001), "b", "a", group),
    ]
    totals = world.totals()
    assert (totals["group messages"], totals["group copies"], totals["messages"]) == (3, 4, 0)


def test_membership_takes_a_moment_and_a_parted_lan_has_two_sides() -> None:
    make, told = answering(on_a_lan)
    world = World(LINE, make, costs=FREE, segments=[SegmentPlan(join_s=2.0)])
    world.put("a", trade(1), at=1.0)
    world.put("a", trade(2), at=3.0)
    world.partition([["a", "b"]], at=4.0)
    world.put("a", trade(3), at=5.0)
    world.heal(at=6.0)
    world.put("a", trade(4), at=7.0)
    world.run()
    assert [(int(at), broker) for at, broker, *_ in came(told)] == [(3, "b"), (3, "c"), (5, "b"), (7, "b"), (7, "c")]


def test_every_receiver_loses_by_itself_and_the_same_seed_loses_the_same() -> None:
    def received(seed: int) -> list[tuple[str, int]]:
        make, told = answering(on_a_lan)
        world = World(LINE, make, seed=seed, costs=FREE, segments=[SegmentPlan(loss=0.5)])
        for number in range(200):
            world.put("a", trade(number), at=1.0 + number)
        world.run()
        return [(broker, int(at)) for at, broker, *_ in came(told)]

    first = received(1)
    assert first == received(1)
    b, c = ({at for broker, at in first if broker == name} for name in "bc")
    assert all(60 < len(each) < 140 for each in (b, c))
    assert b != c


def test_only_members_of_a_segment_hear_it() -> None:
    make, told = answering(on_a_lan)
    segments = [SegmentPlan("east", ("a", "b")), SegmentPlan("west", ("b", "c"))]
    world = World(LINE, make, costs=FREE, segments=segments)
    world.put("a", trade(1), at=1.0)
    world.put("c", trade(2), at=2.0)
    world.run()
    assert [(int(at), broker) for at, broker, *_ in came(told)] == [(1, "b"), (2, "b")]
    with pytest.raises(SimulationError, match="loss goes from 0 to 1"):
        SegmentPlan(loss=2.0)


def test_without_time_all_ways_are_there_too() -> None:
    make, told = answering(lambda router, input, now: [*on_a_lan(router, input, now), *to_c(router, input, now)])
    network = Instant(LINE, make)
    network.put("a", trade(1))
    assert [(broker, via) for _, broker, _, via in came(told)] == [
        ("b", Via("group", "g")),
        ("c", Via("group", "g")),
        ("c", DIRECT),
    ]
    assert LINK not in [via for *_, via in came(told)]
