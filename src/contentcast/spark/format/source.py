"""`spark.read.format("contentcast")` and `readStream`: workloads and folders of events as DataFrames.

    spark.read.format("contentcast").option("scenario", "market").option("events", 1_000_000).load()
    spark.readStream.format("contentcast").option("scenario", "market").option("rowsPerSecond", 200_000).load()
    spark.read.format("contentcast").load("market")            # what contentcast workload, or the sink, wrote
    spark.readStream.format("contentcast").option("broker", URL)...       # a live broker: see `broker/source.py`

Options of workloads and folders (names in any case; a scenario's parameters are options too):

    scenario, seed, start    which workload, and its first row (0)
    events, subscriptions    how many rows (10,000; in a stream: no end)      rows     'events' or 'subscriptions'
    event, publisher         'true' or a name: a column with the event's number, one with the broker that publishes it
    where                    a predicate: rows that do not match it never leave Python, in batches and in streams
    pushdown                 'true': Spark's own filters become such a predicate; read the warning below
    partitions               tasks
    rowsPerBatch             of a stream, at most (10,000)
    rowsPerSecond            of a stream, by the clock (no limit)

Why pushdown is not the default: Spark 4.3 keeps one read plan for each `load()`, that of the filter it planned last. With

    a, b = df.where("event < 10"), df.where("event >= 900")        # of 1,000 events, pushdown 'true'

`a.union(b).count()` was 200, not 110, and `df.count()` after `a.count()` was 10, not 1,000. No Python source can see that. So
with pushdown one loaded DataFrame is for one filter; load again for the next. `where` has no such trap.
Rule: a stream's offset is a row number, so a batch that is read again has the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from contentcast.language import parse_predicate
from contentcast.model import ContentcastError, Predicate, Space
from contentcast.model.errors import nearest
from contentcast.spark.format.pushdown import Sieve, predicate_of, row_range
from contentcast.spark.format.rows import ROWS, Rows, Told, read_options, rows_of
from contentcast.spark.format.sink import batch_writer, stream_writer
from contentcast.workload import WorkloadError

FORMAT: Final = "contentcast"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
PARTITION_ROWS: Final = 500_000


class Contentcast(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        if _is_live(self.options):
            from contentcast.spark.format.broker import source as live

            return from_arrow_schema(live.schema_of(live.read_options(self.options)), prefer_timestamp_ntz=False)
        return from_arrow_schema(rows_of(read_options(self.options)).schema, prefer_timestamp_ntz=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        if _is_live(self.options):
            from contentcast.spark.format.broker import source as live

            return live.Reader(live.read_options(self.options), to_arrow_schema(schema, timezone="UTC"))
        told = read_options(self.options)
        rows = rows_of(told)
        return (PushingReader if told.pushdown else Reader)(told, _shape(rows, schema), _wanted(told, rows))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if _is_live(self.options):
            from contentcast.spark.format.broker import source as live

            return live.StreamReader(live.read_options(self.options), to_arrow_schema(schema, timezone="UTC"))
        told = read_options(self.options)
        rows = rows_of(told)
        return StreamReader(told, _shape(rows, schema), _wanted(told, rows))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if _is_live(self.options):
            from contentcast.spark.format.broker import sink as live

            return live.BatchWriter(live.Target(self.options, schema, overwrite))
        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if _is_live(self.options):
            from contentcast.spark.format.broker import sink as live

            return live.StreamWriter(live.Target(self.options, schema, overwrite))
        return stream_writer(self.options, schema, overwrite)


def _is_live(options: Mapping[str, str]) -> bool:
    """Whoever names no broker does not pay for loading the client."""
    return any(name.lower() == "broker" for name in options)


def _shape(rows: Rows, asked: StructType) -> pa.Schema:
    """The columns to give: those of `.schema(...)`, which may be fewer than there are."""
    shape = to_arrow_schema(asked, timezone="UTC")
    for name in shape.names:
        if name not in rows.schema.names:
            raise WorkloadError(f"there is no column {name!r}{nearest(name, rows.schema.names)}")
    return shape


def _wanted(told: Told, rows: Rows) -> Predicate:
    """What option `where` asks of all columns, the event's number and its broker included; without it, everything."""
    return parse_predicate(Space.from_arrow(rows.name, rows.schema), told.where or "TRUE")


class Stretch(InputPartition):
    """Rows start to stop."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop


class Reader(DataSourceReader):
    def __init__(self, told: Told, shape: pa.Schema, wanted: Predicate) -> None:
        self.told, self.shape, self.wanted = told, shape, wanted

    def partitions(self) -> list[Stretch]:  # Spark refuses any other sequence
        rows = rows_of(self.told)
        count = rows.count()
        start, stop = self.told.start, self.told.start + (ROWS if count is None else max(count, 0))
        if rows.id_column:
            start, stop = row_range(self.wanted, rows.id_column, start, stop)
        most = self.told.partitions or max(os.cpu_count() or 1, -(-(stop - start) // PARTITION_ROWS))
        return [Stretch(*each) for each in rows.cut(start, stop, most)] or [Stretch(start, start)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Stretch)
        return _read(self.told, self.shape, partition, self.wanted)


class PushingReader(Reader):
    """Spark refuses to plan a reader that has `pushFilters` while pushdown is off, so this is a class of its own."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        self.wanted, left = predicate_of(self.wanted, filters)
        return left


def _read(told: Told, shape: pa.Schema, stretch: Stretch, wanted: Predicate) -> Iterator[pa.RecordBatch]:
    batches = rows_of(told).read(stretch.start, stretch.stop)
    for batch in batches if wanted.is_anything else Sieve(wanted)(batches):
        yield batch.select(shape.names).cast(shape)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"row": r}: the first row that has not been read."""

    def __init__(self, told: Told, shape: pa.Schema, wanted: Predicate) -> None:
        self.told, self.shape, self.wanted = told, shape, wanted
        self._rows = rows_of(told)
        self._target: int | None = None
        self._began: tuple[float, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"row": self.told.start}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.told.per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:
        row = int(start["row"])
        end = self._target if self._target is not None else self._end()
        if end is not None and end < row:
            raise ContentcastError(f"{self.told.path} had {row} rows and has {end}: it was replaced; take a new checkpoint")
        if self._target is None and self.told.per_second:
            end = self._due(row) if end is None else min(end, self._due(row))
        if isinstance(limit, ReadMaxRows) or end is None:  # without an end there is no "all that is available"
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self.told.per_batch
            end = row + most if end is None else min(end, row + most)
        return {"row": max(end, row)}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._end()
        if self._target is None:
            raise WorkloadError(f"a workload has no end, so availableNow never ends; say option({self.told.what!r}, COUNT)")

    def _end(self) -> int | None:
        count = self._rows.count()
        return None if count is None else self.told.start + count

    def _due(self, row: int) -> int:
        """How far the clock has come; it starts with the query, at the row where the query goes on."""
        if self._began is None:
            self._began = monotonic(), row
        at, first = self._began
        return first + int((monotonic() - at) * self.told.per_second)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Stretch]:
        first, last = int(start["row"]), int(end["row"])
        most = self.told.partitions or os.cpu_count() or 1
        return [Stretch(*each) for each in self._rows.cut(first, last, most)] if first < last else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Stretch)
        return _read(self.told, self.shape, partition, self.wanted)
