"""Stories of a small world: who gets what, when, and what is lost when links and brokers go away."""

from typing import Any

import pytest

from contentcast.hosting.costs import FREE, Costs
from contentcast.hosting.perform import HostError
from contentcast.model import EventBatch
from contentcast.network.topology import Topology, TopologyError
from contentcast.routing.contract import Input, LinkLost, LinkUp, Published, Received, Send, SetTimer, TimerFired, Unsubscribed
from contentcast.simulation.agenda import SimulationError
from contentcast.simulation.ways.links import LinkQuality
from contentcast.simulation.world import DETECTION_S, World
from contentcast.wire import Publish
from tests.simulation.small import TRADES, Pipe, Recorder, flooding, trade, wish

LINE = Topology.of("abc", [("a", "b", 0.010), ("b", "c", 0.020)])


def recorded(topology: Topology, **options: Any) -> tuple[World, list[tuple[float, str, int, Input]]]:
    told: list[tuple[float, str, int, Input]] = []
    options = {"costs": FREE, **options}
    return World(topology, lambda broker, life: Recorder(broker, life.incarnation, told), **options), told


def test_a_trade_reaches_the_desk_that_wants_it() -> None:
    world = World(LINE, flooding)
    world.put("c", wish(7, "price < 120"))
    world.put("a", trade(1, price=119.5), at=1.0)
    world.put("a", trade(2, price=120.0), at=1.5)
    world.run()
    assert world.delivered == [("desk-7", 1)]


def test_it_takes_the_links_the_software_and_the_way_to_the_client() -> None:
    world = World(LINE, flooding, costs=Costs(0, 0, 0, 0, 0, latency_s=0.001), client_delay_s=0.005)
    world.put("c", wish(7, "price < 120"))
    world.put("a", trade(1), at=1.0)
    # Links 10 and 20 ms, three brokers with 1 ms each, 5 ms to the client.
    assert world.run().latencies([50]) == {"p50": pytest.approx(0.010 + 0.020 + 3 * 0.001 + 0.005)}
    table = world.deliveries().to_pylist()
    assert [(row["event"], row["subscriber"], row["broker"], row["published_at"]) for row in table] == [(1, "desk-7", "c", 1.0)]
    assert world.now == pytest.approx(1.038)


def test_nobody_has_what_is_still_on_its_way() -> None:
    world = World(LINE, flooding, costs=FREE)
    world.put("c", wish(7, "price < 120"))
    world.put("a", trade(1), at=1.0)
    assert world.run(until=1.0305).delivered == []  # at c, and not yet at the desk
    assert world.now == 1.0305
    assert world.run(until=1.032).delivered == [("desk-7", 1)]


def test_every_link_comes_up_at_the_start_and_the_ends_are_told_the_delay() -> None:
    world, told = recorded(LINE)
    world.run()
    assert {(at, broker, input) for at, broker, _, input in told} == {
        (0.0, "a", LinkUp("b", 0.010)),
        (0.0, "b", LinkUp("a", 0.010)),
        (0.0, "b", LinkUp("c", 0.020)),
        (0.0, "c", LinkUp("b", 0.020)),
    }


def test_routers_that_know_the_network_are_told_nothing_and_can_send() -> None:
    routers = {"a": Pipe("a", ["b"]), "b": Pipe("b", ["c"]), "c": Pipe("c")}
    world = World(LINE, lambda broker, _: routers[broker], announce=False)
    world.put("a", trade(1))
    assert world.run().delivered == [("client of a", 1), ("client of b", 1), ("client of c", 1)]
    assert routers["c"].told[0][3].sender == "b"


def test_a_cut_is_noticed_after_a_while_and_a_mended_link_comes_up_again() -> None:
    world, told = recorded(LINE)
    world.cut("a", "b", at=1.0)
    world.cut("b", "a", at=1.2)  # cut already
    world.mend("a", "b", at=2.0)
    world.run()
    later = [(at, broker, input) for at, broker, _, input in told if at > 0]
    assert later == [
        (1.0 + DETECTION_S, "a", LinkLost("b")),
        (1.0 + DETECTION_S, "b", LinkLost("a")),
        (2.0 + DETECTION_S, "a", LinkUp("b", 0.010)),
        (2.0 + DETECTION_S, "b", LinkUp("a", 0.010)),
    ]


def test_a_link_that_is_mended_before_anybody_noticed_was_lost_all_the_same() -> None:
    world, told = recorded(LINE)
    world.cut("a", "b", at=1.0)
    world.mend("a", "b", at=1.01)
    world.cut("a", "b", at=1.02)
    world.mend("a", "b", at=1.03)
    world.run()
    assert [(round(at, 3), type(input)) for at, broker, _, input in told if broker == "a" and at > 0] == [
        (1.1, LinkLost),
        (1.13, LinkUp),
    ]


def test_what_is_on_a_link_when_it_is_cut_is_lost_and_what_has_passed_is_not() -> None:
    world = World(LINE, flooding, costs=FREE)
    world.put("c", wish(7, "price < 120"))
    world.put("a", trade(1), at=1.0)  # on b-c from 1.010 to 1.030
    world.put("a", trade(2), at=1.1)
    world.cut("b", "c", at=1.029)
    world.mend("b", "c", at=1.0295)
    world.put("a", trade(3), at=3.0)
    world.run()
    # Trade 2 was sent into a connection that nobody knew to be lost.
    assert world.delivered == [("desk-7", 3)]
    loads = {(row["sender"], row["receiver"]): row for row in world.link_loads().to_pylist()}
    assert (loads["b", "c"]["lost"], loads["b", "c"]["refused"]) == (1, 1)


class Eager(Recorder):
    """Sends a trade to b whenever its timer fires, whatever it has heard."""

    def answer(self, input: Input, now: float) -> list[Any]:
        match input:
            case LinkUp("b"):
                return [SetTimer("send", 1.05)]
            case TimerFired("send"):
                return [Send("b", Publish("a", 1, 1, trade(1).events))]
        return []


def test_what_was_meant_for_the_former_connection_does_not_enter_the_next() -> None:
    told: list[tuple[float, str, int, Input]] = []
    pair = Topology.of("ab", [("a", "b", 0.010)])
    world = World(pair, lambda broker, life: (Eager if broker == "a" else Recorder)(broker, life.incarnation, told), costs=FREE)
    world.cut("a", "b", at=1.0)
    world.mend("a", "b", at=1.0)
    # a's timer fires at 1.05 and waits for the CPU until 1.2; the next connection is there since 1.1, but its LinkUp waits too.
    world.stall("a", 0.2, at=1.0)
    world.run()
    assert [type(input) for _, broker, _, input in told if broker == "a"] == [LinkUp, TimerFired, LinkLost, LinkUp, TimerFired]
    assert [at for at, broker, _, input in told if broker == "b" and isinstance(input, Received)] == [pytest.approx(1.21)]
    assert sum(world.link_loads()["refused"].to_pylist()) == 1


def test_a_crashed_broker_loses_what_waits_and_what_is_under_way_and_starts_as_somebody_new() -> None:
    world, told = recorded(LINE)
    world.put("b", wish(7, "price < 120"), at=0.5)
    world.crash("b", at=1.0)
    world.put("b", trade(1), at=1.5)
    world.restart("b", at=2.0)
    world.run()
    assert world.unpublished == [1]
    b = [(at, incarnation, type(input).__name__) for at, broker, incarnation, input in told if broker == "b" and at > 0]
    assert b == [(0.5, 1, "Subscribed"), (2.0, 2, "Subscribed"), (2.1, 2, "LinkUp"), (2.1, 2, "LinkUp")]
    assert [(at, type(input).__name__) for at, broker, _, input in told if broker == "a" and at > 0] == [
        (1.1, "LinkLost"),
        (2.1, "LinkUp"),
    ]


def test_clients_outlive_their_broker_and_ask_again_for_what_they_want_now() -> None:
    world, told = recorded(LINE)
    for number, predicate in ((1, "price < 1"), (2, "price < 2"), (3, "price < 3")):
        world.put("c", wish(number, predicate, f"desk-{number}"), at=0.1)
    world.put("c", Unsubscribed((1, 99)), at=0.2)
    world.crash("c", at=1.0)
    world.put("c", Unsubscribed((2,)), at=1.1)
    world.put("c", wish(4, "price < 4", "desk-4"), at=1.2)
    world.put("c", wish(3, "price < 33", "desk-3"), at=1.3)
    world.restart("c", at=2.0)
    world.crash("c", at=3.0)
    world.restart("c", at=4.0)
    world.run()
    for incarnation in (2, 3):
        asked = [
            input
            for _, broker, life, input in told
            if broker == "c" and life == incarnation and hasattr(input, "subscriptions")
        ]
        assert [(each.id, each.subscriber, str(each.predicate)) for batch in asked for each in batch.subscriptions] == [
            (3, "desk-3", str(next(iter(wish(3, "price < 33").subscriptions)).predicate)),
            (4, "desk-4", str(next(iter(wish(4, "price < 4").subscriptions)).predicate)),
        ]


def test_what_a_broker_sent_before_it_crashed_arrives_unless_the_other_end_has_noticed() -> None:
    near = Topology.of("ab", [("a", "b", DETECTION_S / 2)])
    far = Topology.of("ab", [("a", "b", DETECTION_S * 2)])
    for topology, arrives in ((near, True), (far, False)):
        world = World(topology, lambda broker, _: Pipe(broker, ["b"] if broker == "a" else []), costs=FREE)
        world.put("a", trade(1), at=1.0)
        world.crash("a", at=1.01)
        assert (("client of b", 1) in world.run().delivered) is arrives


def test_what_a_broker_still_held_when_it_crashed_reaches_nobody() -> None:
    slow = Costs(step_s=0.1, receive_s=0, send_s=0, byte_s=0, deliver_s=0, latency_s=0)
    world = World(LINE, lambda broker, _: Pipe(broker, ["b"] if broker == "a" else [], steps=1), costs=slow)
    world.put("a", trade(1), at=1.0)  # done at 1.1
    world.put("a", trade(2), at=1.0)  # done at 1.2
    world.put("a", trade(3), at=1.0)  # waits until 1.2
    world.crash("a", at=1.15)
    world.run()
    assert world.delivered == [("client of a", 1), ("client of b", 1)]
    assert world.totals()["delivered"] == 2


@pytest.mark.parametrize("then", ["crash", "cut"])
def test_what_a_crashed_broker_sent_is_lost_if_the_other_end_crashes_or_the_link_is_cut(then: str) -> None:
    pair = Topology.of("ab", [("a", "b", DETECTION_S / 2)])
    world = World(pair, lambda broker, _: Pipe(broker, ["b"] if broker == "a" else []), costs=FREE)
    world.put("a", trade(1), at=1.0)
    world.crash("a", at=1.01)
    if then == "crash":
        world.crash("b", at=1.02)
        world.restart("b", at=1.03)  # before the trade would have come
    else:
        world.cut("a", "b", at=1.02)
    assert world.run().delivered == [("client of a", 1)]


def test_timers_of_a_former_life_never_fire() -> None:
    told: list[tuple[float, str, int, Input]] = []

    class Waking(Recorder):
        def answer(self, input: Input, now: float) -> list[Any]:
            return [SetTimer("wake", now + 1.0)] if isinstance(input, Published) else []

    world = World(Topology.of("a"), lambda broker, life: Waking(broker, life.incarnation, told))
    world.put("a", trade(1), at=1.0)
    world.crash("a", at=1.5)
    world.restart("a", at=1.6)
    world.put("a", trade(2), at=3.0)
    world.run()
    assert [(at, life) for at, _, life, input in told if isinstance(input, TimerFired)] == [(4.0, 2)]


def test_a_timer_that_is_set_again_is_moved_both_ways() -> None:
    told: list[tuple[float, str, int, Input]] = []
    plan = {1: 5.0, 2: 9.0, 3: 7.0, 4: 8.0}  # trade -> when to wake

    class Moving(Recorder):
        def answer(self, input: Input, now: float) -> list[Any]:
            return [SetTimer("wake", plan[input.events.ids[0].as_py()])] if isinstance(input, Published) else []

    world = World(Topology.of("a"), lambda broker, life: Moving(broker, life.incarnation, told), costs=FREE)
    for number in plan:
        world.put("a", trade(number), at=float(number))
    world.run()
    assert [at for at, _, _, input in told if isinstance(input, TimerFired)] == [8.0]


def test_a_partition_keeps_working_inside_and_heals() -> None:
    world = World(LINE, flooding, costs=FREE)
    for broker in "abc":
        world.put(broker, wish(ord(broker), "price < 120", f"desk of {broker}"))
    world.partition([["a", "b"]], at=1.0)
    world.put("a", trade(1), at=2.0)
    world.heal(at=3.0)
    world.put("a", trade(2), at=4.0)
    world.run()
    assert world.delivered == [
        ("desk of a", 1),
        ("desk of b", 1),
        ("desk of a", 2),
        ("desk of b", 2),
        ("desk of c", 2),
    ]


def test_what_cannot_be_is_refused_with_what_could() -> None:
    world = World(LINE, flooding)
    with pytest.raises(TopologyError, match="no broker 'd'"):
        world.put("d", trade(1))
    with pytest.raises(TopologyError, match="a is linked to b"):
        world.cut("a", "c")
    with pytest.raises(SimulationError, match="LinkUp comes of what a router does"):
        world.put("a", LinkUp("b"))
    with pytest.raises(SimulationError, match="running; crash it first"):
        world.restart("a")
    with pytest.raises(SimulationError, match="watch=\\['a'\\]"):
        world.queue("a")
    world.run(until=1.0)
    with pytest.raises(SimulationError, match=r"it is 1\.000000 s already"):
        world.put("a", trade(1), at=0.5)
    with pytest.raises(SimulationError, match="loss goes from 0 to 1"):
        LinkQuality(loss=2)


def test_a_router_that_fails_says_where_and_when() -> None:
    class Failing(Recorder):
        def answer(self, input: Input, now: float) -> list[Any]:
            if isinstance(input, Published):
                raise RuntimeError("no")
            return [Send("z", Publish("a", 1, 1, trade(1).events))] if isinstance(input, TimerFired) else [SetTimer("x", 2.0)]

    world = World(LINE, lambda broker, life: Failing(broker, life.incarnation, []))
    world.put("b", trade(1), at=1.0)
    with pytest.raises(RuntimeError) as failure:
        world.run()
    assert failure.value.__notes__ == ["broker b at 1.0 s, handling Published[1]"]
    with pytest.raises(HostError, match="broker a sends to 'z'; it has links to b"):
        world.run()


def test_a_router_that_never_rests_is_noticed() -> None:
    class Restless(Recorder):
        def answer(self, input: Input, now: float) -> list[Any]:
            return [SetTimer("again", now + 1.0)]

    world = World(LINE, lambda broker, life: Restless(broker, life.incarnation, []))
    with pytest.raises(SimulationError, match="not quiet after 1,000 steps"):
        world.run(most_steps=1000)
    with pytest.raises(SimulationError, match="not quiet after 10 steps"):
        world.run(until=world.now + 100.0, most_steps=10)
    assert world.run(until=world.now + 10.0).now > 10.0


def test_a_batch_of_events_is_delivered_row_by_row() -> None:
    world = World(LINE, flooding, accounts=True)
    world.put("c", wish(7, "price < 120"))
    events = EventBatch.from_dicts(TRADES, [{"price": 100.0}, {"price": 130.0}, {"price": 110.0}], ids=[10, 20, 30])
    world.put("a", Published(events), at=1.0)
    world.run()
    assert world.delivered == [("desk-7", 10), ("desk-7", 30)]
    assert set(world.accounts()["event"].to_pylist()) == {10, 20, 30}
    assert sum(world.accounts()["steps"].to_pylist()) == world.totals()["steps"] > 0
