"""The network of the job, drawn once, with the load of every protocol to switch between.

A link's or a broker's load is a share of the greatest under that protocol, as the style variable --s, from which the page's
style makes width and colour. The script changes nothing but --s and the titles.
Rule: what is drawn before any script runs is the first protocol's load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from contentcast.network.picture import places
from contentcast.network.topology import Topology
from contentcast.pipeline.report.charts import milliseconds, seconds, short, size, text

if TYPE_CHECKING:
    from contentcast.pipeline.job import Routed

WIDTH, HEIGHT, MARGIN = 960, 600, 46
LABELLED: Final = 60
BUSIEST: Final = 8


def load_of(each: Routed, events: int) -> dict[str, Any]:
    """A protocol's load as the script wants it: shares and titles of links and brokers, in the order of the topology."""
    totals, topology = each.totals, each.totals.topology
    scale = events / each.events if each.events else 1.0
    messages = (totals.messages + totals.messages.T) * scale
    sizes = (totals.bytes + totals.bytes.T) * scale
    ends = [(topology.number(link.one), topology.number(link.other)) for link in topology.links]
    on_links = np.array([messages[pair] for pair in ends]) if ends else np.zeros(0)
    # A broker's load is what it has to search, or, where steps are not counted, how many events it handles.
    visits = totals.visits * scale
    steps = None if totals.steps is None else totals.steps * scale
    load = visits if steps is None else steps
    searched = [""] * len(visits) if steps is None else [f"{short(each)} matching steps, " for each in steps]
    return {
        "links": _shares(on_links),
        "linkTitles": [
            f"{link.one} - {link.other}: {short(messages[pair])} messages, {size(sizes[pair])}, {milliseconds(link.delay_s)}"
            for link, pair in zip(topology.links, ends, strict=True)
        ],
        "brokers": _shares(load),
        "brokerTitles": [
            f"{broker}: {searched[at]}{short(visits[at])} events came by, {short(totals.deliveries[at] * scale)} deliveries"
            for at, broker in enumerate(topology.brokers)
        ],
        "mostOnLink": short(float(on_links.max(initial=0.0))) + " messages",
        "mostAtBroker": short(float(load.max(initial=0.0))) + (" events" if steps is None else " steps"),
    }


def _shares(values: np.ndarray[Any, Any]) -> list[float]:
    most = float(values.max(initial=0.0)) or 1.0
    return [round(float(value) / most, 4) for value in values]


def drawing(topology: Topology, load: Mapping[str, Any]) -> str:
    at = places(topology) * (WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN) + MARGIN
    small = len(topology) > LABELLED
    parts = [
        f'<svg id="network" class="{"many" if small else "few"}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{len(topology)} brokers, {len(topology.links)} links">'
    ]
    for link, share, title in zip(topology.links, load["links"], load["linkTitles"], strict=True):
        one, other = at[topology.number(link.one)], at[topology.number(link.other)]
        parts.append(
            f'<line class="link" style="--s:{share}" x1="{one[0]:.1f}" y1="{one[1]:.1f}" x2="{other[0]:.1f}" '
            f'y2="{other[1]:.1f}"><title>{text(title)}</title></line>'
        )
    for number, broker in enumerate(topology.brokers):
        x, y = at[number]
        parts.append(
            f'<g transform="translate({x:.1f} {y:.1f})"><circle class="broker" style="--s:{load["brokers"][number]}">'
            f"<title>{text(load['brokerTitles'][number])}</title></circle>"
        )
        parts.append(f'<text y="-17">{text(broker)}</text></g>' if not small else "</g>")
    return "".join([*parts, "</svg>"])


def busiest(each: Routed, events: int) -> dict[str, list[dict[str, Any]]]:
    """The links and brokers with the most to do, for the two tables that follow the chosen protocol."""
    totals = each.totals
    scale = events / each.events if each.events else 1.0
    links = [
        {
            "from": row["from"],
            "to": row["to"],
            "messages": short(row["messages"] * scale),
            "bytes": size(row["bytes"] * scale),
        }
        for row in totals.links().slice(0, BUSIEST).to_pylist()
    ]
    rows = sorted(totals.brokers().to_pylist(), key=lambda row: (-row["busy_s"], row["broker"]))[:BUSIEST]
    brokers = [
        {
            "broker": row["broker"],
            "visits": short(row["visits"] * scale),
            "deliveries": short(row["deliveries"] * scale),
            "busy": seconds(row["busy_s"] * scale),
        }
        for row in rows
    ]
    return {"links": links, "brokers": brokers}
