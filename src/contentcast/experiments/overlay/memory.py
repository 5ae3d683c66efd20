"""Figures 6 and 8: how many subscriptions the fullest node holds, by expiration time and by number of nodes.

Source: Baldoni et al. 2005, section 5.2, memory consumption and scalability: 25,000 subscriptions, one every 5 s, no
publications; with no and with one selective attribute.
Rule: a node counts a subscription once, however many of its keys it covers.
"""

from __future__ import annotations

from typing import Any, Final

from contentcast.experiments.contract import Row, Scale
from contentcast.experiments.overlay.setting import NODES, Setting
from contentcast.routing.overlay.mappings import MAPPINGS

EVERY_S: Final = 5.0
SUBSCRIPTIONS: Final = 25_000


def rows(scale: Scale, expirations: tuple[float, ...], sizes: tuple[int, ...]) -> list[Row]:
    count = 3_000 if scale.quick else SUBSCRIPTIONS
    return [
        {"mapping": each, "nodes": nodes, "selective": selective, "subscriptions": count, "expires": expires, "seed": seed}
        for each in MAPPINGS
        for selective in (0, 1)
        for nodes in sizes
        for expires in expirations
        for seed in scale.seeds(1)
    ]


def measure(mapping: str, nodes: int, selective: int, subscriptions: int, expires: float, seed: int) -> dict[str, Any]:
    """`expires`: seconds, 0 for never. What lives at the end is what was subscribed within that time."""
    setting = Setting(mapping, nodes, seed, selective, subscriptions)
    living = subscriptions if not expires else min(subscriptions, int(expires / EVERY_S))
    load = setting.load(subscriptions - living)
    return {"living": living, "greatest": int(load.max()), "mean": float(load.mean())}


SIZES: Final = (NODES,)
