"""Churn: half of the nodes are replaced within an hour of virtual time; what that costs, and what is lost.

Source: Baldoni et al. 2005, section 4.1, says that nodes join, leave and crash, and does not measure it. Full simulation of the
real routers. For every node that goes (every second one crashes, the others leave in order) a new one joins, evenly over the
hour. Subscribers and publishers are at the half that stays, so that whatever they miss is the network's fault.
Rule: the same events and subscriptions with and without churn; the difference in messages is what churn costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast import catalog
from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.tables import bars, mean, summary
from contentcast.experiments.rows import floats
from contentcast.language.bulk import parse_many
from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Published, Subscribed
from contentcast.routing.setup import Setup
from contentcast.simulation.world import World
from contentcast.workload import scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOUR_S: Final = 3600.0
SETTLED_S: Final = 20.0
HOP_S: Final = 0.05
RENEW_S: Final = 60.0
STABILISE_S: Final = 2.0
SUSPECT_AFTER_S: Final = 10.0


def plan(scale: Scale) -> list[Row]:
    nodes, events, hours = (12, 40, 0.1) if scale.quick else (24, 300, 1.0)
    return [
        {"churn": churn, "nodes": nodes, "events": events, "hours": hours, "seed": seed}
        for churn in (0.0, 0.5)
        for seed in scale.seeds(1)
    ]


def measure(churn: float, nodes: int, events: int, hours: float, seed: int) -> dict[str, Any]:
    names = [f"n{number}" for number in range(nodes)]
    staying, going = names[: nodes // 2], names[nodes // 2 :]
    topology = Topology.of(names, [])
    setup = Setup(topology=topology, contacts=tuple(staying[:8]), count_steps=False)
    make = catalog.make_router("overlay", setup, renew_s=RENEW_S, stabilise_s=STABILISE_S, suspect_after_s=SUSPECT_AFTER_S)
    world = World(topology, make, seed=seed, announce=False, direct_s=HOP_S)
    source = scenario("overlay", seed=seed, nodes=nodes, standing=5 * nodes)
    table = source.subscriptions(5 * nodes)
    predicates = parse_many(source.space, table["predicate"])
    homes = [staying[number % len(staying)] for number in range(len(predicates))]
    for node in staying:
        mine = np.flatnonzero(np.array(homes) == node)
        clients = [f"{node}/{number}" for number in mine.tolist()]
        world.put(node, Subscribed(SubscriptionBatch.columns(mine, predicates.take(mine), clients)))
    world.run(until=SETTLED_S)
    before = world.totals()
    end = SETTLED_S + hours * HOUR_S
    batch = EventBatch.from_arrow(source.space, source.events(events))
    times = np.sort(np.random.default_rng(seed).uniform(SETTLED_S, end, events))
    for row, at in enumerate(times.tolist()):
        world.put(staying[row % len(staying)], Published(batch.take(np.array([row]))), at)
    replaced = round(churn * nodes)
    for number, at in enumerate(np.linspace(SETTLED_S, end, replaced, endpoint=False).tolist()):
        (world.crash if number % 2 else world.leave)(going[number], at=at)
        world.join(f"new{number}", at=at + 1.0)
    world.run(until=end + 30.0)
    expected = len(_matches(predicates, batch))
    totals = {name: value - before[name] for name, value in world.totals().items()}
    given = world.deliveries()
    delays = given["delivered_at"].to_numpy() - given["published_at"].to_numpy()
    return {
        "replaced": replaced,
        "wanted": expected,
        "lost": expected - len(set(world.delivered)),
        "twice": len(world.delivered) - len(set(world.delivered)),
        "messages": totals["direct"] / (nodes * hours * HOUR_S),
        "bytes": totals["direct bytes"] / (nodes * hours * HOUR_S),
        "p50_ms": 1000 * float(np.median(delays)) if len(delays) else 0.0,
        "p99_ms": 1000 * float(np.quantile(delays, 0.99)) if len(delays) else 0.0,
    }


def _matches(predicates: Any, events: EventBatch) -> list[tuple[int, int]]:
    """(event, subscription) by the ranges themselves."""
    found = np.ones((len(events), len(predicates)), bool)
    for at, name in enumerate(events.space.names):
        column = predicates.columns[name]
        values = events.records.column(at).to_numpy()[:, None]
        found &= (values >= column.first) & (values <= column.last)
    return list(zip(*(each.tolist() for each in np.nonzero(found)), strict=True))


def judge(table: pa.Table) -> list[Verdict]:
    lost, twice = floats(table, "lost").sum(), floats(table, "twice").sum()
    quiet, busy = (mean(table, "messages", churn=each) for each in (0.0, 0.5))
    slow = {each: mean(table, "p99_ms", churn=each) for each in (0.0, 0.5)}
    return [
        Verdict(
            "Nothing is lost or delivered twice while half of the nodes are replaced",
            "not measured",
            f"{lost:.0f} lost and {twice:.0f} twice of {floats(table, 'wanted').sum():,.0f}",
            lost == 0 and twice == 0,
        ),
        Verdict(
            "Churn costs less than as much again as keeping the ring",
            "not measured",
            f"{busy:.2f} messages per node and second, {quiet:.2f} without churn",
            busy < 2 * quiet,
        ),
        Verdict(
            "An event that meets a dead node is late by the time that it takes to notice",
            "not measured",
            f"99 % within {slow[0.5]:,.0f} ms, {slow[0.0]:,.0f} ms without churn",
            slow[0.5] >= slow[0.0],
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("churn",), "replaced", "wanted", "lost", "twice", "messages", "bytes", "p50_ms", "p99_ms")


def draw(table: pa.Table, figure: Figure) -> None:
    one, other = figure.subplots(1, 2)
    bars(one, table, ("churn",), "messages", ("share of nodes replaced in an hour", "messages per node and second"))
    bars(other, table, ("churn",), "p99_ms", ("share of nodes replaced in an hour", "99 % of deliveries within, ms"))


EXPERIMENT: Final = Experiment(
    "overlay/churn",
    "Half of the nodes replaced within an hour",
    "not measured by Baldoni et al. 2005",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
