"""One Python function for every row of a plan, spread over the cluster: how grids of experiments run.

    plan = grid(protocol=["flooding", "covering"], brokers=[10, 39], seed=range(3))       # 12 rows
    results = spread(measure, plan, spark=spark, out="out/protocols")                     # measure(protocol=, brokers=, seed=)

    out/protocols/rows/5f0c...e1.parquet      what the function returned for one row, beside the row itself
    out/protocols/failures/77ab...04.txt      the traceback of a row that failed
    out/protocols/results.parquet             all rows in the order of the plan, once none is missing

Every row is a Spark job of one task, as many at a time as the cluster has cores, so a long row holds nobody up and a row whose
worker dies takes nobody along. The driver writes a row's file as soon as the row ends: workers need not see the folder, and
whoever calls again after a failure or a Ctrl-C goes on with the rows that are not there yet.
Rule: a row's file is named by the row, the function's name and its `version`, and is complete once it has its name. A function
whose results change gets a new version; `fresh=True` forgets what is there.
"""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from contentcast.model.errors import ContentcastError, nearest
from contentcast.progress_lines import lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row: TypeAlias = dict[str, Any]
Measure: TypeAlias = Callable[..., "Mapping[str, Any] | Sequence[Mapping[str, Any]]"]
Tell: TypeAlias = Callable[[int, int, Row], None]

MOST_AT_ONCE: Final = 256
FAILURES_SHOWN: Final = 5


class SpreadError(ContentcastError):
    """A plan that cannot be run, or rows of it that failed."""


def grid(**axes: Iterable[Any]) -> list[Row]:
    """Every combination of the axes' values; the last axis changes fastest."""
    values = {name: list(axis) for name, axis in axes.items()}
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


class _Task(NamedTuple):
    row: Row
    path: Path


class _Outcome(NamedTuple):
    """What came of a row: the results, or what went wrong (the traceback)."""

    results: list[Row] | None
    trouble: str


def spread(
    function: Measure,
    plan: Sequence[Mapping[str, Any]] | pa.Table,
    *,
    out: str | Path,
    spark: SparkSession | None = None,
    key: Sequence[str] | None = None,
    version: str | int = 1,
    fresh: bool = False,
    tell: Tell | None = None,
) -> pa.Table:
    """Calls `function(**row)` for each row of the plan and returns all results: the row's columns, then the function's.

    The function returns a dict, or a list of dicts for several result rows. Without `spark` the rows run here, one by one.
    `key`: the columns that tell a row from others, if not all do (a path to scratch space, say). `tell(done, total, row)` hears
    of every row that ends; without it a progress bar is shown if somebody looks, else a line now and then.
    """
    rows = [dict(row) for row in (plan.to_pylist() if isinstance(plan, pa.Table) else plan)]
    out = Path(out)
    tasks = [
        _Task(row, out / "rows" / f"{name}.parquet")
        for row, name in zip(rows, _names(function, rows, key, version), strict=True)
    ]
    for folder in ("rows", "failures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    if fresh:
        for task in tasks:
            task.path.unlink(missing_ok=True)
    (out / "results.parquet").unlink(missing_ok=True)
    waiting = [task for task in tasks if not task.path.exists()]
    failed: list[tuple[Row, str]] = []
    with _progress(_name_of(function), len(tasks), len(tasks) - len(waiting), tell) as advance:
        for task, outcome in _outcomes(function, waiting, spark):
            note = out / "failures" / f"{task.path.stem}.txt"
            note.unlink(missing_ok=True)
            trouble = outcome.trouble
            if outcome.results is not None:
                trouble = _keep(task, outcome.results)
            if trouble:
                note.write_text(f"{_described(task.row)}\n\n{trouble}", encoding="utf-8")
                failed.append((task.row, trouble.strip().splitlines()[-1]))
            advance(task.row)
    if failed:
        raise SpreadError(_complaint(_name_of(function), failed, len(tasks), out))
    return _gathered(tasks, out)


# --- running


def _run(function: Measure, row: Row) -> _Outcome:
    """On a worker, or here. Whatever the function raises is the row's own trouble."""
    try:
        found = function(**row)
    except Exception:
        return _Outcome(None, traceback.format_exc())
    listed = [found] if isinstance(found, Mapping) else found
    if not isinstance(listed, Sequence) or not all(isinstance(each, Mapping) for each in listed):
        return _Outcome(None, f"the function returned {found!r:.80}; it must return a dict or a list of dicts")
    return _Outcome([dict(each) for each in listed], "")


def _outcomes(function: Measure, tasks: Sequence[_Task], spark: SparkSession | None) -> Iterator[tuple[_Task, _Outcome]]:
    """In the order in which the rows end."""
    if spark is None:
        for task in tasks:
            yield task, _run(function, task.row)
        return
    context = spark.sparkContext
    tag = f"contentcast-spread-{os.urandom(6).hex()}"

    def on_cluster(row: Row) -> _Outcome:
        context.addJobTag(tag)  # belongs to this thread, which runs nothing else
        try:
            (found,) = context.parallelize([row], 1).map(lambda row: _run(function, row)).collect()
            return found
        except Exception as reason:  # the worker died, or what the function returned cannot be sent
            return _Outcome(None, f"Spark gave up on this row: {_first_line(reason)}")

    with ThreadPoolExecutor(max(1, min(len(tasks), context.defaultParallelism, MOST_AT_ONCE))) as pool:
        running: dict[Future[_Outcome], _Task] = {pool.submit(on_cluster, task.row): task for task in tasks}
        try:
            while running:
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        finally:
            # Ctrl-C, or a full disk: what has not begun does not begin, and what runs is stopped.
            for left in running:
                left.cancel()
            if running:
                context.cancelJobsWithTag(tag)


def _first_line(reason: Exception) -> str:
    lines = [line for line in str(reason).splitlines() if line.strip()]
    named = [line for line in lines if "Exception: " in line or "Error: " in line]
    return (named or lines or [type(reason).__name__])[0].strip()


# --- the files


def _name_of(function: Measure) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _names(function: Measure, rows: Sequence[Row], key: Sequence[str] | None, version: str | int) -> list[str]:
    found: dict[str, int] = {}
    for number, row in enumerate(rows):
        for name in key or ():
            if name not in row:
                raise SpreadError(f"row {number} of the plan has no {name!r}{nearest(name, row)}")
        told = {name: row[name] for name in (key or row)}
        try:
            text = msgspec.json.encode(
                [getattr(function, "__module__", ""), _name_of(function), str(version), told], order="sorted"
            )
        except (TypeError, ValueError) as reason:
            raise SpreadError(f"row {number} of the plan ({_described(row)}): {reason}; a plan has plain values") from None
        name = hashlib.sha256(text).hexdigest()[:24]
        if name in found:
            same = f"rows {found[name]} and {number} of the plan are the same: {_described(told)}"
            raise SpreadError(f"{same}; give them a column that tells them apart, as a seed does")
        found[name] = number
    return list(found)


def _keep(task: _Task, results: list[Row]) -> str:
    """Writes the row's file; why not, if it cannot be written."""
    for each in results:
        for name in each.keys() & task.row.keys():
            if each[name] != task.row[name]:
                return f"the function returned {name}={each[name]!r}, which is {task.row[name]!r} in the plan; rename one"
    try:
        names = dict.fromkeys(name for each in (task.row, *results) for name in each)
        table = pa.table({name: [(task.row | each).get(name) for each in results] for name in names})
        made = task.path.with_name(f".{task.path.name}.{os.getpid()}")
        pq.write_table(table, made)
    except pa.ArrowException as reason:
        return f"the results make no table: {reason}"
    made.replace(task.path)
    return ""


def _gathered(tasks: Sequence[_Task], out: Path) -> pa.Table:
    """All rows' files as one, columns in the order in which they first appear; a column that a row lacks is null there."""
    tables = [pq.read_table(task.path) for task in tasks]
    try:
        table = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    except pa.ArrowException as reason:
        raise SpreadError(f"{out}: rows returned one column with values of different kinds: {reason}") from None
    made = out / f".results.{os.getpid()}.parquet"
    pq.write_table(table, made)
    made.replace(out / "results.parquet")
    return table


# --- what is said


def _described(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items())


def _complaint(name: str, failed: Sequence[tuple[Row, str]], total: int, out: Path) -> str:
    lines = [f"{name}: {len(failed)} of {total} rows failed; tracebacks are in {out / 'failures'}"]
    lines += [f"  {_described(row)}: {said}" for row, said in failed[:FAILURES_SHOWN]]
    if len(failed) > FAILURES_SHOWN:
        lines.append(f"  and {len(failed) - FAILURES_SHOWN} more")
    return "\n".join([*lines, f"The other {total - len(failed)} are kept: the same call again runs only these {len(failed)}."])


@contextmanager
def _progress(name: str, total: int, before: int, tell: Tell | None) -> Iterator[Callable[[Row], None]]:
    """`before`: rows that an earlier call has finished."""
    done = before
    if tell is not None or not sys.stderr.isatty():

        def say(row: Row) -> None:
            nonlocal done
            done += 1
            if tell is not None:
                tell(done, total, row)

        with lines(lambda: f"{name}: {done} of {total} rows") if tell is None else nullcontext():
            yield say
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("", total=total, completed=before)
        yield lambda row: bar.update(shown, advance=1, description=_described(row))
