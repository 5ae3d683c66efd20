"""All subscriptions of a store, a few at a time, while others come and go: those of a cell together, cell after cell.

    cell 0: 4 1 7      cell 1: 9 (2 5 8)      ->      7 1 4, 8 5 2 9, then those in the bitmaps, then those without entries

A cell, and a run of ids in it, is walked from its end, since what takes the place of one that goes is the last one there, which
has been passed. What comes stands behind it, or in a cell that is new: the walk may pass it or not.
"""

# Numba infers the kernel's types.
# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg"

from __future__ import annotations

from typing import Final

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.cells.id_table import IDS_AHEAD, SHIFT, find_id
from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.machine.hashing import spread
from contentcast.matching.index.machine.layout import BASE, COUNT
from contentcast.matching.index.machine.simd import prefetch

Ints = npt.NDArray[np.int64]

_CELL, _LEFT, _LEFT_IN_RUN = range(3)
_ALL: Final = 2**62
PASSING: Final = 8
"""For each id that is wanted, so many are looked at at most."""


class CellCursor:
    """Through what a store holds now, but for what `seen` knows by then."""

    def __init__(self, store: Store, seen: Store) -> None:
        self._store, self._seen = store, seen
        self._cells, self._at = store.cell_count, np.array([0, _ALL, _ALL])
        self._slots, self._slot = store.bitmaps.used, 0
        self._barren = np.array(list(store.barren), np.int64)

    @property
    def done(self) -> bool:
        return bool(self._at[_CELL] == self._cells) and self._slot == self._slots and not len(self._barren)

    def next_ids(self, most: int) -> tuple[Ints, int]:
        """So many ids, and how many were looked at; there are fewer if most have been seen, or at the end. Some may come twice,
        and some have gone.
        """
        store, found = self._store, np.empty(most, np.int64)
        if self._at[_CELL] < self._cells:
            cells = store.cells(found[:0], found[:0])
            count, looks = _list_some(cells, self._seen.id_table, self._cells, self._at, found, PASSING * most)
            return found[:count], looks
        if self._slot < self._slots:
            slots = slice(self._slot, min(self._slot + most, self._slots))
            self._slot = slots.stop
            found = store.bitmaps.ids[slots].astype(np.int64)
            several = found < 0
            found[several] = store.several[~found[several] >> 1]
        else:
            found, self._barren = self._barren[:most], self._barren[most:]
        return found[~self._seen.knows(found)], len(found)


@nb.njit(nogil=True, cache=True)
def _list_some(cells, seen, end, at, found, most):
    """Go on from there, to write as many ids as there is room for, having looked at no more than so many; returns how many are
    written, and how many were looked at.
    """
    count = looks = 0
    while at[_CELL] < end and count < len(found) and looks < most:
        cell = at[_CELL]
        if at[_LEFT] > cells.cell[cell, COUNT]:  # the cell has just begun, or so many have gone
            at[_LEFT], at[_LEFT_IN_RUN] = cells.cell[cell, COUNT], _ALL
        if at[_LEFT] == 0:
            at[_CELL], at[_LEFT] = cell + 1, _ALL
            looks += 1
            continue
        place, left = cells.cell[cell, BASE] + at[_LEFT] - 1, np.int64(0)
        tagged = np.int64(cells.arena[place])
        prefetch(seen.head, spread(np.int64(cells.arena[max(place - IDS_AHEAD, 0)]), seen.state[SHIFT]))
        if tagged >= 0 or ~tagged & 1 == 1:
            found[count] = tagged if tagged >= 0 else cells.several[~tagged >> 1]
            count += find_id(seen, found[count]) < 0
            looks += 1
        else:
            run = ~tagged >> 1
            left = min(at[_LEFT_IN_RUN], cells.run_length[run])
            while left > 0 and count < len(found) and looks < most:
                left -= 1
                found[count] = cells.run_ids[cells.run_start[run] + left]
                count += find_id(seen, found[count]) < 0
                looks += 1
        at[_LEFT] -= left == 0
        at[_LEFT_IN_RUN] = left if left > 0 else _ALL
    return count, looks
