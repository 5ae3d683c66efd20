"""Hotspots: skewed values under a mapping by the domain, one by learnt quantiles, and with virtual nodes.

Source: Baldoni et al. 2005, section 4.2 (discussion), which only sketches both remedies: mappings that change seldom, and
techniques at the level of keys and nodes. Values are u^SKEW of the domain, so that most lie near its beginning.

    ring        500 nodes in memory: where the keys of all events and subscriptions fall
    routers     full simulation of 24 nodes; what they keep (copies too) and the steps that they take to match

Rule: quantiles are learnt from other events than those that are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from contentcast import catalog
from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.setting import BITS, NODES, Ints
from contentcast.experiments.overlay.tables import bars, mean, summary
from contentcast.experiments.rows import where
from contentcast.language.bulk import parse_many
from contentcast.model import Attribute, EventBatch, Space, SubscriptionBatch
from contentcast.model.predicates.table import PredicateTable
from contentcast.network.topology import Topology
from contentcast.routing.chord.model import RingModel
from contentcast.routing.contract import Published, Subscribed
from contentcast.routing.overlay.mappings import KeyMapping
from contentcast.routing.setup import Setup
from contentcast.simulation.world import World

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SKEW: Final = 4
CUTS: Final = 2047
VIRTUAL: Final = 8
LARGEST: Final = 1_000_000
PAST: Final = 20_000
"""Events from which quantiles are learnt."""
SIMULATED: Final = 24
SENT: Final = 60
RENEW_S: Final = 5.0
STABILISE_S: Final = 1.0
HOP_S: Final = 0.05
SETTLED_S: Final = 40.0
"""By then the nodes have changed to the learnt mapping and have dropped what was kept by the old one only."""
SPACE: Final = Space("skewed", {name: Attribute("int", low=0, high=LARGEST) for name in ("a1", "a2", "a3", "a4")})
WAYS: Final = ("by domain", "virtual nodes", "by quantiles", "quantiles and virtual nodes")


Cuts: TypeAlias = dict[str, tuple[int, ...]]


def plan(scale: Scale) -> list[Row]:
    """Virtual nodes multiply what the routers have to do, so the quick version leaves them to the ring."""
    ring = {"by": "ring", "nodes": NODES, "count": 2_000 if scale.quick else PAST}
    routers = {"by": "routers", "nodes": 8 if scale.quick else SIMULATED, "count": SENT}
    return [
        {**each, "way": way, "seed": seed}
        for each, ways, seeds in ((ring, WAYS, 3), (routers, WAYS[::2] if scale.quick else WAYS, 1))
        for way in ways
        for seed in scale.seeds(1 if scale.quick else seeds)
    ]


def measure(by: str, way: str, nodes: int, count: int, seed: int) -> dict[str, Any]:
    """`count`: events, and as many subscriptions."""
    dice = np.random.default_rng(seed)
    values = (dice.random((2 * PAST, 4)) ** SKEW * LARGEST).astype(np.int64)
    past, now = values[:PAST], values[PAST : PAST + count]
    learnt = {}
    if "quantiles" in way:
        places = np.linspace(0, 1, CUTS + 2)[1:-1]
        learnt = {
            name: tuple(np.unique(np.quantile(past[:, at], places).astype(int)).tolist()) for at, name in enumerate(SPACE.names)
        }
    centres = (dice.random((count, 4)) ** SKEW * LARGEST).astype(np.int64)
    width = 1 + (dice.random((count, 4)) * 0.01 * (centres + 100)).astype(np.int64)
    texts = [
        " AND ".join(f"{name} BETWEEN {low} AND {low + span}" for name, low, span in zip(SPACE.names, *row, strict=True))
        for row in zip(centres.tolist(), width.tolist(), strict=True)
    ]
    events = EventBatch.from_arrow(SPACE, pa.record_batch(list(now.T), names=list(SPACE.names)))
    matched, kept = (_ring if by == "ring" else _routers)(events, parse_many(SPACE, texts), learnt, nodes, _points(way), seed)
    return {
        "events_greatest": float(matched.max() / matched.mean()),
        "subscriptions_greatest": float(kept.max() / kept.mean()),
        "subscriptions_mean": float(kept.mean()),
    }


def _points(way: str) -> int:
    return VIRTUAL if "virtual" in way else 1


def _ring(events: EventBatch, table: PredicateTable, learnt: Cuts, nodes: int, points: int, seed: int) -> tuple[Ints, Ints]:
    """How many events and subscriptions each node gets."""
    mapping = KeyMapping("selective-attribute", BITS, learnt={SPACE.name: learnt}).in_space(SPACE)
    ring = RingModel.random(nodes * points, BITS, seed)
    node = np.random.default_rng(seed).permutation(nodes * points) % nodes
    keys = np.array(ring.keys, np.uint64)
    _, event_keys = mapping.event_keys(events)
    matched = np.bincount(node[np.searchsorted(keys, event_keys) % len(keys)], minlength=nodes)
    targets = mapping.subscription_keys(table)
    begin, end = np.searchsorted(keys, targets.lows), np.searchsorted(keys, targets.highs)
    lengths = end - begin + 1
    which = np.repeat(begin, lengths) + np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    pairs = np.unique(np.repeat(targets.rows, lengths) * nodes + node[which % len(keys)])
    return matched, np.bincount(pairs % nodes, minlength=nodes)


def _routers(events: EventBatch, table: PredicateTable, learnt: Cuts, nodes: int, points: int, seed: int) -> tuple[Ints, Ints]:
    """The matching steps of each node, and the subscriptions that it keeps, for itself and as copies."""
    names = [f"n{number}" for number in range(nodes)]
    topology = Topology.of(names, [])
    setup = Setup(topology=topology, cuts={SPACE.name: learnt} if learnt else {})
    # Cuts of the setup are proposed at the first round of learning: the ring then changes its mapping as a running one does.
    make = catalog.make_router("overlay", setup, points=points, renew_s=RENEW_S, stabilise_s=STABILISE_S)
    world = World(topology, make, seed=seed, announce=False, direct_s=HOP_S)
    for at, name in enumerate(names):
        mine = np.arange(at, len(table), nodes)
        clients = [f"{name}/{number}" for number in mine.tolist()]
        world.put(name, Subscribed(SubscriptionBatch.columns(mine, table.take(mine), clients)))
    world.run(until=SETTLED_S)
    if learnt and {world.router(each).state()["mapping"] for each in names} != {1}:
        raise AssertionError("the nodes have not changed to the learnt mapping")
    before = _steps(world)
    for at, name in enumerate(names):
        world.put(name, Published(events.take(np.arange(at, len(events), nodes))))
    world.run(until=SETTLED_S + 10.0)
    kept = np.array([world.router(each).sizes()["subscriptions"] for each in names])
    return _steps(world) - before, kept


def _steps(world: World) -> Ints:
    found: Ints = world.broker_loads()["steps"].to_numpy()
    return found


def judge(table: pa.Table) -> list[Verdict]:
    found = []
    for by, measured in (("ring", "ring in memory"), ("routers", "real routers")):
        there = [way for way in WAYS if len(where(table, by=by, way=way))]
        for what in ("events", "subscriptions"):
            load = {way: mean(table, f"{what}_greatest", by=by, way=way) for way in there}
            found.append(
                Verdict(
                    f"Learnt quantiles take the load off the busiest node when values are skewed ({what}, {measured})",
                    "sketched, not measured",
                    "greatest load to mean: " + ", ".join(f"{way} {each:.1f}" for way, each in load.items()),
                    load["by quantiles"] < 0.5 * load["by domain"],
                )
            )
    return found


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("by", "way"), "events_greatest", "subscriptions_greatest", "subscriptions_mean")


def draw(table: pa.Table, figure: Figure) -> None:
    one, other = figure.subplots(1, 2)
    bars(one, table, ("by", "way"), "events_greatest", ("", "events: greatest load to mean"), log=True)
    bars(other, table, ("by", "way"), "subscriptions_greatest", ("", "subscriptions: greatest load to mean"), log=True)


EXPERIMENT: Final = Experiment(
    "overlay/hotspots",
    "Skewed values: quantiles and virtual nodes",
    "Baldoni et al. 2005, section 4.2 (sketched there)",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
