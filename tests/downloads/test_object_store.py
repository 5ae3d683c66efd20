"""Deliveries into an object store by Hadoop's S3A: no rename, and still each micro-batch once, or not at all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import contentcast as cc
from contentcast.spark import deliver, match, read_deliveries, read_events
from contentcast.spark.delivery.deliver import Folder
from tests.downloads.servers import S3Server

TRADES = cc.Space("trades", issue="string", price="float")


@pytest.fixture(scope="module")
def bucket(store: S3Server) -> str:
    store.make_bucket("lake")
    return "s3a://lake"


def rows(spark: SparkSession, out: str) -> Counter[tuple[str, int, str]]:
    return Counter((row.issue, row.subscription, row.broker) for row in read_deliveries(spark, out).collect())


def test_a_stream_from_a_store_into_a_store(
    spark: SparkSession, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies twice: with rows that nobody says count, and with rows that count and that Spark has not noted."""
    out, arriving = f"{bucket}/matches", f"{bucket}/arriving"
    wanted = spark.createDataFrame([(7, "price < 120", "b1")], "subscription long, predicate string, broker string")
    events = spark.createDataFrame([("IBM", 100.0), ("SAP", 130.0)], "issue string, price double").coalesce(1)
    events.write.parquet(arriving)

    def take() -> None:
        stream = read_events(spark, arriving, TRADES, format="parquet", stream=True)
        query = deliver(match(stream, wanted, TRADES), out, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True})
        assert query is not None
        query.awaitTermination()

    put = Folder.put

    def dies(when: str) -> Any:
        def fatal(folder: Folder, name: str, text: str) -> None:
            batch = "/batches/" in name
            if batch and when == "before":
                raise OSError("before it counts")
            put(folder, name, text)
            if batch and when == "after":
                raise OSError("after it counts")

        return fatal

    for when in ("before", "after"):
        monkeypatch.setattr(Folder, "put", dies(when))
        with pytest.raises(StreamingQueryException, match=f"{when} it counts"):
            take()
    monkeypatch.setattr(Folder, "put", put)
    take()
    first = Counter({("IBM", 7, "b1"): 1})
    assert rows(spark, out) == first
    assert len(Folder(spark, out).names("attempts")) == 2, "one attempt does not count"
    spark.createDataFrame([("ABC", 1.0)], "issue string, price double").coalesce(1).write.mode("append").parquet(arriving)
    take()
    assert rows(spark, out) == first + Counter({("ABC", 7, "b1"): 1})


def test_a_batch_is_replaced_by_one_object(spark: SparkSession, bucket: str) -> None:
    out = f"{bucket}/once"
    rows_of = [("IBM", 7, "b1")]
    for issue in ("IBM", "SAP"):
        rows_of = [(issue, 7, "b1")]
        made = spark.createDataFrame(rows_of, "issue string, subscription long, broker string")
        deliver(made, out, overwrite=True)
    assert rows(spark, out) == Counter(rows_of)
