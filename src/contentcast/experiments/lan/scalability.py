"""One to many: four subscribers on four computers get what one subscriber gets, and the publisher does not notice.

Source: Eide et al. 2003, section 6.2.2.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.lan.stage import stage
from contentcast.experiments.lan.tables import bars, summarize


def plan(scale: Scale) -> list[Row]:
    return [
        {"receivers": each, "size": 500, "rate": 300.0, "seconds": 2.0 if scale.quick else 5.0, "seed": seed}
        for each in (1, 4)
        for seed in scale.seeds(1)
    ]


def measure(receivers: int, size: int, rate: float, seconds: float, seed: int) -> dict[str, Any]:
    names = [f"r{at}" for at in range(receivers)]
    with stage(["a", *names]) as here:
        told = {"size": size, "batch": 1, "rate": rate, "seconds": seconds}
        found = here.play({name: {} for name in names}, {"a": told})
        sent = found["a"]["sent"]
        link = found["a"]["link"]
        return {
            "sent": sent,
            "least": min(found[name]["received"] for name in names),
            "datagrams_sent": link.get("tx_packets", 0),
            "cpu_us": 1e6 * found["a"]["cpu"] / max(sent, 1),
            "where": here.where,
        }


def judge(table: pa.Table) -> list[Verdict]:
    rows = sorted(table.to_pylist(), key=lambda each: each["receivers"])
    one, four = rows[0], rows[-1]
    copies = four["datagrams_sent"] / four["sent"] if four["datagrams_sent"] else float("nan")
    once = one["datagrams_sent"] / one["sent"] if one["datagrams_sent"] else float("nan")
    return [
        Verdict(
            "Four subscribers get the same as one",
            "the same rate for each",
            f"{one['least']} of {one['sent']}, {four['least']} of {four['sent']}",
            one["least"] >= 0.999 * one["sent"] and four["least"] >= 0.999 * four["sent"],
        ),
        Verdict(
            "The publisher sends each event once, by its interface's counters",
            "not affected",
            f"{once:.2f} frames for an event with one subscriber, {copies:.2f} with four",
            not copies > 1.2,
        ),
    ]


EXPERIMENT: Final = Experiment(
    "lan/scalability",
    "One to many: one publisher, one and four subscribers",
    "Eide et al. 2003, section 6.2.2",
    plan,
    measure,
    judge,
    summarize("receivers", "sent", "least", "datagrams_sent", "cpu_us", "where"),
    bars("receivers", "datagrams_sent", "frames that the publisher's interface sent"),
)
