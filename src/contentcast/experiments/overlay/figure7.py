"""Figure 7: hops per publication over the number of nodes, selective-attribute with unicast, to 20,000 nodes.

Source: Baldoni et al. 2005, figure 7, which ends at 5,000. A ring of 2^13 keys has no room for 20,000 nodes: keys have 20 bits.
Rule: without a cache, so that the logarithm of Chord itself is seen, and with one, as in the paper.
"""

from __future__ import annotations

import itertools
from math import log2
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.setting import CACHED
from contentcast.experiments.overlay.tables import lines, mean, summary
from contentcast.model import EventBatch
from contentcast.routing.chord.model import RingModel
from contentcast.routing.overlay.mappings import KeyMapping
from contentcast.workload import scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES: Final = (100, 250, 500, 1000, 2500, 5000, 20_000)
BITS: Final = 20


def plan(scale: Scale) -> list[Row]:
    sizes, events = ((100, 400, 1600), 100) if scale.quick else (NODES, 1000)
    return [
        {"nodes": nodes, "cached": cached, "events": events, "seed": seed}
        for nodes in sizes
        for cached in (0, CACHED)
        for seed in scale.seeds(1)
    ]


def measure(nodes: int, cached: int, events: int, seed: int) -> dict[str, Any]:
    ring = RingModel.random(nodes, BITS, seed, cached=cached)
    source = scenario("overlay", seed=seed, nodes=nodes)
    mapping = KeyMapping("selective-attribute", BITS).in_space(source.space)
    rows, keys = mapping.event_keys(EventBatch.from_arrow(source.space, source.events(events)))
    publishers = [int(name[1:]) for name in source.publishers(events).to_pylist()]
    hops = [len(ring.route(publishers[row], key)) for row, key in zip(rows.tolist(), keys.tolist(), strict=True)]
    return {"hops": float(np.sum(hops)) / events, "longest": int(max(hops))}


def judge(table: pa.Table) -> list[Verdict]:
    sizes = sorted(set(table["nodes"].to_pylist()))
    per_doubling = [
        (mean(table, "hops", cached=0, nodes=high) - mean(table, "hops", cached=0, nodes=low)) / log2(high / low)
        for low, high in itertools.pairwise(sizes)
    ]
    return [
        Verdict(
            "Hops per publication grow with the logarithm of the number of nodes",
            "logarithmic",
            "hops more for each doubling, size by size: " + ", ".join(f"{each:.1f}" for each in per_doubling),
            max(per_doubling) < 2 * min(per_doubling),
        )
    ]


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("nodes", "cached"), "hops", "longest")


def draw(table: pa.Table, figure: Figure) -> None:
    axes = figure.subplots()
    lines(axes, table, "cached", "nodes", "hops", ("nodes", "hops per publication"))
    axes.set_xscale("log")


EXPERIMENT: Final = Experiment(
    "overlay/figure7",
    "Hops per publication over the number of nodes",
    "Baldoni et al. 2005, figure 7",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
