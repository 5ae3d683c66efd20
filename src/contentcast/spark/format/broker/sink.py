"""Rows published to a broker, by a stream or by a batch.

    df.writeStream.format("contentcast").option("broker", URL).option("space", NAME).option("checkpointLocation", PLACE).start()
    df.write.format("contentcast").option("broker", URL).option("space", NAME).mode("append").save()

Options: `broker`, `space` (declared from the columns if the broker does not know it), `rowsPerMessage` (10,000), and those that
`connect` takes: `token`, `authority`, `certificate`, `key`.

    stream 7c1e..., epoch 12, partition 3    publisher "spark 7c1e... 3", numbers 12 * 2**20 + 1, + 2, ... one for each message

Idempotent for each task and epoch: a broker with a data folder publishes a number of a publisher once, and remembers it over
its own restarts. So an epoch that is repeated, after a crash of whomever, adds only what was not there. That holds if a
repeated task has the same rows in the same order, which is so wherever the query computes from its source alone (no
random values, no order that depends on which task came first).
Rule: a message is sent when the one before it is accepted. A number that was refused must not be passed by a later one, because
then it could never be accepted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from contentcast.model import EventBatch, Space
from contentcast.model.errors import nearest
from contentcast.spark.format.broker.connection import PATIENCE_S, BrokerOptionError, check_durable, read_broker, whole

OPTIONS: Final = ("rowsPerMessage", "checkpointLocation")
ROWS_PER_MESSAGE: Final = 10_000
MESSAGES: Final = 2**20
"""Numbers of one epoch."""


class Published(WriterCommitMessage):
    """What a task has published: `repeated` of its messages were there before."""

    def __init__(self, rows: int, repeated: int) -> None:
        self.rows, self.repeated = rows, repeated


class Target:
    """The broker and its space, and the columns that come."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self.broker, given = read_broker(options, OPTIONS, "the sink to a broker")
        self.rows_per_message = whole(given, "rowsPerMessage", 1, ROWS_PER_MESSAGE)
        if overwrite:
            raise BrokerOptionError("what is published stays published; use mode('append'), or outputMode('append')")
        with self.broker.client() as client:
            check_durable(client, self.broker.url)
            known = client.spaces().get(self.broker.space)
            self.space = client.declare(Space.from_spark(self.broker.space, schema)) if known is None else known
        for name in schema.names:
            if name not in self.space:
                raise BrokerOptionError(
                    f"the space {self.space.name} has no attribute {name!r}{nearest(name, self.space.names)} Drop the column"
                )

    def publish(self, batches: Iterator[pa.RecordBatch], publisher: str, first: int) -> Published:
        """The rows as numbers `first`, `first` + 1, ... of this publisher."""
        rows = repeated = 0
        client = None
        try:
            for number, records in enumerate(_messages(batches, self.rows_per_message), first):
                if client is None:
                    client = self.broker.connect(PATIENCE_S)
                events = EventBatch.from_arrow(self.space, records)
                receipt = client.publish(self.space.name, events, publisher=publisher, number=number)
                rows += len(events)
                repeated += receipt.duplicate
        finally:
            if client is not None:
                client.close()
        return Published(rows, repeated)


def _messages(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Always the same rows together, however Spark has cut them into batches."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, rows)
            waiting = table.slice(rows).to_batches()
            count -= rows
    if count:
        yield pa.Table.from_batches(waiting)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are written by Spark's tasks"
    return context


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        context = _task()
        stream = context.getLocalProperty("sql.streaming.queryId")  # of the checkpoint: the same over all lives of the query
        epoch = int(str(context.getLocalProperty("streaming.sql.batchId")))
        return self.target.publish(iterator, f"spark {stream} {context.partitionId()}", epoch * MESSAGES + 1)


class BatchWriter(DataSourceArrowWriter):
    """Idempotent for each task of the job; the same rows written by another job are published again."""

    def __init__(self, target: Target) -> None:
        self.target, self.job = target, os.urandom(8).hex()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        return self.target.publish(iterator, f"spark {self.job} {_task().partitionId()}", 1)
