"""One computer of an experiment: a process that publishes or subscribes on a LAN and prints what it counted, as JSON.

    python -m contentcast.experiments.lan.party '{"url": "lan://...", "role": "subscribe", "where": "type = 't1'"}'

Source: Eide et al. 2003, section 6.2: each notification has a source, a type, a sequence number and an array that sets its
size.
Events with a negative sequence number warm both sides up and are not counted.
Rule: a subscriber ends when nothing has come for QUIET_S.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.lan.namespaces import counters
from contentcast.language import advertisement
from contentcast.live.lan import LanClient, connect_lan
from contentcast.model import EventBatch, Space
from contentcast.routing.multicast import Group, MappingSpecification, Row
from contentcast.warming.background import kernels
from contentcast.wire import Publish, decode, encode
from contentcast.wire.encodings.sizes import event_bytes

NOTES: Final = Space("notes", source="string", type="string", sequence="int", array="bytes")
QUIET_S: Final = 1.5
SUPPLY: Final = 8192
"""Events made before the clock starts; they go round."""
MOST_S: Final = 60.0


def four_rows(control: str) -> MappingSpecification:
    """The mapping of section 6.2: source and type say the group, of four."""
    base = Group.of(control)
    every = dict.fromkeys(NOTES.names, "ANY")
    rows = [
        Row(
            advertisement(NOTES, 2 * s + t, {**every, "source": f"source = 's{s}'", "type": f"type = 't{t}'"}),
            str(base.following(1 + 2 * s + t)),
        )
        for s in (0, 1)
        for t in (0, 1)
    ]
    return MappingSpecification(tuple(rows), (str(base.following(9)),), control)


def notes(source: str, types: list[str], first: int, count: int, size: int) -> EventBatch:
    """Events that take `size` bytes each on the wire, or as few as they can."""
    numbers = np.arange(first, first + count)
    least = int(
        event_bytes(EventBatch.from_dicts(NOTES, [{"source": source, "type": types[0], "sequence": 1, "array": b""}]))[0]
    )
    array = bytes(max(0, size - least))
    kinds = pa.array(types).take(pa.array(numbers % len(types)))
    columns = [pa.array([source] * count), kinds, pa.array(numbers, pa.int64()), pa.array([array] * count, pa.binary())]
    records = pa.record_batch(columns, schema=NOTES.arrow_schema)
    return EventBatch(NOTES, records, pa.array(numbers, pa.int64()))


async def publish(client: LanClient, told: dict[str, Any]) -> dict[str, Any]:
    """At `rate` a second (0: as fast as it goes) for `seconds`, in batches of `batch`, once so many members want something."""
    members = client.server.router.members.members
    wanted = int(told.get("members", 1))
    await client.until(lambda: sum(bool(each.record.blocks) for each in members.values()) >= wanted, 30, "nobody came")
    await asyncio.sleep(0.3)  # joins reach the switch
    rate, batch, size = float(told["rate"]), int(told["batch"]), int(told["size"])
    source, types = str(told.get("source", "s0")), list(told.get("types", ["t0"]))
    for _ in range(20):
        await client.publish("notes", notes(source, types, -batch, batch, size))
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    supply = notes(source, types, 0, SUPPLY - SUPPLY % batch, size)
    single = supply.to_dicts() if batch == 1 else []
    before, sent = counters("eth0"), 0
    start, cpu = time.perf_counter(), time.process_time()
    end = start + float(told["seconds"])
    while (now := time.perf_counter()) < end:
        if rate and sent >= (now - start) * rate:
            await asyncio.sleep(0.0005)
            continue
        if single:  # a call for each event; the client gathers those of one turn of the loop
            due = min(64, int((now - start) * rate) + 1 - sent) if rate else 64
            for at in range(sent, sent + due):
                await client.publish("notes", single[at % len(single)])
            sent += due
        else:
            await client.publish("notes", supply.slice(sent % len(supply), batch))
            sent += batch
        await asyncio.sleep(0)
    took = time.perf_counter() - start
    await asyncio.sleep(0.2)
    return {"sent": sent, "took": took, "cpu": time.process_time() - cpu, "link": _more(before)}


async def subscribe(client: LanClient, told: dict[str, Any]) -> dict[str, Any]:
    first = last = 0.0
    events = 0
    before: dict[str, int] = {}
    cpu = 0.0

    def take(batch: EventBatch) -> None:
        nonlocal first, last, events, before, cpu
        if batch.records.column(2)[0].as_py() < 0:
            before, cpu = counters("eth0"), time.process_time()
            return
        last = time.perf_counter()
        first = first or last
        events += len(batch)

    quality = told.get("quality")
    await client.subscribe("notes", str(told.get("where", "TRUE")), deliver=take, batches=True, quality=quality)
    # Kernels are loaded at their first call: by events of this process, and by messages as they will come.
    for batch in (1, 12, 100):
        for which in (["t0"], ["t0", "t1"]):
            warm = notes("s0", which, -batch, batch, 100)
            decode(encode(Publish("", 1, 1, warm)), {NOTES.name: NOTES})
            await client.publish("notes", warm)
    print("ready", flush=True)
    begin = time.perf_counter()
    while True:
        await asyncio.sleep(0.05)
        now = time.perf_counter()
        if (events and now - last > QUIET_S) or now - begin > MOST_S:
            break
    state = client.server.state()
    groups = state["datagrams"]["groups"].values()
    return {
        "received": events,
        "took": last - first,
        "cpu": time.process_time() - cpu,
        "link": _more(before),
        "dropped": sum(each["dropped by the kernel"] for each in groups),
        "missing": sum(each["missing"] for each in groups),
        "discarded": sum(each["discarded"] for each in state["traffic"].values()),
        "groups": len(state["groups"]),
        "uses": state["mapping"]["uses"],
    }


async def both(client: LanClient, told: dict[str, Any]) -> dict[str, Any]:
    """Publisher and subscriber in one process: an event between them is a call."""
    count = 0

    def take(batch: EventBatch) -> None:
        nonlocal count
        count += len(batch)

    await client.subscribe("notes", deliver=take, batches=True)
    print("ready", flush=True)
    batch, size = int(told["batch"]), int(told["size"])
    ready = notes("s0", ["t0"], 0, batch, size)
    single = ready.slice(0, 1).to_dicts()[0]
    one_by_one = batch == 1
    for _ in range(1024):
        await client.publish("notes", single)
    await client.publish("notes", ready)
    await asyncio.sleep(0)
    count = 0
    start = time.perf_counter()
    end = start + float(told["seconds"])
    sent = 0
    while time.perf_counter() < end:
        if one_by_one:
            for _ in range(512):
                await client.publish("notes", single)
            sent += 512
        else:
            await client.publish("notes", ready)
            sent += batch
    took = time.perf_counter() - start
    return {"sent": sent, "received": count, "took": took, "datagrams": client.server.state()["datagrams"]["sent"]}


async def change(client: LanClient, told: dict[str, Any]) -> dict[str, Any]:
    """Proposes another mapping after a while, and says how long it took until all used it."""
    await asyncio.sleep(float(told["after"]))
    control = client.server.router.control
    other = str(Group.of(control).following(50))
    start = time.perf_counter()
    await client.propose(MappingSpecification((), (other,), control))
    router = client.server.router
    await client.until(lambda: len(router.agreement.status()[1]) == 1)
    return {"seconds": time.perf_counter() - start, "members": len(router.members.members)}


def _more(before: dict[str, int]) -> dict[str, int]:
    return {name: value - before[name] for name, value in counters("eth0").items() if name in before}


async def main(told: dict[str, Any]) -> None:
    roles = {"publish": publish, "subscribe": subscribe, "both": both, "change": change}
    control = "udp_ipm://" + str(told["url"]).removeprefix("lan://").partition("?")[0]
    async with connect_lan(told["url"], spaces=[NOTES], mapping=four_rows(control)) as client:
        await asyncio.to_thread(kernels.wait)
        print(json.dumps(await roles[told["role"]](client, told)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
