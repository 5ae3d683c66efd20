"""The command line: one thin function for each command.

Rule: what a user can get wrong ends as one message on stderr, `contentcast: ...`, and exit code 2; Ctrl-C ends with 130.
What takes time to import is imported by the command that needs it. stdout is for what was asked, stderr for all else.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from contentcast import ContentcastError, __version__
from contentcast.commands.cluster import cluster
from contentcast.commands.experiment import experiment
from contentcast.commands.live.broker import broker
from contentcast.commands.live.lan import lan
from contentcast.commands.live.network import network
from contentcast.commands.live.publish import publish
from contentcast.commands.live.subscribe import subscribe
from contentcast.commands.live.top import top
from contentcast.commands.live.web import web
from contentcast.commands.live.why import why
from contentcast.commands.match import match
from contentcast.commands.rules import rules
from contentcast.commands.run import run
from contentcast.commands.shared.extras import how_to_install
from contentcast.commands.shared.option_words import as_options
from contentcast.commands.shared.progress import progress
from contentcast.commands.shared.settings import setting
from contentcast.commands.simulate import simulate
from contentcast.commands.space import space
from contentcast.commands.warm import warm

GROUPS: Final = {
    "Match events against rules": ("match", "space", "rules", "parse", "workload", "warm"),
    "Match on Spark, with a report": ("run", "cluster"),
    "Run brokers and use them": ("broker", "subscribe", "publish", "network", "top", "web", "why", "lan"),
    "Plan a network, and compare with the papers": ("simulate", "experiment"),
}
"""How `--help` shows the commands."""

EXAMPLES: Final = {
    "workload": "contentcast workload market --events 10000 --out market",
    "match": "contentcast match market --out matched",
    "space": "contentcast space market/events.parquet --name trades",
    "rules": "contentcast rules translate rules.json --from eventbridge --space space.toml",
    "parse": 'contentcast parse "NOT price >= 120" --space market/space.json',
    "warm": "contentcast warm",
    "run": "contentcast run --size small",
    "cluster": "contentcast cluster up --workers 2",
    "broker": "contentcast broker --name nyc",
    "subscribe": 'contentcast subscribe trades "price < 120"',
    "publish": "contentcast publish trades events.jsonl",
    "network": "contentcast network up lab.edges",
    "top": "contentcast top --once",
    "web": "contentcast web contentcast://127.0.0.1:7411",
    "why": """contentcast why trades --event '{"price": 5}' --subscription 7""",
    "lan": 'contentcast lan subscribe "price < 120" --space market/space.json',
    "simulate": "contentcast simulate --scenario gryphon --events 500",
    "experiment": "contentcast experiment link-matching/chart3 --quick",
}
"""Short enough for one line of a narrow terminal, so that they can be copied; in an order in which they work."""
FIRST: Final = ("run", "match", "broker", "subscribe", "publish", "web")
"""Whose examples `contentcast --help` shows."""

WRONG_INPUT: Final = 2
INTERRUPTED: Final = 130


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"contentcast: {record.getMessage().removeprefix('contentcast: ')}", err=True)


@contextmanager
def _warnings_told() -> Iterator[None]:
    """What our modules warn of looks like all else that a command says beside its answer."""
    log, handler = logging.getLogger("contentcast"), _ToStderr(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Commands(TyperGroup):
    """Turns what the user got wrong into a message, and lists the commands in their groups."""

    def list_commands(self, ctx: Any) -> list[str]:
        order = [name for names in GROUPS.values() for name in names]
        return sorted(self.commands, key=lambda name: order.index(name) if name in order else len(order))

    def invoke(self, ctx: Any) -> Any:
        try:
            with _warnings_told():
                return super().invoke(ctx)
        except ContentcastError as error:
            message = as_options(str(error))
        except ImportError as error:
            message = how_to_install(error) or ""
            if not message:
                raise
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
    epilog="\n".join(["Examples; the help of each command has its own:", *(f"  {EXAMPLES[command]}" for command in FIRST)]),
)


def main() -> None:
    _open_standard_streams()
    try:
        app()
    except KeyboardInterrupt:  # before typer listens
        sys.exit(INTERRUPTED)


def _open_standard_streams() -> None:
    """Those that whoever started us has closed go to nowhere; else a socket takes their place, and is written to."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
            if getattr(sys, name) is None:
                setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


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


# --- workload


class Format(StrEnum):
    PARQUET, CSV, JSONL = "parquet", "csv", "jsonl"


@app.command(name="workload", epilog=_example("workload"))
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
    chosen = scenario(name, seed=seed, **dict(setting(each) for each in settings or ()))
    with progress(name, events + subscriptions) as advance:
        written = write_workload(
            chosen, out, events=events, subscriptions=subscriptions, format=format.value, force=force, advance=advance
        )
    if as_json:
        typer.echo(json.dumps({"scenario": name, "seed": seed, "files": [str(each) for each in written]}))
    else:
        typer.echo("\n".join(str(each) for each in written))


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


@app.command(name="parse", epilog=_example("parse"))
def parse(
    predicate: Annotated[str, typer.Argument(help="The text of the predicate.", show_default=False)],
    space: Annotated[Path, typer.Option(help="The space, a .json or .toml file.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Check a predicate and print its canonical text; what is wrong with it is shown with its place."""
    from contentcast.commands.shared.canonical import conjunctions
    from contentcast.language import parse_predicate, print_predicate
    from contentcast.language.explanation import verdict
    from contentcast.model import Space

    parsed = parse_predicate(Space.load(space), predicate)
    canonical, odd = print_predicate(parsed), verdict(parsed)
    told = {"predicate": canonical, "any of": conjunctions(parsed), **({"warning": odd} if odd else {})}
    typer.echo(json.dumps(told, indent=2) if as_json else canonical)
    if odd:
        typer.echo(f"contentcast: it {odd}", err=True)


# --- commands with a file of their own

app.command(name="experiment", epilog=_example("experiment"))(experiment)
app.command(name="run", epilog=_example("run"))(run)
app.command(name="space", epilog=_example("space"))(space)
app.command(name="match", epilog=_example("match"))(match)
app.command(name="cluster", epilog=_example("cluster"))(cluster)
app.command(name="simulate", epilog=_example("simulate"))(simulate)
app.command(name="broker", epilog=_example("broker"))(broker)
app.command(name="subscribe", epilog=_example("subscribe"))(subscribe)
app.command(name="publish", epilog=_example("publish"))(publish)
app.add_typer(lan, name="lan", epilog=_example("lan"))
app.add_typer(rules, name="rules", epilog=_example("rules"))
app.command(name="network", epilog=_example("network"))(network)
app.command(name="top", epilog=_example("top"))(top)
app.command(name="web", epilog=_example("web"))(web)
app.command(name="why", epilog=_example("why"))(why)
app.command(name="warm", epilog=_example("warm"))(warm)

_panels = {name: title for title, names in GROUPS.items() for name in names}
for _command in app.registered_commands:
    _command.rich_help_panel = _panels[str(_command.name)]
for _group in app.registered_groups:
    _group.rich_help_panel = _panels[str(_group.name)]


if __name__ == "__main__":
    main()
