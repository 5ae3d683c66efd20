"""Figure 9a: buffering and collecting cut the hops of notifications.

Source: Baldoni et al. 2005, figure 9(a): selective-attribute; periods of 1, 2 and 5 publication intervals. Departs from the
paper in one point that it leaves open: the gain comes from consecutive events that lie close (section 4.3.2), so here a
publication aims at the same subscription as the one before with probability LOCALITY.
With independent events there is nothing to gather.
Rule: an exchange between neighbours is one message for all subscriptions, as the paper says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.setting import Setting
from contentcast.experiments.overlay.tables import lines, mean, summary
from contentcast.model import EventBatch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOCALITY: Final = 0.8
WAYS: Final = ("at once", "buffered 1", "collected 1", "collected 2", "collected 5")


def plan(scale: Scale) -> list[Row]:
    events, chances = (300, (0.5,)) if scale.quick else (2000, (0.25, 0.5, 0.75, 1.0))
    return [
        {"matching": each, "events": events, "seed": seed} for each in chances for seed in scale.seeds(1 if scale.quick else 3)
    ]


def measure(matching: float, events: int, seed: int) -> list[dict[str, Any]]:
    setting = Setting("selective-attribute", seed=seed, subscriptions=1000)
    ring = setting.ring
    batch, times = _stream(setting, events, matching, seed)
    rows, keys = setting.keys.event_keys(batch)
    matched, subscriptions = setting.matches(batch)
    subscribers = setting.node(setting.source.subscriptions(setting.subscriptions)["broker"])
    meetings: list[tuple[float, int, int, int]] = []  # when, subscription, node, node in the middle
    for row, number in zip(matched.tolist(), subscriptions.tolist(), strict=True):
        low, high, key = next(
            (low, high, key) for low, high in setting.ranges(number) for key in keys[rows == row].tolist() if low <= key <= high
        )
        meetings.append((float(times[row]), number, ring.owner(key), ring.owner((low + high) // 2)))
    found = []
    for way in WAYS:
        kind, _, period = way.partition(" ")
        hops = _hops(setting, meetings, subscribers, kind, float(period) if period.isdigit() else 0.0)
        found.append({"way": way, "hops": hops / events, "notifications": len(meetings) / events})
    return found


def _stream(setting: Setting, events: int, matching: float, seed: int) -> tuple[EventBatch, Any]:
    """Publications that stay where they are for a while; times in publication intervals."""
    dice = np.random.default_rng(seed)
    target = 0
    dicts = []
    for _ in range(events):
        if dice.random() > LOCALITY:
            target = int(dice.integers(setting.subscriptions))
        aimed = dice.random() < matching
        event = {}
        for name in setting.source.space.names:
            column = setting.table.columns[name]
            low, high = (int(column.first[target]), int(column.last[target])) if aimed else (0, 1_000_000)
            event[name] = int(dice.integers(low, high + 1))
        dicts.append(event)
    return EventBatch.from_dicts(setting.source.space, dicts), np.cumsum(dice.exponential(1.0, events))


def _hops(
    setting: Setting, meetings: list[tuple[float, int, int, int]], subscribers: list[int], kind: str, period: float
) -> int:
    ring = setting.ring
    if kind == "at":
        return sum(len(ring.route(node, ring.keys[subscribers[number]])) for _, number, node, _ in meetings)
    sent: set[tuple[int, int, int]] = set()
    exchanged: set[tuple[int, int, int]] = set()
    for time, number, node, middle in meetings:
        slot = int(time / period)
        while kind == "collected" and node != middle:
            ahead = (middle - node) % len(ring)
            step = 1 if ahead <= len(ring) - ahead else -1
            exchanged.add((slot, node, step))
            node, slot = (node + step) % len(ring), slot + 1
        sent.add((slot, node, number))
    return len(exchanged) + sum(len(ring.route(node, ring.keys[subscribers[number]])) for _, node, number in sent)


def judge(table: pa.Table) -> list[Verdict]:
    hops = {way: mean(table, "hops", way=way) for way in WAYS}
    shown = ", ".join(f"{way} {hops[way]:.2f}" for way in WAYS)
    first = hops["at once"] - hops["buffered 1"]
    return [
        Verdict(
            "Buffering and collecting cut the hops of notifications",
            "both significantly",
            f"hops per publication: {shown}",
            max(hops[way] for way in WAYS[1:]) < 0.9 * hops["at once"],
        ),
        Verdict(
            "Most of the gain is there at a period of one publication interval",
            "small periods suffice",
            f"{100 * first / (hops['at once'] - min(hops.values())):.0f} % of the greatest gain by buffering for one interval",
            first >= 0.5 * (hops["at once"] - min(hops.values())),
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    return summary(table, ("matching", "way"), "notifications", "hops")


def draw(table: pa.Table, figure: Figure) -> None:
    lines(figure.subplots(), table, "way", "matching", "hops", ("matching probability", "notification hops per publication"))


EXPERIMENT: Final = Experiment(
    "overlay/figure9a",
    "Buffering and collecting notifications",
    "Baldoni et al. 2005, figure 9(a)",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
