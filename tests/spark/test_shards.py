"""Shards: subscriptions in several indexes and events sent to them give the pairs that one index gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import contentcast as cc
from contentcast.language import parse_many
from contentcast.model import ContentcastError, Space
from contentcast.pipeline.feeds import market_feed
from contentcast.pipeline.job import Facts, run_job
from contentcast.spark import Prepared, match, prepare, read_deliveries
from contentcast.spark.subscriptions import building_on_workers, choosing, indexes, shards
from contentcast.spark.subscriptions.choosing import choose_shards
from contentcast.spark.subscriptions.shards import Shards, hash_texts, split, take_rows, visits
from contentcast.workload import scenario
from tests.properties.generate import Generator
from tests.spark.oracle import EVENT, found_pairs, oracle_pairs, subscription_table, table_of

TRADES = Space("trades", symbol="string", price="float", volume="int")


def rows_of(texts: list[str], chosen: Shards) -> list[list[int]]:
    return [rows.tolist() for rows, _ in split(TRADES, pa.chunked_array([pa.array(texts)]), chosen)]


def test_a_subscription_lies_where_its_events_go() -> None:
    """The picture at the top of shards.py."""
    texts = [
        "symbol = 'IBM' AND price < 9",
        "symbol IN ('IBM', 'SAP')",
        "volume > 100",
        "symbol = 'SAP' OR volume > 100",
        "symbol IS NULL",
        "symbol LIKE 'I%'",
        "FALSE",
    ]
    found = rows_of(texts, Shards("symbol", 2, 1))
    (ibm,) = {shard for shard in (0, 1) if 0 in found[shard]}
    assert found[2] == [2, 3, 4, 5, 6]
    assert 0 in found[ibm]
    assert [shard for shard in (0, 1) if 1 in found[shard]] in ([ibm], [0, 1])
    events = pa.record_batch({"symbol": ["IBM", None]})
    sent, where = visits(events, events["symbol"], Shards("symbol", 2, 1))
    assert list(zip(sent["symbol"].to_pylist(), where.tolist(), strict=True)) == [("IBM", ibm), ("IBM", 2), (None, 2)]


def test_a_hot_value_has_shards_of_its_own_and_its_events_visit_all_of_them() -> None:
    """The second picture at the top of shards.py; a subscription of two values lies with either."""
    ibm = int(hash_texts(pa.array(["IBM"]))[0])
    chosen = Shards("symbol", 2, 1, hot=((ibm, 2),))
    texts = ["symbol = 'IBM' AND price < 9", "symbol = 'IBM'", "symbol IN ('IBM', 'SAP')", "symbol = 'SAP'", "volume > 100"]
    found = rows_of(texts, chosen)
    assert chosen.count == 5
    assert found[2:] == [[0, 2], [1], [4]]
    assert sorted(found[0] + found[1]) == [2, 3], "those of SAP lie where its events go"
    events = pa.record_batch({"symbol": ["IBM", "SAP", None]})
    sent, where = visits(events, events["symbol"], chosen)
    went = list(zip(sent["symbol"].to_pylist(), where.tolist(), strict=True))
    [sap] = {shard for value, shard in went if value == "SAP" and shard < 2}
    assert Counter(went) == Counter([("IBM", 2), ("IBM", 3), ("IBM", 4), ("SAP", sap), ("SAP", 4), (None, 4)])


@pytest.mark.parametrize("seed", range(30))
def test_each_pair_is_found_in_one_shard(seed: int) -> None:
    """Without Spark: every event at every shard that it visits finds what the oracle finds, nothing twice."""
    random = Random(seed)
    generate = Generator(random)
    space = generate.space()
    texts = {each: generate.text(space) for each in range(60)}
    events = [generate.event(space) for _ in range(30)]
    keys = [name for name in space.names if space[name].kind in shards.KEY_KINDS]
    chosen = Shards(random.choice(keys) if keys else None, random.randint(1, 4) if keys else 0, random.randint(1, 2))
    column = pa.chunked_array([pa.array(list(texts.values())[:40]), pa.array(list(texts.values())[40:])])
    if chosen.key is not None:  # any value may be hot, the meaning is the same
        hashes = np.unique(shards.pinned_rows(parse_many(space, column), chosen.key)[2]).tolist()
        hot = random.sample(hashes, min(len(hashes), random.randint(0, 3)))
        chosen = replace(chosen, hot=tuple((each, random.randint(1, 3)) for each in hot))
    indexes = []
    for rows, _ in split(space, column, chosen):
        index = cc.MatchIndex(space)
        index.add_many(rows, take_rows(column, rows))
        indexes.append(index)
    batch = cc.EventBatch.from_dicts(space, events).records.append_column(EVENT, pa.array(range(30), pa.int64()))
    values = batch[chosen.key] if chosen.key else batch[EVENT]
    sent, where = visits(batch, values, chosen)
    found: Counter[tuple[int, int]] = Counter()
    for shard, index in enumerate(indexes):
        mine = sent.take(pa.array(np.flatnonzero(where == shard)))
        pairs = index.match_batch(mine, unknown="ignore")
        found.update(zip(mine[EVENT].take(pairs["event"]).to_pylist(), pairs["subscription"].to_pylist(), strict=True))
    assert found == oracle_pairs(space, events, texts), f"seed {seed}: {chosen}"


def test_the_attribute_that_most_subscriptions_pin_down_is_the_key() -> None:
    market = scenario("market", seed=2)
    texts = pa.chunked_array([market.subscriptions(2_000)["predicate"]])
    chosen = choose_shards(market.space, texts, 6, None)
    assert (chosen.key, chosen.by_value + chosen.rest) == ("symbol", 6)
    assert choose_shards(market.space, texts, 6, "exchange").key == "exchange"
    assert choose_shards(market.space, texts, 1, None) == shards.ONE
    assert choose_shards(market.space, texts, None, None) == shards.ONE, "far below the size from which on they are split"
    nothing_pinned = pa.chunked_array([["price < 1", "volume > 3"]])
    assert choose_shards(market.space, nothing_pinned, 3, None) == Shards(None, 0, 3)


def test_a_value_that_most_subscriptions_share_is_hot() -> None:
    texts = [f"symbol = 'IBM' AND price < {number}" for number in range(700)]
    texts += [f"symbol = 's{number}'" for number in range(200)] + [f"volume > {number}" for number in range(100)]
    chosen = choose_shards(TRADES, pa.chunked_array([texts]), 10, None)
    assert chosen.key == "symbol"
    assert chosen.hot == ((int(hash_texts(pa.array(["IBM"]))[0]), 7),)
    assert chosen.count == 10
    assert max(len(rows) for rows in rows_of(texts, chosen)) <= 150, "without, one shard would have more than 700 of 1,000"


def test_the_number_of_shards_follows_the_memory_of_a_worker() -> None:
    market = scenario("market", seed=2)
    texts = pa.chunked_array([market.subscriptions(4_000)["predicate"]])
    index = cc.MatchIndex(market.space)
    index.add_many(range(len(texts)), texts)
    with TemporaryDirectory() as folder:
        index.save(Path(folder) / "index")
        size = (Path(folder) / "index").stat().st_size
    assert choose_shards(market.space, texts, None, None, room=size + 1) == shards.ONE
    assert choose_shards(market.space, texts, None, None, room=size // 2).count in (2, 3)
    assert choose_shards(market.space, texts, None, None, room=size // 8).count in (8, 9)
    assert choose_shards(market.space, texts, 3, None, room=size // 8).count == 3, "as asked for"


def test_a_worker_with_limited_memory_holds_one_shard_after_the_other(tmp_path: Path) -> None:
    """The limit is real: what the process has after its first events, and 8 MB; one index of all takes more."""
    market = scenario("market", seed=2)
    pq.write_table(pa.Table.from_batches([market.subscriptions(LIMITED_SUBSCRIPTIONS)]), tmp_path / "subscriptions.parquet")
    words = [sys.executable, "-c", LIMITED, str(tmp_path), str(LIMITED_SUBSCRIPTIONS)]
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads(ended.stdout)
    assert told["shards"] > 8
    assert told["bytes"] > 12 << 20, "all shards together take more than the limit leaves"
    assert told["split"] == told["wanted"] > 0
    assert "cannot map" in told["whole"]
    assert "index-0" in told["whole"]
    assert "or split the subscriptions into more shards" in told["whole"]


LIMITED_SUBSCRIPTIONS = 100_000
LIMITED = """
import json, resource, sys
from pathlib import Path
import contentcast as cc
from contentcast.spark import prepare
from contentcast.spark.cluster.room import address_space
from contentcast.spark.subscriptions.mapped import Mapped
from contentcast.workload import scenario

folder, count = Path(sys.argv[1]), int(sys.argv[2])
market = scenario("market", seed=2)
split = prepare(folder / "subscriptions.parquet", market.space, shards=12, folder=folder / "split")
whole = prepare(folder / "subscriptions.parquet", market.space, folder=folder / "whole")
events = market.events(40)

def found(prepared):
    return sum(len(rows) for rows, _ in Mapped(prepared, prepared.version).found(events, most_pairs=10_000))

wanted = found(whole)
assert found(split) == wanted
limit = address_space() + (8 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
again = found(split)
try:
    told = str(found(whole))
except cc.ContentcastError as error:
    told = str(error)
sizes = [each.stat().st_size for each in (folder / "split").glob("*-index-*")]
print(json.dumps({"shards": len(sizes), "bytes": sum(sizes), "split": again, "wanted": wanted, "whole": told}))
"""


def test_workers_build_the_shards_of_a_large_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that they share: the same pairs, and the same refused rows, as when the driver builds."""
    market = scenario("market", seed=8)
    subscriptions, events = market.subscriptions(3_000), market.events(400)
    texts = subscriptions["predicate"].to_pylist()
    texts[7], texts[2_900] = "prise < 3", "price <"
    table = pa.table(subscriptions.set_column(1, "predicate", pa.array(texts)))
    frame = spark.createDataFrame(pa.Table.from_batches([events]).append_column(EVENT, pa.array(range(400))))
    by_driver = prepare(table, market.space, shards=5)
    built: list[int] = []
    work = building_on_workers.build_on_workers

    def noted(*told: Any) -> int:
        built.append(work(*told))
        return built[-1]

    monkeypatch.setattr(building_on_workers, "BUILD_ON_WORKERS_FROM", 3_000)
    monkeypatch.setattr(indexes, "build_on_workers", noted)
    by_workers = prepare(table, market.space, shards=5, folder=tmp_path)
    assert built == [2]
    assert by_workers.refused().equals(by_driver.refused())
    assert by_workers.shards == by_driver.shards
    names = {each.name.rpartition("-")[2] for each in tmp_path.iterdir()}
    assert names == {*map(str, range(by_workers.shards.count)), "columns", "refused", "about", "current"}
    found = found_pairs(match(frame, by_workers, market.space))
    assert found == found_pairs(match(frame, by_driver, market.space))
    assert sum(found.values()) > 200


def test_events_of_one_value_go_to_several_tasks(spark: SparkSession) -> None:
    """Nearly all events are of one symbol, and so are nearly all subscriptions: no task has them all."""
    events = [{"symbol": "IBM", "price": float(number), "volume": number} for number in range(400)]
    texts = {number: f"symbol = 'IBM' AND price < {number}" for number in range(300)} | {
        900: "symbol = 'SAP'",
        901: "volume < 3",
    }
    prepared = prepare(subscription_table(texts), TRADES, shards=4, shard_key="symbol")
    assert prepared.shards.hot
    matches = match(spark.createDataFrame(table_of(TRADES, events)), prepared, TRADES)
    assert found_pairs(matches) == oracle_pairs(TRADES, events, texts)
    cores = spark.sparkContext.defaultParallelism
    rows = matches.groupBy(F.spark_partition_id()).count().collect()
    assert len(rows) >= cores * dict(prepared.shards.hot).popitem()[1] - 1
    assert max(row["count"] for row in rows) < sum(row["count"] for row in rows) / cores


def test_a_column_with_a_backtick_in_its_name_goes_through_shards_too(spark: SparkSession) -> None:
    texts = {1: "symbol = 'IBM'", 2: "volume > 1"}
    prepared = prepare(subscription_table(texts), TRADES, shards=2)
    events = [{"symbol": "IBM", "volume": 1}, {"symbol": "SAP", "volume": 2}]
    frame = spark.createDataFrame(table_of(TRADES, events)).withColumn("a`b", F.col("volume"))
    matches = match(frame, prepared, TRADES)
    assert found_pairs(matches) == oracle_pairs(TRADES, events, texts)
    assert sorted(row["a`b"] for row in matches.collect()) == [1, 2]


def test_large_tables_are_split_and_give_the_same_pairs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    market = scenario("market", seed=8)
    subscriptions, events = market.subscriptions(1_000), market.events(400)
    frame = spark.createDataFrame(pa.Table.from_batches([events]).append_column(EVENT, pa.array(range(400))))
    whole = found_pairs(match(frame, subscriptions, market.space))
    monkeypatch.setattr(choosing, "SHARD_FROM", 300)
    prepared = prepare(subscriptions, market.space)
    assert prepared.shards.key == "symbol"
    assert prepared.shards.count >= 4
    sizes = [len(prepared.open().index(shard)) for shard in range(prepared.shards.count)]
    assert max(sizes) < 500, f"no shard has nearly all: {sizes}"
    assert sum(sizes) >= 1_000
    assert found_pairs(match(frame, prepared, market.space)) == whole
    assert sum(whole.values()) > 200


def test_what_cannot_be_a_key() -> None:
    for key, complaint in [("price", "cannot be sharded by 'price'"), ("symbl", "did you mean 'symbol'")]:
        with pytest.raises(ContentcastError, match=complaint):
            prepare(subscription_table({1: "price < 1"}), TRADES, shards=2, shard_key=key)
    with pytest.raises(ContentcastError, match="shards counts from 1, got 0"):
        prepare(subscription_table({1: "price < 1"}), TRADES, shards=0)


def test_a_worker_with_all_shards_finds_each_pair_once(tmp_path: Path) -> None:
    """As the main job does, without a shuffle: what lies in several shards is not found several times."""
    texts = {
        1: "symbol IN ('IBM', 'SAP', 'T', 'GE')",
        2: "symbol = 'IBM' AND price < 9",
        3: "volume > 100",
        4: "symbol = 'SAP' OR volume > 100",
        5: "symbol IS NULL",
    }
    events = [
        {"symbol": each, "price": 5.0, "volume": 50 + 20 * number} for number, each in enumerate(("IBM", "SAP", "T", "X"))
    ]
    events.append({"volume": 200})
    prepared = prepare(subscription_table(texts), TRADES, shards=8, shard_key="symbol", folder=tmp_path)
    assert prepared.shards.count == 8
    assert prepared.shards.hot, "IBM has a shard of its own, so the first subscription lies in two"
    rows, found = prepared.open().found_at_once(table_of(TRADES, events))
    ids = prepared.open().column("subscription", pa.array(found)).to_pylist()
    assert Counter(zip(rows.tolist(), ids, strict=True)) == oracle_pairs(TRADES, events, texts)
    assert rows.tolist() == sorted(rows)


def test_the_main_job_takes_shards_from_the_same_size_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And comes to the same: deliveries, sums, what is learnt, examples."""
    taken: list[int] = []

    def noted(*told: Any, **more: Any) -> Prepared:
        taken.append((prepared := prepare(*told, **more)).shards.count)
        return prepared

    def ran(name: str) -> tuple[Facts, pa.Table]:
        facts = run_job(
            spark, market_feed(spark, 900, 200, 3, scenario="market"), tmp_path / name, ["flooding"], lambda step: nullcontext()
        )
        found = read_deliveries(spark, tmp_path / name / "deliveries").toArrow()
        return facts, found.sort_by([(each, "ascending") for each in found.column_names])

    for module in ("pipeline.job", "spark.learn"):
        monkeypatch.setattr(import_module(f"contentcast.{module}"), "prepare", noted)
    one, deliveries = ran("one")
    assert (taken, deliveries.num_rows > 100) == ([1, 1], True)
    monkeypatch.setattr(choosing, "SHARD_FROM", 60)
    several, again = ran("several")
    assert all(count > 3 for count in taken[2:])
    assert again.equals(deliveries)
    assert (several.delivered.events, several.delivered.matches) == (one.delivered.events, one.delivered.matches)
    assert several.delivered.fan_out.tolist() == one.delivered.fan_out.tolist()
    assert several.delivered.least.tolist() == one.delivered.least.tolist()
    assert several.learnt is not None
    assert one.learnt is not None
    assert several.learnt.rates.equals(one.learnt.rates)
    assert several.learnt.plan == one.learnt.plan
    assert several.examples == one.examples
