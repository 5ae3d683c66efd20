"""Figure 11: the bytes of subscriptions that all brokers together keep.

Source: Triantafillou & Economides 2004, section 5.2.3, figure 11. Real bytes are those of the form in which they travel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Verdict
from contentcast.experiments.summaries.charts import chosen, extremes, over_sigma, ratios, side_by_side, span
from contentcast.experiments.summaries.periods import BASELINE, COVERING, FIGURES, measure, plan
from contentcast.experiments.summaries.setting import WAYS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def judge(table: pa.Table) -> list[Verdict]:
    found = []
    siena, near = ratios(table, "stored", COVERING), ratios(table, "stored", BASELINE, COVERING)
    for way in WAYS:
        less = chosen(siena, way)
        found.append(
            Verdict(
                f"Summaries take 2 to 5 times less storage than Siena's covering ({way})",
                "2 to 5 times",
                f"{extremes(siena, way)} times",
                min(less) >= 2,
            )
        )
        lowest = min(degree for _, _, _, degree in near)
        same = chosen({key: value for key, value in near.items() if key[3] == lowest}, way)
        found.append(
            Verdict(
                f"With little subsumption covering stores almost as much as the baseline ({way})",
                "almost the same at 0.1",
                f"the baseline stores {span(same)} times as much at {lowest:g}",
                max(same) < 1.5,
            )
        )
    others = [*chosen(siena, "model", main=False), *chosen(siena, "real", main=False)]
    if others:
        claim = "On other networks summaries take less storage than covering, too"
        found.append(Verdict(claim, "similar in all cases", f"{span(others)} times less", min(others) > 1))
    return found


def summarize(table: pa.Table) -> pa.Table:
    return side_by_side(table, "stored")


def draw(table: pa.Table, figure: Figure) -> None:
    over_sigma(table, figure, "stored", "bytes stored in all brokers")


EXPERIMENT: Final = Experiment(
    "summaries/figure11",
    "Figure 11: storage for subscriptions",
    "Triantafillou & Economides 2004, figure 11",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(10.0, 4.6),
    version=3,
    takes_networks=True,
    same_rows=FIGURES,
)
