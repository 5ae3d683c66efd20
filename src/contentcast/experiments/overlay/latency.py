"""Latency: from publication to notification, with the paper's 50 ms for every message, by mapping and number of nodes.

Source: Baldoni et al. 2005, section 5.1, has the delay of a message and shows hops only. An event takes the hops of its m-cast
to the rendezvous node and those of the notification to the subscriber's node. Two ways to notify: over the ring by keys, as the
paper counts it, and straight to the subscriber's node, whose name the subscription brings along, as the routers here do it.
Rule: rings in memory as in `setting`; what waits in queues and for lost messages is not in it (`churn` has that).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.setting import Setting
from contentcast.experiments.overlay.tables import lines, mean, summary
from contentcast.routing.overlay.mappings import MAPPINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOP_MS: Final = 50.0


def plan(scale: Scale) -> list[Row]:
    sizes, events = ((100, 500), 60) if scale.quick else ((100, 500, 2000, 5000), 300)
    return [
        {"mapping": mapping, "nodes": nodes, "events": events, "seed": seed}
        for mapping in MAPPINGS
        for nodes in sizes
        for seed in scale.seeds(1)
    ]


def measure(mapping: str, nodes: int, events: int, seed: int) -> dict[str, Any]:
    setting = Setting(mapping, nodes, seed)
    ring = setting.ring
    batch = setting.events(events)
    rows, keys = setting.keys.event_keys(batch)
    publishers = setting.node(setting.source.publishers(events))
    subscribers = setting.node(setting.source.subscriptions(setting.subscriptions)["broker"])
    matched, subscriptions = setting.matches(batch)
    over, straight = [], []
    for row, number in zip(matched.tolist(), subscriptions.tolist(), strict=True):
        ranges = setting.ranges(number)
        meeting = next(key for key in keys[rows == row].tolist() if any(low <= key <= high for low, high in ranges))
        there = ring.mcast(publishers[row], [(meeting, meeting)]).hops
        node = ring.owner(meeting)
        back = len(ring.route(node, ring.keys[subscribers[number]]))
        over.append(there + back)
        straight.append(there + (node != subscribers[number]))
    return {
        "notifications": len(over),
        "by_ring_ms": HOP_MS * float(np.mean(over or [0])),
        "by_ring_p99_ms": HOP_MS * float(np.quantile(over or [0], 0.99)),
        "straight_ms": HOP_MS * float(np.mean(straight or [0])),
        "straight_p99_ms": HOP_MS * float(np.quantile(straight or [0], 0.99)),
    }


def judge(table: pa.Table) -> list[Verdict]:
    sizes = sorted(set(table["nodes"].to_pylist()))
    by_ring, straight = mean(table, "by_ring_ms"), mean(table, "straight_ms")
    first, last = (mean(table, "straight_ms", nodes=each) for each in (sizes[0], sizes[-1]))
    return [
        Verdict(
            "Latency grows with the logarithm of the nodes, not with the nodes",
            "hops only",
            f"{first:.0f} ms at {sizes[0]} nodes, {last:.0f} ms at {sizes[-1]}",
            last / first < 1 + np.log2(sizes[-1] / sizes[0]),
        ),
        Verdict(
            "A notification that goes straight to the subscriber's node saves time",
            "over the ring",
            f"{straight:.0f} ms against {by_ring:.0f} ms over the ring, on average",
            straight < by_ring,
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    columns = ("by_ring_ms", "by_ring_p99_ms", "straight_ms", "straight_p99_ms")
    return summary(table, ("mapping", "nodes"), "notifications", *columns)


def draw(table: pa.Table, figure: Figure) -> None:
    one, other = figure.subplots(1, 2)
    lines(one, table, "mapping", "nodes", "by_ring_ms", ("nodes", "ms to the subscriber, over the ring"))
    lines(other, table, "mapping", "nodes", "straight_ms", ("nodes", "ms to the subscriber, straight"))


EXPERIMENT: Final = Experiment(
    "overlay/latency",
    "Latency with 50 ms for every message",
    "the setting of Baldoni et al. 2005, section 5.1; not shown there",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
