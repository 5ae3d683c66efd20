"""How far a stream has come: events in and rows out of each micro-batch, from what Spark says about its progress.

Rule: rows are counted on their way (`observe`), never by reading them again.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ROWS_OUT: Final = "rows_out"


def count_rows(rows: DataFrame) -> DataFrame:
    return rows.observe(ROWS_OUT, F.count(F.lit(1)).alias("count"))


def progress_of(query: Any) -> dict[int, tuple[int, int]]:
    """Micro-batch -> rows in and rows out, of the last hundred."""
    found = {}
    for each in query.recentProgress:
        seen = each.observedMetrics.get(ROWS_OUT)
        found[int(each.batchId)] = (int(each.numInputRows), 0 if seen is None else int(seen["count"]))
    return found
