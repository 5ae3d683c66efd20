"""The table of ids: in which cells the entries of a subscription are.

    id -> slot -> head of a chain -> cell, cell, ...

    slot     0   1   2   3        id 7 has entries in the cells 4 and 2, id 9 is known and has none
    id       .   7   .   9        cell    2  4 -1
    head     0   2   0   3        next   -1  0 -1

A slot is found by hashing (`hashing`). When half of the slots are used, all ids move to a table of twice the size or more at
once, which takes about a tenth of a second for a million ids.
Rule: all memory is there before anything is written, so a change that finds no memory leaves the table as it was.
"""

# Numba infers the types, and the callers are typed.
# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg"

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine.hashing import shift_of, spread
from contentcast.matching.index.machine.reserved import reserved_zeros, with_capacity
from contentcast.matching.index.machine.simd import prefetch

Ints = npt.NDArray[np.int64]

IDS_AHEAD = 16
"""Prefetch distance: the slot that is fetched now is the one of the id that many places later."""
FREE, GONE = 0, -1
SHIFT, SLOTS, CHAINED, KNOWN = 0, 1, 2, 3
"""Places in the state: 64 less the bits of a slot's number; slots in use or gone; cells in the chains; ids."""
STATE_ROW = 8
LEAST_SLOTS: Final = 64


class IdTable(NamedTuple):
    """A free slot is all zeros, so that a large table takes no memory until it is used."""

    id: np.ndarray
    head: np.ndarray  # int32: FREE, GONE, or one more than its place in the chains
    cell: np.ndarray  # int32: a cell; -1: the id is only known; below -1: ~(a slot of the bitmaps + 1)
    next: np.ndarray  # int32: the next place of the chain, or -1
    state: np.ndarray


def empty_id_table() -> IdTable:
    state = np.zeros(STATE_ROW, np.int64)
    state[SHIFT] = shift_of(LEAST_SLOTS)
    empty = np.zeros(0, np.int32)
    return IdTable(np.zeros(LEAST_SLOTS, np.int64), np.zeros(LEAST_SLOTS, np.int32), empty, empty, state)


def with_room_for(table: IdTable, ids: int, cells: int) -> IdTable:
    """The table with room for more ids, and for more cells that they refer to."""
    state = table.state
    used = int(state[CHAINED])
    longer = [with_capacity(chain, used, used + cells) for chain in (table.cell, table.next)]
    table = table._replace(cell=longer[0], next=longer[1])
    if 2 * (int(state[SLOTS]) + ids) > len(table.id):
        known, size = int(state[KNOWN]), LEAST_SLOTS
        while size < 3 * (known + ids):
            size *= 2
        state = state.copy()
        state[SHIFT], state[SLOTS] = shift_of(size), known
        larger = table._replace(id=reserved_zeros((size,), np.int64), head=reserved_zeros((size,), np.int32), state=state)
        _rehash(table, larger)
        return larger
    return table


@nb.njit(nogil=True, cache=True)
def _rehash(old, new):
    """Put all ids of the old table into the new one, which is empty; chains stay where they are."""
    for slot in range(len(old.id)):
        if old.head[slot] > 0:
            to = spread(old.id[slot], new.state[SHIFT])
            while new.head[to] > 0:
                to = (to + 1) & (len(new.id) - 1)
            new.id[to], new.head[to] = old.id[slot], old.head[slot]


def all_ids(table: IdTable) -> Ints:
    """All ids, in no particular order."""
    return np.asarray(table.id[table.head > 0])


def some_ids(table: IdTable, most: int) -> Ints:
    """At most `most` of the ids: the first in the order of their hashes, which says nothing of what they ask for."""
    found = np.empty(min(most, int(table.state[KNOWN])), np.int64)
    _list_some(table.id, table.head, found)
    return found


@nb.njit(nogil=True, cache=True)
def _list_some(ids, head, found):
    count = 0
    for slot in range(len(ids)):
        if count == len(found):
            break
        if head[slot] > 0:
            found[count] = ids[slot]
            count += 1


def which_are_known(table: IdTable, ids: Ints) -> Any:
    """A flag for each id: is it in the table?"""
    found = np.empty(len(ids), np.bool_)
    _are_known(table, ids, found)
    return found


def recount(table: IdTable) -> None:
    """Count again what a kernel has written when its caller was broken off before taking note of it."""
    state = table.state
    state[KNOWN], state[SLOTS] = np.count_nonzero(table.head > 0), np.count_nonzero(table.head != FREE)
    state[CHAINED] = max(state[CHAINED], table.head.max(initial=0))


@nb.njit(nogil=True, cache=True)
def find_id(table, wanted):
    """The slot of an id, or -1."""
    slot = spread(wanted, table.state[SHIFT])
    while table.head[slot] != FREE:
        if table.head[slot] != GONE and table.id[slot] == wanted:
            return slot
        slot = (slot + 1) & (len(table.id) - 1)
    return np.int64(-1)


@nb.njit(nogil=True, cache=True)
def first_of(table, slot):
    """Where the chain of the id in this slot begins."""
    return np.int64(table.head[slot]) - 1


@nb.njit(nogil=True, cache=True)
def forget(table, slot):
    """The id in this slot is gone."""
    table.head[slot] = GONE
    table.state[KNOWN] -= 1


@nb.njit(nogil=True, cache=True)
def _fetch_slot(table, ids, i):
    """Have the slot of one of the next ids fetched from memory, since slots lie anywhere."""
    slot = spread(ids[min(i + IDS_AHEAD, len(ids) - 1)], table.state[SHIFT])
    prefetch(table.head, slot)
    prefetch(table.id, slot)


@nb.njit(nogil=True, cache=True)
def _are_known(table, ids, found):
    for i in range(len(ids)):
        _fetch_slot(table, ids, i)
        found[i] = find_id(table, ids[i]) >= 0


@nb.njit(nogil=True, cache=True)
def count_references(table, ids):
    """How many references the ids have together; -1 - i if ids[i] is not in the table."""
    count = 0
    for i in range(len(ids)):
        _fetch_slot(table, ids, i)
        slot = find_id(table, ids[i])
        if slot < 0:
            return -1 - i
        at = first_of(table, slot)
        while at >= 0:
            count += 1
            at = table.next[at]
    return count


FIT, TOO_LARGE, KNOWN_ALREADY, TWICE = 0, 1, 2, 3


@nb.njit(nogil=True, cache=True)
def first_unfit(table, ids, end):
    """The place of the first id that cannot be added, and why: it lies outside 0 to `end`, is known already, or comes twice."""
    size, bits = 16, 4
    while size < 2 * len(ids):
        size, bits = 2 * size, bits + 1
    seen = np.full(size, -1, np.int64)
    for i in range(len(ids)):
        each = ids[i]
        _fetch_slot(table, ids, i)
        if each < 0 or each >= end:
            return i, TOO_LARGE
        if find_id(table, each) >= 0:
            return i, KNOWN_ALREADY
        slot = spread(each, 64 - bits)
        while seen[slot] >= 0:
            if seen[slot] == each:
                return i, TWICE
            slot = (slot + 1) & (size - 1)
        seen[slot] = each
    return -1, FIT


@nb.njit(nogil=True, cache=True)
def add_references(table, ids, cells):
    """One reference per (id, cell), for which there is room (`with_room_for`); cell -1 only makes the id known."""
    state = table.state
    for i in range(len(ids)):
        at = state[CHAINED]
        slot = find_id(table, ids[i])
        table.cell[at], table.next[at] = cells[i], -1
        if slot >= 0:
            table.next[at] = first_of(table, slot)
        else:
            slot = spread(ids[i], state[SHIFT])
            while table.head[slot] > 0:
                slot = (slot + 1) & (len(table.id) - 1)
            table.id[slot] = ids[i]
            state[SLOTS] += table.head[slot] == FREE
            state[KNOWN] += 1
        table.head[slot] = at + 1
        state[CHAINED] = at + 1
