"""Spark's route step: CPU of `summaries` and `covering` beside link matching, for the same events on 24 brokers.

`make bench ARGS=summaries_route`. The routers of all brokers run in every worker, by columns (`contentcast.spark.route`). CPU
time is that of the routers, as the workers measure it; the indexes that a broker builds at its first events are in it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.columns import SEED
from benchmarks.report import Result, Table, human, times
from contentcast.network.named import network, placed
from contentcast.spark import session
from contentcast.spark.route import route_totals
from contentcast.spark.route_facts import Totals
from contentcast.workload import Scenario

NETWORK: Final = "cable-wireless-24"
PROTOCOLS: Final = ("link-matching", "summaries", "summaries-side-by-side", "covering")
TARGET: Final = 3.0
"""`summaries` takes at most this many times the CPU of link matching."""
FILE_EVENTS: Final = 131_072


class Load(NamedTuple):
    scenario: str
    subscriptions: int
    events: int


FULL: Final = (Load("market", 10_000, 1_000_000), Load("summaries", 2_400, 100_000))
QUICK: Final = (Load("market", 500, 4_000), Load("summaries", 240, 2_000))


def run(quick: bool = False) -> Result:
    spark = session("contentcast benchmarks", "local[2]")
    found: dict[str, dict[str, Any]] = {}
    try:
        for load in QUICK if quick else FULL:
            name = f"{load.scenario}, {load.events:,} events, {load.subscriptions:,} subscriptions"
            found[name] = _routed(spark, load)
    finally:
        spark.stop()
    ratios = [each["summaries"]["cpu_s"] / each["link-matching"]["cpu_s"] for each in found.values()]
    reached = "reached" if max(ratios) <= TARGET else "missed"
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return Result(
        "summaries_route",
        "Summaries and covering in Spark's route step",
        [
            f"Events through the routers of {NETWORK} on local Spark with two cores: the CPU seconds of all routers "
            "together, and how many times those of link matching in the same job.",
        ],
        [_table(*each) for each in found.items()],
        [f"Target: `summaries` takes at most {TARGET:.0f} times the CPU of link matching: {reached} ({shown})."],
        {"loads": found},
        quick,
    )


def _routed(spark: Any, load: Load) -> dict[str, Any]:
    topology = network(NETWORK)
    source = placed(load.scenario, topology, seed=SEED)
    subscriptions = pa.Table.from_batches([source.subscriptions(load.subscriptions)])
    with tempfile.TemporaryDirectory(prefix="contentcast-bench-") as folder:
        for start in range(0, load.events, FILE_EVENTS):
            _write(source, Path(folder) / f"{start:09d}.parquet", start, min(FILE_EVENTS, load.events - start))
        events = spark.read.parquet(folder)
        begun = perf_counter()
        totals = route_totals(events, subscriptions, source.space, topology, PROTOCOLS)
        took = perf_counter() - begun
    delivered = {name: int(each.deliveries.sum()) for name, each in totals.items()}
    if len(set(delivered.values())) != 1:
        raise AssertionError(f"the protocols do not deliver the same: {delivered}")
    return {"job_s": took, **{name: _row(each, load.events) for name, each in totals.items()}}


def _write(source: Scenario, path: Path, start: int, count: int) -> None:
    table = pa.Table.from_batches([source.events(count, start)])
    pq.write_table(table.append_column("publisher", source.publishers(count, start)), path)


def _row(totals: Totals, events: int) -> dict[str, float]:
    return {
        "cpu_s": totals.cpu_s,
        "per_s": events / totals.cpu_s,
        "links": totals.all_messages / events,
        "bytes": totals.all_bytes / events,
        "p99_ms": 1000 * totals.latency_s(0.99),
    }


def _table(name: str, found: dict[str, Any]) -> Table:
    base = found["link-matching"]["cpu_s"]
    rows = [
        [
            protocol,
            f"{row['cpu_s']:.1f}",
            human(row["per_s"]),
            times(row["cpu_s"] / base),
            f"{row['links']:.1f}",
            f"{row['bytes']:,.0f}",
            f"{row['p99_ms']:.0f}",
        ]
        for protocol, row in ((each, found[each]) for each in PROTOCOLS)
    ]
    header = ["protocol", "CPU s", "events/s", "to link matching", "links of an event", "bytes of an event", "p99, ms"]
    return Table(name, header, rows, frozenset({"summaries"}))
