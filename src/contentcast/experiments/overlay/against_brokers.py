"""The comparison that the authors left out: the same events and subscriptions through networks of brokers.

Source: Baldoni et al. 2005, section 5, "we do not present any comparison ... based on a network of brokers". Full simulation
with the real routers, on a random network; a message of the overlay to another node crosses the links on its way and
counts on each.
Rule: what is counted begins when all subscriptions are known. The overlay's repairs and renewals in the run are counted too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast import catalog
from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.tables import bars, mean, summary
from contentcast.experiments.rows import floats
from contentcast.network.named import network, placed
from contentcast.simulation.trial import Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WANTED: Final = ("overlay", "link-matching", "summaries", "covering", "match-first", "flooding")


def plan(scale: Scale) -> list[Row]:
    brokers, subscriptions, events = (10, 100, 40) if scale.quick else (40, 1000, 300)
    return [
        {"protocol": each, "brokers": brokers, "subscriptions": subscriptions, "events": events, "seed": seed}
        for each in WANTED
        if each in catalog.PROTOCOLS
        for seed in scale.seeds(1)
    ]


def measure(protocol: str, brokers: int, subscriptions: int, events: int, seed: int) -> dict[str, Any]:
    topology = network(f"random:{brokers}", seed=seed)
    source = placed("overlay", topology, seed=seed, selective=1, standing=subscriptions)
    outcome = Trial(topology, source, protocol, events, subscriptions, rate=2.0, seed=seed).run()
    row = outcome.summary()
    kept = [outcome.world.router(each).sizes()["subscriptions"] for each in topology.brokers]
    return {
        "deliveries": row["deliveries"],
        "crossings": row["messages"] / events,
        "event_copies": row["copies"] / events,
        "bytes": row["bytes"] / events,
        "kept_mean": float(np.mean(kept)),
        "kept_greatest": int(max(kept)),
        "p50_ms": 1000 * (row["p50 s"] or 0.0),
        "p99_ms": 1000 * (row["p99 s"] or 0.0),
    }


def judge(table: pa.Table) -> list[Verdict]:
    there = [each for each in WANTED if each in set(table["protocol"].to_pylist())]
    kept = {each: mean(table, "kept_mean", protocol=each) for each in there}
    late = {each: mean(table, "p50_ms", protocol=each) for each in there}
    copies = {each: mean(table, "event_copies", protocol=each) for each in there}
    size = {each: mean(table, "bytes", protocol=each) for each in there}
    given = set(floats(table, "deliveries").tolist())
    return [
        Verdict(
            "All deliver the same",
            "not compared",
            " or ".join(f"{each:,.0f}" for each in given) + " deliveries",
            len(given) == 1,
        ),
        Verdict(
            "A node of the overlay keeps fewer subscriptions than a broker that knows everybody's",
            "not compared",
            f"{kept['overlay']:,.0f} against {kept['link-matching']:,.0f} with link matching, on average",
            kept["overlay"] < kept["link-matching"],
        ),
        Verdict(
            "Link matching delivers sooner, for it goes the shortest way",
            "not compared",
            f"median {late['link-matching']:.0f} ms against {late['overlay']:.0f} ms",
            late["link-matching"] < late["overlay"],
        ),
        Verdict(
            "An event of the overlay crosses more links than in a network of brokers that knows the way",
            "not compared",
            "copies of an event on links: " + ", ".join(f"{each} {copies[each]:.1f}" for each in there),
            copies["overlay"] > copies["link-matching"],
        ),
        Verdict(
            "Keeping the ring and the subscriptions alive costs the overlay more bytes than all else",
            "not compared",
            "bytes on links for each event: " + ", ".join(f"{each} {size[each]:,.0f}" for each in there),
            size["overlay"] == max(size.values()),
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("protocol",), "crossings", "event_copies", "bytes", "kept_mean", "kept_greatest", "p50_ms", "p99_ms")


def draw(table: pa.Table, figure: Figure) -> None:
    axes = figure.subplots(1, 3)
    for each, (column, title) in zip(
        axes,
        (("event_copies", "copies on links per event"), ("kept_mean", "subscriptions kept"), ("p50_ms", "median ms")),
        strict=True,
    ):
        bars(each, table, ("protocol",), column, ("", title))


EXPERIMENT: Final = Experiment(
    "overlay/against-brokers",
    "The overlay beside networks of brokers",
    "left out by Baldoni et al. 2005, section 5",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
