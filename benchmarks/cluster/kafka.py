"""A topic of Kafka to a table against files to a table, both as streams, where Kafka's packages were fetched."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from pyspark.sql import functions as F

from benchmarks.cluster.common import FILES, Part, target, write_workload
from benchmarks.columns import SEED
from contentcast.spark import Prepared, Topic, deliver, ingest, match, prepare, read_events, session
from contentcast.spark.outside.kafka import read_messages, write_messages
from contentcast.workload import Scenario, scenario
from requirements import jars

WANTED = 0.5


def run(folder: Path, quick: bool) -> Part | None:
    if not (jars.is_there("kafka") and jars.is_there("kafka-server")):
        return None
    events, subscriptions, rounds = (40_000, 5_000, 1) if quick else (400_000, 100_000, 3)
    market = scenario("market", seed=SEED)
    write_workload(market, folder, events, subscriptions)
    took = _streams(folder, market, rounds)
    share = took["files"] / took["kafka"]
    return Part(
        f"A stream of JSON to a table, local[2]: {events:,} events, {subscriptions:,} subscriptions",
        ["source", "events/s", "ratio"],
        [
            ["files", f"{events / took['files']:,.0f}", "1.00"],
            ["kafka", f"{events / took['kafka']:,.0f}", f"{share:.2f}"],
        ],
        [target("Kafka to table against files to table", share, WANTED)],
        {"events": events, "subscriptions": subscriptions, "rounds": rounds, "took_s": took},
    )


def _streams(folder: Path, market: Scenario, rounds: int) -> dict[str, float]:
    from tests.downloads.servers import KafkaBroker

    (folder / "kafka").mkdir()
    broker = KafkaBroker(folder / "kafka", partitions=FILES).start()
    packages = ",".join(str(each) for each in sorted(jars.folder_of("kafka").glob("*.jar")))
    spark = session(master="local[2]", **{"spark.jars": packages, "spark.sql.shuffle.partitions": 2})
    try:
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
        spark.stop()
        broker.stop()


def _stream(events: Any, prepared: Prepared, market: Scenario, out: Path) -> float:
    matches = match(events, prepared, market.space, columns=["subscription", "broker"])
    started = perf_counter()
    query = deliver(matches, out, trigger={"availableNow": True})
    assert query is not None
    query.awaitTermination()
    return perf_counter() - started
