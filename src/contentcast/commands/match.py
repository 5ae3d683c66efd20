"""`contentcast match`: a user's own events against a user's own subscriptions, by Spark, into a folder of tables.

    out/matches/        every event with every subscription that wants it, in a folder for each broker
    out/quarantine/     records that are no events of the space, with the reason
    out/refused/        subscriptions that cannot be read, with the reason

Rule: a batch's folder appears when all of it is there; what Spark says about a mistake of the user becomes one line
(`failures`).
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from contentcast.commands.shared.failures import told_in_one_line
from contentcast.commands.shared.intake_options import Epoch, Finer, Nan, OnError, Unknown, how_of
from contentcast.commands.shared.outputs import check_apart, check_shared
from contentcast.commands.shared.overheard import leave_out, overhearing
from contentcast.commands.shared.settings import is_address, spark_settings
from contentcast.model import ContentcastError, How, Space
from contentcast.model.plain_files import check_plain
from contentcast.progress_lines import lines

if TYPE_CHECKING:
    from contentcast.spark import Prepared

SparkSession: TypeAlias = Any
"""This module does not import pyspark: only contentcast.spark does."""

MATCHES, QUARANTINE, REFUSED = "matches", "quarantine", "refused"
STREAM = "_stream"
"""In a folder that a stream writes, from its first moment on: one that was killed while it started can be started again."""
STDIN = "-"
LOOK_EVERY_S, TICK_S = 0.5, 0.1


class Format(StrEnum):
    PARQUET, CSV, JSONL, ORC, DELTA = "parquet", "csv", "jsonl", "orc", "delta"


def match(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER]", help="Where events.*, subscriptions.* and space.json are, as `workload` writes them."
        ),
    ] = None,
    events: Annotated[list[str] | None, typer.Option(metavar="FILES", help="Files, folders or patterns of events.")] = None,
    subscriptions: Annotated[str | None, typer.Option(help="A table: subscription, predicate and any other columns.")] = None,
    space: Annotated[Path | None, typer.Option(help="The space, a .json or .toml file.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write, which all workers see.")] = None,
    to: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A topic or a lake's table for the matches.")] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Follow a folder of events until Ctrl-C.")] = False,
    once: Annotated[bool, typer.Option("--once", help="With --stream: take what is new, then stop.")] = False,
    master: Annotated[str, typer.Option(help="Where Spark runs: local[*], spark://host:7077, yarn.")] = "local[*]",
    memory: Annotated[str | None, typer.Option(help="Spark's memory, 4g.", show_default="Spark's own")] = None,
    jars: Annotated[list[str] | None, typer.Option(help="Packages of Spark: files, folders or patterns.")] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark.")] = None,
    format: Annotated[Format | None, typer.Option(help="Of the events.", show_default="by their ending")] = None,
    unknown: Unknown = None,
    on_error: OnError = None,
    nan: Nan = None,
    finer: Finer = None,
    epoch: Epoch = None,
    id: Annotated[str, typer.Option(help="The subscriptions' column with the ids.")] = "subscription",
    predicate: Annotated[str, typer.Option(help="The subscriptions' column with the predicates.")] = "predicate",
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Match files of events against a table of subscriptions, with Spark; bad records and predicates are set aside."""
    found = _inputs(paths or [], events, subscriptions, space)
    if out is None:
        raise ContentcastError("match: where to? Add --out FOLDER")
    if once and not stream:
        raise ContentcastError("match: --once goes with --stream")
    _check_out(out, stream, force)
    check_apart(out, [*(each for each in found.files if each != STDIN), found.subscriptions, found.space], "match")
    known = Space.load(found.space)
    how = how_of(unknown, on_error, nan, finer, epoch)
    with told_in_one_line(), _on_disk(found) as on_disk:
        settings = _settings(on_disk, to, memory, jars or [], conf or [])
        with overhearing(_spark(master, settings)) as running:
            check_shared(running, on_disk.files, out)
            job = _Job(running, on_disk, known, format.value if format else None, out, to, how, id, predicate)
            totals = job.follow(once) if stream else job.run()
    typer.echo(json.dumps(totals) if as_json else _summary(totals, out))


# --- what is given


class _Inputs:
    def __init__(self, events: list[str], subscriptions: str | Path, space: Path) -> None:
        self.events, self.subscriptions, self.space = events, str(subscriptions), space

    @property
    def files(self) -> list[str]:
        """Of the events, without topics and tables of a lake."""
        return [each for each in self.events if not is_address(each)]


def _inputs(paths: list[str], events: list[str] | None, subscriptions: str | None, space: Path | None) -> _Inputs:
    """Options win over what the folder holds. `--events *.parquet` is one option and a row of paths: events, all of them."""
    if events and subscriptions and space:
        return _checked(_Inputs([*events, *paths], subscriptions, space))
    if len(paths) > 1:
        raise ContentcastError(f"match: one folder, or --events, --subscriptions and --space; not {len(paths)} folders")
    folder = Path(paths[0]) if paths else None
    if folder is not None and not folder.is_dir():
        raise ContentcastError(f"there is no folder {folder}")
    if folder is None:
        lacking = [
            name for name, given in (("events", events), ("subscriptions", subscriptions), ("space", space)) if not given
        ]
        hint = f"; `contentcast space {' '.join(events)}` makes one" if lacking == ["space"] and events else ""
        raise ContentcastError(
            f"match: add {' and '.join(f'--{name}' for name in lacking)}, or the folder where they are{hint}"
        )
    given = list(events) if events else [str(_inside(folder, "events"))]
    wanted, known = subscriptions or _inside(folder, "subscriptions"), space or _inside(folder, "space")
    return _checked(_Inputs(given, wanted, known))


def _checked(chosen: _Inputs) -> _Inputs:
    for each, what in ((chosen.subscriptions, "subscription"), (str(chosen.space), "space")):
        if is_address(each):
            continue
        if not Path(each).exists():
            hint = f"; `contentcast space {' '.join(chosen.events)} --out {each}` makes one" if what == "space" else ""
            raise ContentcastError(f"there is no {what} file {each}{hint}")
        check_plain(Path(each))
    for given in chosen.files:
        check_plain(Path(given))
    if len(chosen.files) < len(chosen.events) != 1:
        raise ContentcastError("match: events come from one topic or table, or from files")
    return chosen


def _inside(folder: Path, name: str) -> Path:
    found = sorted(each for each in folder.iterdir() if each.stem == name)
    if len(found) != 1:
        there = f"holds {', '.join(each.name for each in found)}" if found else f"holds no {name}"
        hint = (
            f"; `contentcast space {folder}/events.* --out {folder}/space.toml` makes one"
            if name == "space" and not found
            else ""
        )
        raise ContentcastError(f"{folder} {there}; say which: --{name} FILE{hint}")
    return found[0]


def _check_out(out: Path, stream: bool, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise ContentcastError(f"{out} is a file, not a folder")
    if not out.exists() or not any(out.iterdir()):
        return
    if stream and force:
        raise ContentcastError(
            "match: a stream goes on where it stopped; to start anew choose another folder, or remove this one"
        )
    if stream and not (out / STREAM).exists() and not (out / MATCHES / "_contentcast" / "stream").exists():
        raise ContentcastError(f"{out} was not written by a stream; choose another folder")
    if not stream and not force:
        raise ContentcastError(f"{out} is already there; choose another folder, or replace it with --force")


def _settings(inputs: _Inputs, to: str | None, memory: str | None, jars: list[str], conf: list[str]) -> dict[str, str]:
    from contentcast.spark.outside.addresses import address, settings_for

    named = [address(each) for each in (*inputs.events, inputs.subscriptions, *([to] if to else []))]
    return settings_for(named) | spark_settings(memory, jars, conf)


@contextmanager
def _on_disk(inputs: _Inputs) -> Iterator[_Inputs]:
    """Events that come on standard input (`--events -`), JSON lines, are kept in a file while Spark reads them."""
    if STDIN not in inputs.events:
        yield inputs
        return
    with tempfile.NamedTemporaryFile(prefix="stdin-", suffix=".jsonl") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        events = [copy.name if each == STDIN else each for each in inputs.events]
        yield _Inputs(events, inputs.subscriptions, inputs.space)


@contextmanager
def _spark(master: str, settings: dict[str, str]) -> Iterator[SparkSession]:
    """A session of this command's own, or the one that already runs."""
    from contentcast.spark import session
    from contentcast.spark.session import is_running, quiet_loggers

    before = is_running()
    running = session("contentcast match", master=master, **settings)
    try:
        with quiet_loggers():
            yield running
    finally:
        if not before:
            running.stop()


# --- the work


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        inputs: _Inputs,
        space: Space,
        format: str | None,
        out: Path,
        to: str | None,
        how: How,
        id: str,
        predicate: str,
    ) -> None:
        from contentcast.commands.shared.compiled import have_compiled
        from contentcast.spark import prepare
        from contentcast.spark.outside.places import rules_at
        from contentcast.warming.parts import INDEX

        have_compiled(INDEX)
        self.how = how
        self.spark, self.inputs, self.space, self.format = spark, inputs, space, format
        self.out, self.shown = out.absolute(), str(out)  # Java keeps the folder it was started in
        self.to = to
        self.prepared: Prepared = prepare(rules_at(inputs.subscriptions), space, id=id, predicate=predicate)

    def _events(self, **more: Any) -> Any:
        from contentcast.spark.ingest import Tally
        from contentcast.spark.outside.places import events_at

        events = events_at(self.spark, self.inputs.events, self.space, self.format, self.how, **more)
        return replace(events, tally=Tally.on(self.spark))

    def run(self) -> dict[str, Any]:
        from contentcast.spark import match as matching
        from contentcast.spark.delivery.appearing import appearing
        from contentcast.spark.outside.places import deliver_to
        from contentcast.spark.reading import BAD

        events = self._events()
        matches = matching(events, self.prepared, self.space)
        with appearing(self.out) as unfinished:
            started = perf_counter()
            _while_watched(self.spark, "matching", lambda: deliver_to(matches, self.to, unfinished / MATCHES))
            took = perf_counter() - started
            bad = events.tally.bad.value
            _write_table(self.prepared.refused(), unfinished / REFUSED)
            if bad:  # the records are read once more, which a clean table is spared
                aside = events.quarantine
                _while_watched(self.spark, "setting aside", lambda: aside.write.parquet(str(unfinished / QUARANTINE)))
            else:
                _write_table(BAD.empty_table(), unfinished / QUARANTINE)
            pairs = _rows_in(unfinished / MATCHES)
        return self._totals(events.tally, pairs, took)

    def follow(self, once: bool) -> dict[str, Any]:
        """Until Ctrl-C, or until all that is there has been taken."""
        from contentcast.spark import match as matching
        from contentcast.spark.outside.places import deliver_to

        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / STREAM).touch()
        events = self._events(stream=True)
        matches = matching(events, self.prepared, self.space)
        trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
        started = perf_counter()
        before = _rows_in(self.out / MATCHES)
        _write_table(self.prepared.refused(), self.out / REFUSED)
        checkpoint = str(self.out / f"_{QUARANTINE}")
        aside = replace(events, tally=None).quarantine.writeStream.option("checkpointLocation", checkpoint)
        queries = [
            deliver_to(matches, self.to, self.out / MATCHES, trigger=trigger),
            aside.format("parquet").trigger(**trigger).start(str(self.out / QUARANTINE)),
        ]
        try:
            self._wait(queries, events.tally)
        finally:
            for query in queries:
                query.stop()
        return self._totals(events.tally, _rows_in(self.out / MATCHES) - before, perf_counter() - started)

    def _wait(self, queries: list[Any], tally: Any) -> None:
        from threading import Event

        from rich.console import Console

        version, stopped = self.prepared.version, Event()
        # Not as an exception: it would come in the middle of a call to Java, and Spark's own handler fails the micro-batch.
        before = signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
        try:
            with Console(stderr=True).status(f"following {', '.join(self.inputs.events)}; Ctrl-C stops") as status:
                while not stopped.wait(LOOK_EVERY_S) and any(query.isActive for query in queries):
                    status.update(f"{tally.events.value:,} events, {tally.bad.value:,} bad records so far; Ctrl-C stops")
                    if (now := self.prepared.current.read_text()) != version:
                        version = now
                        _write_table(replace(self.prepared, version=version).refused(), self.out / REFUSED)
        finally:
            signal.signal(signal.SIGINT, before)
        if stopped.is_set():
            leave_out()
        for query in queries:
            if (failure := query.exception()) is not None:
                raise failure

    def _totals(self, tally: Any, pairs: int, took: float) -> dict[str, Any]:
        """`pairs` is None where they go to an address, and nobody counts them."""
        return {
            "events": tally.events.value,
            "bad records": tally.bad.value,
            "subscriptions": self.prepared.count,
            "bad predicates": self.prepared.refused_count,
            "pairs": None if self.to else pairs,
            "seconds": round(took, 3),
            "events/s": round(tally.events.value / took) if took else 0,
            "out": self.shown,
            "to": self.to,
        }


def _summary(totals: dict[str, Any], out: Path) -> str:
    bad = f" ({totals['bad records']:,} bad, in {out / QUARANTINE})" if totals["bad records"] else ""
    refused = f" ({totals['bad predicates']:,} more refused, in {out / REFUSED})" if totals["bad predicates"] else ""
    found = f"matches went to {totals['to']}" if totals["to"] else f"{totals['pairs']:,} pairs in {out / MATCHES}"
    return (
        f"{totals['events']:,} events{bad} met {totals['subscriptions']:,} subscriptions{refused}: "
        f"{found}, {totals['events/s']:,} events/s."
    )


def _write_table(table: Any, folder: Path) -> None:
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{REFUSED}.part"
    pq.write_table(table, part)
    part.replace(folder / "part-0.parquet")


def _rows_in(folder: Path) -> int:
    """From the footers of the files: no row is read."""
    import pyarrow.parquet as pq

    files = [*folder.glob("*=*/**/*.parquet"), *folder.glob("*.parquet")]
    return sum(int(pq.read_metadata(each).num_rows) for each in files)


def _while_watched(spark: SparkSession, what: str, work: Callable[[], object]) -> None:
    """Does the work in a thread of its own, with a bar of Spark's tasks on stderr if somebody looks at it.

    Ctrl-C is a flag here: as an exception it would come in the middle of a call to Java, and be told with a traceback.
    """
    from concurrent.futures import ThreadPoolExecutor
    from threading import Event

    stopped, context = Event(), spark.sparkContext
    before = signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
    try:
        with ThreadPoolExecutor(1) as pool, _bar(what) as show:
            running = pool.submit(work)
            while not running.done() and not stopped.wait(TICK_S):
                stages = [info for stage in context.statusTracker().getActiveStageIds() if (info := _stage(context, stage))]
                show(sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages))
            if stopped.is_set():
                leave_out()
                context.setLogLevel("OFF")  # what is cancelled has errors to tell; of a Java that was up before us
                while not running.done():
                    context.cancelAllJobs()
                    sleep(TICK_S)
                raise KeyboardInterrupt
            running.result()
    finally:
        signal.signal(signal.SIGINT, before)


def _stage(context: Any, number: int) -> Any:
    return context.statusTracker().getStageInfo(number)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    if not sys.stderr.isatty():
        now = 0, 0

        def note(done: int, total: int) -> None:
            nonlocal now
            now = done, total

        with lines(lambda: f"{what}: {now[0]} of {now[1]} tasks" if now[1] else what):
            yield note
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
