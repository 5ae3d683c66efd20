"""`format("contentcast")`: workloads and folders as batches and streams, filters as predicates, events written exactly once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import datasource as spark_filters

import contentcast as cc
from contentcast.language import parse_predicate
from contentcast.model import Space
from contentcast.spark.format.folder import FolderError, Part, add_commit, has_batch, parts_of
from contentcast.spark.format.pushdown import Sieve, predicate_of, row_range
from contentcast.spark.format.rows import evenly, read_options, rows_of
from contentcast.spark.format.sink import StreamWriter, Target, Written
from contentcast.spark.format.source import StreamReader
from contentcast.workload import WorkloadError, scenario
from contentcast.workload.files import write_workload
from tests.spark.format.patient import ended

SEED = 7


def reading(spark, **options):
    reader = spark.read.format("contentcast")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader


def table(frame) -> pa.Table:
    return frame.toArrow()


# --- batches


def test_a_workload_is_a_dataframe_with_the_same_rows(spark) -> None:
    market = scenario("market", seed=SEED, symbols=50)
    frame = reading(
        spark, scenario="market", seed=SEED, symbols=50, events=3000, start=500, event="true", publisher="at"
    ).load()
    assert frame.columns == ["event", "at", *market.space.names]
    found = table(frame.orderBy("event"))
    assert found["event"].to_pylist() == list(range(500, 3500))
    assert found["at"].to_pylist() == market.publishers(3000, start=500).to_pylist()
    assert found.drop_columns(["event", "at"]).to_pylist() == market.events(3000, start=500).to_pylist()

    wanted = reading(spark, scenario="market", seed=SEED, symbols=50, subscriptions=200).load()
    assert table(wanted.orderBy("subscription")).to_pylist() == market.subscriptions(200).to_pylist()


def test_only_the_columns_that_a_schema_asks_for(spark) -> None:
    frame = reading(spark, scenario="market", seed=SEED, events=100).schema("volume long, symbol string").load()
    assert table(frame).to_pylist() == scenario("market", seed=SEED).events(100).select(["volume", "symbol"]).to_pylist()


def test_pushed_filters_and_where_agree_with_spark(spark) -> None:
    """The same condition three ways; a part of it (length) is nothing that a source can be told."""
    condition = "symbol LIKE 'X%' AND price > 5 AND event BETWEEN 10 AND 2900 AND volume NOT IN (1, 2)"
    options = {"scenario": "market", "seed": SEED, "events": 3000, "event": "true"}
    plain = reading(spark, **options).load().where(condition).where("length(symbol) = 3").orderBy("event")
    pushing = reading(spark, **options, pushdown="true").load().where(condition).where("length(symbol) = 3").orderBy("event")
    asked = reading(spark, **options, where=condition).load().where("length(symbol) = 3").orderBy("event")
    assert "StartsWith" not in pushing._jdf.queryExecution().executedPlan().toString()
    assert 0 < plain.count() < 1000
    assert table(pushing) == table(plain)
    assert table(asked) == table(plain)


@pytest.mark.parametrize(
    ("filter_", "text"),
    [
        (spark_filters.EqualTo(("symbol",), "IBM"), "symbol = 'IBM'"),
        (spark_filters.EqualTo(("symbol",), None), "symbol = NULL"),
        (spark_filters.EqualNullSafe(("symbol",), None), "symbol IS NULL"),
        (spark_filters.EqualNullSafe(("price",), 5.0), "price <=> 5.0"),
        (spark_filters.GreaterThan(("price",), 5.0), "price > 5"),
        (spark_filters.GreaterThanOrEqual(("volume",), 5), "volume >= 5"),
        (spark_filters.LessThan(("price",), -0.0), "price < 0"),
        (spark_filters.LessThanOrEqual(("volume",), 5), "volume <= 5"),
        (spark_filters.In(("volume",), (1, None, 3)), "volume IN (1, NULL, 3)"),
        (spark_filters.Not(spark_filters.In(("volume",), (1, None))), "volume NOT IN (1, NULL)"),
        (spark_filters.Not(spark_filters.EqualTo(("symbol",), "IBM")), "symbol <> 'IBM'"),
        (spark_filters.IsNull(("symbol",)), "symbol IS NULL"),
        (spark_filters.IsNotNull(("symbol",)), "symbol IS NOT NULL"),
        (spark_filters.StringStartsWith(("symbol",), "I%"), "startswith(symbol, 'I%')"),
        (spark_filters.StringEndsWith(("symbol",), "M"), "symbol LIKE '%M'"),
        (spark_filters.StringContains(("symbol",), "_"), "contains(symbol, '_')"),
    ],
)
def test_every_filter_of_spark_is_a_predicate(filter_, text: str) -> None:
    space = Space("trades", symbol="string", price="float", volume="int")
    said, left = predicate_of(parse_predicate(space, "TRUE"), [filter_])
    assert left == []
    assert said == parse_predicate(space, text)


def test_a_filter_that_cannot_be_said_is_handed_back_and_the_others_are_taken() -> None:
    space = Space("trades", symbol="string", price="float", volume="int")
    strange = [
        spark_filters.EqualTo(("price",), float("nan")),
        spark_filters.EqualTo(("detail", "state"), 1),
        spark_filters.GreaterThan(("volume",), 5.5),
        spark_filters.StringContains(("volume",), "5"),
        spark_filters.EqualTo(("tags",), [1, 2]),
    ]
    said, left = predicate_of(parse_predicate(space, "volume < 9"), [*strange, spark_filters.IsNotNull(("symbol",))])
    assert left == strange
    assert said == parse_predicate(space, "volume < 9 AND symbol IS NOT NULL")
    batch = pa.record_batch({"symbol": ["A", None, "B"], "volume": pa.array([1, 2, 30]), "extra": [1, 2, 3]})
    assert [each.to_pylist() for each in Sieve(said)(iter([batch]))] == [[{"symbol": "A", "volume": 1, "extra": 1}]]


def test_a_filter_on_the_row_number_leaves_rows_unmade() -> None:
    space = Space("rows", event="int", price="float")
    for text, rows in [
        ("event BETWEEN 10 AND 20", (10, 21)),
        ("event > 95 OR event = 7 AND price < 3", (7, 100)),
        ("price < 3 OR event = 7", (0, 100)),
        ("event IS NULL", (0, 100)),
        ("event > 1000", (1000, 1000)),
        ("event > 5 AND event < 3", (0, 0)),
    ]:
        first, last = row_range(parse_predicate(space, text), "event", 0, 100)
        assert (first, last) == rows or (first >= 100 and first == last), text


# --- what can be wrong


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scenario": "markt"}, "contentcast has no scenario 'markt'; did you mean 'market'?"),
        ({"scenario": "market", "symbls": "5"}, "no option 'symbls'; did you mean 'symbols'?"),
        ({"scenario": "market", "rowsperbach": "5"}, "no option 'rowsperbach'; did you mean 'rowsPerBatch'?"),
        ({"scenario": "market", "events": "many"}, "option events is a whole number from 0 on, got 'many'"),
        ({"scenario": "market", "rows": "trades"}, "option rows is 'events' or 'subscriptions', not 'trades'"),
        ({"scenario": "market", "symbols": "0"}, "market: symbols lies between 1 and 6,840, got 0"),
        ({"scenario": "market", "event": "price"}, "has an attribute 'price'; give the column another name"),
        ({"scenario": "market", "path": "here"}, "reads a workload or a folder"),
        ({}, "option('scenario', NAME) for one of market"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(options: dict[str, str], said: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        rows_of(read_options(options))
    assert said in str(raised.value)


def test_the_error_reaches_the_user_of_spark(spark) -> None:
    with pytest.raises(Exception, match="did you mean 'market'"):
        reading(spark, scenario="markt").load()
    with pytest.raises(Exception, match="has no attribute 'prise'; did you mean 'price'"):
        reading(spark, scenario="market", where="prise < 5").load().count()


def test_a_parameter_with_the_name_of_an_option_has_a_prefix() -> None:
    told = read_options({"scenario": "video", "parameter.rows": "20", "columns": "30"})
    assert dict(told.parameters) == {"rows": 20, "columns": 30}
    assert told.what == "events"


def test_a_folder_that_is_none_of_ours(tmp_path: Path) -> None:
    for path, said in [(tmp_path / "no", "there is no folder"), (tmp_path, "has no space.json")]:
        with pytest.raises(FolderError, match=said):
            rows_of(read_options({"path": str(path)}))
    with pytest.raises(FolderError, match="for s3:// use format 'parquet'"):
        rows_of(read_options({"path": "s3://bucket/x"}))


# --- folders


@pytest.mark.parametrize("format_", ["parquet", "csv", "jsonl"])
def test_what_contentcast_workload_wrote_is_read_in_any_pieces(tmp_path: Path, format_: str) -> None:
    drawn = scenario("summaries", seed=SEED)
    write_workload(drawn, tmp_path, events=2500, subscriptions=300, format=format_)
    rows = rows_of(read_options({"path": str(tmp_path), "event": "true"}))
    assert rows.count() == 2500
    for start, stop in [(0, 2500), (17, 18), (999, 2101)]:
        pieces = [piece for cut in rows.cut(start, stop, 3) for piece in rows.read(*cut)]
        found = pa.Table.from_batches(pieces)
        assert found["event"].to_pylist() == list(range(start, stop))
        assert found.drop_columns(["event"]).to_pylist() == drawn.events(stop - start, start=start).to_pylist()
    subscriptions = rows_of(read_options({"path": str(tmp_path), "rows": "subscriptions"}))
    assert pa.Table.from_batches(subscriptions.read(5, 300)).to_pylist() == drawn.subscriptions(295, start=5).to_pylist()


def test_pieces_are_even_and_miss_nothing() -> None:
    assert evenly(5, 5, 3) == []
    assert evenly(0, 2, 5) == [(0, 1), (1, 2)]
    assert evenly(10, 20, 3) == [(10, 13), (13, 16), (16, 20)]


def events_of(folder: Path) -> pa.Table:
    rows = rows_of(read_options({"path": str(folder), "event": "true", "publisher": "true"}))
    return pa.Table.from_batches(rows.read(0, rows.count()), schema=rows.schema).sort_by("event")


def test_events_are_written_appended_and_replaced(spark, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    told = {"scenario": "market", "seed": str(SEED), "events": "500", "event": "true", "publisher": "true"}
    both = pa.Table.from_batches(rows_of(read_options(told)).read(0, 500))
    first, later = (spark.createDataFrame(each).coalesce(2) for each in (both.slice(0, 300), both.slice(300)))

    def write(frame, mode: str, **options: str) -> None:
        named = {"event": "true", "publisher": "true"} | options
        frame.write.format("contentcast").options(**named).mode(mode).save(str(folder))

    write(first, "append", name="trades")
    write(later, "append")
    assert events_of(folder) == both
    assert Space.load(folder / "space.json").name == "trades"
    assert Space.load(folder / "space.json").names == scenario("market").space.names
    assert spark.read.parquet(f"{folder}/events/*").count() == 500, "other programs read the parts"

    write(later, "overwrite")
    assert events_of(folder) == both.slice(300)
    write(later.limit(0), "overwrite")
    assert events_of(folder).num_rows == 0
    with pytest.raises(Exception, match="the space trades has no attribute 'prise'; did you mean 'price'"):
        write(first.withColumnRenamed("price", "prise"), "append")


def test_a_job_that_fails_leaves_nothing(spark, tmp_path: Path) -> None:
    """The second partition has a price that the space does not allow; the first is written by then."""
    space = Space("trades", price=cc.Attribute("float", low=0.0, high=10.0))
    space.save(tmp_path / "trades.json")
    folder = tmp_path / "history"
    events = spark.range(0, 20, 1, 2).selectExpr("CASE WHEN id < 15 THEN 1.0D ELSE 99.0D END AS price")
    with pytest.raises(Exception, match=r"99\.0 is above the domain"):
        events.write.format("contentcast").option("space", str(tmp_path / "trades.json")).mode("append").save(str(folder))
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert left == []


# --- streams


def test_a_stream_has_the_rows_of_the_batch_and_writes_them_once(spark, tmp_path: Path) -> None:
    """Two runs with one checkpoint: the second goes on where the first ended, and what it reads is what a batch reads."""
    folder, state = str(tmp_path / "history"), str(tmp_path / "state")
    drawn = scenario("market", seed=SEED)

    def run(events: int) -> list[int]:
        stream = spark.readStream.format("contentcast").option("scenario", "market").option("seed", SEED)
        stream = stream.option("events", events).option("rowsPerBatch", 600).option("event", "true").load()
        writing = stream.writeStream.format("contentcast").option("event", "true").option("checkpointLocation", state)
        query = ended(lambda: writing.trigger(availableNow=True).start(folder))
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]

    assert run(1000) == [600, 400]
    assert run(1500) == [500]
    found = table(reading(spark, event="true").load(folder).orderBy("event"))
    assert found["event"].to_pylist() == list(range(1500))
    assert found.drop_columns(["event"]).to_pylist() == drawn.events(1500).to_pylist()


def test_a_followed_folder_shows_what_is_committed_meanwhile(tmp_path: Path) -> None:
    space = Space("trades", price="float")
    add_commit(tmp_path, space, [write_part(tmp_path, [1.0, 2.0, 3.0])], replaces=False)
    told = read_options({"path": str(tmp_path), "rowsperbatch": "2", "where": "price <> 2", "partitions": "1"})
    rows = rows_of(told)
    stream = StreamReader(told, rows.schema, parse_predicate(space, told.where))
    row, batches = stream.initialOffset(), []
    for more in ([4.0, 5.0], [], [], [6.0]):
        end = stream.latestOffset(row, stream.getDefaultReadLimit())
        found = [batch for each in stream.partitions(row, end) for batch in stream.read(each)]
        batches.append([price for batch in found for price in batch["price"].to_pylist()])
        row = end
        if more:
            add_commit(tmp_path, space, [write_part(tmp_path, more)], replaces=False)
    assert batches == [[1.0], [3.0, 4.0], [5.0], []]
    add_commit(tmp_path, space, [write_part(tmp_path, [7.0])], replaces=True)
    with pytest.raises(cc.ContentcastError, match="had 5 rows and has 1: it was replaced; take a new checkpoint"):
        stream.latestOffset(row, stream.getDefaultReadLimit())


def test_a_workload_without_end_says_so_to_available_now() -> None:
    told = read_options({"scenario": "market"})
    with pytest.raises(WorkloadError, match=r"say option\('events', COUNT\)"):
        StreamReader(
            told, rows_of(told).schema, parse_predicate(scenario("market").space, "TRUE")
        ).prepareForTriggerAvailableNow()


def test_a_rate_is_kept_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from contentcast.spark.format import source

    clock = 100.0
    monkeypatch.setattr(source, "monotonic", lambda: clock)
    told = read_options({"scenario": "market", "rowspersecond": "50", "rowsperbatch": "120", "start": "1000"})
    rows = rows_of(told)
    stream = source.StreamReader(told, rows.schema, source._wanted(told, rows))
    limit = stream.getDefaultReadLimit()
    assert stream.latestOffset(stream.initialOffset(), limit) == {"row": 1000}
    clock += 2.0
    assert stream.latestOffset({"row": 1000}, limit) == {"row": 1100}
    clock += 8.0
    assert stream.latestOffset({"row": 1100}, limit) == {"row": 1220}, "a batch has at most 120"
    assert stream.latestOffset({"row": 1100}, ReadAllAvailable()) == {"row": 1500}
    assert [(each.start, each.stop) for each in stream.partitions({"row": 5}, {"row": 5})] == []


# --- exactly once


def write_part(folder: Path, prices: list[float]) -> Part:
    path = folder / f".unfinished-{len(list(folder.iterdir()))}.parquet"
    pa.parquet.write_table(pa.table({"price": pa.array(prices)}), path)
    return Part(path, len(prices))


def test_a_batch_of_a_stream_that_is_committed_again_is_dropped(tmp_path: Path) -> None:
    """As after a crash between our rename and Spark's own note of the batch: the tasks run again, and so does the commit."""
    from pyspark.sql.types import DoubleType, StructType

    target = Target({"path": str(tmp_path)}, StructType().add("price", DoubleType()), overwrite=False)
    for prices, batch in [([1.0, 2.0], 0), ([3.0], 1), ([3.0], 1), ([1.0, 2.0], 0), ([4.0], 2)]:
        part = write_part(tmp_path, prices)
        StreamWriter(target).commit([Written(0, str(part.path), part.rows, "stream-1"), None], batch)
    other = write_part(tmp_path, [9.0])
    StreamWriter(target).commit([Written(0, str(other.path), 1, "stream-2")], 0)
    rows = rows_of(read_options({"path": str(tmp_path)}))
    assert [each["price"] for batch in rows.read(0, rows.count()) for each in batch.to_pylist()] == [1.0, 2.0, 3.0, 4.0, 9.0]
    assert has_batch(tmp_path, "stream-1", 2)
    assert not has_batch(tmp_path, "stream-1", 3)


def test_a_commit_shows_all_of_its_parts_at_once_and_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space("trades", price="float")
    add_commit(tmp_path, space, [write_part(tmp_path, [1.0]), write_part(tmp_path, [2.0, 3.0])], replaces=False)
    assert [part.rows for part in parts_of(tmp_path)] == [1, 2]

    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", fail)
        with pytest.raises(OSError, match="no space left"):
            add_commit(tmp_path, space, [write_part(tmp_path, [4.0])], replaces=True)
    assert [part.rows for part in parts_of(tmp_path)] == [1, 2], "what could not be renamed is not seen"
    add_commit(tmp_path, space, [write_part(tmp_path, [5.0])], replaces=True)
    assert [part.rows for part in parts_of(tmp_path)] == [1]
