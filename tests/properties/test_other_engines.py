"""DuckDB's WHERE and Spark SQL's filter, given the same text, choose the same events as the oracle."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contentcast.language import parse_predicate
from contentcast.matching.scan import truth
from contentcast.model import EventBatch, Space
from tests.properties.generate import Generator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE MACRO startswith(a, b) AS starts_with(a, b)")
    connection.execute("CREATE MACRO endswith(a, b) AS ends_with(a, b)")
    connection.execute("CREATE MACRO regexp_like(a, b) AS regexp_matches(a, b)")
    return connection


def table_of(space: Space, events: list[dict[str, Any]]) -> pa.Table:
    """The events with their row numbers; timestamps without a zone, as DuckDB's plain TIMESTAMP."""
    records = EventBatch.from_dicts(space, events).records
    columns = [each.cast(pa.timestamp("us")) if pa.types.is_timestamp(each.type) else each for each in records.columns]
    return pa.table([pa.array(range(len(events))), *columns], names=["row number", *records.schema.names])


def oracle(space: Space, text: str, events: list[dict[str, Any]]) -> list[int]:
    tree = parse_predicate(space, text).tree
    assert tree is not None
    return [row for row, event in enumerate(events) if truth(tree, event) is True]


@given(st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_duckdb_chooses_the_same_events(duck: duckdb.DuckDBPyConnection, random: Random) -> None:
    generate = Generator(random, portable=True)
    space = generate.space()
    text = generate.text(space)
    events = [generate.event(space) for _ in range(8)]
    duck.register("events", table_of(space, events))
    found = duck.execute(f'SELECT "row number" FROM events WHERE {text} ORDER BY 1').fetchall()
    assert [row for (row,) in found] == oracle(space, text, events), text


@pytest.mark.parametrize("seed", range(6))
def test_spark_chooses_the_same_events(spark: SparkSession, seed: int) -> None:
    """One job per seed: 120 predicates as columns over 60 events."""
    generate = Generator(Random(seed), networks=False)
    space = generate.space()
    texts = [generate.text(space) for _ in range(120)]
    events = [generate.event(space) for _ in range(60)]
    records = EventBatch.from_dicts(space, events).records
    frame = spark.createDataFrame(pa.Table.from_batches([records]))
    rows = frame.selectExpr(*[f"({text}) AS p{at}" for at, text in enumerate(texts)]).collect()
    for at, text in enumerate(texts):
        found = [row for row, values in enumerate(rows) if values[at] is True]
        assert found == oracle(space, text, events), f"seed {seed}: {text}"
