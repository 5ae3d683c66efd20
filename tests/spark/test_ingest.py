"""`ingest` and `read_events`: every record comes out once, as an event or in the quarantine; none stops the others."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import DataFrame, Row, SparkSession
from typer.testing import CliRunner

import contentcast as cc
from contentcast.cli import app
from contentcast.model import Attribute, ContentcastError, Space
from contentcast.spark import Ingested, ingest, match, read_events
from contentcast.workload import scenario
from contentcast.workload.files import write_workload
from tests.spark.oracle import subscription_table

TRADES = Space("trades", issue=Attribute("string", values=("IBM", "SAP")), price=Attribute("float", low=0.0), ts="timestamp")
NOON = datetime.datetime(2026, 3, 1, 12)


def bad_of(events: Ingested) -> dict[str, tuple[str | None, str]]:
    """record -> (attribute, reason)"""
    rows = events.quarantine.collect()
    found = {row["record"]: (row["attribute"], row["reason"]) for row in rows}
    assert len(found) == len(rows)
    return found


# --- tables


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [
            ("IBM", 1.5, NOON, 1),
            ("XXX", 2.5, NOON, 2),
            (None, float("nan"), None, 3),
            ("SAP", -1.0, None, 4),
            ("SAP", None, NOON, 5),
        ],
        "issue string, price double, ts timestamp, `order` int",
    )


def test_good_rows_go_on_and_bad_ones_are_kept_with_the_reason(rows: DataFrame) -> None:
    events = ingest(rows, TRADES)
    assert [(row["issue"], row["price"], row["order"]) for row in events.good.collect()] == [("IBM", 1.5, 1), ("SAP", None, 5)]
    assert events.good.columns == ["issue", "price", "ts", "order"], "a column that the space does not have stays"
    bad = {json.loads(record)["order"]: (json.loads(record), *why) for record, why in bad_of(events).items()}
    assert set(bad) == {2, 3, 4}
    assert bad[2] == (
        {"issue": "XXX", "price": 2.5, "ts": "2026-03-01T12:00:00+00:00", "order": 2},
        "issue",
        "'XXX' is not one of 'IBM', 'SAP'",
    )
    assert bad[3][1:] == ("price", "NaN is not a value; leave it null if it is unknown")
    assert bad[4][1:] == ("price", "-1.0 is below the domain's 0.0")


def test_the_same_rows_are_rejected_as_by_an_event_batch(rows: DataFrame) -> None:
    batch = cc.EventBatch.from_arrow(TRADES, rows.toArrow(), on_error="reject", unknown="ignore")
    assert Counter(why for why in bad_of(ingest(rows, TRADES)).values()) == Counter(
        (each.attribute, each.reason) for each in batch.rejected
    )
    assert ingest(rows, TRADES).good.drop("order").toArrow().to_pylist() == batch.records.to_pylist()


def test_types_become_the_spaces_and_missing_attributes_are_added(spark: SparkSession) -> None:
    given = spark.createDataFrame([("IBM", 2, [1])], "issue string, price int, more array<int>")
    good = ingest(given, TRADES).good
    assert good.dtypes == [("issue", "string"), ("price", "double"), ("more", "array<int>"), ("ts", "timestamp")]
    assert good.collect()[0].asDict() == {"issue": "IBM", "price": 2.0, "more": [1], "ts": None}


def test_matching_what_was_ingested_leaves_the_bad_ones_out(rows: DataFrame) -> None:
    found = match(ingest(rows, TRADES), subscription_table({1: "TRUE", 2: "price > 1"}), TRADES)
    assert sorted((row["order"], row["subscription"]) for row in found.collect()) == [(1, 1), (1, 2), (5, 1)]


def test_raising_instead(rows: DataFrame) -> None:
    with pytest.raises(Exception, match=r"attribute issue: 'XXX' is not one of 'IBM', 'SAP', in the record"):
        ingest(rows.coalesce(1), TRADES, on_error="raise").good.collect()


def test_what_cannot_be_ingested(spark: SparkSession, tmp_path: Path) -> None:
    for schema, complaint in [
        ("issue int", "column issue is int32, and the attribute is a string"),
        ("isue string", "none of the columns isue is an attribute of trades"),
    ]:
        with pytest.raises(ContentcastError, match=complaint):
            ingest(spark.createDataFrame([], schema), TRADES)
    with pytest.raises(ContentcastError, match="on_error is 'raise' or 'reject' or 'absent', not 'drop'"):
        ingest(spark.createDataFrame([], "issue string"), TRADES, on_error="drop")  # type: ignore[arg-type]
    with pytest.raises(ContentcastError, match="there is no event file"):
        read_events(spark, tmp_path / "gone.parquet", TRADES)
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "b.csv").touch()
    with pytest.raises(ContentcastError, match=r"files of one format at a time, and these end in .csv, .jsonl"):
        read_events(spark, tmp_path, TRADES)
    with pytest.raises(ContentcastError, match="the column issue comes twice"):
        ingest(spark.createDataFrame([("a", "b")], "issue string, x string").toDF("issue", "issue"), TRADES).good.collect()


# --- files


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
def test_every_format_gives_the_events_that_were_written(spark: SparkSession, tmp_path: Path, format: str) -> None:
    video = scenario("video", seed=2)  # strings, ints, timestamps and bytes
    write_workload(video, tmp_path, events=60, subscriptions=0, format=format)
    events = read_events(spark, tmp_path / f"events.{format}", video.space)
    assert events.good.count() == 60
    found = pa.Table.from_batches([video.events(60)])
    by = [(name, "ascending") for name in found.column_names if not pa.types.is_binary(found.schema.field(name).type)]
    assert events.good.toArrow().sort_by(by).to_pylist() == found.sort_by(by).to_pylist()
    assert events.quarantine.count() == 0


LINES = {
    '{"issue": "IBM", "price": 1.5, "ts": "2026-03-01T12:00:00Z"}': None,
    '{"issue": "IBM", "price": ': (None, "not JSON: Expecting value at column 27"),
    '{"issue": "IBM", "price": "1"}': ("price", "'1' is a string, not a float"),
    '{"issue": "IBM", "note": "x"}': ("note", "trades has no attribute 'note'"),
    "null": (None, "null is not an object with attributes"),
    '{"issue": "SAP"}': None,
}


def test_lines_of_json(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes("\n".join(LINES).encode() + b'\n\n   \n{"issue": "\xff"}\n')
    (tmp_path / "b.jsonl").write_text('\ufeff{"issue": "SAP", "price": 3}')
    events = read_events(spark, tmp_path, TRADES)
    assert sorted((row["issue"], row["price"]) for row in events.good.fillna(0.0).collect()) == [
        ("IBM", 1.5),
        ("SAP", 0.0),
        ("SAP", 3.0),
    ]
    bad = bad_of(events)
    (broken,) = [record for record in bad if "udcff" in record]
    assert bad.pop(broken)[0] == "issue"
    assert set(bad) == {line for line, why in LINES.items() if why}
    for line, why in LINES.items():
        if why:
            assert bad[line][0] == why[0]
            assert bad[line][1].startswith(why[1])
    assert {Path(row["file"]).name for row in events.quarantine.select("file").collect()} == {"a.jsonl"}


def test_fields_beyond_the_space_stay_if_they_are_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"issue": "IBM", "order": 7, "who": "me"}\n{"issue": "SAP", "order": "x"}\n{"issue": "SAP"}\n'
    )
    events = read_events(spark, tmp_path, TRADES, extra={"order": "int", "who": "string"})
    assert sorted((row["issue"], row["order"] or 0, row["who"]) for row in events.good.collect()) == [
        ("IBM", 7, "me"),
        ("SAP", 0, None),
    ]
    assert bad_of(events) == {'{"issue": "SAP", "order": "x"}': ("order", "'x' is a string, not an int")}
    with pytest.raises(ContentcastError, match="issue is an attribute of trades; extra names others"):
        read_events(spark, tmp_path, TRADES, extra={"issue": "int"})


def test_json_in_a_column(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(b'{"issue": "IBM"}', 1), (b"nonsense", 2), (b'{"issue": "SAP"}', 4)], "value binary, nr long"
    )
    events = ingest(rows, TRADES, json="value")
    assert [(row["issue"], row["nr"]) for row in events.good.collect()] == [("IBM", 1), ("SAP", 4)]
    assert list(bad_of(events)) == ["nonsense"]
    with pytest.raises(ContentcastError, match="stands beside the JSON and trades has an attribute of that name"):
        ingest(rows.withColumnRenamed("nr", "price"), TRADES, json="value")
    with pytest.raises(ContentcastError, match="the events have no column 'valu'; did you mean 'value'"):
        ingest(rows, TRADES, json="valu")


@pytest.mark.parametrize("given", ["in", "in/*.parquet", "in/2.parquet"])
def test_a_parquet_file_of_no_bytes_is_named(spark: SparkSession, tmp_path: Path, given: str) -> None:
    """Spark alone reads the others as if it were not there."""
    (tmp_path / "in").mkdir()
    for number in range(4):
        pq.write_table(pa.table({"issue": ["IBM"]}), tmp_path / "in" / f"{number}.parquet")
    (tmp_path / "in" / "_SUCCESS").touch()
    assert read_events(spark, tmp_path / given, TRADES).good.count() == (1 if given.endswith("2.parquet") else 4)
    (tmp_path / "in" / "2.parquet").write_bytes(b"")
    with pytest.raises(ContentcastError, match=r"in/2\.parquet cannot be read: it is empty"):
        read_events(spark, tmp_path / given, TRADES)


# --- Kafka

KAFKA = (
    "key binary, value binary, topic string, partition int not null, offset long not null, timestamp timestamp, "
    "timestampType int not null"
)
"""What Spark's source gives, exactly."""
MESSAGES = {
    17: b'{"issue": "IBM", "price": 1.5}',
    18: b'{"issue": "IBM", "price": ',
    19: b'{"issue": "SAP", "price": -2}',
    20: None,  # a key was deleted
    21: b" ",
    22: b'{"issue": "\xff"}',
    23: b'{"issue": "SAP"}',
}


@pytest.fixture(params=["batch", "stream"])
def messages(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> DataFrame:
    rows = [(b"k" if value else None, value, "trades", 0, offset, NOON, 0) for offset, value in MESSAGES.items()]
    given = spark.createDataFrame(rows, KAFKA)
    if request.param == "batch":
        return given
    given.write.parquet(str(tmp_path / "messages"))
    return spark.readStream.schema(given.schema).parquet(str(tmp_path / "messages"))


def taken(frame: DataFrame, name: str) -> list[Row]:
    if not frame.isStreaming:
        return frame.collect()
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    return frame.sparkSession.table(name).collect()


def test_messages_of_kafka_are_matched_and_the_bad_ones_say_where_they_stand(messages: DataFrame) -> None:
    events = ingest(messages, TRADES, json="value")
    found = taken(match(events, subscription_table({1: "issue = 'IBM'", 2: "TRUE"}), TRADES), "kafka_matches")
    assert sorted((row["offset"], row["subscription"]) for row in found) == [(17, 1), (17, 2), (23, 2)]
    first = min(found, key=lambda row: row["offset"])
    assert (bytes(first["key"]), first["topic"], first["partition"], first["timestamp"]) == (b"k", "trades", 0, NOON)
    bad = {row["file"]: (row["attribute"], row["reason"], row["record"]) for row in taken(events.quarantine, "kafka_bad")}
    assert bad["trades-0@18"] == (None, "not JSON: Expecting value at column 27", '{"issue": "IBM", "price": ')
    assert bad["trades-0@19"][:2] == ("price", "-2 is outside the domain from 0.0")
    assert bad["trades-0@20"] == (None, "no JSON: the message is empty", "")
    assert bad["trades-0@21"] == (None, "no JSON: the message is empty", " ")
    assert bad["trades-0@22"][0] == "issue"
    assert {f"trades-0@{offset}" for offset in MESSAGES} - set(bad) == {"trades-0@17", "trades-0@23"}, "none is lost"


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize(
    ("format", "package"),
    [
        ("delta", r"io\.delta:delta-spark_\d+\.\d+_2\.13:VERSION"),
        ("kafka", r"org\.apache\.spark:spark-sql-kafka-0-10_2\.13:\d+\.\d+\.\d+"),
    ],
)
def test_a_format_that_this_spark_lacks_names_its_package(
    spark: SparkSession, tmp_path: Path, format: str, package: str, stream: bool
) -> None:
    with pytest.raises(ContentcastError) as failure:
        read_events(spark, tmp_path, TRADES, format=format, stream=stream)
    said = (
        f"this Spark does not have the format {format}; it needs the package {package}: "
        "give its files with --jars, or in Python name it in spark.jars.packages"
    )
    assert re.fullmatch(said, str(failure.value))


def test_from_the_command_line_too(spark: SparkSession, tmp_path: Path) -> None:
    TRADES.save(tmp_path / "space.json")
    (tmp_path / "wanted.csv").write_text("subscription,predicate\n1,price < 2\n")
    (tmp_path / "table").mkdir()
    files = {"--events": "table", "--subscriptions": "wanted.csv", "--space": "space.json", "--out": "out"}
    words = [word for name, value in files.items() for word in (name, str(tmp_path / value))]
    ended = CliRunner().invoke(app, ["match", *words, "--format", "delta"])
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "the package io.delta:delta-spark_" in ended.stderr
    assert not (tmp_path / "out").exists()


CSV = b"""\
issue,price,note
IBM,1.5,"first
line, second"
IBM,1.5,x,too,many
XXX,2.5,
SAP,two,"a ""b""\r
c"
SAP,3.5,caf\xe9

SAP,,""
"""


def test_csv_with_line_breaks_ragged_rows_and_bytes_that_are_no_text(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV)
    events = read_events(spark, tmp_path, TRADES)
    good = sorted((row["issue"], row["price"] or 0.0, row["note"]) for row in events.good.collect())
    assert good == [("IBM", 1.5, "first\nline, second"), ("SAP", 0.0, "")]
    bad = bad_of(events)
    assert set(bad) == {"IBM,1.5,x,too,many", "XXX,2.5,", 'SAP,two,"a ""b""\r\nc"', "SAP,3.5,caf\\udce9"}
    assert bad["IBM,1.5,x,too,many"] == (None, "5 fields under a header of 3")
    assert bad["XXX,2.5,"] == ("issue", "'XXX' is not one of 'IBM', 'SAP'")
    assert bad['SAP,two,"a ""b""\r\nc"'] == ("price", "'two' is not a float")
    assert "is not UTF-8 text" in bad["SAP,3.5,caf\\udce9"][1]


def test_columns_of_all_csv_files_stay(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("issue,order\nIBM,7\n")
    (tmp_path / "b b.csv").write_text("issue,size\nSAP,8\nSAP,9\n")
    events = read_events(spark, tmp_path, TRADES)
    good = sorted((row["issue"], row["order"], row["size"]) for row in events.good.collect())
    assert good == [("IBM", "7", None), ("SAP", None, "8"), ("SAP", None, "9")]
    assert bad_of(events) == {}
    (tmp_path / "c.csv").write_text("issue,prise\nSAP,8\n")
    with pytest.raises(
        ContentcastError, match=r"c\.csv: trades has no attribute 'prise', and the events have no column 'price'"
    ):
        read_events(spark, tmp_path, TRADES)
    chosen = read_events(spark, tmp_path, TRADES, pathGlobFilter="a.*")
    assert chosen.good.columns == [*TRADES.names, "order"], "of the files that Spark is told to read"


def test_columns_of_all_parquet_files_count(spark: SparkSession, tmp_path: Path) -> None:
    for day, columns in enumerate(
        [
            {"issue": ["IBM"], "order": pa.array([7], pa.int32())},
            {"issue": ["SAP"], "order": pa.array([2**40], pa.int64()), "price": [5000.0], "note": ["large"]},
        ]
    ):
        (tmp_path / f"in/day={day}").mkdir(parents=True)
        pq.write_table(pa.table(columns), tmp_path / f"in/day={day}/a.parquet")
    batch, stream = (read_events(spark, tmp_path / "in", TRADES, stream=each).good for each in (False, True))
    query = stream.writeStream.format("memory").queryName("unlike").trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    for found in (batch, spark.table("unlike")):
        rows = [(row["issue"], row["order"], row["price"], row["note"], row["day"]) for row in found.orderBy("issue").collect()]
        assert rows == [("IBM", 7, None, None, 0), ("SAP", 2**40, 5000.0, "large", 1)]
    for columns, says in [
        ({"issue": ["SAP"], "price": ["dear"]}, "column price is string, and the attribute is a float"),
        ({"issue": ["SAP"], "note": pa.nulls(1)}, "column note has no type here, as it has no value, and is string in another"),
    ]:
        pq.write_table(pa.table(columns), tmp_path / "in/day=1/b.parquet")
        for each in (False, True):
            with pytest.raises(ContentcastError, match=rf"b\.parquet: {says}"):
                read_events(spark, tmp_path / "in", TRADES, stream=each)


# --- streams


def test_a_stream_sets_the_same_records_aside(spark: SparkSession, tmp_path: Path) -> None:
    source, batch = tmp_path / "in", {}
    source.mkdir()
    (source / "a.jsonl").write_text("\n".join(LINES))
    (source / "b.jsonl").write_text('{"issue": "SAP"}\n{"issue": 3}\n')
    events = read_events(spark, source, TRADES)
    stream = read_events(spark, source, TRADES, stream=True, maxFilesPerTrigger=1)
    for what in ("good", "quarantine"):
        batch[what] = getattr(events, what)
        query = getattr(stream, what).writeStream.format("memory").queryName(what).trigger(availableNow=True).start()
        query.awaitTermination(60)
        assert Counter(map(str, spark.table(what).drop("file").collect())) == Counter(
            map(str, batch[what].drop("file").collect())
        )
    assert batch["quarantine"].count() == 5


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst", "parquet", "orc"])
def test_a_stream_of_every_format_starts(spark: SparkSession, tmp_path: Path, ending: str) -> None:
    """With a file that is there, and goes on with one that comes later."""
    source = tmp_path / "in"
    source.mkdir()

    def put(name: str, price: float) -> None:
        table, part = pa.table({"issue": ["IBM"], "price": [price]}), tmp_path / f"{name}.{ending}"
        text = f'{{"issue": "IBM", "price": {price}}}\n' if "jsonl" in ending else f"issue,price\nIBM,{price}\n"
        if ending == "parquet":
            pq.write_table(table, part)
        elif ending == "orc":
            orc.write_table(table, part)
        else:
            packed = {"gz": "gzip", "zst": "zstd"}.get(ending.rpartition(".")[2])
            with pa.output_stream(str(part), compression=packed) as file:
                file.write(text.encode())
        part.replace(source / part.name)

    put("a", 1.5)
    name = f"started_{ending.replace('.', '_')}"
    query = read_events(spark, source, TRADES, stream=True).good.writeStream.format("memory").queryName(name).start()
    try:
        query.processAllAvailable()
        put("b", 2.5)
        query.processAllAvailable()
        assert sorted((row["issue"], row["price"]) for row in spark.table(name).collect()) == [("IBM", 1.5), ("IBM", 2.5)]
    finally:
        query.stop()


def test_a_csv_file_that_comes_later_may_lack_columns_but_not_misspell_them(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("issue,price,note\nIBM,1.5,x\n")
    events = read_events(spark, source, TRADES, stream=True)
    (source / "b.csv").write_text("other,issue\n1,SAP\n")
    (source / "c.csv").write_text("issue,prise\nSAP,2\nSAP,3\n")
    for what in ("good", "quarantine"):
        query = getattr(events, what).writeStream.format("memory").queryName(f"later_{what}").trigger(availableNow=True).start()
        assert query.awaitTermination(60)
    good = [(row["issue"], row["price"], row["note"]) for row in spark.table("later_good").orderBy("issue").collect()]
    assert good == [("IBM", 1.5, "x"), ("SAP", None, None)]
    bad = {row["record"]: row["reason"] for row in spark.table("later_quarantine").collect()}
    assert set(bad) == {"SAP,2", "SAP,3"}
    assert "has no attribute 'prise', and the events have no column 'price'" in bad["SAP,2"]


def test_a_stream_of_parquet_starts_with_an_empty_folder(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    events = read_events(spark, tmp_path / "in", TRADES, stream=True)
    query = events.good.writeStream.format("memory").queryName("later").start()
    try:
        pq.write_table(pa.table({"issue": ["IBM", "XXX"]}), tmp_path / "in" / "a.parquet")
        query.processAllAvailable()
        assert [row["issue"] for row in spark.table("later").collect()] == ["IBM"]
    finally:
        query.stop()
