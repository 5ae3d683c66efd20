"""Which cells a subscription's entries are in: a table of ids that grows without ever being moved at once.

    id -> slot -> head of a chain -> cell, cell, ...

When half of the slots are used a larger table is made, and the smaller one is kept until all ids have moved over, some with
every id that comes; until then both are looked into. Ids stand in the order of their hashes in both, so those that move fill
the larger one from its beginning to its end, and one that comes stays behind with those whose turn is later: of the memory,
which is only set aside, a little more is used each time. (To move a million ids at once took 0.1 s, as long as matching five
batches; and while those that came went anywhere in the larger table, nearly each of the first thousands had to wait for the
system to clear its page.)
"""

# Numba infers the types, and the callers are typed.
# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg"

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.lanes import prefetch
from contentcast.matching.index.room import roomy, zeros
from contentcast.matching.index.small_steps import spread

Ints = npt.NDArray[np.int64]

AHEAD = 16
"""How many later the id is looked up whose slot is fetched now."""
FREE, GONE = 0, -1
SHIFT, OLD_SHIFT, MOVED, EACH, SLOTS, CHAINED, KNOWN = 0, 1, 2, 3, 4, 5, 6
"""Of the state: of both tables 64 less the bits of a slot's number; how many slots of the old one have moved, and how many do
with an id that comes; slots in use, or promised to ids that have not moved yet; cells in the chains; ids.
"""
STATE_ROW = 8
LEAST_SLOTS: Final = 64
LEAST_EACH: Final = 16


class References(NamedTuple):
    """A cell below -1 is ~(a slot of the bitmaps + 1). A free slot is all zeros, so that a large table takes no memory until
    it is used. A slot's number goes on from the table to the old one, which is empty if all have moved.
    """

    id: np.ndarray
    head: np.ndarray  # int32: FREE, GONE, or one more than its place in the chains
    old_id: np.ndarray
    old_head: np.ndarray  # int32
    cell: np.ndarray  # int32
    next: np.ndarray  # int32
    state: np.ndarray


def no_references() -> References:
    state = np.zeros(STATE_ROW, np.int64)
    state[SHIFT] = shift_of(LEAST_SLOTS)
    empty = np.zeros(0, np.int32)
    return References(
        np.zeros(LEAST_SLOTS, np.int64), np.zeros(LEAST_SLOTS, np.int32), np.zeros(0, np.int64), empty, empty, empty, state
    )


def fitted(references: References, ids: int, cells: int) -> References:
    """With room for so many ids more, and for so many cells that they refer to; some ids move on, if they have to.

    All memory is there before anything is written: if there is not enough, the references are as they were.
    """
    state = references.state
    used = int(state[CHAINED])
    longer = [roomy(chain, used, used + cells) for chain in (references.cell, references.next)]
    references = references._replace(cell=longer[0], next=longer[1])
    if 2 * (int(state[SLOTS]) + ids) > len(references.id):
        known, size = int(state[KNOWN]), LEAST_SLOTS
        while size < 3 * (known + ids):
            size *= 2
        larger = zeros((size,), np.int64), zeros((size,), np.int32)
        move_some(references, len(references.old_id))
        each = max(LEAST_EACH, -(-len(references.id) // max(1, size // 2 - known - ids)))
        state = state.copy()
        state[[SHIFT, OLD_SHIFT, MOVED, EACH, SLOTS]] = shift_of(size), state[SHIFT], 0, each, known
        references = References(*larger, *references[:2], *references[4:6], state)
    if len(references.old_id):
        move_some(references, ids * int(state[EACH]))
        if state[MOVED] == len(references.old_id):
            references = references._replace(old_id=references.old_id[:0].copy(), old_head=references.old_head[:0].copy())
    return references


def shift_of(size: int) -> int:
    """By which `spread` finds the first slot of a key in a table of so many."""
    return 64 - (size.bit_length() - 1)


def ids_of(references: References) -> Ints:
    """All ids, in no particular order."""
    return np.concatenate([references.id[references.head > 0], references.old_id[references.old_head > 0]])


def some_ids(references: References, most: int) -> Ints:
    """So many of the ids, or all: the first in the order of their hashes, which says nothing of what they ask for."""
    found = np.empty(min(most, int(references.state[KNOWN])), np.int64)
    _list_some(references.id, references.head, _list_some(references.old_id, references.old_head, 0, found), found)
    return found


@nb.njit(nogil=True, cache=True)
def _list_some(ids, head, count, found):
    for slot in range(len(ids)):
        if count == len(found):
            break
        if head[slot] > 0:
            found[count] = ids[slot]
            count += 1
    return count


def known_among(references: References, ids: Ints) -> Any:
    """Which of the ids are there."""
    found = np.empty(len(ids), np.bool_)
    _are_known(references, ids, found)
    return found


def count_again(references: References) -> None:
    """What a kernel has written may not have been taken note of."""
    state = references.state
    waiting = int(np.count_nonzero(references.old_head > 0))
    state[KNOWN] = np.count_nonzero(references.head > 0) + waiting
    state[SLOTS] = np.count_nonzero(references.head != FREE) + waiting
    state[CHAINED] = max(state[CHAINED], references.head.max(initial=0), references.old_head.max(initial=0))


@nb.njit(nogil=True, cache=True)
def find_id(references, wanted):
    """The slot of an id, or -1."""
    slot = spread(wanted, references.state[SHIFT])
    while references.head[slot] != FREE:
        if references.head[slot] != GONE and references.id[slot] == wanted:
            return slot
        slot = (slot + 1) & (len(references.id) - 1)
    if len(references.old_id) > 0:
        slot = spread(wanted, references.state[OLD_SHIFT])
        while references.old_head[slot] != FREE:
            if references.old_head[slot] != GONE and references.old_id[slot] == wanted:
                return slot + len(references.id)
            slot = (slot + 1) & (len(references.old_id) - 1)
    return np.int64(-1)


@nb.njit(nogil=True, cache=True)
def first_of(references, slot):
    """Where the chain of what is in the slot begins."""
    size = len(references.id)
    return np.int64(references.head[slot] if slot < size else references.old_head[slot - size]) - 1


@nb.njit(nogil=True, cache=True)
def forget(references, slot):
    """The id there is gone."""
    size = len(references.id)
    if slot < size:
        references.head[slot] = GONE
    else:
        references.old_head[slot - size] = GONE
    references.state[KNOWN] -= 1


@nb.njit(nogil=True, cache=True)
def _fetch_slot(references, ids, i):
    """Have what `find_id` will need for one of the next ids fetched from memory: they lie anywhere."""
    ahead = ids[min(i + AHEAD, len(ids) - 1)]
    slot = spread(ahead, references.state[SHIFT])
    prefetch(references.head, slot)
    prefetch(references.id, slot)
    if len(references.old_id) > 0:
        slot = spread(ahead, references.state[OLD_SHIFT])
        prefetch(references.old_head, slot)
        prefetch(references.old_id, slot)


@nb.njit(nogil=True, cache=True)
def _are_known(references, ids, found):
    for i in range(len(ids)):
        _fetch_slot(references, ids, i)
        found[i] = find_id(references, ids[i]) >= 0


@nb.njit(nogil=True, cache=True)
def count_references(references, ids):
    """How many references the ids have together; -1 - i if ids[i] is not there."""
    count = 0
    for i in range(len(ids)):
        _fetch_slot(references, ids, i)
        slot = find_id(references, ids[i])
        if slot < 0:
            return -1 - i
        at = first_of(references, slot)
        while at >= 0:
            count += 1
            at = references.next[at]
    return count


FIT, TOO_LARGE, KNOWN_ALREADY, TWICE = 0, 1, 2, 3


@nb.njit(nogil=True, cache=True)
def first_unfit(references, ids, end):
    """The place of the first id that cannot be added, and why: it is none (below 0, or `end` and above), or already there, or
    comes twice.
    """
    size, bits = 16, 4
    while size < 2 * len(ids):
        size, bits = 2 * size, bits + 1
    seen = np.full(size, -1, np.int64)
    for i in range(len(ids)):
        each = ids[i]
        _fetch_slot(references, ids, i)
        if each < 0 or each >= end:
            return i, TOO_LARGE
        if find_id(references, each) >= 0:
            return i, KNOWN_ALREADY
        slot = spread(each, 64 - bits)
        while seen[slot] >= 0:
            if seen[slot] == each:
                return i, TWICE
            slot = (slot + 1) & (size - 1)
        seen[slot] = each
    return -1, FIT


@nb.njit(nogil=True, cache=True)
def add_references(references, ids, cells):
    """One reference per (id, cell), for which there is room (`fitted`); cell -1 only makes the id known."""
    state, size = references.state, len(references.id)
    for i in range(len(ids)):
        at = state[CHAINED]
        slot = find_id(references, ids[i])
        references.cell[at] = cells[i]
        if slot < 0:
            references.next[at] = -1
            slot = _new_slot(references, ids[i])
            if slot < size:
                references.id[slot] = ids[i]
            else:
                references.old_id[slot - size] = ids[i]
            state[SLOTS] += 1
            state[KNOWN] += 1
        else:
            references.next[at] = first_of(references, slot)
        if slot < size:
            references.head[slot] = at + 1
        else:
            references.old_head[slot - size] = at + 1
        state[CHAINED] = at + 1


@nb.njit(nogil=True, cache=True)
def _new_slot(references, new):
    """Where an id goes that is not there: among those that have not moved yet if it would be one of them."""
    state, size, old_size = references.state, len(references.id), len(references.old_id)
    if old_size > 0:
        slot = spread(new, state[OLD_SHIFT])
        if slot >= state[MOVED]:
            while references.old_head[slot] > 0:
                slot = (slot + 1) & (old_size - 1)
            if slot >= state[MOVED]:  # else it has come round to where nobody looks any more
                return slot + size
    slot = spread(new, state[SHIFT])
    while references.head[slot] > 0:
        slot = (slot + 1) & (size - 1)
    return slot


@nb.njit(nogil=True, cache=True)
def move_some(references, count):
    """Have the ids of so many more slots of the old table move over; chains stay where they are."""
    state, size = references.state, len(references.id)
    end = min(state[MOVED] + count, len(references.old_id))
    for slot in range(state[MOVED], end):
        head = references.old_head[slot]
        if head > 0:
            to = spread(references.old_id[slot], state[SHIFT])
            while references.head[to] > 0:
                to = (to + 1) & (size - 1)
            references.id[to] = references.old_id[slot]
            references.head[to] = head
            references.old_head[slot] = GONE  # not free: others may stand behind it
    state[MOVED] = end
