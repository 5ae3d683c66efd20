"""The step `deliver`: matches as a table that each broker and each subscriber can read its part of; exactly once in streams.

    out/batch=000000000000/broker=b1/part-0.parquet      a stream: one folder for each micro-batch
    out/broker=b1/part-0.parquet                         a batch
    out/_contentcast/schema.json                         the columns, for `read_deliveries`
    out/_contentcast/checkpoint/                         how far the stream has read (unless it is told another place)
    out/_contentcast/stream                              which stream writes here
    out/_contentcast/unfinished/                         what is being written

There is a folder for each broker, and inside its files the rows are sorted by subscriber. A folder for each subscriber as well
(`partition_by`) would make, for thousands of subscribers, thousands of files of a few rows in every micro-batch; sorted,
Parquet's own statistics let a reader of one subscriber skip what is not for it.

Exactly once: a stream that was killed runs its last micro-batch again, under the same number and with the same events. Rows are
written aside and get their place by one rename, and a micro-batch whose place is taken is not written again. So each is there
once or not at all, and a reader never sees a part of one. The rename is atomic on local disks and HDFS. Object stores have
none: there one small object says which rows count (`manifest`).
Rule: nothing outside _contentcast appears before it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructType

from contentcast.model.errors import ContentcastError, nearest
from contentcast.spark.delivery.manifest import has_manifest, needs_manifest, read_attempts, replace_all, write_attempt
from contentcast.spark.subscriptions.following import followed_by, tell_versions
from contentcast.spark.subscriptions.indexes import QUERY_ID, Prepared

OURS: Final = "_contentcast"
"""Spark's readers pass over names that begin with an underscore."""
BATCH: Final = "batch"
BROKER, SUBSCRIBER = "broker", "subscriber"


class Folder:
    """A folder in any file system that Spark knows, with the little that is needed of it."""

    def __init__(self, spark: SparkSession, path: str | Path) -> None:
        text = str(path) if "://" in str(path) else Path(path).absolute().as_uri()
        self._jvm: Any = spark._jvm
        self.path = text.rstrip("/")
        root = self._at("")
        self._files = root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{name}" if name else self.path)

    def exists(self, name: str = "") -> bool:
        return bool(self._files.exists(self._at(name)))

    def is_empty(self) -> bool:
        return not self.exists() or not any(True for _ in self._files.listStatus(self._at("")))

    def delete(self, name: str = "") -> None:
        self._files.delete(self._at(name), True)

    def make(self, name: str = "") -> None:
        self._files.mkdirs(self._at(name))

    def names(self, name: str) -> list[str]:
        """What a folder holds, by name."""
        return sorted(str(each.getPath().getName()) for each in self._files.listStatus(self._at(name)))

    def rename(self, name: str, to: str) -> bool:
        """Whether it worked; it does not if the place is taken."""
        return not self.exists(to) and bool(self._files.rename(self._at(name), self._at(to)))

    def read(self, name: str) -> str | None:
        if not self.exists(name):
            return None
        stream = self._files.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def put(self, name: str, text: str) -> None:
        """Writes over what is there. In an object store the object is there whole when this returns, or as it was."""
        stream = self._files.create(self._at(name), True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def write(self, name: str, text: str) -> None:
        if needs_manifest(self.path):
            return self.put(name, text)
        part = f"{name}.{uuid4().hex}"
        self.put(part, text)
        self.delete(name)
        if not self.rename(part, name):
            raise ContentcastError(f"{self.path}/{name} cannot be written")


def deliver(
    matches: DataFrame,
    path: str | Path,
    *,
    partition_by: Sequence[str] | None = None,
    sort_by: Sequence[str] | None = None,
    overwrite: bool = False,
    checkpoint: str | Path | None = None,
    trigger: dict[str, Any] | None = None,
) -> StreamingQuery | None:
    """Writes matches as Parquet; returns the running query of a stream, which `query.stop()` ends and a second call goes on
    with.

    `partition_by` is `["broker"]` and `sort_by` `["subscriber"]` where the matches have these columns. `trigger` is what
    Spark's writer takes: `{"availableNow": True}`, `{"processingTime": "2 seconds"}`.
    """
    spark = matches.sparkSession
    partitions = _known(matches, partition_by, BROKER)
    order = _known(matches, sort_by, SUBSCRIBER)
    folder = Folder(spark, path)
    if not matches.isStreaming:
        _deliver_batch(matches, folder, partitions, order, overwrite)
        return None
    if BATCH in matches.columns:
        raise ContentcastError(f"the matches have a column {BATCH}, which is what a stream's folders are named by; rename it")
    if overwrite:
        raise ContentcastError("a stream goes on where it stopped; to start it anew remove the folder, or choose another")
    _describe(folder, StructType([*matches.schema.fields]).add(BATCH, LongType()))
    place = str(checkpoint) if checkpoint is not None else f"{folder.path}/{OURS}/checkpoint"
    write_batch = _each_batch(folder, partitions, order, followed_by(matches))
    writer = matches.writeStream.foreachBatch(write_batch).option("checkpointLocation", place)
    return (writer.trigger(**trigger) if trigger else writer).start()


def _known(matches: DataFrame, names: Sequence[str] | None, usual: str) -> list[str]:
    if names is None:
        return [usual] if usual in matches.columns else []
    for name in names:
        if name not in matches.columns:
            raise ContentcastError(f"the matches have no column {name!r}{nearest(name, matches.columns)}")
    return list(names)


def _write(rows: DataFrame, path: str, partitions: list[str], order: list[str]) -> None:
    by = [*partitions, *order]
    # Within each task, not across them: a shuffle of all matches would cost more than finding them.
    arranged = rows.sortWithinPartitions(*(f"`{each}`" for each in by)) if by else rows
    writer = arranged.write.mode("overwrite")
    (writer.partitionBy(*partitions) if partitions else writer).parquet(path)


# --- a batch


def _deliver_batch(matches: DataFrame, folder: Folder, partitions: list[str], order: list[str], overwrite: bool) -> None:
    if not overwrite and not folder.is_empty():
        raise ContentcastError(f"{folder.path} is already there; choose another folder, or replace it with overwrite=True")
    if needs_manifest(folder.path):
        replace_all(folder, lambda path: _write(matches, path, partitions, order))
        return _describe(folder, matches.schema)
    above, _, name = folder.path.rpartition("/")
    beside = Folder(matches.sparkSession, above)
    unfinished, replaced = f".{name}.unfinished-{uuid4().hex}", f".{name}.replaced-{uuid4().hex}"
    try:
        _write(matches, f"{above}/{unfinished}", partitions, order)
        _describe(Folder(matches.sparkSession, f"{above}/{unfinished}"), matches.schema)
        if folder.exists() and not beside.rename(name, replaced):
            raise ContentcastError(f"{folder.path} cannot be replaced")
        if not beside.rename(unfinished, name):
            raise ContentcastError(f"{folder.path} cannot be written")
    finally:
        beside.delete(unfinished)
        beside.delete(replaced)


# --- a stream


def _each_batch(
    folder: Folder, partitions: list[str], order: list[str], tables: Sequence[Prepared]
) -> Callable[[DataFrame, int], None]:
    owned: list[bool] = []

    def write_batch(rows: DataFrame, number: int) -> None:
        spark = rows.sparkSession
        if not owned:
            _own(folder, str(spark.sparkContext.getLocalProperty(QUERY_ID)))
            folder.delete(f"{OURS}/unfinished")
            owned.append(True)
        if needs_manifest(folder.path):
            tell_versions(spark, tables)
            return write_attempt(folder, f"{number:012d}", lambda path: _write(rows, path, partitions, order))
        place = f"{BATCH}={number:012d}"
        if folder.exists(place):
            return None  # written before the stream was killed, which had not yet been noted
        tell_versions(spark, tables)
        unfinished = f"{OURS}/unfinished/{number}-{uuid4().hex}"
        _write(rows, f"{folder.path}/{unfinished}", partitions, order)
        if not folder.rename(unfinished, place):
            raise ContentcastError(f"{folder.path}/{place} cannot be written; does another stream write there?")
        return None

    return write_batch


def _own(folder: Folder, stream: str) -> None:
    """Numbers of micro-batches mean something to one stream only, the one of this checkpoint."""
    owner = folder.read(f"{OURS}/stream")
    if owner is None:
        folder.write(f"{OURS}/stream", stream)
    elif owner != stream:
        raise ContentcastError(
            f"{folder.path} was written by a stream with another checkpoint; go on with that, or choose another folder"
        )


# --- reading


def _describe(folder: Folder, schema: StructType) -> None:
    folder.write(f"{OURS}/schema.json", schema.json())


def read_deliveries(spark: SparkSession, path: str | Path) -> DataFrame:
    """What was delivered so far, complete micro-batches only, with the very columns that the matches had.

    Any reader of Parquet does, but takes a broker named 007 for the number 7.
    """
    import json

    folder = Folder(spark, path)
    schema = folder.read(f"{OURS}/schema.json")
    if schema is None:
        raise ContentcastError(f"{folder.path} holds no deliveries")
    told = StructType.fromJson(json.loads(schema))
    if has_manifest(folder):
        return read_attempts(spark, folder, told, BATCH)
    return spark.read.schema(told).parquet(folder.path)
