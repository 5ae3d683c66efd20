"""Order codes: the keys that an attribute's ranges begin and end with, as 32-bit numbers in the same order.

A scale knows all such keys, its points. A point has a code; an event's key gets the code of its point, or one more than that of
the point below it if it lies between two, so comparing codes is comparing keys, in half the bytes:

    points   ABSENT     8.30      8.70          price BETWEEN 8.30 AND 8.70   is   -40 <= code <= 900
    codes    -2^31      -40       900           8.30 -> -40    8.50 -> -39    8.70 -> 900    9 -> 901    absent -> -2^31

Codes have gaps, so that later points fit in between; where a gap is used up all codes are given anew, and the columns that hold
them are rewritten (`Store.recode`). Points are never given up. The ends of a range that is open on one side are no points.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc"

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.codes import ABSENT_KEY
from contentcast.matching.index.value_tables import frozen

ABSENT_CODE: Final = -(2**31)
LEAST_CODE: Final = ABSENT_CODE + 1
"""Of a key below all points; as the beginning of a range: any value."""
GREATEST_CODE: Final = 2**31 - 1
"""As the end of a range: any value."""
_MARGIN: Final = 4
"""Codes kept free at both ends: a key below all points, and above, has a code of its own."""
MOST_HEADS: Final = 1 << 16
HEADS_PER_POINT: Final = 4

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


@dataclass(slots=True)
class Scale:
    """`points` ascending, the first being ABSENT_KEY; `codes[i]` that of points[i]."""

    points: Ints = field(default_factory=lambda: np.array([ABSENT_KEY]))
    codes: Codes = field(default_factory=lambda: np.array([ABSENT_CODE], np.int32))
    _heads: tuple[Codes, int] | None = None
    _ranks: tuple[Ints | None, Codes] | None = None

    def add(self, keys: Ints) -> tuple[Codes, Codes] | None:
        """Make points of the keys. If codes had to change: the old codes, ascending, and the new ones in their place."""
        keys = np.unique(keys)
        at = np.searchsorted(self.points, keys)
        new = keys[self.points[np.minimum(at, len(self.points) - 1)] != keys]
        if not len(new):
            return None
        self._heads = self._ranks = None
        at = np.searchsorted(self.points, new)
        below = self.codes[at - 1].astype(np.int64)
        above = np.append(self.codes, GREATEST_CODE - _MARGIN).astype(np.int64)[at]
        below = np.maximum(below, ABSENT_CODE + _MARGIN)
        together = np.searchsorted(at, at, "right") - np.searchsorted(at, at, "left")
        place = np.arange(len(at)) - np.searchsorted(at, at, "left") + 1
        step = (above - below) // (together + 1)
        points = np.insert(self.points, at, new)
        if (step < 2).any():
            kept = np.insert(np.ones(len(self.points), np.bool_), at, False)
            room = (GREATEST_CODE - ABSENT_CODE - 2 * _MARGIN) // len(points)
            codes = (ABSENT_CODE + _MARGIN + room * np.arange(len(points))).astype(np.int32)
            codes[0] = ABSENT_CODE
            old, self.points, self.codes = self.codes, points, codes
            return old, codes[kept]
        codes = np.insert(self.codes, at, (below + place * step).astype(np.int32))
        self.points, self.codes = points, codes
        return None

    def codes_of(self, keys: Ints) -> Codes:
        """The codes of points."""
        found: Codes = self.codes[np.searchsorted(self.points, keys)]
        return found

    def key_of(self, code: int) -> int:
        return int(self.points[np.searchsorted(self.codes, code)])

    def look_up(self, keys: Ints, codes: Codes, ranks: Codes, grid_ranks: Codes) -> None:
        """An event column's codes, and its cells in the grid if there is one (`grid_ranks`: that of each point)."""
        heads, shift = self.heads()
        look_up_keys(frozen(self.points), frozen(self.codes), frozen(grid_ranks), heads, shift, frozen(keys), codes, ranks)

    def heads(self) -> tuple[Codes, int]:
        """How many points there are up to the beginning of each of many equal stretches, where searching begins."""
        if self._heads is None:
            first, last = (int(self.points[1]), int(self.points[-1])) if len(self.points) > 1 else (0, 0)
            wanted = min(MOST_HEADS, HEADS_PER_POINT * len(self.points))
            shift = max(0, (last - first).bit_length() - (wanted.bit_length() - 1))
            steps = np.arange(((last - first) >> shift) + 2, dtype=np.uint64) << np.uint64(shift)
            bounds = (np.array([first]).view(np.uint64) + steps).view(np.int64)  # wraps as it should
            bounds[-1] = last
            counts = np.searchsorted(self.points, bounds, "right").astype(np.int32)
            self._heads = frozen(counts), shift
        return self._heads

    def ranks(self, grid: Ints | None) -> Codes:
        """The cell of the grid, which is cut at points, that begins with each point or holds it; none without a grid."""
        if self._ranks is None or self._ranks[0] is not grid:
            found = np.zeros(0, np.int32) if grid is None else np.searchsorted(grid, self.points, "right").astype(np.int32)
            found[:1] = -1
            self._ranks = grid, found
        return self._ranks[1]


@nb.njit(nogil=True, cache=True)
def look_up_keys(points, point_codes, point_ranks, heads, shift, keys, codes, ranks):
    count = len(points)
    first = points[1] if count > 1 else np.int64(0)
    last = points[count - 1]
    ranked = len(point_ranks) > 0
    for i in range(len(keys)):
        key = keys[i]
        if key >= last:
            at = np.int64(count - 1)
        elif key < first:
            at = np.int64(0)
        else:
            stretch = np.int64(np.uint64(key - first) >> np.uint64(shift))  # wraps as it should
            at = np.int64(heads[stretch]) - 1
            size = np.int64(heads[stretch + 1]) - at
            while size > 1:  # no branch but a conditional move: the compiler keeps it so
                half = size >> 1
                at += half if points[at + half] <= key else 0
                size -= half
        codes[i] = point_codes[at] + np.int32(points[at] != key)
        if ranked:
            rank = point_ranks[at]
            ranks[i] = rank if rank >= 0 else np.int32(0 if key != ABSENT_KEY else -1)
