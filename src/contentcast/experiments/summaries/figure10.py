"""Figure 10: the hops of an event to all brokers that want it, by its popularity.

Source: Triantafillou & Economides 2004, section 5.2.2, figure 10: the brokers that match are drawn for every event, 1000 events
of each broker. Summaries follow Algorithm 3 over what Algorithm 2 has told. Covering is counted twice: with ways that share
their links, as the routers send (`shared`), and with a way for each broker by itself (`alone`), since the paper does not say.
The real half publishes events of the scenario `summaries` through the routers of `covering`; popularity is the share of brokers
that really want an event.
Rule: a hop is a message from one broker to another.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.routes import Network
from contentcast.experiments.rows import floats, groups, where
from contentcast.experiments.summaries.model import covering_hops, event_hops, examiners, propagate
from contentcast.network.named import network, placed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POPULARITIES: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
LINES: Final = ("summaries", "covering, shared", "covering, alone")
MAIN: Final = "cable-wireless-24"


def plan(scale: Scale) -> list[Row]:
    networks = (MAIN,) if scale.quick else (MAIN, "gryphon-39", "tree:2x5", "random:24x30")
    events = 20 if scale.quick else 1000
    rows: list[Row] = [
        {"where": name, "way": "model", "popularity": popularity, "events": events, "seed": seed}
        for name in networks
        for popularity in POPULARITIES
        for seed in scale.seeds(1)
    ]
    rows += [
        {"where": MAIN, "way": "real", "popularity": popularity, "events": min(events, 100), "seed": seed}
        for popularity in (POPULARITIES[1:4] if scale.quick else POPULARITIES)
        for seed in scale.seeds(1)
    ]
    return rows


def measure(where: str, way: str, popularity: float, events: int, seed: int) -> dict[str, Any]:
    """`events`: of each broker."""
    topology = network(where)
    knows = propagate(topology).knows
    chains = {broker: examiners(topology, knows, broker) for broker in topology.brokers}
    if way == "model":
        dice = Random(f"{seed} {popularity}")
        count = max(1, round(popularity * len(topology)))
        drawn = [(broker, set(dice.sample(topology.brokers, count))) for broker in topology.brokers for _ in range(events)]
        shared = [covering_hops(topology, *each) for each in drawn]
    else:
        source = placed("summaries", topology, seed=seed, popularity=popularity, subsumption=0.5)
        routes = Network(topology, source, "covering", 20 * len(topology)).route(events * len(topology))
        wanted = routes.deliveries > 0
        drawn = [
            (topology.brokers[entered], {topology.brokers[at] for at in np.flatnonzero(row)})
            for entered, row in zip(routes.entered.tolist(), wanted, strict=True)
        ]
        shared = routes.copies.sum(axis=1).tolist()
    hops = topology.hops
    alone = [sum(int(hops[topology.number(one), topology.number(each)]) for each in wants) for one, wants in drawn]
    return {
        "wanted": float(np.mean([len(wants) for _, wants in drawn])) / len(topology),
        "summaries": float(np.mean([event_hops(chains[one], wants) for one, wants in drawn])),
        "covering, shared": float(np.mean(shared)),
        "covering, alone": float(np.mean(alone)),
        "examiners": float(np.mean([len(each) for each in chains.values()])),
    }


def judge(table: pa.Table) -> list[Verdict]:
    found = []
    for way in ("model", "real"):
        rows = where(table, where=MAIN, way=way)
        for line in LINES[1:]:
            better = [
                popularity
                for (popularity,), same in groups(rows, "popularity")
                if floats(same, "summaries").mean() < floats(same, line).mean()
            ]
            asked = [each for each in sorted(set(rows["popularity"].to_pylist())) if each <= 0.75]
            found.append(
                Verdict(
                    f"Summaries take fewer hops than {line} up to 75 % popularity ({way})",
                    "better up to 75 %",
                    f"better at {', '.join(f'{each:.0%}' for each in better) or 'none'}",
                    all(each in better for each in asked),
                )
            )
    return found


def summarize(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "network": name,
                "by": way,
                "popularity": f"{popularity:.0%}",
                "brokers that want it": f"{floats(same, 'wanted').mean():.0%}",
                **{line: f"{floats(same, line).mean():.1f}" for line in LINES},
                "examiners": f"{floats(same, 'examiners').mean():.1f}",
            }
            for (name, way, popularity), same in groups(table, "where", "way", "popularity")
        ]
    )


def draw(table: pa.Table, figure: Figure) -> None:
    for axes, way in zip(figure.subplots(1, 2).flat, ("model", "real"), strict=True):
        rows = where(table, where=MAIN, way=way)
        for number, line in enumerate(LINES):
            points = [
                (100 * floats(same, "wanted").mean(), floats(same, line).mean()) for _, same in groups(rows, "popularity")
            ]
            axes.plot(*zip(*sorted(points), strict=True), label=line, **look(number))
        label(axes, "brokers that want the event, %", "hops of an event", way)
        axes.legend(fontsize=8)


EXPERIMENT: Final = Experiment(
    "summaries/figure10",
    "Figure 10: hops of an event",
    "Triantafillou & Economides 2004, figure 10",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(10.0, 4.2),
)
