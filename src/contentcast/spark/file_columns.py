"""What the columns of event files are, before Spark reads them: of all files, since Spark itself asks one of them.

Files of this machine are opened here, and checked one by one (`files.columns_of_all`). For files elsewhere Spark reads the
headers of CSV files, and merges the columns of tables.
Rule: what is wrong with a file is told now, with its name, and not by a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from contentcast.files.columns_of_all import table_columns
from contentcast.files.open_events import HEADER_BYTES
from contentcast.model.errors import EventError
from contentcast.model.events.checked_columns import csv_header
from contentcast.model.events.event_files import COMPRESSIONS, format_of, open_bytes
from contentcast.model.events.intake import Unknown
from contentcast.model.events.records import CONTENT, unpacked
from contentcast.model.space import Space
from contentcast.spark.subscriptions.tables import spark_schema

NANOS_AS_LONG: Final = "spark.sql.legacy.parquet.nanosAsLong"
MERGE: Final = "mergeSchema"


def csv_headers(spark: SparkSession, paths: list[str], options: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Of each file its name and its header. Spark would read all of a file that lies here."""
    here, others = _files(spark, paths, options)
    for path in here:
        with open_bytes(str(path), format_of(path.name)[1]) as file:
            yield str(path), csv_header(bytes(file.read(HEADER_BYTES)))
    if others:
        packed = any(each.endswith(tuple(COMPRESSIONS)) for each in others)
        start = F.col(CONTENT) if packed else F.substring(CONTENT, 1, HEADER_BYTES)
        for name, content in spark.read.format("binaryFile").load(others).select("path", start).toLocalIterator():
            yield name, csv_header(unpacked(name, bytes(content)))


def table_reader(
    reader: Any,
    spark: SparkSession,
    paths: list[str],
    format: str,
    space: Space,
    unknown: Unknown | None,
    options: Mapping[str, Any],
) -> Any:
    """The reader, told of the columns of all files where they differ."""
    here, others = _files(spark, paths, options)
    if others:
        return reader.option(MERGE, True)
    schemas = [(path, schema) for path in here if (schema := _arrow_schema(path, format)) is not None]
    if format == "parquet" and any(map(_is_nanoseconds, (field for _, schema in schemas for field in schema))):
        spark.conf.set(NANOS_AS_LONG, "true")  # else Spark refuses the file; a long is a number since 1970
    distinct: list[tuple[Path, pa.Schema]] = []
    for path, schema in schemas:
        if not any(schema == each for _, each in distinct):
            distinct.append((path, schema))
    if len(distinct) < 2:
        return reader
    whole = table_columns(((str(path), _with_folders(path, schema)) for path, schema in distinct), space, unknown)
    return reader.schema(_spark_columns(spark, distinct, format, whole))


def known_schema(
    spark: SparkSession, path: str, format: str, space: Space, unknown: Unknown | None, options: Mapping[str, Any]
) -> StructType:
    """A stream of files must know its columns before the first file: those of the files that are there, else the space's."""
    folder = Path(path)
    if "://" in path or any(each.is_file() and not each.name.startswith((".", "_")) for each in folder.rglob("*")):
        reader = spark.read.format(format).options(**options)
        there: StructType = table_reader(reader, spark, [path], format, space, unknown, options).load(path).schema
        return there
    return spark_schema(space.arrow_schema)


def check_no_empty_file(paths: list[str], format: str) -> None:
    """Spark passes over a file of no bytes. Parquet without a row has some: the writer failed, and events would be lost."""
    for each in paths:
        if "://" in each:
            continue
        inside = Path(each).rglob(f"*.{format}") if Path(each).is_dir() else map(Path, glob(each, recursive=True))
        for path in inside:
            if path.is_file() and not path.name.startswith((".", "_")) and path.stat().st_size == 0:
                raise EventError(f"{path} cannot be read: it is empty, not even without events; remove it or write it again")


def _files(spark: SparkSession, paths: list[str], options: Mapping[str, Any]) -> tuple[list[Path], list[str]]:
    """The files that Spark finds with these options: those of this machine, in order, and the addresses of others."""
    found = [urlsplit(each) for each in spark.read.format("binaryFile").options(**options).load(paths).inputFiles()]
    here = sorted(Path(unquote(each.path)) for each in found if each.scheme == "file")
    return here, [each.geturl() for each in found if each.scheme != "file"]


def _arrow_schema(path: Path, format: str) -> pa.Schema | None:
    """None for a file that cannot be read: Spark says what is wrong with it."""
    try:
        if format == "parquet":
            return pyarrow.parquet.read_schema(path)
        from pyarrow import orc

        return orc.ORCFile(path).schema
    except (pa.ArrowException, OSError):
        return None


def _with_folders(path: Path, schema: pa.Schema) -> pa.Schema:
    """With the columns that the names of folders give (`day=1/`)."""
    for part in path.parent.parts:
        name, mark, _ = part.partition("=")
        if mark and name not in schema.names:
            schema = schema.append(pa.field(name, pa.null()))
    return schema


def _is_nanoseconds(field: pa.Field) -> bool:
    return bool(pa.types.is_timestamp(field.type) and field.type.unit == "ns")


def _spark_columns(spark: SparkSession, files: list[tuple[Path, pa.Schema]], format: str, whole: pa.Schema) -> StructType:
    """The columns in the types of Spark, which takes some of them otherwise than Arrow does."""
    found: dict[str, DataType] = {}
    for path, schema in files:
        for field in spark.read.format(format).load(str(path)).schema:
            wanted = whole.field(field.name)
            if pa.types.is_null(schema.field(field.name).type) and not pa.types.is_null(wanted.type):
                raise EventError(
                    f"{path}: column {field.name} has no type here, as it has no value, and is {wanted.type} in another file. "
                    "Spark cannot read both; write it with that type, or match without Spark (--no-spark)"
                )
            before = found.setdefault(field.name, field.dataType)
            if before != field.dataType:
                if _is_nanoseconds(wanted):
                    raise EventError(f"{path}: column {field.name} has nanoseconds in some files only; write them alike")
                found[field.name] = spark_schema(pa.schema([wanted])).fields[0].dataType
    return StructType([StructField(name, type_, True) for name, type_ in found.items()])
