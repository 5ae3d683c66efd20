"""Matching in this process, without Spark: files into a folder of tables, or JSON lines from standard input to standard output.

Rule: the tables are those that the Spark way writes (`on_spark`), and a folder appears when all of it is there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import pyarrow as pa
import typer

from contentcast.commands.matching.account import COUNTS, MATCHES, QUARANTINE, REFUSED, totals_of
from contentcast.commands.matching.inputs import Inputs
from contentcast.commands.shared.option_words import as_options
from contentcast.commands.shared.progress import progress
from contentcast.files.appearing import appearing
from contentcast.files.deliveries import DeliveryFolder
from contentcast.files.made_folders import write_table
from contentcast.files.match import Matching, Rules
from contentcast.files.open_events import open_events
from contentcast.files.subscription_table import FileTable
from contentcast.model import How, Space
from contentcast.model.events.records import BAD, Bad, bad_table

MEGABYTE: Final = 1_000_000
MOST_TOLD: Final = 20
"""Bad records and refused rules on the screen, where no table keeps them."""


def opened(given: Inputs, space: Space, format: str | None, how: How, id: str, predicate: str) -> Matching:
    """Reads the rules, and of the events what they are; whatever is wrong with either is told now."""
    events = open_events(given.events, space, format=format, how=how)
    rules = Rules.of(FileTable(Path(given.subscriptions), id, predicate).read(), space)
    return Matching(events, rules, how.get("on_error", "reject"))


def into_folder(matching: Matching, out: Path) -> dict[str, Any]:
    started = perf_counter()
    if not len(matching.rules):
        _tell_refused(matching, 1)  # the table has them all
    with appearing(out.absolute()) as unfinished:
        matches, aside = DeliveryFolder(unfinished / MATCHES, matching.schema), [BAD.empty_table()]
        for piece in _watched(matching):
            matches.write(piece)
            aside += _set_aside(matching)
        aside += _set_aside(matching)
        matches.close()
        write_table(pa.concat_tables(aside), unfinished / QUARANTINE)
        write_table(matching.rules.refused, unfinished / REFUSED)
        write_table(matching.counts(), unfinished / COUNTS)
    return _totals(matching, perf_counter() - started, str(out))


def _set_aside(matching: Matching) -> list[pa.Table]:
    found = [*matching.take_bad(), *matching.take_left_out()]
    return [pa.Table.from_batches([bad_table(found)])] if found else []


def to_stdout(matching: Matching) -> dict[str, Any]:
    """One JSON object for each match: the attributes that the event carries, and the rule's columns."""
    import msgspec

    started, encoder, bad, left_out = perf_counter(), msgspec.json.Encoder(), 0, 0
    _tell_refused(matching, MOST_TOLD)
    for piece in _watched(matching):
        rows = [{name: value for name, value in row.items() if value is not None} for row in piece.to_pylist()]
        sys.stdout.buffer.write(encoder.encode_lines(rows))
        sys.stdout.buffer.flush()
        bad = _tell(matching.take_bad(), bad, "a bad record")
        left_out = _tell(matching.take_left_out(), left_out, "left out")
    bad = _tell(matching.take_bad(), bad, "a bad record")
    left_out = _tell(matching.take_left_out(), left_out, "left out")
    for told, what in ((bad, "bad records"), (left_out, "attributes left out")):
        if told > MOST_TOLD:
            typer.echo(f"contentcast: ... and {told - MOST_TOLD:,} more {what}; --out FOLDER keeps them all", err=True)
    return _totals(matching, perf_counter() - started, None)


def _tell_refused(matching: Matching, most: int) -> None:
    for row in matching.rules.refused.slice(0, most).to_pylist():
        named = "a rule" if row["subscription"] is None else f"rule {row['subscription']}"
        typer.echo(f"contentcast: {named} is refused: {as_options(row['reason'].splitlines()[0])}", err=True)


def _tell(bad: list[Bad], told: int, what: str) -> int:
    for each in bad[: max(0, MOST_TOLD - told)]:
        where = f"attribute {each.attribute}: " if each.attribute else ""
        typer.echo(f"contentcast: {what}: {where}{as_options(each.reason)}, in {each.record[:200]}", err=True)
    return told + len(bad)


def _watched(matching: Matching) -> Iterator[pa.RecordBatch]:
    """The pieces, with how far they are on standard error: of files the megabytes, else the events."""
    total = matching.events.bytes
    with progress("matching", None if total is None else max(1, total // MEGABYTE), "MB" if total else "events") as advance:
        before = 0
        for piece in matching.pieces():
            now = matching.tally.events if total is None else matching.tally.bytes // MEGABYTE
            advance(now - before)
            before = now
            yield piece


def _totals(matching: Matching, took: float, out: str | None) -> dict[str, Any]:
    tally, rules = matching.tally, matching.rules
    return totals_of(
        events=tally.events,
        bad=tally.bad,
        rules=len(rules),
        refused=rules.refused.num_rows,
        pairs=tally.pairs,
        took=took,
        out=out,
    )
