"""`contentcast experiment`: a paper's evaluation run again, as a table, a figure and verdicts.

    experiments/link-matching/chart3/results.parquet     every row that was measured
    experiments/link-matching/chart3/figure.png          with the paper's claims beneath it
    experiments/link-matching/chart3/verdicts.json       each claim, theirs, ours, and whether it holds
    experiments/link-matching/chart3/report.md           the same to read, with the numbers

Rule: a claim that does not hold here is a result, not an error: the exit code is 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from contentcast.commands.shared.extras import need
from contentcast.commands.shared.failures import told_in_one_line
from contentcast.commands.shared.overheard import overhearing
from contentcast.commands.shared.settings import check_master
from contentcast.model import ContentcastError

if TYPE_CHECKING:
    import pyarrow as pa

    from contentcast.experiments.contract import Experiment
    from contentcast.experiments.run import Outcome

SparkSession: TypeAlias = Any
"""Only contentcast.spark imports pyspark."""


def experiment(
    name: Annotated[str, typer.Argument(help="An experiment, or the beginning of several names; --list shows them.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds.")] = False,
    out: Annotated[Path, typer.Option(help="The folder for all experiments; each has one of its own in it.")] = Path(
        "experiments"
    ),
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what is there already.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds.", show_default="the experiment's own")] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure on this network, a name or a file; may be given several times. For summaries/.",
            show_default="its own",
        ),
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Row by row in this process, without Spark.")] = False,
    master: Annotated[str, typer.Option(help="Where Spark runs: local[*], spark://host:7077, yarn.")] = "local[*]",
    list_them: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Run a paper's evaluation again and show its claims beside what comes out; interrupted, it goes on where it was."""
    from contentcast.commands.shared.compiled import have_compiled
    from contentcast.experiments.catalog import EXPERIMENTS, chosen, experiment
    from contentcast.experiments.contract import Scale

    if list_them:
        _list([experiment(each) for each in EXPERIMENTS], as_json)
        return
    if not name:
        raise ContentcastError("experiment: which one? " + ", ".join(EXPERIMENTS))
    wanted = chosen(name)
    if not local:
        check_master(master)
    need(*([] if local else ["pyspark"]), "matplotlib")
    scale = Scale(quick, seed, seeds, tuple(network or ()))
    have_compiled()
    told = []
    with _kept_is_told(out, fresh), told_in_one_line(), overhearing(_spark(None if local else master)) as spark:
        from contentcast.experiments.run import run

        for each in wanted:
            folder = out / (f"{each.name}-quick" if quick else each.name)
            outcome = run(each, folder, scale, spark=spark, fresh=fresh)
            if as_json:
                told.append(_plain(each, outcome, folder))
            else:
                _show(each, outcome, folder)
    if as_json:
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))


@contextmanager
def _kept_is_told(out: Path, fresh: bool) -> Iterator[None]:
    """Ctrl-C is no loss, and whoever pressed it may not know."""
    try:
        yield
    except KeyboardInterrupt:
        again = "the same command without --fresh" if fresh else "the same command"
        typer.echo(f"contentcast: stopped; the rows so far are kept in {out}, and {again} goes on with them", err=True)
        raise


@contextmanager
def _spark(master: str | None) -> Iterator[SparkSession | None]:
    if master is None:
        yield None
        return
    from contentcast.spark.session import command_session

    with command_session("contentcast experiment", master) as running:
        yield running


def _list(experiments: list[Experiment], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([{"name": each.name, "title": each.title, "source": each.source} for each in experiments]))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("experiment", no_wrap=True)
    table.add_column("what it shows")
    table.add_column("source")
    for each in experiments:
        table.add_row(each.name, each.title, each.source)
    Console().print(table)


def _plain(experiment: Experiment, outcome: Outcome, folder: Path) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "verdicts": [{**each._asdict(), "holds": bool(each.holds)} for each in outcome.verdicts],
        "summary": outcome.summary.to_pylist(),
        "results": str(folder / "results.parquet"),
        "figure": str(outcome.figure),
    }


def _show(experiment: Experiment, outcome: Outcome, folder: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"[bold]{experiment.title}[/bold]  ({experiment.source})", highlight=False)
    console.print(_table(outcome.summary))
    verdicts = Table("the paper's claim", "theirs", "ours", "holds", box=box.SIMPLE_HEAD)
    for each in outcome.verdicts:
        verdicts.add_row(each.claim, each.paper, each.ours, "yes" if each.holds else "NO")
    console.print(verdicts)
    typer.echo(f"{folder / 'results.parquet'}\n{outcome.figure}")


def _table(summary: pa.Table) -> Any:
    from rich import box
    from rich.table import Table

    shown = Table(*summary.column_names, box=box.SIMPLE_HEAD)
    for row in summary.to_pylist():
        shown.add_row(*("" if value is None else str(value) for value in row.values()))
    return shown
