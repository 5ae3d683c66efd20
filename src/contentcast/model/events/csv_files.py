"""Events from CSV: the first line names the attributes, an empty field is absent, and a quoted empty one is the empty string.

Rule: an event is named by the line where its record begins; what cannot be told apart (a quote that is never closed) is said.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv

from contentcast.model.errors import EventError
from contentcast.model.events.checked_columns import separator_hint
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.events.intake import Intake, Unreadable
from contentcast.model.events.json_lines import float_of, int_of
from contentcast.model.events.rows import Rejection, no_such
from contentcast.model.space import Space
from contentcast.model.values.kinds import Kind, Value

Row = tuple[int, Any]
"""The line where a record begins, and its values or why it is no event."""


def read_csv(space: Space, content: bytes, intake: Intake, most_rows: int, first: int = 0) -> EventBatch:
    """The events of a whole file, numbered from `first` on."""
    header, starts, widths, unclosed = _csv_lines(content)
    for name in header:
        if name not in space and intake.unknown == "error":
            raise EventError(no_such(space, name) + separator_hint(header))
        if header.count(name) > 1 and name in space:
            raise EventError(f"the column {name} comes twice; rename or drop one")
    if not starts:
        rows: list[Row] = [] if unclosed is None else [_never_closed(unclosed)]
        return EventBatch.from_rows(space, rows, intake=intake, first=first)
    gone = [] if unclosed is None else [range(unclosed, sys.maxsize)]
    # Arrow cannot hand over a record with too many fields that is not UTF-8 text: such are taken out before it sees them.
    taken_out = [] if _is_text(content) else [record for record, width in enumerate(widths) if width != len(header)]
    gone += [range(starts[record], [*starts, sys.maxsize][record + 1]) for record in taken_out]
    ragged = {record: _ragged(widths[record], len(header)) for record in taken_out}
    left = [record for record in range(len(starts)) if record not in ragged]

    def set_aside(record: pyarrow.csv.InvalidRow) -> str:
        ragged[left[record.number - 2]] = _ragged(record.actual_columns, record.expected_columns)
        return "skip"

    wanted = [name for name in header if name in space]
    table = pyarrow.csv.read_csv(
        pa.BufferReader(_bytes_without(content, gone) if gone else content),
        read_options=pyarrow.csv.ReadOptions(use_threads=False),  # with threads a record does not know its number
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.binary() for name in header},
            include_columns=wanted,
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        ),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=set_aside),
    )
    columns = {name: table.column(name).to_pylist() for name in wanted} if wanted else {}
    readers = {name: _reader(space.kinds[name]) for name in wanted}

    def records() -> Iterator[Row]:
        row = 0
        for record, line in enumerate(starts):
            if record >= most_rows:
                raise EventError(f"more than {most_rows:,} events; more are taken with most_rows=")
            if record in ragged:
                yield line, Rejection(0, None, None, ragged[record])
                continue
            yield line, {name: _value(column[row], readers[name]) for name, column in columns.items()}
            row += 1
        if unclosed is not None:
            yield _never_closed(unclosed)

    return EventBatch.from_rows(space, records(), intake=intake, from_text=True, first=first)


def _never_closed(line: int) -> Row:
    why = "a quote is opened here and never closed, so that this line and all after it cannot be told apart; close it"
    return line, Rejection(0, None, None, why)


def _ragged(fields: int, wanted: int) -> str:
    return f"{fields} fields under a header of {wanted}"


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes_without(content: bytes, gone: list[range]) -> bytes:
    """The file but for these lines."""
    numbers = {number for each in gone if each.stop < sys.maxsize for number in each}
    end = min((each.start for each in gone if each.stop == sys.maxsize), default=sys.maxsize)
    with _opened(content, "utf-8") as file:
        kept = [line for number, line in enumerate(itertools.islice(file, end - 1), start=1) if number not in numbers]
    return "".join(kept).encode("utf-8", "surrogateescape")


def _opened(content: bytes, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding=encoding, errors="surrogateescape", newline="")


def _csv_lines(content: bytes) -> tuple[list[str], list[int], list[int], int | None]:
    """The header; of each record after it the line where it begins and its number of fields; and the line of a record whose
    quote is never closed.

    Empty lines and lines within quotes count too.
    """
    before = csv.field_size_limit(2**31 - 1)
    try:
        with _opened(content, "utf-8-sig") as file:
            last: list[str] = []
            reader = csv.reader(_remembered(file, last))
            header: list[str] = []
            records: list[tuple[int, int]] = []
            line = 1
            for record in reader:
                if record:
                    header = header or record
                    records.append((line, len(record)))
                line = reader.line_num + 1
                swallowed, last[:] = last[:], []
            unclosed = records.pop()[0] if records and _is_unclosed(swallowed) else None
    except csv.Error as reason:
        raise EventError(f"not CSV: {reason}") from None
    finally:
        csv.field_size_limit(before)
    if not records:
        what = "the file is empty" if unclosed is None else "a quote in the header is never closed"
        raise EventError(f"{what}; its first line names the attributes")
    return header, [line for line, _ in records[1:]], [width for _, width in records[1:]], unclosed


def _remembered(lines: Iterable[str], last: list[str]) -> Iterator[str]:
    for line in lines:
        last.append(line)
        yield line


def _is_unclosed(lines: list[str]) -> bool:
    """Only a strict reader tells a record that ends from one that the file ends."""
    if '"' not in "".join(lines):
        return False
    try:
        list(csv.reader(lines, strict=True))
    except csv.Error as reason:
        return "unexpected end of data" in str(reason)
    return False


def _value(raw: bytes | None, read: Callable[[str], Any]) -> Any:
    if raw is None:
        return None
    try:
        return read(raw.decode())
    except UnicodeDecodeError:
        return Unreadable(f"{raw!r} is not UTF-8 text", raw)
    except ValueError as reason:
        return Unreadable(str(reason), raw.decode())


# Python's own int and float also take 1_000 and the digits of other scripts.
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_DIGITS = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)


def _to_int(text: str) -> int | float:
    """A float that is whole is taken for an int where values are checked."""
    if _INT.fullmatch(text.strip()):
        return int_of(text)
    if _FLOAT.fullmatch(text.strip()) or _NO_DIGITS.fullmatch(text.strip()):
        return _to_float(text)
    raise ValueError(f"{text!r} is not an int")


def _to_float(text: str) -> float:
    if _NO_DIGITS.fullmatch(text.strip()):
        return float(text)
    if not _FLOAT.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a float")
    return float_of(text)


def _to_bool(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is not a bool") from None


_FROM_TEXT: dict[str, Callable[[str], Value]] = {"int": _to_int, "float": _to_float, "bool": _to_bool}


def _reader(kind: Kind) -> Callable[[str], Any]:
    """Text, timestamps and bytes are read where values are checked."""
    return _FROM_TEXT.get(kind.name, str)
