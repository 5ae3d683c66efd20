"""A durable subscription at a live broker as rows, for streams and for batches.

    spark.readStream.format("contentcast")
        .option("broker", "contentcast://host:7070").option("space", "trades")
        .option("predicate", "price < 120").option("durable", "lake")

Options (names in any case):

    broker, space       one broker, which runs with a data folder, and the name of a space that it knows
    durable             the name of the durable subscription; it is made if it is not there
    predicate           what is asked of the broker; without it, what the subscription asks for already, or everything
    event               'true' or a name: a column with the number that the event has in the subscription
    rowsPerBatch        of a stream, at most (100,000)
    after               of a batch: begin behind this number (behind the last that is acknowledged)
    failOnDataLoss      'false': go on where a limit of the broker has dropped events
    token, authority, certificate, key      as for `connect`

Exactly once: the broker numbers the events of a durable subscription 1, 2, 3, ... and keeps each until it is acknowledged. A
stream's offset is such a number. Spark notes the offsets of a micro-batch before it reads it, and acknowledges it (`commit`)
when it is done. So a micro-batch that is repeated, after a crash of whomever, reads the same numbers again. A batch
acknowledges nothing: it is a look at what waits.

One client at a time is there for a durable subscription, so one task reads a micro-batch; a repartition spreads what follows.
Rule: only numbers whose events are on the broker's disk become offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from contentcast.live.client import SyncClient
from contentcast.live.client.durable import Place
from contentcast.live.errors import LiveError
from contentcast.model import ContentcastError, EventBatch
from contentcast.spark.format.broker.connection import PATIENCE_S, Broker, BrokerOptionError, read_broker, whole

OPTIONS: Final = ("predicate", "durable", "event", "rowsPerBatch", "after", "failOnDataLoss")
ROWS_PER_BATCH: Final = 100_000
LOOK_EVERY_S: Final = 2.0
"""A task that gets nothing for so long asks the broker whether what it waits for is still there."""
TRIES: Final = 3
"""A task whose place was taken, by one of an earlier life that has not heard of its end, takes it back so often."""


class EventsLost(ContentcastError):
    """Events that the stream should have read are not at the broker any more."""


@dataclass(frozen=True)
class Told:
    broker: Broker
    durable: str
    predicate: str
    event: str
    per_batch: int
    after: int | None
    fail_on_loss: bool


def read_options(options: Mapping[str, str]) -> Told:
    broker, given = read_broker(options, OPTIONS, "the source of a broker")
    if not given.get("durable"):
        raise BrokerOptionError("a broker keeps events for those who have a name; add option('durable', NAME)")
    fail = given.get("failOnDataLoss", "true").lower()
    if fail not in ("true", "false"):
        raise BrokerOptionError(f"option failOnDataLoss is true or false, got {fail!r}")
    event = given.get("event", "")
    return Told(
        broker,
        given["durable"],
        given.get("predicate", ""),
        {"true": "event", "false": ""}.get(event.lower(), event),
        whole(given, "rowsPerBatch", 1, ROWS_PER_BATCH),
        whole(given, "after", 0, 0) if "after" in given else None,
        fail == "true",
    )


def schema_of(told: Told) -> pa.Schema:
    with told.broker.client() as client:
        space = client.space(told.broker.space)
    if told.event in space:
        raise BrokerOptionError(f"the space {space.name} has an attribute {told.event!r}; give the column another name")
    extra = [pa.field(told.event, pa.int64())] if told.event else []
    return pa.schema([*extra, *space.arrow_schema])


# --- the subscription


def subscribed(told: Told, client: SyncClient) -> Place:
    """The durable subscription is there and asks for what the options say."""
    try:
        place: Place | None = client.place(told.durable)
    except LiveError as reason:
        if reason.code != "no-durable":
            raise
        place = None
    if place is None or place.space != told.broker.space or told.predicate not in ("", place.predicate):
        predicate = told.predicate or (place.predicate if place is not None else "TRUE")
        # Behind the last number, so that nothing is sent to a client that only wants it to be there.
        after = None if place is None else place.last
        client.batches(told.broker.space, predicate, durable=told.durable, after=after, acknowledge=False).close()
        place = client.place(told.durable)
    return place


class Span(InputPartition):
    """The numbers after `after` up to `upto`."""

    def __init__(self, after: int, upto: int, predicate: str) -> None:
        self.after, self.upto, self.predicate = after, upto, predicate


def read_span(told: Told, shape: pa.Schema, span: Span) -> Iterator[pa.RecordBatch]:
    """The events with these numbers, in batches as they come."""
    if span.after >= span.upto:
        return
    position, taken_over = span.after, 0
    with told.broker.client(PATIENCE_S) as client:
        while position < span.upto:
            try:
                for first, events in _numbered(told, client, span, position):
                    _check_lost(told, position, first)
                    events = events.slice(0, max(0, span.upto - first + 1))
                    if len(events):
                        yield _shaped(told, shape, first, events)
                    position = first + len(events) - 1
                return
            except LiveError as reason:
                taken_over += 1
                if reason.code != "taken-over" or taken_over == TRIES:
                    raise


def _numbered(told: Told, client: SyncClient, span: Span, position: int) -> Iterator[tuple[int, EventBatch]]:
    """Batches behind `position` and the number of the first event of each, until one reaches the end of the span."""
    wanted: dict[str, Any] = {"durable": told.durable, "after": position, "acknowledge": False}
    with client.batches(told.broker.space, span.predicate, **wanted) as batches:
        while position < span.upto:
            events = batches.next(LOOK_EVERY_S)
            if events is not None:
                position = batches.subscription.position
                yield position - len(events) + 1, events
            elif (place := client.place(told.durable)).last < span.upto:
                # The end of a span was on disk when it became an offset: it does not come any more.
                _check_lost(told, position, span.upto + 1)
                return
            elif place.acknowledged > position:
                raise EventsLost(
                    f"numbers {position + 1} to {place.acknowledged} of the durable subscription {told.durable!r} were "
                    "acknowledged by another program; give each stream a name of its own"
                )


def _check_lost(told: Told, position: int, first: int) -> None:
    if first > position + 1 and told.fail_on_loss:
        raise EventsLost(
            f"numbers {position + 1} to {first - 1} of the durable subscription {told.durable!r} were dropped by a limit of "
            "the broker (durable_bytes, durable_age_s); raise it, or go on without them with option('failOnDataLoss', 'false')"
        )


def _shaped(told: Told, shape: pa.Schema, first: int, events: EventBatch) -> pa.RecordBatch:
    """The columns that were asked for. An event of an older space does not have all of them."""
    rows = len(events)
    columns = []
    for field in shape:
        if field.name == told.event:
            columns.append(pa.array(np.arange(first, first + rows)))
        elif field.name in events.space:
            columns.append(events.records.column(field.name).cast(field.type))
        else:
            columns.append(pa.nulls(rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=shape)


# --- Spark's readers


class Reader(DataSourceReader):
    """What waits for the subscription now; nothing of it is acknowledged."""

    def __init__(self, told: Told, shape: pa.Schema) -> None:
        self.told, self.shape = told, shape

    def partitions(self) -> list[Span]:
        with self.told.broker.client() as client:
            place = subscribed(self.told, client)
        after = place.first - 1 if self.told.after is None else max(self.told.after, place.acknowledged)
        return [Span(after, place.last, place.predicate)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        return read_span(self.told, self.shape, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"number": n}: the last number that has been read."""

    def __init__(self, told: Told, shape: pa.Schema) -> None:
        if told.after is not None:
            raise BrokerOptionError("option after is of a batch; a stream begins behind the last number that is acknowledged")
        self.told, self.shape = told, shape
        self._target: int | None = None
        self._connected: SyncClient | None = None
        self._predicate = ""

    def initialOffset(self) -> dict[str, int]:
        return {"number": self._place().acknowledged}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.told.per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int]:
        number, place = int(start["number"]), self._place()
        if place.numbered < number:
            raise EventsLost(
                f"the checkpoint has read up to number {number} of the durable subscription {self.told.durable!r}, and the "
                f"broker has given {place.numbered}: it is another subscription of this name; take a new checkpoint"
            )
        end = place.last if self._target is None else min(self._target, place.last)
        if isinstance(limit, ReadMaxRows):
            end = min(end, number + limit.max_rows)
        return {"number": max(end, number)}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._place().last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Span]:
        after, upto = int(start["number"]), int(end["number"])
        if after >= upto:
            return []
        self._place()
        return [Span(after, upto, self._predicate)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Span)
        return read_span(self.told, self.shape, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._client().acknowledge(self.told.durable, int(end["number"]))

    def stop(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def _client(self) -> SyncClient:
        """One connection for the whole life of the stream: it waits for a broker that starts again."""
        if self._connected is None:
            self._connected = self.told.broker.connect(PATIENCE_S)
        return self._connected

    def _place(self) -> Place:
        if self._predicate:
            return self._client().place(self.told.durable)
        place = subscribed(self.told, self._client())
        self._predicate = place.predicate
        return place

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get a copy, which has a connection of its own for each span."""
        return {**self.__dict__, "_connected": None}
