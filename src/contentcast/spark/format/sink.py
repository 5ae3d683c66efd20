"""`df.write.format("contentcast")` and `writeStream`: events into a folder that the source reads (`folder` has the layout).

    df.write.format("contentcast").mode("append").save("history")
    df.writeStream.format("contentcast").option("checkpointLocation", "state").start("history")

Options: `space`, a space file; without it the space that the folder has, or one made from the columns and named by `name` (the
folder's). `event` and `publisher`: columns that are no attributes but the event's number and the broker that published it.

Exactly once: each task writes files under a hidden name and tells the driver their names; when all tasks have ended, one rename
shows them all (`folder.add_commit`). A failed job leaves nothing behind, and a stream's batch that is written again, after a
crash between the rename and Spark's own note of it, is recognized by its stream and number and dropped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from contentcast.model import EventBatch, Space
from contentcast.model.errors import nearest
from contentcast.spark.format.folder import UNFINISHED, FolderError, Part, add_commit, has_batch, local_path
from contentcast.workload.files import SPACE_FILE

OPTIONS: Final = ("path", "space", "name", "event", "publisher", "checkpointLocation")


class Written(WriterCommitMessage):
    """What a task has written: a file in the folder's hidden place, or nothing. `task`: its number, for the order."""

    def __init__(self, task: int, file: str, rows: int, stream: str | None) -> None:
        self.task, self.file, self.rows, self.stream = task, file, rows, stream


class Target:
    """The folder, its space, and the columns that come."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        known = {name.lower(): name for name in OPTIONS}
        for name in options:
            if name.lower() not in known:
                raise FolderError(f"the sink 'contentcast' has no option {name!r}{nearest(name, OPTIONS)}")
        given = {known[name.lower()]: value for name, value in options.items()}
        if not given.get("path"):
            raise FolderError("where to? Name a folder: save('history'), or start('history') for a stream")
        self.folder = local_path(given["path"]).absolute()
        if self.folder.exists() and not self.folder.is_dir():
            raise FolderError(f"{self.folder} is a file; events are written to a folder")
        self.overwrite = overwrite
        self.beside = {name: told for name in ("event", "publisher") if (told := _column(given.get(name, ""), name))}
        self.space = self._space(given, schema)
        for name in schema.names:
            if name not in self.space and name not in self.beside.values():
                raise FolderError(
                    f"the space {self.space.name} has no attribute {name!r}{nearest(name, self.space.names)} "
                    "Drop the column, or say which it is with option event or publisher"
                )

    def _space(self, given: Mapping[str, str], schema: StructType) -> Space:
        there = self.folder / SPACE_FILE
        told = Space.load(local_path(given["space"])) if given.get("space") else None
        if told is None and there.exists():
            return Space.load(there)
        if told is not None and there.exists() and not self.overwrite and Space.load(there) != told:
            raise FolderError(f"{self.folder} holds events of another space ({there}); choose another folder or overwrite it")
        if told is not None:
            return told
        columns = StructType([field for field in schema.fields if field.name not in self.beside.values()])
        return Space.from_spark(given.get("name") or self.folder.name, columns)

    def write(self, batches: Iterator[pa.RecordBatch], job: str, stream: str | None) -> Written:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        place = self.folder / f"{UNFINISHED}{job}"
        file = place / f"{task:05}-{os.urandom(6).hex()}.parquet"
        fields = [self.space.arrow_schema.field(name) for name in self.space.names]
        types = {"event": pa.int64(), "publisher": pa.string()}
        schema = pa.schema([*(pa.field(name, types[what]) for what, name in self.beside.items()), *fields])
        rows, writer = 0, None
        try:
            for batch in batches:
                if not batch.num_rows:
                    continue
                if writer is None:
                    place.mkdir(parents=True, exist_ok=True)
                    writer = pq.ParquetWriter(file, schema)
                writer.write_batch(self._shaped(batch, schema))
                rows += batch.num_rows
        except BaseException:
            if writer is not None:
                writer.close()
                file.unlink(missing_ok=True)
            raise
        if writer is not None:
            writer.close()
        return Written(task, str(file) if rows else "", rows, stream)

    def _shaped(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        columns = {name: batch.column(name) for name in self.beside.values()}
        events = EventBatch.from_arrow(self.space, batch.drop_columns(list(columns)) if columns else batch)
        columns |= {name: events.records.column(name) for name in self.space.names}
        return pa.RecordBatch.from_arrays([columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


def _column(told: str, name: str) -> str:
    return {"true": name, "false": ""}.get(told.lower(), told)


def _forget(folder: Path, job: str) -> None:
    """Whatever the job's tasks left, those that failed or came second included."""
    shutil.rmtree(folder / f"{UNFINISHED}{job}", ignore_errors=True)


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[Part]:
    told = [each for each in messages if isinstance(each, Written) and each.file]
    return [Part(Path(each.file), each.rows) for each in sorted(told, key=lambda each: each.task)]


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, target: Target) -> None:
        self.target, self.job = target, os.urandom(8).hex()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self.target.write(iterator, self.job, None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.target.folder.mkdir(parents=True, exist_ok=True)
        try:
            add_commit(self.target.folder, self.target.space, _files(messages), replaces=self.target.overwrite)
        finally:
            _forget(self.target.folder, self.job)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _forget(self.target.folder, self.job)


class StreamWriter(DataSourceStreamArrowWriter):
    """Made anew for every commit, so a batch's tasks and its commit agree on a place by the stream and the batch's number."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None, "a stream is written by Spark's tasks"
        stream = context.getLocalProperty("sql.streaming.queryId") or "stream"
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        return self.target.write(iterator, _job(stream, batch), stream)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        stream = next((each.stream for each in messages if isinstance(each, Written) and each.stream), "stream")
        files, folder = _files(messages), self.target.folder
        try:
            # Nothing new is no commit, unless it takes the place of what was there.
            if (files or self.target.overwrite) and not has_batch(folder, stream, batchId):
                folder.mkdir(parents=True, exist_ok=True)
                add_commit(folder, self.target.space, files, replaces=self.target.overwrite, stream=stream, batch=batchId)
        finally:
            _forget(folder, _job(stream, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        streams = {each.stream for each in messages if isinstance(each, Written) and each.stream}
        for stream in streams:
            _forget(self.target.folder, _job(stream, batchId))


def _job(stream: str, batch: int) -> str:
    return f"{stream}-{batch}"


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    return BatchWriter(Target(options, schema, overwrite))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    return StreamWriter(Target(options, schema, overwrite))
