"""What the tests of `contentcast.spark` compare with: the oracle's pairs, and events and subscriptions as DataFrames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import contentcast as cc
from contentcast.matching import Scan
from contentcast.model import EventBatch, Space

EVENT = "event number"
"""An extra column, by which the tests know an event again."""


def scan_of(space: Space, texts: Mapping[int, str]) -> Scan:
    scan = Scan(space)
    for each, text in texts.items():
        scan.add(each, cc.parse_predicate(space, text))
    return scan


def oracle_pairs(space: Space, events: Sequence[Mapping[str, Any]], texts: Mapping[int, str]) -> Counter[tuple[int, int]]:
    """(number of the event, subscription), each once."""
    scan = scan_of(space, texts)
    return Counter((number, each) for number, event in enumerate(events) for each in scan.match(event))


def table_of(space: Space, events: Sequence[Mapping[str, Any]], start: int = 0) -> pa.Table:
    records = EventBatch.from_dicts(space, events).records
    return pa.Table.from_batches([records]).append_column(EVENT, pa.array(range(start, start + len(events)), pa.int64()))


def frame_of(spark: SparkSession, space: Space, events: Sequence[Mapping[str, Any]]) -> DataFrame:
    return spark.createDataFrame(table_of(space, events))


def subscription_table(texts: Mapping[int, str]) -> pa.Table:
    return pa.table(
        {
            "subscription": pa.array(list(texts), pa.int64()),
            "predicate": pa.array(list(texts.values()), pa.string()),
            "subscriber": pa.array([f"desk-{each % 7}" for each in texts], pa.string()),
            "broker": pa.array([f"b{each % 3}" for each in texts], pa.string()),
        }
    )


def found_pairs(matches: DataFrame | Iterable[Any]) -> Counter[tuple[int, int]]:
    rows = matches.select(EVENT, "subscription").collect() if isinstance(matches, DataFrame) else matches
    return Counter((row[EVENT], row["subscription"]) for row in rows)
