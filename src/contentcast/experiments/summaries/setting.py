"""Where the third paper's evaluation runs: on the paper's network, on others by name, and on networks from the user's files.

    places(scale)                                [{"where": "cable-wireless-24", "links": ""}, ...]
    places(Scale(networks=("mine.graphml",)))    [{"where": "mine.graphml", "links": "{\"brokers\": ..."}]

Source: Triantafillou & Economides 2004, section 5.2.1, "a number of real and artificial topologies".
Rule: a row holds a file's whole network, so that workers need not see the file and rows of an old file are measured again. The
first network of a table is the one that its verdicts are about.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from contentcast.experiments.contract import Row, Scale
from contentcast.experiments.rows import where as rows_where
from contentcast.network.named import NETWORKS, network, placed, topology
from contentcast.network.topology import Topology
from contentcast.workload import Scenario

MAIN: Final = "cable-wireless-24"
OTHERS: Final = ("gryphon-39", "tree:2x5", "random:24x30")
WAYS: Final = ("model", "real")


def places(scale: Scale) -> list[Row]:
    """The columns `where` and `links` of a plan's rows."""
    if scale.networks:
        return [_place(each) for each in scale.networks]
    return [_place(each) for each in ((MAIN,) if scale.quick else (MAIN, *OTHERS))]


def _place(name: str) -> Row:
    found = topology(name)  # a name or a file that there is not is told at once, not by every row
    if name in NETWORKS or (":" in name and not Path(name).exists()):
        return {"where": name, "links": ""}
    links = [[link.one, link.other, link.delay_s] for link in found.links]
    return {"where": Path(name).name, "links": json.dumps({"brokers": list(found.brokers), "links": links})}


def brokers_at(where: str, links: str) -> Topology:
    if not links:
        return network(where)
    told = json.loads(links)
    return Topology.of(told["brokers"], [tuple(each) for each in told["links"]])


def scenario_on(network: Topology, *, seed: int, **parameters: Any) -> Scenario:
    """Every broker has subscriptions and publishes; those of another network than the paper's have the same mix of degrees."""
    return placed("summaries", network, seed=seed, brokers=len(network), **parameters)


def main_of(table: pa.Table) -> str:
    name: str = table["where"][0].as_py()
    return name


def main_network(table: pa.Table) -> Topology:
    return brokers_at(main_of(table), table["links"][0].as_py())


def main_rows(table: pa.Table, way: str) -> pa.Table:
    return rows_where(table, where=main_of(table), way=way)
