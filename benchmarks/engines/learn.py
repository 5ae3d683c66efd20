"""What learning gains: steps of the search tree by the paper's order beside the learnt order and factoring, on later events.

`python -m benchmarks learn` prints the table of docs/internals/learning.md. Steps and bytes are counted, not timed:
they are the same on any machine. The order and the factoring are chosen by a sample of 2,000 events, the steps are
those of 10,000 later ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.report import Result, Table
from contentcast.language import parse_many
from contentcast.matching.search_tree import SearchTree
from contentcast.matching.search_tree.choose import choose
from contentcast.model import EventBatch
from contentcast.workload import scenario

SAMPLE, LATER, LATER_FROM = 2_000, 10_000, 1_000_000
WORKLOADS = (
    ("w1", 10_000),
    ("w1", 100_000),
    ("w1b", 25_000),
    ("market", 10_000),
    ("market", 100_000),
    ("market-hot", 10_000),
    ("market-hot", 100_000),
    ("summaries", 10_000),
    ("overlay", 10_000),
    ("video", 10_000),
)


def measured(name: str, count: int) -> dict[str, Any]:
    drawn = scenario(name)
    table = parse_many(drawn.space, drawn.subscriptions(count)["predicate"])
    chosen = choose(table, EventBatch.from_arrow(drawn.space, drawn.events(SAMPLE)))
    later = EventBatch.from_arrow(drawn.space, drawn.events(LATER, start=LATER_FROM))
    found: dict[str, Any] = {"workload": name, "subscriptions": count}
    matches = []
    for tree, options in {
        "paper": {},
        "order": {"order": chosen.order},
        "order and factoring": {"order": chosen.order, "factored": chosen.factored},
    }.items():
        made = SearchTree(drawn.space, **options)
        made.add_many(np.arange(count), table)
        result = made.match_batch(later)
        matches.append(len(result.ids))
        found[tree] = {"steps": round(float(result.steps.mean()), 1), "kB": round(made.shape.nbytes / 1000)}
    assert len(set(matches)) == 1, f"{name}: the trees do not agree"
    return found | {"learnt": chosen._asdict(), "matches": round(matches[0] / LATER, 1)}


def run(quick: bool = False) -> Result:
    found = [measured(name, count // 10 if quick else count) for name, count in WORKLOADS]
    header = [
        "workload",
        "subscriptions",
        "matches",
        "steps, fewest stars",
        "learnt order",
        "and factoring",
        "fewer by",
        "factored on",
        "kB before",
        "kB after",
    ]
    rows = [
        [
            each["workload"],
            f"{each['subscriptions']:,}",
            f"{each['matches']:,}",
            f"{each['paper']['steps']:,}",
            f"{each['order']['steps']:,}",
            f"{each['order and factoring']['steps']:,}",
            f"{each['paper']['steps'] / each['order and factoring']['steps']:.1f}x",
            ", ".join(each["learnt"]["factored"]) or "-",
            f"{each['paper']['kB']:,}",
            f"{each['order and factoring']['kB']:,}",
        ]
        for each in found
    ]
    return Result(
        "learn",
        "The learnt plan: steps per event in the search tree",
        ["Chosen by a sample of 2,000 events, counted on 10,000 later ones; see docs/internals/learning.md."],
        [Table("Steps per event", header, rows)],
        [],
        {"rows": found},
        quick,
    )
