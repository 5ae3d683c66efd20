"""Deliveries into an object store, where a folder cannot be given its name by one rename.

    out/attempts/000000000012-5f2e/broker=b1/part-0.parquet     what one attempt at a micro-batch wrote
    out/_contentcast/batches/000000000012                       the attempt that counts: `000000000012-5f2e`

A rename in an object store copies each file and deletes the old one; whoever is killed between leaves a part of both. But one
object is there whole or not at all. So rows are written where no one looks for them, and one small object, the last thing that
is written, says that they count. A micro-batch that has such an object is not written again.
Rule: a reader takes the attempts that `batches` names, and no others; `read_deliveries` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

STORES: Final = ("s3a://", "s3://", "gs://", "abfs://", "abfss://", "wasb://", "wasbs://", "oss://")
BATCHES: Final = "_contentcast/batches"
ATTEMPTS: Final = "attempts"
NO_BATCH: Final = "all"
"""The name of what is no stream's: a batch."""


class Place(Protocol):
    path: str

    def exists(self, name: str = "") -> bool: ...
    def names(self, name: str) -> list[str]: ...
    def read(self, name: str) -> str | None: ...
    def put(self, name: str, text: str) -> None: ...


def needs_manifest(path: str) -> bool:
    return path.startswith(STORES)


def has_manifest(place: Place) -> bool:
    return place.exists(BATCHES)


def write_attempt(place: Place, batch: str, write: Callable[[str], None]) -> None:
    """`write(path)` writes the rows; they count when it returns. Nothing is done for a batch that is there."""
    if place.exists(f"{BATCHES}/{batch}"):
        return
    attempt = f"{batch}-{uuid4().hex}"
    write(f"{place.path}/{ATTEMPTS}/{attempt}")
    place.put(f"{BATCHES}/{batch}", attempt)


def replace_all(place: Place, write: Callable[[str], None]) -> None:
    """A batch in the place of another: the one object that names what counts is written anew."""
    attempt = f"{NO_BATCH}-{uuid4().hex}"
    write(f"{place.path}/{ATTEMPTS}/{attempt}")
    place.put(f"{BATCHES}/{NO_BATCH}", attempt)


def read_attempts(spark: SparkSession, place: Place, schema: StructType, batch_column: str) -> DataFrame:
    """Each attempt that counts, as one table; of a stream with the number of the micro-batch."""
    streamed = batch_column in schema.names
    inside = StructType([each for each in schema.fields if not (streamed and each.name == batch_column)])
    found = {batch: place.read(f"{BATCHES}/{batch}") for batch in place.names(BATCHES)}
    # An attempt without a row has no file, and Spark no table for it.
    paths = {batch: f"{place.path}/{ATTEMPTS}/{each}" for batch, each in found.items() if place.exists(f"{ATTEMPTS}/{each}")}
    parts = [
        _part(spark, path, inside, int(batch) if streamed else None, batch_column) for batch, path in sorted(paths.items())
    ]
    if not parts:
        return spark.createDataFrame([], schema)
    rows = parts[0]
    for each in parts[1:]:
        rows = rows.unionByName(each)
    return rows


def _part(spark: SparkSession, path: str, schema: StructType, batch: int | None, column: str) -> DataFrame:
    rows = spark.read.schema(schema).parquet(path)
    return rows if batch is None else rows.withColumn(column, F.lit(batch).cast("long"))
