"""Figure 9: the hops of subscription propagation, one for every message from a broker to another.

Source: Triantafillou & Economides 2004, section 5.2.1, figure 9. For covering the hops are those of one subscription of every
broker, as the paper counts them; a period's subscriptions that leave a broker together are one message, counted beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.rows import floats, groups, where
from contentcast.experiments.summaries.charts import side_by_side
from contentcast.experiments.summaries.model import by_covering
from contentcast.experiments.summaries.periods import COVERING, FIGURES, SUMMARIES, measure, plan
from contentcast.experiments.summaries.setting import WAYS, brokers_at, main_network, main_of, main_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def judge(table: pa.Table) -> list[Verdict]:
    found = []
    topology = main_network(table)
    brokers = len(topology)
    for way in WAYS:
        rows = main_rows(table, way)
        most = floats(where(rows, approach=SUMMARIES), "hops").max()
        hops = floats(where(rows, approach=COVERING), "hops")
        found += [
            Verdict(
                f"Summaries need fewer hops than there are brokers, at any subsumption ({way})",
                "always fewer than 24",
                f"{most:.0f}",
                most < brokers,
            ),
            Verdict(
                f"Covering needs many more ({way})",
                "a significant difference",
                f"{hops.min():.0f} to {hops.max():.0f}",
                hops.min() > 2 * most,
            ),
        ]
    others = {
        name: (int(floats(where(rows, approach=SUMMARIES), "hops").max()), len(brokers_at(name, links)))
        for (name, links), rows in groups(table, "where", "links")
        if name != main_of(table)
    }
    if others:
        told = ", ".join(f"{hops} of {size} brokers ({name})" for name, (hops, size) in others.items())
        fewer = all(hops < size for hops, size in others.values())
        found.append(Verdict("On other networks they need fewer hops than brokers, too", "always fewer", told, fewer))
    worst = by_covering(topology, 1, 0.0).hops
    claim = "Without subsumption every broker gets the subscriptions of all others by covering (model)"
    found.append(Verdict(claim, "24 times 23 hops", f"{worst:.0f} hops", round(worst) == brokers * (brokers - 1)))
    return found


def summarize(table: pa.Table) -> pa.Table:
    return side_by_side(table, "hops")


def draw(table: pa.Table, figure: Figure) -> None:
    for axes, way in zip(figure.subplots(1, 2).flat, WAYS, strict=True):
        rows = main_rows(table, way)
        for number, approach in enumerate((SUMMARIES, COVERING)):
            part = where(rows, approach=approach)
            points = [(degree, floats(same, "hops").mean()) for (degree,), same in groups(part, "subsumption")]
            axes.semilogy(*zip(*sorted(points), strict=True), label=approach, **look(number))
        label(axes, "subsumption probability", "hops", way)
        axes.legend(fontsize=8)


EXPERIMENT: Final = Experiment(
    "summaries/figure9",
    "Figure 9: hops of subscription propagation",
    "Triantafillou & Economides 2004, figure 9",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(10.0, 4.2),
    version=3,
    takes_networks=True,
    same_rows=FIGURES,
)
