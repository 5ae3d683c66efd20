"""A LAN without brokers beside plain sockets in the same run: in one process, and between two computers (network namespaces).

`make bench ARGS=lan`. Events of 100 bytes. `plain sockets` is a process that calls `sendto` for each datagram of 100 bytes, and
one that calls `recv_into`; nothing is matched there. Ours are measured loss-free, as in the paper: at lower rates until at most
a thousandth is lost. Without root or iproute2 all of it runs on loopback, and the table says so.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from typing import Any

from benchmarks.report import Result, Table, human, times
from contentcast.experiments.lan.stage import Stage, result, stage
from contentcast.experiments.lan.tables import loss_free

SIZE = 100
BATCHES = {"batches of 100": 100, "batches of 1,000": 1000}
TARGETS = {
    "process, one by one": 200_000,
    **{f"process, {batches}": 1_000_000 for batches in BATCHES},
    **{f"LAN, {batches}": 500_000 for batches in BATCHES},
}
EQUAL_RATE = 20_000
"""Events a second at which the sender's CPU for one receiver is compared with that for four."""
HALF = 0.5
"""Of what plain sockets do, for events published one by one."""


def in_process(batch: int, seconds: float) -> dict[str, Any]:
    with stage(["a"], namespaces=False) as here:
        found = result("a", here.start("a", {"role": "both", "batch": batch, "size": SIZE, "seconds": seconds}))
    return {"rate": found["received"] / found["took"], "lost": 1 - found["received"] / found["sent"], "where": "one process"}


def on_lan(here: Stage, batch: int, seconds: float, receivers: int = 1, at_most: float = 0) -> dict[str, Any]:
    names = [f"r{at}" for at in range(receivers)]
    told = {"size": SIZE, "batch": batch, "seconds": seconds}
    found = loss_free(
        lambda rate: here.play({each: {} for each in names}, {"s": {**told, "rate": rate or at_most}}),
        dict.fromkeys(names, 1.0),
        ("s",),
    )
    return {"rate": found["rate"], "lost": found["lost"], "cpu_us": found["sender_cpu_us"], "where": here.where}


def plain(here: Stage, seconds: float) -> dict[str, Any]:
    """What two processes do with sockets alone."""
    receiver = here.start("r0", {"role": "receive"}, module="benchmarks.networks.lan")
    assert receiver.stdout is not None
    receiver.stdout.readline()
    sent = result("plain sender", here.start("s", {"role": "send", "seconds": seconds}, module="benchmarks.networks.lan"))
    got = result("plain receiver", receiver)
    return {
        "rate": got["received"] / max(got["took"], 1e-9),
        "lost": 1 - got["received"] / sent["sent"],
        "cpu_us": 1e6 * sent["cpu"] / sent["sent"],
        "where": here.where,
    }


def run(quick: bool = False) -> Result:
    seconds = 1.0 if quick else 10.0
    rows: dict[str, dict[str, Any]] = {
        "process, one by one": in_process(1, seconds),
        **{f"process, {name}": in_process(batch, seconds) for name, batch in BATCHES.items()},
    }
    with stage(["s", *(f"r{at}" for at in range(4))]) as here:
        rows["plain sockets, LAN"] = plain(here, seconds)
        rows["LAN, one by one"] = on_lan(here, 1, seconds)
        for name, batch in BATCHES.items():
            rows[f"LAN, {name}"] = on_lan(here, batch, seconds)
        for name, receivers in (("one", 1), ("four", 4)):
            rows[f"LAN, at {EQUAL_RATE:,}/s, to {name}"] = on_lan(here, 100, seconds, receivers, EQUAL_RATE)
    return _shown(rows, quick)


def _shown(rows: dict[str, dict[str, Any]], quick: bool) -> Result:
    bare = rows["plain sockets, LAN"]["rate"]
    cells = [
        [name, human(each["rate"]), times(each["rate"] / bare), f"{100 * each['lost']:.2f} %", _cpu(each), each["where"]]
        for name, each in rows.items()
    ]
    header = ["way", "events/s", "to plain sockets", "lost", "sender's CPU an event", "where"]
    one, four = (rows[f"LAN, at {EQUAL_RATE:,}/s, to {name}"]["cpu_us"] for name in ("one", "four"))
    notes = [f"{name}: {_reached(rows[name]['rate'], target)} (target {human(target)}/s)." for name, target in TARGETS.items()]
    notes.append(f"LAN, one by one: {_reached(rows['LAN, one by one']['rate'], HALF * bare)} (target half of plain sockets).")
    notes.append(f"Four receivers cost the sender {four / one:.2f} times the CPU of one, at the same rate in batches of 100.")
    about = ["Events a second from one publisher to one subscriber, beside plain sockets (Eide et al. 2003, section 6.2)."]
    return Result(
        "lan", "A LAN without brokers", about, [Table("", header, cells)], [] if quick else notes, {"rows": rows}, quick
    )


def _cpu(row: dict[str, Any]) -> str:
    return f"{row['cpu_us']:.2f} us" if "cpu_us" in row else ""


def _reached(rate: float, target: float) -> str:
    return f"{'reached' if rate >= target else 'missed'}, {rate / target:.2f} of the target"


# --- the two processes of plain sockets


def _send(told: dict[str, Any], address: tuple[str, int], interface: str) -> dict[str, Any]:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
    datagram, sent = bytes(SIZE), 0
    start, cpu = time.perf_counter(), time.process_time()
    end = start + float(told["seconds"])
    while time.perf_counter() < end:
        for _ in range(64):
            sender.sendto(datagram, address)
        sent += 64
    return {"sent": sent, "took": time.perf_counter() - start, "cpu": time.process_time() - cpu}


def _receive(address: tuple[str, int], interface: str) -> dict[str, Any]:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 2**20)
    receiver.bind(address)
    member = socket.inet_aton(address[0]) + socket.inet_aton(interface)
    receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    print("ready", flush=True)
    buffer, received = bytearray(2048), 0
    receiver.settimeout(30.0)
    receiver.recv_into(buffer)
    start = last = time.perf_counter()
    receiver.settimeout(1.0)
    try:
        while True:
            receiver.recv_into(buffer)
            received += 1
            last = time.perf_counter()
    except TimeoutError:
        return {"received": received, "took": last - start}


def _party(told: dict[str, Any]) -> None:
    group, _, rest = str(told["url"]).removeprefix("lan://").partition(":")
    port, _, query = rest.partition("?")
    interface = query.split("interface=")[1].split("&")[0]
    address = (group, int(port))
    found = _receive(address, interface) if told["role"] == "receive" else _send(told, address, interface)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    _party(json.loads(sys.argv[1]))
