"""Hotspots: skewed values under a mapping by the domain, one by learnt quantiles, and with virtual nodes.

Source: Baldoni et al. 2005, section 4.2 (discussion), which only sketches both remedies: mappings that change seldom, and
techniques at the level of keys and nodes. Values are u^SKEW of the domain, so that most lie near its beginning.
Rule: quantiles are learnt from other events than those that are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.setting import BITS, NODES
from contentcast.experiments.overlay.tables import bars, mean, summary
from contentcast.language.bulk import parse_many
from contentcast.model import Attribute, EventBatch, Space
from contentcast.routing.chord.model import RingModel
from contentcast.routing.overlay.mappings import KeyMapping

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SKEW: Final = 4
CUTS: Final = 2047
VIRTUAL: Final = 8
LARGEST: Final = 1_000_000
SPACE: Final = Space("skewed", {name: Attribute("int", low=0, high=LARGEST) for name in ("a1", "a2", "a3", "a4")})
WAYS: Final = ("by domain", "virtual nodes", "by quantiles", "quantiles and virtual nodes")


def plan(scale: Scale) -> list[Row]:
    count = 2_000 if scale.quick else 20_000
    return [{"way": way, "count": count, "seed": seed} for way in WAYS for seed in scale.seeds(1 if scale.quick else 3)]


def measure(way: str, count: int, seed: int) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    values = (dice.random((2 * count, 4)) ** SKEW * LARGEST).astype(np.int64)
    past, now = values[:count], values[count:]
    learnt = {}
    if "quantiles" in way:
        places = np.linspace(0, 1, CUTS + 2)[1:-1]
        learnt = {
            name: tuple(np.unique(np.quantile(past[:, at], places).astype(int)).tolist()) for at, name in enumerate(SPACE.names)
        }
    mapping = KeyMapping("selective-attribute", BITS, learnt={SPACE.name: learnt}).in_space(SPACE)
    centres = (dice.random((count, 4)) ** SKEW * LARGEST).astype(np.int64)
    width = 1 + (dice.random((count, 4)) * 0.01 * (centres + 100)).astype(np.int64)
    texts = [
        " AND ".join(f"{name} BETWEEN {low} AND {low + span}" for name, low, span in zip(SPACE.names, *row, strict=True))
        for row in zip(centres.tolist(), width.tolist(), strict=True)
    ]
    points = VIRTUAL if "virtual" in way else 1
    ring = RingModel.random(NODES * points, BITS, seed)
    node = np.random.default_rng(seed).permutation(NODES * points) % NODES
    keys = np.array(ring.keys, np.uint64)
    _, events = mapping.event_keys(EventBatch.from_arrow(SPACE, pa.record_batch(list(now.T), names=list(SPACE.names))))
    event_load = np.bincount(node[np.searchsorted(keys, events) % len(keys)], minlength=NODES)
    targets = mapping.subscription_keys(parse_many(SPACE, texts))
    begin, end = np.searchsorted(keys, targets.lows), np.searchsorted(keys, targets.highs)
    lengths = end - begin + 1
    which = np.repeat(begin, lengths) + np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    pairs = np.unique(np.repeat(targets.rows, lengths) * NODES + node[which % len(keys)])
    stored = np.bincount(pairs % NODES, minlength=NODES)
    return {
        "events_greatest": float(event_load.max() / event_load.mean()),
        "subscriptions_greatest": float(stored.max() / stored.mean()),
        "subscriptions_mean": float(stored.mean()),
    }


def judge(table: pa.Table) -> list[Verdict]:
    events = {way: mean(table, "events_greatest", way=way) for way in WAYS}
    stored = {way: mean(table, "subscriptions_greatest", way=way) for way in WAYS}
    return [
        Verdict(
            f"Learnt quantiles take the load off the busiest node when values are skewed ({what})",
            "sketched, not measured",
            "greatest load to mean: " + ", ".join(f"{way} {found[way]:.1f}" for way in WAYS),
            found["by quantiles"] < 0.5 * found["by domain"],
        )
        for what, found in (("events", events), ("subscriptions", stored))
    ]


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("way",), "events_greatest", "subscriptions_greatest", "subscriptions_mean")


def draw(table: pa.Table, figure: Figure) -> None:
    one, other = figure.subplots(1, 2)
    bars(one, table, ("way",), "events_greatest", ("", "events: greatest load to mean"), log=True)
    bars(other, table, ("way",), "subscriptions_greatest", ("", "subscriptions: greatest load to mean"), log=True)


EXPERIMENT: Final = Experiment(
    "overlay/hotspots",
    "Skewed values: quantiles and virtual nodes",
    "Baldoni et al. 2005, section 4.2 (sketched there)",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
