"""Where is published what a subscription asks for? By the advertisements of one space.

Source: SIENA's advertisements (Eide et al. 2003, section 2). As soon as anybody advertises something of a space, subscriptions
of the space go only where an advertisement overlaps them, and a broker without advertisements is taken to publish nothing.
Events that were not advertised are therefore sent to every broker (`Everywhere`): they cost more, and nobody misses them.
Rule: an answer may name a broker too many, as `overlaps` may, never one too few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from contentcast.matching.covering import Shelf, boxes_of
from contentcast.matching.search_tree import SearchTree
from contentcast.model import Advertisement, EventBatch, Space
from contentcast.model.predicates.covering import overlaps
from contentcast.model.predicates.table import PredicateTable

Bools = npt.NDArray[np.bool_]


class Publishers:
    """Made anew when an advertisement comes or goes."""

    def __init__(self, space: Space, told: Mapping[str, Sequence[Advertisement]]) -> None:
        self.space = space
        pairs = [
            (broker, _fitted(each, space)) for broker in sorted(told) for each in told[broker] if each.space.name == space.name
        ]
        self._brokers = [broker for broker, _ in pairs]
        self._allowed = [each.predicate for _, each in pairs]
        self._boxes = boxes_of(PredicateTable.of(space, self._allowed))
        self._found: dict[int, frozenset[str]] = {}
        self._trees: dict[str, SearchTree] = {}

    def __bool__(self) -> bool:
        """Has anybody advertised anything of the space?"""
        return bool(self._brokers)

    def of(self, shelf: Shelf, row: int) -> frozenset[str]:
        """The brokers where something is published that this row of the pool's shelf asks for."""
        found = self._found.get(row)
        if found is None:
            boxes = self._boxes
            meet = (boxes.low <= shelf.high[row]) & (boxes.high >= shelf.low[row])
            optional = ~(int(shelf.required[row]) >> np.arange(meet.shape[1]) & 1).astype(bool)
            near = np.flatnonzero((meet | (boxes.absent & optional)).all(axis=1)).tolist()
            asked = shelf.predicate(row)
            found = frozenset(self._brokers[at] for at in near if overlaps(self._allowed[at], asked))
            self._found[row] = found
        return found

    def advertised(self, broker: str, events: EventBatch) -> Bools:
        """For each event, whether an advertisement at this broker allows it."""
        tree = self._trees.get(broker)
        if tree is None:
            tree = self._trees[broker] = SearchTree(self.space)
            mine = [each for name, each in zip(self._brokers, self._allowed, strict=True) if name == broker]
            if mine:
                tree.add_many(np.arange(len(mine)), PredicateTable.of(self.space, mine))
        allowed: Bools = np.diff(tree.match_batch(events).offsets) > 0
        return allowed


def _fitted(told: Advertisement, space: Space) -> Advertisement:
    return told if told.space == space else Advertisement(told.id, space, told.allowed, told.publisher, told.broker)
