"""A ring of nodes drawn with its load, as an SVG that needs nothing but itself.

Each place stands where its key is, clockwise from the top; the arc before it, which holds its keys, is as wide and as dark as
the subscriptions that are kept there, the place itself as large as what it has matched.
Rule: the same ring and load give the same picture, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import cos, pi, sin
from typing import Final, NamedTuple

from contentcast.network.picture import HEIGHT, LABELLED, WIDTH, colour, legend

RADIUS: Final = 240.0
LABEL_AT: Final = RADIUS + 30.0
EXPLAINED: Final = (
    "A dot is a place of a broker on the ring of keys;",
    "it is larger and darker, the more it has matched.",
    "The arc before it, clockwise, holds its keys;",
    "it is wider, the more subscriptions it keeps.",
    "Longer arcs hold more keys. Below: the most.",
)


class Stand(NamedTuple):
    """A place on the ring: from 0 to 1 clockwise, and the broker whose place it is."""

    name: str
    share: float
    broker: str


def _point(share: float, radius: float) -> tuple[float, float]:
    turn = 2 * pi * share
    return WIDTH / 2 + radius * sin(turn), HEIGHT / 2 - radius * cos(turn)


def draw_ring(stands: Sequence[Stand], kept: Mapping[str, float], matched: Mapping[str, float], *, title: str = "") -> str:
    """`kept`: subscriptions of each broker, `matched`: its steps of matching."""
    ring = sorted(stands, key=lambda each: (each.share, each.name))
    most_kept = max(kept.values(), default=0.0) or 1.0
    most_matched = max(matched.values(), default=0.0) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title or "the ring")}" font-family="system-ui, sans-serif">'
    ]
    for at, line in enumerate((title, *EXPLAINED)):
        weight = ' font-weight="bold"' if at == 0 else ""
        parts.append(f'<text x="16" y="{24 + 16 * at}" font-size="12"{weight} fill="currentColor">{escape(line)}</text>')
    for at, stand in enumerate(ring):
        before = ring[at - 1].share if len(ring) > 1 else stand.share - 0.9999
        length = (stand.share - before) % 1.0
        (x1, y1), (x2, y2) = _point(before, RADIUS), _point(stand.share, RADIUS)
        load = kept.get(stand.broker, 0.0)
        parts.append(
            f'<path d="M {x1:.1f} {y1:.1f} A {RADIUS:.0f} {RADIUS:.0f} 0 {int(length > 0.5)} 1 {x2:.1f} {y2:.1f}" fill="none" '
            f'stroke="{colour(load / most_kept)}" stroke-width="{2 + 16 * load / most_kept:.2f}">'
            f"<title>{escape(stand.name)}: {100 * length:.1f} % of the keys, {load:,.0f} subscriptions</title></path>"
        )
    small = len(ring) > LABELLED
    named = {each.name for each in sorted(ring, key=lambda each: (-kept.get(each.broker, 0.0), each.name))[:LABELLED]}
    for stand in ring:
        share = matched.get(stand.broker, 0.0) / most_matched
        x, y = _point(stand.share, RADIUS)
        radius = (2.0 if small else 4.0) + (5.0 if small else 9.0) * share**0.5
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour(share)}" stroke="#1f2933" stroke-width="0.8">'
            f"<title>{escape(stand.name)}: {matched.get(stand.broker, 0.0):,.0f} steps</title></circle>"
        )
        if stand.name in named:
            x, y = _point(stand.share, LABEL_AT)
            parts.append(
                f'<text x="{x:.1f}" y="{y:.1f}" font-size="{9 if small else 11}" text-anchor="middle" fill="currentColor">'
                f"{escape(stand.name)}</text>"
            )
    parts.append(legend(most_kept, "subscriptions", most_matched, "steps"))
    return "\n".join([*parts, "</svg>", ""])
