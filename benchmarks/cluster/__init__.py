"""cluster: Spark on a standalone cluster of this machine, in parts that can be run one by one (`--part large`).

    workers    two workers of one core each against one: files to a table
    kafka      a topic to a table against files to a table, as streams
    index      the index of a million subscriptions on its way to the workers
    skew       one symbol that most events and subscriptions share, against keys of all kinds
    large      10,000,000 subscriptions built and matched by two workers, against one process with one index; then with workers
               whose memory is too small for one index

On a machine with two cores the driver, the master and the workers share them. Kafka is measured where its packages were fetched
(`make setup-cluster`). The kept page has the tables of all parts, each with the day of its run.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from benchmarks.cluster.common import Part
from benchmarks.report import Result, Table

PARTS: Final = ("kafka", "workers", "index", "skew", "large")
"""In this order: a Java takes packages only when it starts, and Kafka's are needed first."""


def run(quick: bool = False, part: str | None = None, kept: Path | None = None) -> Result:
    """`kept`: the folder of the page; a run of one part leaves the tables of the others there as they are."""
    if part is not None and part not in PARTS:
        raise SystemExit(f"the benchmark cluster has no part {part!r}; it has {', '.join(PARTS)}")
    result = Result("cluster", "Spark on a cluster, and from Kafka", ABOUT, [], [], {}, quick)
    before = _before(kept) if part else {}
    found = {}
    for name in PARTS:
        if part in (None, name):
            work: Callable[[Path, bool], Part | None] = import_module(f"benchmarks.cluster.{name}").run
            with tempfile.TemporaryDirectory(prefix="contentcast-bench-") as folder:
                measured = work(Path(folder), quick)
            if measured is not None:
                found[name] = {"when": result.when, "quick": quick, **measured._asdict()}
        elif name in before:
            found[name] = before[name]
    tables = [Table(f"{each['title']} ({name}, {each['when']})", each["header"], each["rows"]) for name, each in found.items()]
    notes = [note for each in found.values() for note in each["notes"]]
    return Result(result.name, result.title, ABOUT, tables, notes, {"parts": found}, quick, result.facts, result.when)


ABOUT: Final = [
    "A standalone cluster on one machine of two cores: the driver, the master and two workers of one core each share them. "
    "Each table is of one run; `make bench ARGS='cluster --part NAME'` runs one part again, by the name behind its title."
]


def _before(kept: Path | None) -> dict[str, Any]:
    path = None if kept is None else kept / "cluster.json"
    if path is None or not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["parts"]
    return found
