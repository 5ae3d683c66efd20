"""The predicates of one space with their boxes, by row: what several cover sets choose from.

    shelf.add(table)        rows 0, 1, 2         boxes are made once, by columns
    CoverSet(shelf).add(1)                       a set holds row numbers

Rule: a row keeps its predicate. Rows are not given to others; who has many dead rows makes a new shelf.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.covering.boxes import Ints, boxes_of
from contentcast.model.predicates.covering import covers
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space

MASK_BITS: Final = 63
"""Attributes that a mask holds; those behind are compared by their boxes alone."""


class Shelf:
    """Columns stand behind each other in memory (order F): a search reads one attribute of many rows."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.count = 0
        width = len(space.names)
        self.low = np.empty((16, width), np.int64, order="F")
        self.high = np.empty((16, width), np.int64, order="F")
        self.required = np.empty(16, np.int64)
        """Bit k: attribute k must be present."""
        self.single = np.empty(16, np.int64)
        """Bit k: attribute k must have one certain value, or one of those that share its key."""
        self.exact = np.empty(16, bool)
        self.nothing = np.empty(16, bool)
        self._sources: list[tuple[int, PredicateTable]] = []
        self._starts: list[int] = []
        self._predicates: dict[int, Predicate] = {}

    def add(self, table: PredicateTable) -> range:
        """The rows of its predicates, in order."""
        rows = range(self.count, self.count + len(table))
        self._grow(rows.stop)
        boxes = boxes_of(table.widened(self.space))
        span = slice(rows.start, rows.stop)
        self.low[span], self.high[span] = boxes.low, boxes.high
        masked = min(MASK_BITS, self.low.shape[1])
        bits = np.int64(1) << np.arange(masked, dtype=np.int64)
        required = ~boxes.absent[:, :masked]
        self.required[span] = required @ bits
        self.single[span] = (required & (boxes.low == boxes.high)[:, :masked]) @ bits
        # Beyond the mask nobody asks who may be absent, so such boxes decide nothing by themselves.
        self.exact[span] = boxes.exact & boxes.absent[:, masked:].all(axis=1)
        self.nothing[span] = boxes.nothing
        self._starts.append(rows.start)
        self._sources.append((rows.start, table))
        self.count = rows.stop
        return rows

    def _grow(self, wanted: int) -> None:
        have = len(self.exact)
        if wanted <= have:
            return
        size = max(wanted, 2 * have)
        for name in ("low", "high", "required", "single", "exact", "nothing"):
            old: npt.NDArray[np.generic] = getattr(self, name)
            new = np.empty((size, *old.shape[1:]), old.dtype, order="F")
            new[: self.count] = old[: self.count]
            setattr(self, name, new)

    def predicate(self, row: int) -> Predicate:
        found = self._predicates.get(row)
        if found is None:
            start, table = self._sources[int(np.searchsorted(self._starts, row, side="right")) - 1]
            found = self._predicates[row] = table.widened(self.space)[row - start]
        return found

    def covers(self, wide: int, narrow: int) -> bool:
        """For two rows whose boxes lie in each other."""
        return bool(self.exact[wide]) or covers(self.predicate(wide), self.predicate(narrow))

    def within(self, rows: Ints, outer: int) -> Ints:
        """Those of the rows whose box lies in that of the row `outer`, which must cover them by all that boxes tell."""
        needed = self.required[outer]
        rows = rows[(self.required[rows] & needed) == needed]
        for at in self._telling(outer):
            if not len(rows):
                break
            rows = rows[(self.low[rows, at] >= self.low[outer, at]) & (self.high[rows, at] <= self.high[outer, at])]
        return rows

    def around(self, rows: Ints, inner: int) -> Ints:
        """Those of the rows in whose box that of the row `inner` lies; what must be present was asked before."""
        for at in range(self.low.shape[1]):
            if not len(rows):
                break
            rows = rows[(self.low[rows, at] <= self.low[inner, at]) & (self.high[rows, at] >= self.high[inner, at])]
        return rows

    def _telling(self, row: int) -> list[int]:
        """The attributes by number, those first by which most others differ: single values, then what must be present."""
        single, required = int(self.single[row]), int(self.required[row])
        width = self.low.shape[1]
        return (
            sorted(range(width), key=lambda at: (not (single >> at) & 1, not (required >> at) & 1))
            if required
            else [*range(width)]
        )
