"""`deliver`: a table appears whole or not at all; a stream that is killed and started again delivers each match once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import contentcast as cc
from contentcast.matching import Scan
from contentcast.model import ContentcastError, Space
from contentcast.spark import deliver, match, read_deliveries, read_events
from contentcast.workload import scenario
from tests.spark.oracle import EVENT, found_pairs, frame_of, oracle_pairs, subscription_table, table_of

TRADES = Space("trades", issue="string", price="float")
WANTED = {each: f"price < {each}" for each in range(1, 9)}
EVENTS = [{"issue": "IBM", "price": float(each)} for each in range(10)]


@pytest.fixture
def matches(spark: SparkSession) -> DataFrame:
    return match(frame_of(spark, TRADES, EVENTS), subscription_table(WANTED), TRADES)


def visible(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if not each.name.startswith((".", "_")))


# --- a batch


def test_a_folder_for_each_broker_sorted_by_subscriber(spark: SparkSession, matches: DataFrame, tmp_path: Path) -> None:
    deliver(matches, tmp_path / "out")
    assert visible(tmp_path / "out") == ["broker=b0", "broker=b1", "broker=b2"]
    for file in (tmp_path / "out").rglob("*.parquet"):
        subscribers = pq.read_table(file, partitioning=None)["subscriber"].to_pylist()
        assert subscribers == sorted(subscribers)
    found = read_deliveries(spark, tmp_path / "out")
    assert sorted(found.columns) == sorted(matches.columns)
    assert found_pairs(found) == oracle_pairs(TRADES, EVENTS, WANTED)
    assert visible(tmp_path) == ["out"], "nothing is left beside it"
    assert not list(tmp_path.glob(".out*"))


def test_other_partitions_and_values_that_look_like_numbers(spark: SparkSession, matches: DataFrame, tmp_path: Path) -> None:
    odd = matches.withColumn(
        "broker", F.when(F.col("broker") == "b1", F.lit("007")).when(F.col("broker") == "b2", F.lit("a/b=c"))
    )
    deliver(odd, tmp_path / "out", partition_by=["broker", "subscriber"])
    brokers = {row["broker"] for row in read_deliveries(spark, tmp_path / "out").select("broker").distinct().collect()}
    assert brokers == {"007", "a/b=c", None}
    with pytest.raises(ContentcastError, match="the matches have no column 'brokr'; did you mean 'broker'"):
        deliver(matches, tmp_path / "more", partition_by=["brokr"])
    assert visible(tmp_path) == ["out"]


def test_what_is_there_is_replaced_only_if_asked(spark: SparkSession, matches: DataFrame, tmp_path: Path) -> None:
    deliver(matches, tmp_path / "out")
    with pytest.raises(
        ContentcastError, match=r"out is already there; choose another folder, or replace it with overwrite=True"
    ):
        deliver(matches, tmp_path / "out")
    deliver(matches.where("subscription = 3"), tmp_path / "out", overwrite=True)
    assert {each for _, each in found_pairs(read_deliveries(spark, tmp_path / "out"))} == {3}


def test_a_job_that_fails_leaves_what_was_there(spark: SparkSession, matches: DataFrame, tmp_path: Path) -> None:
    deliver(matches, tmp_path / "out")
    failing = matches.withColumn(
        "broker", F.when(F.col("price") > 5, F.raise_error(F.lit("no more"))).otherwise(F.col("broker"))
    )
    for place in ("out", "new"):
        with pytest.raises(Exception, match="no more"):
            deliver(failing, tmp_path / place, overwrite=True)
    assert found_pairs(read_deliveries(spark, tmp_path / "out")) == oracle_pairs(TRADES, EVENTS, WANTED)
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    with pytest.raises(ContentcastError, match="new holds no deliveries"):
        read_deliveries(spark, tmp_path / "new")


# --- a stream


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    events = read_events(spark, folder, TRADES, stream=True, maxFilesPerTrigger=1)
    return match(events, subscription_table(WANTED), TRADES)


def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for start in (0, 5):
        pq.write_table(table_of(TRADES, EVENTS[start : start + 5], start), source / f"{start}.parquet")
        query = deliver(stream_of(spark, source), out, trigger={"availableNow": True})
        assert query is not None
        assert query.awaitTermination(120)
    found = read_deliveries(spark, out)
    assert found_pairs(found) == oracle_pairs(TRADES, EVENTS, WANTED)
    assert {row["batch"] for row in found.select("batch").distinct().collect()} == {0, 1}
    assert visible(out) == ["batch=000000000000", "batch=000000000001"]


def test_a_micro_batch_that_is_there_is_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    """As after a kill between the rename and Spark's own note that the micro-batch is done."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    pq.write_table(table_of(TRADES, EVENTS), source / "a.parquet")
    for _ in range(2):
        query = deliver(stream_of(spark, source), out, trigger={"availableNow": True})
        assert query is not None
        assert query.awaitTermination(120)
        for noted in (out / "_contentcast/checkpoint/commits").glob("*0*"):
            noted.unlink()
    assert found_pairs(read_deliveries(spark, out)) == oracle_pairs(TRADES, EVENTS, WANTED)


def test_another_stream_may_not_write_into_the_same_folder(spark: SparkSession, tmp_path: Path) -> None:
    """Its micro-batches would have the numbers of those that are there, and be taken for them."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    pq.write_table(table_of(TRADES, EVENTS), source / "a.parquet")
    for checkpoint, fails in (("one", False), ("two", True)):
        query = deliver(stream_of(spark, source), out, checkpoint=tmp_path / checkpoint, trigger={"availableNow": True})
        assert query is not None
        if fails:
            with pytest.raises(Exception, match="written by a stream with another checkpoint"):
                query.awaitTermination(120)
        else:
            assert query.awaitTermination(120)
    with pytest.raises(ContentcastError, match="have a column batch"):
        deliver(stream_of(spark, source).withColumn("batch", F.lit(1)), tmp_path / "more")
    with pytest.raises(ContentcastError, match="a stream goes on where it stopped"):
        deliver(stream_of(spark, source), tmp_path / "more", overwrite=True)


DRIVER = """
import sys
from contentcast.model import Space
from contentcast.spark import deliver, match, read_events, session

source, subscriptions, space, out = sys.argv[1:]
spark = session(master="local[2]", **{"spark.sql.shuffle.partitions": 2})
space = Space.load(space)
events = read_events(spark, source, space, stream=True, maxFilesPerTrigger=1)
query = deliver(match(events, subscriptions, space), out, trigger={"availableNow": True})
query.awaitTermination()
spark.stop()
"""


def kill_group(running: subprocess.Popen[str]) -> None:
    """The driver, its Java and its Python workers: as when the machine goes down."""
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(30)


def test_a_driver_that_is_killed_loses_nothing_and_delivers_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    market = scenario("market", seed=11)
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    files, each = 5, 100
    for number in range(files):
        events = pa.Table.from_batches([market.events(each, start=number * each)])
        numbers = pa.array(range(number * each, (number + 1) * each))
        pq.write_table(events.append_column(EVENT, numbers), source / f"{number:03d}.parquet")
    subscriptions = market.subscriptions(500)
    pq.write_table(pa.Table.from_batches([subscriptions]), tmp_path / "subscriptions.parquet")
    market.space.save(tmp_path / "space.json")
    words = [
        sys.executable,
        "-c",
        DRIVER,
        *map(str, (source, tmp_path / "subscriptions.parquet", tmp_path / "space.json", out)),
    ]

    running = subprocess.Popen(words, start_new_session=True, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and len(list(out.glob("batch=*"))) < 2:
        time.sleep(0.01)
    assert running.poll() is None, running.stderr.read() if running.stderr else ""
    kill_group(running)  # while it works on a later micro-batch
    done = {int(folder.name.partition("=")[2]) for folder in out.glob("batch=*")}
    assert 2 <= len(done) < files
    half = found_pairs(read_deliveries(spark, out))
    finished = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (finished.returncode, finished.stdout) == (0, ""), finished.stderr

    index = cc.MatchIndex(market.space)
    index.add_many(subscriptions["subscription"], subscriptions["predicate"])
    pairs = index.match_batch(market.events(files * each))
    expected = Counter(zip(pairs["event"].to_pylist(), pairs["subscription"].to_pylist(), strict=True))
    assert found_pairs(read_deliveries(spark, out)) == expected
    assert half == Counter({pair: 1 for pair in expected if pair[0] // each in done}), "whole micro-batches, and no part of one"
    scan = Scan(market.space)
    for subscription, text in zip(*(subscriptions[name].to_pylist() for name in ("subscription", "predicate")), strict=True):
        scan.add(subscription, cc.parse_predicate(market.space, text))
    for row, event in enumerate(market.events(60).to_pylist()):  # the index itself, against the oracle
        assert scan.match(event) == sorted(subscription for number, subscription in expected if number == row)
