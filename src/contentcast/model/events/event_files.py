"""Events from files that people have: JSON lines, CSV and Parquet.

Text files have no timestamps and no bytes, so there they are ISO 8601 (no zone means UTC) and base64. In CSV an empty field is
absent and a quoted empty field is the empty string. An event is named by its line (JSON lines, CSV) or its row (Parquet).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isinf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from contentcast.model.errors import EventError, nearest
from contentcast.model.events.event_batch import EventBatch, OnError, Rejection
from contentcast.model.space import Space
from contentcast.model.values.kinds import Value


def read_events(path: str | Path, space: Space, *, on_error: OnError = "raise") -> EventBatch:
    """By the file's ending: .parquet, .csv, or .jsonl / .ndjson / .json with one object a line."""
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise EventError(f"{path}: events come as .parquet, .csv or .jsonl, not {path.suffix or 'without an ending'}")
    try:
        return reader(space, path, on_error)
    except FileNotFoundError:
        raise EventError(f"there is no event file {path}") from None
    except (EventError, pa.ArrowException, OSError) as reason:
        raise EventError(f"{path}: {reason}") from None


# --- JSON lines


def from_json_lines(space: Space, lines: Iterable[str], *, on_error: OnError = "raise") -> EventBatch:
    """One JSON object a line; empty lines are passed over."""
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    rows = ((number, _from_json(number, line)) for number, line in numbered)
    return EventBatch.from_rows(space, rows, on_error=on_error, from_text=True)


def _from_json(number: int, line: str) -> Any:
    try:
        return _DECODER.decode(line)
    except json.JSONDecodeError as reason:
        why = f"not JSON: {reason.msg} at column {reason.colno}"
    except RecursionError:
        why = "nested too deeply"
    except ValueError as reason:
        why = str(reason)
    return Rejection(number, None, line.rstrip("\r\n"), why)


def _float_of(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text} is beyond the range of a float")
    return value


def _int_of(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"{text[:20]}... is beyond every number here: {len(text)} digits")
    return int(text)


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is given twice")
    return found


_MOST_DIGITS = 400
"""The longest int that a float can equal has 309; Python itself refuses beyond 4300 and says so in its own words."""

# What json would change silently it must not: 1e999 to infinity, and the first of two values of one name to nothing.
_DECODER = json.JSONDecoder(parse_float=_float_of, parse_int=_int_of, object_pairs_hook=_object_of)


def _read_json_lines(space: Space, path: Path, on_error: OnError) -> EventBatch:
    # Bytes that are not UTF-8 become lone surrogates, and the check of that value names them.
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
        return from_json_lines(space, lines, on_error=on_error)


# --- CSV


def _read_csv(space: Space, path: Path, on_error: OnError) -> EventBatch:
    header, starts = _csv_lines(path)
    for name in header:
        if name not in space:
            raise EventError(f"{space.name} has no attribute {name!r}{nearest(name, space.names)}")
        if header.count(name) > 1:
            raise EventError(f"the column {name} comes twice; rename or drop one")
    if not starts:
        return EventBatch.from_rows(space, [])
    ragged: dict[int, str] = {}

    def set_aside(record: pyarrow.csv.InvalidRow) -> str:
        ragged[record.number - 2] = f"{record.actual_columns} fields under a header of {record.expected_columns}"
        return "skip"

    table = pyarrow.csv.read_csv(
        path,
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

    return EventBatch.from_rows(space, rows(), on_error=on_error)


def _csv_lines(path: Path) -> tuple[list[str], list[int]]:
    """The header, and the line at which each record after it begins: empty lines and lines within quotes count too."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            reader = csv.reader(file)
            records: list[tuple[int, list[str] | None]] = []
            line = 1
            for record in reader:
                if record:
                    records.append((line, record if not records else None))
                line = reader.line_num + 1
    except csv.Error as reason:
        raise EventError(f"not CSV: {reason}") from None
    finally:
        csv.field_size_limit(before)
    if not records:
        raise EventError("the file is empty; its first line names the attributes")
    return records[0][1] or [], [line for line, _ in records[1:]]


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


def _read_parquet(space: Space, path: Path, on_error: OnError) -> EventBatch:
    return EventBatch.from_arrow(space, pyarrow.parquet.read_table(path), on_error=on_error)


_READERS = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json_lines,
}
