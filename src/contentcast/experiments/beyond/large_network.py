"""A large network: up to 1,000 brokers with cycles, market data, desks everywhere.

Source: Banavar et al. 1999, section 6: "the simulation described in this paper does not model a truly large network". Random
networks with twice as many links as brokers, so that most links are split into virtual ones (footnote 2 of the paper).
Rule: the same subscriptions and events in every size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.replay import latencies, replay
from contentcast.experiments.routes import Network
from contentcast.experiments.rows import floats, groups, where
from contentcast.hosting.costs import PAPER_FAST
from contentcast.network.named import network, placed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BROKERS: Final = (39, 100, 300, 1000)
PROTOCOLS: Final = ("link-matching", "match-first", "flooding")
RATE: Final = 20.0
"""Events/s of each of the five exchanges: far below what anybody's CPU takes."""


def plan(scale: Scale) -> list[Row]:
    sizes, subscriptions, events = ((20, 60), 1000, 100) if scale.quick else (BROKERS, 10_000, 500)
    return [
        {"protocol": protocol, "brokers": size, "subscriptions": subscriptions, "events": events, "seed": seed}
        for size in sizes
        for protocol in PROTOCOLS
        for seed in scale.seeds(1)
    ]


def measure(protocol: str, brokers: int, subscriptions: int, events: int, seed: int) -> dict[str, Any]:
    topology = network(f"random:{brokers}", seed=seed)
    source = placed("market", topology, seed=seed)
    built = Network(topology, source, protocol, subscriptions)
    routes = built.route(events)
    wanted = (routes.deliveries > 0).sum() / events
    times = np.arange(events) / (RATE * len(routes.publishers))
    late = latencies(routes, replay(routes, times, PAPER_FAST), times, PAPER_FAST)
    p50, p99 = np.percentile(late, [50, 99]) * 1000
    return {
        "links": len(topology.links),
        "wanted_brokers": float(wanted),
        "copies": float(routes.copies.sum()) / events,
        "bytes": float(routes.bytes.sum()) / events,
        "steps": float(routes.steps.sum()) / events,
        "rate": float(routes.limits(PAPER_FAST).min()) * len(routes.publishers),
        "deliveries": float(routes.deliveries.sum()) / events,
        "p50_ms": p50,
        "p99_ms": p99,
    }


def judge(table: pa.Table) -> list[Verdict]:
    sizes = sorted(set(table["brokers"].to_pylist()))
    copies = {
        (protocol, size): floats(where(table, protocol=protocol, brokers=size), "copies").mean()
        for protocol in PROTOCOLS
        for size in sizes
    }
    low, high = sizes[0], sizes[-1]
    given = {size: {round(each, 9) for each in floats(where(table, brokers=size), "deliveries").tolist()} for size in sizes}
    return [
        Verdict(
            "Traffic follows who wants an event, not the size of the network",
            "not modelled",
            f"link matching {copies['link-matching', low]:.1f} copies of an event at {low} brokers, "
            f"{copies['link-matching', high]:.1f} at {high}; flooding {copies['flooding', low]:.0f} and "
            f"{copies['flooding', high]:.0f}",
            bool(
                copies["link-matching", high] / copies["link-matching", low]
                < 0.5 * copies["flooding", high] / copies["flooding", low]
            ),
        ),
        Verdict(
            "All protocols deliver the same, cycles or not",
            "not modelled",
            ", ".join(f"{size}: {' or '.join(f'{each:.2f}' for each in sorted(found))}" for size, found in given.items())
            + " deliveries of an event",
            all(len(each) == 1 for each in given.values()),
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "brokers": brokers,
                "links": same["links"][0].as_py(),
                "protocol": protocol,
                "copies per event": f"{floats(same, 'copies').mean():.1f}",
                "bytes per event": f"{floats(same, 'bytes').mean():,.0f}",
                "steps per event": f"{floats(same, 'steps').mean():,.0f}",
                "p50 / p99 (ms)": f"{floats(same, 'p50_ms').mean():.0f} / {floats(same, 'p99_ms').mean():.0f}",
                "events/s in all": f"{floats(same, 'rate').mean():,.0f}",
            }
            for (brokers, protocol), same in groups(table, "brokers", "protocol")
        ]
    )


def draw(table: pa.Table, figure: Figure) -> None:
    copies, rates = figure.subplots(1, 2)
    for number, ((protocol,), part) in enumerate(groups(table, "protocol")):
        for axes, column in ((copies, "copies"), (rates, "rate")):
            points = [(size, floats(same, column).mean()) for (size,), same in groups(part, "brokers")]
            axes.loglog(*zip(*points, strict=True), label=protocol, **look(number))
    label(copies, "brokers", "copies on links per event")
    label(rates, "brokers", "events/s that fill the busiest CPU")
    copies.legend(fontsize=8)


EXPERIMENT: Final = Experiment(
    "link-matching/beyond/large-network",
    "Networks of up to 1,000 brokers",
    "Banavar et al. 1999, section 6 (future work)",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(10.0, 4.2),
)
