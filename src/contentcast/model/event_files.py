"""Events from files that people have: JSON lines, CSV and Parquet.

Text files have no timestamps and no bytes, so there they are ISO 8601 (no zone means UTC) and base64. In CSV an empty field is
absent and a quoted empty field is the empty string. An event is named by its line (JSON lines, CSV) or its row (Parquet).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from contentcast.model.errors import EventError, nearest
from contentcast.model.event_batch import EventBatch, OnError, Rejection
from contentcast.model.kinds import Value
from contentcast.model.space import Space


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
    except (EventError, pa.ArrowException, UnicodeDecodeError) as reason:
        raise EventError(f"{path}: {reason}") from None


def from_json_lines(space: Space, lines: Iterable[str], *, on_error: OnError = "raise") -> EventBatch:
    """One JSON object a line; empty lines are passed over."""
    rejected: list[Rejection] = []

    def rows() -> Iterator[tuple[int, Mapping[str, Any]]]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as reason:
                found = Rejection(number, None, line.rstrip("\n"), f"not JSON: {reason.msg} at column {reason.colno}")
                if on_error == "raise":
                    raise EventError(str(found)) from None
                rejected.append(found)

    batch = EventBatch.from_rows(space, rows(), on_error=on_error, from_text=True)
    together = sorted((*batch.rejected, *rejected), key=lambda each: each.event)
    return EventBatch(space, batch.records, batch.ids, tuple(together))


def _read_json_lines(space: Space, path: Path, on_error: OnError) -> EventBatch:
    with path.open(encoding="utf-8") as lines:
        return from_json_lines(space, lines, on_error=on_error)


def _read_csv(space: Space, path: Path, on_error: OnError) -> EventBatch:
    with path.open(encoding="utf-8", newline="") as first:
        header = next(csv.reader(first), [])
    strange = [name for name in header if name not in space]
    if strange:
        raise EventError(f"{space.name} has no attribute {strange[0]!r}{nearest(strange[0], space.names)}")
    table = pyarrow.csv.read_csv(
        path,
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in header},
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        ),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
    )
    rejected: dict[int, Rejection] = {}
    columns = {name: list(_from_texts(space, name, table.column(name).to_pylist(), rejected)) for name in header}
    if rejected and on_error == "raise":
        raise EventError(str(rejected[min(rejected)]))
    rows = ({name: values[row] for name, values in columns.items()} for row in range(table.num_rows))
    numbered = ((row + 2, event) for row, event in enumerate(rows) if row + 2 not in rejected)
    return EventBatch.from_rows(space, numbered, on_error=on_error, rejected=[rejected[row] for row in sorted(rejected)])


def _from_texts(space: Space, name: str, texts: list[str | None], rejected: dict[int, Rejection]) -> Iterator[Value | None]:
    read = _FROM_TEXT.get(space[name].kind, space.kinds[name].read)
    for row, text in enumerate(texts):
        try:
            yield None if text is None else read(text)
        except ValueError as reason:
            rejected.setdefault(row + 2, Rejection(row + 2, name, text, _reason(space, name, text, reason)))
            yield None


def _reason(space: Space, name: str, text: str | None, reason: ValueError) -> str:
    return f"{text!r} is not {space.kinds[name].article}" if space[name].kind in _FROM_TEXT else str(reason)


def _to_bool(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError(text) from None


_FROM_TEXT: dict[str, Callable[[str], Value]] = {"int": int, "float": float, "bool": _to_bool}


def _read_parquet(space: Space, path: Path, on_error: OnError) -> EventBatch:
    return EventBatch.from_arrow(space, pyarrow.parquet.read_table(path), on_error=on_error)


_READERS = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json_lines,
}
