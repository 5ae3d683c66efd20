"""`match` in streams: the rows of the batch, and a subscription table that changes while the stream runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from contentcast.model import Space
from contentcast.spark import deliver, match, prepare, read_deliveries, read_events
from contentcast.workload import scenario
from tests.spark.oracle import EVENT, found_pairs, oracle_pairs, subscription_table, table_of

TRADES = Space("trades", issue="string", price="float")
EVENTS = [{"issue": "IBM", "price": float(each)} for each in range(6)]


@pytest.mark.parametrize("shards", [None, 3])
def test_a_stream_finds_what_a_batch_finds(spark: SparkSession, tmp_path: Path, shards: int | None) -> None:
    market = scenario("market", seed=5)
    for number in range(3):
        events = pa.Table.from_batches([market.events(70, start=70 * number)])
        pq.write_table(
            events.append_column(EVENT, pa.array(range(70 * number, 70 * number + 70))), tmp_path / f"{number}.parquet"
        )
    prepared = prepare(market.subscriptions(600), market.space, shards=shards)
    batch = match(read_events(spark, tmp_path, market.space), prepared, market.space)
    stream = match(read_events(spark, tmp_path, market.space, stream=True, maxFilesPerTrigger=1), prepared, market.space)
    assert stream.isStreaming
    assert stream.schema == batch.schema
    query = stream.writeStream.format("memory").queryName(f"matched{shards}").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert len([each for each in query.recentProgress if each["numInputRows"]]) == 3
    rows = batch.collect()
    assert len(rows) > 50
    assert Counter(map(str, spark.table(f"matched{shards}").collect())) == Counter(map(str, rows))


class Following:
    """A stream over a folder of events with a table of subscriptions in a file."""

    def __init__(self, spark: SparkSession, folder: Path, how: str) -> None:
        self.spark, self.folder, self.how = spark, folder, how
        self.source, self.table, self.out = folder / "in", folder / "wanted.parquet", folder / "out"
        self.source.mkdir()
        self.count = 0
        self.matches: Any = None

    def want(self, texts: dict[int, str], **more: Any) -> None:
        """The table is replaced by one rename, as one should."""
        part = self.folder / "part"
        table = subscription_table(texts)
        for name, value in more.items():
            table = table.append_column(name, pa.array([value] * len(table)))
        pq.write_table(table, part)
        part.replace(self.table)

    def start(self) -> Any:
        stream = read_events(self.spark, self.source, TRADES, stream=True)
        found = match(stream, self.table, TRADES)
        if self.how == "deliver":
            return deliver(found, self.out)
        return found.writeStream.format("memory").queryName("following").start()

    def publish(self, query: Any) -> Counter[tuple[int, int]]:
        """The same events once more; what they were delivered to."""
        before = found_pairs(self.delivered()) if self.count else Counter()
        pq.write_table(table_of(TRADES, EVENTS), self.source / f"{self.count}.parquet")
        self.count += 1
        query.processAllAvailable()
        return found_pairs(self.delivered()) - before

    def delivered(self) -> DataFrame:
        return read_deliveries(self.spark, self.out) if self.how == "deliver" else self.spark.table("following")


@pytest.mark.parametrize("how", ["deliver", "another sink"])
def test_a_changed_table_holds_from_the_next_micro_batch_on(spark: SparkSession, tmp_path: Path, how: str, caplog: Any) -> None:
    story = Following(spark, tmp_path, how)
    pq.write_table(table_of(TRADES, []), story.source / "first.parquet")  # so that the stream knows its columns
    first, second, third = {1: "price < 2"}, {1: "price < 3", 5: "issue = 'IBM'"}, {7: "price = 4"}
    story.want(first)
    query = story.start()
    try:
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, first)
        story.want(second)
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, second)
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, second)
        story.want(third | {8: "prise < 1"})
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, third), "a bad predicate stops no other"
        story.table.write_bytes(b"half a fi")
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, third), "the stream goes on with the last good table"
        story.want(first, weight=1.0)
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, third), "other columns need a new stream"
        story.want(first)
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, first)
    finally:
        query.stop()
    if how == "deliver":
        assert "cannot be used, the stream goes on with the rules that it had" in caplog.text
        assert "start the stream anew" in caplog.text


def test_a_table_that_is_a_folder_of_files(spark: SparkSession, tmp_path: Path) -> None:
    story = Following(spark, tmp_path, "deliver")
    pq.write_table(table_of(TRADES, []), story.source / "first.parquet")
    story.table = tmp_path / "wanted"
    story.table.mkdir()
    pq.write_table(subscription_table({1: "price < 2"}), story.table / "a.parquet")
    query = story.start()
    try:
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, {1: "price < 2"})
        pq.write_table(subscription_table({2: "price > 4"}), story.table / "b.parquet")
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, {1: "price < 2", 2: "price > 4"})
        (story.table / "a.parquet").unlink()
        assert story.publish(query) == oracle_pairs(TRADES, EVENTS, {2: "price > 4"})
    finally:
        query.stop()


def test_a_stream_looks_at_its_own_table_and_not_at_those_of_others(spark: SparkSession, tmp_path: Path, caplog: Any) -> None:
    """The table of a stream that has ended may be gone; a second query on the same matches still follows its table."""
    ended = a_stream(spark, tmp_path / "ended")
    query = deliver(ended.matches, ended.out)
    assert ended.publish(query) == oracle_pairs(TRADES, EVENTS, {1: "price < 2"})
    query.stop()
    ended.table.unlink()
    other = a_stream(spark, tmp_path / "other")
    first = deliver(other.matches.where("price >= 0"), other.out)
    assert other.publish(first) == oracle_pairs(TRADES, EVENTS, {1: "price < 2"})
    first.stop()
    assert caplog.text == ""
    other.out, other.count = tmp_path / "again", 0
    second = deliver(other.matches, other.out)
    try:
        other.want({5: "price > 3"})
        found = other.publish(second)
        other.want({7: "price = 4"})
        assert other.publish(second) == oracle_pairs(TRADES, EVENTS, {7: "price = 4"})
    finally:
        second.stop()
    assert set(found) == set(oracle_pairs(TRADES, EVENTS, {5: "price > 3"})), "the events of before, and once more"
    assert caplog.text == ""


def a_stream(spark: SparkSession, folder: Path) -> Following:
    folder.mkdir()
    story = Following(spark, folder, "deliver")
    pq.write_table(table_of(TRADES, []), story.source / "first.parquet")
    story.want({1: "price < 2"})
    story.matches = match(read_events(spark, story.source, TRADES, stream=True), story.table, TRADES)
    return story
