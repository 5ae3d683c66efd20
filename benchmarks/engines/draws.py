"""draws: the ratios of the matching benchmark with subscriptions drawn anew, and with a shape that the index was not tuned on.

Each seed draws other subscriptions and other events. The shape is `columns.boxes`: three ranges, and no equality.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Final

from benchmarks.columns import Column
from benchmarks.engines.matching import OURS, best_peer, measure
from benchmarks.report import Result, Table, human, times

SEEDS: Final = (7, 11, 12, 13, 14)
SHAPES: Final = {
    "W1 10k": "w1",
    "W2 10k": "market",
    "W2c 10k": "market-hot",
    "strings 10k": "strings",
    "boxes 10k": "boxes",
}
SUBSCRIPTIONS: Final = 10_000


def run(quick: bool = False, *, say: Callable[[str], None] = lambda text: None) -> Result:
    seeds = SEEDS[:2] if quick else SEEDS
    rows, data = [], {}
    for name, scenario in SHAPES.items():
        found = []
        for seed in seeds:
            column = Column(f"{name}, seed {seed}", scenario, SUBSCRIPTIONS, seed)
            cells = measure(column, rounds=3, budget_s=0.5 if quick else 1.5, say=say)
            ours, (peer, best) = cells[OURS].events_per_s or 0.0, best_peer(cells, thin_only=True)
            found.append({"seed": seed, "ours": ours, "peer": peer, "best": best, "ratio": ours / best})
        data[name] = found
        speeds, ratios = [each["ours"] for each in found], [each["ratio"] for each in found]
        rows.append(
            [
                name,
                human(median(speeds)),
                f"{human(min(speeds))} to {human(max(speeds))}",
                times(median(ratios)),
                f"{times(min(ratios))} to {times(max(ratios))}",
                ", ".join(dict.fromkeys(each["peer"] for each in found)),
            ]
        )
    header = ("", "events/s, median", "least to most", "ratio to the best peer, median", "least to most", "best peer")
    about = [
        f"As `matching`, with {SUBSCRIPTIONS:,} subscriptions and {len(seeds)} seeds for each row: each seed draws other "
        "subscriptions and events. The index was not tuned on the shape boxes: ranges of three out of six numbers, nothing "
        "compared for equality.",
    ]
    return Result("draws", "Matching with other draws", about, [Table("", header, rows)], [], data, quick)
