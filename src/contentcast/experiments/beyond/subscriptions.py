"""Many subscriptions: up to 100,000 on the 39-broker network, what an event costs under each protocol.

Source: Banavar et al. 1999, section 4.1: "for really large numbers of subscribers (i.e., much beyond 10000), the slopes of the
lines in Chart 3 indicate that centralized matching may take more steps than link matching". The paper's own workload, D = 0.82,
and market data, whose subscriptions have ranges as well as equality.
Rule: steps along a way are those of the longest ways, all brokers on them together, for events that are delivered at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.routes import PLAIN_TREE, centralized, route
from contentcast.experiments.rows import floats, groups, where
from contentcast.hosting.costs import PAPER_FAST
from contentcast.network.named import network, placed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUBSCRIPTIONS: Final = (10_000, 30_000, 100_000)
PROTOCOLS: Final = ("link-matching-paper", "link-matching", "match-first", "flooding")
SCENARIOS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "gryphon, plain tree": ({"decay": 0.82}, {"factored": ["a1", "a2", "a3"], **PLAIN_TREE}),
    "market, optimized tree": ({"subscribers": 390}, {}),
}
"""Parameters of the scenario, options of the search tree."""


def plan(scale: Scale) -> list[Row]:
    sizes, events = ((1000, 3000), 100) if scale.quick else (SUBSCRIPTIONS, 500)
    return [
        {"scenario": scenario, "protocol": protocol, "subscriptions": size, "events": events, "seed": seed}
        for scenario in SCENARIOS
        for size in sizes
        for protocol in PROTOCOLS
        for seed in scale.seeds(1)
    ]


def measure(scenario: str, protocol: str, subscriptions: int, events: int, seed: int) -> dict[str, Any]:
    parameters, tree = SCENARIOS[scenario]
    topology = network("gryphon-39")
    source = placed(scenario.partition(",")[0], topology, seed=seed, **parameters)
    routes = route(topology, source, protocol, subscriptions=subscriptions, events=events, tree=tree)
    central, matched = centralized(source, subscriptions, events, tree)
    cumulative, hops = routes.cumulative_steps(), routes.hops()
    served = routes.deliveries > 0
    far = served & (hops == hops[served].max())
    event, broker = np.nonzero(far)
    return {
        "steps_per_event": float(routes.steps.sum()) / events,
        "far_hops": int(hops[served].max()),
        "far_steps": float(cumulative[event, broker].mean()),
        "far_central": float(central[event].mean()),
        "central": float(central.mean()),
        "matched": float(matched.mean()),
        "copies": float(routes.copies.sum()) / events,
        "rate": float(routes.limits(PAPER_FAST).min()) * len(routes.publishers),
    }


def _far(table: pa.Table, scenario: str, size: int, protocol: str) -> float:
    part = where(table, scenario=scenario, subscriptions=size, protocol=protocol)
    return float(floats(part, "far_steps").mean() / floats(part, "far_central").mean())


def judge(table: pa.Table) -> list[Verdict]:
    sizes = sorted(set(table["subscriptions"].to_pylist()))
    found = []
    for scenario in SCENARIOS:
        hops = where(table, scenario=scenario)["far_hops"].to_pylist()[0]
        for protocol in PROTOCOLS[:2]:
            ratios = [_far(table, scenario, size, protocol) for size in sizes]
            found.append(
                Verdict(
                    f"Far beyond 10,000 subscriptions {protocol} takes fewer steps than centralized ({scenario})",
                    "may, by the slopes",
                    f"{hops} hops take {ratios[0]:.2f} of centralized at {sizes[0]:,}, {ratios[-1]:.2f} at {sizes[-1]:,}",
                    ratios[-1] < 1,
                )
            )
    return found


def summarize(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "scenario": scenario,
                "subscriptions": f"{size:,}",
                "protocol": protocol,
                "steps per event, all brokers": f"{floats(same, 'steps_per_event').mean():,.0f}",
                "on the longest ways": f"{floats(same, 'far_steps').mean():,.0f}",
                "centralized, same events": f"{floats(same, 'far_central').mean():,.0f}",
                "copies per event": f"{floats(same, 'copies').mean():.1f}",
                "events/s in all": f"{floats(same, 'rate').mean():,.0f}",
            }
            for (scenario, size, protocol), same in groups(table, "scenario", "subscriptions", "protocol")
        ]
    )


def draw(table: pa.Table, figure: Figure) -> None:
    for axes, scenario in zip(figure.subplots(1, 2).flat, SCENARIOS, strict=True):
        part = where(table, scenario=scenario)
        for number, protocol in enumerate(PROTOCOLS[:2]):
            rows = where(part, protocol=protocol)
            points = [(size, floats(same, "far_steps").mean()) for (size,), same in groups(rows, "subscriptions")]
            axes.loglog(*zip(*points, strict=True), label=f"{protocol}, {rows['far_hops'][0].as_py()} hops", **look(number))
        points = [(size, floats(same, "far_central").mean()) for (size,), same in groups(part, "subscriptions")]
        axes.loglog(*zip(*points, strict=True), color="black", lw=2, ls="--", label="centralized, same events")
        label(axes, "subscriptions", "matching steps to the farthest subscribers", scenario)
        axes.legend(fontsize=8)


EXPERIMENT: Final = Experiment(
    "link-matching/beyond/subscriptions",
    "Up to 100,000 subscriptions",
    "Banavar et al. 1999, section 4.1 (extrapolated there)",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(10.0, 4.2),
)
