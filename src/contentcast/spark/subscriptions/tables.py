"""A table of subscriptions as it comes (a DataFrame, a file, a folder of files) and as matching wants it.

    subscription  predicate        subscriber  broker
    7             price < 120      desk-7      b1
    8             prise < 120      desk-8      b1        refused: trades has no attribute 'prise'; did you mean 'price'?
    9             volume > 10      desk-9      b2        refused: subscription 9 is given 2 times
    9             volume > 11      desk-9      b2        refused: subscription 9 is given 2 times

Rule: a row is either kept or refused with its reason, and a refused one stops no other. Which of two rows with one id was meant
nobody knows, and Spark's rows have no order, so both are refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from contentcast.model.errors import ContentcastError, nearest

ID: Final = "subscription"
TEXT: Final = "predicate"
REFUSED: Final = pa.schema([(ID, pa.int64()), (TEXT, pa.string()), ("reason", pa.string())])

SubscriptionTable: TypeAlias = DataFrame | pa.Table | pa.RecordBatch | str | Path


@dataclass(frozen=True)
class FileTable:
    """Subscriptions in a .parquet, .csv or .jsonl file, or in a folder of them, that may be replaced while a stream runs."""

    path: Path

    @property
    def files(self) -> list[Path]:
        if not self.path.exists():
            raise ContentcastError(f"there is no subscription file {self.path}")
        if self.path.is_file():
            return [self.path]
        found = sorted(
            each for each in self.path.rglob("*") if each.suffix.lower() in _READERS and not _hidden(each, self.path)
        )
        if not found:
            raise ContentcastError(f"{self.path} holds no subscriptions; they come as {_endings()}")
        return found

    def fingerprint(self) -> str:
        """Changes when a file is replaced, added or removed."""
        stats = [
            (str(each), status.st_size, status.st_mtime_ns, status.st_ino) for each in self.files if (status := each.stat())
        ]
        return hashlib.blake2b(repr(stats).encode(), digest_size=8).hexdigest()

    def read(self) -> pa.Table:
        parts = []
        for each in self.files:
            reader = _READERS.get(each.suffix.lower())
            if reader is None:
                raise ContentcastError(f"{each}: subscriptions come as {_endings()}, not {each.suffix or 'without an ending'}")
            try:
                parts.append(reader(each))
            except (pa.ArrowException, OSError) as reason:
                raise ContentcastError(f"{each} cannot be read: {reason}") from None
        try:
            return pa.concat_tables(parts, promote_options="default")
        except pa.ArrowException as reason:
            raise ContentcastError(f"the files of {self.path} have different columns: {reason}") from None


def _hidden(path: Path, above: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(above).parts)


def _endings() -> str:
    return ", ".join(_READERS)


_READERS: Final[dict[str, Any]] = {
    ".parquet": pyarrow.parquet.read_table,
    ".csv": lambda path: pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True)),
    ".jsonl": pyarrow.json.read_json,
}


def read_table(subscriptions: SubscriptionTable) -> pa.Table:
    """All rows, on the driver: a million subscriptions are about 100 MB of text."""
    match subscriptions:
        case DataFrame():
            if subscriptions.isStreaming:
                raise ContentcastError(
                    "subscriptions come as a table, not as a stream; a stream reads a table again that is given by its path"
                )
            return subscriptions.toArrow()
        case pa.RecordBatch():
            return pa.Table.from_batches([subscriptions])
        case pa.Table():
            return subscriptions
        case str() if "://" in subscriptions:
            raise ContentcastError(
                f"{subscriptions}: let Spark read it, match(events, spark.read.parquet({subscriptions!r}), space)"
            )
        case str() | Path():
            return FileTable(Path(subscriptions)).read()
    raise ContentcastError(
        f"subscriptions come as a DataFrame or as the path of a table, not as {type(subscriptions).__name__}"
    )


@dataclass(frozen=True)
class Checked:
    """`columns` has what a match gives out, `texts` the predicates, row by row; `refused` the rows that have no usable id."""

    columns: pa.Table
    texts: pa.ChunkedArray
    refused: pa.Table

    def refuse(self, errors: dict[int, ContentcastError]) -> pa.Table:
        """All that was refused, with the rows whose predicate cannot be read."""
        rows = pa.array(sorted(errors), pa.int64())
        reasons = pa.array([_plain(str(errors[row])) for row in sorted(errors)], pa.string())
        more = pa.table([self.columns[ID].take(rows), self.texts.take(rows), reasons], schema=REFUSED)
        return pa.concat_tables([self.refused, more]).combine_chunks()


def check_table(table: pa.Table) -> Checked:
    for name in (ID, TEXT):
        if name not in table.column_names:
            near = nearest(name, table.column_names)
            raise ContentcastError(f"the subscriptions have no column {name!r}{near}; they need {ID} (int) and {TEXT} (text)")
        if table.column_names.count(name) > 1:
            raise ContentcastError(f"the subscriptions have the column {name} twice; rename or drop one")
    table = _plain_columns(table)
    ids, texts = table[ID], table[TEXT]
    if not pa.types.is_integer(ids.type) and len(table):
        raise ContentcastError(f"subscription ids are ints, and the column {ID} is {ids.type}; cast it first")
    if not pa.types.is_string(texts.type) and not pa.types.is_null(texts.type):
        raise ContentcastError(f"predicates are text, and the column {TEXT} is {texts.type}; cast it first")
    ids, texts = ids.cast(pa.int64()), texts.cast(pa.string())
    table = table.set_column(table.column_names.index(ID), pa.field(ID, pa.int64()), ids).drop_columns([TEXT])
    reasons = _id_reasons(ids)
    kept = pa.array(np.flatnonzero(reasons == 0))
    wrong = pa.array(np.flatnonzero(reasons))
    said = [
        "the subscription has no id (null)" if each is None else f"subscription {each} is given {times} times"
        for each, times in zip(ids.take(wrong).to_pylist(), reasons[reasons > 0].tolist(), strict=True)
    ]
    refused = pa.table([ids.take(wrong), texts.take(wrong), pa.array(said, pa.string())], schema=REFUSED)
    if len(wrong):
        table, texts = table.take(kept), texts.take(kept)
    return Checked(table.combine_chunks(), texts, refused)


def _id_reasons(ids: pa.ChunkedArray) -> Any:
    """For each row 0, or how often its id is there if that is more than once (1 for no id)."""
    present = ids.is_valid().to_numpy()
    numbers = ids.fill_null(0).to_numpy()
    distinct, inverse, counts = np.unique(numbers[present], return_inverse=True, return_counts=True)
    reasons = np.ones(len(numbers), np.int64)
    reasons[present] = np.where(counts > 1, counts, 0)[inverse] if len(distinct) else 0
    return reasons


def _plain_columns(table: pa.Table) -> pa.Table:
    """The columns in the Arrow types that Spark takes from a Python worker: no dictionaries, microseconds, small strings."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, table[at].cast(field.type.value_type))
    for at, (field, wanted) in enumerate(
        zip(table.schema, to_arrow_schema(spark_schema(table.schema), timezone="UTC"), strict=True)
    ):
        if field.type != wanted.type:
            table = table.set_column(at, wanted, table[at].cast(wanted.type))
    return table


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


def _plain(text: str) -> str:
    """What a text column can hold; the error of a text that is none quotes its bytes."""
    return text.encode("utf-8", "backslashreplace").decode()


def has_clash(mine: list[str], theirs: list[str], case_sensitive: bool) -> list[str]:
    """Which names would come twice in one row of the result."""
    folded = {each if case_sensitive else each.casefold() for each in theirs}
    return [each for each in mine if (each if case_sensitive else each.casefold()) in folded]
