"""The command line: one thin function for each command.

Rule: what a user can get wrong ends as one message on stderr, `contentcast: ...`, and exit code 2; Ctrl-C ends with 130.
What takes time to import is imported by the command that needs it. stdout is for what was asked, stderr for all else.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from contentcast import ContentcastError, __version__

if TYPE_CHECKING:
    import pyarrow as pa

    from contentcast.model import Constraint, Predicate
    from contentcast.workload import Scenario

EXAMPLES: Final = {
    "run": "contentcast run --size small",
    "workload": "contentcast workload market --events 10000 --out market",
    "parse": 'contentcast parse "NOT price >= 120" --space market/space.json',
}
"""Short enough for one line of a narrow terminal, so that they can be copied; in an order in which they work."""

WRONG_INPUT: Final = 2
INTERRUPTED: Final = 130


class _Commands(TyperGroup):
    """Turns what the user got wrong into a message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ContentcastError as error:
            message = str(error)
        except OSError as error:
            if error.errno == errno.EPIPE:  # contentcast ... | head: typer knows what to do
                raise
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        typer.echo(f"contentcast: {message}", err=True)
        raise typer.Exit(WRONG_INPUT)


def _example(command: str) -> str:
    return f"Example: {EXAMPLES[command]}"


app = typer.Typer(
    name="contentcast",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="\n\n".join(_example(command) for command in EXAMPLES),
)


def main() -> None:
    try:
        app()
    except KeyboardInterrupt:  # before typer listens
        sys.exit(INTERRUPTED)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"contentcast {__version__}")
        raise typer.Exit


@app.callback()
def contentcast(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Content-based publish/subscribe: say what you want as a predicate; every matching event reaches you."""


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Seed = Annotated[int, typer.Option(help="Same seed, same rows.")]


# --- run


class Size(StrEnum):
    SMALL, MEDIUM, LARGE = "small", "medium", "large"


EVENTS_AND_SUBSCRIPTIONS: Final = {Size.SMALL: (1_000, 1_000), Size.MEDIUM: (100_000, 10_000), Size.LARGE: (1_000_000, 100_000)}
ROWS_AT_A_TIME: Final = 10_000
EVENTS_SHOWN, REASONS_SHOWN = 5, 3
Deliveries = tuple[dict[str, Any], list[int]]
"""An event and the subscriptions that get it."""


@app.command(epilog=_example("run"))
def run(
    size: Annotated[Size, typer.Option(help="How many events meet how many subscriptions.")] = Size.MEDIUM,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Match market data against what trading desks want, and show who gets what and why."""
    from contentcast.workload import scenario

    market = scenario("market", seed=seed)
    events, subscriptions = EVENTS_AND_SUBSCRIPTIONS[size]
    wanted = market.subscriptions(subscriptions)
    shown, totals = _match_all(market, wanted, events)
    if as_json:
        typer.echo(json.dumps(totals))
    else:
        _show_who_gets_what(shown, wanted, totals)


def _match_all(market: Scenario, subscriptions: pa.RecordBatch, count: int) -> tuple[list[Deliveries], dict[str, Any]]:
    """The first events that somebody wants, and what it all came to."""
    import numpy as np

    import contentcast as cc

    started = perf_counter()
    index = cc.MatchIndex(market.space)
    index.add_many(subscriptions["subscription"], subscriptions["predicate"])
    built_s = perf_counter() - started
    index.match_batch(market.events(1))  # the kernels are compiled now, or read from their cache
    shown: list[Deliveries] = []
    deliveries = unwanted = 0
    matching_s = 0.0
    with _progress("matching", count) as advance:
        for start in range(0, count, ROWS_AT_A_TIME):
            events = market.events(min(ROWS_AT_A_TIME, count - start), start=start)
            before = perf_counter()
            pairs = index.match_batch(events)
            matching_s += perf_counter() - before
            rows, ids = pairs["event"].to_numpy(), pairs["subscription"].to_numpy()
            wanted = np.unique(rows)
            deliveries += len(rows)
            unwanted += events.num_rows - len(wanted)
            for row in wanted[: EVENTS_SHOWN - len(shown)].tolist():
                shown.append((events.slice(row, 1).to_pylist()[0], ids[rows == row].tolist()))
            advance(events.num_rows)
    return shown, {
        "events": count,
        "subscriptions": subscriptions.num_rows,
        "deliveries": deliveries,
        "events nobody wants": unwanted,
        "index built in s": round(built_s, 3),
        "events/s": round(count / matching_s),
    }


def _show_who_gets_what(shown: list[Deliveries], subscriptions: pa.RecordBatch, totals: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("event", "goes to", "because it asked for", box=box.SIMPLE_HEAD)
    for event, ids in shown:
        what = f"{event['symbol']} {event['exchange']}: {event['side']} {event['volume']:,} at {event['price']:.2f}"
        chosen = subscriptions.take(ids[:REASONS_SHOWN])
        for subscriber, predicate in zip(chosen["subscriber"].to_pylist(), chosen["predicate"].to_pylist(), strict=True):
            table.add_row(what, subscriber, predicate)
            what = ""
        if len(ids) > REASONS_SHOWN:
            table.add_row("", f"and {len(ids) - REASONS_SHOWN} more", "")
        table.add_section()
    console = Console()
    console.print(table)
    console.print(
        f"{totals['events']:,} events met {totals['subscriptions']:,} subscriptions: {totals['deliveries']:,} deliveries, "
        f"{totals['events nobody wants']:,} events that nobody wants.\n"
        f"Built in {totals['index built in s']} s, matched at {totals['events/s']:,} events/s.",
        highlight=False,
    )


# --- workload


class Format(StrEnum):
    PARQUET, CSV, JSONL = "parquet", "csv", "jsonl"


@app.command(epilog=_example("workload"))
def workload(
    name: Annotated[str, typer.Argument(help="A scenario; --list shows them.", show_default=False)] = "",
    events: Annotated[int, typer.Option(min=0, help="How many events.")] = 10_000,
    subscriptions: Annotated[int, typer.Option(min=0, help="How many subscriptions.")] = 1_000,
    out: Annotated[Path | None, typer.Option(help="The folder to write into.", show_default=False)] = None,
    format: Annotated[Format, typer.Option(help="How to write them.")] = Format.PARQUET,
    seed: Seed = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the scenario.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="List the scenarios and their parameters.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a seeded workload: events, subscriptions and the space they belong to."""
    from contentcast.workload import SCENARIOS, WorkloadError, scenario
    from contentcast.workload.files import write_workload

    if list_them:
        _list_scenarios(as_json)
        return
    if not name or out is None:
        what = "which scenario? One of " + ", ".join(SCENARIOS) if not name else "where to? Add --out FOLDER"
        raise WorkloadError(f"workload: {what}")
    chosen = scenario(name, seed=seed, **dict(_setting(each) for each in settings or ()))
    with _progress(name, events + subscriptions) as advance:
        written = write_workload(
            chosen, out, events=events, subscriptions=subscriptions, format=format.value, force=force, advance=advance
        )
    if as_json:
        typer.echo(json.dumps({"scenario": name, "seed": seed, "files": [str(each) for each in written]}))
    else:
        typer.echo("\n".join(str(each) for each in written))


def _setting(text: str) -> tuple[str, Any]:
    """symbols=500, zipf=1.2, hot=true."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ContentcastError(f"--set takes NAME=VALUE, got {text!r}")
    try:
        return name.strip(), json.loads(value.strip().lower())
    except ValueError:
        return name.strip(), value


def _list_scenarios(as_json: bool) -> None:
    from dataclasses import asdict, fields

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from contentcast.workload.catalog import ENTRIES
    from contentcast.workload.parameters import limits

    described: dict[str, Any] = {}
    for name, entry in ENTRIES.items():
        defaults = {each.name: each.default for each in fields(entry.parameters)} | dict(entry.preset)
        known = limits(entry.parameters)
        parameters = {each: {"default": value, **asdict(known[each])} for each, value in defaults.items()}
        described[name] = {"description": entry.description, "parameters": parameters}
    if as_json:
        typer.echo(json.dumps(described, indent=2))
        return
    table = Table("scenario", "what it is, and its parameters", box=box.SIMPLE_HEAD)
    for name, each in described.items():
        told = ", ".join(f"{key}={json.dumps(value['default'])}" for key, value in each["parameters"].items())
        table.add_row(name, f"{each['description']}\n[dim]{told}[/dim]")
    Console().print(table)


# --- parse


@app.command(epilog=_example("parse"))
def parse(
    predicate: Annotated[str, typer.Argument(help="The text of the predicate.", show_default=False)],
    space: Annotated[Path, typer.Option(help="The space, a .json or .toml file.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Check a predicate and print its canonical text; what is wrong with it is shown with its place."""
    from contentcast.language import parse_predicate, print_predicate
    from contentcast.model import Space

    parsed = parse_predicate(Space.load(space), predicate)
    canonical = print_predicate(parsed)
    typer.echo(json.dumps({"predicate": canonical, "any of": _conjunctions(parsed)}, indent=2) if as_json else canonical)


def _conjunctions(predicate: Predicate) -> list[dict[str, Any]]:
    return [{name: _constraint(each) for name, each in conjunction.items} for conjunction in predicate.conjunctions]


def _constraint(constraint: Constraint) -> dict[str, Any]:
    """What one attribute must be: in one of the intervals (null: no bound), like and not like the patterns, or absent."""
    ends = ("from", "from included", "to", "to included")
    intervals = [dict(zip(ends, map(_plain, each), strict=True)) for each in constraint.ranges.intervals()]
    described: dict[str, Any] = {"in": intervals, "may be absent": constraint.absent}
    if constraint.like:
        described["like"] = [each.text for each in constraint.like]
    if constraint.unlike:
        described["not like"] = [each.text for each in constraint.unlike]
    return described


def _plain(value: Any) -> Any:
    """As events write it in JSON: timestamps in ISO 8601, bytes in base64."""
    import msgspec

    return msgspec.to_builtins(value)


# --- what long work shows


@contextmanager
def _progress(what: str, rows: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr while somebody looks at it."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=rows)
        yield lambda done: bar.advance(task, done)


if __name__ == "__main__":
    main()
