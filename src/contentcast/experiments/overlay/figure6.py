"""Figure 6: subscriptions of the fullest node over the expiration time.

Source: Baldoni et al. 2005, figure 6. See `memory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.memory import SIZES, measure, rows
from contentcast.experiments.overlay.tables import lines, mean, summary
from contentcast.experiments.rows import where
from contentcast.routing.overlay.mappings import MAPPINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPIRES_S: Final = (5_000.0, 25_000.0, 50_000.0, 100_000.0, 125_000.0)
FIRST, SECOND, THIRD = MAPPINGS


def plan(scale: Scale) -> list[Row]:
    return rows(scale, (1_000.0, 15_000.0) if scale.quick else EXPIRES_S, SIZES)


def judge(table: pa.Table) -> list[Verdict]:
    most = max(table["expires"].to_pylist())
    found = {
        (each, selective): mean(table, "greatest", mapping=each, selective=selective, expires=most)
        for each in MAPPINGS
        for selective in (0, 1)
    }
    means = {
        (each, selective): mean(table, "mean", mapping=each, selective=selective, expires=most)
        for each in MAPPINGS
        for selective in (0, 1)
    }
    return [
        Verdict(
            "With no selective attribute mapping 2 needs the least memory",
            "mapping 2 best",
            ", ".join(f"{found[each, 0]:,.0f}" for each in MAPPINGS) + " subscriptions at the fullest node",
            found[SECOND, 0] <= min(found[FIRST, 0], found[THIRD, 0]),
        ),
        Verdict(
            "Mapping 3 gains from one selective attribute: subscriptions of a node on average",
            "the average follows the greatest, mapping 3 benefits",
            ", ".join(f"{means[each, 1] / means[each, 0]:.2f}" for each in MAPPINGS) + " times as many as without",
            means[THIRD, 1] / means[THIRD, 0] < min(means[FIRST, 1] / means[FIRST, 0], means[SECOND, 1] / means[SECOND, 0]),
        ),
        Verdict(
            "Mapping 3 gains from one selective attribute: subscriptions of the fullest node",
            "mapping 3 benefits",
            ", ".join(f"{found[each, 1] / found[each, 0]:.2f}" for each in MAPPINGS)
            + " times as many as without; the Zipf centres of the selective attribute fall on few nodes",
            found[THIRD, 1] < found[THIRD, 0],
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("selective", "mapping", "expires"), "greatest", "mean")


def draw(table: pa.Table, figure: Figure) -> None:
    for axes, selective in zip(figure.subplots(1, 2), (0, 1), strict=True):
        part = where(table, selective=selective)
        lines(
            axes, part, "mapping", "expires", "greatest", (f"expiration, s; {selective} selective", "greatest number per node")
        )


EXPERIMENT: Final = Experiment(
    "overlay/figure6",
    "Memory: subscriptions of the fullest node over the expiration time",
    "Baldoni et al. 2005, figure 6",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
