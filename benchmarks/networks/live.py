"""Live brokers: events published, matched and delivered over real sockets, by a broker process and client processes.

Every row runs a broker as a process of its own; the publisher and the subscribers are in this process. Rates are of whole
events from `publish` to the broker's acceptance, or to the subscriber's hands. The ratio is that to the first row of a table,
measured in the same run.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import contentcast as cc
from benchmarks.networks.live_scale import restart, tls_clients
from benchmarks.peers.brokers import PEERS
from benchmarks.report import Result, Table, human, times
from contentcast.model import EventBatch
from contentcast.workload import scenario

SEED = 1
BATCH = 1_000


@asynccontextmanager
async def broker(*words: str) -> AsyncIterator[str]:
    """A broker process; its address."""
    command = [sys.executable, "-m", "contentcast.cli", "broker", "--json", "--listen", "contentcast://127.0.0.1:0", *words]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert running.stdout is not None
        yield json.loads(await asyncio.to_thread(running.stdout.readline))["listen"][0]
    finally:
        running.terminate()
        running.wait()


async def filters(size: int, events: int) -> dict[str, Any]:
    """One subscriber with so many filters of the market workload, and a publisher; in batches and one by one."""
    market = scenario("market", seed=SEED)
    batch = EventBatch.from_arrow(market.space, market.events(events))
    one_by_one = batch.slice(0, max(1, events // 10)).to_dicts()
    async with broker() as url, cc.connect(url) as publisher, cc.connect(url, most_waiting=10**9) as subscriber:
        await publisher.declare(market.space)
        texts = market.subscriptions(size)["predicate"].to_pylist()
        await subscriber.subscribe_many(market.space.name, texts)
        parts = [batch.slice(at, BATCH) for at in range(0, events, BATCH)]
        await publisher.publish(market.space, parts[0])  # trees are grown
        begun = time.perf_counter()
        for part in parts:
            await publisher.publish(market.space, part, wait=False)
        await publisher.flush()
        batches_s = time.perf_counter() - begun
        begun = time.perf_counter()
        for event in one_by_one:
            await publisher.publish(market.space, event, wait=False)
        await publisher.flush()
        singles_s = time.perf_counter() - begun
        delivered = (await publisher.ask("state"))["delivered"]
    return {
        "filters": size,
        "in batches, events/s": events / batches_s,
        "one by one, events/s": len(one_by_one) / singles_s,
        "delivered": delivered,
    }


async def fan_out(clients: int, events: int) -> dict[str, Any]:
    """So many clients that all want everything."""
    market = scenario("market", seed=SEED)
    batch = EventBatch.from_arrow(market.space, market.events(events))
    async with broker() as url, cc.connect(url) as publisher:
        await publisher.declare(market.space)
        came = [0] * clients
        others = [await cc.connect(url, most_waiting=10**9) for _ in range(clients)]

        def take(at: int) -> Any:
            def count(part: EventBatch) -> None:
                came[at] += len(part)

            return count

        for at, each in enumerate(others):
            await each.subscribe(market.space.name, "TRUE", deliver=take(at), batches=True)
        await publisher.publish(market.space, batch.slice(0, 1))  # trees are grown
        while sum(came) < clients:
            await asyncio.sleep(0.002)
        came[:] = [0] * clients
        begun = time.perf_counter()
        for at in range(0, events, BATCH):
            await publisher.publish(market.space, batch.slice(at, BATCH), wait=False)
        while sum(came) < clients * events:
            await asyncio.sleep(0.002)
        took_s = time.perf_counter() - begun
        for each in others:
            await each.close()
    return {"clients": clients, "deliveries/s": clients * events / took_s}


async def latency(events: int, every_s: float, at_once: int) -> dict[str, Any]:
    """Some events at a time through three brokers in a line: from publish to the subscriber's callback."""
    market = scenario("market", seed=SEED)
    rows = EventBatch.from_arrow(market.space, market.events(events)).to_dicts()
    async with (
        broker("--name", "a") as a,
        broker("--name", "b", "--neighbour", a) as b,
        broker("--name", "c", "--neighbour", b) as c,
        cc.connect(a) as publisher,
        cc.connect(c) as subscriber,
    ):
        await publisher.declare(market.space)
        while market.space.name not in await subscriber.spaces():
            await asyncio.sleep(0.01)
        took: list[float] = []
        sent_at: list[float] = []
        await subscriber.subscribe(
            market.space.name, "TRUE", deliver=lambda _: took.append(time.perf_counter() - sent_at[len(took)])
        )
        while (await publisher.ask("state", router=True))["router"]["subscriptions"].get("c") is None:
            await asyncio.sleep(0.01)
        warm = events // 10
        begun = time.perf_counter()
        for at in range(0, events, at_once):
            for row in rows[at : at + at_once]:
                sent_at.append(time.perf_counter())
                await publisher.publish(market.space, row, wait=False)
            if at < warm <= at + at_once:
                while len(took) < len(sent_at):
                    await asyncio.sleep(0.001)
                begun, warm = time.perf_counter(), len(sent_at)
            await asyncio.sleep(every_s)
        published_s = time.perf_counter() - begun
        while len(took) < events:
            await asyncio.sleep(0.001)
    ordered = sorted(took[warm:])  # the first ones wait for trees to grow
    return {
        "events/s": (events - warm) / published_s,
        "p50 ms": 1000 * ordered[len(ordered) // 2],
        "p99 ms": 1000 * ordered[int(0.99 * len(ordered))],
    }


async def durable(size: int, events: int, subscribers: int) -> dict[str, Any]:
    """Accepted means synced: a broker with a data folder, batches, and durable subscribers that want all; -1: in memory."""
    market = scenario("market", seed=SEED)
    batch = EventBatch.from_arrow(market.space, market.events(events))
    parts = [batch.slice(at, size) for at in range(0, events, size)]
    with tempfile.TemporaryDirectory() as folder:
        words = ["--data", folder] if subscribers >= 0 else []
        async with broker(*words) as url, cc.connect(url) as publisher, cc.connect(url, most_waiting=10**9) as subscriber:
            await publisher.declare(market.space)
            came = 0

            def take(batch: EventBatch) -> None:
                nonlocal came
                came += len(batch)

            for number in range(subscribers):
                await subscriber.subscribe(market.space, "TRUE", durable=f"desk-{number}", deliver=take, batches=True)
            await publisher.publish(market.space, parts[0])
            begun = time.perf_counter()
            for part in parts:
                await publisher.publish(market.space, part, wait=False)
            await publisher.flush()
            accepted_s = time.perf_counter() - begun
            goal = (events + len(parts[0])) * max(0, subscribers)
            while came < goal:
                await asyncio.sleep(0.001)
            delivered_s = time.perf_counter() - begun
    return {
        "batch": size,
        "durable subscribers": subscribers,
        "accepted, events/s": events / accepted_s,
        "delivered, events/s": goal / delivered_s if goal else 0.0,
    }


def _peers(quick: bool) -> list[dict[str, Any]]:
    """Events one by one at brokers of others, where they are installed; the slower one is, the fewer events it gets."""
    market = scenario("market", seed=SEED)
    rows: list[dict[str, Any]] = []
    for name, (what, is_there, measure) in PEERS.items():
        if not is_there():
            continue
        row: dict[str, Any] = {"peer": name, "what": what}
        for size, count in ((10, 2_000), (1_000, 500)) if quick else ((10, 5_000), (1_000, 1_000), (10_000, 100)):
            events = market.events(20 * count if name in ("nats", "mosquitto") else count).to_pylist()
            try:
                row[str(size)] = asyncio.run(measure(market.subscriptions(size)["predicate"].to_pylist(), events))
            except (OSError, RuntimeError, TimeoutError) as reason:
                row[str(size)] = 0.0
                row["failed"] = repr(reason)
        rows.append(row)
    return rows


def _as_peer(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"peer": "contentcast", "what": "predicates with ranges"}
    return found | {str(row["filters"]): row["one by one, events/s"] for row in rows}


def _in_uvloop(work: Any) -> Any:
    """Ten thousand TLS connections of this process fit into its memory with uvloop only."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def run(quick: bool) -> Result:
    sizes = [10, 1_000] if quick else [10, 1_000, 10_000]
    events = 20_000 if quick else 200_000
    rows = [asyncio.run(filters(size, events)) for size in sizes]
    fans = [asyncio.run(fan_out(clients, events // clients)) for clients in ((1, 10) if quick else (1, 10, 100))]
    late = [
        asyncio.run(latency(count // 10 if quick else count, 0.002, at_once))
        for count, at_once in ((2_000, 1), (10_000, 10), (100_000, 100))
    ]
    peers = _peers(quick)
    clients = _in_uvloop(tls_clients(200 if quick else 10_000))
    again = asyncio.run(restart(10_000 if quick else 1_000_000))
    kept = [
        asyncio.run(durable(size, events, subscribers))
        for size, subscribers in ((BATCH, -1), (BATCH, 0), (10 * BATCH, 0), (BATCH, 1), (10 * BATCH, 1))
    ]
    first, single = rows[0]["in batches, events/s"], rows[0]["one by one, events/s"]
    tables = [
        Table(
            "Filters at one broker, events of the market workload",
            ["filters", "in batches, /s", "slower than first", "one by one, /s", "slower than first"],
            [
                [
                    f"{row['filters']:,}",
                    human(row["in batches, events/s"]),
                    times(first / row["in batches, events/s"]),
                    human(row["one by one, events/s"]),
                    times(single / row["one by one, events/s"]),
                ]
                for row in rows
            ],
        ),
        Table(
            "Fan-out: clients that all want everything",
            ["clients", "deliveries/s"],
            [[str(row["clients"]), human(row["deliveries/s"])] for row in fans],
        ),
        Table(
            "Durable: accepted means synced to disk; a durable subscriber wants everything",
            ["broker", "batch", "durable subscribers", "accepted, /s", "of the first", "handed over, /s"],
            [
                [
                    "in memory" if row["durable subscribers"] < 0 else "with a disk",
                    f"{row['batch']:,}",
                    str(max(0, row["durable subscribers"])),
                    human(row["accepted, events/s"]),
                    times(row["accepted, events/s"] / kept[0]["accepted, events/s"]),
                    human(row["delivered, events/s"]) if row["delivered, events/s"] else "",
                ]
                for row in kept
            ],
        ),
        Table(
            "Three brokers in a line, events one by one",
            ["events/s", "p50 ms", "p99 ms"],
            [[human(row["events/s"]), f"{row['p50 ms']:.2f}", f"{row['p99 ms']:.2f}"] for row in late],
        ),
        Table(
            "Brokers of others in the same run, events one by one, /s",
            ["broker", "filters", *(f"at {each['filters']:,}" for each in rows), "slower from first to last"],
            [
                [
                    row["peer"],
                    row["what"],
                    *(human(row[str(each["filters"])]) if row[str(each["filters"])] else "failed" for each in rows),
                    times(row[str(sizes[0])] / row[str(sizes[-1])]) if row[str(sizes[-1])] else "",
                ]
                for row in [_as_peer(rows), *peers]
            ],
        ),
        Table(
            "Clients over TLS",
            ["clients", "broker's MB before", "with them", "connected in s"],
            [
                [
                    f"{clients['clients']:,}",
                    f"{clients['MB before']:.0f}",
                    f"{clients['MB with them']:.0f}",
                    f"{clients['connected in s']:.1f}",
                ]
            ],
        ),
        Table(
            "A broker killed and started again, one client with many subscriptions: seconds since its start",
            ["subscriptions", "listens", "all stand again", "first event accepted", "MB"],
            [
                [
                    f"{again['subscriptions']:,}",
                    f"{again['listens again after s']:.1f}",
                    f"{again['all stand again after s']:.1f}",
                    f"{again['first event accepted after s']:.1f}",
                    f"{again['MB']:.0f}",
                ]
            ],
        ),
    ]
    notes = [
        f"Batches have {BATCH:,} events; one by one, the client gathers what is published within one wake-up.",
        "Publisher, subscribers and broker share the machine's cores; a client of this package takes as much as the broker.",
        "Peers are Debian's: `apt install rabbitmq-server activemq nats-server mosquitto`; it runs without them too. "
        "RabbitMQ tests equality only, and NATS and mosquitto see topics: they are ceilings without content.",
    ]
    about = ["Events over real sockets: a broker process, and clients in the process that measures."]
    return Result(
        "live",
        "Live brokers",
        about,
        tables,
        notes,
        {
            "filters": rows,
            "fan_out": fans,
            "durable": kept,
            "latency": late,
            "peers": peers,
            "tls clients": clients,
            "restart": again,
        },
        quick,
    )
