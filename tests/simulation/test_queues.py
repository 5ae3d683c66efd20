"""The broker's queue and CPU: arithmetic checked by hand, and against what queueing theory says."""

import numpy as np
import pyarrow as pa
import pytest

from contentcast.hosting.costs import FREE, PAPER, PAPER_FAST, Costs
from contentcast.model import ContentcastError, EventBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Published
from contentcast.simulation.world import World
from contentcast.wire import Publish, message_bytes
from tests.simulation.small import TRADES, Pipe, trade

ONE = Topology.of("a")
PAIR = Topology.of("ab", [("a", "b", 0.010)])


def test_what_an_input_costs_is_the_sum_of_what_was_done() -> None:
    costs = Costs(step_s=0.001, receive_s=0.010, send_s=0.100, byte_s=1e-6, deliver_s=1.0, latency_s=10.0)
    world = World(PAIR, lambda broker, _: Pipe(broker, ["b"] if broker == "a" else [], steps=3), costs=costs, announce=False)
    world.put("a", trade(1))
    world.run()
    size = message_bytes(Publish("a", 1, 1, trade(1).events))
    loads = {row["name"]: row for row in world.broker_loads().to_pylist()}
    at_a = 0.010 + 3 * 0.001 + 1.0 + 0.100 + 2 * size * 1e-6  # received and sent
    at_b = 0.010 + 3 * 0.001 + 1.0 + size * 1e-6
    assert loads["a"]["busy_s"] == pytest.approx(at_a)
    assert loads["b"]["busy_s"] == pytest.approx(at_b)
    assert (loads["b"]["inputs"], loads["b"]["steps"], loads["b"]["delivered"]) == (2, 3, 1)  # the start is an input too
    # The software latency delays at both brokers, and loads neither.
    got = world.deliveries()["delivered_at"].to_pylist()
    assert got == [pytest.approx(at_a + 10.0 + 0.001), pytest.approx(at_a + 10.0 + 0.010 + at_b + 10.0 + 0.001)]


def test_inputs_wait_in_line_for_the_one_cpu() -> None:
    second = Costs(step_s=0.0, receive_s=1.0, send_s=0.0, deliver_s=0.0, latency_s=0.0)
    router = Pipe("a")
    world = World(ONE, lambda *_: router, costs=second, client_delay_s=0.0, watch=["a"])
    for number, at in enumerate((1.0, 1.5, 1.6, 4.0, 9.0)):
        world.put("a", trade(number), at=at)
    world.run()
    assert [at for at, *_ in router.told] == [1.0, 2.0, 3.0, 4.0, 9.0]
    assert world.deliveries()["delivered_at"].to_pylist() == [2.0, 3.0, 4.0, 5.0, 10.0]
    assert world.queue("a").to_pydict() == {"time": [0.0, 1.5, 1.6, 2.0, 3.0], "waiting": [0, 1, 2, 1, 0]}
    assert world.most_waiting == 2
    assert world.broker_loads()["busy_s"].to_pylist() == [5.0]


def test_a_stalled_broker_catches_up() -> None:
    router = Pipe("a")
    world = World(ONE, lambda *_: router, costs=FREE)
    world.stall("a", 1.0, at=1.0)
    world.put("a", trade(1), at=1.2)
    world.stall("a", 0.5, at=1.5)  # before the first is over
    world.put("a", trade(2), at=3.0)
    world.run()
    assert [at for at, *_ in router.told] == [2.5, 3.0]


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_a_poisson_stream_waits_as_long_as_theory_says(load: float) -> None:
    # M/D/1 (Pollaczek-Khinchine): mean wait = load / (2 * (1 - load)) services.
    count, seed = 25_000, 3
    costs = Costs(step_s=0.0, receive_s=1.0, send_s=0.0, deliver_s=0.0, latency_s=0.0)
    world = World(ONE, lambda *_: Pipe("a"), costs=costs, client_delay_s=0.0)
    times = np.cumsum(np.random.default_rng(seed).exponential(1 / load, count)).tolist()
    events = EventBatch.from_arrow(TRADES, pa.table({"price": np.zeros(count)}))
    world.feed((at, "a", Published(events.slice(number, 1))) for number, at in enumerate(times))
    world.run()
    table = world.deliveries()
    waits = table["delivered_at"].to_numpy() - table["published_at"].to_numpy() - 1.0
    assert len(waits) == count
    assert waits.mean() == pytest.approx(load / (2 * (1 - load)), rel=0.05)
    # By Little's law the mean queue is that times the rate; the longest is far above it, and the CPU was busy for the load.
    assert world.broker_loads()["busy_s"][0].as_py() / world.now == pytest.approx(load, rel=0.02)
    assert world.most_waiting > 5


def test_the_paper_says_what_a_step_costs() -> None:
    assert (PAPER.step_s, PAPER_FAST.step_s) == (100e-6, 10e-6)
    assert pytest.approx(14_000) == 1 / PAPER.send_s


def test_costs_that_cannot_be_are_refused() -> None:
    with pytest.raises(ContentcastError, match="send_s is a number of seconds from 0, got -1"):
        Costs(send_s=-1)
    with pytest.raises(ContentcastError, match="step_s"):
        Costs(step_s=float("inf"))
