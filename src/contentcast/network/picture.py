"""The network drawn, with its load, as an SVG that needs nothing but itself.

Brokers are placed so that their distances on paper are those in the network, as nearly as that goes: stress majorization
(Gansner, Koren and North 2004) from a start by classical scaling, both deterministic. A link is as wide and as dark as its
load, a broker as large as its own.
Rule: the same network and load give the same picture, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.network.topology import Topology

Floats = npt.NDArray[np.float64]

WIDTH, HEIGHT, MARGIN = 960, 640, 56
ROUNDS: Final = 300
LABELLED: Final = 60
"""Up to so many brokers carry their names; of more only the busiest do."""
PALE, DARK = (0xC9, 0xD6, 0xE4), (0xB3, 0x26, 0x1E)


def places(topology: Topology) -> Floats:
    """[broker, 2] in the unit square. Parts of a network that is not connected are put at twice its diameter."""
    count = len(topology)
    hops = topology.hops.astype(float)
    reached = hops >= 0
    far = 2.0 * max(1.0, float(hops.max()))
    wanted = np.where(reached, hops, far)
    # Links of more delay are drawn longer, but gently: a factor of ten in delay is a factor of 1.6 on paper.
    delays = np.where(np.isfinite(topology.distances), topology.distances, 0.0)
    typical = float(np.median([link.delay_s for link in topology.links])) if topology.links else 1.0
    per_hop = np.divide(delays, np.maximum(hops, 1.0) * max(typical, 1e-9))
    wanted = wanted * np.where(reached & (per_hop > 0), np.clip(per_hop, 0.1, 10) ** 0.2, 1.0)
    at = _scaled(wanted)
    if count > 2:
        weights = 1.0 / np.maximum(wanted, 1e-9) ** 2
        np.fill_diagonal(weights, 0.0)
        for _ in range(ROUNDS if count <= 200 else 60):
            at = _nearer(at, wanted, weights)
    low, high = at.min(axis=0), at.max(axis=0)
    spread = np.maximum(high - low, 1e-9)
    return (at - low) / spread if count > 1 else np.full((1, 2), 0.5)


def _scaled(wanted: Floats) -> Floats:
    """Classical scaling: the plane that keeps most of the distances. Signs are fixed so that machines agree."""
    count = len(wanted)
    centre = np.eye(count) - 1.0 / count
    values, vectors = np.linalg.eigh(-0.5 * centre @ wanted**2 @ centre)
    axes = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    if axes.shape[1] < 2:
        axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
    for axis in range(2):
        largest = np.argmax(np.round(np.abs(axes[:, axis]), 9))
        if axes[largest, axis] < 0:
            axes[:, axis] *= -1
    # Brokers that coincide (a star's leaves have few distinct distances) are told apart by a small spiral.
    turn = np.arange(count) * 2.399963
    found: Floats = axes + 0.05 * np.sqrt(np.arange(count) / count)[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return found


def _nearer(at: Floats, wanted: Floats, weights: Floats) -> Floats:
    """One round of majorization, each broker moved to where the others would have it."""
    apart = at[:, None, :] - at[None, :, :]
    length = np.maximum(np.sqrt((apart**2).sum(axis=2)), 1e-9)
    pulled = at[None, :, :] + apart * (wanted / length)[:, :, None]
    moved: Floats = (weights[:, :, None] * pulled).sum(axis=1) / weights.sum(axis=1)[:, None]
    return moved


def draw(
    topology: Topology,
    links: Mapping[tuple[str, str], float],
    brokers: Mapping[str, float],
    *,
    unit: str = "messages",
    broker_unit: str = "steps",
    title: str = "",
) -> str:
    """`links`: the load of each link, by its ends, both directions added up; `brokers`: that of each broker."""
    at = places(topology) * (WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN) + MARGIN
    load = {tuple(sorted(ends)): 0.0 for ends in links}
    for ends, value in links.items():
        load[tuple(sorted(ends))] += value
    most = max(load.values(), default=0.0) or 1.0
    most_broker = max(brokers.values(), default=0.0) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title or "the broker network")}" font-family="system-ui, sans-serif">'
    ]
    for link in sorted(topology.links, key=lambda each: load.get((each.one, each.other), 0.0)):
        share = load.get((link.one, link.other), 0.0) / most
        one, other = at[topology.number(link.one)], at[topology.number(link.other)]
        parts.append(
            f'<line x1="{one[0]:.1f}" y1="{one[1]:.1f}" x2="{other[0]:.1f}" y2="{other[1]:.1f}" stroke="{colour(share)}" '
            f'stroke-width="{1.2 + 8 * share:.2f}" stroke-linecap="round"><title>{escape(link.one)} - {escape(link.other)}: '
            f"{load.get((link.one, link.other), 0.0):,.0f} {escape(unit)}, {1000 * link.delay_s:g} ms</title></line>"
        )
    labelled = set(sorted(topology.brokers, key=lambda each: (-brokers.get(each, 0.0), each))[:LABELLED])
    small = len(topology) > LABELLED
    for broker in topology.brokers:
        x, y = at[topology.number(broker)]
        share = brokers.get(broker, 0.0) / most_broker
        radius = (2.0 if small else 5.0) + (7.0 if small else 9.0) * share**0.5
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour(share)}" stroke="#1f2933" stroke-width="0.8">'
            f"<title>{escape(broker)}: {brokers.get(broker, 0.0):,.0f} {escape(broker_unit)}</title></circle>"
        )
        if broker in labelled:
            parts.append(
                f'<text x="{x:.1f}" y="{y - radius - 3:.1f}" font-size="{9 if small else 11}" text-anchor="middle" '
                f'fill="currentColor" style="paint-order: stroke; stroke: var(--paper, #fff); stroke-width: 3px">'
                f"{escape(broker)}</text>"
            )
    parts.append(legend(most, unit, most_broker, broker_unit))
    return "\n".join([*parts, "</svg>", ""])


def colour(share: float) -> str:
    mixed = [round(pale + (dark - pale) * share**0.7) for pale, dark in zip(PALE, DARK, strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def legend(most: float, unit: str, most_broker: float, broker_unit: str) -> str:
    x, y = MARGIN / 2, HEIGHT - 14
    return (
        f'<g font-size="11" fill="currentColor"><line x1="{x}" y1="{y - 4}" x2="{x + 46}" y2="{y - 4}" stroke="{colour(1.0)}" '
        f'stroke-width="9.2" stroke-linecap="round"/><text x="{x + 58}" y="{y}">{most:,.0f} {escape(unit)}</text>'
        f'<circle cx="{x + 248}" cy="{y - 4}" r="9" fill="{colour(1.0)}" stroke="#1f2933" stroke-width="0.8"/>'
        f'<text x="{x + 264}" y="{y}">{most_broker:,.0f} {escape(broker_unit)}</text></g>'
    )
