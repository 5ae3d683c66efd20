"""Load: how many messages of an event each broker handles, and what virtual degrees do to the busiest one.

Source: Triantafillou & Economides 2004, section 6, announces virtual degrees: the brokers of the greatest degree look at nearly
every event. How is not said. Here a broker with more links than a bound counts as having just that many, in Algorithm 2 and 3.
By the paper's model: Algorithm 2, Algorithm 3, brokers that want an event drawn by dice. Covering beside it, by its trees.
Rule: a broker handles an event once for each message of it that it gets, and once where the event enters.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.rows import floats, groups, where
from contentcast.experiments.summaries.model import examiners, propagate
from contentcast.network.named import network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS: Final = ("as published", "virtual degrees, 4", "virtual degrees, 3", "virtual degrees, 2", "covering")
NETWORKS: Final = ("cable-wireless-24", "gryphon-39", "random:24x30")
POPULARITY: Final = 0.25


def plan(scale: Scale) -> list[Row]:
    events = 20 if scale.quick else 1000
    return [
        {"where": name, "way": way, "events": events, "seed": seed}
        for name in (NETWORKS[:1] if scale.quick else NETWORKS)
        for way in WAYS
        for seed in scale.seeds(1)
    ]


def measure(where: str, way: str, events: int, seed: int) -> dict[str, Any]:
    """`events`: of each broker. The same brokers want the same events, whatever the way."""
    topology = network(where)
    most = int(way.rpartition(" ")[2]) if way.startswith("virtual") else None
    knows = propagate(topology, most).knows
    dice = Random(f"{seed} load")
    count = max(1, round(POPULARITY * len(topology)))
    handled = dict.fromkeys(topology.brokers, 0)
    for publisher in topology.brokers:
        chain = examiners(topology, knows, publisher, most)
        for _ in range(events):
            wanted = set(dice.sample(topology.brokers, count))
            if way == "covering":
                links = {link for each in wanted for link in pairwise(topology.path(publisher, each))}
                got = [publisher, *(end for _, end in links)]
            else:
                got = [*chain, *(wanted - set(chain))]
            for broker in got:
                handled[broker] += 1
    loads = np.array(list(handled.values())) / (events * len(topology))
    return {"mean": float(loads.mean()), "most": float(loads.max()), "busiest": max(handled, key=lambda each: handled[each])}


def _most(table: pa.Table, name: str, way: str) -> float:
    return float(floats(where(table, where=name, way=way), "most").mean())


def judge(table: pa.Table) -> list[Verdict]:
    found = []
    for (name,), _ in groups(table, "where"):
        plain = _most(table, name, WAYS[0])
        best = min(WAYS[1:4], key=lambda way: _most(table, name, way))
        eased = _most(table, name, best)
        found.append(
            Verdict(
                f"Virtual degrees ease the busiest broker ({name})",
                "reducing their load",
                f"it handles {plain:.2f} of the events, {eased:.2f} with {best}",
                eased < plain,
            )
        )
        covering = _most(table, name, "covering")
        found.append(
            Verdict(
                f"The busiest broker of summaries handles more than that of covering ({name})",
                "load balancing is an open problem",
                f"{plain:.2f} against {covering:.2f}",
                plain > covering,
            )
        )
    return found


def summarize(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "network": name,
                "way": way,
                "events handled by the mean broker": f"{floats(same, 'mean').mean():.2f}",
                "by the busiest": f"{floats(same, 'most').mean():.2f}",
                "which is": same["busiest"][0].as_py(),
            }
            for (name, way), same in groups(table, "where", "way")
        ]
    )


def draw(table: pa.Table, figure: Figure) -> None:
    axes = figure.subplots()
    for number, ((name,), same) in enumerate(groups(table, "where")):
        values = [_most(same, name, way) for way in WAYS]
        axes.plot(range(len(WAYS)), values, label=name, **look(number))
    axes.set_xticks(range(len(WAYS)), WAYS, fontsize=8)
    label(axes, "", "share of all events that the busiest broker handles")
    axes.legend(fontsize=8)


EXPERIMENT: Final = Experiment(
    "summaries/load",
    "The busiest broker, and virtual degrees",
    "Triantafillou & Economides 2004, section 6 (announced there)",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(8.5, 4.6),
)
