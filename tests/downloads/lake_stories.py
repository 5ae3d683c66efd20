"""The stories of a lake, told by a Spark that has the format: `python lake_stories.py FORMAT FOLDER PACKAGES`.

Delta and Iceberg have no release for the Spark of the other tests, so this runs as a program of its own, with a Spark of its
own in PYTHONPATH. It prints a line for each story that came out as it should.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import StreamingQueryException

import contentcast as cc
from contentcast.spark import LakeRules, LakeTable, deliver_to_table, ingest, match, read_lake, session
from contentcast.spark.outside import lake
from contentcast.spark.outside.addresses import DELTA_SETTINGS, ICEBERG_SETTINGS

TRADES = cc.Space("trades", issue="string", price="float")
EVENTS, RULES, MATCHES = "issue string, price double", "subscription long, predicate string", "issue string, subscription long"


class Lake:
    def __init__(self, format: str, folder: Path, packages: str) -> None:
        catalog = {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(folder / "warehouse"),
            "spark.sql.catalog.lake.cache-enabled": "false",  # a stream has a session of its own, with a cache of its own
        }
        few = {"spark.databricks.delta.snapshotPartitions": 1}  # of 50 for a log of a few lines
        settings = DELTA_SETTINGS | few if format == "delta" else ICEBERG_SETTINGS | catalog
        self.format, self.folder = format, folder
        self.spark = session(
            master="local[2]",
            **{"spark.jars": packages, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": 1, **settings},
        )

    def table(self, name: str, schema: str) -> LakeTable:
        if self.format == "delta":
            made = LakeTable("delta", str(self.folder / name))
            self.spark.createDataFrame([], schema).write.format("delta").save(made.place)
        else:
            made = LakeTable("iceberg", f"lake.db.{name}")
            self.spark.sql(f"CREATE TABLE {made.place} ({schema}) USING iceberg")
        return made

    def append(self, table: LakeTable, rows: list[Any], schema: str) -> None:
        self.spark.createDataFrame(rows, schema).coalesce(1).write.format(table.format).mode("append").save(table.place)

    def replace(self, table: LakeTable, rows: list[Any], schema: str) -> None:
        self.spark.createDataFrame(rows, schema).coalesce(1).write.format(table.format).mode("overwrite").save(table.place)

    def found(self, table: LakeTable) -> Counter[tuple[str, int]]:
        return Counter((row.issue, row.subscription) for row in read_lake(self.spark, table).collect())


def tell(here: Lake) -> None:
    spark = here.spark
    events, rules, out = here.table("trades", EVENTS), here.table("rules", RULES), here.table("matches", MATCHES)
    here.append(events, [("IBM", 100.0), ("SAP", 130.0)], EVENTS)
    here.append(rules, [(7, "price < 120"), (8, "issue = 'SAP'")], RULES)
    then_events, then_rules, then = lake.version_of(spark, events), lake.version_of(spark, rules), datetime.now(UTC)

    def stream() -> None:
        arriving = ingest(read_lake(spark, events, stream=True), TRADES)
        matches = match(arriving, LakeRules(rules), TRADES, columns=["issue", "subscription"])
        query = deliver_to_table(matches, out, str(here.folder / "checkpoint"), trigger={"availableNow": True})
        assert query is not None
        query.awaitTermination()

    first = Counter({("IBM", 7): 1, ("SAP", 8): 1})
    batch = match(ingest(read_lake(spark, events), TRADES), LakeRules(rules), TRADES, columns=["issue", "subscription"])
    assert Counter((row.issue, row.subscription) for row in batch.collect()) == first
    say("batch", "events and subscriptions of tables")

    append = lake._append

    def dies(rows: Any, table: LakeTable, options: Any) -> None:
        append(rows, table, options)
        raise RuntimeError("after the write, before Spark notes the micro-batch")

    lake._append = dies
    with pytest.raises(StreamingQueryException, match="after the write"):
        stream()
    lake._append = append
    assert here.found(out) == first
    stream()
    assert here.found(out) == first
    say("once", "a micro-batch that was written and not noted is not written again")

    here.replace(rules, [(9, "price > 1000")], RULES)
    here.append(events, [("ABC", 1.0), ("XYZ", 2000.0)], EVENTS)
    stream()
    assert here.found(out) == first + Counter({("XYZ", 9): 1}), here.found(out)
    say("rules", "a change takes effect at the next micro-batch")

    for of_events, of_rules in ((then_events, then_rules), (then, then)):
        past = ingest(read_lake(spark, events, as_of=of_events), TRADES)
        of_then = match(past, LakeRules(rules, as_of=of_rules), TRADES, columns=["issue", "subscription"])
        assert Counter((row.issue, row.subscription) for row in of_then.collect()) == first
    with pytest.raises(cc.ContentcastError, match="has no version that is as old as 2000-01-01 00:00:00"):
        read_lake(spark, events, as_of=datetime(2000, 1, 1))
    say("travel", "events of then with the subscriptions of then")


def say(story: str, what: str) -> None:
    print(json.dumps({"story": story, "what": what, "spark": pyspark.__version__}), flush=True)


if __name__ == "__main__":
    told = Lake(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    try:
        tell(told)
    finally:
        told.spark.stop()
