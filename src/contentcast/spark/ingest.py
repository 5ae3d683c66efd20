"""The step `ingest`: raw records become events of the space; bad ones go to a quarantine with the reason, and stop nobody.

    events = read_events(spark, "trades/*.jsonl", trades)      # or ingest(any DataFrame, trades)
    events.good            a DataFrame of events
    events.quarantine      reason, attribute, record (as it came), file

Both are DataFrames over the same records, in batch and in streams; each is computed when it is asked for. `match` takes the
pair itself, and then reads, checks and matches in one pass through Python instead of two: a pass costs about as much as
matching.
Rule: what is good and what is bad is decided by `model.events.records`, which runs on the workers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Unpack

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from contentcast.files.columns_of_all import csv_columns
from contentcast.files.open_events import endings, format_of_files
from contentcast.model.errors import ContentcastError, EventError, nearest
from contentcast.model.events.checked_columns import checked_schema
from contentcast.model.events.intake import Epoch, Finer, How, Intake, Nan, OnError, Unknown
from contentcast.model.events.records import (
    BAD,
    CONTENT,
    FILE,
    LINE,
    Columns,
    CsvFiles,
    JsonFiles,
    JsonTexts,
    Reader,
    bad_table,
    first_complaint,
    set_aside,
    wider,
)
from contentcast.model.space import Space
from contentcast.spark.arrow_map import map_arrow
from contentcast.spark.file_columns import check_no_empty_file, csv_headers, known_schema, table_reader
from contentcast.spark.subscriptions.tables import arrow_schema, spark_schema

PACKAGES: Final = {
    "delta": "io.delta:delta-spark_{short}_2.13:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{short}_2.13:VERSION",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
    "avro": "org.apache.spark:spark-avro_2.13:{version}",
}
"""Of Spark, for formats that do not come with it."""
BINARY_FILE: Final = "path string, modificationTime timestamp, length long, content binary"
_NO_FORMAT: Final = re.compile("DATA_SOURCE_NOT_FOUND|DATA_SOURCE_NOT_ENABLED")


@dataclass(frozen=True)
class Tally:
    """Counts records while a job runs. Each task counts once, when it succeeds."""

    events: Accumulator[int]
    bad: Accumulator[int]

    @classmethod
    def on(cls, spark: SparkSession) -> Tally:
        return cls(spark.sparkContext.accumulator(0), spark.sparkContext.accumulator(0))


@dataclass(frozen=True)
class Ingested:
    """Raw records and how to read them; `good` and `quarantine` are what comes out."""

    raw: DataFrame
    reader: Reader
    space: Space
    on_error: OnError = "reject"
    tally: Tally | None = None

    @property
    def good(self) -> DataFrame:
        read = self.events_of()

        def good(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from read(batch)

        return map_arrow(self.raw, good, spark_schema(self.reader.schema))

    @property
    def quarantine(self) -> DataFrame:
        """Records that are no events, and with `on_error="absent"` the attributes that were left out."""
        reader = self.reader

        def quarantine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for _, bad, left_out in reader.read(batch):
                    if bad or left_out:
                        yield bad_table([*bad, *left_out])

        return map_arrow(self.raw, quarantine, spark_schema(BAD))

    def events_of(self) -> Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]:
        """For a worker: the good events of a raw batch. Counts them if there is a tally."""
        reader, on_error, tally = self.reader, self.on_error, self.tally

        def read(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            for events, bad, _ in reader.read(batch):
                if bad and on_error == "raise":
                    raise EventError(f"{first_complaint(bad)}; ingest(events, space) sets such records aside")
                if tally is not None:
                    tally.events.add(events.num_rows + len(bad))
                    tally.bad.add(len(bad))
                if events.num_rows:
                    yield events

        return read


def ingest(
    events: DataFrame,
    space: Space,
    *,
    json: str | None = None,
    extra: Mapping[str, str] | None = None,
    **how: Unpack[How],
) -> Ingested:
    """Checks the rows of a DataFrame, batch or stream, against the space.

    Columns go by name: a missing one is absent everywhere, others than the space's stay; with `unknown="error"` there may be no
    others, and unless `unknown="ignore"` is said, none that looks like a missing attribute. With `json` the events are JSON
    objects in that column (the messages of a Kafka topic, `json="value"`); `extra` names fields beyond the space that they may
    carry, with their kinds. `how` is as everywhere (`model.events.intake`), but for `on_error`, which is "reject" here:
    a bad record goes to the quarantine; "raise" stops at the first.
    """
    on_error = Intake.of(how).on_error if "on_error" in how else "reject"
    words = set_aside(how)
    schema = arrow_schema(events.schema)
    if json is None:
        return Ingested(events, Columns(space, checked_schema(space, schema, how.get("unknown")), words), space, on_error)
    if json not in schema.names:
        raise ContentcastError(f"the events have no column {json!r}{nearest(json, schema.names)}")
    others = pa.schema([each for each in schema if each.name != json])
    wide = wider(space, extra or {})
    for name in others.names:
        if name in wide:
            raise ContentcastError(
                f"the column {name} stands beside the JSON and {space.name} has an attribute of that name; rename it"
            )
    return Ingested(events, JsonTexts(wide, json, others, words), space, on_error)


def read_events(
    spark: SparkSession,
    paths: str | Path | Sequence[str | Path],
    space: Space,
    *,
    format: str | None = None,
    stream: bool = False,
    extra: Mapping[str, str] | None = None,
    unknown: Unknown | None = None,
    on_error: OnError = "reject",
    nan: Nan = "error",
    finer: Finer = "error",
    epoch: Epoch = "guess",
    **options: Any,
) -> Ingested:
    """Events from files: Parquet, CSV, JSON lines, or whatever `format` this Spark has ("delta", "orc", "kafka" with its
    options).

    `stream` follows a folder, and takes the files that appear in it. Text formats have ISO 8601 timestamps and base64 bytes,
    as in `cc.read_events`; `extra` names fields that stay though the space does not have them (CSV: all columns of
    the files do). Text may be packed (.gz, .zst). `unknown` to `epoch` are as in `ingest`; `options` go to Spark's reader:
    `maxFilesPerTrigger=10`.
    """
    how: How = {"on_error": on_error, "nan": nan, "finer": finer, "epoch": epoch}
    if unknown is not None:
        how["unknown"] = unknown
    Intake.of(how)
    given = [str(each) for each in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if format == "kafka":
        records = load_format(spark, stream, "kafka", options)
        return ingest(records, space, json=LINE, extra=extra, **how)
    if not given:
        raise EventError("which events? Give the path of a file or a folder")
    for each in given:
        if "://" not in each and not any(letter in each for letter in "*?[{") and not Path(each).exists():
            raise EventError(f"there is no event file {each}")
    if stream and len(given) != 1:
        raise EventError(f"a stream follows one folder, not {len(given)} paths")
    found = format or format_of_files(given, stream)
    given = [each if "://" in each else str(Path(each).absolute()) for each in given]  # Java keeps the folder it was started in
    match found:
        case "jsonl" if any(each.endswith(".zst") for each in endings(given)):
            files = _whole_files(spark, stream, options, given)
            shape = pa.schema([pa.field(LINE, pa.binary()), pa.field(FILE, pa.string())])
            texts = ingest(spark.createDataFrame([], spark_schema(shape)), space, json=LINE, extra=extra, **how).reader
            assert isinstance(texts, JsonTexts)
            return Ingested(files, JsonFiles(texts), space, on_error)
        case "jsonl":
            lines = (
                _reader(spark, stream, "text", options).load(_one(given, stream)).withColumn(FILE, F.col("_metadata.file_path"))
            )
            return ingest(lines, space, json=LINE, extra=extra, **how)
        case "csv":
            more = wider(space, extra or {}).names[len(space.names) :]
            headers = (
                (file, [name for name in header if name not in more]) for file, header in csv_headers(spark, given, options)
            )
            beside = {**csv_columns(headers, space, unknown), **(extra or {})}
            files = _whole_files(spark, stream, options, given)
            checked = CsvFiles(space, beside, set_aside(how))
            return Ingested(files, checked, space, on_error)
        case "parquet" | "orc":
            reader = _reader(spark, stream, found, options)
            if stream:
                reader = reader.schema(known_schema(spark, given[0], found, space, unknown, options))
            else:
                check_no_empty_file(given, found)
                reader = table_reader(reader, spark, given, found, space, unknown, options)
            return ingest(reader.load(_one(given, stream)), space, **how)
    return ingest(load_format(spark, stream, found, options, _one(given, stream)), space, **how)


def _reader(spark: SparkSession, stream: bool, format: str, options: Mapping[str, Any]) -> Any:
    return (spark.readStream if stream else spark.read).format(format).options(**options)


def _whole_files(spark: SparkSession, stream: bool, options: Mapping[str, Any], paths: list[str]) -> DataFrame:
    """A row for each file. A stream must be told the columns, though they are always the same."""
    reader = _reader(spark, stream, "binaryFile", options)
    found: DataFrame = (reader.schema(BINARY_FILE) if stream else reader).load(_one(paths, stream))
    return found.select(F.col("path").alias(FILE), CONTENT)


def load_format(spark: SparkSession, stream: bool, format: str, options: Mapping[str, Any], path: Any = None) -> DataFrame:
    """By a format that this Spark may not have; then the error says what to add."""
    try:
        rows: DataFrame = _reader(spark, stream, format, options).load(path)
    except Exception as error:  # Spark has two kinds for it, and one is py4j's
        if not _NO_FORMAT.search(str(error)):
            raise
        package = PACKAGES.get(format.lower(), "GROUP:PACKAGE:VERSION")
        named = package.format(version=spark.version, short=".".join(spark.version.split(".")[:2]))
        raise ContentcastError(
            f"this Spark does not have the format {format}; it needs the package {named}: "
            "give its files with --jars, or in Python name it in spark.jars.packages"
        ) from None
    return rows


def _one(paths: list[str], stream: bool) -> Any:
    return paths[0] if stream else paths
