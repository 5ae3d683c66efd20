"""Precision: the bytes of a summary against how often it says yes wrongly.

Source: the paper has one setting, n_sr = 2 (table 2); this is our question. A yes is wrong when no subscription of that broker
matches the event: the event is then sent to a broker that throws it away. Which brokers are right is found by the match index
from the subscriptions themselves, not by another summary.
Rule: a summary may say yes wrongly, never no wrongly; a missing yes is an error, not a figure.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.routes import subscription_batches
from contentcast.experiments.rows import floats, groups, where
from contentcast.match_index import MatchIndex
from contentcast.matching.summaries import EXACT, PAPER, Precision, Summary
from contentcast.model import EventBatch
from contentcast.wire.summaries import encode_summary
from contentcast.workload import Scenario, scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS: Final[dict[str, Precision]] = {
    "exact": EXACT,
    **{f"{rows} rows": Precision(rows=rows) for rows in (256, 64, 16, 4, 2, 1)},
    "general rows, as published": PAPER,
}
SUBSUMPTIONS: Final = (0.1, 0.5, 0.9)
SEEDS: Final = 2

Pairs = npt.NDArray[np.int64]
"""Event times number of brokers, plus broker; ascending, each once."""


def plan(scale: Scale) -> list[Row]:
    size, events = (50, 500) if scale.quick else (300, 2000)
    return [
        {"subsumption": subsumption, "setting": setting, "each": size, "events": events, "seed": seed}
        for subsumption in (SUBSUMPTIONS[1:2] if scale.quick else SUBSUMPTIONS)
        for seed in scale.seeds(1 if scale.quick else SEEDS)
        for setting in SETTINGS
    ]


def measure(subsumption: float, setting: str, each: int, events: int, seed: int) -> dict[str, Any]:
    """`each`: subscriptions of every broker."""
    source = scenario("summaries", seed=seed, subsumption=subsumption)
    batch = EventBatch.from_arrow(source.space, source.events(events))
    subscriptions = each * len(source.brokers)
    summary = Summary(source.space, precision=SETTINGS[setting])
    for broker, mine in subscription_batches(source, subscriptions):
        summary.add(broker, mine.ids, mine.table)
    yes, right = told_to(summary, source, batch), wanted_by(source, subscriptions, batch)
    missing = np.setdiff1d(right, yes)
    if len(missing):
        raise AssertionError(f"{len(missing)} times {setting} says no wrongly")
    sizes = summary.sizes()
    return {
        "bytes": len(encode_summary(summary.columns())),
        "equation_bytes": float(sizes.equation_bytes(sst=4, ssv=10, sid=4)),
        "rows": sizes.rows,
        "right": len(right) / events,
        "wrong": (len(yes) - len(right)) / events,
    }


def told_to(summary: Summary, source: Scenario, batch: EventBatch) -> Pairs:
    """The brokers to which a broker with this summary sends each event."""
    found = summary.match_brokers(batch)
    number = np.array([source.brokers.index(name) for name in found.names], np.int64)
    return np.unique(found.events * len(source.brokers) + number[found.brokers])


def wanted_by(source: Scenario, subscriptions: int, batch: EventBatch) -> Pairs:
    """The brokers that have a subscription for each event."""
    rows = source.subscriptions(subscriptions)
    index = MatchIndex(source.space)
    index.add_many(np.arange(subscriptions), rows["predicate"])
    found = index.match_pairs(batch)
    broker = np.array([source.brokers.index(name) for name in rows["broker"].to_pylist()], np.int64)
    return np.unique(found.rows * len(source.brokers) + broker[found.ids])


def judge(table: pa.Table) -> list[Verdict]:
    found = []
    exact, general = (where(table, setting=each) for each in ("exact", "general rows, as published"))
    wrong = floats(exact, "wrong")
    found.append(
        Verdict(
            "Without a budget a summary says yes wrongly to no broker, or hardly ever",
            "not in the paper",
            f"{wrong.max():.3f} brokers an event at most",
            wrong.max() < 0.05,
        )
    )
    saved = 1 - floats(general, "bytes").sum() / floats(exact, "bytes").sum()
    cost = floats(general, "wrong").mean()
    found.append(
        Verdict(
            "General rows, as published, save bytes at a small price in wrong yeses",
            "the paper gives no figure",
            f"{saved:.0%} of the bytes for {cost:.2f} wrong brokers an event",
            bool(saved > 0 and cost < floats(general, "right").mean()),
        )
    )
    monotone = []
    for _, same in groups(table, "subsumption"):
        budgets = [each for each in SETTINGS if each.endswith(" rows")]
        points = [floats(where(same, setting=each), "wrong").mean() for each in budgets]
        monotone.append(all(a <= b + 1e-9 for a, b in pairwise(points)))
    found.append(
        Verdict(
            "Fewer rows never say yes wrongly less often",
            "not in the paper",
            f"{sum(monotone)} of {len(monotone)} degrees",
            all(monotone),
        )
    )
    return found


def summarize(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "subsumption": f"{subsumption:g}",
                "setting": setting,
                "rows": f"{floats(same, 'rows').mean():,.0f}",
                "bytes": f"{floats(same, 'bytes').mean():,.0f}",
                "by the equations": f"{floats(same, 'equation_bytes').mean():,.0f}",
                "right brokers an event": f"{floats(same, 'right').mean():.2f}",
                "wrong brokers an event": f"{floats(same, 'wrong').mean():.2f}",
            }
            for (subsumption, setting), same in groups(table, "subsumption", "setting")
        ]
    )


def draw(table: pa.Table, figure: Figure) -> None:
    axes = figure.subplots()
    for number, ((subsumption,), same) in enumerate(groups(table, "subsumption")):
        points = sorted(
            (floats(rows, "bytes").mean() / 1000, floats(rows, "wrong").mean()) for _, rows in groups(same, "setting")
        )
        axes.plot(*zip(*points, strict=True), label=f"subsumption {subsumption:g}", **look(number))
    label(axes, "bytes of the summary of all brokers, in thousands", "wrong brokers an event")
    axes.legend(fontsize=8)


EXPERIMENT: Final = Experiment(
    "summaries/precision",
    "Bytes of a summary against wrong yeses",
    "our question; Triantafillou & Economides 2004 have n_sr = 2 alone",
    plan,
    measure,
    judge,
    summarize,
    draw,
    version=2,
    size_inches=(8.0, 4.6),
)
