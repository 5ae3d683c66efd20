"""Which tables of subscriptions a stream follows: those of its own plan, and no others.

    match(trades, "desks.csv", space)    plan: MapInArrow contentcast_5f2e0c71b9aa(symbol, price)
    deliver(...)                         finds 5f2e0c71b9aa in the plan, and looks at desks.csv before each micro-batch

A DataFrame does not know the Python objects that it was made with, and what is derived from it (`where`, `select`) is a new
object. But the plan keeps the name of the function that matches, and so the table's key is in that name.
Rule: a query looks at its tables as long as it runs. A table whose queries have all ended is looked at by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from contentcast.spark.subscriptions.indexes import Prepared

_NAMED: Final = "contentcast_"
_IN_PLAN: Final = re.compile(_NAMED + r"([0-9a-f]+)\(")
_FOLLOWED: Final[dict[str, Prepared]] = {}
"""By key, for the queries that are yet to start. An entry is small, and a query may start again long after another ended."""

Batches = Iterator[pa.RecordBatch]


def follow(prepared: Prepared, function: Callable[[Batches], Batches]) -> None:
    """`function` matches a stream with this table: every query that runs it looks at the table."""
    function.__name__ = f"{_NAMED}{prepared.key}"
    _FOLLOWED[prepared.key] = prepared


def followed_by(matches: DataFrame) -> list[Prepared]:
    """The tables that a stream with these matches follows."""
    of_spark: Any = matches
    plan = str(of_spark._jdf.queryExecution().analyzed().toString())
    return [_FOLLOWED[key] for key in dict.fromkeys(_IN_PLAN.findall(plan)) if key in _FOLLOWED]


def tell_versions(spark: SparkSession, tables: Sequence[Prepared]) -> None:
    """Before a micro-batch: what has changed is built, and the jobs of this thread are told which version to take."""
    for prepared in tables:
        version = prepared.latest()
        prepared.ship(spark, version)
        spark.sparkContext.setLocalProperty(prepared.told_as, version)
