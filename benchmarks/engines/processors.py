"""processors: matching compiled for less than this processor has, beside the same peers, which are not held back.

Each row is a process of its own: compiled for this processor; without AVX-512, as most laptops and many clouds are; and for the
plain baseline, with those instructions alone that every processor has. `python -m benchmarks.engines.processors` prints what
one found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.report import Result, Table, human, times

KERNELS: Final = Path("build/kernels").absolute()
"""The kernels of each way, so that the next run need not compile them."""
COLUMNS: Final = (
    ("W1 10k", "w1", 10_000),
    ("W2 10k", "market", 10_000),
    ("W2 100k", "market", 100_000),
    ("strings 10k", "strings", 10_000),
)


def ways() -> dict[str, dict[str, str]]:
    from llvmlite.binding import get_host_cpu_features

    features = get_host_cpu_features()
    found: dict[str, dict[str, str]] = {"this processor": {}}
    if features.get("avx512f") and features.get("avx2"):
        less = (("-" if name.startswith(("avx512", "avx10", "amx")) else "+") + name for name, on in features.items() if on)
        found["without AVX-512"] = {"NUMBA_CPU_NAME": "znver3", "NUMBA_CPU_FEATURES": ",".join(less)}
    return found | {"plain baseline": {"NUMBA_CPU_NAME": "generic"}}


def run(quick: bool = False, *, say: Callable[[str], None] = lambda text: None) -> Result:
    rows, data = [], {}
    for name, chosen in ways().items():
        say(f"{name}: compiling, then matching")
        told = os.environ | chosen | {"CONTENTCAST_CACHE": str(KERNELS / name.replace(" ", "-"))}
        command = [sys.executable, "-m", "benchmarks.engines.processors", *(["--quick"] if quick else [])]
        found = subprocess.run(command, env=told, stdout=subprocess.PIPE, text=True, check=True)
        cells = data[name] = json.loads(found.stdout)
        way = cells.pop("way")
        rows.append([f"{name} ({way})", *(human(each["ours"]) for each in cells.values())])
        rows.append([f"{name}, ratio to the best peer", *(times(each["ours"] / each["best"]) for each in cells.values())])
    about = [
        "Events per second as in `matching`, the kernels compiled for less than the processor has. In brackets how entries "
        "that passed are put side by side (`matching/index/machine/compaction`). The peers use all that the processor has.",
    ]
    table = Table("", ("", *(name for name, _, _ in COLUMNS)), rows)
    return Result("processors", "Matching on processors with less", about, [table], [], data, quick)


def _measured(quick: bool) -> dict[str, Any]:
    from benchmarks.columns import Column
    from benchmarks.engines.matching import OURS, best_peer, measure
    from contentcast.matching.index.machine.compaction import WAY

    found: dict[str, Any] = {"way": WAY}
    for name, scenario, count in COLUMNS:
        cells = measure(Column(name, scenario, count), rounds=3, budget_s=0.5 if quick else 2.0, say=lambda text: None)
        peer, best = best_peer(cells, thin_only=True)
        found[name] = {"ours": cells[OURS].events_per_s, "peer": peer, "best": best}
    return found


if __name__ == "__main__":
    from benchmarks import machine

    machine.keep_to_one_thread()
    machine.wait_for_kernels()
    print(json.dumps(_measured("--quick" in sys.argv)))
