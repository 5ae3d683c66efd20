"""A mapping that is changed under full load: how long it takes, and that nothing is lost or doubled.

Source: Eide et al. 2003, section 4.4, which asks for it and leaves it open. Full load is the rate at which the same parties
lose nothing by `best effort`, measured first; the receivers then ask for `reliable`.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.lan.stage import result, stage
from contentcast.experiments.lan.tables import bars, loss_free, summarize

RECEIVERS: Final = ("b", "c")
BATCH: Final = 100


def plan(scale: Scale) -> list[Row]:
    return [{"size": 500, "batch": BATCH, "seconds": 6.0 if scale.quick else 10.0, "seed": seed} for seed in scale.seeds(1)]


def measure(size: int, batch: int, seconds: float, seed: int) -> list[dict[str, Any]]:
    with stage(["a", *RECEIVERS, "operator"]) as here:
        running = []
        told = {"size": size, "batch": batch, "seconds": 2.0}
        full = loss_free(
            lambda rate: here.play({name: {} for name in RECEIVERS}, {"a": {**told, "rate": rate}}),
            dict.fromkeys(RECEIVERS, 1.0),
            ("a",),
        )

        def operator() -> None:
            running.append(here.start("operator", {"role": "change", "after": 4.0}))

        told = {"size": size, "batch": batch, "rate": full["rate"], "seconds": seconds}
        found = here.play({name: {"quality": "reliable"} for name in RECEIVERS}, {"a": told}, meanwhile=operator)
        changed = result("operator", running[0])
        return [
            {
                "receiver": name,
                "rate": full["rate"],
                "sent": found["a"]["sent"],
                "received": found[name]["received"],
                "uses": str(found[name]["uses"]),
                "change_s": changed["seconds"],
                "where": here.where,
            }
            for name in RECEIVERS
        ]


def judge(table: pa.Table) -> list[Verdict]:
    rows = table.to_pylist()
    return [
        Verdict(
            "Nothing is lost or doubled by a change of the mapping",
            "asked for, not shown",
            f"at {rows[0]['rate']:,.0f}/s: " + ", ".join(f"{each['received']} of {each['sent']}" for each in rows),
            all(each["received"] == each["sent"] for each in rows),
        ),
        Verdict(
            "All servers change",
            "all or none",
            f"in {rows[0]['change_s']:.2f} s, the old groups left",
            all(each["uses"].startswith("[2,") for each in rows),  # all have started with number 1
        ),
    ]


EXPERIMENT: Final = Experiment(
    "lan/mapping-change",
    "A mapping changed under full load",
    "Eide et al. 2003, section 4.4",
    plan,
    measure,
    judge,
    summarize("receiver", "rate", "sent", "received", "uses", "change_s", "where"),
    bars("receiver", "received", "events received"),
)
