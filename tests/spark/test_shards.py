"""Shards: subscriptions in several indexes and events sent to them give the pairs that one index gives."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import contentcast as cc
from contentcast.model import ContentcastError, Space
from contentcast.pipeline.feeds import market_feed
from contentcast.pipeline.job import Facts, run_job
from contentcast.spark import Prepared, match, prepare, read_deliveries
from contentcast.spark.subscriptions import shards
from contentcast.spark.subscriptions.shards import Shards, choose_shards, split, visits
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
    column = pa.chunked_array([pa.array(list(texts.values()))])
    indexes = []
    for rows, _ in split(space, column, chosen):
        index = cc.MatchIndex(space)
        index.add_many(rows, column.take(pa.array(rows)))
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


def test_large_tables_are_split_and_give_the_same_pairs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    market = scenario("market", seed=8)
    subscriptions, events = market.subscriptions(1_000), market.events(400)
    frame = spark.createDataFrame(pa.Table.from_batches([events]).append_column(EVENT, pa.array(range(400))))
    whole = found_pairs(match(frame, subscriptions, market.space))
    monkeypatch.setattr(shards, "SHARD_FROM", 300)
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
    assert prepared.shards.by_value > 1
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
    monkeypatch.setattr(shards, "SHARD_FROM", 60)
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
