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
from benchmarks.networks.live_report import BATCH, report
from benchmarks.networks.live_scale import restart, tls_clients
from benchmarks.peers.brokers import PEERS
from benchmarks.report import Result
from contentcast.model import EventBatch
from contentcast.workload import scenario

SEED = 1


WARM_S = 3.0
"""A broker that has just started loads what was compiled, and grows its trees; events come meanwhile, and are not measured."""


async def warmed(publisher: Any, part: EventBatch) -> None:
    until = time.perf_counter() + WARM_S
    while time.perf_counter() < until:
        await publisher.publish(part.space, part)
        await asyncio.sleep(0.1)


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
        await warmed(publisher, parts[0])
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
        await warmed(publisher, batch.slice(0, 1))
        while len(set(came)) > 1:
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
            await asyncio.sleep(WARM_S)
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
    kept = ((BATCH, -1), (BATCH, 0), (10 * BATCH, 0), (BATCH, 1), (10 * BATCH, 1))
    late = ((2_000, 1), (10_000, 10), (100_000, 100))
    told: dict[str, Any] = {
        "filters": [asyncio.run(filters(size, events)) for size in sizes],
        "fan_out": [asyncio.run(fan_out(clients, events // clients)) for clients in ((1, 10) if quick else (1, 10, 100))],
        "durable": [asyncio.run(durable(size, events, subscribers)) for size, subscribers in kept],
        "latency": [asyncio.run(latency(count // 10 if quick else count, 0.002, at_once)) for count, at_once in late],
        "peers": _peers(quick),
        "tls clients": _in_uvloop(tls_clients(200 if quick else 10_000)),
        "restart": asyncio.run(restart(10_000 if quick else 1_000_000)),
    }
    return report(told, quick)
