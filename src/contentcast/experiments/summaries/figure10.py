"""Figure 10: the hops of an event to all brokers that want it, by its popularity.

Source: Triantafillou & Economides 2004, section 5.2.2, figure 10: 1000 events of each broker.

    model       the brokers that want an event are drawn for every event; Algorithm 3 over what Algorithm 2 has told
    real        the routers of `summaries`, `summaries-side-by-side` and `covering`, with subscriptions and events
                of the scenario `summaries`. Popularity is the share of the brokers that really want an event

The paper does not say how it counts Siena's hops. `covering` counts ways that share their links, as the routers send;
`covering, alone` counts a way for each broker by itself.
Readings of Algorithm 2: as the text says it, brokers of one degree act at once and tell the neighbour of the smallest degree.
`highest` tells that of the highest degree; `in turn`, a broker tells on what another of its degree has just told it.
Rule: a hop is a message from one broker to another, neighbours or not (section 5.2.1). The links that it crosses are counted
beside it.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.rows import floats, groups
from contentcast.experiments.summaries.events import SUBSCRIPTIONS_EACH, Counted, send
from contentcast.experiments.summaries.model import covering_hops, event_hops, examiners, propagate
from contentcast.experiments.summaries.setting import WAYS, brokers_at, main_rows, places, scenario_on
from contentcast.network.topology import Topology

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POPULARITIES: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
HIGHEST: Final = "summaries, highest"
READINGS: Final[dict[str, dict[str, bool]]] = {
    "summaries": {},
    HIGHEST: {"highest": True},
    "summaries, in turn": {"in_turn": True},
    "summaries, both": {"in_turn": True, "highest": True},
}
PROTOCOLS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "summaries": ("summaries", {}),
    HIGHEST: ("summaries", {"tell_highest": True}),
    "side by side": ("summaries-side-by-side", {}),
    "covering": ("covering", {}),
}
LINES: Final = ("summaries", HIGHEST, "covering", "covering, alone")
SEEDS: Final = 2


def plan(scale: Scale) -> list[Row]:
    """The first network in full. Real events take a thousand times as long as drawn ones, so there are fewer of them."""
    rows: list[Row] = []
    for number, place in enumerate(places(scale)):
        full = number == 0 and not scale.quick
        for way in WAYS:
            events = 20 if scale.quick else {"model": 1000, "real": 50}[way] if full else {"model": 100, "real": 20}[way]
            for popularity in POPULARITIES if full or way == "model" else POPULARITIES[1:4]:
                for seed in scale.seeds(SEEDS if full and way == "real" else 1):
                    rows.append({**place, "way": way, "popularity": popularity, "events": events, "seed": seed})
    return rows


def measure(where: str, links: str, way: str, popularity: float, events: int, seed: int) -> dict[str, Any]:
    """`events`: of each broker."""
    topology = brokers_at(where, links)
    return (_model if way == "model" else _real)(topology, popularity, events, seed)


def _model(topology: Topology, popularity: float, events: int, seed: int) -> dict[str, Any]:
    chains: dict[str, dict[str, list[str]]] = {}
    for name, reading in READINGS.items():
        knows = propagate(topology, **reading).knows
        chains[name] = {broker: examiners(topology, knows, broker) for broker in topology.brokers}
    dice = Random(f"{seed} {popularity}")
    count = max(1, round(popularity * len(topology)))
    drawn = [(broker, set(dice.sample(topology.brokers, count))) for broker in topology.brokers for _ in range(events)]
    hops = topology.hops
    alone = [sum(int(hops[topology.number(one), topology.number(each)]) for each in wants) for one, wants in drawn]
    return {
        "wanted": count / len(topology),
        **{name: float(np.mean([event_hops(chain[one], wants) for one, wants in drawn])) for name, chain in chains.items()},
        "covering": float(np.mean([covering_hops(topology, *each) for each in drawn])),
        "covering, alone": float(np.mean(alone)),
        **{f"{name}, examiners": float(np.mean([len(each) for each in chain.values()])) for name, chain in chains.items()},
    }


def _real(topology: Topology, popularity: float, events: int, seed: int) -> dict[str, Any]:
    source = scenario_on(topology, seed=seed, popularity=popularity)
    subscriptions, total = SUBSCRIPTIONS_EACH * len(topology), events * len(topology)
    row: dict[str, Any] = {}
    found: dict[str, Counted] = {}
    for name, (protocol, options) in PROTOCOLS.items():
        found[name] = each = send(topology, source, protocol, subscriptions=subscriptions, events=total, **options)
        row[name] = float(each.messages.mean())
        row[f"{name}, links"] = float(each.links.mean())
        row[f"{name}, last ms"] = 1000 * float(np.nanmean(each.last_s))
    wanted, entered = found["covering"].wanted, found["covering"].entered
    for name, each in found.items():
        if not np.array_equal(each.wanted, wanted):
            raise AssertionError(f"{name} and covering do not deliver the same")
    ways = topology.hops[entered]
    row["covering, alone"] = float((ways * wanted).sum(axis=1).mean())
    return {"wanted": float(wanted.mean()), **row}


def judge(table: pa.Table) -> list[Verdict]:
    found = []
    for way, mine, line in product(WAYS, LINES[:2], LINES[2:]):
        rows = main_rows(table, way)
        better = [
            popularity
            for (popularity,), same in groups(rows, "popularity")
            if floats(same, mine).mean() < floats(same, line).mean()
        ]
        asked = [each for each in sorted(set(rows["popularity"].to_pylist())) if each <= 0.75]
        counted = "with a way for each broker by itself" if line.endswith("alone") else "with ways that share links"
        found.append(
            Verdict(
                f"{mine.capitalize()}: fewer hops than covering, {counted}, up to 75 % popularity ({way})",
                "better up to 75 %",
                f"better at {', '.join(f'{each:.0%}' for each in better) or 'none'}",
                all(each in better for each in asked),
            )
        )
    model, rows = main_rows(table, "model"), main_rows(table, "real")
    asked_by = {name: floats(model, f"{name}, examiners").mean() for name in READINGS}
    found.append(
        Verdict(
            "An event visits only a few examiners (model)",
            "not told for this network; 3 of 13 brokers in figure 7",
            ", ".join(f"{count:.1f} ({name})" for name, count in asked_by.items()),
            asked_by["summaries"] < 6,
        )
    )
    late = {each: floats(rows, f"{each}, last ms").mean() for each in PROTOCOLS}
    sent = {each: floats(rows, each).mean() for each in PROTOCOLS}
    found.append(
        Verdict(
            "Examiners side by side deliver the last copy sooner, for about as many messages (ours)",
            "not in the paper",
            f"{late['side by side']:.0f} ms against {late['summaries']:.0f} ms, covering {late['covering']:.0f} ms; "
            f"{sent['side by side']:.1f} messages against {sent['summaries']:.1f}",
            bool(late["side by side"] < late["summaries"] and sent["side by side"] < 1.1 * sent["summaries"]),
        )
    )
    return found


def summarize(table: pa.Table) -> pa.Table:
    """Hops first, then the other readings of the model, then links and times of the real ones."""
    columns = dict.fromkeys(
        (*LINES, *READINGS, "side by side", *(f"{each}, {what}" for what in ("links", "last ms") for each in PROTOCOLS))
    )
    rows = []
    for (name, way, popularity), same in groups(table, "where", "way", "popularity"):
        row = {
            "network": name,
            "by": way,
            "popularity": f"{popularity:.0%}",
            "wanted by": f"{floats(same, 'wanted').mean():.0%}",
        }
        for column in columns:
            known = column in LINES or column in (READINGS if way == "model" else same.column_names)
            value = floats(same, column).mean() if known else np.nan
            row[column] = "" if np.isnan(value) else f"{value:.1f}"
        rows.append(row)
    return pa.Table.from_pylist(rows)


def draw(table: pa.Table, figure: Figure) -> None:
    *charts, late = figure.subplots(1, 3).flat
    for axes, way in zip(charts, WAYS, strict=True):
        rows = main_rows(table, way)
        for number, line in enumerate(LINES if way == "model" else (*LINES, "side by side")):
            _line(axes, rows, line, line, number)
        label(axes, "brokers that want the event, %", "hops of an event", way)
        axes.legend(fontsize=8)
    for number, line in enumerate(PROTOCOLS):
        _line(late, main_rows(table, "real"), f"{line}, last ms", line, (0, 1, 4, 2)[number])
    label(late, "brokers that want the event, %", "last delivery after publishing, ms", "real, 10 ms a link")
    late.set_ylim(bottom=0)
    late.legend(fontsize=8)


def _line(axes: Any, rows: pa.Table, column: str, name: str, number: int) -> None:
    points = [(100 * floats(same, "wanted").mean(), floats(same, column).mean()) for _, same in groups(rows, "popularity")]
    axes.plot(*zip(*sorted(points), strict=True), label=name, **look(number))


EXPERIMENT: Final = Experiment(
    "summaries/figure10",
    "Figure 10: hops of an event",
    "Triantafillou & Economides 2004, figure 10",
    plan,
    measure,
    judge,
    summarize,
    draw,
    version=3,
    size_inches=(13.0, 4.2),
    takes_networks=True,
)
