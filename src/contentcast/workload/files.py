"""A workload as files: events, subscriptions and the space they belong to, as `read_events` and `Space.load` read them.

Text formats have no timestamps and no bytes; there they are ISO 8601 with Z and base64. In CSV an absent attribute is an empty
field and the empty string a quoted one; in JSON lines an absent attribute is left out.
Rule: rows are made and written block by block, and the files get their names when all of them are complete.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from contentcast.model.errors import nearest
from contentcast.workload.contract import STRETCH_ROWS, SUBSCRIPTION_SCHEMA, Scenario
from contentcast.workload.parameters import WorkloadError

SPACE_FILE: Final = "space.json"


def write_workload(
    workload: Scenario,
    folder: str | Path,
    *,
    events: int,
    subscriptions: int,
    format: str = "parquet",
    force: bool = False,
    advance: Callable[[int], None] = lambda rows: None,
) -> list[Path]:
    """Writes events.<format>, subscriptions.<format> and space.json into the folder and tells where they are.

    Refuses to replace a file unless `force`; `advance` is called with the number of rows after each block.
    """
    if format not in FORMATS:
        raise WorkloadError(f"workloads are written as {', '.join(FORMATS)}, not as {format!r}{nearest(format, FORMATS)}")
    folder = Path(folder)
    names = [f"events.{format}", f"subscriptions.{format}", SPACE_FILE]
    there = [folder / name for name in names if (folder / name).exists()]
    if there and not force:
        raise WorkloadError(f"{there[0]} is already there; choose another folder, or replace it with --force")
    with ExitStack() as undo:
        if folder.exists() and not folder.is_dir():
            raise WorkloadError(f"{folder} is a file, not a folder")
        if not folder.exists():
            folder.mkdir(parents=True)
            undo.callback(_remove_if_empty, folder)
        unfinished = Path(undo.enter_context(TemporaryDirectory(prefix=".unfinished-", dir=folder)))
        for name, schema, make, rows in (
            (names[0], workload.space.arrow_schema, workload.events, events),
            (names[1], SUBSCRIPTION_SCHEMA, workload.subscriptions, subscriptions),
        ):
            with FORMATS[format](unfinished / name, schema) as writer:
                for start, count in _blocks(rows):
                    writer.write(make(count, start=start))
                    advance(count)
        workload.space.save(unfinished / SPACE_FILE)
        for name in names:
            (unfinished / name).replace(folder / name)
    return [folder / name for name in names]


def _blocks(rows: int) -> Iterator[tuple[int, int]]:
    """(start, count); no rows are one empty block, which still complains about a negative number."""
    for start in range(0, max(rows, 1), STRETCH_ROWS):
        yield start, min(STRETCH_ROWS, rows - start)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


class Writer(Protocol):
    """One file while it is written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *failure: Any) -> None: ...
    def write(self, batch: pa.RecordBatch) -> None: ...


class _Parquet:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = pyarrow.parquet.ParquetWriter(path, schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self._file.close()

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write_batch(batch)


class _Csv:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = pa.schema([(each.name, pa.string() if _needs_text(each.type) else each.type) for each in schema])
        self._file = pyarrow.csv.CSVWriter(path, self._schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self._file.close()

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write_batch(pa.record_batch([_as_text(each) for each in batch.columns], schema=self._schema))


class _JsonLines:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = path.open("wb")
        self._encoder = msgspec.json.Encoder()  # timestamps as ISO 8601 with Z, bytes as base64

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self._file.close()

    def write(self, batch: pa.RecordBatch) -> None:
        rows = [{name: value for name, value in row.items() if value is not None} for row in batch.to_pylist()]
        self._file.write(self._encoder.encode_lines(rows))


FORMATS: Final[Mapping[str, type[Writer]]] = {"parquet": _Parquet, "csv": _Csv, "jsonl": _JsonLines}


def _needs_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_binary(type_))


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")  # Arrow's %S has the microseconds
    if pa.types.is_binary(column.type):
        encoded = (None if each is None else base64.b64encode(each).decode("ascii") for each in column.to_pylist())
        return pa.array(encoded, pa.string())
    return column
