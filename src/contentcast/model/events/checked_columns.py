"""The columns of a table or of a CSV file against the space: which stay, which are added, and which are a mistake.

    issue, price, note        note stays beside the event
    issue, prise              is `prise` the attribute price? A slip of the pen is an error
    issue;price;volume        no column is an attribute; the separator is a comma

Rule: a table and a CSV file of the same columns are refused for the same reasons.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

import pyarrow as pa

from contentcast.model.errors import ContentcastError, EventError
from contentcast.model.events.event_batch import EventBatch, flattened
from contentcast.model.events.intake import How, Unknown
from contentcast.model.events.rows import no_such
from contentcast.model.space import Space

NEAR: Final = 0.8
"""How alike two names are (by difflib) so that one may be a slip of the other: prise and price are, side and size are not."""
_OTHER_SEPARATORS: Final = {";": "a semicolon", "\t": "a tab"}


def checked_schema(space: Space, schema: pa.Schema, unknown: Unknown | None) -> pa.Schema:
    """The columns of checked events: the space's own types, missing attributes added, others as they are.

    `unknown`: None lets other columns stay, unless one looks like an attribute that is missing, with a slip of the pen.
    """
    how: How = {"unknown": unknown or "ignore", "finer": "round"}  # of no rows nothing is rounded
    EventBatch.from_arrow(space, no_rows(schema), **how)  # a column of a wrong type is named now, not in a task
    names = flattened(no_rows(schema)).column_names  # those inside of objects, and of lists of objects, too
    _check_names(space, names, schema.names, unknown)
    fields = [space.arrow_schema.field(field.name) if field.name in space else field for field in schema]
    missing = [name for name in space.names if name not in names]
    return pa.schema([*fields, *(space.arrow_schema.field(name) for name in missing)])


def check_header(space: Space, header: Sequence[str], unknown: Unknown | None) -> None:
    """Of a CSV file. One without a header, or with another separator, is refused here."""
    for name in header:
        if name not in space and unknown == "error":
            raise EventError(no_such(space, name) + separator_hint(header))
        if header.count(name) > 1 and name in space:
            raise EventError(f"the column {name} comes twice; rename or drop one")
    if not any(name in space for name in header):
        hint = separator_hint(header) or ". The first line of a CSV file names the columns"
        raise EventError(f"{_none_of(space, header)}{hint}")
    _check_names(space, header, header, unknown)


def separator_hint(header: Sequence[str]) -> str:
    """To be added to a complaint about the names of columns."""
    found = next((said for sign, said in _OTHER_SEPARATORS.items() if any(sign in name for name in header)), None)
    return f". Is the separator {found}? Here it is a comma; write the file with commas" if found else ""


def _check_names(space: Space, names: Sequence[str], shown: Sequence[str], unknown: Unknown | None) -> None:
    if not any(name in space for name in names):
        raise ContentcastError(_none_of(space, shown))
    if unknown is not None:
        return
    missing = [name for name in space.names if name not in names]
    for name in names:
        if name not in space and (near := slip_of(name, missing)):
            raise ContentcastError(
                f"{space.name} has no attribute {name!r}, and the events have no column {near!r}; is it that one? Rename "
                "it, or let it stay as it is: unknown='ignore'"
            )


def _none_of(space: Space, names: Sequence[str]) -> str:
    return f"none of the columns {', '.join(names[:12])} is an attribute of {space.name}; it has {', '.join(space.names[:12])}"


def slip_of(name: str, missing: list[str]) -> str | None:
    """The missing attribute that this name is a slip of the pen of."""
    close = get_close_matches(name.casefold(), [each.casefold() for each in missing], n=1, cutoff=NEAR)
    return next((each for each in missing if close and each.casefold() == close[0]), None)


def csv_header(content: bytes) -> list[str]:
    """The names of the columns; empty for a file that has none."""
    first = content.decode("utf-8-sig", "replace").lstrip("\r\n")
    return next(csv.reader(io.StringIO(first, newline="")), [])


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)
