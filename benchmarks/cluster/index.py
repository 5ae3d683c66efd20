"""The index of a million subscriptions on its way to workers that share no folder with the driver: as a file of the job."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from pyspark.sql import SparkSession

from benchmarks.cluster.common import Part, count_pairs, on, two_workers, write_workload
from benchmarks.columns import SEED
from contentcast.spark import Prepared, match, prepare, read_events
from contentcast.workload import Scenario, scenario

JOBS = 3


def run(folder: Path, quick: bool) -> Part:
    events, subscriptions = (2_000, 50_000) if quick else (8_000, 1_000_000)
    market = scenario("market", seed=SEED)
    write_workload(market, folder, events, subscriptions)
    with two_workers(folder) as cluster, on(cluster) as spark:
        started = perf_counter()
        prepared = prepare(folder / "subscriptions.parquet", market.space)
        built = perf_counter() - started
        took = [_match(spark, folder, prepared, market) for _ in range(JOBS)]
        copies = copied(folder / "cluster")
    sizes = {file.name: file.stat().st_size for file in Path(prepared.folder).glob("*-index-*")}
    size = sum(sizes.values())
    rows = [["built by the driver", f"{built:.1f} s", ""]]
    rows += [
        [f"job {number}", f"{seconds:.1f} s", f"{took[0] - seconds:.1f} s less than the first" if number > 1 else "copies it"]
        for number, seconds in enumerate(took, start=1)
    ]
    rows += [[f"copies at {name}, after {JOBS} jobs", f"{count}", f"{size >> 20:,} MB each"] for name, count in copies.items()]
    return Part(
        f"The index of {subscriptions:,} subscriptions reaches two workers; {events:,} events in each job",
        ["what", "took, or count", ""],
        rows,
        [],
        {"events": events, "subscriptions": subscriptions, "build_s": built, "jobs_s": took, "copies": copies, "bytes": size},
    )


def _match(spark: SparkSession, folder: Path, prepared: Prepared, market: Scenario) -> float:
    started = perf_counter()
    count_pairs(match(read_events(spark, folder / "events", market.space), prepared, market.space, lists=True, columns=[]))
    return perf_counter() - started


def copied(cluster: Path) -> dict[str, int]:
    """How many copies of an index lie with each worker: in the folders of its executors, and in Spark's own cache of files."""
    return {each.name: len(list((each / "work").rglob("contentcast-*-index-0"))) for each in sorted(cluster.glob("worker-*"))}
