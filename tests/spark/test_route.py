"""The step route: the same routers as everywhere, over columns, on Spark's workers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import contentcast as cc
from contentcast.catalog import PROTOCOLS
from contentcast.matching import Scan
from contentcast.model import EventBatch
from contentcast.network.named import network, placed
from contentcast.spark.route import route, route_totals

EVENTS, SUBSCRIPTIONS, SEED = 200, 300, 3


@pytest.fixture(scope="module")
def market(spark: SparkSession) -> dict[str, object]:
    """Market data on the 39 brokers, and what the oracle says: event -> subscribers."""
    topology = network("gryphon-39")
    scenario = placed("market", topology, seed=SEED)
    events = pa.Table.from_batches([scenario.events(EVENTS)])
    publishers = scenario.publishers(EVENTS)
    table = events.append_column("event", pa.array(range(1000, 1000 + EVENTS))).append_column("publisher", publishers)
    wanted = pa.Table.from_batches([scenario.subscriptions(SUBSCRIPTIONS)])
    scan = Scan(scenario.space)
    for number, text in zip(wanted["subscription"].to_pylist(), wanted["predicate"].to_pylist(), strict=True):
        scan.add(number, cc.parse_predicate(scenario.space, text))
    found = scan.match_batch(EventBatch.from_arrow(scenario.space, events))
    subscriber, broker = wanted["subscriber"].to_pylist(), wanted["broker"].to_pylist()
    return {
        "topology": topology,
        "space": scenario.space,
        "events": spark.createDataFrame(table).repartition(3),
        "subscriptions": spark.createDataFrame(wanted),
        "publishers": publishers.to_pylist(),
        "pairs": {(event, subscriber[each]) for event, ids in enumerate(found) for each in ids},
        "brokers": [{broker[each] for each in ids} for ids in found],
    }


def test_every_protocol_delivers_what_the_oracle_says(market: dict[str, object]) -> None:
    totals = route_totals(*(market[each] for each in ("events", "subscriptions", "space", "topology")))  # type: ignore[arg-type]
    assert set(totals) == set(PROTOCOLS)
    assert {name: int(each.deliveries.sum()) for name, each in totals.items()} == dict.fromkeys(
        PROTOCOLS,
        len(market["pairs"]),  # type: ignore[arg-type]
    )
    flooding, exact = totals["flooding"], totals["link-matching"]
    assert flooding.messages.sum() == EVENTS * 38
    least = sum(
        len({link for broker in brokers for link in pairwise(market["topology"].path(publisher, broker))})  # type: ignore[attr-defined]
        for publisher, brokers in zip(market["publishers"], market["brokers"], strict=True)  # type: ignore[call-overload]
    )
    assert exact.messages.sum() == least
    assert totals["two-tier"].messages.sum() == least
    assert totals["hybrid"].messages.sum() >= least
    assert totals["match-first"].bytes.sum() > exact.bytes.sum(), "the lists take bytes"
    assert totals["match-first-unicast"].messages.sum() > least
    assert 0.001 < exact.latency_s(0.5) <= exact.latency_s(0.99) < 1


def test_steps_are_counted_where_they_are_asked_for(market: dict[str, object]) -> None:
    """By search trees or by the index: the same deliveries over the same links."""
    given = [market[each] for each in ("events", "subscriptions", "space", "topology")]
    fast = route_totals(*given, ["two-tier"])["two-tier"]  # type: ignore[arg-type]
    counted = route_totals(*given, ["two-tier"], count_steps=True)["two-tier"]  # type: ignore[arg-type]
    assert fast.steps is None
    assert fast.brokers()["steps"].null_count == len(fast.visits)
    assert counted.steps is not None
    assert counted.steps.sum() > EVENTS
    assert (counted.messages == fast.messages).all()
    assert (counted.bytes == fast.bytes).all()
    assert (counted.deliveries == fast.deliveries).all()


def test_the_hops_of_each_event_are_its_way(market: dict[str, object]) -> None:
    hops = route(*(market[each] for each in ("events", "subscriptions", "space", "topology")), "link-matching")  # type: ignore[arg-type]
    rows = hops.toArrow().to_pylist()
    topology = market["topology"]
    ways: dict[int, Counter[tuple[str, str]]] = {event: Counter() for event in range(EVENTS)}
    for row in rows:
        ways[row["event"] - 1000].update((row["broker"], link) for link in row["links"])
    for event, (publisher, brokers) in enumerate(zip(market["publishers"], market["brokers"], strict=True)):  # type: ignore[call-overload]
        needed = {link for broker in brokers for link in pairwise(topology.path(publisher, broker))}  # type: ignore[attr-defined]
        assert ways[event] == Counter(needed)
    assert sum(row["deliveries"] for row in rows) == len(market["pairs"])  # type: ignore[arg-type]
    first = {row["event"]: row["broker"] for row in rows if row["arrived_s"] == 0}
    assert first == {1000 + event: publisher for event, publisher in enumerate(market["publishers"])}  # type: ignore[arg-type]


def test_what_does_not_fit_is_named(market: dict[str, object]) -> None:
    events, subscriptions, space, topology = (market[each] for each in ("events", "subscriptions", "space", "topology"))
    with pytest.raises(cc.ContentcastError, match="no protocol 'link-maching'; did you mean 'link-matching'"):
        route(events, subscriptions, space, topology, "link-maching")  # type: ignore[arg-type]
    with pytest.raises(cc.ContentcastError, match="events have no column 'publsher'; did you mean 'publisher'"):
        route(events, subscriptions, space, topology, publisher="publsher")  # type: ignore[arg-type]
    with pytest.raises(cc.ContentcastError, match="the topology has no broker 'r1'"):
        route(events, subscriptions, space, network("line:3"))  # type: ignore[arg-type]
