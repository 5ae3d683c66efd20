"""What the parts share: their result, data in files, a cluster, sessions on it, and how much memory was taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from contentcast.spark import session
from contentcast.spark.cluster import standalone
from contentcast.spark.cluster.standalone import Cluster
from contentcast.workload import Scenario

FILES: Final = 8
LIST: Final = "subscriptions"


class Part(NamedTuple):
    """One table of the page. `data`: the bare numbers."""

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]
    data: dict[str, Any]


def target(what: str, ratio: float, wanted: float) -> str:
    return f"Target for {what}: {wanted}; {'held' if ratio >= wanted else 'missed'} with {ratio:.2f}."


def write_events(table: pa.Table, folder: Path) -> Path:
    folder.mkdir(parents=True)
    size = -(-table.num_rows // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")
    return folder


def write_workload(market: Scenario, folder: Path, events: int, subscriptions: int) -> None:
    write_events(pa.Table.from_batches([market.events(events)]), folder / "events")
    pq.write_table(pa.Table.from_batches([market.subscriptions(subscriptions)]), folder / "subscriptions.parquet")


@contextmanager
def two_workers(folder: Path, memory: str = "1g") -> Iterator[Cluster]:
    cluster = standalone.start(folder / "cluster", workers=2, cores=1, memory=memory)
    try:
        yield cluster
    finally:
        standalone.stop(cluster)


@contextmanager
def on(cluster: Cluster, cores: int = 2, **conf: object) -> Iterator[SparkSession]:
    spark = session(master=cluster.url, **{"spark.cores.max": cores, "spark.sql.shuffle.partitions": 2, **conf})
    try:
        yield spark
    finally:
        spark.stop()


def count_pairs(lists: DataFrame) -> int:
    """Of what `match(..., lists=True)` gives: the matches leave Python and are counted by Spark."""
    [row] = lists.agg(F.sum(F.size(LIST)).alias("pairs")).collect()
    return int(row["pairs"] or 0)


def largest_python_mb(spark: SparkSession) -> int:
    """Of the workers' Python processes, the files included that they have mapped and looked into."""
    tasks = 4 * spark.sparkContext.defaultParallelism

    def largest(_: Iterable[int]) -> Iterator[int]:  # inside, so that it travels as code: workers have no benchmarks
        import resource

        yield resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    return max(spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(largest).collect()) >> 10
