"""How much memory a worker's Python may take, if `spark.executor.pyspark.memory` limits it, and how much is left for data.

Spark divides that setting by the cores of an executor and limits the address space of each Python process (RLIMIT_AS). An
address space holds the programs too: Python with Numba, Arrow and Spark takes more than 1 GB of it before the first event.
Rule: what is left is measured in a worker, not guessed: it depends on the machine.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from contentcast.model.errors import ContentcastError

LIMIT: Final = "spark.executor.pyspark.memory"
INDEX_SHARE: Final = 0.6
"""Of what is left, for the index and the columns of the subscriptions; the rest is for events and matches."""
STATUS: Final = Path("/proc/self/status")


def limit_of_workers(spark: SparkSession) -> str | None:
    """As it was given to Spark: 3g."""
    found = spark.sparkContext.getConf().get(LIMIT)
    return None if found is None else str(found)


def memory_limit() -> int | None:
    """Of this process, in bytes."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def room_for_index(spark: SparkSession | None, count: int, columns: int) -> int | None:
    """How many bytes of an index a worker can map, beside the columns of so many subscriptions; None if it has no limit."""
    if spark is None or limit_of_workers(spark) is None:
        return None
    [left] = spark.sparkContext.parallelize([0], 1).mapPartitions(_left).collect()
    if left is None:
        return None
    room = int(left * INDEX_SHARE) - columns
    if room <= 0:
        raise ContentcastError(
            f"a worker may take {limit_of_workers(spark)} of memory ({LIMIT}), and its programs leave {left >> 20:,} MB: too "
            f"little for {count:,} subscriptions, whose columns alone take {columns >> 20:,} MB; allow it more, or drop "
            "columns that nobody needs"
        )
    return room


def _left(_: Iterable[int]) -> Iterator[int | None]:
    import contentcast.spark.match  # noqa: F401 - it takes its room

    limit = memory_limit()
    yield None if limit is None else max(0, limit - address_space())


def address_space() -> int:
    """How much of it this process has taken, in bytes."""
    [line] = [each for each in STATUS.read_text().splitlines() if each.startswith("VmSize:")]
    return int(line.split()[1]) * 1024
