"""Learning: sums of tasks join to the sum of all, and what is learnt on the cluster is what the oracle counts one by one."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import contentcast as cc
from contentcast.language import parse_predicate
from contentcast.matching.learnt import LearntPlan
from contentcast.matching.search_tree import SearchTree
from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.spark import sums
from contentcast.spark.learn import learn
from contentcast.spark.sums import EventSums, MatchSums, ValueCounts, value_codes
from contentcast.workload import scenario

SEED = 11
EVENTS, SUBSCRIPTIONS = 700, 200


# --- sums


def test_values_are_counted_and_the_rarest_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = ValueCounts()
    counted.add(pa.array(["a", "b", None, "a"]))
    counted.add(pa.array(["b", "a"]))
    assert (counted.present, counted.most_frequent(9), counted.complete) == (5, [("a", 3), ("b", 2)], True)
    monkeypatch.setattr(sums, "VALUES_COUNTED", 2)
    other = ValueCounts()
    other.add(pa.array(["c", "a", "d", "a"]))
    counted.join(other)
    assert (counted.present, counted.most_frequent(9), counted.complete) == (9, [("a", 5), ("b", 2)], False)


def test_samples_of_tasks_join_to_an_even_sample_of_all() -> None:
    """Of 40,000 events in unequal tasks, 1,000 are drawn: their mean is that of all within five standard errors."""
    space = Space("rows", number="int")
    joined: EventSums | None = None
    for task, (start, stop) in enumerate([(0, 1_000), (1_000, 31_000), (31_000, 40_000)]):
        part = EventSums(space, 1_000, seed=SEED + task)
        for at in range(start, stop, 500):
            part.add(EventBatch.from_arrow(space, pa.record_batch({"number": pa.array(np.arange(at, at + 500))})))
        assert part.sample.num_rows == 1_000
        joined = part if joined is None else joined.join(part)
    assert joined is not None
    numbers = joined.sample.column("number").to_numpy()
    assert joined.events == 40_000
    assert len(set(numbers.tolist())) == 1_000
    assert abs(numbers.mean() - 19_999.5) < 5 * (40_000 / 12**0.5) / 1_000**0.5, f"seed {SEED}"


def test_match_sums_join_and_do_not_depend_on_the_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = scenario("market", seed=SEED, symbols=20)
    index = cc.MatchIndex(drawn.space)
    table = drawn.subscriptions(SUBSCRIPTIONS)
    index.add_many(table["subscription"], table["predicate"])
    brokers = table["broker"].dictionary_encode()
    broker_of, count = brokers.indices.to_numpy().astype(np.int64), len(brokers.dictionary)
    values = ["NYSE", "LSE"]

    def counted(start: int, events: int) -> MatchSums:
        found = MatchSums(SUBSCRIPTIONS, count, values)
        batch = EventBatch.from_arrow(drawn.space, drawn.events(events, start=start))
        codes = value_codes(batch.records.column("exchange"), values)
        pairs = index.match_batch(batch)
        rows, ids = pairs["event"].to_numpy(), pairs["subscription"].to_numpy()
        found.add(events, (rows, ids), broker_of, codes, drawn.publishers(events, start=start))
        return found

    whole = counted(0, 400)
    monkeypatch.setattr(sums, "CELLS_AT_MOST", 7 * count)
    joined = counted(0, 150).join(counted(150, 250))
    assert joined.events == whole.events == 400
    for name in ("matched", "fan_out", "wanted", "by_value", "of_value"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name)), name
    assert joined.of_publisher == whole.of_publisher
    assert {name: each.tolist() for name, each in joined.by_publisher.items()} == {
        name: each.tolist() for name, each in whole.by_publisher.items()
    }
    assert whole.by_value.sum() == whole.wanted.sum() > 0


# --- on Spark


def test_what_is_learnt_is_what_the_oracle_counts(spark, tmp_path: Path) -> None:
    """Events with absent attributes, published at several brokers; a subscription that cannot be read takes no part."""
    drawn = scenario("summaries", seed=SEED)
    table = pa.Table.from_batches([drawn.subscriptions(SUBSCRIPTIONS)])
    bad = pa.table({"subscription": [9999], "predicate": ["prise < 3"], "subscriber": ["x"], "broker": ["nowhere"]})
    pq.write_table(pa.concat_tables([table, bad]), tmp_path / "subscriptions.parquet")
    came = pa.Table.from_batches([drawn.events(EVENTS)]).append_column("publisher", drawn.publishers(EVENTS))
    events = spark.createDataFrame(came).repartition(3)

    plan, rates, refused = learn(events, tmp_path / "subscriptions.parquet", drawn.space, seed=SEED)

    # The oracle, event by event.
    rows, publishers = drawn.events(EVENTS).to_pylist(), drawn.publishers(EVENTS).to_pylist()
    predicates = [parse_predicate(drawn.space, each) for each in table["predicate"].to_pylist()]
    brokers = table["broker"].to_pylist()
    hits = [[at for at, predicate in enumerate(predicates) if predicate.accepts(row)] for row in rows]
    matched = np.bincount([at for each in hits for at in each], minlength=SUBSCRIPTIONS)
    wanted = [{brokers[at] for at in each} for each in hits]

    assert rates["subscription"].to_pylist() == table["subscription"].to_pylist()
    assert rates["matches"].to_pylist() == matched.tolist()
    assert rates["rate"].to_pylist() == pytest.approx((matched / EVENTS).tolist())
    assert [(each["subscription"], "did you mean 'price'" in each["reason"]) for each in refused.to_pylist()] == [(9999, True)]
    assert (plan.events, plan.subscriptions) == (EVENTS, SUBSCRIPTIONS)
    assert plan.matches == pytest.approx(matched.sum() / EVENTS)
    assert plan.matches > 0
    assert plan.unwanted == pytest.approx(sum(not each for each in hits) / EVENTS)
    assert plan.idle == np.count_nonzero(matched == 0)
    assert sum(each.share for each in plan.fan_out) == pytest.approx(1.0)
    for broker in set(brokers):
        assert plan.chance(broker) == pytest.approx(sum(broker in each for each in wanted) / EVENTS)
    for flow in plan.flows:
        mine = [each for each, publisher in zip(wanted, publishers, strict=True) if publisher == flow.publisher]
        assert flow.share == pytest.approx(sum(flow.broker in each for each in mine) / len(mine))
    assert {flow.publisher for flow in plan.flows} == set(publishers)

    split = plan.by_value
    assert split is not None
    for at, value in enumerate(split.values[:5]):
        mine = [each for each, row in zip(wanted, rows, strict=True) if row[split.attribute] == value]
        assert split.shares[brokers[0]][at] == pytest.approx(sum(brokers[0] in each for each in mine) / len(mine))
    for name, facts in plan.attributes.items():
        carried = [row[name] for row in rows if row[name] is not None]
        assert facts.present == pytest.approx(len(carried) / EVENTS)
        assert facts.distinct == len(set(carried))
        assert facts.values[0].share == pytest.approx(max(map(carried.count, set(carried))) / EVENTS)
        assert facts.stars == pytest.approx(sum(each.conjunctions[0].get(name) is None for each in predicates) / SUBSCRIPTIONS)

    plan.save(tmp_path / "plan.json")
    loaded = LearntPlan.load(tmp_path / "plan.json")
    assert loaded == plan
    tree, plain = SearchTree(drawn.space, **loaded.tree_options()), SearchTree(drawn.space)
    for at, predicate in enumerate(predicates):
        tree.add(at, predicate)
        plain.add(at, predicate)
    later = EventBatch.from_arrow(drawn.space, drawn.events(500, start=90_000))
    assert tree.match_batch(later).steps.mean() < plain.match_batch(later).steps.mean()


def test_without_events_brokers_or_publishers_there_is_still_a_plan(spark) -> None:
    space = Space("trades", issue="string", price="float")
    subscriptions = spark.createDataFrame(
        [(1, "price < 5"), (2, "issue = 'IBM' AND price < 9")], "subscription long, predicate string"
    )
    nothing = spark.createDataFrame([], "issue string, price double")
    plan, rates, _ = learn(nothing, subscriptions, space)
    assert (plan.events, plan.order, plan.factored, plan.wanted, plan.flows) == (0, ["price", "issue"], [], {}, [])
    assert rates["matches"].to_pylist() == [0, 0]


def test_a_stream_and_a_wrong_column_are_refused(spark) -> None:
    space = scenario("market").space
    table = pa.Table.from_batches([scenario("market").subscriptions(3)])
    stream = spark.readStream.format("rate").load().selectExpr("'IBM' AS symbol")
    with pytest.raises(ContentcastError, match="learn looks at events twice"):
        learn(stream, table, space)
    events = spark.createDataFrame([("IBM", "b1")], "symbol string, broker string")
    with pytest.raises(ContentcastError, match="no column 'brocker'; did you mean 'broker'"):
        learn(events, table, space, publisher="brocker")
