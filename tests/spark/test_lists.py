"""Lists on Spark: JSON and Parquet are read, matched as the oracle matches, and delivered; in the command and the job too."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import contentcast as cc
from contentcast.cli import app
from contentcast.model.values.kinds import LISTS
from contentcast.pipeline.feeds import Files, own_feed
from contentcast.pipeline.job import run_job
from contentcast.spark import deliver, ingest, match, read_deliveries, read_events
from tests.properties.generate import Generator
from tests.spark.oracle import found_pairs, frame_of, oracle_pairs, subscription_table
from tests.spark.test_match import sql_pairs

CARTS = cc.Space(
    "carts",
    {
        "cart": "int",
        "tags": "list of string",
        "seen": "list of timestamp",
        "items.sku": "list of string",
        "items.n": "list of int",
    },
)
LINES = [
    {"cart": 1, "tags": ["new", None], "seen": ["2026-03-01T12:00:00Z"], "items": [{"sku": "a-1", "n": 2}, {"sku": "b-7"}]},
    {"cart": 2, "tags": [], "items": []},
    {"cart": 3, "tags": ["gift", 5]},
    {"cart": 4, "items": [{"sku": "b-7", "n": 1}]},
]
RULES = [
    ("new", "array_contains(tags, 'new')", "desk-1", "b1"),
    ("untagged", "size(tags) = 0", "desk-1", "b2"),
    ("b-7", "array_contains(`items.sku`, 'b-7') AND exists(`items.n`, n -> n IS NULL)", "desk-2", "b2"),
    ("one", "forall(`items.n`, n -> n = 1) AND size(`items.n`) > 0", "desk-2", "b3"),
    ("old", "exists(seen, t -> t < TIMESTAMP '2026-03-02 00:00:00')", "desk-3", "b3"),
    ("slip", "array_contains(tag, 'new')", "desk-3", "b1"),
]
EXPECTED = [(1, "b-7"), (1, "new"), (1, "old"), (2, "untagged"), (4, "one")]


def written(folder: Path) -> dict[str, Any]:
    CARTS.save(folder / "carts.json")
    (folder / "carts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in LINES))
    names = ("subscription", "predicate", "subscriber", "broker")
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*RULES, strict=True)), strict=True))), folder / "rules.parquet")
    return {
        "space": str(folder / "carts.json"),
        "events": [str(folder / "carts.jsonl")],
        "subscriptions": str(folder / "rules.parquet"),
    }


def test_every_kind_by_match_by_spark_sql_and_by_the_oracle(spark: SparkSession) -> None:
    generate = Generator(Random(20), networks=False)
    space = cc.Space("things", {f"l{at}": kind for at, kind in enumerate(LISTS)} | {"price": "int"})
    texts = {each: generate.text(space) for each in range(150)}
    assert all(any(f"{name}(" in text for text in texts.values()) for name in ("array_contains", "arrays_overlap", "size"))
    assert all(any(f"{name}(" in text for text in texts.values()) for name in ("exists", "forall"))
    events = [generate.event(space) for _ in range(60)]
    frame, expected = frame_of(spark, space, events), oracle_pairs(space, events, texts)
    assert found_pairs(match(frame, subscription_table(texts), space)) == expected
    assert found_pairs(match(frame, subscription_table(texts), space, shards=2)) == expected
    assert found_pairs(sql_pairs(frame, texts)) == expected


def test_json_is_read_matched_delivered_and_read_again(spark: SparkSession, tmp_path: Path) -> None:
    told = written(tmp_path)
    read = read_events(spark, told["events"], CARTS)
    assert [(row.attribute, row.reason) for row in read.quarantine.collect()] == [
        ("tags", "element 1: 5 is an int, not a string")
    ]
    found = match(read, told["subscriptions"], CARTS)
    deliver(found, tmp_path / "out")
    again = read_deliveries(spark, tmp_path / "out")
    assert sorted((row.cart, row.subscription) for row in again.collect()) == EXPECTED
    assert dict(again.dtypes)["items.n"] == "array<bigint>"
    (first,) = {tuple(row["items.n"]) for row in again.where("cart = 1").collect()}
    assert first == (2, None)
    kept = read_events(spark, told["events"], CARTS, on_error="absent").good
    assert [row.tags for row in kept.where("cart = 3").collect()] == [None]


def test_parquet_with_list_columns(spark: SparkSession, tmp_path: Path) -> None:
    good = [each for each in LINES if each["cart"] != 3]
    table = pa.Table.from_pylist(good, schema=pa.Table.from_pylist(good).schema)
    pq.write_table(table, tmp_path / "carts.parquet")
    found = match(read_events(spark, str(tmp_path / "carts.parquet"), CARTS), written(tmp_path)["subscriptions"], CARTS)
    assert sorted((row.cart, row.subscription) for row in found.collect()) == EXPECTED


def test_a_frame_of_arrays_and_a_queue_of_json(spark: SparkSession, tmp_path: Path) -> None:
    rules = written(tmp_path)["subscriptions"]
    frame = spark.createDataFrame(
        [(1, ["new", None], [("a-1", 2), ("b-7", None)]), (2, [], []), (4, None, [("b-7", 1)])],
        "cart long, tags array<string>, items array<struct<sku string, n int>>",
    )
    expected = [each for each in EXPECTED if each[1] != "old"]
    assert sorted((row.cart, row.subscription) for row in match(frame, rules, CARTS).collect()) == expected
    queue = spark.createDataFrame([(json.dumps(each),) for each in LINES], "value string")
    arrived = ingest(queue, CARTS, json="value")
    assert sorted((row.cart, row.subscription) for row in match(arrived, rules, CARTS).collect()) == EXPECTED


def test_the_command_with_lists_and_text_ids(spark: SparkSession, tmp_path: Path) -> None:
    told = written(tmp_path)
    asked = ["match", "--events", *told["events"], "--subscriptions", told["subscriptions"], "--space", told["space"]]
    run = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "out"), "--json"])
    assert run.exit_code == 0, run.output
    found = read_deliveries(spark, tmp_path / "out" / "matches")
    assert sorted((row.cart, row.subscription) for row in found.collect()) == EXPECTED


def test_the_job_with_lists_and_text_ids(spark: SparkSession, tmp_path: Path) -> None:
    feed = own_feed(spark, Files(**written(tmp_path), topology="line:3", entry="b1"), "a test")
    facts = run_job(spark, feed, tmp_path / "out", ["link-matching", "flooding"], lambda name: nullcontext())
    assert (facts.events, facts.bad, facts.subscriptions, facts.refused) == (3, 1, 5, 1)
    carts = {row["event"]: row["cart"] for row in pq.read_table(tmp_path / "out" / "events").to_pylist()}
    found = read_deliveries(spark, tmp_path / "out" / "deliveries").collect()
    assert sorted((carts[row.event], row.subscription) for row in found) == EXPECTED
    rates = pq.read_table(tmp_path / "out" / "learnt" / "rates.parquet").to_pylist()
    assert {row["subscription"]: row["matches"] for row in rates} == {"new": 1, "untagged": 1, "b-7": 1, "one": 1, "old": 1}
    assert {name: int(each.totals.deliveries.sum()) for name, each in facts.routes.items()} == {
        "link-matching": 5,
        "flooding": 5,
    }
    for part in (tmp_path / "out" / "deliveries").rglob("part-*.parquet"):
        rows = pq.ParquetFile(part).read().to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["subscriber"], row["subscription"], row["event"]))
