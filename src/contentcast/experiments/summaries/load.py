"""Load: how many messages of an event each broker handles, and what virtual degrees do to the busiest one.

Source: Triantafillou & Economides 2004, section 6, announces virtual degrees: the brokers of the greatest degree look at nearly
every event. How is not said. Here a broker with more links than a bound counts as having just that many, in Algorithm 2 and 3.

    model       Algorithm 2 and Algorithm 3; the brokers that want an event are drawn by dice. Covering by its trees
    real        the routers of `summaries` (as published, with virtual degrees, side by side) and of `covering`

Rule: a broker handles an event once for each message of it that it gets, and once where the event enters.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.rows import floats, groups, where
from contentcast.experiments.summaries.events import SUBSCRIPTIONS_EACH, send
from contentcast.experiments.summaries.model import examiners, propagate
from contentcast.experiments.summaries.setting import WAYS, brokers_at, main_network, main_rows, places, scenario_on
from contentcast.network.topology import Topology

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAIN, SIDE_BY_SIDE, COVERING = "as published", "side by side", "covering"
VIRTUAL: Final = {f"virtual degrees, {most}": most for most in (4, 3, 2)}
FORMS: Final = (PLAIN, *VIRTUAL, SIDE_BY_SIDE, COVERING)
POPULARITY: Final = 0.25
SEEDS: Final = 2

Floats = npt.NDArray[np.float64]


def plan(scale: Scale) -> list[Row]:
    events = {"model": 20, "real": 5} if scale.quick else {"model": 300, "real": 20}
    return [
        {**place, "way": way, "form": form, "events": events[way], "seed": seed}
        for number, place in enumerate(places(scale))
        for way in WAYS
        for form in FORMS
        if form != SIDE_BY_SIDE or (way == "real" and number == 0)  # by the model it is the same as without
        for seed in scale.seeds(SEEDS if number == 0 and not scale.quick else 1)
    ]


def measure(where: str, links: str, way: str, form: str, events: int, seed: int) -> dict[str, Any]:
    """`events`: of each broker. The same brokers want the same events, whatever the form."""
    topology = brokers_at(where, links)
    loads = (_model if way == "model" else _real)(topology, form, events, seed)
    best = [topology.number(each) for each in best_connected(topology)]
    return {
        "mean": float(loads.mean()),
        "most": float(loads.max()),
        "best_connected": float(loads[best].mean()),
        "busiest": topology.brokers[int(loads.argmax())],
    }


def best_connected(topology: Topology) -> list[str]:
    most = max(map(topology.degree, topology.brokers))
    return [each for each in topology.brokers if topology.degree(each) == most]


def _model(topology: Topology, form: str, events: int, seed: int) -> Floats:
    most = VIRTUAL.get(form)
    knows = propagate(topology, most).knows
    dice = Random(f"{seed} load")
    count = max(1, round(POPULARITY * len(topology)))
    handled = dict.fromkeys(topology.brokers, 0)
    for publisher in topology.brokers:
        chain = examiners(topology, knows, publisher, most)
        for _ in range(events):
            wanted = set(dice.sample(topology.brokers, count))
            if form == COVERING:
                links = {link for each in wanted for link in pairwise(topology.path(publisher, each))}
                got = [publisher, *(end for _, end in links)]
            else:
                got = [*chain, *(wanted - set(chain))]
            for broker in got:
                handled[broker] += 1
    return np.array(list(handled.values())) / (events * len(topology))


def _real(topology: Topology, form: str, events: int, seed: int) -> Floats:
    source = scenario_on(topology, seed=seed, popularity=POPULARITY)
    subscriptions, total = SUBSCRIPTIONS_EACH * len(topology), events * len(topology)
    protocol = {SIDE_BY_SIDE: "summaries-side-by-side", COVERING: "covering"}.get(form, "summaries")
    options = {"virtual_degree": VIRTUAL[form]} if form in VIRTUAL else {}
    counted = send(topology, source, protocol, subscriptions=subscriptions, events=total, **options)
    loads: Floats = counted.handled.mean(axis=0)
    return loads


def _value(table: pa.Table, column: str, form: str) -> float:
    return float(floats(where(table, form=form), column).mean())


def judge(table: pa.Table) -> list[Verdict]:
    found = []
    for (name, way), rows in groups(table, "where", "way"):
        plain, covering = (_value(rows, "most", each) for each in (PLAIN, COVERING))
        best = min(VIRTUAL, key=lambda form: _value(rows, "most", form))
        eased = _value(rows, "most", best)
        found.append(
            Verdict(
                f"Virtual degrees ease the busiest broker ({name}, {way})",
                "reducing their load",
                f"it handles {plain:.2f} of the events, {eased:.2f} with {best}",
                eased < plain - 0.005,
            )
        )
        found.append(
            Verdict(
                f"The busiest broker of summaries handles more than that of covering ({name}, {way})",
                "load balancing is an open problem",
                f"{plain:.2f} against {covering:.2f}",
                plain > covering,
            )
        )
    rows = main_rows(table, "real")
    before = _value(rows, "best_connected", PLAIN)
    after = min(_value(rows, "best_connected", form) for form in VIRTUAL)
    who = ", ".join(best_connected(main_network(table)))
    found.append(
        Verdict(
            f"Virtual degrees ease the best-connected broker itself ({who}, real)",
            "reducing their load",
            f"{before:.2f} of the events, {after:.2f} with the best of the bounds",
            after < before,
        )
    )
    return found


def summarize(table: pa.Table) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "network": name,
                "by": way,
                "form": form,
                "events handled by the mean broker": f"{floats(same, 'mean').mean():.2f}",
                "by the best connected": f"{floats(same, 'best_connected').mean():.2f}",
                "by the busiest": f"{floats(same, 'most').mean():.2f}",
                "which is": ", ".join(dict.fromkeys(same["busiest"].to_pylist())),
            }
            for (name, way, form), same in groups(table, "where", "way", "form")
        ]
    )


def draw(table: pa.Table, figure: Figure) -> None:
    for axes, way in zip(figure.subplots(1, 2, sharey=True).flat, WAYS, strict=True):
        for number, ((name,), same) in enumerate(groups(where(table, way=way), "where")):
            forms = [each for each in FORMS if each in same["form"].to_pylist()]
            axes.plot(forms, [_value(same, "most", each) for each in forms], label=name, **look(number))
        axes.tick_params(axis="x", labelrotation=30, labelsize=8)
        axes.set_ylim(0, 1.05)
        label(axes, "", "share of all events that the busiest broker handles", way)
        axes.legend(fontsize=8, loc="lower left")


EXPERIMENT: Final = Experiment(
    "summaries/load",
    "The busiest broker, and virtual degrees",
    "Triantafillou & Economides 2004, section 6 (announced there)",
    plan,
    measure,
    judge,
    summarize,
    draw,
    version=2,
    size_inches=(11.0, 5.0),
    takes_networks=True,
)
