"""cluster: two workers of one core each against one, and a topic of Kafka to a table against files to a table, in the same run.

A standalone cluster on this machine; on one with two cores the driver, the master and the workers share them. Kafka is measured
where its packages were fetched (`make test-cluster`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.columns import SEED
from benchmarks.report import Result, Table
from contentcast.spark import Prepared, Topic, deliver, ingest, match, prepare, read_events, session
from contentcast.spark.cluster import standalone
from contentcast.spark.outside.kafka import read_messages, write_messages
from contentcast.workload import Scenario, scenario
from requirements import jars

WORKERS_TARGET, KAFKA_TARGET = 1.6, 0.5
FILES: Final = 8


def run(quick: bool = False) -> Result:
    events, subscriptions, rounds = (40_000, 5_000, 1) if quick else (400_000, 100_000, 3)
    market = scenario("market", seed=SEED)
    with tempfile.TemporaryDirectory(prefix="contentcast-bench-") as name:
        folder = Path(name)
        _write(market, folder, events, subscriptions)
        # First, because a Java takes packages only when it starts.
        streams = _streams(folder, market, rounds) if jars.is_there("kafka") and jars.is_there("kafka-server") else None
        cluster = standalone.start(folder / "cluster", workers=2, cores=1)
        try:
            took = {cores: _batch(cluster.url, cores, folder, market, rounds) for cores in (1, 2)}
        finally:
            standalone.stop(cluster)
    speedup = took[1] / took[2]
    rows = [
        ["one worker", f"{events / took[1]:,.0f}", "1.00"],
        ["two workers", f"{events / took[2]:,.0f}", f"{speedup:.2f}"],
    ]
    tables = [Table("Files to table, on a cluster", ["workers of one core", "events/s", "ratio"], rows)]
    notes = [_target("two workers against one", speedup, WORKERS_TARGET)]
    if streams is not None:
        share = streams["files"] / streams["kafka"]
        tables.append(
            Table(
                "A stream of JSON to a table, local[2]",
                ["source", "events/s", "ratio"],
                [
                    ["files", f"{events / streams['files']:,.0f}", "1.00"],
                    ["kafka", f"{events / streams['kafka']:,.0f}", f"{share:.2f}"],
                ],
            )
        )
        notes.append(_target("Kafka to table against files to table", share, KAFKA_TARGET))
    return Result(
        "cluster",
        "Spark on a cluster, and from Kafka",
        [f"{events:,} events of the `market` workload against {subscriptions:,} subscriptions; medians of {rounds} rounds."],
        tables,
        notes,
        {"events": events, "subscriptions": subscriptions, "batch_s": took, "stream_s": streams},
        quick,
    )


def _target(what: str, ratio: float, wanted: float) -> str:
    return f"Target for {what}: {wanted}; {'held' if ratio >= wanted else 'missed'} with {ratio:.2f}."


def _write(market: Scenario, folder: Path, events: int, subscriptions: int) -> None:
    table = pa.Table.from_batches([market.events(events)])
    (folder / "events").mkdir()
    for number in range(FILES):
        pq.write_table(table.slice(number * events // FILES, events // FILES), folder / "events" / f"{number}.parquet")
    pq.write_table(pa.Table.from_batches([market.subscriptions(subscriptions)]), folder / "subscriptions.parquet")


def _batch(master: str, cores: int, folder: Path, market: Scenario, rounds: int) -> float:
    spark = session(master=master, **{"spark.cores.max": cores, "spark.sql.shuffle.partitions": 2})
    try:
        prepared = prepare(folder / "subscriptions.parquet", market.space)
        seconds = [_deliver(spark, folder, market, prepared) for _ in range(rounds + 1)]
        return median(seconds[1:])  # the first sends the index and starts the workers' Pythons
    finally:
        spark.stop()


def _deliver(spark: SparkSession, folder: Path, market: Scenario, prepared: Prepared) -> float:
    events = read_events(spark, folder / "events", market.space)
    started = perf_counter()
    deliver(match(events, prepared, market.space, columns=["subscription", "broker"]), folder / "out", overwrite=True)
    return perf_counter() - started


def _streams(folder: Path, market: Scenario, rounds: int) -> dict[str, float]:
    from tests.downloads.servers import KafkaBroker

    (folder / "kafka").mkdir()
    broker = KafkaBroker(folder / "kafka", partitions=FILES).start()
    try:
        with _local() as spark:
            topic = Topic(broker.servers, "events")
            lines = spark.read.parquet(str(folder / "events")).select(F.to_json(F.struct("*")).alias("value"))
            lines.write.text(str(folder / "lines"))
            write_messages(lines, topic)
            prepared = prepare(folder / "subscriptions.parquet", market.space)
            found: dict[str, list[float]] = {"files": [], "kafka": []}
            for number in range(rounds + 1):
                for source, seconds in found.items():
                    if source == "files":
                        events = read_events(spark, folder / "lines", market.space, format="jsonl", stream=True)
                    else:
                        events = ingest(read_messages(spark, topic, stream=True).select("value"), market.space, json="value")
                    seconds.append(_stream(events, prepared, market, folder / f"{source}-{number}"))
            return {source: median(seconds[1:]) for source, seconds in found.items()}
    finally:
        broker.stop()


def _stream(events: Any, prepared: Prepared, market: Scenario, out: Path) -> float:
    matches = match(events, prepared, market.space, columns=["subscription", "broker"])
    started = perf_counter()
    query = deliver(matches, out, trigger={"availableNow": True})
    assert query is not None
    query.awaitTermination()
    return perf_counter() - started


@contextmanager
def _local() -> Iterator[SparkSession]:
    packages = ",".join(str(each) for each in sorted(jars.folder_of("kafka").glob("*.jar")))
    spark = session(master="local[2]", **{"spark.jars": packages, "spark.sql.shuffle.partitions": 2})
    try:
        yield spark
    finally:
        spark.stop()
