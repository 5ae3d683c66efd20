"""Many to many: two publishers with two subscribers each; what one publishes never reaches the computers of the other.

Source: Eide et al. 2003, section 6.2.4.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Experiment, Row, Scale, Verdict
from contentcast.experiments.lan.stage import stage
from contentcast.experiments.lan.tables import bars, summarize


def plan(scale: Scale) -> list[Row]:
    rate, seconds = (150.0, 2.0) if scale.quick else (1000.0, 5.0)
    return [
        {"publishers": each, "rate": rate, "size": 1000, "seconds": seconds, "seed": seed}
        for each in (1, 2)
        for seed in scale.seeds(1)
    ]


def measure(publishers: int, rate: float, size: int, seconds: float, seed: int) -> list[dict[str, Any]]:
    sources = [f"s{at}" for at in range(publishers)]
    with stage([*sources, *(f"{source}-{at}" for source in sources for at in (1, 2))]) as here:
        told = {"size": size, "batch": 1, "rate": rate, "seconds": seconds}
        wanting = {f"{source}-{at}": {"where": f"source = '{source}'"} for source in sources for at in (1, 2)}
        found = here.play(wanting, {source: {**told, "source": source} for source in sources})
        return [
            {
                "subscriber": name,
                "sent": found[name[:2]]["sent"],
                "received": found[name]["received"],
                "discarded": found[name]["discarded"],
                "link_bytes_an_event": found[name]["link"].get("rx_bytes", 0) / max(found[name]["received"], 1),
                "where": here.where,
            }
            for name in wanting
        ]


def judge(table: pa.Table) -> list[Verdict]:
    rows = table.to_pylist()
    alone = [each for each in rows if each["publishers"] == 1]
    both = [each for each in rows if each["publishers"] == 2]
    bytes_alone = sum(each["link_bytes_an_event"] for each in alone) / len(alone)
    bytes_both = sum(each["link_bytes_an_event"] for each in both) / len(both)
    return [
        Verdict(
            "Each subscriber gets all of its publisher's events, with another publisher beside it",
            "the same rate as one to one",
            ", ".join(f"{each['received']} of {each['sent']}" for each in both),
            all(each["received"] >= 0.999 * each["sent"] for each in both),
        ),
        Verdict(
            "The other publisher's events do not come to its computer",
            "isolated by the switch",
            f"{bytes_alone:,.0f} bytes an event alone, {bytes_both:,.0f} beside another; 0 discarded",
            all(each["discarded"] == 0 for each in both) and not bytes_both > 1.3 * bytes_alone,
        ),
    ]


EXPERIMENT: Final = Experiment(
    "lan/isolation",
    "Two publishers that do not disturb each other",
    "Eide et al. 2003, section 6.2.4",
    plan,
    measure,
    judge,
    summarize("publishers", "subscriber", "sent", "received", "discarded", "link_bytes_an_event", "where"),
    bars("subscriber", "received", "events received"),
)
