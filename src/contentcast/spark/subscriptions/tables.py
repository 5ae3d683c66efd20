"""A table of subscriptions as it comes (a DataFrame, a file, a folder of files) and as matching wants it.

    subscription  predicate        subscriber  broker
    7             price < 120      desk-7      b1
    8             prise < 120      desk-8      b1        refused: trades has no attribute 'prise'; did you mean 'price'?
    9             volume > 10      desk-9      b2
    9             volume > 11      desk-9      b2        refused: subscription 9 is given already; the first is kept

Ids are ints or texts. Columns of other names are given to `prepare` as `id` and `predicate`; here they have the names above.
Rule: a row is either kept or refused with its reason, and a refused one stops no other; all its columns stay with the reason.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

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
REASON: Final = "reason"
REFUSED: Final = pa.schema([(ID, pa.int64()), (TEXT, pa.string()), (REASON, pa.string())])
"""The columns of a refused row; those that a table has besides come after them."""
GIVEN_ALREADY: Final = "is given already; the first is kept"


@runtime_checkable
class Followed(Protocol):
    """Subscriptions that may change while a stream runs: files, a topic, a table with versions. It travels to the workers."""

    def fingerprint(self) -> str:
        """Changes when the table does; a word that can stand in the name of a file."""
        ...

    def read(self) -> pa.Table: ...


SubscriptionTable: TypeAlias = DataFrame | pa.Table | pa.RecordBatch | Followed | str | Path


@dataclass(frozen=True)
class FileTable:
    """Subscriptions in a .parquet, .csv or .jsonl file, or in a folder of them, that may be replaced while a stream runs."""

    path: Path
    id: str = ID
    predicate: str = TEXT

    def __str__(self) -> str:
        return str(self.path)

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
            return renamed(pa.concat_tables(parts, promote_options="default"), self.id, self.predicate)
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


def renamed(table: pa.Table, id: str, predicate: str) -> pa.Table:
    """With the user's own columns under the names that are used here."""
    for mine, theirs in ((ID, id), (TEXT, predicate)):
        if mine == theirs:
            continue
        if theirs not in table.column_names:
            raise ContentcastError(f"the subscriptions have no column {theirs!r}{nearest(theirs, table.column_names)}")
        if mine in table.column_names:
            raise ContentcastError(f"the subscriptions have a column {mine} beside {theirs}; rename or drop it")
        table = table.rename_columns([mine if name == theirs else name for name in table.column_names])
    return table


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
        more = _refused_rows(self.columns, self.texts, rows, reasons)
        return pa.concat_tables([self.refused, more]).combine_chunks()


def _refused_rows(columns: pa.Table, texts: pa.ChunkedArray, rows: pa.Array, reasons: pa.Array) -> pa.Table:
    others = [name for name in columns.column_names if name not in REFUSED.names]
    taken = [columns[ID].take(rows), texts.take(rows), reasons, *(columns[name].take(rows) for name in others)]
    return pa.table(dict(zip([*REFUSED.names, *others], taken, strict=True)))


def check_table(table: pa.Table) -> Checked:
    for name in (ID, TEXT):
        if name not in table.column_names:
            near = nearest(name, table.column_names)
            kind, option = ("int or text", "id") if name == ID else ("text", "predicate")
            raise ContentcastError(
                f"the subscriptions have no column {name!r}{near}; they need {name} ({kind}), or say which it is: {option}="
            )
        if table.column_names.count(name) > 1:
            raise ContentcastError(f"the subscriptions have the column {name} twice; rename or drop one")
    table = _plain_columns(table)
    ids, texts = table[ID], table[TEXT]
    if pa.types.is_null(ids.type) or pa.types.is_integer(ids.type):
        ids = ids.cast(pa.int64())
    elif not pa.types.is_string(ids.type) and len(table):
        raise ContentcastError(f"subscription ids are ints or texts, and the column {ID} is {ids.type}; cast it first")
    if not pa.types.is_string(texts.type) and not pa.types.is_null(texts.type):
        raise ContentcastError(f"predicates are text, and the column {TEXT} is {texts.type}; cast it first")
    texts = texts.cast(pa.string())
    table = table.set_column(table.column_names.index(ID), pa.field(ID, ids.type), ids).drop_columns([TEXT])
    first = _first_of_each(ids)
    kept, wrong = pa.array(np.flatnonzero(first)), pa.array(np.flatnonzero(~first))
    said = [
        "the subscription has no id (null)" if each is None else f"subscription {each} {GIVEN_ALREADY}"
        for each in ids.take(wrong).to_pylist()
    ]
    refused = _refused_rows(table, texts, wrong, pa.array(said, pa.string()))
    if len(wrong):
        table, texts = table.take(kept), texts.take(kept)
    return Checked(table.combine_chunks(), texts, refused)


def _first_of_each(ids: pa.ChunkedArray) -> Any:
    """For each row whether it is the first with its id."""
    present = ids.is_valid().to_numpy()
    whole = ids.combine_chunks() if ids.num_chunks != 1 else ids.chunk(0)
    codes = whole.drop_null().dictionary_encode().indices.to_numpy() if len(whole) else np.zeros(0, np.int64)
    first = np.zeros(len(present), np.bool_)
    first[np.flatnonzero(present)[np.unique(codes, return_index=True)[1]]] = True
    return first


def _plain_columns(table: pa.Table) -> pa.Table:
    """The columns in the Arrow types that Spark takes from a Python worker: no dictionaries, microseconds, small strings."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, table[at].cast(field.type.value_type))
    for at, (field, wanted) in enumerate(zip(table.schema, arrow_schema(spark_schema(table.schema)), strict=True)):
        if field.type != wanted.type:
            table = table.set_column(at, wanted, table[at].cast(wanted.type))
    return table


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


def _plain(text: str) -> str:
    """What a text column can hold; the error of a text that is none quotes its bytes."""
    return text.encode("utf-8", "backslashreplace").decode()


def has_clash(mine: list[str], theirs: list[str], case_sensitive: bool) -> list[str]:
    """Which names would come twice in one row of the result."""
    folded = {each if case_sensitive else each.casefold() for each in theirs}
    return [each for each in mine if (each if case_sensitive else each.casefold()) in folded]
