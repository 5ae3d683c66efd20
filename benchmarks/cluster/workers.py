"""Two workers of one core each against one: files of events to a table of matches."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter

from pyspark.sql import SparkSession

from benchmarks.cluster.common import Part, on, target, two_workers, write_workload
from benchmarks.columns import SEED
from contentcast.spark import Prepared, deliver, match, prepare, read_events
from contentcast.spark.cluster.standalone import Cluster
from contentcast.workload import Scenario, scenario

WANTED = 1.6


def run(folder: Path, quick: bool) -> Part:
    events, subscriptions, rounds = (40_000, 5_000, 1) if quick else (400_000, 100_000, 3)
    market = scenario("market", seed=SEED)
    write_workload(market, folder, events, subscriptions)
    with two_workers(folder) as cluster:
        took = {cores: _batch(cluster, cores, folder, market, rounds) for cores in (1, 2)}
    speedup = took[1] / took[2]
    return Part(
        f"Files to table: {events:,} events, {subscriptions:,} subscriptions",
        ["workers of one core", "events/s", "ratio"],
        [
            ["one worker", f"{events / took[1]:,.0f}", "1.00"],
            ["two workers", f"{events / took[2]:,.0f}", f"{speedup:.2f}"],
        ],
        [target("two workers against one", speedup, WANTED)],
        {"events": events, "subscriptions": subscriptions, "rounds": rounds, "took_s": took},
    )


def _batch(cluster: Cluster, cores: int, folder: Path, market: Scenario, rounds: int) -> float:
    with on(cluster, cores) as spark:
        prepared = prepare(folder / "subscriptions.parquet", market.space)
        seconds = [_deliver(spark, folder, market, prepared) for _ in range(rounds + 1)]
        return median(seconds[1:])  # the first sends the index and starts the workers' Pythons


def _deliver(spark: SparkSession, folder: Path, market: Scenario, prepared: Prepared) -> float:
    events = read_events(spark, folder / "events", market.space)
    started = perf_counter()
    deliver(match(events, prepared, market.space, columns=["subscription", "broker"]), folder / "out", overwrite=True)
    return perf_counter() - started
