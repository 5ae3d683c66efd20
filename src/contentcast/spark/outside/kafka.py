"""Kafka: events from a topic, deliveries into one exactly once, subscriptions from a compacted one.

    topic matches            {"issue": "IBM", ..., "subscription": 7}, with the headers
                             contentcast-batch c1/12 (stream c1, micro-batch 12), contentcast-attempt 5f2e
                             and contentcast-number 8589934593 (of this message in its attempt)
    topic matches-commits    key c1/12, value 5f2e: the attempt that counts

Spark's own sink writes at least once: a micro-batch that was killed half-written is written again. So each attempt marks its
messages with a number of its own, and when all of them are there it is named in a second topic, by the micro-batch as the key,
so that all attempts at one stand in order. The first that is named counts. A micro-batch that is named is not written again.

Within an attempt a task may die half-written too, with its executor, and Spark gives its rows to another. Their order may be
another one then (with shards they come by a shuffle), so each task sorts its messages and numbers them: a message has the same
number whoever writes it. `read_topic` gives the messages of the attempts that count, each number once, and a consumer of
another make can do the same: equal messages have one key and so stand in one partition.

A topic of subscriptions holds a JSON object for each, `{"subscription": 7, "predicate": "price < 120", ...}`. The last message
of a key counts, and an empty one removes it, as Kafka compacts.
Rule: offsets are asked of the broker by the consumer that Spark's package brings; contentcast has no client of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from contentcast.model.errors import ContentcastError
from contentcast.spark.outside.addresses import Topic
from contentcast.spark.subscriptions.following import followed_by, tell_versions
from contentcast.spark.subscriptions.indexes import QUERY_ID, Prepared
from contentcast.spark.subscriptions.tables import ID, TEXT, renamed

SERVERS: Final = "kafka.bootstrap.servers"
COMMITS: Final = "-commits"
BATCH, ATTEMPT, NUMBER = "contentcast-batch", "contentcast-attempt", "contentcast-number"
PATIENCE_MS: Final = 60_000
"""For how long a broker that does not answer is asked again."""


def read_messages(spark: SparkSession, topic: Topic, *, stream: bool = False, **options: Any) -> DataFrame:
    """A topic from its beginning, with Spark's columns: key, value, topic, partition, offset, timestamp, timestampType."""
    from contentcast.spark.ingest import load_format

    known = {SERVERS: topic.servers, "subscribe": topic.name, "startingOffsets": "earliest"}
    return load_format(spark, stream, "kafka", {**known, **options})


def write_messages(rows: DataFrame, topic: Topic) -> None:
    """Rows with the columns key, value and headers, as Spark's own sink takes them."""
    rows.write.format("kafka").option(SERVERS, topic.servers).option("topic", topic.name).save()


# --- deliveries


def deliver_to_topic(
    matches: DataFrame, topic: Topic, checkpoint: str, *, key: str = ID, trigger: Mapping[str, Any] | None = None
) -> StreamingQuery | None:
    """Each match as a JSON message, by `key`; returns the running query of a stream. A batch is one attempt of its own."""
    if not matches.isStreaming:
        _write_attempt(matches, f"{uuid4().hex}/0", topic, key)
        return None
    write_batch = _each_batch(topic, key, followed_by(matches))
    writer = matches.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    return (writer.trigger(**trigger) if trigger else writer).start()


def _each_batch(topic: Topic, key: str, tables: Sequence[Prepared]) -> Callable[[DataFrame, int], None]:
    looked: list[bool] = []

    def write_batch(rows: DataFrame, number: int) -> None:
        spark = rows.sparkSession
        batch = f"{spark.sparkContext.getLocalProperty(QUERY_ID)}/{number}"
        if not looked:  # the first micro-batch after a start alone can have been written before
            looked.append(True)
            if batch in _committed(spark, topic):
                return
        tell_versions(spark, tables)
        _write_attempt(rows, batch, topic, key)

    return write_batch


def _write_attempt(rows: DataFrame, batch: str, topic: Topic, key: str) -> None:
    attempt = uuid4().hex
    marks = {BATCH: F.lit(batch), ATTEMPT: F.lit(attempt), NUMBER: F.monotonically_increasing_id().cast("string")}
    headers = F.array(
        *(F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value")) for name, value in marks.items())
    )
    columns = [f"`{name}`" for name in rows.columns]
    messages = rows.select(F.col(f"`{key}`").cast("string").alias("key"), F.to_json(F.struct(*columns)).alias("value"))
    in_order = messages.sortWithinPartitions("key", "value")
    write_messages(in_order.select("key", "value", headers.alias("headers")), topic)
    commit = rows.sparkSession.createDataFrame([(batch, attempt)], "key string, value string")
    write_messages(commit, _commits(topic))


def _commits(topic: Topic) -> Topic:
    return Topic(topic.servers, topic.name + COMMITS)


def _committed(spark: SparkSession, topic: Topic) -> dict[str, str]:
    """For each micro-batch the attempt that was named first."""
    if not has_topic(spark, _commits(topic)):
        return {}
    rows = read_messages(spark, _commits(topic)).select("partition", "offset", "key", "value").collect()
    found: dict[str, str] = {}
    for row in sorted(rows):
        found.setdefault(bytes(row.key).decode(), bytes(row.value).decode())
    return found


def read_topic(spark: SparkSession, topic: Topic, schema: StructType) -> DataFrame:
    """What was delivered so far: each match once, with its micro-batch. `schema` is that of the matches."""
    committed = _committed(spark, topic)
    counts = spark.createDataFrame([(each,) for each in committed.values()], "attempt string")
    marks = F.map_from_entries("headers")
    marked = read_messages(spark, topic, includeHeaders="true").select(
        F.from_json(F.col("value").cast("string"), schema).alias("match"),
        F.substring_index(marks[BATCH].cast("string"), "/", -1).cast("long").alias("batch"),
        marks[ATTEMPT].cast("string").alias("attempt"),
        marks[NUMBER].cast("string").alias("number"),
    )
    kept = marked.join(F.broadcast(counts), "attempt", "left_semi")
    return kept.dropDuplicates(["attempt", "number"]).select("match.*", "batch")


# --- subscriptions


@dataclass(frozen=True)
class TopicTable:
    """A compacted topic of subscriptions; a stream looks at it again before each micro-batch."""

    topic: Topic
    id: str = ID
    predicate: str = TEXT

    def __str__(self) -> str:
        return str(self.topic)

    @property
    def has_columns(self) -> bool:
        return False

    def fingerprint(self) -> str:
        ends = sorted(end_offsets(SparkSession.active(), self.topic).items())
        return hashlib.blake2b(repr((str(self.topic), ends)).encode(), digest_size=8).hexdigest()

    def read(self) -> pa.Table:
        rows = read_messages(SparkSession.active(), self.topic).select("partition", "offset", "key", "value").toArrow()
        return last_of_each_key(rows, str(self.topic), self.id, self.predicate)


def last_of_each_key(messages: pa.Table, name: str, id: str = ID, predicate: str = TEXT) -> pa.Table:
    """The table that the messages come to. One that counts and is no JSON object, or has no key, is named: it hides what was
    meant.
    """
    last: dict[bytes, tuple[str, bytes | None]] = {}
    for row in messages.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist():
        where = f"{name}, partition {row['partition']}, offset {row['offset']}"
        if row["key"] is None:
            raise ContentcastError(f"{where}: a message of subscriptions has a key, by which a later one replaces it")
        last[row["key"]] = (where, row["value"])
    rules = [(where, _object(value, where)) for where, value in last.values() if value]
    if not rules:
        return pa.table({ID: pa.array([], pa.int64()), TEXT: pa.array([], pa.string())})
    names = dict.fromkeys(name for _, rule in rules for name in rule)
    return renamed(pa.table({each: _column(rules, each) for each in names}), id, predicate)


def _column(rules: list[tuple[str, dict[str, Any]]], name: str) -> pa.Array:
    try:
        return pa.array([rule.get(name) for _, rule in rules])
    except (pa.ArrowException, OverflowError):
        given = [(where, rule[name]) for where, rule in rules if rule.get(name) is not None]
    where, value = next((each for each in given if not _go_together(given[0][1], each[1])), given[0])
    raise ContentcastError(f"{where}: {name} is {value!r}, which does not go into one column with {given[0][1]!r}")


def _go_together(one: Any, other: Any) -> bool:
    try:
        return len(pa.array([one, other])) == 2
    except (pa.ArrowException, OverflowError):
        return False


def _object(value: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
        if isinstance(found, dict):
            return found
        reason = "a JSON object is needed"
    except ValueError as error:
        reason = f"not JSON: {error}"
    raise ContentcastError(f"{where}: {reason}, as {{'subscription': 7, 'predicate': 'price < 120'}}")


# --- the broker


def end_offsets(spark: SparkSession, topic: Topic) -> dict[int, int]:
    """Of each partition the offset of the next message."""
    consumer = _consumer(spark, topic)
    try:
        places = [_partition(spark, topic, each.partition()) for each in consumer.partitionsFor(topic.name)]
        ends = consumer.endOffsets(_java_list(spark, places))
        return {each.partition(): int(ends.get(each)) for each in places}
    finally:
        consumer.close()


def has_topic(spark: SparkSession, topic: Topic) -> bool:
    consumer = _consumer(spark, topic)
    try:
        return topic.name in set(consumer.listTopics().keySet())
    finally:
        consumer.close()


def _consumer(spark: SparkSession, topic: Topic) -> Any:
    jvm: Any = spark._jvm
    settings = jvm.java.util.Properties()
    deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    told = {
        "bootstrap.servers": topic.servers,
        "key.deserializer": deserializer,
        "value.deserializer": deserializer,
        "default.api.timeout.ms": str(PATIENCE_MS),
    }
    for name, value in told.items():
        settings.put(name, value)
    return jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)


def _partition(spark: SparkSession, topic: Topic, number: int) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.kafka.common.TopicPartition(topic.name, number)


def _java_list(spark: SparkSession, items: list[Any]) -> Any:
    jvm: Any = spark._jvm
    made = jvm.java.util.ArrayList()
    for each in items:
        made.add(each)
    return made
