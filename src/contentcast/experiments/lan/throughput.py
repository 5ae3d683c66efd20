"""One to one: how many events a second from one publisher to one subscriber, on the LAN, in the host and in the process.

Source: Eide et al. 2003, section 6.2.1 and table 6. As there, the publisher is slowed until the receiver loses nothing. Two
ways to publish: `one`, a call for each event, as in the paper (a client sends those of one turn of its loop together); `many`,
batches of a hundred.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.lan.stage import result, stage
from contentcast.experiments.lan.tables import PAPER, PAPER_PROCESS, SIZES, bars, loss_free, summarize

BATCH: Final = {"one": 1, "many": 100}
HOW: Final = {"one": "one by one", "many": "in batches of a hundred"}


def plan(scale: Scale) -> list[Row]:
    sizes = (100,) if scale.quick else SIZES
    return [
        {"locality": locality, "size": size, "publish": publish, "seconds": 1.0 if scale.quick else 3.0, "seed": seed}
        for locality in ("process", "host", "LAN")
        for size in sizes
        for publish in BATCH
        for seed in scale.seeds(1)
    ]


def measure(locality: str, size: int, publish: str, seconds: float, seed: int) -> dict[str, Any]:
    batch = BATCH[publish]
    paper = (PAPER_PROCESS if locality == "process" else PAPER)[size]
    name = f"{locality} {size} {publish}"
    with stage(["a", "b"], namespaces=locality == "LAN") as here:
        if locality == "process":
            found = result("a", here.start("a", {"role": "both", "batch": batch, "size": size, "seconds": seconds}))
            rate = found["received"] / found["took"]
            return {
                "name": name,
                "paper": paper,
                "rate": rate,
                "lost": 1 - found["received"] / found["sent"],
                "where": "process",
            }
        told = {"size": size, "batch": batch, "seconds": seconds}
        found = loss_free(lambda rate: here.play({"b": {}}, {"a": {**told, "rate": rate}}), {"b": 1.0}, ("a",))
        return {"name": name, "paper": paper, "rate": found["rate"], "lost": found["lost"], "where": here.where}


def judge(table: pa.Table) -> list[Verdict]:
    rows = table.to_pylist()
    verdicts = []
    for locality in ("process", "LAN"):
        for publish in BATCH:
            mine = [each for each in rows if each["locality"] == locality and each["publish"] == publish]
            if mine:
                ratio = min(each["rate"] / each["paper"] for each in mine)
                shown = ", ".join(f"{each['size']} bytes: {each['rate']:,.0f}/s" for each in mine)
                verdicts.append(
                    Verdict(
                        f"{locality}, published {HOW[publish]}: at least the paper's rate",
                        ", ".join(f"{each['paper']:,}" for each in mine),
                        shown,
                        ratio >= 1,
                    )
                )
    return verdicts


EXPERIMENT: Final = Experiment(
    "lan/throughput",
    "One to one: events a second on the LAN, in the host, in the process",
    "Eide et al. 2003, section 6.2.1",
    plan,
    measure,
    judge,
    summarize("locality", "size", "publish", "rate", "paper", "lost", "where"),
    bars("name", "rate", "events a second, loss-free"),
)
