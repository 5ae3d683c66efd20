"""The main job from a feed to a folder of tables: what it writes is what the oracle says, whole or not at all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import contentcast as cc
from contentcast.matching.learnt import LearntPlan
from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.network.named import network
from contentcast.network.topology import Topology
from contentcast.pipeline import side_by_side
from contentcast.pipeline.feeds import Feed, Files, market_feed, own_feed
from contentcast.pipeline.job import USUAL, Facts, run_job
from contentcast.pipeline.side_by_side import SYSTEMS
from contentcast.spark import prepare, read_deliveries
from contentcast.spark.delivery.one_pass import fewest_copies, match_and_deliver
from tests.spark.oracle import scan_of

EVENTS, SUBSCRIPTIONS, SEED = 5_000, 4_500, 11
CHECKED = 60
"""Events that the oracle looks at."""


class Done:
    """A job that ran, and what it wrote."""

    def __init__(self, facts: Facts, out: Path) -> None:
        self.facts, self.out = facts, out

    def table(self, name: str) -> pa.Table:
        return pq.read_table(self.out / name)


@pytest.fixture(scope="module")
def day(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """All systems side by side route a smaller sample than the job does: the slowest takes a minute for that one."""
    out = tmp_path_factory.mktemp("day") / "out"
    feed = market_feed(spark, EVENTS, SUBSCRIPTIONS, SEED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_by_side, "SUBSCRIPTIONS", 100)
        patch.setattr(side_by_side, "EVENTS", 400)
        return Done(run_job(spark, feed, out, None, lambda name: nullcontext()), out)


def delivered(spark: SparkSession, out: Path) -> pa.Table:
    return read_deliveries(spark, out / "deliveries").toArrow()


# --- a day of market data


def test_the_deliveries_are_those_of_the_oracle(day: Done, spark: SparkSession) -> None:
    events, wanted = day.table("events").sort_by("event").slice(0, CHECKED), day.table("subscriptions")
    refused = set(day.table("refused")["subscription"].to_pylist())
    rows = {row["subscription"]: row for row in wanted.to_pylist() if row["subscription"] not in refused}
    scan = scan_of(day.facts.feed.space, {each: row["predicate"] for each, row in rows.items()})
    space = day.facts.feed.space
    expected = Counter(
        (number, each, rows[each]["subscriber"], rows[each]["broker"])
        for number, event in zip(
            events["event"].to_pylist(), EventBatch.from_arrow(space, events, unknown="ignore").to_dicts(), strict=True
        )
        for each in scan.match(event)
    )
    found = delivered(spark, day.out)
    kept = found.filter(pa.compute.is_in(found["event"], value_set=events["event"].combine_chunks()))
    assert Counter(tuple(row.values()) for row in kept.to_pylist()) == expected
    assert len(expected) > CHECKED


def test_the_totals_are_those_of_the_tables(day: Done, spark: SparkSession) -> None:
    summary = json.loads((day.out / "job.json").read_text())
    found = delivered(spark, day.out)
    assert summary["events"] == day.table("events").num_rows == EVENTS - 1
    assert summary["bad records"] == day.table("quarantine").num_rows == 1
    assert summary["bad predicates"] == day.table("refused").num_rows == 1
    assert summary["subscriptions"] == SUBSCRIPTIONS - 1
    assert summary["matches"] == found.num_rows == day.facts.delivered.matches
    fan_out = Counter(Counter(found["event"].to_pylist()).values())
    assert {k: n for k, n in enumerate(day.facts.delivered.fan_out.tolist()) if n and k} == dict(fan_out)
    assert summary["events nobody wants"] == EVENTS - 1 - sum(fan_out.values())
    routed = {f"route {name}" for name in USUAL} | {f"side by side: {name}" for name in ("topics", *SYSTEMS)}
    assert set(summary["seconds"]) == {"ingest", "prepare", "match and deliver", "learn", "report"} | routed


def test_every_protocol_of_the_catalog_hands_over_the_same(day: Done, spark: SparkSession) -> None:
    protocols = {row["protocol"]: row for row in day.table("routes/protocols.parquet").to_pylist()}
    found = delivered(spark, day.out)
    # A subscriber with two subscriptions that an event satisfies is handed it once.
    handed = len(set(zip(found["event"].to_pylist(), found["subscriber"].to_pylist(), strict=True)))
    assert {name: row["deliveries"] for name, row in protocols.items()} == dict.fromkeys(USUAL, handed)
    assert protocols["link-matching"]["messages"] == day.facts.least
    assert all(row["messages"] >= day.facts.least for row in protocols.values())
    assert protocols["flooding"]["messages"] == (EVENTS - 1) * 38
    links = day.table("routes/links.parquet").group_by("protocol").aggregate([("messages", "sum")]).to_pylist()
    assert {row["protocol"]: row["messages_sum"] for row in links} == {n: row["messages"] for n, row in protocols.items()}
    latencies = day.table("routes/latencies.parquet").group_by("protocol").aggregate([("deliveries", "sum")]).to_pylist()
    assert {row["protocol"]: row["deliveries_sum"] for row in latencies} == dict.fromkeys(USUAL, handed)


def test_bad_rows_are_set_aside_with_the_reason(day: Done) -> None:
    (bad,) = day.table("quarantine").to_pylist()
    assert (bad["attribute"], "is not one of" in bad["reason"]) == ("exchange", True)
    (refused,) = day.table("refused").to_pylist()
    assert refused["subscription"] == 4_321
    assert "line 1, column" in refused["reason"]


def test_what_was_learnt_can_be_loaded(day: Done) -> None:
    plan = LearntPlan.load(day.out / "learnt" / "plan.json")
    assert plan.events == EVENTS - 1
    assert plan.matches * plan.events == pytest.approx(day.facts.delivered.matches)
    assert day.table("learnt/rates.parquet").num_rows == SUBSCRIPTIONS - 1


def test_files_are_sorted_for_their_readers(day: Done) -> None:
    """By subscriber, subscription and event, in a folder for each broker."""
    places = {row["broker"]: row for row in day.table("subscriptions").select(["broker"]).to_pylist()}
    folders = sorted((day.out / "deliveries").glob("broker=*"))
    assert {each.name.removeprefix("broker=") for each in folders} <= set(places)
    for file in folders[0].glob("*.parquet"):
        rows = pq.ParquetFile(file).read().to_pylist()
        assert rows == sorted(rows, key=lambda row: (row["subscriber"], row["subscription"], row["event"]))


def test_a_task_that_runs_again_replaces_its_rows(day: Done, spark: SparkSession, tmp_path: Path) -> None:
    events = spark.read.parquet(str(day.out / "events"))
    prepared = prepare(day.facts.feed.subscriptions, day.facts.feed.space)
    for _ in range(2):
        assert match_and_deliver(events, prepared, tmp_path / "again" / "deliveries").matches == day.facts.delivered.matches
        found, expected = delivered(spark, tmp_path / "again"), delivered(spark, day.out)
        order = [(name, "ascending") for name in expected.column_names]
        assert found.sort_by(order).equals(expected.sort_by(order))
        assert not list((tmp_path / "again").rglob(".part-*"))


def test_the_report_needs_nothing_but_itself(day: Done) -> None:
    page = (day.out / "report.html").read_text()
    for outside in ("http://", "https://", "src=", "@import", "url("):
        assert outside not in page.replace("http://www.w3.org/2000/svg", ""), outside
    for protocol in USUAL:
        assert f'data-protocol="{protocol}"' in page
    assert "A few events, and why" in page
    assert "does not get it" in page


def test_examples_say_the_truth(day: Done) -> None:
    space = day.facts.feed.space
    for each in day.facts.examples:
        assert all(cc.parse_predicate(space, one.predicate).accepts(each.event) for one in each.getters)
        assert all(one.way[0] == each.publisher and one.way[-1] == one.broker for one in each.getters)
        assert each.miss is None or not cc.parse_predicate(space, each.miss.predicate).accepts(each.event)
    assert len(day.facts.examples) == 3


# --- whole or not at all


@contextmanager
def broken_at(step: str, name: str) -> Iterator[None]:
    yield
    if name == step:
        raise ContentcastError(f"broken at {step}")


def a_feed(spark: SparkSession, seed: int = 0) -> Feed:
    return market_feed(spark, 300, 100, seed)


def test_a_job_that_fails_leaves_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "kept").write_text("as it was")
    with pytest.raises(ContentcastError, match="broken at learn"):
        run_job(spark, a_feed(spark), out, ["flooding"], lambda name: broken_at("learn", name))
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert (out / "kept").read_text() == "as it was"


def test_a_job_replaces_the_one_before(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for seed in (1, 2):
        run_job(spark, a_feed(spark, seed), out, ["flooding"], lambda name: nullcontext())
        assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert (
        pq.read_table(out / "subscriptions")["predicate"].to_pylist() == a_feed(spark, 2).subscriptions["predicate"].to_pylist()
    )


def test_no_event_and_no_subscription_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    told: list[str] = []
    feed = market_feed(spark, 0, 0, 0)
    facts = run_job(spark, feed, tmp_path / "out", ["flooding"], lambda name: nullcontext(), matched=told.append)
    assert [each.partition(" (")[0] for each in told] == ["0 events met 0 subscriptions: 0 matches"]
    assert (facts.events, facts.subscriptions, facts.delivered.matches, facts.least) == (0, 0, 0, 0)
    assert (tmp_path / "out" / "report.html").exists()


# --- a user's own files

ALARMS = Space("alarms", site="string", celsius="float")
EVENT_LINES = """\
{"site": "roof", "celsius": 41.5}
{"site": "cellar", "celsius": "cold"}
{"site": "cellar", "celsius": 7}
{"site": "roof", "celsius": 12}
"""
DESKS = """\
subscription,predicate,subscriber,broker
1,celsius > 40,fire,b1
2,site = 'roof',roofers,b3
3,celsius >,nobody,b2
4,celsius < 10,plumbers,
"""


@pytest.fixture
def own(tmp_path: Path) -> dict[str, Any]:
    ALARMS.save(tmp_path / "alarms.json")
    (tmp_path / "alarms.jsonl").write_text(EVENT_LINES)
    (tmp_path / "desks.csv").write_text(DESKS.replace("plumbers,", "plumbers,b2"))
    return {
        "space": str(tmp_path / "alarms.json"),
        "events": [str(tmp_path / "alarms.jsonl")],
        "subscriptions": str(tmp_path / "desks.csv"),
    }


def test_own_files_go_the_whole_way(spark: SparkSession, tmp_path: Path, own: dict[str, Any]) -> None:
    feed = own_feed(spark, Files(**own, topology="line:3", entry="b1"), "a test")
    facts = run_job(spark, feed, tmp_path / "out", ["link-matching", "flooding"], lambda name: nullcontext())
    assert (facts.events, facts.bad, facts.subscriptions, facts.refused) == (3, 1, 3, 1)
    events = {row["event"]: (row["site"], row["celsius"]) for row in pq.read_table(tmp_path / "out" / "events").to_pylist()}
    found = delivered(spark, tmp_path / "out").to_pylist()
    assert sorted((*events[row["event"]], row["subscriber"], row["broker"]) for row in found) == [
        ("cellar", 7.0, "plumbers", "b2"),
        ("roof", 12.0, "roofers", "b3"),
        ("roof", 41.5, "fire", "b1"),
        ("roof", 41.5, "roofers", "b3"),
    ]
    # Two events to b3 over two links each, one to b2 over one.
    assert facts.least == facts.routes["link-matching"].totals.messages.sum() == 5
    assert facts.routes["flooding"].totals.messages.sum() == 6


@pytest.mark.parametrize("written", ["csv", "parquet"])
def test_rows_without_a_broker_have_a_folder_that_can_be_read(
    spark: SparkSession, tmp_path: Path, own: dict[str, Any], written: str
) -> None:
    """In a table of Parquet one broker may be an empty text and another one missing: both rows come back, with no broker."""
    rules = {"subscription": [1, 2, 4], "predicate": ["celsius > 40", "site = 'roof'", "celsius < 10"]}
    table = pa.table(rules | {"subscriber": ["fire", "roofers", "plumbers"], "broker": ["", None, "b2"]})
    own["subscriptions"] = str(tmp_path / f"rules.{written}")
    (pa_csv.write_csv if written == "csv" else pq.write_table)(table, own["subscriptions"])
    run_job(spark, own_feed(spark, Files(**own), "a test"), tmp_path / "out", None, lambda name: nullcontext())
    found = delivered(spark, tmp_path / "out").to_pylist()
    assert sorted((row["subscription"], row["broker"]) for row in found) == [(1, None), (2, None), (2, None), (4, "b2")]


def test_without_a_network_nothing_is_routed(spark: SparkSession, tmp_path: Path, own: dict[str, Any]) -> None:
    facts = run_job(spark, own_feed(spark, Files(**own), "a test"), tmp_path / "out", None, lambda name: nullcontext())
    assert facts.routes == {}
    assert "no topology is told" in (tmp_path / "out" / "report.html").read_text()
    assert len(delivered(spark, tmp_path / "out")) == 4


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"topology": "cable-wireless-24", "entry": "Boston"}, "no subscription is at a broker of the topology; the first: "),
        ({"topology": "line:3", "entry": "b9"}, "b9"),
        ({"topology": "lime:3", "entry": "b1"}, "contentcast has no network 'lime:3'; did you mean 'line'?"),
        ({"topology": "line:3", "publisher": "sight"}, "the events have no column 'sight'; did you mean 'site'?"),
        ({"topology": "line:3", "publisher": "site", "entry": "b1"}, "say one of them"),
        ({"subscriptions": "nowhere.csv"}, "there is no subscription file nowhere.csv"),
        ({"events": ["nowhere.jsonl"]}, "there is no event file nowhere.jsonl"),
    ],
)
def test_wrong_files_are_found_before_the_work(
    spark: SparkSession, own: dict[str, Any], more: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ContentcastError) as failure:
        own_feed(spark, Files(**{**own, **more}), "a test")
    assert complaint in str(failure.value)


def test_if_no_event_enters_anywhere_that_is_told(spark: SparkSession, tmp_path: Path, own: dict[str, Any]) -> None:
    feed = own_feed(spark, Files(**own, topology="line:3", publisher="site"), "a test")
    with pytest.raises(
        ContentcastError, match=r"no event enters at a broker of the topology; the first: .* no broker '(roof|cell)"
    ):
        run_job(spark, feed, tmp_path / "out", None, lambda name: nullcontext())
    assert not (tmp_path / "out").exists()


def test_what_stands_at_no_broker_is_set_aside_and_stops_nobody(
    spark: SparkSession, tmp_path: Path, own: dict[str, Any]
) -> None:
    network_file = tmp_path / "site.edges"
    network_file.write_text("roof b1\nb1 b3\n")  # the plumbers' b2 and the event in the cellar are not on it
    feed = own_feed(spark, Files(**own, topology=str(network_file), publisher="site"), "a test")
    facts = run_job(spark, feed, tmp_path / "out", ["link-matching"], lambda name: nullcontext())
    bad = {row["reason"] for row in pq.read_table(tmp_path / "out" / "quarantine").to_pylist()}
    assert any("the topology has no broker 'cellar'" in each for each in bad)
    refused = pq.read_table(tmp_path / "out" / "refused").to_pylist()
    assert "the topology has no broker 'b2'" in {row["subscriber"]: row["reason"] for row in refused}["plumbers"]
    assert facts.refused == len(refused)
    found = delivered(spark, tmp_path / "out").to_pylist()
    assert sorted((row["subscriber"], row["broker"]) for row in found) == [("fire", "b1"), ("roofers", "b3"), ("roofers", "b3")]


# --- the lower bound


@pytest.mark.parametrize("seed", range(4))
def test_the_fewest_copies_by_columns_are_those_of_the_plain_walk(seed: int) -> None:
    dice = np.random.default_rng(seed)
    topology = network("gryphon-39")
    brokers = list(topology.brokers)
    wanted = dice.random((50, len(brokers))) < 0.05
    publishers = [brokers[at] for at in dice.integers(0, len(brokers), 50)]
    lists = pa.array([np.flatnonzero(row).tolist() for row in wanted], pa.list_(pa.int64()))
    found = fewest_copies(topology, pa.array(publishers).dictionary_encode(), brokers, wanted)
    assert found.sum() == least_copies(topology, publishers, lists) > 0


def least_copies(topology: Topology, publishers: Sequence[str], wanted: pa.ListArray) -> int:
    """The fewest copies on links with which every event can reach the brokers that want it along its publisher's tree.

    `wanted` has for each event the numbers of those brokers. A link is on an event's way if a wanting broker is behind it.
    """
    rows = np.repeat(np.arange(len(wanted)), np.diff(wanted.offsets.to_numpy()))
    at = wanted.flatten().to_numpy().astype(np.int64)
    roots = np.array([topology.number(each) for each in publishers], np.int64)[rows]
    parents = topology.parents
    crossed = np.empty(0, np.int64)
    count = len(topology)
    while len(rows):
        above = parents[roots, at]
        moving = above >= 0
        # The link is named by the broker below it: in a tree it has one link upwards.
        crossed = np.union1d(crossed, rows[moving] * count + at[moving])
        rows, roots, at = rows[moving], roots[moving], above[moving].astype(np.int64)
    return len(crossed)
