"""Events from files that people have: JSON lines, CSV and Parquet.

Text files have no timestamps and no bytes, so there they are ISO 8601 (no zone means UTC) and base64. In CSV an empty field is
absent and a quoted empty field is the empty string. An event is named by its line (JSON lines, CSV) or its row (Parquet).
Rule: a file takes at most the bytes that `most_bytes` allows, whatever it says of itself; a record that is no event is named.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isinf
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from contentcast.model.errors import ContentcastError, EventError, nearest
from contentcast.model.events.event_batch import DEEPEST, EventBatch, OnError, Rejection
from contentcast.model.plain_files import check_plain, once
from contentcast.model.space import Space
from contentcast.model.values.kinds import Value

Row = tuple[int, Any]
"""The number by which an event is named, and its attributes or why it is none."""


MOST_ROWS: Final = 50_000_000
MOST_BYTES: Final = 2**30
"""Of a file's events once they are read. A Parquet file of half a megabyte can hold gigabytes of one repeated string."""


def read_events(
    path: str | Path, space: Space, *, on_error: OnError = "raise", most_rows: int = MOST_ROWS, most_bytes: int = MOST_BYTES
) -> EventBatch:
    """By the file's ending: .parquet, .csv, or .jsonl / .ndjson / .json with one object a line.

    A file with more than `most_rows` events, or whose events would take more than `most_bytes`, is refused.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise EventError(f"{path}: events come as .parquet, .csv or .jsonl, not {path.suffix or 'without an ending'}")
    try:
        check_plain(path, most_bytes)
    except ContentcastError as reason:
        raise EventError(f"{reason}; a larger file is taken with most_bytes=" if "bytes" in str(reason) else reason) from None
    try:
        return reader(space, path, on_error, most_rows, most_bytes)
    except FileNotFoundError:
        raise EventError(f"there is no event file {path}") from None
    except UnicodeDecodeError:
        raise EventError(f"{path}: the name of a column is not UTF-8 text") from None
    except (EventError, pa.ArrowException, OSError) as reason:
        raise EventError(f"{path}: {reason}") from None


def _counted(rows: Iterable[Row], most_rows: int) -> Iterator[Row]:
    for count, row in enumerate(rows, start=1):
        if count > most_rows:
            raise EventError(f"more than {most_rows:,} events; more are taken with most_rows=")
        yield row


# --- JSON lines


def from_json_lines(space: Space, lines: Iterable[str], *, on_error: OnError = "raise") -> EventBatch:
    """One JSON object a line; empty lines are passed over."""
    return EventBatch.from_rows(space, _json_rows(lines), on_error=on_error, from_text=True)


def _json_rows(lines: Iterable[str]) -> Iterator[Row]:
    return ((number, _from_json(number, line)) for number, line in enumerate(lines, start=1) if line.strip())


def _from_json(number: int, line: str) -> Any:
    try:
        if line.count("{") + line.count("[") > DEEPEST:
            _check_depth(line)
        return _DECODER.decode(line)
    except json.JSONDecodeError as reason:
        why = f"not JSON: {reason.msg} at column {reason.colno}"
    except RecursionError:
        why = "nested too deeply"
    except ValueError as reason:
        why = str(reason)
    return Rejection(number, None, line.rstrip("\r\n"), why)


def _check_depth(line: str) -> None:
    """Before json reads it: that recurses, and how deep it can depends on who calls."""
    depth = 0
    for sign in _SIGNS.finditer(line):
        depth += (sign[0] in "{[") - (sign[0] in "}]")
        if depth > DEEPEST:
            raise ValueError(f"nested too deeply, at column {sign.start() + 1}: objects go {DEEPEST} deep")


# A string that is never closed ends the search: nothing after it is looked at twice.
_SIGNS = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[{}\[\]]', re.DOTALL)


def _float_of(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text} is beyond the range of a float")
    return value


def _int_of(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"{text[:20]}... is beyond every number here: {len(text)} digits")
    return int(text)


_MOST_DIGITS = 400
"""The longest int that a float can equal has 309; Python itself refuses beyond 4300 and says so in its own words."""

# What json would change silently it must not: 1e999 to infinity, and the first of two values of one name to nothing.
_DECODER = json.JSONDecoder(parse_float=_float_of, parse_int=_int_of, object_pairs_hook=once)


def _read_json_lines(space: Space, path: Path, on_error: OnError, most_rows: int, most_bytes: int) -> EventBatch:
    # Bytes that are not UTF-8 become lone surrogates, and the check of that value names them.
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
        return EventBatch.from_rows(space, _counted(_json_rows(lines), most_rows), on_error=on_error, from_text=True)


# --- CSV


def _read_csv(space: Space, path: Path, on_error: OnError, most_rows: int, most_bytes: int) -> EventBatch:
    header, starts, widths, unclosed = _csv_lines(path)
    for name in header:
        if name not in space:
            raise EventError(f"{space.name} has no attribute {name!r}{nearest(name, space.names)}")
        if header.count(name) > 1:
            raise EventError(f"the column {name} comes twice; rename or drop one")
    if not starts:
        return EventBatch.from_rows(space, [] if unclosed is None else [_never_closed(unclosed)], on_error=on_error)
    gone = [] if unclosed is None else [range(unclosed, sys.maxsize)]
    # Arrow cannot hand over a record with too many fields that is not UTF-8 text: such are taken out before it sees them.
    taken_out = [] if _is_text(path) else [record for record, width in enumerate(widths) if width != len(header)]
    gone += [range(starts[record], [*starts, sys.maxsize][record + 1]) for record in taken_out]
    ragged = {record: _ragged(widths[record], len(header)) for record in taken_out}
    left = [record for record in range(len(starts)) if record not in ragged]

    def set_aside(record: pyarrow.csv.InvalidRow) -> str:
        ragged[left[record.number - 2]] = _ragged(record.actual_columns, record.expected_columns)
        return "skip"

    table = pyarrow.csv.read_csv(
        pa.BufferReader(_bytes_without(path, gone)) if gone else path,
        read_options=pyarrow.csv.ReadOptions(use_threads=False),  # with threads a record does not know its number
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.binary() for name in header},
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        ),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=set_aside),
    )
    columns = {name: table.column(name).to_pylist() for name in header}
    readers = {name: _FROM_TEXT.get(space[name].kind, space.kinds[name].read) for name in header}

    def rows() -> Iterator[tuple[int, Mapping[str, Any] | Rejection]]:
        row = 0
        for record, line in enumerate(starts):
            if record in ragged:
                yield line, Rejection(line, None, None, ragged[record])
                continue
            yield line, _from_texts(line, {name: column[row] for name, column in columns.items()}, readers)
            row += 1
        if unclosed is not None:
            yield _never_closed(unclosed)

    return EventBatch.from_rows(space, _counted(rows(), most_rows), on_error=on_error)


def _never_closed(line: int) -> Row:
    why = "a quote is opened here and never closed, so that this line and all after it cannot be told apart; close it"
    return line, Rejection(line, None, None, why)


def _ragged(fields: int, wanted: int) -> str:
    return f"{fields} fields under a header of {wanted}"


def _is_text(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            while file.read(2**20):
                pass
    except UnicodeDecodeError:
        return False
    return True


def _bytes_without(path: Path, gone: list[range]) -> bytes:
    """The file but for these lines."""
    numbers = {number for each in gone if each.stop < sys.maxsize for number in each}
    end = min((each.start for each in gone if each.stop == sys.maxsize), default=sys.maxsize)
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        kept = [line for number, line in enumerate(itertools.islice(file, end - 1), start=1) if number not in numbers]
    return "".join(kept).encode("utf-8", "surrogateescape")


def _csv_lines(path: Path) -> tuple[list[str], list[int], list[int], int | None]:
    """The header; of each record after it the line where it begins and its number of fields; and the line of a record whose
    quote is never closed.

    Empty lines and lines within quotes count too.
    """
    before = csv.field_size_limit(2**31 - 1)
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
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


def _from_texts(
    line: int, texts: Mapping[str, bytes | None], readers: Mapping[str, Callable[[str], Value]]
) -> Mapping[str, Value] | Rejection:
    found: dict[str, Value] = {}
    for name, raw in texts.items():
        if raw is None:
            continue
        try:
            found[name] = readers[name](raw.decode())
        except UnicodeDecodeError:
            return Rejection(line, name, raw, f"{raw!r} is not UTF-8 text")
        except ValueError as reason:
            return Rejection(line, name, raw.decode(), str(reason))
    return found


# Python's own int and float also take 1_000 and the digits of other scripts.
_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_DIGITS = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)


def _to_int(text: str) -> int:
    if not _INT.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not an int")
    return _int_of(text)


def _to_float(text: str) -> float:
    if _NO_DIGITS.fullmatch(text.strip()):
        return float(text)
    if not _FLOAT.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a float")
    return _float_of(text)


def _to_bool(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is not a bool") from None


_FROM_TEXT: dict[str, Callable[[str], Value]] = {"int": _to_int, "float": _to_float, "bool": _to_bool}


# --- Parquet


def _read_parquet(space: Space, path: Path, on_error: OnError, most_rows: int, most_bytes: int) -> EventBatch:
    """Batch by batch, each string once as long as that is how the file has it, so that its size is known before it is there."""
    from pyarrow import dataset  # imports pandas, if it is there: a quarter of a second

    found = dataset.dataset(path, format="parquet", partitioning="hive")
    rows = largest = 0
    for fragment in found.get_fragments():
        rows += fragment.metadata.num_rows
        groups = (fragment.metadata.row_group(at).total_byte_size for at in range(fragment.metadata.num_row_groups))
        largest = max(largest, *groups, 0)
    if rows > most_rows:
        raise EventError(f"{rows:,} events, more than {most_rows:,}; more are taken with most_rows=")
    if largest > most_bytes:
        raise EventError(_too_large(most_bytes))
    texts = {field.name for field in found.schema if field.type in (pa.string(), pa.binary())}
    folded = dataset.ParquetFileFormat(read_options=dataset.ParquetReadOptions(dictionary_columns=texts))
    # Arrow does not read nested strings so; there the batches are small.
    nested = any(pa.types.is_nested(field.type) for field in found.schema)
    source = dataset.dataset(path, format=folded, partitioning="hive")
    batches: list[pa.RecordBatch] = []
    taken = 0
    for batch in source.to_batches(
        batch_size=_FEW_ROWS if nested else _MANY_ROWS, batch_readahead=0, fragment_readahead=0, use_threads=False
    ):
        taken += sum(_bytes_of(column) for column in batch.columns)
        if taken > most_bytes:
            raise EventError(_too_large(most_bytes))
        batches.append(batch)
    return EventBatch.from_arrow(space, pa.Table.from_batches(batches, schema=source.schema), on_error=on_error)


_MANY_ROWS, _FEW_ROWS = 16_384, 1_024


def _too_large(most_bytes: int) -> str:
    return f"its events take more than {most_bytes:,} bytes; more are taken with most_bytes="


def _bytes_of(column: pa.Array) -> int:
    """What the column takes once each row has its own string."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return 4 * len(column) + (pc.sum(lengths).as_py() or 0)


_READERS = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json_lines,
}
