"""`python -m benchmarks [NAME ...] [--quick] [--out FOLDER]`"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from benchmarks import machine

BENCHMARKS = (
    "cold",
    "bulk",
    "reading",
    "compiling",
    "matching",
    "lists",
    "draws",
    "processors",
    "updates",
    "search_tree",
    "summaries",
    "summaries_route",
    "covering",
    "learn",
    "routing",
    "overlay",
    "live",
    "lan",
    "spark",
    "cluster",
)
ROOMS = (".engines", ".networks", "")
KEPT, TRIED = Path("docs/internals/benchmarks"), Path("build/benchmarks")
WIDE = 140
"""Columns, where nobody looks at a terminal."""


def _find(name: str) -> ModuleType:
    """The benchmark, in whatever room it stands."""
    found = next(each for each in (f"benchmarks{room}.{name}" for room in ROOMS) if find_spec(each))
    return import_module(found)


def main(words: list[str] | None = None) -> int:
    told = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures contentcast against its peers.")
    told.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(BENCHMARKS)} (all)")
    told.add_argument("--quick", action="store_true", help="small sizes and few rounds, to see that it works")
    told.add_argument("--out", type=Path, help=f"where NAME.json and NAME.md go ({KEPT}; {TRIED} with --quick)")
    told.add_argument("--part", help="of the benchmark cluster: only kafka, workers, index, skew or large")
    asked = told.parse_args(words)
    if asked.part and asked.names != ["cluster"]:
        told.error("--part goes with the benchmark cluster alone")
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        told.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    machine.keep_to_one_thread()
    from rich.console import Console

    console, progress = Console(width=None if sys.stdout.isatty() else WIDE), Console(stderr=True)
    for name in asked.names or BENCHMARKS:
        if name not in ("cold", "compiling", "processors"):  # these see to it themselves
            machine.wait_for_kernels()
        benchmark, out = _find(name), asked.out or (TRIED if asked.quick else KEPT)
        with progress.status(name) as status:
            options = {"say": status.update} if name in ("matching", "draws", "processors", "updates") else {}
            if asked.part:
                options = {"part": asked.part, "kept": out}
            result = benchmark.run(asked.quick, **options)
        result.show(console)
        for path in result.write(out):
            console.print(f"written: {path}", highlight=False)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
