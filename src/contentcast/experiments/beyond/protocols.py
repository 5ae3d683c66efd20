"""All protocols on one network under one load: latency percentiles, copies, bytes on the links and the busiest of them.

Source: Banavar et al. 1999, section 1, argues for link matching against match-first (lists in the header, or a copy for each
subscriber) and flooding; section 6 adds two-tier routing. The network and the subscriptions are those of chart 2, in two
workloads: few matches and many.
Rule: every protocol gets the same events at the same times; latency has the queues in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import COLOURS, label
from contentcast.experiments.replay import latencies, replay
from contentcast.experiments.routes import Network, enough
from contentcast.experiments.rows import floats, groups, where
from contentcast.hosting.costs import PAPER_FAST
from contentcast.network.named import network
from contentcast.workload import scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROTOCOLS: Final = (
    "link-matching",
    "link-matching-paper",
    "match-first",
    "match-first-unicast",
    "two-tier",
    "flooding",
    "flooding, clients filter",
)
DECAYS: Final = {"few match": 0.862, "many match": 0.795}
RATE: Final = 150.0
PERCENTILES: Final = (50, 90, 99, 99.9)


def plan(scale: Scale) -> list[Row]:
    size, seconds = (1000, 0.5) if scale.quick else (9750, 5.0)
    workloads = ("few match",) if scale.quick else tuple(DECAYS)
    return [
        {"workload": workload, "protocol": protocol, "subscriptions": size, "seconds": seconds, "rate": RATE, "seed": seed}
        for workload in workloads
        for protocol in PROTOCOLS
        for seed in scale.seeds(1)
    ]


def measure(workload: str, protocol: str, subscriptions: int, seconds: float, rate: float, seed: int) -> dict[str, Any]:
    name, _, filters = protocol.partition(", ")
    options = {"filter_at": "client"} if filters else {}
    source = scenario("gryphon", seed=seed, attributes=15, decay=DECAYS[workload])
    built = Network(network("gryphon-39"), source, name, subscriptions, tree={"factored": ["a1"]}, **options)
    routes = built.route(enough(rate, seconds, 3))
    times = routes.times(rate, seconds, seed)
    run = replay(routes, times, PAPER_FAST)
    late = latencies(routes, run, times, PAPER_FAST) * 1000
    events = len(routes.entered)
    most = np.unravel_index(int(routes.bytes.argmax()), routes.bytes.shape)
    brokers = routes.topology.brokers
    return {
        **{f"p{each:g}_ms": float(value) for each, value in zip(PERCENTILES, np.percentile(late, PERCENTILES), strict=True)},
        "copies": float(routes.copies.sum()) / events,
        "bytes": float(routes.bytes.sum()) / events,
        "steps": float(routes.steps.sum()) / events,
        "full_cpu_rate": float(routes.limits(PAPER_FAST).min()),
        "busiest_link": f"{brokers[most[0]]} to {brokers[most[1]]}",
        "busiest_link_bytes": float(routes.bytes.max()) / events,
    }


def _of(table: pa.Table, workload: str, protocol: str, column: str) -> float:
    return float(floats(where(table, workload=workload, protocol=protocol), column).mean())


def judge(table: pa.Table) -> list[Verdict]:
    workload = table["workload"][0].as_py()
    fewest = min(floats(where(table, workload=workload), "copies"))
    ours = _of(table, workload, "link-matching", "copies")
    size = {name: _of(table, workload, name, "bytes") for name in PROTOCOLS}
    late = {name: _of(table, workload, name, "p99_ms") for name in PROTOCOLS}
    return [
        Verdict(
            "Link matching sends at most one copy over a link, and none for nobody",
            "by design",
            f"{ours:.1f} copies of an event ({workload}), the fewest of all: {fewest:.1f}; flooding "
            f"{_of(table, workload, 'flooding', 'copies'):.1f}",
            ours <= fewest + 1e-9,
        ),
        Verdict(
            "Lists of destinations cost bytes, link matching none",
            "long message headers",
            f"{size['link-matching']:,.0f} bytes of an event on all links; match-first {size['match-first']:,.0f}, "
            f"unicast {size['match-first-unicast']:,.0f}, flooding {size['flooding']:,.0f}",
            size["link-matching"] <= min(size.values()) + 1e-9,
        ),
        Verdict(
            "Matching at every broker costs little latency against the links' delays",
            "much less than 1 ms of tens of ms",
            f"p99 {late['link-matching']:.1f} ms, match-first {late['match-first']:.1f} ms, "
            f"flooding {late['flooding']:.1f} ms ({workload})",
            late["link-matching"] < 1.1 * min(late["match-first"], late["flooding"]),
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    rows = []
    for (workload, protocol), same in groups(table, "workload", "protocol"):
        row = {"workload": workload, "protocol": protocol}
        row |= {f"p{each:g} (ms)": f"{floats(same, f'p{each:g}_ms').mean():.1f}" for each in PERCENTILES}
        row |= {
            "copies": f"{floats(same, 'copies').mean():.1f}",
            "bytes": f"{floats(same, 'bytes').mean():,.0f}",
            "busiest link": f"{floats(same, 'busiest_link_bytes').mean():.0f} B, {same['busiest_link'][0].as_py()}",
            "steps": f"{floats(same, 'steps').mean():,.0f}",
            "full CPU at (events/s)": f"{floats(same, 'full_cpu_rate').mean():.0f}",
        }
        rows.append(row)
    return pa.Table.from_pylist(rows)


def draw(table: pa.Table, figure: Figure) -> None:
    late, sizes = figure.subplots(1, 2)
    workloads = list(dict.fromkeys(table["workload"].to_pylist()))
    height = 0.8 / len(workloads)
    for number, workload in enumerate(workloads):
        places = np.arange(len(PROTOCOLS)) + number * height
        for axes, column in ((late, "p99_ms"), (sizes, "bytes")):
            values = [_of(table, workload, protocol, column) for protocol in PROTOCOLS]
            bars = axes.barh(places, values, height, label=workload, color=COLOURS[number])
            axes.bar_label(bars, fmt="{:,.0f}", fontsize=7, padding=2)
    for axes in (late, sizes):
        axes.set_yticks(np.arange(len(PROTOCOLS)) + 0.4 - height / 2, PROTOCOLS)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.margins(x=0.2)
    late.legend(fontsize=8)
    rate = table["rate"][0].as_py()
    label(late, "99th percentile of latency (ms, log)", "", f"{rate:g} events/s per publisher")
    label(sizes, "bytes of an event on all links (log)", "")


EXPERIMENT: Final = Experiment(
    "link-matching/beyond/protocols",
    "All protocols: latency, copies and bytes",
    "Banavar et al. 1999, sections 1 and 6",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(11.0, 4.8),
)
