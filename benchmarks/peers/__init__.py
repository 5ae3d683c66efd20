"""The peers in matching: thin indexes over libraries that people would take instead, all with one interface.

    peer.build(rules) -> index        index.match(record_batch) -> Matches, the (event, subscription) pairs

Rule: a peer gets what its library is good at (columns, batches, postings, the best order of tests), and no algorithm that would
be ours. What it cannot do it says: `Unsuitable`, and the table shows the reason. All peers must find the same pairs.
The workloads here leave no attribute out of an event, so no peer has to deal with absent ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks.peers import bitmaps, joins, one_by_one, regexes
from benchmarks.peers.rules import Index, Matches, Rules, Unsuitable

__all__ = ["PEERS", "Index", "Matches", "Peer", "Rules", "Unsuitable"]


@dataclass(frozen=True)
class Peer:
    """`thin`: as anyone would write it, else with a trick of ours on top. `each_rule`: tries every rule on every event."""

    name: str
    module: str
    build: Callable[[Rules], Index]
    what: str
    thin: bool = True
    each_rule: bool = False

    @property
    def installed(self) -> bool:
        return find_spec(self.module) is not None


PEERS = (
    Peer("pyroaring", "pyroaring", bitmaps.Roaring, "a bitmap of rules per attribute and value, AND-ed per event"),
    Peer("NumPy bitmaps", "numpy", bitmaps.Packed, "the same as rows of 64-bit words, AND-ed for a block of events at a time"),
    Peer("Polars join", "polars", joins.Polars, "one join for each shape of rule on what it tests by equality, then a filter"),
    Peer("DuckDB join", "duckdb", joins.Duck, "the same joins in SQL"),
    Peer(
        "hyperscan", "hyperscan", regexes.Hyperscan, "rules as regular expressions over events as text; equality and text tests"
    ),
    Peer("CEL", "cel", one_by_one.Cel, "each rule compiled, all tried on each event", each_rule=True),
    Peer("rule-engine", "rule_engine", one_by_one.RuleEngine, "each rule compiled, all tried on each event", each_rule=True),
    Peer(
        "pyroaring, combined",
        "pyroaring",
        bitmaps.RoaringCombined,
        "a bitmap per combination of values of several attributes: fewer ANDs where domains are tiny",
        thin=False,
    ),
)
