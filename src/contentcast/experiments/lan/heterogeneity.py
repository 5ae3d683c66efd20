"""One to many, with different wishes: who wants one type of two is sent that type only, by its interface's own counters.

Source: Eide et al. 2003, section 6.2.3.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.lan.stage import stage
from contentcast.experiments.lan.tables import bars, summarize


def plan(scale: Scale) -> list[Row]:
    rate, seconds = (300.0, 2.0) if scale.quick else (1000.0, 5.0)
    return [{"rate": rate, "size": 1000, "seconds": seconds, "seed": seed} for seed in scale.seeds(1)]


def measure(rate: float, size: int, seconds: float, seed: int) -> list[dict[str, Any]]:
    with stage(["a", "all", "some"]) as here:
        told = {"size": size, "batch": 1, "rate": rate, "seconds": seconds, "types": ["t0", "t1"]}
        found = here.play({"all": {}, "some": {"where": "type = 't1'"}}, {"a": told})
        return [
            {
                "wants": name,
                "sent": found["a"]["sent"],
                "received": found[name]["received"],
                "discarded": found[name]["discarded"],
                "link_bytes": found[name]["link"].get("rx_bytes", 0),
                "cpu_s": found[name]["cpu"],
                "where": here.where,
            }
            for name in ("all", "some")
        ]


def judge(table: pa.Table) -> list[Verdict]:
    by = {each["wants"]: each for each in table.to_pylist()}
    ratio = by["some"]["link_bytes"] / by["all"]["link_bytes"] if by["all"]["link_bytes"] else float("nan")
    cpu = by["some"]["cpu_s"] / by["all"]["cpu_s"]
    return [
        Verdict(
            "Who wants one type of two gets half, and discards nothing",
            "reduced accordingly",
            f"{by['some']['received']} of {by['all']['received']} events, {by['some']['discarded']} discarded",
            by["some"]["received"] == by["all"]["received"] // 2 and by["some"]["discarded"] == 0,
        ),
        Verdict(
            "Its interface carries half of the bytes",
            "reduced accordingly",
            f"{ratio:.2f} of the other's, for {cpu:.2f} of its CPU",
            not ratio > 0.6,
        ),
    ]


EXPERIMENT: Final = Experiment(
    "lan/heterogeneity",
    "Different wishes: all types, and one of two",
    "Eide et al. 2003, section 6.2.3",
    plan,
    measure,
    judge,
    summarize("wants", "sent", "received", "discarded", "link_bytes", "cpu_s", "where"),
    bars("wants", "link_bytes", "bytes that came over the interface"),
)
