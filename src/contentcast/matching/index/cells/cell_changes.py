"""The kernels that change cells and tables, except that entries come (`appending`); `store` calls them.

An entry that goes is replaced by its cell's last one.
"""

# Numba infers the types, and the callers in `store` are typed.
# mypy: ignore-errors

from __future__ import annotations

import numba as nb
import numpy as np

from contentcast.matching.index.cells.id_table import IDS_AHEAD, find_id, first_of, forget
from contentcast.matching.index.machine.hashing import spread
from contentcast.matching.index.machine.layout import (
    ABSENT_CODE,
    BASE,
    CAPACITY,
    CELL_ROW,
    COUNT,
    GREATEST_CODE,
    GROUP,
    OUTPUT,
    PLAIN,
)
from contentcast.matching.index.machine.simd import in_range, prefetch


@nb.njit(nogil=True, cache=True)
def put_keys(slots, table, size, shift, keys, cells):
    """Keys that are not in the table yet, with the cells they have."""
    for i in range(len(keys)):
        slot = spread(keys[i], shift)
        while slots[table + slot, 1] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[table + slot, 0] = keys[i]
        slots[table + slot, 1] = cells[i]


@nb.njit(nogil=True, cache=True)
def find_entry(cells, cell, wanted, begin):
    """Where in the cell, from `begin` on, an entry with this id stands, and where in its run (-1: it has none); or (-1, -1)."""
    base, found = (
        cells.cell[cell, BASE],
        _find_number(cells.arena, cells.cell[cell, BASE], begin, cells.cell[cell, COUNT], wanted),
    )
    if cells.cell[cell, PLAIN] == 0 and wanted >= 0:  # others have no runs
        for k in range(begin, found if found >= 0 else cells.cell[cell, COUNT]):
            tagged = np.int64(cells.arena[base + k])
            if tagged < 0 and (~tagged) & 1 == 0:
                run = (~tagged) >> 1
                for i in range(cells.run_length[run]):
                    if cells.run_ids[cells.run_start[run] + i] == wanted:
                        return k, np.int64(i)
    return found, np.int64(-1)


@nb.njit(nogil=True, cache=True, inline="always")
def _find_number(arena, base, begin, end, wanted):
    """The first place from `begin` to `end` behind the base with this number, or -1; the arena goes on behind it (SLACK)."""
    for k in range(begin, end, 16):
        same = in_range(arena, base + k, base + k, wanted)
        if same != 0:
            at = k
            while same & 1 == 0:
                same >>= 1
                at += 1
            return at if at < end else np.int64(-1)
    return np.int64(-1)


@nb.njit(nogil=True, cache=True)
def remove_entry(cells, cell, width, k, in_run):
    """Take one id out: the last of the run, or of the cell, takes its place."""
    base, count, room = cells.cell[cell, BASE], cells.cell[cell, COUNT], cells.cell[cell, CAPACITY]
    cells.cell[cell, OUTPUT] -= 1
    if in_run >= 0:
        run = (~np.int64(cells.arena[base + k])) >> 1
        start, length = cells.run_start[run], cells.run_length[run]
        cells.run_ids[start + in_run] = cells.run_ids[start + length - 1]
        cells.run_length[run] = length - 1
        if length > 1:
            return
    for column in range(width):
        cells.arena[base + column * room + k] = cells.arena[base + column * room + count - 1]
    cells.cell[cell, COUNT] = count - 1


@nb.njit(nogil=True, cache=True)
def remove_ids(cells, id_table, widths, ids, wanted, slots):
    """Take out all entries of the ids, `wanted` being these as their entries carry them; `widths`: columns of each group.

    The slots that they have in the bitmaps are written to `slots`; returns how many.
    """
    count = 0
    for i in range(len(ids)):
        slot = find_id(id_table, ids[i])
        at = first_of(id_table, slot)
        while at >= 0:
            cell = id_table.cell[at]
            if cell >= 0:
                k, in_run = find_entry(cells, cell, wanted[i], np.int64(0))
                if k >= 0:  # else it was never put there (`Filing.insert`)
                    remove_entry(cells, cell, widths[cells.cell[cell, GROUP]], k, in_run)
            elif cell < -1:
                slots[count] = ~cell - 1
                count += 1
            at = id_table.next[at]
        forget(id_table, slot)
    return count


@nb.njit(nogil=True, cache=True)
def locate_entries(cells, id_table, ids, wanted, owner, cell_of, inside):
    """Where the entries of the ids stand: of each the number of its id, its cell (as references have it) and place in it.

    `wanted`: the ids as their entries carry them. Returns how many there are.
    """
    count = 0
    for i in range(len(ids)):
        at = first_of(id_table, find_id(id_table, ids[i]))
        while at >= 0:
            if id_table.cell[at] != -1:
                owner[count], cell_of[count], inside[count] = i, id_table.cell[at], 0
                count += 1
            at = id_table.next[at]
    for k in range(count):
        _fetch_cell(cells, cell_of, count, k)
        if cell_of[k] < 0:
            continue
        begin, other = np.int64(0), k - 1
        while other >= 0 and owner[other] == owner[k]:  # a cell that holds several of its entries comes as often
            if cell_of[other] == cell_of[k]:
                begin = inside[other] + 1
                break
            other -= 1
        inside[k], _ = find_entry(cells, cell_of[k], wanted[owner[k]], begin)
    return count


@nb.njit(nogil=True, cache=True, inline="always")
def _fetch_cell(cells, cell_of, count, k):
    """Have the row of one of the next cells, and the ids of one before it, fetched from memory."""
    ahead, near = cell_of[min(k + IDS_AHEAD, count - 1)], cell_of[min(k + IDS_AHEAD // 2, count - 1)]
    if ahead >= 0:
        prefetch(cells.cell, CELL_ROW * ahead)
    if near >= 0:
        prefetch(cells.arena, cells.cell[near, BASE])
        prefetch(cells.arena, cells.cell[near, BASE] + 16)


@nb.njit(nogil=True, cache=True)
def recode(cells, mine, column, old, new):
    """Put new order codes for old ones into a column of these cells; what leaves a bound open stays."""
    for i in range(len(mine)):
        low = cells.cell[mine[i], BASE] + column * cells.cell[mine[i], CAPACITY]
        for k in range(low, low + cells.cell[mine[i], COUNT]):
            code = cells.arena[k]
            if ABSENT_CODE + 1 < code < GREATEST_CODE:
                cells.arena[k] = new[np.searchsorted(old, code)]
