"""`format("contentcast")` with a live broker: a durable subscription as a stream, and a stream's rows as publications.

    spark.readStream.format("contentcast").option("broker", URL).option("space", "trades") \
        .option("predicate", "price < 120").option("durable", "table-7").load()
    frame.writeStream.format("contentcast").option("broker", URL).option("space", "alarms").start()

Options: `broker` and `space`. To read: `durable`, the name of the durable subscription; `predicate`, which the broker matches,
so that nothing else is sent; `event`, 'true' or a name, a column with the event's number; `rowsPerBatch`, at most (10,000).
Who one is: `token`, `authority`, `certificate`, `key` as for `contentcast.connect`.

Exactly once. An offset is the number of the last event that was read, and Spark's checkpoint keeps it. A batch that is planned
again is read again from the broker, which keeps what Spark has not committed. What is written has the query and the task as its
publisher, and a number made of the batch: a task that runs again, with the same rows, is told that they are there already.
Rule: one reader at a time, because a durable subscription has one client at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

import contentcast as cc
from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.model.errors import nearest

READS: Final = ("broker", "space", "durable", "predicate", "event", "rowsPerBatch", "token", "authority", "certificate", "key")
WRITES: Final = ("broker", "space", "token", "authority", "certificate", "key", "checkpointLocation", "path")
ROWS_PER_BATCH: Final = 10_000
POST_ROWS: Final = 10_000
MOST_POSTS: Final = 1 << 20
"""Posts of one task in one batch; a batch's numbers begin at a multiple of it."""


class BrokerError(ContentcastError):
    """A broker cannot be read from or written to like this; the message says how."""


def is_broker(options: Mapping[str, str]) -> bool:
    return any(name.lower() == "broker" for name in options)


@dataclass(frozen=True)
class Asked:
    """The options, read."""

    broker: str
    space: str
    durable: str
    predicate: str
    event: str
    per_batch: int
    shown: tuple[tuple[str, str], ...]

    def connect(self) -> Any:
        return cc.connect_sync(self.broker, **dict(self.shown))


def read_asked(options: Mapping[str, str], known: tuple[str, ...]) -> Asked:
    names = {name.lower(): name for name in known}
    for name in options:
        if name.lower() not in names:
            raise BrokerError(f"format 'contentcast' with a broker has no option {name!r}{nearest(name, known)}")
    given = {names[name.lower()]: value for name, value in options.items()}
    if not given.get("space"):
        raise BrokerError("which space? Add option('space', NAME); it must be declared at the broker")
    if "durable" in known and not given.get("durable"):
        raise BrokerError("a broker is read as a durable subscription; add option('durable', NAME)")
    event = given.get("event", "")
    per_batch = given.get("rowsPerBatch", str(ROWS_PER_BATCH))
    if not per_batch.isdigit() or not int(per_batch):
        raise BrokerError(f"option rowsPerBatch is a number from 1, not {per_batch!r}")
    return Asked(
        given["broker"],
        given["space"],
        given.get("durable", ""),
        given.get("predicate", "TRUE"),
        {"true": "event", "false": ""}.get(event.lower(), event),
        int(per_batch),
        tuple((name, given[name]) for name in ("token", "authority", "certificate", "key") if given.get(name)),
    )


# --- reading


def broker_schema(options: Mapping[str, str]) -> StructType:
    asked = read_asked(options, READS)
    with asked.connect() as client:
        return from_arrow_schema(_arrow_schema(client.space(asked.space), asked.event), prefer_timestamp_ntz=False)


def _arrow_schema(space: Space, event: str) -> pa.Schema:
    fields = [space.arrow_schema.field(name) for name in space.names]
    return pa.schema([*([pa.field(event, pa.int64())] if event else []), *fields])


class Numbers(InputPartition):
    """Events behind number `after`, up to `upto`."""

    def __init__(self, after: int, upto: int) -> None:
        self.after, self.upto = after, upto


class BrokerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"number": n}: the last event that was read."""

    def __init__(self, asked: Asked, shape: pa.Schema) -> None:
        self.asked, self.shape = asked, shape
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        """The subscription is made here, if it is not there: what is accepted from now on comes."""
        with self.asked.connect() as client:
            _subscribed(client, self.asked).leave()
            return {"number": int(self._place(client)["acknowledged"])}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.asked.per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:
        after = int(start["number"])
        with self.asked.connect() as client:
            place = self._place(client)
        end = int(place["last"]) if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            end = min(end, after + limit.max_rows)
        return {"number": max(end, after)}

    def prepareForTriggerAvailableNow(self) -> None:
        with self.asked.connect() as client:
            _subscribed(client, self.asked).leave()
            self._target = int(self._place(client)["last"])

    def _place(self, client: Any) -> Any:
        return client.ask("durable", name=self.asked.durable)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Numbers]:
        after, upto = int(start["number"]), int(end["number"])
        return [Numbers(after, upto)] if after < upto else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Numbers)
        asked, after = self.asked, partition.after
        with asked.connect() as client:
            taken = int(self._place(client)["acknowledged"])
            if taken > after:
                raise BrokerError(
                    f"numbers {after + 1} to {taken} of the durable subscription {asked.durable!r} were acknowledged by "
                    "somebody else, and are gone; give each query a durable subscription of its own"
                )
            batches = client.batches(asked.space, asked.predicate, durable=asked.durable, after=after, acknowledge=False)
            for first, batch in client.numbered(batches):
                upto = min(first + len(batch) - 1, partition.upto)
                if first <= upto:
                    yield self._shaped(batch.slice(0, upto - first + 1), first)
                if upto >= partition.upto or first > partition.upto:
                    return

    def _shaped(self, events: EventBatch, first: int) -> pa.RecordBatch:
        columns: dict[str, Any] = {name: events.records.column(name) for name in events.space.names}
        if self.asked.event:
            columns[self.asked.event] = pa.array(range(first, first + len(events)), pa.int64())
        missing = [name for name in self.shape.names if name not in columns]
        if missing:
            raise BrokerError(f"the space {self.asked.space} has no attribute {missing[0]!r}{nearest(missing[0], columns)}")
        chosen = [columns[name].cast(self.shape.field(name).type) for name in self.shape.names]
        return pa.RecordBatch.from_arrays(chosen, schema=self.shape)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has written down that it is done with these: the broker may forget them."""
        with self.asked.connect() as client:
            client.ask("durable", name=self.asked.durable, acknowledge=int(end["number"]))


def _subscribed(client: Any, asked: Asked) -> Any:
    return client.subscribe(asked.space, asked.predicate, durable=asked.durable, deliver=_nothing, acknowledge=False)


def _nothing(event: object) -> None:
    """What comes before a batch is planned comes again."""


# --- writing


class Sent(WriterCommitMessage):
    """So many rows were accepted."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class _Writer:
    def __init__(self, asked: Asked) -> None:
        self.asked = asked

    def _publish(self, batches: Iterator[pa.RecordBatch], publisher: str, first: int) -> Sent:
        """Posts of a fixed number of rows, so that a task that runs again numbers them alike."""
        rows = _table(list(batches))
        if rows is None:
            return Sent(0)
        with self.asked.connect() as client:
            space = client.space(self.asked.space)
            for post, begin in enumerate(range(0, rows.num_rows, POST_ROWS)):
                client.publish(space, rows.slice(begin, POST_ROWS), publisher=publisher, number=first + post)
        return Sent(rows.num_rows)


def _table(batches: list[pa.RecordBatch]) -> pa.Table | None:
    whole = [each for each in batches if each.num_rows]
    return pa.Table.from_batches(whole).combine_chunks() if whole else None


class BrokerStreamWriter(_Writer, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        context = TaskContext.get()
        assert context is not None, "a stream is written by Spark's tasks"
        stream = context.getLocalProperty("sql.streaming.queryId") or "stream"
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        return self._publish(iterator, f"spark/{stream}/{context.partitionId()}", batch * MOST_POSTS + 1)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """It was accepted when it was written."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was accepted stays; the batch that is written again finds it."""


class BrokerBatchWriter(_Writer, DataSourceArrowWriter):
    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.job = os.urandom(8).hex()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        return self._publish(iterator, f"spark/{self.job}/{task}", 1)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """It was accepted when it was written."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was accepted stays."""
