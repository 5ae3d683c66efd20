"""Makes the format `contentcast` known to a session, where its Spark can have it.

The format's streams need what Spark's Python sources have from 4.2 on. Spark 4.1, which Iceberg's newest release is for, runs
all other steps.
"""

from __future__ import annotations

from typing import Final

import pyspark
from pyspark.sql import SparkSession

OLDEST: Final = (4, 2)


def register(spark: SparkSession) -> None:
    """Makes the format known to the session. `contentcast.spark.session` has done it."""
    if tuple(int(each) for each in pyspark.__version__.split(".")[:2]) < OLDEST:
        return
    from contentcast.spark.format.source import PUSHDOWN, Contentcast

    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(Contentcast)
