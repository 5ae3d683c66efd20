"""One to many: four subscribers on four computers get what one subscriber gets, and the publisher does not notice.

Source: Eide et al. 2003, section 6.2.2.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.lan.stage import stage
from contentcast.experiments.lan.tables import SIZES, bars, summarize


def plan(scale: Scale) -> list[Row]:
    return [
        {
            "receivers": each,
            "size": size,
            "rate": 300.0 if scale.quick else 1000.0,
            "seconds": 2.0 if scale.quick else 5.0,
            "seed": seed,
        }
        for size in ((500,) if scale.quick else SIZES)
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
            "name": f"{size} to {receivers}",
            "sent": sent,
            "least": min(found[name]["received"] for name in names),
            "datagrams_sent": link.get("tx_packets", 0),
            "cpu_us": 1e6 * found["a"]["cpu"] / max(sent, 1),
            "where": here.where,
        }


def judge(table: pa.Table) -> list[Verdict]:
    rows = table.to_pylist()
    pairs = [
        (one, four) for one in rows for four in rows if (one["receivers"], four["receivers"]) == (1, 4) and _alike(one, four)
    ]
    frames = [(one["size"], _frames(one), _frames(four)) for one, four in pairs]
    return [
        Verdict(
            "Four subscribers get the same as one",
            "the same rate for each",
            "; ".join(
                f"{one['size']} bytes: {one['least']} of {one['sent']}, {four['least']} of {four['sent']}"
                for one, four in pairs
            ),
            all(each["least"] >= 0.999 * each["sent"] for pair in pairs for each in pair),
        ),
        Verdict(
            "Three more subscribers do not change what the publisher sends, by its interface's counters",
            "not affected",
            "; ".join(f"{size} bytes: {one:.2f} frames an event to one, {four:.2f} to four" for size, one, four in frames),
            not any(four > 1.2 * one for _, one, four in frames),
        ),
    ]


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one["size"] == other["size"] and one["seed"] == other["seed"])


def _frames(row: dict[str, Any]) -> float:
    return row["datagrams_sent"] / row["sent"] if row["datagrams_sent"] else float("nan")


EXPERIMENT: Final = Experiment(
    "lan/scalability",
    "One to many: one publisher, one and four subscribers",
    "Eide et al. 2003, section 6.2.2",
    plan,
    measure,
    judge,
    summarize("size", "receivers", "sent", "least", "datagrams_sent", "cpu_us", "where"),
    bars("name", "datagrams_sent", "frames that the publisher's interface sent"),
)
