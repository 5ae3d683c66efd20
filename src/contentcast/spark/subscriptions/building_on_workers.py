"""The shards of a large table built by the workers, in a folder that driver and workers share.

    folder/...-texts           the predicates (Arrow IPC), written by the driver and mapped by the workers
    folder/...-rows-3-0        the rows of shard 3 among the first block of predicates, found by the task of that block
    folder/...-index-3         the index of shard 3, built by one task of all the rows that the blocks found for it

Two jobs: the first reads the predicates, a block of them in each task, and the second builds, a shard in each task. Only the
predicates that are refused come back to the driver.
Rule: each file appears whole under its name, so a task that is run again, or twice, does no harm. Texts and rows are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import contentcast as cc
from contentcast.model.errors import ContentcastError
from contentcast.model.space import Space
from contentcast.spark.cluster.probe import check_shared
from contentcast.spark.cluster.room import limit_of_workers
from contentcast.spark.subscriptions.building import file_columns, replace_file, write_arrow
from contentcast.spark.subscriptions.shards import ONE, Ints, Shards, split_block, take_rows
from contentcast.spark.subscriptions.tables import Checked

BUILD_ON_WORKERS_FROM: Final = 500_000
"""Below, the driver is done before the workers' Pythons have started."""
BLOCKS_EACH: Final = 2
"""Blocks for each core: the last one to end keeps the others waiting for half as long."""
MOST_IN_BLOCK: Final = 1_000_000

Paths = Callable[[str], Path]


def can_build(spark: SparkSession, shards: Shards, count: int) -> bool:
    """Whether it is worth it, and whether they have the memory: building takes several times that of matching."""
    large = shards != ONE and count >= BUILD_ON_WORKERS_FROM and spark.sparkContext.defaultParallelism > 1
    return large and limit_of_workers(spark) is None


def build_on_workers(spark: SparkSession, space: Space, shards: Shards, checked: Checked, path: Paths) -> int:
    """The files of a table; returns how many of its rows were refused."""
    check_shared(spark, [], [path("texts").parent])
    context = spark.sparkContext
    count = len(checked.texts)
    size = min(MOST_IN_BLOCK, -(-count // (BLOCKS_EACH * context.defaultParallelism)))
    starts = range(0, count, size)
    texts = pa.table({"text": checked.texts})
    try:
        write_arrow(texts, path("texts"))
        refused = context.parallelize(starts, len(starts)).mapPartitions(partial(_read, space, shards, path, size)).collect()
        numbers = range(shards.count)
        job = context.parallelize(numbers, len(numbers)).mapPartitions(partial(_build, space, list(starts), path))
        job.collect()
    finally:
        for left in path("texts").parent.glob(f"{path('rows-').name}*"):
            left.unlink(missing_ok=True)
        path("texts").unlink(missing_ok=True)
    return file_columns(shards, checked, {row: ContentcastError(reason) for row, reason in refused}, path)


# --- on a worker


def _read(space: Space, shards: Shards, path: Paths, size: int, starts: Iterable[int]) -> Iterator[tuple[int, str]]:
    texts = _texts(path)
    for start in starts:
        rows, errors = split_block(space, texts.slice(start, size), shards, start)
        for shard, found in enumerate(rows):
            replace_file(path(f"rows-{shard}-{start}"), partial(_save, found))
        yield from ((row, str(error)) for row, error in errors.items())


def _build(space: Space, starts: list[int], path: Paths, shards: Iterable[int]) -> Iterator[int]:
    texts = _texts(path)
    for shard in shards:
        rows = np.concatenate([np.load(path(f"rows-{shard}-{start}")) for start in starts])
        index = cc.MatchIndex(space)
        index.add_many(rows, take_rows(texts, rows))
        replace_file(path(f"index-{shard}"), index.save)
        yield shard


def _texts(path: Paths) -> pa.ChunkedArray:
    return pa.ipc.open_file(pa.memory_map(str(path("texts")))).read_all()["text"]


def _save(rows: Ints, path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, rows)
