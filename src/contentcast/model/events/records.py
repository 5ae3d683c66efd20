"""What becomes of raw records: rows of a table, JSON texts or whole CSV files become events, and the bad ones are named.

Each reader is a small value that can travel to the workers of Spark. `read(batch)` gives the events with all the columns that
stay, in the types of `schema`, and for each bad record why it is one, which attribute it is about, and the record as it came.
How values are taken is said in the words of `model.events.intake`.
Rule: events are checked by `EventBatch` and nothing else; every record comes out once, good or bad.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from itertools import chain
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

import pyarrow as pa

from contentcast.model.errors import ContentcastError
from contentcast.model.events.checked_columns import check_header, no_rows
from contentcast.model.events.csv_files import CsvFile, Record, read_records
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.events.event_files import format_of
from contentcast.model.events.intake import How, Intake
from contentcast.model.events.json_lines import read_lines
from contentcast.model.events.rows import Rejection
from contentcast.model.space import Space

ROWS_OUT: Final = 10_000
"""Of a packed file's lines that go on together; as many as Spark sends in one batch."""
BAD: Final = pa.schema([("reason", pa.string()), ("attribute", pa.string()), ("record", pa.string()), ("file", pa.string())])
LINE, FILE, CONTENT = "value", "file", "content"
"""How Spark's readers of text and of whole files name what they give (FILE: what we name it)."""
QUEUE: Final = ("topic", "partition", "offset")
"""How Kafka's source names the place of a message."""
EMPTY: Final = "no JSON: the message is empty"


class Bad(NamedTuple):
    reason: str
    attribute: str | None
    record: str
    file: str | None

    @classmethod
    def of(cls, rejection: Rejection, record: str, file: str | None) -> Bad:
        return cls(*map(_plain, (rejection.reason, rejection.attribute, record, file)))  # type: ignore[arg-type]


class Read(NamedTuple):
    """Events, the records that are none, and the attributes that were left out (one for each)."""

    events: pa.RecordBatch
    bad: list[Bad]
    left_out: list[Bad]


class Reader(Protocol):
    """`schema`: the columns of the events that come out."""

    @property
    def schema(self) -> pa.Schema: ...

    def read(self, batch: pa.RecordBatch) -> Iterator[Read]: ...


def bad_table(bad: list[Bad]) -> pa.RecordBatch:
    columns = list(zip(*bad, strict=True)) or [()] * len(BAD)
    return pa.record_batch([pa.array(each, pa.string()) for each in columns], schema=BAD)


def _plain(text: str | None) -> str | None:
    """Lone surrogates, which stand for bytes that are not UTF-8, become \\udcff: a text column cannot hold them."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()


# --- rows of a table


@dataclass(frozen=True)
class Columns:
    """The space's columns are checked and take its types; others stay as they are, and so do structs of dotted attributes."""

    space: Space
    schema: pa.Schema
    how: How

    def read(self, batch: pa.RecordBatch) -> Iterator[Read]:
        events = EventBatch.from_arrow(self.space, batch, **How({**self.how, "unknown": "ignore"}))
        kept = batch if not events.rejected else batch.take(events.ids)
        arrays = [(events.records if name in self.space else kept).column(name) for name in self.schema.names]
        yield Read(
            pa.RecordBatch.from_arrays(arrays, schema=self.schema),
            [Bad.of(each, as_json(batch, each.event), None) for each in events.rejected],
            [Bad.of(each, as_json(batch, each.event), None) for each in events.left_out],
        )


def as_json(batch: pa.RecordBatch, row: int) -> str:
    """One row of a table as a record to show."""
    return json.dumps(
        {name: _value(batch.column(name)[row]) for name in batch.schema.names}, default=_spelled, ensure_ascii=False
    )


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.cast(pa.binary()).as_py().decode("utf-8", "backslashreplace")
    except (ValueError, OverflowError):  # a timestamp that Python does not have
        return str(scalar.cast(pa.int64()).as_py())


def _spelled(value: Any) -> Any:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


# --- JSON texts


@dataclass(frozen=True)
class JsonTexts:
    """One JSON object in each row of the column `text`: lines of files, messages of a queue. The other columns stay."""

    space: Space
    text: str
    others: pa.Schema
    how: How

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.space.arrow_schema, *(each for each in self.others if each.name != FILE)])

    def read(self, batch: pa.RecordBatch) -> Iterator[Read]:
        raw = batch.column(self.text).cast(pa.binary()).to_pylist()
        lines = [(each or b"").removeprefix(b"\xef\xbb\xbf") for each in raw]
        written = [row for row, line in enumerate(lines) if line.strip()]
        events = read_lines(self.space, [lines[row] for row in written], [row + 1 for row in written], Intake.of(self.how))
        rows = pa.array([written[at] for at in events.ids.to_pylist()], pa.int64())
        others = [batch.column(each.name).take(rows) for each in self.others if each.name != FILE]
        bad = [self._bad(batch, lines, written[each.event], each) for each in events.rejected]
        left_out = [self._bad(batch, lines, written[each.event], each) for each in events.left_out]
        if FILE not in self.others.names and len(written) < len(lines):
            # An empty line of a file is no record; an empty message, as Kafka has for a key that was deleted, is one.
            empty = [row for row, line in enumerate(lines) if not line.strip()]
            bad += [Bad(EMPTY, None, _plain(_text(lines[row])) or "", self._place(batch, row)) for row in empty]
        yield Read(pa.RecordBatch.from_arrays([*events.records.columns, *others], schema=self.schema), bad, left_out)

    def _bad(self, batch: pa.RecordBatch, lines: list[bytes], row: int, why: Rejection) -> Bad:
        return Bad.of(why, _text(lines[row]).rstrip("\r\n"), self._place(batch, row))

    def _place(self, batch: pa.RecordBatch, row: int) -> str | None:
        """The file, or where in the queue: trades-0@17, as Kafka writes it."""
        if FILE in self.others.names:
            return str(batch.column(FILE)[row])
        if not all(name in self.others.names for name in QUEUE):
            return None
        return "{}-{}@{}".format(*(batch.column(name)[row] for name in QUEUE))


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


# --- CSV files


@dataclass(frozen=True)
class CsvFiles:
    """A whole CSV file in each row: only from its beginning can one tell which line breaks lie within quotes.

    `beside`: columns that the space does not have, with their kinds; they stay. A file that comes to a stream later may have
    others, which are passed over.
    """

    space: Space
    beside: Mapping[str, str]
    how: How

    @property
    def schema(self) -> pa.Schema:
        return wider(self.space, self.beside).arrow_schema

    def read(self, batch: pa.RecordBatch) -> Iterator[Read]:
        for name, content in zip(batch.column(FILE).to_pylist(), batch.column(CONTENT), strict=True):
            with pa.input_stream(content.as_buffer(), compression=format_of(name)[1]) as file:
                yield from self.read_file(name, file)

    def read_file(self, name: str, file: BinaryIO) -> Iterator[Read]:
        """A piece at a time. `file` gives what the file holds once it is unpacked."""
        source = CsvFile(file)
        if source.first_record is None:  # an empty file has no events, good or bad
            return
        try:
            source.check()
            header = [each for each in source.header if each not in self.beside]
            check_header(self.space, header, self.how.get("unknown"))
        except ContentcastError as reason:
            # The header is no record, but if nothing follows it, it stands for the file.
            pieces = iter(source.pieces())
            for piece in chain([next(pieces, [source.first_record])], pieces):
                yield self._all_bad(piece, reason, name)
            return
        wide, intake = wider(self.space, self.beside), Intake.of({**self.how, "unknown": "ignore"})
        for piece in source.pieces():
            try:
                events = read_records(wide, source.header, piece, intake)
            except pa.ArrowException as reason:
                yield self._all_bad(piece, reason, name)
                continue
            bad, left_out = (
                [Bad.of(each, _shown(piece[each.event]), name) for each in those]
                for those in (events.rejected, events.left_out)
            )
            yield Read(events.records, bad, left_out)

    def _all_bad(self, piece: list[Record], reason: Exception, file: str) -> Read:
        bad = [Bad(str(reason), None, _plain(_shown(each)) or "", file) for each in piece]
        return Read(no_rows(self.schema), bad, [])


def _shown(record: Record) -> str:
    return record.text.rstrip("\r\n")


@dataclass(frozen=True)
class JsonFiles:
    """A whole file of JSON lines in each row, packed as Spark's own reader of text cannot unpack it (.zst)."""

    lines: JsonTexts

    @property
    def schema(self) -> pa.Schema:
        return self.lines.schema

    def read(self, batch: pa.RecordBatch) -> Iterator[Read]:
        for name, content in zip(batch.column(FILE).to_pylist(), batch.column(CONTENT), strict=True):
            lines = unpacked(name, content.as_py()).split(b"\n")
            for start in range(0, max(1, len(lines)), ROWS_OUT):
                piece = pa.array(lines[start : start + ROWS_OUT], pa.binary())
                yield from self.lines.read(pa.record_batch([piece, pa.array([name] * len(piece))], names=[LINE, FILE]))


def unpacked(name: str, content: bytes) -> bytes:
    _, compression = format_of(name)
    if compression is None:
        return content
    with pa.input_stream(pa.BufferReader(content), compression=compression) as file:
        return bytes(file.read())


# --- how they are read


def set_aside(how: How) -> How:
    """For a reader: what it must not raise it sets aside, and who asked raises."""
    return {**how, "on_error": "absent" if how.get("on_error") == "absent" else "reject"}


def wider(space: Space, extra: Mapping[str, str]) -> Space:
    """The space with the fields that events may carry beside it."""
    for name in extra:
        if name in space:
            raise ContentcastError(f"{name} is an attribute of {space.name}; extra names others")
    return Space(space.name, {**dict(space.items()), **extra}) if extra else space


def first_complaint(bad: list[Bad]) -> str:
    where = f"attribute {bad[0].attribute}: " if bad[0].attribute else ""
    return f"{where}{bad[0].reason}, in the record {bad[0].record[:400]}"
