"""What users bring to Spark: ids and columns of their own, packed files, nanoseconds, misspelt columns, attributes left out."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import contentcast as cc
from contentcast.spark import ingest, match, prepare, read_events, refused

ORDERS = cc.Space("orders", {"id": "string", "total": "float", "at": "timestamp", "count": "int"})
RULES = [("vip", "total > 100", "A"), ("all", "TRUE", "B"), ("vip", "total > 1", "C"), ("bad", "totl > 1", "D")]


@pytest.fixture
def rules(spark) -> Any:
    return spark.createDataFrame(RULES, "rule string, condition string, owner string").coalesce(1)


def test_rules_with_text_ids_under_names_of_their_own(spark, rules) -> None:
    events = spark.createDataFrame([("o-1", 500.0), ("o-2", 5.0)], "id string, total double")
    found = match(events, rules, ORDERS, id="rule", predicate="condition")
    rows = sorted((row.id, row.subscription, row.owner) for row in found.collect())
    assert rows == [("o-1", "all", "B"), ("o-1", "vip", "A"), ("o-2", "all", "B")]
    lists = match(events, rules, ORDERS, id="rule", predicate="condition", lists=True, columns=["id"])
    assert sorted((row.id, sorted(row.subscriptions)) for row in lists.collect()) == [("o-1", ["all", "vip"]), ("o-2", ["all"])]
    out = {row.owner: row.reason.splitlines()[0] for row in refused(rules, ORDERS, id="rule", predicate="condition").collect()}
    assert out == {
        "C": "subscription vip is given already; the first is kept",
        "D": "line 1, column 1: orders has no attribute 'totl'; did you mean 'total'?",
    }
    with pytest.raises(cc.ContentcastError, match=r"no column 'subscription'.*or say which it is: id="):
        prepare(rules, ORDERS)
    index = cc.MatchIndex(ORDERS)
    index.add("vip", "total > 100")
    assert [row.subscription for row in match(events, index, ORDERS).collect()] == ["vip"]


def test_a_misspelt_column_is_an_error_and_another_stays(spark) -> None:
    events = spark.createDataFrame([(5.0, "x", "a")], "totl double, desk string, id string")
    with pytest.raises(
        cc.ContentcastError, match=r"no attribute 'totl', and the events have no column 'total'; is it that one\?"
    ):
        ingest(events, ORDERS)
    assert ingest(events, ORDERS, unknown="ignore").good.columns[:3] == ["totl", "desk", "id"]
    with pytest.raises(cc.ContentcastError, match=r"has no attribute '(desk|totl)'"):
        ingest(events, ORDERS, unknown="error")


def test_packed_lines_with_fields_that_nobody_declared(spark, tmp_path: Path) -> None:
    lines = b'{"id": "a", "total": 5, "extra": 1}\n{"id": "b", "total": "x"}\n'
    for ending, kind in (("gz", "gzip"), ("zst", "zstd")):
        with pa.output_stream(str(tmp_path / f"orders.jsonl.{ending}"), compression=kind) as file:
            file.write(lines)
        path = tmp_path / f"orders.jsonl.{ending}"
        strict = read_events(spark, path, ORDERS)
        assert (strict.good.count(), strict.quarantine.count()) == (0, 2)
        kept = read_events(spark, path, ORDERS, unknown="ignore", on_error="absent")
        assert sorted((row.id, row.total) for row in kept.good.collect()) == [("a", 5.0), ("b", None)]
        assert [(row.attribute, row.reason) for row in kept.quarantine.collect()] == [("total", "'x' is a string, not a float")]


def test_parquet_with_nanoseconds(spark, tmp_path: Path) -> None:
    ticks = [1_772_366_400_000_000_000, 1_772_366_400_000_000_999]
    table = pa.table({"id": ["a", "b"], "at": pa.array(ticks, pa.timestamp("ns", tz="UTC"))})
    pyarrow.parquet.write_table(table, tmp_path / "orders.parquet", version="2.6")
    read = read_events(spark, tmp_path / "orders.parquet", ORDERS)
    assert [(row.id, row.at.microsecond) for row in read.good.collect()] == [("a", 0)]
    assert ["finer than a microsecond" in row.reason for row in read.quarantine.collect()] == [True]
    rounded = read_events(spark, tmp_path / "orders.parquet", ORDERS, finer="round")
    assert sorted((row.id, row.at.microsecond) for row in rounded.good.collect()) == [("a", 0), ("b", 1)]


def test_numbers_and_texts_as_timestamps(spark) -> None:
    events = spark.createDataFrame([("2026-03-01T12:00:00Z", 5.0)], "at string, count double")
    (row,) = ingest(events, ORDERS).good.selectExpr("unix_seconds(at) AS seconds", "`count` AS many").collect()
    assert (row.seconds, row.many) == (1_772_366_400, 5)
