"""A set of predicates that finds who in it covers a given one, and whom in it a given one covers.

Source: the relation is SIENA's (Eide et al. 2003, section 2.5; `model.predicates.covering`). How to find it without comparing
all with all is ours. What asks for `issue = 'IBM'` is covered only by those that ask nothing about the issue or for IBM
itself. So the set is sorted into groups by which attributes must be present and which must have a single value, and in a group
into buckets by those values; then boxes are compared by columns, and what is left is decided by `covers`:

    issue = 'IBM' AND price < 120    group (issue, price | issue)   bucket IBM     box price below 120
    price < 50                       group (price | )               bucket ()      box price below 50

Whom a predicate covers is asked of the boxes of the whole set, one attribute after the other; few rows outlive the first.
Rule: what is found is covered. What is not found may be covered where `covers` itself gives up, or after MOST_TRIED tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from contentcast.matching.covering.boxes import Bools, Ints
from contentcast.matching.covering.shelf import Shelf
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import PredicateTable

MOST_TRIED: Final = 64
"""Candidates whose boxes fit and that are given to `covers` for one question."""

May = Callable[[Ints], Bools]
"""Which of these rows may be an answer, for reasons that are not in the predicates."""


class Bucket:
    """Row numbers in an array that grows."""

    __slots__ = ("count", "rows")

    def __init__(self) -> None:
        self.rows = np.empty(4, np.int64)
        self.count = 0

    def add(self, row: int) -> None:
        if self.count == len(self.rows):
            self.rows = np.concatenate([self.rows, np.empty(self.count, np.int64)])
        self.rows[self.count] = row
        self.count += 1

    def discard(self, row: int) -> None:
        at = int(np.flatnonzero(self.rows[: self.count] == row)[0])
        self.count -= 1
        self.rows[at : self.count] = self.rows[at + 1 : self.count + 1]


class Group:
    """Predicates with the same attributes that must be present, and the same that must have a single value."""

    __slots__ = ("buckets", "places", "required", "single")

    def __init__(self, required: int, single: int) -> None:
        self.required, self.single = required, single
        self.places = [at for at in range(single.bit_length()) if single >> at & 1]
        self.buckets: dict[tuple[int, ...], Bucket] = {}


class CoverSet:
    """Rows of a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._in = np.zeros(len(shelf.exact), bool)
        self._groups: dict[tuple[int, int], Group] = {}
        self._fitting: dict[tuple[int, int], list[Group]] = {}
        """For the attributes of a predicate, the groups that can hold one which covers it."""

    def __contains__(self, row: int) -> bool:
        return row < len(self._in) and bool(self._in[row])

    def __len__(self) -> int:
        return int(self._in.sum())

    def rows(self) -> Ints:
        return np.flatnonzero(self._in)

    def add(self, row: int) -> None:
        if row >= len(self._in):
            self._in = np.concatenate([self._in, np.zeros(len(self.shelf.exact) - len(self._in), bool)])
        self._in[row] = True
        required, single = int(self.shelf.required[row]), int(self.shelf.single[row])
        group = self._groups.get((required, single))
        if group is None:
            group = self._groups[required, single] = Group(required, single)
            self._fitting.clear()
        key = tuple(self.shelf.low[row, group.places].tolist())
        bucket = group.buckets.get(key)
        if bucket is None:
            bucket = group.buckets[key] = Bucket()
        bucket.add(row)

    def discard(self, row: int) -> None:
        if row not in self:
            return
        self._in[row] = False
        group = self._groups[int(self.shelf.required[row]), int(self.shelf.single[row])]
        key = tuple(self.shelf.low[row, group.places].tolist())
        bucket = group.buckets[key]
        bucket.discard(row)
        if not bucket.count:
            del group.buckets[key]

    def coverer(self, row: int, may: May | None = None) -> int | None:
        """A row of the set, other than this one, whose predicate covers that of the row."""
        shelf = self.shelf
        required, single = int(shelf.required[row]), int(shelf.single[row])
        tried = 0
        for group in self._fitting_groups(required, single):
            bucket = group.buckets.get(tuple(shelf.low[row, group.places].tolist()))
            if bucket is None:
                continue
            found = shelf.around(bucket.rows[: bucket.count], row)
            found = found[found != row]
            if may is not None and len(found):
                found = found[may(found)]
            sure = found[shelf.exact[found]]
            if len(sure):
                return int(sure[0])
            for wide in found.tolist():
                if tried == MOST_TRIED:
                    return None
                tried += 1
                if shelf.covers(wide, row):
                    return int(wide)
        return None

    def _fitting_groups(self, required: int, single: int) -> list[Group]:
        found = self._fitting.get((required, single))
        if found is None:
            found = self._fitting[required, single] = [
                each for each in self._groups.values() if not each.required & ~required and not each.single & ~single
            ]
        return found

    def covered(self, row: int, may: May | None = None) -> list[int]:
        """The rows of the set, other than this one, whose predicates the row's predicate covers."""
        shelf = self.shelf
        found = shelf.within(np.flatnonzero(self._in), row)
        found = found[found != row]
        if may is not None and len(found):
            found = found[may(found)]
        if shelf.exact[row]:
            chosen: list[int] = found.tolist()
            return chosen
        return [each for each in found[:MOST_TRIED].tolist() if shelf.covers(row, each)]


def most_general(tables: Sequence[PredicateTable]) -> list[Predicate]:
    """Of all these predicates of one space, the fewest found that together cover every other one."""
    if not tables:
        return []
    shelf = Shelf(tables[0].space)
    for table in tables:
        shelf.add(table)
    return [shelf.predicate(row) for row in uncovered(shelf, range(shelf.count))]


def uncovered(shelf: Shelf, rows: Iterable[int]) -> list[int]:
    """Those of the rows that no other one covers; of several that cover each other, the first."""
    kept = CoverSet(shelf)
    for row in rows:
        if not shelf.nothing[row] and kept.coverer(row) is None:
            for narrow in kept.covered(row):
                kept.discard(narrow)
            kept.add(row)
    found: list[int] = kept.rows().tolist()
    return found
