"""Brokers start, stop, join and leave; their disks keep what was synced; and the world becomes quiet although timers stand."""

from __future__ import annotations

import pytest

from contentcast.catalog import make_router
from contentcast.hosting.costs import FREE
from contentcast.hosting.instant import Instant
from contentcast.network.topology import Topology, TopologyError
from contentcast.routing.contract import (
    Append,
    Changed,
    Effect,
    Input,
    LinkLost,
    LinkUp,
    Published,
    Received,
    Send,
    SendTo,
    SetTimer,
    Started,
    Stopping,
    Synced,
    Timer,
    TimerFired,
)
from contentcast.routing.setup import Setup
from contentcast.simulation import SimulationError, Trace, World
from tests.simulation.routers import Plain, answering, letter
from tests.simulation.small import trade, wish

PAIR = Topology.of("ab", [("a", "b", 0.010)])


def kinds(told: list[tuple[float, str, Input]], broker: str) -> list[str]:
    return [type(each).__name__ for _, name, each in told if name == broker]


# --- life


def test_a_router_is_started_first_and_told_when_it_stops() -> None:
    make, told = answering(lambda router, input, now: [Send("a", letter())] if isinstance(input, Stopping) else [])
    world = World(PAIR, make, costs=FREE)
    world.leave("b", at=1.0)
    world.run()
    assert kinds(told, "b") == ["Started", "LinkUp", "Stopping"]
    assert kinds(told, "a") == ["Started", "LinkUp", "Received", "LinkLost"], "what it sent while it stopped still arrives"
    assert world.topology.brokers == ("a",)
    with pytest.raises(TopologyError, match="no broker 'b'"):
        world.crash("b")


def test_dice_differ_between_brokers_and_lives_and_are_the_same_for_the_same_seed() -> None:
    def thrown(seed: int) -> list[float]:
        found: list[float] = []

        def throw(router: Plain, input: Input, now: float) -> list[Effect]:
            if isinstance(input, Started):
                found.append(router.life.dice.random())
            return []

        world = World(PAIR, answering(throw)[0], seed=seed)
        world.crash("b", at=1.0)
        world.restart("b", at=2.0)
        world.run()
        return found

    assert thrown(1) == thrown(1) != thrown(2)
    assert len(set(thrown(1))) == 3
    assert all(0 <= each < 1 for each in thrown(1))


def test_a_broker_joins_a_running_network_and_its_clients_are_served() -> None:
    world = World(PAIR, make_router("link-matching"), costs=FREE)
    world.put("a", wish(1, "price < 120"))
    world.join("c", [("b", 0.005)], at=1.0)
    world.run(until=1.0)
    world.put("c", wish(2, "price < 110", "desk-c"), at=2.0)
    world.put("c", trade(1, price=115.0), at=3.0)
    world.put("a", trade(2, price=100.0), at=3.0)
    world.run()
    assert sorted(world.delivered) == [("desk-7", 1), ("desk-7", 2), ("desk-c", 2)]
    world.leave("c")
    world.run()
    world.put("a", trade(3, price=100.0))
    world.run()
    assert world.delivered[3:] == [("desk-7", 3)]
    assert world.router("a").state()["links"] == {"b": 0.01}
    world.join("c", [("a", 0.002)])
    world.run()
    assert world.incarnation("c") == 2
    assert set(world.router("c").state()["links"]) == {"a"}


def test_a_broker_that_is_down_cannot_leave_in_order() -> None:
    world = World(PAIR, answering(lambda *_: [])[0])
    world.crash("b")
    with pytest.raises(SimulationError, match="broker b is down; restart it before it can leave in order"):
        world.leave("b")


def test_a_network_without_time_starts_and_stops_its_brokers_too() -> None:
    make, told = answering(lambda *_: [])
    network = Instant(PAIR, make)
    network.leave("b")
    assert kinds(told, "b") == ["Started", "LinkUp", "Stopping"]


# --- the disk


def writes(router: Plain, input: Input, now: float) -> list[Effect]:
    """Every publication is a record."""
    if isinstance(input, Published):
        return [Append(f"record {input.events.ids[0].as_py()}".encode())]
    return []


def restored(told: list[tuple[float, str, Input]]) -> list[tuple[bytes, ...]]:
    return [each.restored for _, broker, each in told if broker == "a" and isinstance(each, Started)]


def test_what_was_synced_is_there_after_a_crash_and_what_was_not_may_be_torn() -> None:
    survived = set()
    for seed in range(40):
        make, told = answering(writes)
        world = World(PAIR, make, costs=FREE, seed=seed, sync_s=0.010)
        world.put("a", trade(1), at=1.0)
        world.put("a", trade(2), at=1.001)
        world.put("a", trade(3), at=1.002)
        world.crash("a", at=1.015)
        world.restart("a", at=2.0)
        world.run()
        first, second = restored(told)
        assert first == ()
        assert second[:1] == (b"record 1",), "it was told Synced(1)"
        assert list(second) == [b"record 1", b"record 2", b"record 3"][: len(second)], "whole records, from the beginning"
        survived.add(len(second))
        assert [each.upto for _, _, each in told if isinstance(each, Synced)] == [1]
    assert survived == {1, 2, 3}, "a crash may leave any part of what was being written"


def test_syncs_come_together_and_records_are_numbered_over_all_lives() -> None:
    make, told = answering(writes)
    world = World(PAIR, make, costs=FREE, sync_s=0.010)
    for number, at in ((1, 1.0), (2, 1.001), (3, 1.002)):
        world.put("a", trade(number), at=at)
    world.run()
    world.crash("a")
    world.restart("a")
    world.put("a", trade(4), at=3.0)
    world.run()
    assert [(round(at, 3), each.upto) for at, _, each in told if isinstance(each, Synced)] == [(1.01, 1), (1.02, 3), (3.01, 4)]
    assert restored(told)[1] == (b"record 1", b"record 2", b"record 3")


def test_a_disk_that_would_acknowledge_before_the_sync_is_caught() -> None:
    """The check of this suite can fail: a record that was only written is not always there."""
    lost = 0
    for seed in range(40):
        make, told = answering(writes)
        world = World(PAIR, make, costs=FREE, seed=seed, sync_s=0.010)
        world.put("a", trade(1), at=1.0)
        world.crash("a", at=1.005)
        world.restart("a", at=2.0)
        world.run()
        lost += restored(told)[1] == ()
    assert lost > 0


# --- quiet


def refreshing(period: float, changes: int = 0) -> tuple[World, list[tuple[float, str, Input]], Trace]:
    """a wakes every `period` in the background and tells b; b says `changes` times that it learnt something."""
    left = [changes]

    def answer(router: Plain, input: Input, now: float) -> list[Effect]:
        again = SetTimer(Timer("refresh"), now + period, background=True)
        match input:
            case Started() if router.broker == "a":
                return [again]
            case TimerFired():
                return [again, SendTo("b", letter())]
            case Received() if left[0]:
                left[0] -= 1
                return [Changed()]
        return []

    make, told = answering(answer)
    trace = Trace()
    return World(PAIR, make, costs=FREE, trace=trace, announce=False), told, trace


def test_a_world_with_standing_timers_is_quiet_when_nothing_has_changed_for_one_period() -> None:
    world, told, _ = refreshing(10.0)
    world.run(most_steps=100)
    assert [at for at, broker, each in told if isinstance(each, TimerFired)] == [10.0], "one period is looked at"
    world, told, _ = refreshing(10.0, changes=3)
    world.run(most_steps=100)
    fired = [at for at, broker, each in told if isinstance(each, TimerFired)]
    assert fired == [10.0, 20.0, 30.0, 40.0], "three times something changed, then one period in which nothing did"


def test_a_timer_of_the_foreground_keeps_it_awake_and_a_time_ends_it_as_ever() -> None:
    world, told, _ = refreshing(10.0)
    world.run(until=35.0)
    assert sum(isinstance(each, TimerFired) for *_, each in told) == 3
    assert world.now == 35.0
    world.put("b", trade(1), at=52.0)
    world.run(most_steps=100)
    assert 60.0 <= world.now <= 62.0, "a client's input is a change; one period after it all is quiet"


def test_without_time_standing_timers_end_too() -> None:
    left = [2]

    def answer(router: Plain, input: Input, now: float) -> list[Effect]:
        again = SetTimer(Timer("refresh"), now + 5.0, background=True)
        if isinstance(input, Started):
            return [again]
        if isinstance(input, TimerFired):
            left[0] -= 1
            return [again, *([Changed()] if left[0] >= 0 else [])]
        return []

    make, told = answering(answer)
    network = Instant(PAIR, make)
    assert network.now <= 15.0
    assert left[0] < 0, "it looked once more after the last change"
    assert sum(isinstance(each, LinkUp | LinkLost) for *_, each in told) == 2


def test_timers_about_different_things_do_not_meet() -> None:
    """A timer's name has two parts: "resend" about "b c" is not "resend b" about "c"."""
    assert Timer("resend", "b c") != Timer("resend b", "c")
    assert str(Timer("resend", "b")) == "resend b"
    fired: list[Timer] = []

    def answer(router: Plain, input: Input, now: float) -> list[Effect]:
        match input:
            case Started() if router.broker == "a":
                return [SetTimer(Timer("resend", "b c"), 1.0), SetTimer(Timer("resend b", "c"), 2.0)]
            case TimerFired(timer):
                fired.append(timer)
        return []

    World(PAIR, answering(answer)[0]).run()
    assert fired == [Timer("resend", "b c"), Timer("resend b", "c")]


def test_a_protocol_with_a_setup_shared_by_all_gets_the_life_of_each() -> None:
    world = World(PAIR, make_router("flooding", Setup(propagate_after_s=1.0)))
    world.crash("a")
    world.restart("a")
    world.run()
    assert world.router("a").state()["marks"]["a"][0] == 2
