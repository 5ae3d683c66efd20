"""Subscriptions that come and go while events are matched: changes per second, and the longest pause they make.

A thousand come, a thousand go, then a batch of 10,000 market events is matched, and again. They come as texts; reading them
(`parse_many`) needs no index and can be done elsewhere, putting them into it is what makes matching wait. A pause is one call
of `add_many` with what was read, or of `remove_many`; it is set beside the time of a batch in the same run: no pause should be
longer than a batch. `at 50,000/s`: between two batches come, and go, as many as so many a second are during a batch. The last
rows grow tenfold on the way, at that pace, so that the index moves to a new plan; their batch is the one of the longest pause.
What was there before the first change is hidden from Python's garbage collector (`gc.freeze`), whose own pauses, of 10 to 35
ms here, come in any program of as many objects; and memory is touched before it is measured, since a virtual machine may take
milliseconds to hand out the next two megabytes for the first time (here 4.4 ms, later 0.2).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import contentcast as cc
from benchmarks.report import Result, Table
from contentcast.language import parse_many
from contentcast.workload import scenario

AT_A_TIME = 1_000
TARGET_PER_S = 50_000


def run(quick: bool = False, *, say: Callable[[str], None] = lambda text: None) -> Result:
    _touch_memory()
    sizes, rounds = ([10_000], 5) if quick else ([10_000, 100_000, 1_000_000], 30)
    found, grown = [], []
    for size in sizes:
        say(f"changes at {size:,}")
        found.append(_changes(size, rounds))
    for size in [1_000] if quick else [20_000, 200_000]:
        say(f"growing from {size:,} to {10 * size:,}")
        grown.append(_growing(size))
    header = list(found[0])
    rows = [[f"{each[name]:,}" if isinstance(each[name], int) else f"{each[name]:.1f}" for name in header] for each in found]
    for size, pause_s, batch_s, _ in grown:
        rows.append([f"{size:,} to {10 * size:,}", "", "", "", f"{1e3 * batch_s:.1f}", "", "", f"{1e3 * pause_s:.1f}"])
        rows[-1].append(f"{pause_s / batch_s:.1f}")
    slowest = min(min(each["adds/s, from texts"], each["removes/s"]) for each in found)
    holds = "holds" if slowest >= TARGET_PER_S else "does not hold"
    return Result(
        "updates",
        "Subscriptions coming and going while events are matched",
        [(__doc__ or "").split("\n\n", 1)[1].strip().replace("\n", " ")],
        [Table("", header, rows)],
        [
            f"{TARGET_PER_S:,} adds or removes a second while matching: {holds} in this run (slowest {slowest:,}).",
            *(f"{size:,} to {10 * size:,}: {over} of 1,000 changes took longer than a batch." for size, _, _, over in grown),
        ],
        {"rows": found},
        quick,
    )


def _changes(size: int, rounds: int) -> dict[str, Any]:
    market = scenario("market", seed=1)
    index = cc.MatchIndex(market.space)
    index.add_many(np.arange(size), market.subscriptions(size)["predicate"])
    coming = market.subscriptions(2 * rounds * AT_A_TIME, start=size)["predicate"]
    events = market.events(10_000)
    index.match_batch(events)
    _hide_from_the_collector()
    reading, adding, removing, matching = [], [], [], []
    for at in range(0, rounds * AT_A_TIME, AT_A_TIME):
        new = np.arange(size + at, size + at + AT_A_TIME)
        started = perf_counter()
        read = parse_many(market.space, coming.slice(at, AT_A_TIME))
        reading.append(perf_counter() - started)
        adding.append(_seconds(index.add_many, new, read))
        removing.append(_seconds(index.remove_many, np.arange(at, at + AT_A_TIME)))  # the oldest go
        matching.append(_seconds(index.match_batch, events))
    batch_s = float(np.median(matching))
    meanwhile = min(AT_A_TIME, max(1, round(TARGET_PER_S * batch_s)))
    pauses = []
    for at in range(rounds * AT_A_TIME, rounds * (AT_A_TIME + meanwhile), meanwhile):
        read = parse_many(market.space, coming.slice(at, meanwhile))
        pauses.append(_seconds(index.add_many, np.arange(size + at, size + at + meanwhile), read))
        pauses.append(_seconds(index.remove_many, np.arange(at, at + meanwhile)))
        index.match_batch(events)
    return {
        "subscriptions": size,
        "adds/s, from texts": round(AT_A_TIME / float(np.median(reading) + np.median(adding))),
        "adds/s, read before": round(AT_A_TIME / float(np.median(adding))),
        "removes/s": round(AT_A_TIME / float(np.median(removing))),
        "a batch, ms": 1e3 * batch_s,
        "longest pause of 1,000, ms": 1e3 * max(*adding, *removing),
        "in batches": max(*adding, *removing) / batch_s,
        "longest at 50,000/s, ms": 1e3 * max(pauses),
        "in batches ": max(pauses) / batch_s,
    }


def _growing(size: int) -> tuple[int, float, float, float]:
    """From so many to ten times as many, at the pace that is asked for: the pause that was the longest in batches, a batch at
    the time, and how many of a thousand pauses were longer than one.
    """
    market = scenario("market", seed=1)
    texts = market.subscriptions(10 * size)["predicate"]
    index = cc.MatchIndex(market.space)
    index.add_many(np.arange(size), texts.slice(0, size))
    events = market.events(10_000)
    _hide_from_the_collector()
    at, pauses, batches = size, [(0.0, 1.0)], [_seconds(index.match_batch, events) for _ in range(9)]
    while at < 10 * size:
        batch_s = float(np.median(batches[-9:]))
        some = np.arange(at, min(at + max(1, round(TARGET_PER_S * batch_s)), 10 * size))
        coming = parse_many(market.space, texts.slice(at, len(some)))
        pauses.append((_seconds(index.add_many, some, coming), batch_s))
        batches.append(_seconds(index.match_batch, events))
        at += len(some)
    longest = max(pauses, key=lambda each: each[0] / each[1])
    return size, *longest, round(1e3 * sum(pause > batch for pause, batch in pauses) / len(pauses), 1)


def _touch_memory() -> None:
    """So that the machine has handed it out before."""
    np.ones(1 << 28, np.int64)


def _hide_from_the_collector() -> None:
    gc.collect()
    gc.freeze()


def _seconds(work: Callable[..., Any], *given: Any) -> float:
    begun = perf_counter()
    work(*given)
    return perf_counter() - begun
