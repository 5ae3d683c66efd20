"""An audience in a search tree: it counts the steps of each search, and can be annotated with links.

Rule: rows of those who went are given to those who come. The tree of the audience before is copied, and shares what is
prepared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from contentcast.matching.search_tree import SearchTree
from contentcast.model import EventBatch, Space
from contentcast.routing.audience.members import NOBODY, Arrival, Audience, Bools, Found, Ints, Members, joined

REPREPARED_SHARE: Final = 0.2
"""A change of a larger share of the rows prepares one tree anew; smaller ones are prepared beside what is there."""


@dataclass(frozen=True, eq=False)
class TreeAudience(Audience):
    tree: SearchTree

    @classmethod
    def empty(cls, space: Space, options: Mapping[str, Any] | None = None) -> TreeAudience:
        """`options`: those of `SearchTree`."""
        return cls(space, *NOBODY, SearchTree(space, **(options or {})))

    def match(self, events: EventBatch) -> Found:
        found = self.tree.match_batch(events)
        return Found(found.offsets, found.ids, found.steps)

    def free_rows(self, living: Bools, count: int) -> Ints:
        rows = np.flatnonzero(~living)[:count]
        return np.concatenate([rows, np.arange(len(living), len(living) + count - len(rows))])

    def with_rows(self, gone: Ints, arrivals: list[Arrival], moved: int, members: Members) -> TreeAudience:
        tree = self.tree.copy()
        for row in gone.tolist():
            tree.remove(row)
        if arrivals:
            tree.add_many(*joined(arrivals))
        if moved > REPREPARED_SHARE * len(members.ids):
            tree.prepare()
        return TreeAudience(self.space, *members, tree)

    def sizes(self) -> dict[str, int]:
        shape = self.tree.shape
        return {"nodes": shape.nodes, "bytes": shape.nbytes}
