"""Subscriptions that come and go while events are matched: changes per second, and the longest pause they make.

A thousand come as texts, a thousand go, then a batch of 10,000 market events is matched, and again. A pause is one call of
`add_many` or `remove_many`; it is set beside the time of a batch in the same run: no pause should be longer than a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import contentcast as cc
from benchmarks.report import Result, Table
from contentcast.workload import scenario

AT_A_TIME = 1_000
TARGET_PER_S = 50_000


def run(quick: bool = False) -> Result:
    sizes, rounds = ([10_000], 5) if quick else ([10_000, 100_000, 1_000_000], 30)
    found = [_changes(size, rounds) for size in sizes]
    header = list(found[0])
    rows = [[f"{each[name]:,}" if isinstance(each[name], int) else f"{each[name]:.1f}" for name in header] for each in found]
    slowest = min(min(each["adds/s"], each["removes/s"]) for each in found)
    holds = "holds" if slowest >= TARGET_PER_S else "does not hold"
    return Result(
        "updates",
        "Subscriptions coming and going while events are matched",
        [(__doc__ or "").split("\n\n", 1)[1].strip().replace("\n", " ")],
        [Table("", header, rows)],
        [f"{TARGET_PER_S:,} adds or removes a second while matching: {holds} in this run (slowest {slowest:,})."],
        {"rows": found},
        quick,
    )


def _changes(size: int, rounds: int) -> dict[str, Any]:
    market = scenario("market", seed=1)
    index = cc.MatchIndex(market.space)
    index.add_many(np.arange(size), market.subscriptions(size)["predicate"])
    coming = market.subscriptions(rounds * AT_A_TIME, start=size)["predicate"]
    events = market.events(10_000)
    index.match_batch(events)
    adding, removing, matching = [], [], []
    for at in range(0, rounds * AT_A_TIME, AT_A_TIME):
        new = np.arange(size + at, size + at + AT_A_TIME)
        adding.append(_seconds(index.add_many, new, coming.slice(at, AT_A_TIME)))
        removing.append(_seconds(index.remove_many, np.arange(at, at + AT_A_TIME)))  # the oldest go
        matching.append(_seconds(index.match_batch, events))
    return {
        "subscriptions": size,
        "adds/s": round(AT_A_TIME / float(np.median(adding))),
        "removes/s": round(AT_A_TIME / float(np.median(removing))),
        "longest pause, ms": 1e3 * max(*adding, *removing),
        "a batch, ms": 1e3 * float(np.median(matching)),
        "pause / batch": max(*adding, *removing) / float(np.median(matching)),
    }


def _seconds(work: Callable[..., Any], *given: Any) -> float:
    begun = perf_counter()
    work(*given)
    return perf_counter() - begun
