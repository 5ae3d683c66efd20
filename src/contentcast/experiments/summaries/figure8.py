"""Figure 8: the bytes that it takes to tell all brokers of a period's new subscriptions.

Source: Triantafillou & Economides 2004, section 5.2.1, figure 8.
Rule: the verdicts are about the paper's network; other networks stand in a verdict of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Verdict
from contentcast.experiments.summaries.charts import chosen, extremes, growth, over_sigma, ratios, side_by_side, span
from contentcast.experiments.summaries.model import SUBSUMPTIONS, by_broadcast, by_covering, by_summaries
from contentcast.experiments.summaries.periods import BASELINE, COVERING, FIGURES, SUMMARIES, measure, plan
from contentcast.experiments.summaries.setting import WAYS, main_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def judge(table: pa.Table) -> list[Verdict]:
    found = []
    siena, baseline = ratios(table, "bytes", COVERING), ratios(table, "bytes", BASELINE)
    for way in WAYS:
        less, far_less = chosen(siena, way), chosen(baseline, way)
        found += [
            Verdict(
                f"Summaries take 4 to 8 times fewer bytes than Siena's covering ({way})",
                "4 to 8 times",
                f"{extremes(siena, way)} times",
                min(less) >= 4,
            ),
            Verdict(
                f"Summaries are below the baseline by up to three orders of magnitude ({way})",
                "up to 1,000 times",
                f"{span(far_less)} times",
                max(far_less) >= 500,
            ),
        ]
        slope = growth(table, way, SUMMARIES, "bytes")
        if slope is not None:
            claim = f"The bytes of summaries are nearly flat in sigma ({way})"
            told = f"they grow as sigma to the {slope:.2f}"
            found.append(Verdict(claim, "nearly flat on a logarithmic axis", told, slope < 0.5))
    found.append(_bound(table))
    others = [*chosen(siena, "model", main=False), *chosen(siena, "real", main=False)]
    if others:
        found.append(
            Verdict("Other networks show the same", "similar in all cases", f"{span(others)} times fewer", min(others) > 1)
        )
    return found


def _bound(table: pa.Table) -> Verdict:
    """What the paper's own numbers allow: the best case of its model, and what 8 times fewer than Siena would come to."""
    topology = main_network(table)
    sigma, subsumption = max(table["sigma"].to_pylist()), max(SUBSUMPTIONS)
    baseline = by_broadcast(topology, sigma).bytes
    rows_alone = baseline / by_summaries(topology, sigma, subsumption, with_ids=False).bytes
    by_claim = 8 * baseline / by_covering(topology, sigma, subsumption).bytes
    return Verdict(
        "Three orders of magnitude are possible by the paper's equations and table 2",
        "up to 1,000 times, and 4 to 8 times fewer than Siena",
        f"at most {rows_alone:.0f} times if ids took no bytes at all; 8 times fewer than Siena are {by_claim:.0f} times fewer "
        "than the baseline",
        max(rows_alone, by_claim) >= 500,
    )


def summarize(table: pa.Table) -> pa.Table:
    return side_by_side(table, "bytes")


def draw(table: pa.Table, figure: Figure) -> None:
    over_sigma(table, figure, "bytes", "bytes of a period")


EXPERIMENT: Final = Experiment(
    "summaries/figure8",
    "Figure 8: bytes of subscription propagation",
    "Triantafillou & Economides 2004, figure 8",
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
