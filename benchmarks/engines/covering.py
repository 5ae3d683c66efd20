"""Covering: how long it takes to find what covers what, against comparing every pair, and to tell subscriptions on.

Times are CPU seconds of the one thread. Pairwise is the plain way with the same function, `model.predicates.covering.covers`: a
subscription is compared with each one that is kept so far, in both directions, until one covers it.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.report import Result, Table, times
from contentcast.language import parse_many
from contentcast.matching.covering import Shelf, uncovered
from contentcast.model import Predicate, SubscriptionBatch
from contentcast.model.predicates.covering import covers
from contentcast.model.predicates.table import PredicateTable
from contentcast.network.topology import Topology
from contentcast.routing.contract import Send, Subscribed, TimerFired
from contentcast.routing.covering import Covering
from contentcast.routing.covering.passing import PASS_ON
from contentcast.routing.setup import Setup
from contentcast.wire import message_bytes
from contentcast.workload import scenario

SEED = 1
SCENARIOS = ("market", "summaries", "gryphon")


def pairwise_kept(predicates: list[Predicate]) -> list[int]:
    kept: list[int] = []
    for row, predicate in enumerate(predicates):
        if any(covers(predicates[each], predicate) for each in kept):
            continue
        kept = [each for each in kept if not covers(predicate, predicates[each])]
        kept.append(row)
    return kept


def measure(name: str, count: int, with_pairs: bool) -> dict[str, Any]:
    source = scenario(name, seed=SEED)
    table = parse_many(source.space, source.subscriptions(count)["predicate"])
    begun = time.process_time()
    shelf = Shelf(source.space)
    kept = uncovered(shelf, shelf.add(table))
    index_s = time.process_time() - begun
    row: dict[str, Any] = {"scenario": name, "subscriptions": count, "kept": len(kept), "index s": index_s}
    if with_pairs:
        predicates = list(table)
        begun = time.process_time()
        plain = pairwise_kept(predicates)
        row["pairwise s"] = time.process_time() - begun
        row["kept by pairs"] = len(plain)
    row |= told_on(table, count)
    return row


def told_on(table: PredicateTable, count: int) -> dict[str, Any]:
    """One broker of three, whose clients subscribe all at once: until the messages for both neighbours are there."""
    router = Covering("b", Setup(topology=Topology.of("abc", [("a", "b", 0.01), ("b", "c", 0.01)])))
    router.handle(TimerFired(PASS_ON), 0.0)
    batch = SubscriptionBatch.columns(np.arange(count), table, ["client"] * count)
    begun = time.process_time()
    router.handle(Subscribed(batch), 1.0)
    sent = [each.message for each in router.handle(TimerFired(PASS_ON), 1.05) if isinstance(each, Send)]
    spent = time.process_time() - begun
    return {"told on s": spent, "bytes": sum(map(message_bytes, sent)) // 2}


def run(quick: bool) -> Result:
    small, large = (200, 1000) if quick else (600, 10_000)
    measure("market", 200, False)  # kernels are compiled
    rows = [measure(name, small, True) for name in SCENARIOS] + [measure(name, large, False) for name in SCENARIOS]
    cells = [
        [
            f"{row['scenario']}, {row['subscriptions']:,}",
            f"{row['kept']:,}",
            f"{row['index s']:.2f}",
            f"{row['pairwise s']:.2f}" if "pairwise s" in row else "",
            times(row["pairwise s"] / row["index s"]) if "pairwise s" in row else "",
            f"{row['told on s']:.2f}",
            f"{row['bytes'] / row['subscriptions']:.1f}",
        ]
        for row in rows
    ]
    head = [
        "subscriptions",
        "not covered",
        "by the set, s",
        "by pairs, s",
        "ratio",
        "told on to two neighbours, s",
        "bytes each",
    ]
    agree = all(row["kept"] == row["kept by pairs"] for row in rows if "kept by pairs" in row)
    market = next(row for row in rows if row["scenario"] == "market" and row["subscriptions"] == large)
    return Result(
        "covering",
        "What covers what",
        [__doc__ or ""],
        [Table("Finding the subscriptions that no other one covers, and telling them on", head, cells)],
        [
            f"Both ways keep {'equally many' if agree else 'different numbers of'} subscriptions.",
            f"{large:,} market subscriptions at a broker are told on to two neighbours in {market['told on s']:.2f} s "
            "(wanted: seconds).",
        ],
        {"rows": rows},
        quick,
    )
