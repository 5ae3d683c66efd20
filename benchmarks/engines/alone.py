"""What needs no peer: `MatchIndex` by itself, one event at a time, on two threads, as it is built, as it grows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa

import contentcast as cc
from benchmarks.columns import BATCH, SEED, strings
from benchmarks.report import Table, human, times
from contentcast.language import parse_many
from contentcast.workload import Scenario, scenario

SINGLES: Final = 2_000


def ours_alone(quick: bool, say: Callable[[str], None]) -> list[Table]:
    sizes = [10_000, 100_000] if quick else [10_000, 100_000, 1_000_000]
    return [_calls(sizes, say), _growth(quick, say), _texts(10_000 if quick else 100_000, say)]


def _calls(sizes: list[int], say: Callable[[str], None]) -> Table:
    header = ["W2", "one dict, /s", "as array, /s", "batch, /s", "2 threads", "as lists", "counts", "built, s", "arrays, MB"]
    rows = []
    for size in sizes:
        say(f"one by one, threads: {size:,}")
        rows.append([f"{size:,}", *_all_calls(size)])
    return Table("By itself; built from predicates that were read before", header, rows)


def _all_calls(size: int) -> list[str]:
    market = scenario("market", seed=SEED)
    index, built_s = _built(market, size)
    batches = [market.events(BATCH, number * BATCH) for number in range(4)]
    singles = batches[0].slice(0, SINGLES).to_pylist()
    alone, as_array = (
        _median(lambda _, match=match: deque(map(match, singles), maxlen=0), range(5)) / SINGLES  # nothing is kept
        for match in (index.match, index.match_ids)
    )
    batch = _median(index.match_batch, batches * 3)
    threads = _median(lambda events: index.match_batch(events, threads=2), batches * 3)
    lists, counts = _median(index.match_lists, batches * 3), _median(index.match_counts, batches * 3)
    return [
        human(1 / alone),
        human(1 / as_array),
        human(BATCH / batch),
        *(times(batch / each) for each in (threads, lists, counts)),
        f"{built_s:.1f}",
        f"{index.statistics()['bytes'] / 1e6:.0f}",
    ]


def _growth(quick: bool, say: Callable[[str], None]) -> Table:
    rows = []
    before = 0.0
    for size in [250, 2_500] if quick else [2_500, 25_000, 250_000]:
        say(f"growth: {size:,}")
        chosen = scenario("w1b", seed=SEED)
        index, _ = _built(chosen, size)
        batches = [chosen.events(BATCH, number * BATCH) for number in range(4)]
        took = _median(index.match_batch, batches * 3) / BATCH
        found = len(index.match_batch(batches[0])) / BATCH
        rows.append([f"{size:,}", f"{found:.3f}", f"{took * 1e9:.0f}", times(took / before) if before else ""])
        before = took
    return Table(
        "Ten times the subscriptions, of which hardly any match (W1b)",
        ["subscriptions", "match an event", "ns an event", "times the one before"],
        rows,
    )


def _texts(size: int, say: Callable[[str], None]) -> Table:
    """Values that were seen before, which the index remembers, and values that come once, as lines of a log do."""
    say(f"texts: {size:,}")
    workload = strings(size)
    index = cc.MatchIndex(workload.space)
    index.add_many(np.arange(size), workload.predicates)
    seen = [workload.events(BATCH, number * BATCH) for number in range(8)]
    new = [
        pa.record_batch({"name": [f"{name} {BATCH * number + at}" for at, name in enumerate(batch["name"].to_pylist())]})
        for number, batch in enumerate(seen)
    ]
    for batch in seen:
        index.match_batch(batch)
    rows = [
        [which, human(BATCH / _median(index.match_batch, batches)), f"{len(index.match_batch(batches[0])) / BATCH:.0f}"]
        for which, batches in (("seen before", seen), ("new, each once", new))
    ]
    title = f"{size:,} prefixes, suffixes and inner parts of names, over values"
    return Table(title, ["values", "events/s", "match an event"], rows)


def _built(chosen: Scenario, size: int) -> tuple[cc.MatchIndex, float]:
    read = parse_many(chosen.space, chosen.subscriptions(size)["predicate"])
    index = cc.MatchIndex(chosen.space)
    started = perf_counter()
    index.add_many(np.arange(size), read)
    return index, perf_counter() - started


def _median(call: Callable[[Any], object], given: Any) -> float:
    taken = []
    for each in given:
        started = perf_counter()
        call(each)
        taken.append(perf_counter() - started)
    return median(taken)
