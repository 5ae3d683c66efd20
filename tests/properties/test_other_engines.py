"""DuckDB's WHERE and Spark SQL's filter, given the same text, choose the same events as the oracle.

Spark SQL reads every text as it is. DuckDB gets functions by Spark's names, and its own spelling of lambdas and lists.
"""

from __future__ import annotations

import re
from collections import Counter
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
from contentcast.model.values.kinds import LISTS
from tests.properties.generate import Generator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE MACRO startswith(a, b) AS starts_with(a, b)")
    connection.execute("CREATE MACRO endswith(a, b) AS ends_with(a, b)")
    connection.execute("CREATE MACRO regexp_like(a, b) AS regexp_matches(a, b)")
    # DuckDB's own list_contains and list_has_any pass over nulls; these join the answers of the elements by SQL's OR and AND.
    connection.execute("""CREATE MACRO some_of(answers) AS CASE WHEN answers IS NULL THEN NULL
        WHEN list_contains(answers, TRUE) THEN TRUE WHEN len(list_filter(answers, lambda a: a IS NULL)) > 0 THEN NULL
        ELSE FALSE END""")
    connection.execute("CREATE MACRO all_of(answers) AS NOT some_of(list_transform(answers, lambda a: NOT a))")
    connection.execute("CREATE MACRO array_contains(a, b) AS some_of(list_transform(a, lambda x: x = b))")
    connection.execute("CREATE MACRO arrays_overlap(a, b) AS some_of(list_transform(a, lambda each: array_contains(b, each)))")
    connection.execute("CREATE MACRO size(a) AS len(a)")
    return connection


LITERAL = r"(?:'(?:[^']|'')*'|[^()'])"
INNER = rf"(?:{LITERAL}|\((?:{LITERAL}|\((?:{LITERAL}|\({LITERAL}*\))*\))*\))*"
LAMBDA = re.compile(rf"\b(exists|forall)\(([^(),]+), t -> ({INNER})\)")
ARRAY = re.compile(r"\barray\(")


def in_duckdb(text: str) -> str:
    """With lambdas and lists as DuckDB spells them; in a literal of the generator there is neither."""

    def spelt(found: re.Match[str]) -> str:
        fold = "some_of" if found[1] == "exists" else "all_of"
        return f"{fold}(list_transform({found[2]}, lambda t: ({found[3]})))"

    return ARRAY.sub("list_value(", LAMBDA.sub(spelt, text))


def table_of(space: Space, events: list[dict[str, Any]]) -> pa.Table:
    """The events with their row numbers; timestamps without a zone, as DuckDB's plain TIMESTAMP."""
    records = EventBatch.from_dicts(space, events).records
    plain = {pa.timestamp("us", "UTC"): pa.timestamp("us"), pa.list_(pa.timestamp("us", "UTC")): pa.list_(pa.timestamp("us"))}
    columns = [each.cast(plain.get(each.type, each.type)) for each in records.columns]
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
    found = duck.execute(f'SELECT "row number" FROM events WHERE {in_duckdb(text)} ORDER BY 1').fetchall()
    assert [row for (row,) in found] == oracle(space, text, events), text


@pytest.mark.parametrize("kind", LISTS)
def test_duckdb_judges_lists(duck: duckdb.DuckDBPyConnection, kind: str) -> None:
    """300 texts over lists of each kind, and 30 events: empty lists, nulls in lists and absent lists among them."""
    generate = Generator(Random(kind), portable=True)
    space = Space("things", {"tags": kind, "x1": kind, "price": "int"})
    events = [generate.event(space) for _ in range(30)]
    duck.register("events", table_of(space, events))
    asked: Counter[str] = Counter()
    for _ in range(300):
        text = generate.text(space)
        asked.update(each for each in ("array_contains", "arrays_overlap", "exists", "forall", "size") if f"{each}(" in text)
        found = duck.execute(f'SELECT "row number" FROM events WHERE {in_duckdb(text)} ORDER BY 1').fetchall()
        assert [row for (row,) in found] == oracle(space, text, events), text
    assert min(asked.values()) > 30, asked


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
