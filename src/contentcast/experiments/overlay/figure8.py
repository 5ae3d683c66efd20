"""Figure 8: subscriptions of the fullest node over the number of nodes.

Source: Baldoni et al. 2005, figure 8. See `memory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.memory import measure, rows
from contentcast.experiments.overlay.tables import lines, mean, summary
from contentcast.experiments.rows import where
from contentcast.routing.overlay.mappings import MAPPINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES: Final = (100, 250, 500, 1000, 2500, 5000)
FIRST, SECOND, THIRD = MAPPINGS


def plan(scale: Scale) -> list[Row]:
    return rows(scale, (0.0,), (100, 500) if scale.quick else NODES)


def judge(table: pa.Table) -> list[Verdict]:
    sizes = sorted(set(table["nodes"].to_pylist()))
    low, high = sizes[0], sizes[-1]
    means = {each: [mean(table, "mean", mapping=each, selective=0, nodes=size) for size in sizes] for each in MAPPINGS}
    better = [
        size
        for size in sizes
        if mean(table, "greatest", mapping=THIRD, selective=1, nodes=size)
        < mean(table, "greatest", mapping=SECOND, selective=1, nodes=size)
    ]
    growth = {each: means[each][-1] * high / (means[each][0] * low) for each in MAPPINGS}
    return [
        Verdict(
            "The copies of a subscription grow with the nodes in mappings 1 and 3, hardly in mapping 2",
            "mapping 2 almost constant, 1 and 3 grow",
            f"copies of all subscriptions at {high} nodes to those at {low}: "
            + ", ".join(f"{growth[each]:.1f}" for each in MAPPINGS),
            growth[SECOND] < min(growth[FIRST], growth[THIRD]),
        ),
        Verdict(
            "With one selective attribute mapping 3 is better up to a size",
            "below 2,500 nodes",
            f"better at {', '.join(map(str, better)) or 'none'} of {', '.join(map(str, sizes))} nodes",
            bool(better) and better == sizes[: len(better)],
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("selective", "mapping", "nodes"), "greatest", "mean")


def draw(table: pa.Table, figure: Figure) -> None:
    for axes, selective in zip(figure.subplots(1, 2), (0, 1), strict=True):
        part = where(table, selective=selective)
        lines(
            axes, part, "mapping", "nodes", "greatest", (f"nodes; {selective} selective", "greatest number per node"), log=True
        )


EXPERIMENT: Final = Experiment(
    "overlay/figure8",
    "Memory: subscriptions of the fullest node over the number of nodes",
    "Baldoni et al. 2005, figure 8",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
