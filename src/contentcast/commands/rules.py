"""`contentcast rules`: the rules that people already have, from their files into a table of subscriptions.

    contentcast rules translate rules.json --from eventbridge --space space.toml --out subscriptions.jsonl

Rule: stdout has the table (or, with --json, the account); what was refused is told on stderr, each with its place, and counted.
Exit code 1 says that some were refused; the others are written all the same.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from contentcast.commands.shared.option_words import as_options
from contentcast.commands.shared.outputs import check_apart
from contentcast.model import ContentcastError, Space
from contentcast.model.errors import counted

if TYPE_CHECKING:
    from contentcast.rules.files import GivenRule, Translated

rules = typer.Typer(no_args_is_help=True, help="The rules that you have: translate them to subscriptions.")

SOME_REFUSED: Final = 1
MOST_TOLD: Final = 20
"""Refusals on the screen; --refused writes them all."""


class Source(StrEnum):
    EVENTBRIDGE, CESQL, JMS, HEADERS, MATCHERS, TOPIC = "eventbridge", "cesql", "jms", "headers", "matchers", "topic"


@rules.command(
    epilog="Example: contentcast rules translate rules.json --from eventbridge --space space.toml > subscriptions.jsonl"
)
def translate(
    file: Annotated[Path, typer.Argument(help="A rule, an array of them, JSON lines, one a line, .csv or .parquet.")],
    source: Annotated[Source, typer.Option("--from", help="Where the rules come from.")],
    space: Annotated[Path, typer.Option(help="The space of the events, a .json or .toml file.")],
    out: Annotated[
        Path | None, typer.Option(help="A .jsonl, .csv or .parquet file.", show_default="stdout, JSON lines")
    ] = None,
    refused: Annotated[Path | None, typer.Option(help="A .jsonl file for what was refused.", show_default=False)] = None,
    attribute: Annotated[str | None, typer.Option(help="topic: the attribute that holds it.", show_default="topic")] = None,
    levels: Annotated[str | None, typer.Option(help="topic: an attribute for each level, a,b,c.", show_default=False)] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            help="headers, matchers: what stands before their names in the space, such as labels.", show_default=False
        ),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="The file is one rule, line breaks and all.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --out: print the account as JSON.")] = False,
) -> None:
    """Translate a file of rules to a table of subscriptions, as `match` takes it."""
    from contentcast.rules.files import read_rules, translate_rules

    if as_json and out is None:
        raise ContentcastError("rules translate: --json goes with --out, since the table is on stdout otherwise")
    for each in filter(None, (out, refused)):
        _check_writable(each, [file, space], force)
    options = _options(source, attribute, levels, prefix)
    found = translate_rules(Space.load(space), source.value, read_rules(file, source.value, whole=whole), **options)
    _write(_subscriptions(found), out)
    if refused is not None:
        _write([_refusal(rule, reason.place, reason.reason) for rule, reason in found.refused], refused)
    _tell(found, as_json, refused)
    if found.refused:
        raise typer.Exit(SOME_REFUSED)


def _options(source: Source, attribute: str | None, levels: str | None, prefix: str | None) -> dict[str, Any]:
    given = {"attribute": attribute, "levels": levels.split(",") if levels else None, "prefix": prefix}
    taken = {"topic": {"attribute", "levels"}, "headers": {"prefix"}, "matchers": {"prefix"}}.get(source.value, set())
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in taken:
            raise ContentcastError(f"rules translate: --{name} does not go with --from {source.value}")
    return options


def _check_writable(path: Path, inputs: list[Path], force: bool) -> None:
    check_apart(path, inputs, "rules translate")
    if path.exists() and not force:
        raise ContentcastError(f"{path} is already there; choose another name, or replace it with --force")
    if path.suffix.lower() not in _WRITERS:
        raise ContentcastError(f"{path}: tables are written as {', '.join(_WRITERS)}")


def _subscriptions(found: Translated) -> list[dict[str, Any]]:
    """With the rules' own ids where all are ints, else their numbers in the file."""
    own = all(isinstance(rule.name, int) for rule, _ in found.done)
    named = any(isinstance(rule.name, str) for rule, _ in found.done)
    rows = []
    for rule, text in found.done:
        row: dict[str, Any] = {"subscription": rule.name if own else rule.number, "predicate": text}
        if named:
            row["name"] = None if rule.name is None else str(rule.name)
        rows.append(row | {"rule": _shown(rule.rule)})
    return rows


def _refusal(rule: GivenRule, place: str, reason: str) -> dict[str, Any]:
    shown = None if isinstance(rule.rule, Exception) else _shown(rule.rule)
    return {"number": rule.number, "name": rule.name, "place": place, "reason": reason, "rule": shown}


def _shown(rule: Any) -> str:
    return rule if isinstance(rule, str) else json.dumps(rule, ensure_ascii=False, default=str)


def _write(rows: list[dict[str, Any]], path: Path | None) -> None:
    if path is None:
        for row in rows:
            typer.echo(json.dumps(row, ensure_ascii=False))
    else:
        _WRITERS[path.suffix.lower()](rows, path)


def _write_jsonl(rows: list[dict[str, Any]], path: Path) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(_table(rows), path)


def _write_parquet(rows: list[dict[str, Any]], path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(_table(rows), path)


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    none = pa.schema([("subscription", pa.int64()), ("predicate", pa.string()), ("rule", pa.string())])
    return pa.Table.from_pylist(rows) if rows else none.empty_table()


_WRITERS: Final = {".jsonl": _write_jsonl, ".csv": _write_csv, ".parquet": _write_parquet}


def _tell(found: Translated, as_json: bool, refused: Path | None) -> None:
    count = len(found.done) + len(found.refused)
    if as_json:
        account = [_refusal(rule, reason.place, reason.reason) for rule, reason in found.refused]
        typer.echo(json.dumps({"rules": count, "translated": len(found.done), "refused": account}, ensure_ascii=False))
        return
    for rule, reason in found.refused[:MOST_TOLD]:
        typer.echo(f"{rule.said}: {as_options(str(reason))}", err=True)
    more = len(found.refused) - MOST_TOLD
    if more > 0:
        typer.echo(
            f"... and {more:,} more; {f'all are in {refused}' if refused else '--refused FILE writes them all'}", err=True
        )
    typer.echo(f"{counted(count, 'rule')}: {len(found.done):,} translated, {len(found.refused):,} refused", err=True)
