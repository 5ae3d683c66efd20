"""Where the rows of `format("contentcast")` come from: a seeded workload, or a folder of files.

Both are one long row of rows with numbers: row r is the same whoever asks for it, in a batch or in a stream, on any worker.
Rule: what a user can tell the source is read and checked here, before anything runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contentcast.model import Space, read_events
from contentcast.model.errors import nearest
from contentcast.spark.format.folder import FolderError, Part, local_path, parts_of, read_subscriptions, space_of
from contentcast.workload import SCENARIOS, Scenario, WorkloadError, scenario
from contentcast.workload.catalog import ENTRIES
from contentcast.workload.contract import SUBSCRIPTION_SCHEMA

OPTIONS: Final = (
    "scenario",
    "path",
    "seed",
    "rows",
    "events",
    "subscriptions",
    "start",
    "event",
    "publisher",
    "partitions",
    "rowsPerBatch",
    "rowsPerSecond",
    "where",
    "pushdown",
)
PREFIX: Final = "parameter."
"""`parameter.rows` is the scenario's parameter of that name where ours has it too (video's rows)."""
ROWS: Final = 10_000
"""Events, or subscriptions, of a workload unless told otherwise."""
BATCH_ROWS: Final = 10_000


@dataclass(frozen=True)
class Told:
    """The options, read."""

    what: str
    scenario: str
    seed: int
    parameters: tuple[tuple[str, Any], ...]
    path: str
    count: int | None
    start: int
    event: str
    publisher: str
    partitions: int | None
    per_batch: int
    per_second: float
    where: str
    pushdown: bool


def read_options(options: Mapping[str, str]) -> Told:
    """Spark's options (names in any case) as what they mean; a slip is answered with the nearest name."""
    known = {name.lower(): name for name in OPTIONS}
    given = {known[name.lower()]: value for name, value in options.items() if name.lower() in known}
    name = given.get("scenario", "")
    if bool(name) == bool(given.get("path")):
        either = f"option('scenario', NAME) for one of {', '.join(SCENARIOS)}, or load(FOLDER) for files"
        raise WorkloadError(f"contentcast reads a workload or a folder: {either}")
    if name and name not in ENTRIES:
        raise WorkloadError(f"contentcast has no scenario {name!r}{nearest(name, ENTRIES)}")
    takes = [each.name for each in fields(ENTRIES[name].parameters)] if name else []
    parameters = {}
    for key, value in options.items():
        plain = key.lower().removeprefix(PREFIX)
        if key.lower() in known:
            continue
        if plain not in takes:
            raise WorkloadError(f"format 'contentcast' has no option {key!r}{nearest(plain, [*OPTIONS, *takes])}")
        parameters[plain] = _value(value)
    what = given.get("rows") or ("subscriptions" if "subscriptions" in given and "events" not in given else "events")
    if what not in ("events", "subscriptions"):
        raise WorkloadError(f"option rows is 'events' or 'subscriptions', not {what!r}")
    if what == "subscriptions" and (given.get("event") or given.get("publisher")):
        raise WorkloadError("options event and publisher name columns of events; leave them out with rows='subscriptions'")
    return Told(
        what,
        name,
        _whole(given, "seed", 0) or 0,
        tuple(parameters.items()),
        given.get("path", ""),
        _whole(given, what, 0),
        _whole(given, "start", 0) or 0,
        _column(given, "event"),
        _column(given, "publisher"),
        _whole(given, "partitions", 1),
        _whole(given, "rowsPerBatch", 1) or BATCH_ROWS,
        _rate(given),
        given.get("where", ""),
        _truth(given, "pushdown"),
    )


def _value(text: str) -> Any:
    """500, 1.2, true; anything else is a text."""
    try:
        return json.loads(text.strip().lower())
    except ValueError:
        return text


def _whole(given: Mapping[str, str], name: str, least: int) -> int | None:
    if name not in given:
        return None
    value = _value(given[name])
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise WorkloadError(f"option {name} is a whole number from {least} on, got {given[name]!r}")
    return value


def _truth(given: Mapping[str, str], name: str) -> bool:
    value = _value(given.get(name, "false"))
    if not isinstance(value, bool):
        raise WorkloadError(f"option {name} is true or false, got {given[name]!r}")
    return value


def _rate(given: Mapping[str, str]) -> float:
    value = _value(given.get("rowsPerSecond", "0"))
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
        raise WorkloadError(f"option rowsPerSecond is a number from 0 on (0: as fast as they are read), got {value!r}")
    return float(value)


def _column(given: Mapping[str, str], name: str) -> str:
    """The column's name; 'true' is the option's own."""
    told = given.get(name, "")
    return {"true": name, "false": ""}.get(told.lower(), told)


# --- the rows


class Rows(Protocol):
    name: str
    schema: pa.Schema
    id_column: str
    """The column that holds the row's number, if there is one."""

    def count(self) -> int | None:
        """How many there are now; None if there is no end."""

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """These rows, in batches of at most BATCH_ROWS."""

    def cut(self, start: int, stop: int, pieces: int) -> list[tuple[int, int]]:
        """The stretch in about so many pieces, to be read side by side."""


def rows_of(told: Told) -> Rows:
    if told.scenario:
        return WorkloadRows(told)
    return FolderRows(told)


def _events_schema(space: Space, told: Told) -> pa.Schema:
    extra = [(told.event, pa.int64()), (told.publisher, pa.string())]
    for name, _ in extra:
        if name in space:
            raise WorkloadError(f"the space {space.name} has an attribute {name!r}; give the column another name")
    before = [pa.field(name, type_) for name, type_ in extra if name]
    return pa.schema([*before, *space.arrow_schema])


class WorkloadRows:
    """Rows of a scenario, made where they are read."""

    def __init__(self, told: Told) -> None:
        self.told = told
        space = self._scenario.space
        self.name = space.name
        self.schema = _events_schema(space, told) if told.what == "events" else SUBSCRIPTION_SCHEMA
        self.id_column = told.event if told.what == "events" else "subscription"

    @property
    def _scenario(self) -> Scenario:
        return _made(self.told.scenario, self.told.seed, self.told.parameters)

    def count(self) -> int | None:
        return self.told.count

    def cut(self, start: int, stop: int, pieces: int) -> list[tuple[int, int]]:
        return evenly(start, stop, pieces)

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        made = self._scenario
        for at in range(start, stop, BATCH_ROWS):
            count = min(BATCH_ROWS, stop - at)
            if self.told.what == "subscriptions":
                yield made.subscriptions(count, start=at)
                continue
            columns = {
                name: column for name, column in zip(made.space.names, made.events(count, start=at).columns, strict=True)
            }
            if self.told.event:
                columns[self.told.event] = pa.array(np.arange(at, at + count))
            if self.told.publisher:
                columns[self.told.publisher] = made.publishers(count, start=at)
            yield pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)


@cache
def _made(name: str, seed: int, parameters: tuple[tuple[str, Any], ...]) -> Scenario:
    return scenario(name, seed=seed, **dict(parameters))


class FolderRows:
    """Rows of a folder that `contentcast workload` or the sink wrote."""

    def __init__(self, told: Told) -> None:
        if told.count is not None:
            raise WorkloadError(f"option {told.what} counts rows of a workload; of a folder take .limit({told.count})")
        self.told = told
        self.folder = local_path(told.path)
        self.space = space_of(self.folder)
        self.name = self.space.name
        self.schema = _events_schema(self.space, told) if told.what == "events" else SUBSCRIPTION_SCHEMA
        self.id_column = ""  # what the files hold may be any number
        self.count()

    def count(self) -> int:
        """Looks again: a stream sees what was committed meanwhile."""
        self.__dict__.pop("parts", None)
        return sum(part.rows for part in self.parts) - self.told.start

    @cached_property
    def parts(self) -> list[Part]:
        return parts_of(self.folder, self.told.what)

    def cut(self, start: int, stop: int, pieces: int) -> list[tuple[int, int]]:
        """Never across files; a text file is one piece, since it is read from its beginning."""
        found = []
        for first, part in self._placed():
            begin, end = max(start, first), min(stop, first + part.rows)
            if begin < end:
                mine = -(-pieces * (end - begin) // (stop - start)) if part.path.suffix == ".parquet" else 1
                found += evenly(begin, end, mine)
        return found

    def _placed(self) -> Iterator[tuple[int, Part]]:
        first = 0
        for part in self.parts:
            yield first, part
            first += part.rows

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        for first, part in self._placed():
            begin, end = max(start, first), min(stop, first + part.rows)
            if begin < end:
                yield from self._of_part(part, first, begin, end)

    def _of_part(self, part: Part, first: int, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        at = first
        for batch in self._batches(part.path, begin - first):
            piece = batch.slice(max(begin - at, 0), max(end - max(begin, at), 0))
            if piece.num_rows:
                yield self._shaped(piece, max(begin, at), part.path)
            at += batch.num_rows
            if at >= end:
                return

    def _batches(self, path: Path, skipped: int) -> Iterator[pa.RecordBatch]:
        """The file from its first row on. Row groups to skip come as batches without columns, which costs no reading."""
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if rows <= skipped:
                    skipped -= rows
                    yield pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
                    continue
                skipped = 0
                yield from file.iter_batches(BATCH_ROWS, row_groups=[group])
        elif self.told.what == "events":
            yield from pa.Table.from_batches([read_events(path, self.space).records]).to_batches(BATCH_ROWS)
        else:
            yield from read_subscriptions(path).to_batches(BATCH_ROWS)

    def _shaped(self, batch: pa.RecordBatch, first: int, path: Path) -> pa.RecordBatch:
        columns = []
        for field in self.schema:
            if field.name in batch.schema.names:
                columns.append(batch.column(field.name).cast(field.type))
            elif field.name == self.told.event:
                columns.append(pa.array(np.arange(first, first + batch.num_rows)))
            elif field.name == self.told.publisher:
                raise FolderError(f"{path} has no column {field.name!r} with the publishing broker")
            else:
                columns.append(pa.nulls(batch.num_rows, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def evenly(start: int, stop: int, pieces: int) -> list[tuple[int, int]]:
    bounds = np.linspace(start, stop, max(1, min(pieces, stop - start)) + 1).astype(np.int64).tolist()
    return [(begin, end) for begin, end in pairwise(bounds) if begin < end]
