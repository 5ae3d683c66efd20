"""The experiments by name, each in a file of its own, loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from contentcast.experiments.contract import Experiment
from contentcast.model.errors import ContentcastError, nearest

EXPERIMENTS: Final = {
    "link-matching/chart1": "chart1",
    "link-matching/chart2": "chart2",
    "link-matching/chart3": "chart3",
    "link-matching/prototype": "prototype",
    "link-matching/beyond/fan-out": "beyond.fan_out",
    "link-matching/beyond/bursts": "beyond.bursts",
    "link-matching/beyond/subscriptions": "beyond.subscriptions",
    "link-matching/beyond/large-network": "beyond.large_network",
    "link-matching/beyond/protocols": "beyond.protocols",
    "link-matching/beyond/hybrid": "beyond.hybrid",
    "overlay/figure5": "overlay.figure5",
    "overlay/figure6": "overlay.figure6",
    "overlay/figure7": "overlay.figure7",
    "overlay/figure8": "overlay.figure8",
    "overlay/figure9a": "overlay.figure9a",
    "overlay/figure9b": "overlay.figure9b",
    "overlay/hotspots": "overlay.hotspots",
    "overlay/churn": "overlay.churn",
    "overlay/latency": "overlay.latency",
    "overlay/kinds": "overlay.kinds",
    "overlay/against-brokers": "overlay.against_brokers",
    **{
        f"summaries/{name}": f"summaries.{name}" for name in ("figure8", "figure9", "figure10", "figure11", "precision", "load")
    },
    "lan/throughput": "lan.throughput",
    "lan/scalability": "lan.scalability",
    "lan/heterogeneity": "lan.heterogeneity",
    "lan/isolation": "lan.isolation",
    "lan/planner": "lan.planner",
    "lan/mapping-change": "lan.mapping_change",
}
"""Name -> module under contentcast.experiments, with its EXPERIMENT."""


def experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise ContentcastError(f"there is no experiment {name!r}{nearest(name, EXPERIMENTS, 'there are')}")
    found: Experiment = import_module(f"contentcast.experiments.{EXPERIMENTS[name]}").EXPERIMENT
    return found


def chosen(name: str) -> list[Experiment]:
    """The experiment of this name, or all whose names begin with it: `link-matching/beyond`, `link-matching`."""
    inside = [each for each in EXPERIMENTS if each.startswith(f"{name.rstrip('/')}/")]
    return [experiment(each) for each in inside] or [experiment(name)]
