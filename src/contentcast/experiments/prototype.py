"""The prototype's matching: how steps and time grow with the number of subscriptions.

Source: Banavar et al. 1999, section 4.2: 30 attributes of 30 values, 65 % stars; 1000 subscriptions in just over 0.5 ms and
25000 in just over 4 ms on a Pentium of 100 MHz, by the centralized algorithm. Times of another machine say nothing here; how
they grow does. The prototype's broker handed 700 events/s to each of 20 clients: our transport cost.
Rule: times are of the CPU and ratios to that of the fewest subscriptions, in one process, the best of several rounds.
"""

from __future__ import annotations

from time import process_time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.routes import PLAIN_TREE, parsed
from contentcast.experiments.rows import floats, groups, where
from contentcast.matching.search_tree import SearchTree
from contentcast.model import EventBatch
from contentcast.workload import scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUBSCRIPTIONS: Final = (1000, 2500, 5000, 10000, 25000)
ROUNDS: Final = 9
PAPER_GROWTH: Final = 4 / 0.5


def plan(scale: Scale) -> list[Row]:
    sizes, events, seeds = ((500, 1000, 2000), 200, 1) if scale.quick else (SUBSCRIPTIONS, 1000, 3)
    return [
        {"tree": tree, "sizes": list(sizes), "events": events, "seed": seed}
        for tree in ("plain", "optimized")
        for seed in scale.seeds(seeds)
    ]


def measure(tree: str, sizes: list[int], events: int, seed: int) -> list[dict[str, Any]]:
    source = scenario("w1b", seed=seed)
    batch = EventBatch.from_arrow(source.space, source.events(events))
    table = parsed(source, max(sizes))
    found = []
    for size in sizes:
        grown = SearchTree(source.space, **(PLAIN_TREE if tree == "plain" else {}))
        grown.add_many(np.arange(size), table.take(np.arange(size)))
        matches = grown.match_batch(batch)
        took = []
        for _ in range(ROUNDS):
            began = process_time()
            grown.match_batch(batch)
            took.append(process_time() - began)
        found.append(
            {
                "subscriptions": size,
                "steps": float(matches.steps.mean()),
                "matched": float(np.diff(matches.offsets).mean()),
                "us": 1e6 * min(took) / events,
            }
        )
    return found


def growth(table: pa.Table, tree: str, column: str) -> tuple[float, float]:
    """From the fewest to the most subscriptions, how many times as much; and the exponent of a power law through all sizes."""
    points = sorted((size, floats(rows, column).mean()) for (size,), rows in groups(where(table, tree=tree), "subscriptions"))
    sizes, values = (np.array(each, float) for each in zip(*points, strict=True))
    return float(values[-1] / values[0]), float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def judge(table: pa.Table) -> list[Verdict]:
    sizes = floats(table, "subscriptions")
    more = sizes.max() / sizes.min()
    found = {(tree, column): growth(table, tree, column) for tree in ("plain", "optimized") for column in ("steps", "us")}
    named = {"steps": "steps", "us": "time"}
    return [
        Verdict(
            f"{more:.0f} times the subscriptions, far less than {more:.0f} times the {named[column]} ({tree} tree)",
            f"25 times: about {PAPER_GROWTH:.0f} times the time",
            f"{found[tree, column][0]:.1f} times; grows as n^{found[tree, column][1]:.2f}",
            found[tree, column][1] < 0.9,
        )
        for tree, column in found
    ]


def summarize(table: pa.Table) -> pa.Table:
    rows = []
    for (tree,), part in groups(table, "tree"):
        least = part["subscriptions"].to_pylist()[0]
        base = floats(where(part, subscriptions=least), "us").mean()
        rows += [
            {
                "tree": tree,
                "subscriptions": f"{size:,}",
                "steps per event": f"{floats(same, 'steps').mean():.1f}",
                "matches per event": f"{floats(same, 'matched').mean():.2f}",
                f"time / that of {least:,}": f"{floats(same, 'us').mean() / base:.2f}",
            }
            for (size,), same in groups(part, "subscriptions")
        ]
    return pa.Table.from_pylist(rows)


def draw(table: pa.Table, figure: Figure) -> None:
    steps, times = figure.subplots(1, 2)
    for axes, column, name in ((steps, "steps", "steps"), (times, "us", "time")):
        for number, ((tree,), part) in enumerate(groups(table, "tree")):
            points = [(size, floats(same, column).mean()) for (size,), same in groups(part, "subscriptions")]
            base = points[0][1]
            axes.loglog(
                [size for size, _ in points], [value / base for _, value in points], label=f"{tree} tree", **look(number)
            )
        sizes = [size for size, _ in points]
        axes.loglog(sizes, [size / sizes[0] for size in sizes], color="grey", ls=":", label="linear")
        if column == "us" and sizes[-1] >= SUBSCRIPTIONS[-1]:
            axes.loglog([1000, 25000], [1, PAPER_GROWTH], color="black", ls="--", marker="X", label="paper (0.5 and 4 ms)")
        label(axes, "subscriptions", f"{name} per event, times that of {sizes[0]:,}")
        axes.legend(fontsize=8)


EXPERIMENT: Final = Experiment(
    "link-matching/prototype",
    "The prototype's matching: sub-linear in the subscriptions",
    "Banavar et al. 1999, section 4.2",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(10.0, 4.2),
)
