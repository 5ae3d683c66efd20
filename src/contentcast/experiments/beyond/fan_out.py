"""High fan-out: one broker with up to 500 links, the same subscriptions behind ever more of them.

Source: Banavar et al. 1999, sections 4.1 ("this result will be more pronounced when the broker network has a much larger number
of links at each broker") and 6. A star with market data: desks and exchanges at all brokers, nearly everything passes the hub.
Rule: the number of subscriptions stays, so behind each of many links few want anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.figures import label, look
from contentcast.experiments.routes import route
from contentcast.experiments.rows import floats, groups, where
from contentcast.hosting.costs import PAPER_FAST
from contentcast.network.named import network, placed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINKS: Final = (10, 50, 100, 200, 500)
CLIENTS: Final = 10
"""At each broker, as in the paper."""
LINK_MATCHING, OURS, FLOODING = "link-matching-paper", "link-matching", "flooding"


def plan(scale: Scale) -> list[Row]:
    links, subscriptions, events = ((10, 60), 1000, 200) if scale.quick else (LINKS, 10_000, 1000)
    return [
        {"protocol": protocol, "links": each, "subscriptions": subscriptions, "events": events, "seed": seed}
        for each in links
        for protocol in (LINK_MATCHING, OURS, FLOODING)
        for seed in scale.seeds(1)
    ]


def measure(protocol: str, links: int, subscriptions: int, events: int, seed: int) -> dict[str, Any]:
    star = network(f"star:{links}")
    source = placed("market", star, seed=seed, subscribers=CLIENTS * len(star))
    options: Row = {"filter_at": "client"} if protocol == FLOODING else {}
    routes = route(star, source, protocol, subscriptions=subscriptions, events=events, **options)
    limits = routes.limits(PAPER_FAST) * len(routes.publishers)
    hub = star.number("b1")
    passed = routes.copies_in[:, hub] > 0
    return {
        "hub_copies": float(routes.copies[passed, hub].mean()),
        "hub_steps": float(routes.steps[passed, hub].mean()),
        "rate": float(limits.min()),
        "busiest": star.brokers[int(limits.argmin())],
        "deliveries": float(routes.deliveries.sum()) / events,
    }


def gain(table: pa.Table, links: int, protocol: str = LINK_MATCHING) -> float:
    part = where(table, links=links)
    return float(floats(where(part, protocol=protocol), "rate").mean() / floats(where(part, protocol=FLOODING), "rate").mean())


def judge(table: pa.Table) -> list[Verdict]:
    links = sorted(set(table["links"].to_pylist()))
    gains = [gain(table, each) for each in links]
    copies = floats(where(table, links=links[-1], protocol=LINK_MATCHING), "hub_copies").mean()
    steps = floats(where(table, links=links[-1], protocol=LINK_MATCHING), "hub_steps").mean()
    return [
        Verdict(
            "The advantage over flooding grows with the links of a broker",
            "expected, not shown",
            f"{gains[0]:.1f} times flooding's rate at {links[0]} links, {gains[-1]:.1f} times at {links[-1]}",
            gains[-1] > gains[0],
        ),
        Verdict(
            f"A hub with {links[-1]} links sends few copies",
            "not shown",
            f"{copies:.1f} copies of an event instead of {links[-1] - 1}, for {steps:.0f} matching steps",
            bool(copies < links[-1] / 10),
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    rows = [
        {
            "links": links,
            "protocol": protocol,
            "copies at the hub": f"{floats(same, 'hub_copies').mean():.1f}",
            "steps at the hub": f"{floats(same, 'hub_steps').mean():.0f}",
            "events/s in all": f"{floats(same, 'rate').mean():,.0f}",
            "times flooding": f"{gain(table, links, protocol):.1f}",
        }
        for (links, protocol), same in groups(table, "links", "protocol")
    ]
    return pa.Table.from_pylist(rows)


def draw(table: pa.Table, figure: Figure) -> None:
    rates, copies = figure.subplots(1, 2)
    for number, ((protocol,), part) in enumerate(groups(table, "protocol")):
        for axes, column in ((rates, "rate"), (copies, "hub_copies")):
            points = [(links, floats(same, column).mean()) for (links,), same in groups(part, "links")]
            axes.loglog(*zip(*points, strict=True), label=protocol, **look(number))
    label(rates, "links of the hub", "events/s that fill the busiest CPU", "what the network carries")
    label(copies, "links of the hub", "copies sent of each event that passes", "what the hub sends")
    rates.legend(fontsize=8)


EXPERIMENT: Final = Experiment(
    "link-matching/beyond/fan-out",
    "High fan-out: a hub with up to 500 links",
    "Banavar et al. 1999, section 6 (future work)",
    plan,
    measure,
    judge,
    summarize,
    draw,
    size_inches=(10.0, 4.2),
)
