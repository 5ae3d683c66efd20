"""Subscriptions that come and go while events are matched: changes per second, and the longest pause they make.

A thousand come, a thousand go, then a batch of 10,000 market events is matched, and again. They come as texts; reading them
(`parse_many`) needs no index and can be done elsewhere, putting them into it is what makes matching wait. A pause is one call
of `add_many` with what was read, or of `remove_many`; it is set beside the time of a batch in the same run: no pause should be
longer than a batch. `at 50,000/s`: between two batches come, and go, as many as so many a second are during a batch. The second
table grows tenfold at that pace, so that the index moves to a new plan on the way; the longest pause is the longest in batches
of its time. Everything is done three times from the beginning, the same changes to the same index, and the time of a change is
the median of the three: what is long is long each time, while a shared machine may stop anything at any moment. The longest of
all single calls is given too, and beside it the longest single batch, which is the same work each time: so long the machine
stopped for reasons of its own. Python's garbage collector is off meanwhile, whose own pauses, of 10 to 70 ms here, come in any
program of as many objects; and memory is touched before it is measured, since a virtual machine may take milliseconds to hand
out the next two megabytes for the first time (here 4.4 ms, later 0.2).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

import contentcast as cc
from benchmarks.columns import Column, Workload
from benchmarks.report import Result, Table
from contentcast.language import parse_many
from contentcast.model.predicates.table import PredicateTable

AT_A_TIME = 1_000
TARGET_PER_S = 50_000
TIMES = 3

GROWING = (
    Column("market", "market", 10_000), Column("market", "market", 200_000), Column("market", "market", 2_000_000),
    Column("small domains (W1)", "w1", 100_000),
    Column("small domains (W1b)", "w1b", 25_000), Column("strings", "strings", 100_000),
)  # fmt: skip
QUICK = (Column("market", "market", 10_000),)


def run(quick: bool = False, *, say: Callable[[str], None] = lambda text: None) -> Result:
    _touch_memory()
    found, grown = [], []
    for size in [10_000] if quick else [10_000, 100_000, 1_000_000]:
        say(f"changes at {size:,}")
        found.append(_changes(size, 5 if quick else 30))
    for column in QUICK if quick else GROWING:
        say(f"growing to {column.subscriptions:,}, {column.name}")
        grown.append(_growing(column))
    slowest = min(min(each["adds/s, from texts"], each["removes/s"]) for each in found)
    holds = "holds" if slowest >= TARGET_PER_S else "does not hold"
    longest = max(each["in batches "] for each in (*found, *grown))
    single = max(each["longest single call, in batches"] for each in (*found, *grown))
    return Result(
        "updates",
        "Subscriptions coming and going while events are matched",
        [(__doc__ or "").split("\n\n", 1)[1].strip().replace("\n", " ")],
        [_table("As many coming as going", found), _table("Growing tenfold", grown)],
        [
            f"{TARGET_PER_S:,} adds or removes a second while matching: {holds} in this run (slowest {slowest:,}).",
            f"No pause longer than a batch at {TARGET_PER_S:,} a second: {'holds' if longest <= 1 else 'does not hold'} in this"
            f" run (longest {longest:.2f} batches; longest single call {single:.1f}).",
        ],
        {"changes": found, "growing": grown},
        quick,
    )


def _table(title: str, found: list[dict[str, Any]]) -> Table:
    return Table(title, list(found[0]), [[_text(each) for each in row.values()] for row in found])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


@dataclass
class _Series:
    """The same steps several times: [time, step] in seconds."""

    times: list[list[float]] = field(default_factory=list)

    def begin(self) -> None:
        self.times.append([])

    def measure(self, work: Callable[..., Any], *given: Any) -> None:
        self.times[-1].append(_seconds(work, *given))

    def each(self) -> Any:
        """Of each step the median."""
        return np.median(np.array(self.times), axis=0)

    def longest(self) -> Any:
        """Of each step the longest."""
        return np.max(np.array(self.times), axis=0)


def _changes(size: int, rounds: int) -> dict[str, Any]:
    workload = Column("", "market", size + 2 * rounds * AT_A_TIME).workload
    there = parse_many(workload.space, workload.predicates.slice(0, size))
    coming = workload.predicates.slice(size)
    events = workload.events(10_000, 0)
    reading, many, going, matching, pauses = (_Series() for _ in range(5))
    meanwhile = 0
    for _ in range(TIMES):
        index = cc.MatchIndex(workload.space)
        index.add_many(np.arange(size), there)
        index.match_batch(events)
        with _without_collector():
            for each in (reading, many, going, matching, pauses):
                each.begin()
            for at in range(0, rounds * AT_A_TIME, AT_A_TIME):
                texts = coming.slice(at, AT_A_TIME)
                reading.measure(parse_many, workload.space, texts)
                many.measure(index.add_many, np.arange(size + at, size + at + AT_A_TIME), parse_many(workload.space, texts))
                going.measure(index.remove_many, np.arange(at, at + AT_A_TIME))  # the oldest go
                matching.measure(index.match_batch, events)
            meanwhile = meanwhile or min(AT_A_TIME, max(1, round(TARGET_PER_S * float(np.median(matching.each())))))
            for at in range(rounds * AT_A_TIME, rounds * (AT_A_TIME + meanwhile), meanwhile):
                read = parse_many(workload.space, coming.slice(at, meanwhile))
                pauses.measure(index.add_many, np.arange(size + at, size + at + meanwhile), read)
                pauses.measure(index.remove_many, np.arange(at, at + meanwhile))
                index.match_batch(events)
    batch_s = float(np.median(matching.each()))
    longest_s, at_pace_s = float(max(many.each().max(), going.each().max())), float(pauses.each().max())
    return {
        "subscriptions": size,
        "adds/s, from texts": round(AT_A_TIME / float(np.median(reading.each()) + np.median(many.each()))),
        "adds/s, read before": round(AT_A_TIME / float(np.median(many.each()))),
        "removes/s": round(AT_A_TIME / float(np.median(going.each()))),
        "a batch, ms": 1e3 * batch_s,
        "longest pause of 1,000, ms": 1e3 * longest_s,
        "in batches": longest_s / batch_s,
        "longest at 50,000/s, ms": 1e3 * at_pace_s,
        "in batches ": at_pace_s / batch_s,
        "longest single call, in batches": float(pauses.longest().max()) / batch_s,
        "longest single batch, in batches": float(matching.longest().max()) / batch_s,
    }


def _growing(column: Column) -> dict[str, Any]:
    """From a tenth of the subscriptions to all of them, at the pace that is asked for."""
    workload, size = column.workload, column.subscriptions // 10
    there = parse_many(workload.space, workload.predicates.slice(0, size))
    pauses, matching = _Series(), _Series()
    steps: list[PredicateTable] = []
    for _ in range(TIMES):
        index = cc.MatchIndex(workload.space)
        index.add_many(np.arange(size), there)
        for each in (pauses, matching):
            each.begin()
        with _without_collector():
            _grow(index, workload, size, steps, pauses, matching)
    batches = matching.each()
    around = [float(np.median(batches[max(0, at - 4) : at + 5])) for at in range(len(batches))]
    ratios, single = pauses.each() / around, pauses.longest() / around
    at = int(np.argmax(ratios))
    return {
        "subscriptions": f"{column.name}, {size:,} to {column.subscriptions:,}",
        "changes": len(ratios),
        "a batch then, ms": 1e3 * around[at],
        "longest pause, ms": 1e3 * float(pauses.each()[at]),
        "in batches ": float(ratios[at]),
        "nine of ten are below": float(np.quantile(ratios, 0.9)),
        "longest single call, in batches": float(single.max()),
        "longest single batch, in batches": float((matching.longest() / around).max()),
    }


def _grow(
    index: cc.MatchIndex, workload: Workload, at: int, steps: list[PredicateTable], pauses: _Series, matching: _Series
) -> None:
    """Go through the steps; the first time they are made on the way, as long as batches take."""
    events = [workload.events(10_000, 10_000 * number) for number in range(3)]
    for batch in events:
        index.match_batch(batch)
    first, number, end = not steps, 0, len(workload.predicates)
    recent = [_seconds(index.match_batch, batch) for batch in 3 * events]
    while at < end:
        if first:
            some = max(1, round(TARGET_PER_S * float(np.median(recent[-9:]))))
            steps.append(parse_many(workload.space, workload.predicates.slice(at, some)))
        pauses.measure(index.add_many, np.arange(at, at + len(steps[number])), steps[number])
        matching.measure(index.match_batch, events[number % 3])
        recent.append(matching.times[-1][-1])
        at, number = at + len(steps[number]), number + 1


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _touch_memory() -> None:
    """So that the machine has handed it out before."""
    np.ones(1 << 28, np.int64)


def _seconds(work: Callable[..., Any], *given: Any) -> float:
    begun = perf_counter()
    work(*given)
    return perf_counter() - begun
