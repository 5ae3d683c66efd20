"""cold: what a newcomer waits for: import, first answers, the compiler. Processes of their own, an empty home, an empty cache.

The peer is the index with its kernels: compiled before it answers, and in a second process that finds them in the cache.
Seconds of the clock and of the processor, since other programs may run beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.report import Result, Table

TARGETS_S: Final = {"import contentcast": 1.0, "first answer, 3 rules": 2.0}
_BEGIN: Final = "import json, logging, time, sys\nlogging.disable()\nbegan, used = time.perf_counter(), time.process_time()\n"
_END: Final = "\nprint(json.dumps([time.perf_counter() - began, time.process_time() - used]))\n"
_RULES: Final = """
import contentcast as cc
from contentcast.workload import scenario
drawn = scenario("market", seed=1)
wanted, records = drawn.subscriptions(10_000), drawn.events(1_000)
began, used = time.perf_counter(), time.process_time()
index = cc.MatchIndex(drawn.space)
"""
SCRIPTS: Final = {
    "import contentcast": "import contentcast",
    "first answer, 3 rules": """
import contentcast as cc
index = cc.MatchIndex(cc.Space("trades", issue="string", price="float", volume="int"))
index.add_many([1, 2, 3], ["issue = 'IBM' AND price < 120", "volume > 1000", "issue LIKE '%B%'"])
assert index.match({"issue": "IBM", "price": 119.5, "volume": 5000}) == [1, 2, 3]
""",
    "first answer, 10,000 rules": _RULES
    + 'index.add_many(wanted["subscription"], wanted["predicate"])\nindex.match(records.slice(0, 1).to_pylist()[0])',
    "first 1,000 events, 10,000 rules": _RULES
    + 'index.add_many(wanted["subscription"], wanted["predicate"])\nindex.match_batch(records)',
}
PEER: Final = (
    "from contentcast.warming.background import kernels\nkernels.wait()\n" + SCRIPTS["first 1,000 events, 10,000 rules"]
).replace("began, used = time.perf_counter(), time.process_time()\n", "")
"""The same answer, for which the kernels are waited for."""
WITH_KERNELS: Final = "first 1,000 events, 10,000 rules, waiting for the kernels of the index"
AGAIN: Final = "the same in a second process, kernels in the cache"
ALL: Final = "contentcast warm: every kernel"


def run(quick: bool = False) -> Result:
    rounds = 1 if quick else 5
    found: dict[str, tuple[float, float]] = {}
    for name, script in SCRIPTS.items():
        taken = [_alone(script) for _ in range(rounds)]
        found[name] = median(wall for wall, _ in taken), median(cpu for _, cpu in taken)
    if not quick:
        with tempfile.TemporaryDirectory() as cache:
            found[WITH_KERNELS] = _measured([sys.executable, "-c", _BEGIN + PEER], Path(cache))
            found[AGAIN] = _measured([sys.executable, "-c", _BEGIN + PEER], Path(cache))
        with tempfile.TemporaryDirectory() as cache:
            found[ALL] = _measured([sys.executable, "-m", "contentcast.cli", "warm"], Path(cache))
    missed = [name for name, limit in TARGETS_S.items() if found[name][0] > limit]
    return Result(
        "cold",
        "Cold start: what a newcomer waits for",
        [
            "Each row is a process of its own with an empty home and an empty cache; medians of "
            f"{rounds} rounds where no compiler runs. The 10,000 rules are those of the `market` workload; making them is not "
            "counted. Whole processes are counted from `waiting for the kernels` on, with the processes that they start.",
        ],
        [Table("", ("", "s", "CPU s"), [(name, f"{wall:.2f}", f"{cpu:.2f}") for name, (wall, cpu) in found.items()])],
        [
            "Targets: import within 1 s, the first answer of a small index within 2 s with the import: "
            + ("both hold." if not missed else f"missed: {', '.join(missed)}."),
            f"The load of the machine at the end was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; on a quiet one the "
            "clock shows about what the processor does.",
        ],
        {"seconds": {name: {"clock": wall, "processor": cpu} for name, (wall, cpu) in found.items()}},
        quick,
    )


def _environment(cache: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG_CACHE"))}
    return kept | {"HOME": str(cache), "CONTENTCAST_CACHE": str(cache / "cache")}


def _alone(script: str) -> tuple[float, float]:
    """What the script itself counted."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", _BEGIN + script + _END], env=_environment(Path(cache)), check=True, capture_output=True
        )
    wall, cpu = json.loads(done.stdout.splitlines()[-1])
    return float(wall), float(cpu)


def _measured(command: list[str], cache: Path) -> tuple[float, float]:
    """The whole process, with those that it started."""

    def used() -> float:
        now: Any = getrusage(RUSAGE_CHILDREN)
        return float(now.ru_utime + now.ru_stime)

    began, before = perf_counter(), used()
    subprocess.run(command, env=_environment(cache), check=True, capture_output=True)
    return perf_counter() - began, used() - before
