"""10,000,000 subscriptions: built by two workers and matched there, against one process that has them in one index.

Then the same matching by workers that may take too little memory for one index (`spark.executor.pyspark.memory`, a limit of
each Python process): with shards, and with one index, which is told in one line.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import contentcast as cc
from benchmarks.cluster.common import Part, count_pairs, largest_python_mb, on, two_workers, write_events
from benchmarks.columns import SEED
from contentcast.spark import Prepared, match, prepare, read_events
from contentcast.spark.cluster.standalone import Cluster
from contentcast.workload import Scenario, scenario

DATA: Final = Path("build/benchmarks")
"""Drawing them takes longer than building them; they are kept for the next run."""
PARTS: Final = 10
LIMIT_SHARE, LIMIT_LEAST_MB = 0.75, 256
"""A limited worker has this share of the whole index beside its programs: too little for all of it, enough for a shard."""
REASON: Final = "cannot map index-0"


def run(folder: Path, quick: bool) -> Part:
    events, subscriptions = (500, 600_000) if quick else (4_000, 10_000_000)
    market = scenario("market", seed=SEED)
    table = subscriptions_in_files(subscriptions)
    write_events(pa.Table.from_batches([market.events(events)]), folder / "events")
    with get_context("spawn").Pool(1) as pool:  # a process of its own, whose memory is its own too
        alone = pool.apply(one_process, (table, folder))
    with two_workers(folder) as cluster:
        with on(cluster) as spark:
            programs_mb = _programs_mb(spark)
            started = perf_counter()
            prepared = prepare(table, market.space, folder=folder / "shared", shards=None if not quick else 6)
            build_s = perf_counter() - started
            build_mb = largest_python_mb(spark)
        matched = [_matched(cluster, folder, prepared, market, rounds=2)]
        limit = programs_mb + max(LIMIT_LEAST_MB, int(LIMIT_SHARE * (folder / "whole").stat().st_size) >> 20)
        matched.append(_matched(cluster, folder, prepared, market, 2, **{"spark.executor.pyspark.memory": f"{limit}m"}))
        told = _whole_under_limit(cluster, folder, market, limit)
    two, limited = matched
    assert alone["pairs"] == two["pairs"] == limited["pairs"]
    rows = [
        _row("one process, one index", alone["build_s"], alone["build_mb"], alone["match_s"], alone["match_mb"], events),
        _row(f"two workers, {prepared.shards.count} shards", build_s, build_mb, two["match_s"], two["mb"], events),
        _row(f"two workers of {limit:,} MB each", None, None, limited["match_s"], limited["mb"], events),
    ]
    driver_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return Part(
        f"{subscriptions:,} subscriptions; {events:,} events have {two['pairs']:,} matches",
        ["where", "build", "its memory", "match, events/s", "its memory"],
        rows,
        [
            f"{subscriptions:,} subscriptions: two workers build in {build_s / alone['build_s']:.2f} of the time of one "
            f"process, and match {alone['match_s'] / two['match_s']:.2f} times as fast. Memory is that of the largest Python "
            f"process; the driver's took {driver_mb:,} MB.",
            f"One index for workers of {limit:,} MB each: {told}",
        ],
        {
            "events": events,
            "subscriptions": subscriptions,
            "shards": prepared.shards.count,
            "alone": alone,
            "build_s": build_s,
            "build_mb": build_mb,
            "two": two,
            "limited": limited,
            "programs_mb": programs_mb,
            "limit_mb": limit,
            "driver_mb": driver_mb,
            "index_bytes": sum(each.stat().st_size for each in (folder / "shared").glob("*-index-*")),
        },
    )


def _row(where: str, build_s: float | None, build_mb: int | None, match_s: float, match_mb: int, events: int) -> list[str]:
    built = ["as above", ""] if build_s is None else [f"{build_s:.0f} s", f"{build_mb:,} MB"]
    return [where, *built, f"{events / match_s:,.0f}", f"{match_mb:,} MB"]


# --- subscriptions


def subscriptions_in_files(count: int) -> Path:
    folder = DATA / f"market-{count}-{SEED}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            list(pool.map(_draw, [(folder, part, count // PARTS) for part in range(PARTS)]))
        (folder / "done").touch()
    return folder


def _draw(told: tuple[Path, int, int]) -> None:
    folder, part, count = told
    drawn = pa.Table.from_batches([scenario("market", seed=SEED).subscriptions(count, start=part * count)])
    pq.write_table(drawn, folder / f"{part}.parquet")


# --- one process


def one_process(table: Path, folder: Path) -> dict[str, Any]:
    from contentcast.warming.background import kernels

    kernels.wait()
    space = scenario("market", seed=SEED).space
    events = pq.read_table(folder / "events")
    started = perf_counter()
    subscriptions = pq.read_table(sorted(table.glob("*.parquet")))
    index = cc.MatchIndex(space)
    index.add_many(subscriptions["subscription"], subscriptions["predicate"])
    index.save(folder / "whole")
    build_s, build_mb = perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    seconds = []
    for _ in range(2):
        started = perf_counter()
        pairs = sum(len(found["subscriptions"].values) for found in index.match_list_stream(events.to_batches()))
        seconds.append(perf_counter() - started)
    match_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"build_s": build_s, "build_mb": build_mb, "match_s": seconds[-1], "match_mb": match_mb, "pairs": pairs}


# --- on the cluster


def _programs_mb(spark: SparkSession) -> int:
    """The address space of a worker's Python that has loaded what matching needs."""

    def look(_: Iterable[int]) -> Iterator[int]:
        import contentcast.spark.match  # noqa: F401 - it takes its room
        from contentcast.spark.cluster.room import address_space

        yield address_space()

    return max(spark.sparkContext.parallelize([0, 1], 2).mapPartitions(look).collect()) >> 20


def _matched(
    cluster: Cluster, folder: Path, prepared: Prepared, market: Scenario, rounds: int, **conf: object
) -> dict[str, Any]:
    with on(cluster, **conf) as spark:
        seconds, pairs = [], 0
        for _ in range(rounds):  # the first starts the workers' Pythons
            started = perf_counter()
            events = read_events(spark, folder / "events", market.space)
            pairs = count_pairs(match(events, prepared, market.space, lists=True, columns=[]))
            seconds.append(perf_counter() - started)
        return {"match_s": seconds[-1], "pairs": pairs, "mb": largest_python_mb(spark)}


def _whole_under_limit(cluster: Cluster, folder: Path, market: Scenario, limit_mb: int) -> str:
    """What is said when one index is too large for a worker."""
    with on(cluster, **{"spark.executor.pyspark.memory": f"{limit_mb}m"}) as spark:
        whole = prepare(cc.MatchIndex.load(folder / "whole"), market.space, folder=folder / "shared-whole")
        events = read_events(spark, folder / "events", market.space)
        try:
            count_pairs(match(events, whole, market.space, lists=True, columns=[]))
        except PySparkException as error:
            found = [line for line in str(error).splitlines() if REASON in line]
            if found:
                return found[0].rpartition("ContentcastError: ")[2]
            raise
    return "it fits; the limit is too high to show anything"
