"""The page of `make bench ARGS=live`: a table for each part that was measured."""

from __future__ import annotations

from typing import Any

from benchmarks.report import Result, Table, human, times

BATCH = 1_000


def report(told: dict[str, Any], quick: bool, *more: str) -> Result:
    """`more`: notes about this run."""
    made = {
        "filters": _filters,
        "fan_out": _fan_out,
        "durable": _durable,
        "latency": _latency,
        "peers": _peers,
        "tls clients": _clients,
        "restart": _restart,
    }
    notes = [
        f"Batches have {BATCH:,} events; one by one, the client gathers what is published within one wake-up.",
        "Publisher, subscribers and broker share the machine's cores; a client of this package takes as much as the broker.",
        "Peers are Debian's: `apt install rabbitmq-server activemq nats-server mosquitto`; it runs without them too. "
        "RabbitMQ tests equality only, and NATS and mosquitto see topics: they are ceilings without content.",
        *([] if quick else _targets(told)),
        *more,
    ]
    about = ["Events over real sockets: a broker process, and clients in the process that measures."]
    tables = [make(told) for name, make in made.items() if name in told]
    return Result("live", "Live brokers", about, tables, notes, told, quick)


def _targets(told: dict[str, Any]) -> list[str]:
    """Of a whole run: whether each target holds."""
    few, many = told["filters"][0], told["filters"][-1]
    batches, singles = "in batches, events/s", "one by one, events/s"
    durable = max(row["accepted, events/s"] for row in told["durable"] if row["durable subscribers"] >= 0)
    half = [row for row in told["latency"] if row["events/s"] >= many[singles] / 2]
    late = min(half or told["latency"], key=lambda row: abs(row["events/s"] - many[singles] / 2))
    restarted, clients = told["restart"]["all stand again after s"], told["tls clients"]
    slower = max(few[batches] / many[batches], few[singles] / many[singles])
    fan_out = told["fan_out"][-1]
    found = [
        (f"100,000 events/s one by one at {many['filters']:,} filters", human(many[singles]), many[singles] >= 100_000),
        (f"1,000,000 in batches at {many['filters']:,} filters", human(many[batches]), many[batches] >= 1_000_000),
        (f"at most 2 times slower from {few['filters']:,} to {many['filters']:,} filters", times(slower), slower <= 2),
        (
            f"500,000 deliveries/s at a fan-out of {fan_out['clients']}",
            human(fan_out["deliveries/s"]),
            fan_out["deliveries/s"] >= 500_000,
        ),
        ("500,000 durable events/s accepted in batches", human(durable), durable >= 500_000),
        (
            "p99 below 5 ms through three brokers at half of the load of one by one",
            f"{late['p99 ms']:.1f} ms at {human(late['events/s'])}/s",
            bool(half) and late["p99 ms"] < 5,
        ),
        (f"{clients['clients']:,} TLS clients in 1 GB", f"{clients['MB with them']:.0f} MB", clients["MB with them"] <= 1_000),
        (
            f"{told['restart']['subscriptions']:,} subscriptions stand 20 s after a restart",
            f"{restarted:.1f} s",
            restarted <= 20,
        ),
    ]
    return [f"Target: {what}. {'Holds' if holds else 'DOES NOT HOLD'}: {seen}." for what, seen, holds in found]


def _filters(told: dict[str, Any]) -> Table:
    rows = told["filters"]
    first, single = rows[0]["in batches, events/s"], rows[0]["one by one, events/s"]
    return Table(
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
    )


def _fan_out(told: dict[str, Any]) -> Table:
    rows = [[str(row["clients"]), human(row["deliveries/s"])] for row in told["fan_out"]]
    return Table("Fan-out: clients that all want everything", ["clients", "deliveries/s"], rows)


def _durable(told: dict[str, Any]) -> Table:
    kept = told["durable"]
    return Table(
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
    )


def _latency(told: dict[str, Any]) -> Table:
    rows = [[human(row["events/s"]), f"{row['p50 ms']:.2f}", f"{row['p99 ms']:.2f}"] for row in told["latency"]]
    return Table("Three brokers in a line, events one by one", ["events/s", "p50 ms", "p99 ms"], rows)


def _peers(told: dict[str, Any]) -> Table:
    mine: dict[str, Any] = {"peer": "contentcast", "what": "predicates with ranges"}
    mine |= {str(row["filters"]): row["one by one, events/s"] for row in told["filters"]}
    sizes = [str(row["filters"]) for row in told["filters"]]
    return Table(
        "Brokers of others in the same run, events one by one, /s",
        ["broker", "filters", *(f"at {int(each):,}" for each in sizes), "slower from first to last"],
        [
            [
                row["peer"],
                row["what"],
                *(human(row[each]) if row[each] else "failed" for each in sizes),
                times(row[sizes[0]] / row[sizes[-1]]) if row[sizes[-1]] else "",
            ]
            for row in [mine, *told["peers"]]
        ],
    )


def _clients(told: dict[str, Any]) -> Table:
    row = told["tls clients"]
    cells = [f"{row['clients']:,}", f"{row['MB before']:.0f}", f"{row['MB with them']:.0f}", f"{row['connected in s']:.1f}"]
    return Table("Clients over TLS", ["clients", "broker's MB before", "with them", "connected in s"], [cells])


def _restart(told: dict[str, Any]) -> Table:
    row = told["restart"]
    seconds = ("listens again after s", "all stand again after s", "first event accepted after s")
    return Table(
        "A broker killed and started again, one client with many subscriptions: seconds since its start",
        ["subscriptions", "listens", "all stand again", "first event accepted", "MB"],
        [[f"{row['subscriptions']:,}", *(f"{row[each]:.1f}" for each in seconds), f"{row['MB']:.0f}"]],
    )
