"""A transform's text is a query in Spark SQL, and says the same there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from contentcast.language.transforms import parse_transform
from tests.unit.language.test_transforms import EVENTS, PORTABLE, TOTAL, TOTALS, TRADES, batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_runs_the_same_text(spark: SparkSession):
    spark.createDataFrame(pa.Table.from_batches([batch(*EVENTS).records])).createOrReplaceTempView("trades")
    said = ", ".join(f"{expression} AS c{at}" for at, (expression, _) in enumerate(PORTABLE))
    rows = spark.sql(f"SELECT {said} FROM trades").collect()
    for at, (expression, attribute) in enumerate(PORTABLE):
        derived = parse_transform(TRADES, TOTALS, f"SELECT {expression} AS {attribute} FROM trades").by_columns(batch(*EVENTS))
        assert [row[at] for row in rows] == derived.records.column(attribute).to_pylist(), expression
    rows = spark.sql(TOTAL.text or "").collect()
    assert [row.asDict() for row in rows] == TOTAL.by_columns(batch(*EVENTS)).records.select(
        ["symbol", "amount", "exchange"]
    ).to_pylist()
