"""`contentcast match`: a user's own events against a user's own rules, in this process or on Spark.

    out/matches/        every event with every subscription that wants it, in a folder for each broker
    out/quarantine/     records that are no events of the space, with the reason
    out/refused/        subscriptions that cannot be read, with the reason
    out/counts/         how many events each subscription got

Rule: names, endings and sizes of files are checked before anything heavy is started; both ways write the same tables.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contentcast.commands.matching.account import COUNTS, exit_code, summary, tell_counts
from contentcast.commands.matching.inputs import Inputs, check_format, inputs, on_spark
from contentcast.commands.shared.intake_options import Epoch, Finer, Nan, OnError, Unknown, how_of
from contentcast.commands.shared.outputs import check_apart
from contentcast.commands.shared.settings import Where
from contentcast.files.made_folders import check_replaceable, check_stream_folder, holds_something
from contentcast.model import ContentcastError, Space
from contentcast.model.events.event_files import STDIN

STDOUT = Path("-")


class Format(StrEnum):
    PARQUET, CSV, JSONL, ORC, DELTA = "parquet", "csv", "jsonl", "orc", "delta"


def match(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER]",
            help="Events: files, patterns, or - for JSON lines on stdin. Or a folder with events.*, subscriptions.* and "
            "space.json, as `workload` writes it.",
        ),
    ] = None,
    events: Annotated[list[str] | None, typer.Option(metavar="FILES", help="Files, folders or patterns of events.")] = None,
    subscriptions: Annotated[
        str | None,
        typer.Option("--subscriptions", "--rules", help="A table: subscription, predicate ...; or .txt, one predicate a line."),
    ] = None,
    space: Annotated[Path | None, typer.Option(help="The space, a .json or .toml file.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; - is stdout, JSON lines.", show_default="of stdin: stdout")
    ] = None,
    spark: Annotated[
        bool | None, typer.Option("--spark/--no-spark", help="On Spark, or in this process.", show_default="above 1 GiB")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A topic or a lake's table for the matches.")] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Follow a folder of events until Ctrl-C.")] = False,
    once: Annotated[bool, typer.Option("--once", help="With --stream: take what is new, then stop.")] = False,
    master: Annotated[
        str | None, typer.Option(help="Where Spark runs: spark://host:7077, yarn.", show_default="local[*]")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Spark's memory, such as 4g.", show_default="Spark's own")] = None,
    jars: Annotated[list[str] | None, typer.Option(help="Packages of Spark: files, folders or patterns.")] = None,
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark.")] = None,
    format: Annotated[Format | None, typer.Option(help="The format of the events.", show_default="by their ending")] = None,
    unknown: Unknown = None,
    on_error: OnError = None,
    nan: Nan = None,
    finer: Finer = None,
    epoch: Epoch = None,
    id: Annotated[str, typer.Option(help="The subscriptions' column with the ids.")] = "subscription",
    predicate: Annotated[str, typer.Option(help="The subscriptions' column with the predicates.")] = "predicate",
    counts: Annotated[bool, typer.Option("--counts", help="Tell the matches of each rule, on stderr.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what contentcast wrote there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Match events against a table of rules; bad records and predicates are set aside. Exit code 1: nothing was usable."""
    given = inputs(paths or [], events, subscriptions, space)
    if once and not stream:
        raise ContentcastError("match: --once goes with --stream")
    if stream and STDIN in given.events:
        raise ContentcastError("match: standard input is followed anyway, line by line; leave out --stream")
    if counts and (stream or to):
        word = "--stream" if stream else "--to"
        raise ContentcastError(f"match: --counts tells of matches in a folder that is written once; with {word} leave it out")
    where = Where(master or "local[*]", memory, jars or [], conf or [])
    told_format, how = format.value if format else None, how_of(unknown, on_error, nan, finer, epoch)
    needs_spark = {"--stream": stream, "--to": to, "--master": master, "--memory": memory, "--jars": jars, "--conf": conf}
    by_spark = on_spark(given, spark, needs_spark, told_format)
    out = _checked_out(out, given, stream, force, by_spark)
    check_format(given, told_format, stream)
    known = Space.load(given.space)
    if by_spark:
        from contentcast.commands.matching.on_spark import Wanted, match_on_spark

        wanted = Wanted(given, known, out, to, told_format, how, id, predicate)
        totals = match_on_spark(wanted, where, stream=stream, once=once)
    else:
        from contentcast.commands.matching import here

        matching = here.opened(given, known, told_format, how, id, predicate)
        totals = here.to_stdout(matching) if out == STDOUT else here.into_folder(matching, out)
        if counts and out == STDOUT:
            tell_counts(matching.counts())
    folder = None if out == STDOUT else out
    if counts and folder is not None and (folder / COUNTS).is_dir():
        import pyarrow.parquet as pq

        tell_counts(pq.read_table(folder / COUNTS))
    typer.echo(json.dumps(totals) if as_json else summary(totals, folder), err=folder is None)
    if code := exit_code(totals):
        raise typer.Exit(code)


def _checked_out(out: Path | None, given: Inputs, stream: bool, force: bool, by_spark: bool) -> Path:
    if out is None and STDIN in given.events and not by_spark:
        return STDOUT
    if out is None or (out == STDOUT and by_spark):
        raise ContentcastError("match: where to? Add --out FOLDER" + ("" if by_spark else ", or --out - for JSON lines"))
    if out == STDOUT:
        return STDOUT
    if stream:
        check_stream_folder(out, force=force, command="match")
    holds_something(out)  # or it is a file, whatever it is besides
    check_apart(out, [*(each for each in given.files if each != STDIN), given.subscriptions, given.space], "match")
    if not stream:
        check_replaceable(out, force=force)
    return out
