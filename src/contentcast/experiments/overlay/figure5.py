"""Figure 5: hops of a subscription, a publication and a notification, by mapping, with unicast and with m-cast.

Source: Baldoni et al. 2005, section 5.2, network performance. No selective attribute, subscriptions never expire.
Rule: see `setting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.overlay.setting import NODES, SHORT, Setting
from contentcast.experiments.overlay.tables import bars, mean, summary
from contentcast.routing.overlay.mappings import MAPPINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST, SECOND, THIRD = MAPPINGS


def plan(scale: Scale) -> list[Row]:
    counted = 60 if scale.quick else 400
    return [
        {"mapping": each, "counted": counted, "seed": seed}
        for each in MAPPINGS
        for seed in scale.seeds(1 if scale.quick else 3)
    ]


def measure(mapping: str, counted: int, seed: int) -> dict[str, Any]:
    setting = Setting(mapping, seed=seed)
    ring = setting.ring
    senders = setting.node(setting.source.subscriptions(counted)["broker"])
    keys = unicast = cast = 0
    for number, sender in enumerate(senders):
        ranges = setting.ranges(number)
        keys += sum(high - low + 1 for low, high in ranges)
        unicast += ring.aggressive(sender, ranges).messages
        cast += ring.mcast(sender, ranges).messages
    events = setting.events(counted)
    rows, event_keys = setting.keys.event_keys(events)
    publishers = setting.node(setting.source.publishers(counted))
    hops = [len(ring.route(publishers[row], key)) for row, key in zip(rows.tolist(), event_keys.tolist(), strict=True)]
    by_cast = [
        ring.mcast(publishers[row], [(key, key) for key in np.unique(event_keys[rows == row]).tolist()]).messages
        for row in range(counted)
    ]
    matched, subscriptions = setting.matches(events)
    subscribers = setting.node(setting.source.subscriptions(setting.subscriptions)["broker"])
    noticed = 0
    for row, number in zip(matched.tolist(), subscriptions.tolist(), strict=True):
        mine = event_keys[rows == row].tolist()
        meeting = next(key for key in mine if any(low <= key <= high for low, high in setting.ranges(number)))
        noticed += len(ring.route(ring.owner(meeting), ring.keys[subscribers[number]]))
    return {
        "lookup": ring.mean_lookup(2000, seed),
        "subscription_keys": keys / counted,
        "publication_keys": len(rows) / counted,
        "subscription_unicast": unicast / counted,
        "subscription_mcast": cast / counted,
        "publication_unicast": float(np.sum(hops)) / counted,
        "publication_mcast": float(np.mean(by_cast)),
        "notification": noticed / max(1, len(matched)),
    }


def judge(table: pa.Table) -> list[Verdict]:
    keys = {each: mean(table, "subscription_keys", mapping=each) for each in MAPPINGS}
    events = {each: mean(table, "publication_keys", mapping=each) for each in MAPPINGS}
    saved = {
        each: 1 - mean(table, "subscription_mcast", mapping=each) / mean(table, "subscription_unicast", mapping=each)
        for each in MAPPINGS
    }
    lookup = mean(table, "lookup")
    return [
        Verdict("A lookup among 500 nodes takes few hops", "about 2.5", f"{lookup:.2f}", 2.0 <= lookup <= 3.0),
        Verdict(
            "A publication is mapped to 1, 1 and 4 keys",
            "1, 1, 4",
            ", ".join(f"{events[each]:.0f}" for each in MAPPINGS),
            [round(events[each]) for each in MAPPINGS] == [1, 1, 4],
        ),
        Verdict(
            "Mapping 2 maps a subscription to slightly over one key",
            "slightly over 1",
            f"{keys[SECOND]:.2f}",
            1.0 <= keys[SECOND] < 2.0,
        ),
        Verdict(
            "Mapping 1 maps a subscription to about ten times as many keys as mapping 3",
            "about 10",
            f"{keys[FIRST] / keys[THIRD]:.1f} ({keys[FIRST]:.0f} and {keys[THIRD]:.0f} keys)",
            6.0 <= keys[FIRST] / keys[THIRD] <= 15.0,
        ),
        Verdict(
            "m-cast cuts the hops of a subscription in mappings 1 and 3",
            "by more than 90 %",
            f"by {100 * saved[FIRST]:.0f} and {100 * saved[THIRD]:.0f} %",
            min(saved[FIRST], saved[THIRD]) > 0.9,
        ),
    ]


def summarize(table: pa.Table) -> pa.Table:
    columns = ("subscription_keys", "subscription_unicast", "subscription_mcast", "publication_unicast", "notification")
    return summary(table, ("mapping",), *columns)


def draw(table: pa.Table, figure: Figure) -> None:
    one, other, third = figure.subplots(1, 3)
    bars(one, table, ("mapping",), "subscription_unicast", (f"{NODES} nodes", "hops per subscription, unicast"), log=True)
    bars(
        other, table, ("mapping",), "subscription_mcast", (", ".join(SHORT.values()), "hops per subscription, m-cast"), log=True
    )
    bars(third, table, ("mapping",), "publication_unicast", ("", "hops per publication"))


EXPERIMENT: Final = Experiment(
    "overlay/figure5",
    "Hops per request, by mapping",
    "Baldoni et al. 2005, figure 5",
    plan,
    measure,
    judge,
    summarize,
    draw,
)
