"""Delta and Iceberg: events from a table and its stream, deliveries by a write that counts once, subscriptions with versions.

    delta      append with txnAppId (the stream) and txnVersion (the micro-batch): Delta leaves out what it has already
    iceberg    append whose snapshot names the stream and the micro-batch; a micro-batch that a snapshot names is not written

Both keep old versions, which `LakeRules(table, as_of=...)` and `read_lake(..., as_of=...)` read, by number or by time: events
of last month are matched with the subscriptions of then.
Rule: what differs between the two formats is in this file and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from contentcast.model.errors import ContentcastError
from contentcast.spark.outside.addresses import LakeTable
from contentcast.spark.subscriptions.following import followed_by, tell_versions
from contentcast.spark.subscriptions.indexes import QUERY_ID, Prepared
from contentcast.spark.subscriptions.tables import ID, TEXT, renamed

AS_OF: Final = "versionAsOf"
WRITTEN: Final = "contentcast-batch"

AsOf: TypeAlias = int | datetime
"""A version of Delta or a snapshot of Iceberg, or the time at which it was the newest; a time without a zone is UTC."""


def read_lake(
    spark: SparkSession, table: LakeTable, *, stream: bool = False, as_of: AsOf | None = None, **options: Any
) -> DataFrame:
    """The rows of a table, now or `as_of` then, or a stream of those that are appended."""
    from contentcast.spark.ingest import load_format

    told = dict(options) if as_of is None else {**options, AS_OF: _number_of(spark, table, as_of)}
    return load_format(spark, stream, table.format, told, table.place)


def version_of(spark: SparkSession, table: LakeTable) -> int:
    """The newest version (Delta) or snapshot (Iceberg); -1 for a table that has none yet."""
    if table.format == "delta":
        newest = spark.sql(f"DESCRIBE HISTORY delta.`{table.place}` LIMIT 1").select("version").collect()
    else:
        newest = spark.sql(f"SELECT snapshot_id FROM {table.place}.refs WHERE name = 'main'").collect()
    return int(newest[0][0]) if newest else -1


def _number_of(spark: SparkSession, table: LakeTable, as_of: AsOf) -> int:
    if isinstance(as_of, int):
        return as_of
    then = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    if table.format == "delta":
        since, number, history = "timestamp", "version", spark.sql(f"DESCRIBE HISTORY delta.`{table.place}`")
    else:
        since, number, history = "made_current_at", "snapshot_id", spark.table(f"{table.place}.history")
    # As text with its zone: Spark takes a datetime of Python in the zone of this machine.
    at_most = F.expr(f"TIMESTAMP '{then.isoformat(' ')}'")
    newest = history.where(F.col(since) <= at_most).orderBy(F.desc(since)).select(number).head()
    if newest is None:
        raise ContentcastError(f"{table} has no version that is as old as {then.isoformat(' ', 'seconds')}")
    return int(newest[0])


# --- deliveries


def deliver_to_table(
    matches: DataFrame, table: LakeTable, checkpoint: str, *, trigger: Mapping[str, Any] | None = None
) -> StreamingQuery | None:
    """Appends the matches; each micro-batch of a stream counts once, also if it is run again. Iceberg's table must be there."""
    if not matches.isStreaming:
        _append(matches, table, {})
        return None
    write_batch = _each_batch(table, followed_by(matches))
    writer = matches.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    return (writer.trigger(**trigger) if trigger else writer).start()


def _each_batch(table: LakeTable, tables: Sequence[Prepared]) -> Callable[[DataFrame, int], None]:
    def write_batch(rows: DataFrame, number: int) -> None:
        spark = rows.sparkSession
        stream = str(spark.sparkContext.getLocalProperty(QUERY_ID))
        tell_versions(spark, tables)
        if table.format == "delta":
            _append(rows, table, {"txnAppId": stream, "txnVersion": str(number)})
        elif not _has_batch(spark, table, f"{stream}/{number}"):
            _append(rows, table, {f"snapshot-property.{WRITTEN}": f"{stream}/{number}"})

    return write_batch


def _append(rows: DataFrame, table: LakeTable, options: Mapping[str, str]) -> None:
    rows.write.format(table.format).mode("append").options(**options).save(table.place)


def _has_batch(spark: SparkSession, table: LakeTable, name: str) -> bool:
    found = spark.sql(f"SELECT 1 FROM {table.place}.snapshots WHERE summary['{WRITTEN}'] = '{name}' LIMIT 1")
    return bool(found.collect())


# --- subscriptions


@dataclass(frozen=True)
class LakeRules:
    """A table of subscriptions; a stream looks before each micro-batch whether it has a new version. `as_of` holds it still."""

    table: LakeTable
    as_of: AsOf | None = None
    id: str = ID
    predicate: str = TEXT

    def __str__(self) -> str:
        return str(self.table)

    @property
    def has_columns(self) -> bool:
        return True

    def fingerprint(self) -> str:
        spark = SparkSession.active()
        found = version_of(spark, self.table) if self.as_of is None else _number_of(spark, self.table, self.as_of)
        if found < 0:
            raise ContentcastError(f"{self.table} holds no subscriptions yet")
        return f"{self.table.format}-{found}"

    def read(self) -> pa.Table:
        as_of = int(self.fingerprint().rpartition("-")[2])
        return renamed(read_lake(SparkSession.active(), self.table, as_of=as_of).toArrow(), self.id, self.predicate)
