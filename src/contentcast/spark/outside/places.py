"""Where events, subscriptions and deliveries are, by the text that a command was given: an address or a path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from contentcast.model import How
from contentcast.model.errors import ContentcastError
from contentcast.model.space import Space
from contentcast.spark.delivery.deliver import OURS, deliver
from contentcast.spark.ingest import Ingested, ingest, read_events
from contentcast.spark.outside.addresses import LakeTable, Topic, address
from contentcast.spark.outside.kafka import TopicTable, deliver_to_topic, read_messages
from contentcast.spark.outside.lake import LakeRules, deliver_to_table, read_lake
from contentcast.spark.subscriptions.tables import ID, TEXT, FileTable, Followed

PLACE_OF_MESSAGE = ("value", "topic", "partition", "offset")


def events_at(
    spark: SparkSession, given: list[str], space: Space, format: str | None, how: How, *, stream: bool = False, **options: Any
) -> Ingested:
    """Of a topic the messages' places stay beside the events, under names that no attribute has."""
    match address(given[0]):
        case Topic() as topic:
            messages = read_messages(spark, topic, stream=stream, **options).select(*PLACE_OF_MESSAGE)
            return ingest(messages, space, json="value", **how)
        case LakeTable() as table:
            return ingest(read_lake(spark, table, stream=stream, **options), space, **how)
    return read_events(spark, given, space, format=format, stream=stream, **how, **options)


def rules_at(given: str, id: str = ID, predicate: str = TEXT) -> Followed:
    match address(given):
        case Topic() as topic:
            return TopicTable(topic, id, predicate)
        case LakeTable() as table:
            return LakeRules(table, None, id, predicate)
    return FileTable(Path(given).absolute(), id, predicate)


def deliver_to(
    matches: DataFrame, to: str | None, folder: Path, *, trigger: Mapping[str, Any] | None = None
) -> StreamingQuery | None:
    """To the address, with how far a stream has read in `folder`; into the folder if there is no address."""
    checkpoint = str(folder / OURS / "checkpoint")
    match address(to) if to else None:
        case Topic() as topic:
            return deliver_to_topic(matches, topic, checkpoint, trigger=trigger)
        case LakeTable() as table:
            return deliver_to_table(matches, table, checkpoint, trigger=trigger)
    if to:
        raise ContentcastError(f"--to takes an address: kafka://HOST:PORT/TOPIC, delta:PATH or iceberg:NAME, not {to!r}")
    return deliver(matches, folder, trigger=dict(trigger) if trigger else None)
