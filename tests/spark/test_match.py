"""`match`: the pairs of the oracle, with the columns of both sides, whatever the events and the subscriptions are."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from functools import reduce
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import contentcast as cc
from contentcast.model import ContentcastError, Space
from contentcast.spark import match, prepare, refused
from contentcast.spark.match import ROWS_OUT, _pairs
from contentcast.workload import scenario
from tests.case_files import Case, cases
from tests.properties.generate import Generator
from tests.spark.oracle import EVENT, found_pairs, frame_of, oracle_pairs, subscription_table

TRADES = Space("trades", issue="string", price="float", volume="int")
WANTED = {1: "issue = 'IBM' AND price < 120", 2: "volume > 100", 3: "issue IS NULL", 4: "price BETWEEN 8 AND 9"}
EVENTS = [
    {"issue": "IBM", "price": 119.5, "volume": 5000},
    {"issue": "SAP", "price": 8.5},
    {"volume": 1},
    {"issue": "IBM", "price": 121.0, "volume": 7},
]


# --- the cases and random workloads: oracle == match == Spark SQL


def by_space() -> dict[Space, list[Case]]:
    grouped: dict[Space, list[Case]] = {}
    for case in cases():
        grouped.setdefault(case.space, []).append(case)
    return grouped


def sql_pairs(frame: DataFrame, texts: dict[int, str]) -> DataFrame:
    """The same texts as Spark's own conditions."""
    ids = [F.when(F.expr(f"CAST(({text}) AS BOOLEAN)"), F.lit(each)) for each, text in texts.items()] or [F.lit(None)]
    return frame.select(F.col(EVENT), F.explode(F.array_compact(F.array(*ids))).alias("subscription"))


NOT_IN_SPARK = re.compile(r"[0-9][0-9.]{15,}|in_cidr")
"""Where docs/reference/language.md says that Spark loses digits, takes absent for TRUE or lacks a function: left out here."""


def test_every_case_by_match_by_spark_sql_and_by_the_oracle(spark: SparkSession) -> None:
    """All cases of a space at once: each event meets the subscriptions of all of them."""
    expected: Counter[tuple[int, int, int]] = Counter()
    said: Counter[tuple[int, int, int]] = Counter()
    matched, by_sql = [], []
    for number, (space, members) in enumerate(by_space().items()):
        events = [case.event for case in members]
        whose = [(at, each, text) for at, case in enumerate(members) for each, text in case.subscriptions.items()]
        texts = {each: text for each, (_, _, text) in enumerate(whose)}
        pairs = oracle_pairs(space, events, texts)
        for at, case in enumerate(members):
            assert sorted(whose[each][1] for row, each in pairs if row == at == whose[each][0]) == case.expected, case.name
        expected.update({(number, *pair): count for pair, count in pairs.items()})
        sayable = {each: text for each, text in texts.items() if not NOT_IN_SPARK.search(text)}
        said.update({(number, *pair): count for pair, count in pairs.items() if pair[1] in sayable})
        frame = frame_of(spark, space, events)
        found = match(frame, subscription_table(texts), space, columns=[EVENT, "subscription"])
        matched.append(found.select(F.lit(number).alias("space"), EVENT, "subscription"))
        by_sql.append(sql_pairs(frame, sayable).select(F.lit(number).alias("space"), EVENT, "subscription"))
    assert len(said) > 0.9 * len(expected) > 5_000
    for tables, wanted in ((matched, expected), (by_sql, said)):
        rows = reduce(DataFrame.unionAll, tables).collect()
        assert Counter((row["space"], row[EVENT], row["subscription"]) for row in rows) == wanted


@pytest.mark.parametrize("seed", [1, 4])
def test_random_predicates_and_events(spark: SparkSession, seed: int) -> None:
    generate = Generator(Random(seed), networks=False)
    space = generate.space()
    texts = {each: generate.text(space) for each in range(80)}
    events = [generate.event(space) for _ in range(60)]
    expected = oracle_pairs(space, events, texts)
    frame = frame_of(spark, space, events)
    assert found_pairs(match(frame, subscription_table(texts), space)) == expected, f"seed {seed}"
    assert found_pairs(match(frame, subscription_table(texts), space, shards=3)) == expected, f"seed {seed}"
    assert found_pairs(sql_pairs(frame, texts)) == expected, f"seed {seed}"


def test_hot_symbols_in_many_small_files(spark: SparkSession, tmp_path: Path) -> None:
    """Half of all events are of few symbols, which most subscriptions want."""
    market = scenario("market-hot", seed=3)
    events = market.events(300)
    for start in range(0, 300, 3):
        few = pa.Table.from_batches([events.slice(start, 3)]).append_column(EVENT, pa.array(range(start, start + 3)))
        pq.write_table(few, tmp_path / f"{start}.parquet")
    subscriptions = market.subscriptions(400)
    texts = dict(zip(subscriptions["subscription"].to_pylist(), subscriptions["predicate"].to_pylist(), strict=True))
    found = found_pairs(match(spark.read.parquet(str(tmp_path)), subscriptions, market.space))
    assert found == oracle_pairs(market.space, events.to_pylist(), texts)
    assert sum(found.values()) > 300


# --- what a row of the result has


def test_a_row_has_all_columns_of_both_but_the_predicate(spark: SparkSession) -> None:
    noon = datetime.datetime(2026, 3, 1, 12)
    events = spark.createDataFrame(
        [("IBM", 119.5, 1001, ["a"], noon), ("SAP", 8.5, 1002, None, None)],
        "issue string, price float, `order no` int, tags array<string>, at timestamp_ntz",
    )
    wanted = spark.createDataFrame(
        [(7, "price < 120", "desk-7", None, noon), (8, "volume > 1", "desk-8", 1.5, noon)],
        "subscription int, predicate string, subscriber string, weight double, since timestamp",
    )
    result = match(events, wanted, TRADES)
    assert result.columns == [*events.columns, "volume", "subscription", "subscriber", "weight", "since"]
    assert dict(result.dtypes)["price"] == "double", "the attribute's own type"
    rows = {row["issue"]: row.asDict() for row in result.collect()}
    assert rows["IBM"] == {
        "issue": "IBM",
        "price": 119.5,
        "order no": 1001,
        "tags": ["a"],
        "at": noon,
        "volume": None,
        "subscription": 7,
        "subscriber": "desk-7",
        "weight": None,
        "since": noon,
    }
    assert rows["SAP"]["tags"] is None


def test_chosen_columns_and_lists(spark: SparkSession) -> None:
    frame = frame_of(spark, TRADES, EVENTS)
    expected = oracle_pairs(TRADES, EVENTS, WANTED)
    prepared = prepare(subscription_table(WANTED), TRADES)
    some = match(frame, prepared, TRADES, columns=["broker", "issue"])
    assert some.columns == ["issue", "broker"]
    assert some.count() == sum(expected.values())
    assert match(frame, prepared, TRADES, columns=[]).count() == sum(expected.values())
    lists = match(frame, prepared, TRADES, columns=[EVENT], lists=True)
    assert lists.columns == [EVENT, "subscriptions"]
    assert {(row[EVENT], each) for row in lists.collect() for each in row["subscriptions"]} == set(expected)
    assert found_pairs(lists.select(EVENT, F.explode("subscriptions").alias("subscription"))) == expected


def test_attributes_inside_structs(spark: SparkSession) -> None:
    space = Space("alarms", {"detail.state": "string", "detail.level": "int", "id": "int"})
    events = spark.createDataFrame(
        [(1, ("up", 3)), (2, ("down", 9)), (3, None)], "id long, detail struct<state string, level int>"
    )
    wanted = {1: "`detail.state` = 'up'", 2: "`detail.level` > 5", 3: "`detail.level` IS NULL"}
    for shards in (None, 3):
        result = match(events, subscription_table(wanted), space, shards=shards)
        assert {(row["id"], row["subscription"]) for row in result.collect()} == {(1, 1), (2, 2), (3, 3)}
        assert dict(result.dtypes)["detail"] == "struct<state:string,level:int>"


def test_an_index_that_was_built_elsewhere(spark: SparkSession) -> None:
    index = cc.MatchIndex(TRADES)
    index.add_many([40, 2**61], ["price < 9", "issue = 'IBM'"])
    result = match(frame_of(spark, TRADES, EVENTS), index, TRADES)
    assert found_pairs(result) == Counter({(1, 40): 1, (0, 2**61): 1, (3, 2**61): 1})
    assert result.columns[-1] == "subscription"


# --- corners


def test_nothing_meets_nothing(spark: SparkSession) -> None:
    some, none = subscription_table(WANTED), subscription_table({})
    frame = frame_of(spark, TRADES, EVENTS)
    assert match(frame.limit(0), some, TRADES).count() == 0
    assert match(frame, none, TRADES).count() == 0
    assert match(frame, none, TRADES, shards=2).count() == 0
    assert match(frame, none, TRADES).columns == match(frame, some, TRADES).columns


def test_columns_of_nulls(spark: SparkSession) -> None:
    events = spark.createDataFrame([(None, None), (None, None)], "issue string, extra int").withColumn("price", F.lit(None))
    result = match(events, subscription_table(WANTED), TRADES)
    assert [row["subscription"] for row in result.collect()] == [3, 3], "issue IS NULL"


def test_what_matches_everything_leaves_in_pieces() -> None:
    """400,000 pairs of one batch; no piece holds more than the bound and one event's pairs."""
    everything = prepare(subscription_table({each: "TRUE" for each in range(400)}), TRADES)
    events = pa.record_batch({"issue": ["IBM"] * 1000})
    sizes = [piece.num_rows for piece in _pairs(["issue"], ["subscription", "broker"])(events, everything.open(), 0)]
    assert sum(sizes) == 400_000
    assert max(sizes) <= ROWS_OUT + 400
    assert len(sizes) >= 6


# --- what is refused


def test_bad_subscriptions_are_named_and_stop_no_other(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    wanted = spark.createDataFrame(
        [
            (1, "price < 120"),
            (2, "prise < 120"),
            (3, "volume > 1"),
            (3, "volume > 2"),
            (None, "TRUE"),
            (4, None),
            (5, "issue = "),
        ],
        "subscription long, predicate string",
    )
    reasons = {(row["subscription"], row["predicate"]): row["reason"] for row in refused(wanted, TRADES).collect()}
    assert set(reasons) == {
        (2, "prise < 120"),
        (3, "volume > 2"),
        (None, "TRUE"),
        (4, None),
        (5, "issue = "),
    }
    assert "has no attribute 'prise'; did you mean 'price'?" in reasons[2, "prise < 120"]
    assert reasons[3, "volume > 2"] == "subscription 3 is given already; the first is kept"
    assert reasons[None, "TRUE"] == "the subscription has no id (null)"
    for shards in (None, 2):
        caplog.clear()
        prepared = prepare(wanted, TRADES, shards=shards)
        assert (prepared.count, prepared.refused_count) == (2, 5)
        assert "subscriptions refused: 5" in caplog.text
        found = found_pairs(match(frame_of(spark, TRADES, EVENTS), prepared, TRADES))
        assert found == Counter([(0, 1), (1, 1), (0, 3), (3, 3)])


@pytest.mark.parametrize(
    ("events", "wanted", "complaint"),
    [
        (
            "issue string, broker string",
            "subscription long, predicate string, Broker string",
            "both have the column broker; rename",
        ),
        ("issue string, subscription int", "subscription long, predicate string", "both have the column subscription"),
        ("price string", "subscription long, predicate string", "column price is string, and the attribute is a float"),
        (
            "prize float, when date",
            "subscription long, predicate string",
            "none of the columns prize, when is an attribute of trades",
        ),
        ("issue string", "subscription long, predicat string", "have no column 'predicate'; did you mean 'predicat'?"),
        ("issue string", "subscription long, predicate int", "predicates are text, and the column predicate is int32"),
    ],
)
def test_tables_that_do_not_fit(spark: SparkSession, events: str, wanted: str, complaint: str) -> None:
    def one_row(schema: str) -> DataFrame:
        empty = spark.createDataFrame([], schema)
        return spark.createDataFrame([[None] * len(empty.columns)], schema)

    with pytest.raises(ContentcastError) as caught:
        match(one_row(events), one_row(wanted), TRADES)
    assert complaint in str(caught.value)


def test_other_things_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, TRADES, EVENTS)
    other = prepare(subscription_table({1: "x = 1"}), Space("others", x="int"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.parquet").write_text("nothing of the kind")
    (tmp_path / "table.xlsx").touch()
    for given, complaint in [
        (other, "subscriptions over others do not fit the space trades"),
        (tmp_path / "gone.parquet", "there is no subscription file"),
        (tmp_path / "empty", "holds no subscriptions; they come as .parquet, .csv, .jsonl"),
        (tmp_path / "bad.parquet", "bad.parquet cannot be read"),
        (tmp_path / "table.xlsx", "subscriptions come as .parquet, .csv, .jsonl, .txt, not .xlsx"),
        ("s3://bucket/table", "let Spark read it"),
        (spark.readStream.format("rate").load(), "subscriptions come as a table, not as a stream"),
        (7, "subscriptions come as a DataFrame or as the path of a table, not as int"),
    ]:
        with pytest.raises(ContentcastError) as caught:
            match(frame, given, TRADES)  # type: ignore[arg-type]
        assert complaint in str(caught.value)
    with pytest.raises(ContentcastError, match="have the column 'issu'; did you mean 'issue'"):
        match(frame, subscription_table(WANTED), TRADES, columns=["issu"])


def test_a_bad_event_in_a_plain_table_says_what_to_do(spark: SparkSession) -> None:
    events = spark.createDataFrame([("IBM", float("nan"))], "issue string, price double")
    with pytest.raises(Exception, match=r"NaN is not a value.*ingest\(events, space\) sets such records aside"):
        match(events, subscription_table(WANTED), TRADES).collect()
