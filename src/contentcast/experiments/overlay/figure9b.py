"""Figure 9b: discretization cuts the hops of a subscription.

Source: Baldoni et al. 2005, figure 9(b): selective-attribute with unicast; intervals of 10 and 20 % of the mean range size.
Rule: the mean range is 1.5 % of the domain, so an interval of 10 % of it divides the domain into 667 cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.setting import Setting
from contentcast.experiments.overlay.tables import bars, mean, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS: Final = {0: 0, 10: 667, 20: 333}
"""Interval in percent of the mean range -> cells of the domain."""


def plan(scale: Scale) -> list[Row]:
    counted = 60 if scale.quick else 400
    return [{"interval": each, "counted": counted, "seed": seed} for each in CELLS for seed in scale.seeds(3)]


def measure(interval: int, counted: int, seed: int) -> dict[str, Any]:
    setting = Setting("selective-attribute", seed=seed, cells=CELLS[interval])
    senders = setting.node(setting.source.subscriptions(counted)["broker"])
    ranges = [setting.ranges(number) for number in range(counted)]
    unicast = [setting.ring.aggressive(sender, mine).messages for sender, mine in zip(senders, ranges, strict=True)]
    cast = [setting.ring.mcast(sender, mine).messages for sender, mine in zip(senders, ranges, strict=True)]
    keys = sum(high - low + 1 for mine in ranges for low, high in mine)
    return {"keys": keys / counted, "unicast": sum(unicast) / counted, "mcast": sum(cast) / counted}


def judge(table: pa.Table) -> list[Verdict]:
    hops = [mean(table, "unicast", interval=each) for each in CELLS]
    return [
        Verdict(
            "Discretization cuts the hops of a subscription",
            "10 and 20 % of the mean range cut it evidently",
            f"{hops[0]:.0f} hops without, {hops[1]:.0f} at 10 %, {hops[2]:.0f} at 20 %",
            hops[0] > 1.5 * hops[1] > 1.5 * hops[2],
        )
    ]


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("interval",), "keys", "unicast", "mcast")


def draw(table: pa.Table, figure: Figure) -> None:
    bars(figure.subplots(), table, ("interval",), "unicast", ("interval, % of the mean range", "hops per subscription"))


EXPERIMENT: Final = Experiment(
    "overlay/figure9b",
    "Discretization",
    "Baldoni et al. 2005, figure 9(b)",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
