"""One trial: a workload on a network under one protocol, from subscribing to the last delivery, and what it came to.

Rule: subscriptions settle before the first event, and what they cost is not counted: two worlds with the same load compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from contentcast import catalog
from contentcast.hosting.costs import PAPER_FAST, Costs
from contentcast.network.topology import Topology
from contentcast.routing.setup import Setup
from contentcast.simulation.load import publish_bursts, publish_poisson, subscribe
from contentcast.simulation.ways.links import LinkQuality
from contentcast.simulation.world import World
from contentcast.workload import Scenario

SLICES: Final = 100
"""So often a trial tells how far it is."""


@dataclass(frozen=True)
class Trial:
    topology: Topology
    scenario: Scenario
    protocol: str = "link-matching"
    events: int = 1000
    subscriptions: int = 1000
    rate: float = 20.0
    """Events a second at each publishing broker."""
    bursty: bool = False
    seed: int = 0
    costs: Costs = PAPER_FAST
    quality: LinkQuality = field(default_factory=LinkQuality)
    codec: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def world(self) -> World:
        """Subscribed, settled and at zero."""
        lossy = self.quality != LinkQuality()
        make = catalog.make_router(self.protocol, Setup(topology=self.topology), reliable=lossy, **self.options)
        world = World(
            self.topology, make, seed=self.seed, costs=self.costs, links=self.quality, codec=self.codec, announce=lossy
        )
        subscribe(world, self.scenario, self.subscriptions)
        return world.run()

    def run(self, advance: Callable[[float], None] = lambda share: None) -> Outcome:
        """`advance` is told the share of the events that is done: 0 when all subscriptions stand, 1 when quiet is awaited."""
        world = self.world()
        advance(0.0)
        before, loads, busy = world.totals(), world.link_loads(), _busy(world)
        world.forget_queues()
        begun = world.now
        publish = publish_bursts if self.bursty else publish_poisson
        publish(world, self.scenario, self.rate, self.events, seed=self.seed, start=begun)
        expected = self.events / (self.rate * max(1, len(set(self.scenario.publishers(self.events).to_pylist()))))
        for slice_ in range(1, SLICES + 1):
            world.run(until=begun + expected * slice_ / SLICES)
            advance(slice_ / SLICES)
        world.run()
        totals = {name: value - before[name] for name, value in world.totals().items()}
        took = world.now - begun
        busiest = max((now - busy.get(name, 0.0) for name, now in _busy(world).items()), default=0.0)
        share = busiest / took if took else 0.0
        return Outcome(self, world, totals, _less(world.link_loads(), loads), took, world.most_waiting, share)


@dataclass(frozen=True)
class Outcome:
    """`totals` as `World.totals`, of the events alone; `links` one row for each direction."""

    trial: Trial
    world: World
    totals: dict[str, float]
    links: pa.Table
    took_s: float
    longest_queue: int
    """Inputs that waited at one broker while the events were on their way."""
    busiest_share: float
    """Of that time, for which the busiest broker's CPU was busy."""

    def busiest(self, most: int = 5) -> Iterator[dict[str, Any]]:
        rows = sorted(self.links.to_pylist(), key=lambda row: (-row["bytes"], row["sender"], row["receiver"]))
        return iter(rows[:most])

    def steps(self) -> dict[str, float]:
        loads = self.world.broker_loads()
        return dict(zip(loads["name"].to_pylist(), loads["steps"].to_pylist(), strict=True))

    def summary(self) -> dict[str, Any]:
        """One row of a table that compares protocols."""
        latency = self.world.latencies((50, 99)) if self.totals["delivered"] else {"p50": None, "p99": None}
        return {
            "protocol": self.trial.protocol,
            "deliveries": int(self.totals["delivered"]),
            "messages": int(self.totals["messages"]),
            "copies": int(self.totals["events"]),
            "bytes": int(self.totals["bytes"]),
            "steps": int(self.totals["steps"]),
            "p50 s": latency["p50"],
            "p99 s": latency["p99"],
            "virtual s": self.took_s,
        }


def _busy(world: World) -> dict[str, float]:
    loads = world.broker_loads()
    return dict(zip(loads["name"].to_pylist(), loads["busy_s"].to_pylist(), strict=True))


def _less(after: pa.Table, before: pa.Table) -> pa.Table:
    columns = {}
    for name in after.column_names:
        values = after[name]
        numeric = not pa.types.is_string(values.type)
        columns[name] = values.to_numpy() - before[name].to_numpy() if numeric else values
    return pa.table(columns)
