"""Matching on Spark: files, topics or tables of a lake, into a folder of tables or to an address, in batch or as a stream.

Rule: a batch's folder appears when all of it is there; what Spark says about a mistake of the user becomes one line
(`failures`).
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from contentcast.commands.matching.account import COUNTS, MATCHES, QUARANTINE, REFUSED, totals_of
from contentcast.commands.matching.inputs import Inputs
from contentcast.commands.shared.failures import told_in_one_line
from contentcast.commands.shared.interrupts import interruptible
from contentcast.commands.shared.option_words import as_options
from contentcast.commands.shared.outputs import check_shared
from contentcast.commands.shared.overheard import leave_out, overhearing
from contentcast.commands.shared.progress import tasks_of
from contentcast.commands.shared.settings import Where
from contentcast.files.made_folders import STREAM, write_table
from contentcast.model import How, Space
from contentcast.model.events.event_files import STDIN
from contentcast.progress_lines import lines_without_terminal, say

if TYPE_CHECKING:
    from contentcast.spark import Prepared

SparkSession: TypeAlias = Any
"""This module does not import pyspark: only contentcast.spark does."""

LOOK_EVERY_S = 0.5
REFUSED_TOLD = 5
"""Refused rules that a running stream tells when its table changes; the table `refused` has them all."""


@dataclass
class Now:
    """What the command is doing, for the line that tells it now and then."""

    text: str


@dataclass(frozen=True)
class Wanted:
    """What is to be matched, how it is read, and where it goes."""

    inputs: Inputs
    space: Space
    out: Path
    to: str | None = None
    format: str | None = None
    how: How = field(default_factory=lambda: How())
    id: str = "subscription"
    predicate: str = "predicate"


def match_on_spark(wanted: Wanted, where: Where, *, stream: bool = False, once: bool = False) -> dict[str, Any]:
    """The totals, when all is done or the stream was stopped."""
    from contentcast.commands.shared.compiled import have_compiled
    from contentcast.warming.parts import INDEX

    have_compiled(INDEX)  # before Spark starts, which takes to a cluster what is compiled
    now = Now("start Spark")
    with told_in_one_line(), _on_disk(wanted.inputs) as on_disk, lines_without_terminal(lambda: now.text):
        from contentcast.spark.session import command_session

        settings = _settings(on_disk, wanted.to, where)
        with overhearing(command_session("contentcast match", where.master, settings)) as running:
            now.text = "read the rules"
            check_shared(running, on_disk.files, wanted.out)
            job = _Job(running, replace(wanted, inputs=on_disk), now)
            totals = job.follow(once) if stream else job.run()
            now.text = "stop Spark"
        return totals


def _settings(inputs: Inputs, to: str | None, where: Where) -> dict[str, str]:
    from contentcast.spark.outside.addresses import address, settings_for

    named = [address(each) for each in (*inputs.events, inputs.subscriptions, *([to] if to else []))]
    return settings_for(named) | where.settings


@contextmanager
def _on_disk(inputs: Inputs) -> Iterator[Inputs]:
    """Events that come on standard input (`--events -`), JSON lines, are kept in a file while Spark reads them."""
    if STDIN not in inputs.events:
        yield inputs
        return
    with tempfile.NamedTemporaryFile(prefix="stdin-", suffix=".jsonl") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        events = [copy.name if each == STDIN else each for each in inputs.events]
        yield Inputs(events, inputs.subscriptions, inputs.space)


# --- the work


class _Job:
    def __init__(self, spark: SparkSession, wanted: Wanted, now: Now) -> None:
        from contentcast.spark import prepare
        from contentcast.spark.outside.places import rules_at

        self.spark, self.wanted, self.space, self.to, self.now = spark, wanted, wanted.space, wanted.to, now
        self.out = wanted.out.absolute()  # Java keeps the folder it was started in
        rules = rules_at(wanted.inputs.subscriptions, wanted.id, wanted.predicate)
        self.prepared: Prepared = prepare(rules, wanted.space)
        self.rules, self.refused = self.prepared.count, self.prepared.refused_count
        """Of the table as it is now; a stream's table may change."""

    def _events(self, **more: Any) -> Any:
        from contentcast.spark.ingest import Tally
        from contentcast.spark.outside.places import events_at

        events = events_at(self.spark, self.wanted.inputs.events, self.space, self.wanted.format, self.wanted.how, **more)
        return replace(events, tally=Tally.on(self.spark))

    def run(self) -> dict[str, Any]:
        from contentcast.files.appearing import appearing
        from contentcast.model.events.records import BAD
        from contentcast.spark import match as matching
        from contentcast.spark.outside.places import deliver_to

        events = self._events()
        matches = matching(events, self.prepared, self.space)
        with appearing(self.out) as unfinished:
            started = perf_counter()
            _while_watched(self.spark, self.now, "matching", lambda: deliver_to(matches, self.to, unfinished / MATCHES))
            took = perf_counter() - started
            bad = events.tally.bad.value
            write_table(self.prepared.refused(), unfinished / REFUSED)
            if bad:  # the records are read once more, which a clean table is spared
                aside = events.quarantine
                _while_watched(self.spark, self.now, "setting aside", lambda: aside.write.parquet(str(unfinished / QUARANTINE)))
            else:
                write_table(BAD.empty_table(), unfinished / QUARANTINE)
            pairs = _rows_in(unfinished / MATCHES)
            if self.to is None:
                _while_watched(self.spark, self.now, "counting", lambda: self._write_counts(unfinished))
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
        write_table(self.prepared.refused(), self.out / REFUSED)
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
        version, stopped, told = self.prepared.version, Event(), set[str]()
        # Not as an exception: it would come in the middle of a call to Java, and Spark's own handler fails the micro-batch.
        before = signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
        try:
            self.now.text = f"following {', '.join(self.wanted.inputs.events)}; Ctrl-C stops"
            with _status(self.now) as tell:
                while not stopped.wait(LOOK_EVERY_S) and any(query.isActive for query in queries):
                    tell(f"{tally.events.value:,} events, {tally.bad.value:,} bad records so far; Ctrl-C stops")
                    if (now := self.prepared.current.read_text()) != version:
                        version = now
                        self._tell_changed(replace(self.prepared, version=version))
                    for seen, reason in list(self.prepared.unusable.items()):
                        if seen not in told:
                            told.add(seen)
                            say(as_options(reason.splitlines()[0]))
        finally:
            signal.signal(signal.SIGINT, before)
        if stopped.is_set():
            leave_out()
        for query in queries:
            if (failure := query.exception()) is not None:
                raise failure

    def _tell_changed(self, now: Prepared) -> None:
        """The rules have changed while the stream runs: which of them take no part, on standard error and in the table."""
        refused = now.refused()
        self.rules, self.refused = len(now.kept_ids()), refused.num_rows
        write_table(refused, self.out / REFUSED)
        if not refused.num_rows:
            say("the rules have changed; all of them take part")
            return
        are = "is" if refused.num_rows == 1 else "are"
        say(f"the rules have changed; {refused.num_rows:,} of them {are} refused, see {self.wanted.out / REFUSED}")
        for row in refused.slice(0, REFUSED_TOLD).to_pylist():
            say(f"rule {row['subscription']}: {as_options(row['reason'].splitlines()[0])}")

    def _write_counts(self, folder: Path) -> None:
        """How many events each rule got, those that got none included; by Spark, which has as much memory as it needs."""
        import pyarrow as pa

        found = self.spark.read.parquet(str(folder / MATCHES)).groupBy("subscription").count().toArrow()
        got = found.rename_columns(["subscription", "matches"])
        rules = pa.table({"subscription": self.prepared.kept_ids()})
        got = got.set_column(0, "subscription", got["subscription"].cast(rules["subscription"].type))
        counts = rules.join(got, "subscription").sort_by("subscription")
        write_table(counts.set_column(1, "matches", counts["matches"].fill_null(0)), folder / COUNTS)

    def _totals(self, tally: Any, pairs: int, took: float) -> dict[str, Any]:
        return totals_of(
            events=tally.events.value,
            bad=tally.bad.value,
            rules=self.rules,
            refused=self.refused,
            pairs=None if self.to else pairs,
            took=took,
            out=str(self.wanted.out),
            to=self.to,
        )


def _rows_in(folder: Path) -> int:
    """From the footers of the files: no row is read."""
    import pyarrow.parquet as pq

    files = [*folder.glob("*=*/**/*.parquet"), *folder.glob("*.parquet")]
    return sum(int(pq.read_metadata(each).num_rows) for each in files)


def _while_watched(spark: SparkSession, now: Now, what: str, work: Callable[[], object]) -> None:
    """Does the work, with a bar of Spark's tasks on stderr if somebody looks at it. Ctrl-C cancels the tasks."""
    tracker = spark.sparkContext.statusTracker()

    def until_stopped(stopped: Event) -> None:
        work()
        if stopped.is_set():
            raise KeyboardInterrupt

    with _bar(what, now) as show:
        interruptible(spark, until_stopped, lambda: show(*tasks_of(tracker)))


@contextmanager
def _bar(what: str, now: Now) -> Iterator[Callable[[int, int], None]]:
    now.text = what
    if not sys.stderr.isatty():
        yield partial(_tell_tasks, now, what)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def _tell_tasks(now: Now, what: str, done: int, total: int) -> None:
    now.text = f"{what}: {done} of {total} tasks" if total else what


@contextmanager
def _status(now: Now) -> Iterator[Callable[[str], None]]:
    """Of a stream: one line that changes, where a terminal is."""

    def tell(text: str) -> None:
        now.text = text

    if not sys.stderr.isatty():
        yield tell
        return
    from rich.console import Console

    with Console(stderr=True).status(now.text) as status:
        yield status.update
