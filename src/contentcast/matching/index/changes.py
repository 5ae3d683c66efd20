"""The kernels that change cells, tables and references; `store` and `engine` call them.

A cell that is full moves to the arena's end with twice the room; an entry that goes is replaced by its cell's last one.
"""

# Numba infers the types, and the callers in `store` and `engine` are typed.
# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from contentcast.matching.index.kernels import spread
from contentcast.matching.index.layout import (
    ABSENT_CODE,
    BASE,
    COUNT,
    GREATEST_CODE,
    GROUP,
    OUTPUT,
    PLAIN,
    ROOM,
    SLACK,
)


@nb.njit(nogil=True, cache=True)
def place_numbers(entry, numbers, place, otherwise, out):
    """out[place[entry[i]]] = numbers[i], where the entry has a place; otherwise what is said."""
    out[:] = otherwise
    for i in range(len(entry)):
        if place[entry[i]] >= 0:
            out[place[entry[i]]] = numbers[i]


@nb.njit(nogil=True, cache=True)
def append_entries(cells, rows, cell_of, columns, lengths, free):
    """Append each row to its cell, rows of one cell coming one after the other.

    A new cell gets room for what comes, a full one moves to the arena's end with twice the room. Returns the new end and how
    many were appended: if the arena is too small, the caller grows it and goes on with the rest.
    """
    width = columns.shape[0]
    done = 0
    for i in range(len(rows)):
        cell = cell_of[i]
        count, room = cells.cell[cell, COUNT], cells.cell[cell, ROOM]
        if count == room:
            wider = max(np.int64(4), np.int64(room) * 2)
            if room == 0:
                wider = 1
                while i + wider < len(rows) and cell_of[i + wider] == cell:
                    wider += 1
            if free + wider * width + SLACK > len(cells.arena):
                break
            base = cells.cell[cell, BASE]
            for column in range(width):
                for k in range(count):
                    cells.arena[free + column * wider + k] = cells.arena[base + column * room + k]
            cells.cell[cell, BASE] = free
            cells.cell[cell, ROOM] = wider
            room = wider
            free += wider * width
        base = cells.cell[cell, BASE]
        for column in range(width):
            cells.arena[base + column * room + count] = columns[column, rows[i]]
        cells.cell[cell, COUNT] = count + 1
        cells.cell[cell, OUTPUT] += lengths[rows[i]]
        if columns[0, rows[i]] < 0:
            cells.cell[cell, PLAIN] = 0
        done += 1
    return free, done


@nb.njit(nogil=True, cache=True)
def find_or_add_cells(cells, group_of, key_of, group, hashed, table, size, shift, keys, next_cell, found):
    """The cell of each key in a group's table, hashed or direct; new keys get the next cells. Returns the one after these."""
    slots = cells.table
    for i in range(len(keys)):
        key = keys[i]
        slot = table + (spread(key, shift) if hashed else key)
        while hashed and slots[slot, 1] >= 0 and slots[slot, 0] != key:
            slot = table + ((slot - table + 1) & (size - 1))
        if slots[slot, 1] < 0:
            if hashed:
                slots[slot, 0] = key
            slots[slot, 1] = next_cell
            group_of[next_cell], key_of[next_cell] = group, key
            cells.cell[next_cell, PLAIN], cells.cell[next_cell, GROUP] = 1, group
            next_cell += 1
        found[i] = slots[slot, 1]
    return next_cell


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
    base = cells.cell[cell, BASE]
    for k in range(begin, cells.cell[cell, COUNT]):
        tagged = np.int64(cells.arena[base + k])
        if tagged == wanted:
            return k, np.int64(-1)
        if tagged < 0 and (~tagged) & 1 == 0:
            run = (~tagged) >> 1
            for i in range(cells.run_length[run]):
                if cells.run_ids[cells.run_start[run] + i] == wanted:
                    return k, np.int64(i)
    return np.int64(-1), np.int64(-1)


@nb.njit(nogil=True, cache=True)
def remove_entry(cells, cell, width, k, in_run):
    """Take one id out: the last of the run, or of the cell, takes its place."""
    base, count, room = cells.cell[cell, BASE], cells.cell[cell, COUNT], cells.cell[cell, ROOM]
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
def remove_ids(cells, references, shift, widths, ids, wanted, slots):
    """Take out all entries of the ids, `wanted` being these as their entries carry them; `widths`: columns of each group.

    The slots that they have in the bitmaps are written to `slots`; returns how many.
    """
    count = 0
    for i in range(len(ids)):
        slot = find_id(references, shift, ids[i])
        at = references.head[slot]
        while at >= 0:
            cell = references.cell[at]
            if cell >= 0:
                k, in_run = find_entry(cells, cell, wanted[i], 0)
                remove_entry(cells, cell, widths[cells.cell[cell, GROUP]], k, in_run)
            elif cell < -1:
                slots[count] = ~cell - 1
                count += 1
            at = references.next[at]
        references.head[slot] = -2
    return count


@nb.njit(nogil=True, cache=True)
def places_of(cells, references, shift, ids, wanted, owner, cell_of, inside):
    """Where the entries of the ids stand: of each the number of its id, its cell (as references have it) and place in it.

    `wanted`: the ids as their entries carry them. Returns how many there are.
    """
    count = 0
    for i in range(len(ids)):
        first = references.head[find_id(references, shift, ids[i])]
        at = first
        while at >= 0:
            cell = references.cell[at]
            if cell != -1:
                owner[count], cell_of[count], inside[count] = i, cell, 0
                if cell >= 0:
                    k, _ = find_entry(cells, cell, wanted[i], 0)
                    other = first
                    while other != at:  # a cell that holds several of them comes as often
                        if references.cell[other] == cell:
                            k, _ = find_entry(cells, cell, wanted[i], k + 1)
                        other = references.next[other]
                    inside[count] = k
                count += 1
            at = references.next[at]
    return count


@nb.njit(nogil=True, cache=True)
def count_references(references, shift, ids):
    """How many references the ids have together; -1 - i if ids[i] is not there."""
    count = 0
    for i in range(len(ids)):
        slot = find_id(references, shift, ids[i])
        if slot < 0:
            return -1 - i
        at = references.head[slot]
        while at >= 0:
            count += 1
            at = references.next[at]
    return count


@nb.njit(nogil=True, cache=True)
def recode(cells, mine, column, old, new):
    """Put new order codes for old ones into a column of these cells; what leaves a bound open stays."""
    for i in range(len(mine)):
        low = cells.cell[mine[i], BASE] + column * cells.cell[mine[i], ROOM]
        for k in range(low, low + cells.cell[mine[i], COUNT]):
            code = cells.arena[k]
            if ABSENT_CODE + 1 < code < GREATEST_CODE:
                cells.arena[k] = new[np.searchsorted(old, code)]


class References(NamedTuple):
    """Subscription id -> its cells: an open table of ids with the head of a chain of cells.

    A cell below -1 is ~(a slot of the bitmaps + 1).
    """

    id: np.ndarray
    head: np.ndarray  # -1: never used, -2: removed
    cell: np.ndarray
    next: np.ndarray


@nb.njit(nogil=True, cache=True)
def find_id(references, shift, wanted):
    """The slot of an id, or -1."""
    slot = spread(wanted, shift)
    while True:
        head = references.head[slot]
        if head == -1:
            return np.int64(-1)
        if head != -2 and references.id[slot] == wanted:
            return slot
        slot = (slot + 1) & (len(references.id) - 1)


@nb.njit(nogil=True, cache=True)
def are_known(references, shift, ids, found):
    """Which of the ids are there."""
    for i in range(len(ids)):
        found[i] = find_id(references, shift, ids[i]) >= 0


@nb.njit(nogil=True, cache=True)
def first_known(references, shift, ids):
    """The position of the first id that is already there, or -1."""
    for i in range(len(ids)):
        if find_id(references, shift, ids[i]) >= 0:
            return i
    return -1


@nb.njit(nogil=True, cache=True)
def add_references(references, shift, ids, cells, at):
    """One reference per (id, cell); new ids get a slot; cell -1 only makes the id known. Returns how many slots were new."""
    new = 0
    for i in range(len(ids)):
        slot = find_id(references, shift, ids[i])
        if slot < 0:
            slot = spread(ids[i], shift)
            while references.head[slot] >= 0:
                slot = (slot + 1) & (len(references.id) - 1)
            references.id[slot] = ids[i]
            references.head[slot] = at + i
            references.next[at + i] = -1
            new += 1
        else:
            references.next[at + i] = references.head[slot]
            references.head[slot] = at + i
        references.cell[at + i] = cells[i]
    return new


@nb.njit(nogil=True, cache=True)
def move_references(old, references, shift):
    """Fill a larger table with the ids of the old one; chains stay where they are."""
    for slot in range(len(old.id)):
        if old.head[slot] >= 0:
            to = spread(old.id[slot], shift)
            while references.head[to] >= 0:
                to = (to + 1) & (len(references.id) - 1)
            references.id[to] = old.id[slot]
            references.head[to] = old.head[slot]


DIGIT_BITS = 11


@nb.njit(nogil=True, cache=True)
def sorted_by_digit(keys, order, shift):
    """The order, an array of places, sorted by one digit of the keys there; what is equal stays in order."""
    starts = np.zeros((1 << DIGIT_BITS) + 1, np.int64)
    for key in keys:
        starts[((key >> shift) & ((1 << DIGIT_BITS) - 1)) + 1] += 1
    starts = np.cumsum(starts)
    found = np.empty_like(order)
    for place in order:
        digit = (keys[place] >> shift) & ((1 << DIGIT_BITS) - 1)
        found[starts[digit]] = place
        starts[digit] += 1
    return found
