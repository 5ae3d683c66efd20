"""An audience in the index: the fastest way to match, without steps. One index serves many audiences.

An audience is never changed, and an index is. So the index holds the rows of all audiences that were made from each other, and
each audience knows which of them are its own (`living`):

    index                rows 0 1 2 3 4
    first audience       living 1 1 1              0, 1, 2
    changed: 1 goes, two come      1 0 1 1 1       0, 2, 3, 4: rows 3 and 4 were added to the index

What the index finds for the first audience may name rows 3 and 4; they are beyond its arrays and count for nobody there
(`pairs`). A row that lives in no audience any more is taken out of the index, and given to somebody who comes later.

Not chosen: an index for each audience, which a change of one subscription would build anew; and a small index beside a large
one, which would cost every batch a second call.
Rule: a row that lives in any audience that is still held stands in the index with that audience's predicate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from weakref import ref

import numpy as np

from contentcast.match_index import MatchIndex
from contentcast.model import EventBatch, Space
from contentcast.model.predicates.table import PredicateTable
from contentcast.routing.audience.members import NOBODY, Arrival, Audience, Bools, Found, Ints, Members, joined

LEAST_SWEPT: Final = 64
SWEPT_SHARE: Final = 0.25
"""Rows are looked through for dead ones when this share of them, and at least LEAST_SWEPT, have come or gone since the last
time."""


class SharedIndex:
    """The rows of all audiences that were made from one."""

    def __init__(self, space: Space) -> None:
        self.index = MatchIndex(space)
        self._held: list[ref[Bools]] = []
        """The `living` of each audience; one that nobody holds any more is gone from here too."""
        self._there = np.empty(0, bool)
        """For each row given out so far: does it stand in the index?"""
        self._free: Ints = np.empty(0, np.int64)
        self._changes = 0

    def rows(self, count: int) -> Ints:
        """Rows that live in no audience."""
        rows, self._free = self._free[:count], self._free[count:]
        lacking = count - len(rows)
        if not lacking:
            return rows
        first = len(self._there)
        self._there = np.concatenate([self._there, np.zeros(lacking, bool)])
        return np.concatenate([rows, np.arange(first, first + lacking)])

    def add(self, rows: Ints, table: PredicateTable) -> None:
        self.index.add_many(rows, table)
        self._there[rows] = True

    def hold(self, living: Bools, moved: int) -> None:
        """Another audience, which `moved` rows tell from the one before."""
        self._held.append(ref(living))
        self._changes += moved
        if self._changes > max(LEAST_SWEPT, SWEPT_SHARE * len(self._there)):
            self._sweep()

    def _sweep(self) -> None:
        wanted = np.zeros(len(self._there), bool)
        audiences = [(each, living) for each in self._held if (living := each()) is not None]
        for _, living in audiences:
            wanted[: len(living)] |= living
        self._held = [each for each, _ in audiences]
        gone = np.flatnonzero(self._there & ~wanted)
        self.index.remove_many(gone)
        self._there[gone] = False
        self._free = np.flatnonzero(~wanted)
        self._changes = 0


@dataclass(frozen=True, eq=False)
class IndexAudience(Audience):
    shared: SharedIndex

    @classmethod
    def empty(cls, space: Space) -> IndexAudience:
        return cls(space, *NOBODY, SharedIndex(space))

    def match(self, events: EventBatch) -> Found:
        return Found(*self.shared.index.match_offsets(events), None)

    def free_rows(self, living: Bools, count: int) -> Ints:
        return self.shared.rows(count)

    def with_rows(self, gone: Ints, arrivals: list[Arrival], moved: int, members: Members) -> IndexAudience:
        made = IndexAudience(self.space, *members, self.shared)
        if arrivals:
            self.shared.add(*joined(arrivals))
        self.shared.hold(made.living, moved)
        return made

    def sizes(self) -> dict[str, int]:
        found = self.shared.index.sizes()
        return {"cells": found["cells"], "bytes": found["bytes"]}
