"""The paper's setting: a ring of 2^13 keys, its workload, and counts of hops on a settled ring in memory.

Source: Baldoni et al. 2005, section 5.1. Hops are counted with the functions that the nodes run (`mcast.split`, routing by
fingers and cache, the mappings), on `RingModel`: thousands of nodes with clock and messages would take hours. Every node
remembers CACHED nodes besides its fingers, which gives the paper's 2.5 hops at 500 nodes.
Rule: the same seed gives the same ring, subscriptions and events for every mapping and way of sending.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.language.bulk import parse_many
from contentcast.model import EventBatch
from contentcast.model.predicates.table import PredicateTable
from contentcast.routing.chord.mcast import Targets
from contentcast.routing.chord.model import RingModel
from contentcast.routing.overlay.mappings import MAPPINGS, KeyMapping, SpaceMapping, together
from contentcast.workload import Scenario, scenario

Ints = npt.NDArray[np.int64]

BITS: Final = 13
NODES: Final = 500
CACHED: Final = 32
SHORT: Final = dict(zip(MAPPINGS, ("1 attribute-split", "2 key-space-split", "3 selective-attribute"), strict=True))


@dataclass(frozen=True)
class Setting:
    mapping: str
    nodes: int = NODES
    seed: int = 1
    selective: int = 0
    subscriptions: int = 1000
    cells: int = 0
    matching: float = 0.5

    @cached_property
    def ring(self) -> RingModel:
        return RingModel.random(self.nodes, BITS, self.seed, cached=CACHED)

    @cached_property
    def source(self) -> Scenario:
        told: dict[str, Any] = {"selective": self.selective, "matching": self.matching, "standing": self.subscriptions}
        return scenario("overlay", seed=self.seed, nodes=self.nodes, **told)

    @cached_property
    def table(self) -> PredicateTable:
        return parse_many(self.source.space, self.source.subscriptions(self.subscriptions)["predicate"])

    @cached_property
    def keys(self) -> SpaceMapping:
        return KeyMapping(self.mapping, BITS, self.cells).in_space(self.source.space)

    @cached_property
    def subscription_keys(self) -> Targets:
        return self.keys.subscription_keys(self.table)

    def ranges(self, subscription: int) -> list[tuple[int, int]]:
        """SK of one subscription; with discretization the keys at which its cells begin, one by one."""
        targets = self.subscription_keys
        mine = np.flatnonzero(targets.rows == subscription)
        pairs = together(zip(targets.lows[mine].tolist(), targets.highs[mine].tolist(), strict=True))
        if not self.cells:
            return pairs
        starts = np.unique((np.arange(self.cells) / self.cells * (1 << BITS)).astype(np.int64))
        return [(int(key), int(key)) for low, high in pairs for key in starts[(starts >= low) & (starts <= high)]]

    def events(self, count: int) -> EventBatch:
        return EventBatch.from_arrow(self.source.space, self.source.events(count))

    def node(self, names: Any) -> list[int]:
        """The nodes that stand for the workload's brokers."""
        return [int(str(each)[1:]) % self.nodes for each in names.to_pylist()]

    def holders(self, first: int = 0) -> tuple[Ints, Ints]:
        """(subscription, node) for every node that holds one, from this subscription on, each pair once."""
        targets, keys = self.subscription_keys, np.array(self.ring.keys, np.uint64)
        kept = targets.rows >= first
        begin = np.searchsorted(keys, targets.lows[kept])
        end = np.searchsorted(keys, targets.highs[kept])
        lengths = end - begin + 1
        nodes = np.repeat(begin, lengths) + np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        pairs = np.unique(np.repeat(targets.rows[kept], lengths) * self.nodes + nodes % self.nodes)
        return pairs // self.nodes, pairs % self.nodes

    def load(self, first: int = 0) -> Ints:
        """Subscriptions of each node."""
        return np.bincount(self.holders(first)[1], minlength=self.nodes)

    def matches(self, events: EventBatch) -> tuple[Ints, Ints]:
        """(event, subscription) by the ranges themselves."""
        found = np.ones((len(events), len(self.table)), bool)
        for at, name in enumerate(self.source.space.names):
            column = self.table.columns[name]
            values = events.records.column(at).to_numpy()[:, None]
            found &= (values >= column.first) & (values <= column.last)
        rows, subscriptions = np.nonzero(found)
        return rows, subscriptions
