"""`mapInArrow` for any column names: Spark's own takes a column named `firmware.version` for a field of a struct."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

Batches = Iterator[pa.RecordBatch]


def map_arrow(frame: DataFrame, function: Callable[[Batches], Batches], schema: StructType) -> DataFrame:
    names = frame.columns
    if not any("." in name or "`" in name for name in names):
        return frame.mapInArrow(function, schema)

    def renamed(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    renamed.__name__ = function.__name__  # as it stands in Spark's plan
    return frame.toDF(*(f"c{number}" for number in range(len(names)))).mapInArrow(renamed, schema)
