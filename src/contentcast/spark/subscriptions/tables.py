"""A table of subscriptions as it comes to Spark: a DataFrame, Arrow, files, or something that a stream follows.

Rule: what a row must be, and why it is refused, is said in `files.subscription_table`; here columns get the types of Spark.
"""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from contentcast.files import subscription_table
from contentcast.files.subscription_table import (
    GIVEN_ALREADY,
    ID,
    REASON,
    REFUSED,
    TEXT,
    Checked,
    FileTable,
    has_clash,
    plain_columns,
    renamed,
)
from contentcast.model.errors import ContentcastError

__all__ = [
    "GIVEN_ALREADY",
    "ID",
    "REASON",
    "REFUSED",
    "TEXT",
    "Checked",
    "FileTable",
    "Followed",
    "SubscriptionTable",
    "arrow_schema",
    "check_table",
    "has_clash",
    "read_table",
    "renamed",
    "spark_schema",
]


@runtime_checkable
class Followed(Protocol):
    """Subscriptions that may change while a stream runs: files, a topic, a table with versions. It travels to the workers."""

    @property
    def has_columns(self) -> bool:
        """Whether it says which columns it has, as tables do. A topic does not: its columns are what its messages have."""
        ...

    def fingerprint(self) -> str:
        """Changes when the table does; a word that can stand in the name of a file."""
        ...

    def read(self) -> pa.Table: ...


SubscriptionTable: TypeAlias = DataFrame | pa.Table | pa.RecordBatch | Followed | str | Path


def read_table(subscriptions: SubscriptionTable, id: str = ID, predicate: str = TEXT) -> pa.Table:
    """All rows, on the driver: a million subscriptions are about 100 MB of text."""
    match subscriptions:
        case DataFrame():
            if subscriptions.isStreaming:
                raise ContentcastError(
                    "subscriptions come as a table, not as a stream; a stream reads a table again that is given by its path"
                )
            return renamed(subscriptions.toArrow(), id, predicate)
        case pa.RecordBatch():
            return renamed(pa.Table.from_batches([subscriptions]), id, predicate)
        case pa.Table():
            return renamed(subscriptions, id, predicate)
        case Followed():
            return subscriptions.read()
        case str() if "://" in subscriptions:
            raise ContentcastError(
                f"{subscriptions}: let Spark read it, match(events, spark.read.parquet({subscriptions!r}), space)"
            )
        case str() | Path():
            return FileTable(Path(subscriptions), id, predicate).read()
    raise ContentcastError(
        f"subscriptions come as a DataFrame or as the path of a table, not as {type(subscriptions).__name__}"
    )


def check_table(table: pa.Table) -> Checked:
    """With the columns in the Arrow types that Spark takes from a Python worker."""
    table = plain_columns(table)
    for at, (field, wanted) in enumerate(zip(table.schema, arrow_schema(spark_schema(table.schema)), strict=True)):
        if field.type != wanted.type:
            table = table.set_column(at, wanted, table[at].cast(wanted.type))
    return subscription_table.check_table(table)


def arrow_schema(schema: StructType) -> pa.Schema:
    """In UTC, as Spark 4.1 always has it; from 4.2 on it must be told."""
    told: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **told)


def spark_schema(schema: pa.Schema) -> StructType:
    fields = []
    for field in schema:
        try:
            fields += from_arrow_schema(pa.schema([field])).fields
        except (PySparkException, TypeError):
            raise ContentcastError(
                f"the column {field.name} is {field.type}, which Spark does not have; cast or drop it"
            ) from None
    return StructType(fields)
