"""Routing: what each protocol costs on the 39-broker network, by columns; how many events one broker handles in small and large
batches, by both engines; and how long a simulation takes, and in what.

Steps, copies and bytes are exact counts. Times are CPU seconds of the one thread, as ratios to flooding in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.report import Result, Table, times
from contentcast.catalog import make_router
from contentcast.hosting.costs import PAPER_FAST
from contentcast.hosting.instant import Instant
from contentcast.hosting.ledger import Ledger, percentile
from contentcast.language import parse_many
from contentcast.match_index import MatchIndex
from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.network.named import network, placed
from contentcast.pipeline.job import USUAL
from contentcast.routing.audience import Forest
from contentcast.routing.contract import Published, Router, Subscribed
from contentcast.routing.setup import Life, Setup
from contentcast.simulation import World
from contentcast.simulation.load import publish_poisson, subscribe
from contentcast.workload import Scenario

SEED = 1
HUB_EVENTS = 16_384
MOST_BATCHES = 1_000
HUB_BATCHES = (1, 16, 256, 4_096)
WANTED = {
    "MatchIndex.match_batch": {1: 50_000, 16: 500_000},
    "link-matching": {1: 50_000, 16: 300_000, 256: 1_000_000},
    "two-tier": {1: 25_000, 16: 150_000, 256: 500_000},
    "match-first": {1: 25_000, 16: 150_000, 256: 500_000},
}
"""Events/s that are asked for at the hub with 10,000 subscriptions, by size of batch."""


def by_columns(scenario: Scenario, events: int, subscriptions: int) -> list[dict[str, Any]]:
    """Every protocol, all events of a publisher at once."""
    topology = network("gryphon-39")
    asked = scenario.subscriptions(subscriptions)
    table = parse_many(scenario.space, asked["predicate"])
    ids, names = asked["subscription"].to_numpy(), np.array(asked["subscriber"].to_pylist(), object)
    brokers = np.array(asked["broker"].to_pylist())
    batch = EventBatch.from_arrow(scenario.space, scenario.events(events))
    publishers = np.array(scenario.publishers(events).to_pylist())
    setup = Setup(topology=topology, forest=Forest())
    rows = []
    for name in USUAL:
        ledger = Ledger(topology, PAPER_FAST)
        instant = Instant(topology, make_router(name, setup))
        for broker in topology.brokers:
            mine = np.flatnonzero(brokers == broker)
            if len(mine):
                chosen = SubscriptionBatch.columns(ids[mine], table.take(mine), names[mine].tolist())
                instant.put(broker, Subscribed(chosen))
        for broker in np.unique(publishers):  # trees are annotated, kernels compiled
            instant.put(broker, Published(batch.slice(0, 8)))
        instant.watch = ledger.watch
        ledger.account(batch)
        begun = time.process_time()
        for broker in np.unique(publishers):
            instant.put(broker, Published(batch.take(np.flatnonzero(publishers == broker))))
        rows.append(
            {
                "protocol": name,
                "copies": int(ledger.messages.sum()) / events,
                "bytes": int(ledger.bytes.sum()) / events,
                "steps": int(ledger.steps.sum()) / events,
                "deliveries": int(ledger.deliveries.sum()) / events,
                "p99 ms": 1000 * percentile(ledger.latencies, 0.99),
                "cpu s": time.process_time() - begun,
            }
        )
    return rows


def at_a_hub(subscriptions: int, batches: tuple[int, ...], quick: bool) -> list[dict[str, Any]]:
    """Events/s of `handle` at a hub of 8 links, by both engines; the batches of a round are new, as those of clients are."""
    topology = network("star:8")
    scenario = placed("market", topology, seed=SEED)
    asked = scenario.subscriptions(subscriptions)
    table = parse_many(scenario.space, asked["predicate"])
    ids, names = asked["subscription"].to_numpy(), np.array(asked["subscriber"].to_pylist(), object)
    brokers = np.array(asked["broker"].to_pylist())
    hub = max(topology.brokers, key=lambda each: len(topology.neighbours(each)))
    batch = EventBatch.from_arrow(scenario.space, scenario.events(HUB_EVENTS))
    rows = []
    for name in ("link-matching", "two-tier", "match-first", "flooding"):
        for count_steps in (True, False):
            instant = Instant(topology, make_router(name, Setup(topology=topology, count_steps=count_steps)))
            for broker in topology.brokers:
                mine = np.flatnonzero(brokers == broker)
                chosen = SubscriptionBatch.columns(ids[mine], table.take(mine), names[mine].tolist())
                instant.put(broker, Subscribed(chosen))
            router = instant.routers[hub]
            rates = {size: _rate(_handling(router), batch, size, 1 if quick else 4) for size in batches}
            rows.append({"protocol": name, "engine": "tree" if count_steps else "index", "rates": rates})
    index = MatchIndex(scenario.space)
    index.add_many(ids, table)
    rates = {size: _rate(index.match_batch, batch, size, 1 if quick else 4) for size in batches}
    rows.append({"protocol": "MatchIndex.match_batch", "engine": "index", "rates": rates})
    return rows


def _handling(router: Router) -> Callable[[EventBatch], object]:
    return lambda events: router.handle(Published(events), 0.0)


def _rate(handle: Callable[[EventBatch], object], events: EventBatch, size: int, rounds: int) -> float:
    """The best of some rounds, by CPU time."""
    best = 0.0
    for _ in range(rounds + 1):  # the first is not as fast: kernels are loaded, trees annotated
        parts = [events.slice(at, size) for at in range(0, len(events), size)][:MOST_BATCHES]
        begun = time.process_time()
        for part in parts:
            handle(part)
        best = max(best, size * len(parts) / (time.process_time() - begun))
    return best


class Timed:
    """A router whose time is counted."""

    spent = 0.0
    calls = 0

    def __init__(self, inside: Router) -> None:
        self.inside, self.broker = inside, inside.broker
        self.sizes, self.state = inside.sizes, inside.state

    def handle(self, input: Any, now: float) -> Any:
        begun = time.perf_counter()
        effects = self.inside.handle(input, now)
        Timed.spent += time.perf_counter() - begun
        Timed.calls += 1
        return effects


def simulated(scenario: Scenario, events: int, subscriptions: int, protocol: str) -> dict[str, Any]:
    """Events one by one in virtual time."""
    topology = network("gryphon-39")
    routers = make_router(protocol, Setup(topology=topology))

    def make(broker: str, life: Life) -> Router:
        return Timed(routers(broker, life))  # type: ignore[return-value] # has what is called

    begun = time.perf_counter()
    world = World(topology, make, seed=SEED, announce=False)
    subscribe(world, scenario, subscriptions)
    world.run()
    subscribed = time.perf_counter()
    Timed.spent, Timed.calls = 0.0, 0
    publish_poisson(world, scenario, 20.0, events, seed=SEED)
    world.run()
    took = time.perf_counter() - subscribed
    return {
        "protocol": protocol,
        "subscribing s": subscribed - begun,
        "events s": took,
        "visits": Timed.calls,
        "us a visit": 1e6 * took / Timed.calls,
        "in the router": Timed.spent / took,
    }


def run(quick: bool) -> Result:
    market = placed("market", network("gryphon-39"), seed=SEED)
    gryphon = placed("gryphon", network("gryphon-39"), seed=SEED)
    events = 2_000 if quick else 20_000
    sizes = (1_000, 5_000) if quick else (10_000, 100_000)
    tables, data = [], {}
    for size in sizes:
        rows = by_columns(market, events, size)
        data[f"market {size}"] = rows
        flooding = next(row["cpu s"] for row in rows if row["protocol"] == "flooding")
        told = [
            [
                row["protocol"],
                *(f"{row[each]:,.1f}" for each in ("copies", "bytes", "steps", "deliveries", "p99 ms")),
                times(row["cpu s"] / flooding),
            ]
            for row in rows
        ]
        header = ("protocol", "copies", "bytes", "steps", "deliveries", "p99 ms", "CPU time / flooding")
        tables.append(Table(f"An event of market, {size:,} subscriptions", header, told))
    for size in sizes:
        hubs = at_a_hub(size, HUB_BATCHES, quick)
        data[f"hub {size}"] = hubs
        told = []
        for tree, index in zip(hubs[:-1:2], hubs[1::2], strict=True):
            told += [
                [each["protocol"], each["engine"], *(f"{rate:,.0f}" for rate in each["rates"].values())]
                for each in (tree, index)
            ]
            told.append(
                [tree["protocol"], "index / tree", *(times(index["rates"][each] / tree["rates"][each]) for each in HUB_BATCHES)]
            )
        told.append([hubs[-1]["protocol"], "index", *(f"{rate:,.0f}" for rate in hubs[-1]["rates"].values())])
        header = ("protocol", "engine", *(f"in batches of {each:,}" for each in HUB_BATCHES))
        tables.append(Table(f"Events/s at a hub of 8 links, {size:,} subscriptions", header, told))
    count = 200 if quick else 10_000
    worlds = [simulated(gryphon, count, 1_000 if quick else 10_000, name) for name in ("link-matching", "flooding")]
    data["simulated"] = worlds
    told = [
        [
            row["protocol"],
            f"{row['subscribing s']:.1f}",
            f"{row['events s']:.1f}",
            f"{row['visits']:,}",
            f"{row['us a visit']:.0f}",
            f"{100 * row['in the router']:.0f} %",
        ]
        for row in worlds
    ]
    header = ("protocol", "subscribing s", "events s", "visits", "us a visit", "in the router")
    tables.append(Table(f"Simulating {count:,} events of gryphon, one by one", header, told))
    longest = max(row["events s"] + row["subscribing s"] for row in worlds if row["protocol"] == "link-matching")
    notes = [f"Simulating link matching took {longest:.0f} s in all; at most 60 s are asked for with 10,000 events."]
    for row in data.get("hub 10000", []):
        for batch, wanted in WANTED.get(row["protocol"], {}).items() if row["engine"] == "index" else ():
            holds = "holds" if row["rates"][batch] >= wanted else "DOES NOT HOLD"
            notes.append(f"{row['protocol']} in batches of {batch}: {wanted:,} events/s are asked for. {holds}.")
    notes.append(
        "In a batch of one, matching is half of link matching; the rest is Python that makes effects. Two-tier and match-first "
        "besides write a list of destinations for each neighbour, which is an Arrow array of its own."
    )
    about = [
        "What an event costs on the 39-broker network of Banavar et al. 1999 under each protocol, all brokers together: copies "
        "on links, bytes, matching steps, deliveries; and the 99th percentile of the latency by the cost model without queues.",
    ]
    return Result("routing", "Routing", about, tables, notes, data, quick)
