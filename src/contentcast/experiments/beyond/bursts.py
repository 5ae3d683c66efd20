"""Bursty loads: the same mean rate, published in bursts with silence between them.

Source: Banavar et al. 1999, section 6: "we are examining how our protocol performs with bursty event loads". The network, the
subscriptions and the costs are those of chart 2 at 1 % and 9750 subscriptions. Each publisher is on for a time and off for a
time, both exponential, independent of the others; the burst factor is its rate within a burst over its mean rate.
Rule: all loads have the same mean; latency is that of the deliveries of events published in the second half of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.chart2 import FLOODING, LINK_MATCHING, OURS, PROTOCOLS
from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.limits import PILOT_EVENTS
from contentcast.experiments.replay import latencies, replay
from contentcast.experiments.routes import Network, enough
from contentcast.experiments.rows import floats, groups, mean_and_error, where, with_error
from contentcast.hosting.costs import PAPER_FAST
from contentcast.network.named import network
from contentcast.workload import scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ON_S: Final = 0.1
FACTORS: Final = (1, 2, 5, 10)
"""1: no bursts, a Poisson stream."""
SHARE: Final = 0.6
"""Of flooding's limit: a rate that every protocol carries if it comes evenly."""
BETTER: Final = 0.9


def plan(scale: Scale) -> list[Row]:
    size, factors, seconds, seeds = (1000, (1, 5), 3.0, 1) if scale.quick else (9750, FACTORS, 15.0, 3)
    return [
        {"protocol": protocol, "subscriptions": size, "factors": list(factors), "seconds": seconds, "seed": seed}
        for protocol in (LINK_MATCHING, OURS, FLOODING)
        for seed in scale.seeds(seeds)
    ]


def measure(protocol: str, subscriptions: int, factors: list[int], seconds: float, seed: int) -> list[dict[str, Any]]:
    name, options = PROTOCOLS[protocol]
    source = scenario("gryphon", seed=seed, attributes=15, decay=0.833)
    topology, tree, costs = network("gryphon-39"), {"factored": ["a1"]}, PAPER_FAST
    # The same rate for all protocols.
    _, flooded = PROTOCOLS[FLOODING]
    floods = Network(topology, source, "flooding", subscriptions, tree=tree, **flooded).route(PILOT_EVENTS)
    rate = SHARE * float(floods.limits(costs).min())
    built = Network(topology, source, name, subscriptions, tree=tree, **options)
    burstiness = 2 * rate * ON_S * max(factors)
    routes = built.route(enough(rate, seconds, len(floods.publishers), burstiness))
    found = []
    for factor in factors:
        burst = None if factor == 1 else (ON_S, ON_S * (factor - 1))
        times = routes.times(rate, seconds, seed, burst)
        run = replay(routes, times, costs)
        late = latencies(routes, run, times, costs, after=seconds / 2)
        longest = max(run.longest(broker) for broker in range(routes.brokers))
        published = int(np.isfinite(times).sum()) / seconds / len(routes.publishers)
        p50, p99 = np.percentile(late, [50, 99]) * 1000
        found.append(
            {"factor": factor, "rate": rate, "published_rate": published, "longest": longest, "p50_ms": p50, "p99_ms": p99}
        )
    return found


def _mean(table: pa.Table, protocol: str, factor: int, column: str) -> float:
    return float(floats(where(table, protocol=protocol, factor=factor), column).mean())


def judge(table: pa.Table) -> list[Verdict]:
    least, most = min(table["factor"].to_pylist()), max(table["factor"].to_pylist())
    found = {
        (name, factor): _mean(table, name, factor, "p99_ms")
        for name in (LINK_MATCHING, OURS, FLOODING)
        for factor in (least, most)
    }
    queue = {name: _mean(table, name, most, "longest") for name in (LINK_MATCHING, OURS, FLOODING)}
    return [
        Verdict(
            f"Bursts of {most} times the mean rate hurt {name} less than flooding (by 10 % of the 99th percentile or more)",
            "announced, not shown",
            f"p99 from {found[name, least]:,.0f} to {found[name, most]:,.0f} ms, longest queue {queue[name]:,.0f}; "
            f"flooding from {found[FLOODING, least]:,.0f} to {found[FLOODING, most]:,.0f} ms, {queue[FLOODING]:,.0f}",
            found[name, most] < BETTER * found[FLOODING, most],
        )
        for name in (LINK_MATCHING, OURS)
    ]


def summarize(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "protocol": protocol,
                "burst factor": factor,
                "events/s per publisher": f"{floats(same, 'rate').mean():.0f}",
                "longest queue": with_error(*mean_and_error(floats(same, "longest"))),
                "p50 (ms)": with_error(*mean_and_error(floats(same, "p50_ms"))),
                "p99 (ms)": with_error(*mean_and_error(floats(same, "p99_ms"))),
            }
            for (protocol, factor), same in groups(table, "protocol", "factor")
        ]
    )


def draw(table: pa.Table, figure: Figure) -> None:
    queues, late = figure.subplots(1, 2)
    for number, ((protocol,), part) in enumerate(groups(table, "protocol")):
        for axes, column in ((queues, "longest"), (late, "p99_ms")):
            points = [(factor, floats(same, column).mean()) for (factor,), same in groups(part, "factor")]
            axes.plot(*zip(*points, strict=True), label=protocol, **look(number))
            axes.set_yscale("log")
    label(queues, "rate in a burst / mean rate", "longest queue of any broker (events)")
    label(late, "rate in a burst / mean rate", "99th percentile of latency (ms)")
    queues.legend(fontsize=8)


EXPERIMENT: Final = Experiment(
    "link-matching/beyond/bursts",
    "Bursty loads of the same mean rate",
    "Banavar et al. 1999, section 6 (future work)",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(10.0, 4.2),
)
