"""`contentcast run`: the main job, on a made day of market data or on a user's own files.

Rule: stdout has the table (or JSON); stderr has bars while somebody looks at them, else a line every few seconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from contentcast.commands.matching.account import summary as matched
from contentcast.commands.matching.inputs import inputs
from contentcast.commands.matching.on_spark import Wanted, match_on_spark
from contentcast.commands.run_broker import follow_broker
from contentcast.commands.run_broker import summary as delivered
from contentcast.commands.run_checks import check_job, check_stream
from contentcast.commands.run_config import EXAMPLE, RunConfig, read_config
from contentcast.commands.shared.failures import told_in_one_line
from contentcast.commands.shared.interrupts import interruptible
from contentcast.commands.shared.outputs import check_apart, check_shared
from contentcast.commands.shared.overheard import overhearing
from contentcast.commands.shared.progress import tasks_of
from contentcast.commands.shared.settings import Where
from contentcast.files.made_folders import check_replaceable, check_stream_folder, is_of_run
from contentcast.model import ContentcastError, Space
from contentcast.model.errors import counted
from contentcast.progress_lines import lines, say
from contentcast.speed import shown_speed
from contentcast.warming.parts import INDEX

if TYPE_CHECKING:
    from contentcast.pipeline.feeds import Feed
    from contentcast.pipeline.job import Facts
    from contentcast.pipeline.side_by_side import SideBySide

LOOK_EVERY_S: Final = 0.25
SparkSession: TypeAlias = Any
"""Only contentcast.spark imports pyspark."""
Step = Callable[[str], AbstractContextManager[None]]


class Size(StrEnum):
    SMALL, MEDIUM, LARGE = "small", "medium", "large"


class Taste(StrEnum):
    """Of the people in the made day."""

    DESKS, MARKET = "desks", "market"


EVENTS_AND_SUBSCRIPTIONS: Final = {
    Size.SMALL: (20_000, 5_000),
    Size.MEDIUM: (200_000, 20_000),
    Size.LARGE: (1_000_000, 100_000),
}


def run(
    size: Annotated[Size | None, typer.Option(help="How large the made day of market data is.", show_default="large")] = None,
    scenario: Annotated[
        Taste | None, typer.Option(help="Desks that follow sectors, or wishes that are spread evenly.", show_default="desks")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own events and subscriptions, in TOML.")] = None,
    example_config: Annotated[bool, typer.Option("--example-config", help="Print such a file.")] = False,
    out: Annotated[Path | None, typer.Option(help="The folder to write.", show_default="out")] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="Several to compare.", show_default="all but covering, multicast and overlay")
    ] = None,
    largest_part: Annotated[
        bool, typer.Option("--largest-part", help="With --config: if the topology is not connected, take its largest part.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the made day: same seed, same rows.")] = 0,
    stream: Annotated[
        bool, typer.Option("--stream", help="With --config: follow the events' folder; match and deliver.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="With --stream: take what is new, then stop.")] = False,
    broker: Annotated[
        str | None,
        typer.Option(metavar="URL", help="With --stream: events come from this live broker, deliveries go back to it."),
    ] = None,
    master: Annotated[str | None, typer.Option(help="Where Spark runs.", show_default="local[*]")] = None,
    memory: Annotated[str | None, typer.Option(help="Spark's memory, such as 4g.", show_default="Spark's own")] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Route with search trees and count their steps: slower.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a folder that `contentcast match` made.")] = False,
    open_report: Annotated[bool, typer.Option("--open", help="Show the report in the browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Run the whole pipeline on Spark: ingest, match, deliver, learn, route with each protocol; tables and a report."""
    if example_config:
        typer.echo(EXAMPLE, nl=False)
        return
    if config is not None and (size is not None or scenario is not None):
        word = "--size" if size is not None else "--scenario"
        raise ContentcastError(f"run: {word} is of the made day, and --config has your own; leave one out")
    if largest_part and config is None:
        raise ContentcastError("run: --largest-part is of a topology of your own, and goes with --config")
    if (stream or once) and config is None:
        raise ContentcastError("run: --stream and --once go with --config")
    if broker is not None and not stream:
        raise ContentcastError("run: --broker goes with --stream: contentcast run --stream --broker URL --config FILE")
    if once and not stream:
        raise ContentcastError("run: --once goes with --stream")
    told = read_config(config, live=broker is not None) if config is not None else None
    folder, where = out or Path(told.out if told is not None else "out"), _where(told, master, memory)
    if told is not None and stream:
        only = {"--protocol": protocol, "--largest-part": largest_part, "--seed": seed, "--steps": steps, "--open": open_report}
        check_stream(told, only, live=broker is not None)
        if broker is not None:
            totals = follow_broker(told, broker, folder, where, once=once, force=force)
        else:
            totals = _follow(told, folder, once, where, force)
        line = delivered(totals) if broker is not None else matched(totals, folder)
        typer.echo(json.dumps(totals) if as_json else line)
        return
    names = protocol or (told.protocols if told is not None else None)
    _check_protocols(names)
    if told is not None:
        if seed:
            raise ContentcastError("run: --seed is of the made day, and --config has your own; leave one out")
        check_job(told, largest_part=largest_part)
        inputs = [*told.events, told.subscriptions, told.space, told.path]
        check_apart(folder, [*inputs, told.topology] if told.topology else inputs, "run")
    check_replaceable(folder, force=force or is_of_run(folder))
    with told_in_one_line():
        from contentcast.commands.shared.compiled import have_compiled
        from contentcast.pipeline.job import part_used, run_job
        from contentcast.spark.session import BROUGHT_TO, command_session

        part = part_used(names, routes=told is None or told.topology is not None, count_steps=steps)
        # What only routers use is compiled when the first results are there; a cluster gets what is compiled when Spark starts.
        have_compiled(part if where.master.startswith(BROUGHT_TO) else INDEX)

        def tell_first(results: str) -> None:
            say(results)
            have_compiled(part)

        running = command_session("contentcast run", where.master, where.settings)
        with _shown() as shown, overhearing(running) as spark, shown(spark) as bar:
            check_shared(spark, told.events if told is not None else [], folder)

            def work(stopped: Event) -> Facts:
                step = _stopping(bar, stopped)
                with step("start"):
                    feed = _own(spark, told, largest_part) if told is not None else _made(spark, size, scenario, seed)
                return run_job(spark, feed, folder, names, step, count_steps=steps, matched=tell_first)

            facts = interruptible(spark, work)
    summary = facts.summary() | {"out": str(folder)}
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        _show(facts, summary, folder)
    if open_report:
        typer.launch((folder / "report.html").absolute().as_uri())


def _where(told: RunConfig | None, master: str | None, memory: str | None) -> Where:
    if told is None:
        return Where(master or "local[*]", memory)
    return Where(master or told.master, memory or told.memory, told.jars or [], told.conf or [])


def _follow(told: RunConfig, out: Path, once: bool, where: Where, force: bool) -> dict[str, Any]:
    """As `match --stream` with the files of the configuration."""
    given = inputs([], told.events, told.subscriptions, Path(told.space))
    check_stream_folder(out, force=force, command="run")
    check_apart(out, [*given.files, given.subscriptions, given.space], "run")
    wanted = Wanted(given, Space.load(given.space), out, told.to, told.format)
    return match_on_spark(wanted, where, stream=True, once=once)


def _made(spark: SparkSession, size: Size | None, scenario: Taste | None, seed: int) -> Feed:
    from dataclasses import replace

    from contentcast.pipeline.feeds import market_feed

    size, scenario = size or Size.LARGE, scenario or Taste.DESKS
    feed = market_feed(spark, *EVENTS_AND_SUBSCRIPTIONS[size], seed, scenario=scenario)
    return replace(feed, told=f"contentcast run --size {size} --scenario {scenario} --seed {seed}")


def _own(spark: SparkSession, told: RunConfig, largest_part: bool) -> Feed:
    from contentcast.pipeline.feeds import Files, own_feed

    files = Files(
        told.space,
        told.events,
        told.subscriptions,
        told.format,
        told.topology,
        told.publisher,
        told.entry,
        largest_part,
        told.delay_attribute,
        told.undirected,
    )
    return own_feed(spark, files, f"contentcast run --config {told.path}")


def _check_protocols(names: list[str] | None) -> None:
    from contentcast import catalog

    for name in names or ():
        catalog.protocol(name)


# --- what is shown


@contextmanager
def _shown() -> Iterator[Callable[[SparkSession], AbstractContextManager[Step]]]:
    """Bars where a terminal is, else lines, which begin before Spark does."""
    if sys.stderr.isatty():
        yield _bars
        return
    now: list[Any] = ["start Spark", None]

    def how_far() -> str:
        done, total = tasks_of(now[1]) if now[1] is not None else (0, 0)
        return f"{now[0]}: {done} of {total} tasks" if total else str(now[0])

    @contextmanager
    def as_lines(spark: SparkSession) -> Iterator[Step]:
        now[1] = spark.sparkContext.statusTracker()

        @contextmanager
        def step(name: str) -> Iterator[None]:
            now[0] = name
            yield

        try:
            yield step
        finally:
            now[0], now[1] = "stop Spark", None

    with lines(how_far):
        yield as_lines


@contextmanager
def _bars(spark: SparkSession) -> Iterator[Step]:
    """For each step a bar of Spark's tasks, and the seconds that it took."""
    from threading import Thread

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description:<26}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    tracker = spark.sparkContext.statusTracker()
    with Progress(*columns, console=Console(stderr=True)) as bars:

        @contextmanager
        def step(name: str) -> Iterator[None]:
            over, task = Event(), bars.add_task(name, total=None)

            def watch() -> None:
                while not over.wait(LOOK_EVERY_S):
                    done, total = tasks_of(tracker)
                    if total:
                        bars.update(task, completed=done, total=total)

            watching = Thread(target=watch, daemon=True)
            watching.start()
            try:
                yield
            finally:
                over.set()
                watching.join()
            total = int(bars.tasks[task].total or 1)
            bars.update(task, completed=total, total=total)

        yield step


def _stopping(step: Step, stopped: Event) -> Step:
    @contextmanager
    def each(name: str) -> Iterator[None]:
        with step(name):
            yield
        if stopped.is_set():
            raise KeyboardInterrupt

    return each


def _show(facts: Facts, summary: dict[str, Any], out: Path) -> None:
    from rich.console import Console

    console = Console()
    if facts.side_by_side is not None:
        console.print(facts.side_by_side.sentence(), highlight=False, soft_wrap=True)
        console.print(_side_by_side(facts.side_by_side))
    if facts.routes:
        console.print(
            f"All {counted(facts.events, 'event')} and {counted(facts.subscriptions, 'subscription')}:", highlight=False
        )
        console.print(_table(facts))
    for line in _lines(facts, summary, out):
        console.print(line, highlight=False, soft_wrap=True)


def _side_by_side(found: SideBySide) -> Any:
    from rich import box
    from rich.table import Table

    from contentcast.pipeline.side_by_side import NARROW_HEADINGS, shown

    title = f"All systems on {counted(found.events, 'event')} and {counted(found.subscriptions, 'subscription')}"
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, title=title, title_justify="left")
    for at, heading in enumerate(NARROW_HEADINGS):
        table.add_column(heading, justify="right" if at else "left", no_wrap=not at)
    for row in shown(found.rows()):
        table.add_row(*(cell.replace(" ", "\u00a0") for cell in row[: len(NARROW_HEADINGS)]))
    return table


def _table(facts: Facts) -> Any:
    from rich import box
    from rich.table import Table

    from contentcast.pipeline.report.charts import milliseconds, short

    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)  # as wide as a narrow terminal
    table.add_column("protocol", no_wrap=True)
    rows = facts.protocols()
    counted = all(row["steps"] is not None for row in rows)
    for heading in ("messages", "x least", "bytes", "delivered", *(["steps"] if counted else []), "p50", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        about = "~" if row["events"] < facts.events else ""
        table.add_row(
            row["protocol"],
            about + short(row["messages"]),
            "-" if row["times_least"] is None else f"{row['times_least']:.3f}",
            f"{about}{short(row['bytes'])}B",
            about + short(row["deliveries"]),
            *([about + short(row["steps"])] if counted else []),
            milliseconds(row["p50_s"]),
            milliseconds(row["p99_s"]),
        )
    table.add_section()
    table.add_row("lower bound", short(facts.least), "1.000", *[""] * (5 if counted else 4), style="dim")
    return table


def _lines(facts: Facts, summary: dict[str, Any], out: Path) -> Iterator[str]:
    for row in facts.protocols():
        if row["events"] < facts.events:
            yield f"~ {row['protocol']}: routed with one event in {round(facts.events / row['events'])}, and scaled to all."
    if summary["not routed"]:
        yield f"Nothing was routed: {summary['not routed']}."
    bad = f" ({counted(facts.bad, 'bad record')} in {out / 'quarantine'})" if facts.bad else ""
    refused = f" ({facts.refused:,} refused, in {out / 'refused'})" if facts.refused else ""
    yield f"{counted(facts.events, 'event')}{bad} met {counted(facts.subscriptions, 'subscription')}{refused}:"
    found = counted(summary["matches"], "match", "matches")
    yield (
        f"{found} in {out / 'deliveries'}, {shown_speed(summary['events/s'])} events/s matched and delivered; "
        f"{sum(facts.took_s.values()):,.0f} s in all."
    )
    if facts.routes:
        yield "A match is an event and one subscription for it; delivered counts an event once for each subscriber."
    yield f"The report is {out / 'report.html'}."
