"""Compiling: how long Numba takes for each kernel of the index, from an empty cache, in CPU seconds.

A process of its own, with an empty cache, does with small indexes what there is to do; a listener counts the time of each
compilation without those that happen inside it. `python -m benchmarks.engines.compiling` prints as JSON what the process
found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.report import Result, Table

SHOWN = 16
"""Kernels that the table names; the others are one row together."""


def run(quick: bool) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        told = os.environ | {"CONTENTCAST_CACHE": folder}
        found = subprocess.run(
            [sys.executable, "-m", "benchmarks.engines.compiling"], env=told, capture_output=True, text=True, check=True
        )
    return told_of(json.loads(found.stdout), quick)


def told_of(kernels: list[dict[str, Any]], quick: bool) -> Result:
    rows = sorted(kernels, key=lambda each: -each["seconds"])
    shown = [*rows[:SHOWN], _sum("others", rows[SHOWN:]), _sum("all", rows)]
    told_rows = [[each["kernel"], str(each["signatures"]), f"{each['seconds']:.1f}"] for each in shown]
    table = Table("CPU seconds from an empty cache", ("kernel", "signatures", "seconds"), told_rows)
    about = [
        "What compiling the kernels of the index takes: matching one event and batches, changing, planning anew. A kernel has "
        "more than one signature where it is called with arrays of several types. A plain 0 that a kernel hands to another is "
        "a type of its own for Numba: before 10 of 151 signatures were made by that, `kernel.match` among them.",
    ]
    notes = [
        f"All together {shown[-1]['seconds']:.0f} CPU seconds. 60 are asked for, with the kernels of the search tree, of "
        "summaries and of routers, which are not counted here.",
    ]
    return Result("compiling", "Compiling", about, [table], notes, {"kernels": rows}, quick)


def _sum(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    signatures, seconds = sum(each["signatures"] for each in rows), sum(each["seconds"] for each in rows)
    return {"kernel": f"{name} ({len(rows)})", "signatures": signatures, "seconds": seconds}


class _Clock:
    """Seconds and signatures of each kernel; what is compiled within another compilation is not counted twice."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self._open: list[list[float]] = []

    def on_start(self, event: Any) -> None:
        self._open.append([time.process_time(), 0.0])

    def on_end(self, event: Any) -> None:
        begun, inside = self._open.pop()
        took = time.process_time() - begun
        if self._open:
            self._open[-1][1] += took
        function = event.data["dispatcher"].py_func
        name = f"{function.__module__.removeprefix('contentcast.')}.{function.__qualname__}"
        mine = self.found.setdefault(name, {"kernel": name, "signatures": 0, "seconds": 0.0})
        mine["signatures"] += 1
        mine["seconds"] += took - inside


def _listen() -> _Clock:
    from numba.core import event

    clock = _Clock()

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            clock.on_start(event)

        def on_end(self, event: Any) -> None:
            clock.on_end(event)

    event.register("numba:compile", Listener())
    return clock


def _use_everything() -> None:
    """An index of every kind of attribute and test that is matched in every way, grows, is planned anew and shrinks."""
    import numpy as np

    import contentcast as cc
    from contentcast.matching.index.limits import Limits
    from contentcast.matching.index.replanning.warm import warm_change_kernels
    from contentcast.model import EventBatch
    from contentcast.warming.background import kernels

    kernels.ready = True  # they are compiled here, at their first call, and not by other processes

    space = cc.Space(
        "things", name="string", raw="bytes", number="int", price="float", is_new="bool", at="timestamp", note="string"
    )
    texts = ["name = 'a'", "raw = X'01'", "number = 3", "price < 3", "price < 2 OR price > 5", "is_new", "note LIKE 'a%'"]
    texts += [
        f"name = 'n{each % 40}' AND price BETWEEN {each % 7} AND {each % 7 + 1} AND number < {each}" for each in range(900)
    ]
    texts += [f"name = 'n{each % 3}' AND is_new AND raw = X'0{each % 4}'" for each in range(900)]
    events = [{"name": f"n{each % 40}", "price": each / 7, "number": each, "note": "ab", "is_new": True} for each in range(300)]
    batch = EventBatch.from_dicts(space, events)
    for limits in (Limits(), Limits(streamed_from=64, replan_least=64)):
        index = cc.MatchIndex(space, limits=limits)
        index.add_many(range(len(texts)), texts)
        for part in (batch, batch.slice(0, 1)):
            index.match_batch(part)
            index.match_batch(part, threads=2)
            list(index.match_stream(part, most_pairs=100))
        index.match(events[0])
        for each in range(5000, 5300):
            index.add(each, texts[each % len(texts)])
        index.match_offsets(batch.records)
        index.remove_many(np.arange(1200))
        index.match_batch(batch.records)
    warm_change_kernels()


if __name__ == "__main__":
    from benchmarks import machine

    machine.keep_to_one_thread()
    listened = _listen()
    _use_everything()
    print(json.dumps(list(listened.found.values())))
