"""Events from CSV: the first line names the attributes, an empty field is absent, and a quoted empty one is the empty string.

A file is read forward, once, a piece of some thousand records at a time. Python's csv finds where records end, since line
breaks may lie within quotes; Arrow reads the fields of a piece.
Rule: an event is named by the line where its record begins; what cannot be told apart (a quote that is never closed) is said.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.csv

from contentcast.model.errors import EventError, counted
from contentcast.model.events.checked_columns import separator_hint
from contentcast.model.events.event_batch import EventBatch, concat
from contentcast.model.events.intake import Intake, Unreadable
from contentcast.model.events.json_lines import float_of, int_of
from contentcast.model.events.rows import Rejection, no_such
from contentcast.model.space import Space
from contentcast.model.values.kinds import Kind, Value

PIECE_ROWS: Final = 10_000
PIECE_CHARS: Final = 4 * 2**20
LONGEST_RECORD: Final = 64 * 2**20
"""A quote that is never closed would take the rest of the file into memory."""
SHOWN: Final = 10_000
ITS_FIRST_LINE: Final = "its first line names the attributes"
NEVER_CLOSED: Final = (
    "a quote is opened here and never closed, so that this line and all after it cannot be told apart; close it"
)
TOO_LONG: Final = (
    f"the record has more than {LONGEST_RECORD:,} characters, and is not read, nor is what comes after it; "
    "is a quote opened here and never closed?"
)

Row = tuple[int, Any]
"""The line where a record begins, and its values or why it is no event."""


class Record(NamedTuple):
    """`line`: where it begins. `text`: as it stands in the file, with line breaks within quotes and the one after it."""

    line: int
    width: int
    text: str
    wrong: str | None = None


class CsvFile:
    """A file that is read forward, once: `header` at once, and then the records after it, some megabytes at a time.

    Empty lines, and lines within quotes, count as lines.
    """

    def __init__(self, file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        self._text = text  # closes the file when nobody has it any more
        self._records = _records(iter(lambda: text.readline(LONGEST_RECORD + 1), ""))
        first = self._next(1)
        self.first_record = first[0] if first else None
        self.header = [] if self.first_record is None or self.first_record.wrong else _fields(self.first_record.text)

    def check(self) -> None:
        if self.first_record is None:
            raise EventError(f"the file is empty; {ITS_FIRST_LINE}")
        if self.first_record.wrong:
            raise EventError(f"a quote in the header is never closed; {ITS_FIRST_LINE}")

    def pieces(self) -> Iterator[list[Record]]:
        while piece := self._next(PIECE_ROWS):
            yield piece

    def _next(self, most: int) -> list[Record]:
        found: list[Record] = []
        chars = 0
        with _fields_of_any_length():
            for record in self._records:
                found.append(record)
                chars += len(record.text)
                if len(found) == most or chars > PIECE_CHARS:
                    break
        return found


def read_csv(space: Space, file: BinaryIO, intake: Intake, most_rows: int) -> EventBatch:
    """The events of a whole file."""
    source = CsvFile(file)
    source.check()
    for name in source.header:
        if name not in space and intake.unknown == "error":
            raise EventError(no_such(space, name) + separator_hint(source.header))
        if source.header.count(name) > 1 and name in space:
            raise EventError(f"the column {name} comes twice; rename or drop one")
    batches: list[EventBatch] = []
    count = 0
    for piece in source.pieces():
        if count + len(piece) > most_rows:
            raise EventError(f"more than {most_rows:,} events; more are taken with most_rows=")
        batches.append(read_records(space, source.header, piece, intake, count))
        count += len(piece)
    return concat(batches) if batches else EventBatch.from_rows(space, [], intake=intake)


def read_records(space: Space, header: list[str], records: list[Record], intake: Intake, first: int = 0) -> EventBatch:
    """The events of some records of a file, numbered from `first` on."""
    whole = [each.wrong is None and each.width == len(header) for each in records]
    columns = _columns(space, header, [each.text for each, is_whole in zip(records, whole, strict=True) if is_whole])
    readers = {name: _reader(space.kinds[name]) for name in columns}

    def rows() -> Iterator[Row]:
        row = 0
        for each, is_whole in zip(records, whole, strict=True):
            if is_whole:
                yield each.line, {name: _value(column[row], readers[name]) for name, column in columns.items()}
                row += 1
            else:
                ragged = f"{counted(each.width, 'field')} under a header of {len(header)}"
                yield each.line, Rejection(0, None, None, each.wrong or ragged)

    return EventBatch.from_rows(space, rows(), intake=intake, from_text=True, first=first)


def _columns(space: Space, header: list[str], texts: list[str]) -> dict[str, list[bytes | None]]:
    """The attributes of records that have as many fields as the header. Arrow tells an empty field from a quoted empty one."""
    wanted = {name: str(at) for at, name in enumerate(header) if name in space}
    if not wanted or not texts:
        return {name: [] for name in wanted}
    content = "".join(texts).encode("utf-8", "surrogateescape")
    numbers = [str(at) for at in range(len(header))]  # a name may be no text
    table = pyarrow.csv.read_csv(
        pa.BufferReader(content),
        read_options=pyarrow.csv.ReadOptions(use_threads=False, column_names=numbers, block_size=len(content) + 1),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(numbers, pa.binary()),
            include_columns=list(wanted.values()),
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        ),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
    )
    return {name: table.column(at).to_pylist() for name, at in wanted.items()}


# --- where records end


class _Lines:
    """Hands lines on, and keeps those of the record that is being read. A record that is too long ends the file."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._kept: list[str] = []
        self._chars = 0
        self.is_too_long = False

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._kept.append(line)
            self._chars += len(line)
            if self._chars > LONGEST_RECORD:
                self.is_too_long = True
                return
            yield line

    def take(self) -> str:
        text = "".join(self._kept)
        self._kept.clear()
        self._chars = 0
        return text


def _records(given: Iterator[str]) -> Iterator[Record]:
    """The header is one of them. Each is given when the next is known, since only the last can have a quote that stays open."""
    lines = _Lines(given)
    reader = csv.reader(lines)
    line = 1
    waiting: Record | None = None
    for fields in reader:
        if waiting is not None:
            yield waiting
        text = lines.take()
        waiting = Record(line, len(fields), text) if fields else None
        line = reader.line_num + 1
    if rest := lines.take():  # a line that is too long by itself
        if waiting is not None:
            yield waiting
        waiting = Record(line, 0, rest)
    if waiting is None:
        return
    if lines.is_too_long:
        yield waiting._replace(text=waiting.text[:SHOWN], wrong=TOO_LONG)
    else:
        yield waiting._replace(wrong=NEVER_CLOSED) if _is_unclosed(waiting.text) else waiting


def _fields(text: str) -> list[str]:
    with _fields_of_any_length():
        return next(csv.reader(io.StringIO(text, newline="")))


def _is_unclosed(text: str) -> bool:
    """Only a strict reader tells a record that ends from one that the file ends."""
    if '"' not in text:
        return False
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as reason:
        return "unexpected end of data" in str(reason)
    return False


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    except csv.Error as reason:
        raise EventError(f"not CSV: {reason}") from None
    finally:
        csv.field_size_limit(before)


# --- one value


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
