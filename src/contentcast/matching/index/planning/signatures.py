"""Which entries go together: those with the same gate, level and signature (`entry_rows`), numbered by a table.

known    [gate and level, signature ..., number]      one row for each slot; number -1: free
"""

# Numba infers the types, and the callers in `filing` and `active_plan` are typed.
# mypy: ignore-errors

from __future__ import annotations

import numba as nb
import numpy as np

from contentcast.matching.index.machine.hashing import mixed_with
from contentcast.matching.index.machine.layout import GATE_LEVEL


@nb.njit(nogil=True, cache=True)
def _slot_of(known, routes, signatures, i):
    """Of a table of [gate and level, signature ..., number], the slot of what an entry has, or the free one for it."""
    mixed = mixed_with(np.int64(0), routes[i, GATE_LEVEL])
    wide = signatures.shape[1]
    for k in range(wide):
        mixed = mixed_with(mixed, signatures[i, k])
    slot = (mixed >> 20) & (len(known) - 1)
    while known[slot, wide + 1] >= 0:
        same = known[slot, 0] == routes[i, GATE_LEVEL]
        for k in range(wide):
            same &= known[slot, 1 + k] == signatures[i, k]
        if same:
            break
        slot = (slot + 1) & (len(known) - 1)
    return slot


@nb.njit(nogil=True, cache=True)
def put_number(known, routes, signatures, i, number):
    """Give a number to what this entry has, which has none yet."""
    slot, wide = _slot_of(known, routes, signatures, i), signatures.shape[1]
    known[slot, 0], known[slot, wide + 1] = routes[i, GATE_LEVEL], number
    for k in range(wide):
        known[slot, 1 + k] = signatures[i, k]


@nb.njit(nogil=True, cache=True)
def numbers_of(known, routes, signatures, begin, numbers):
    """The numbers of what the entries from `begin` on have; stops at one that has none and returns it. -1: in the bitmaps."""
    wide = signatures.shape[1]
    for i in range(begin, len(routes)):
        numbers[i] = -1
        if routes[i, GATE_LEVEL] >= 0:
            number = known[_slot_of(known, routes, signatures, i), wide + 1]
            if number < 0:
                return i
            numbers[i] = number
    return len(routes)


@nb.njit(nogil=True, cache=True)
def kinds_among(routes, signatures):
    """The different gates, levels and signatures there are outside the bitmaps: of each an entry that has it, and how many."""
    size, wide = 64, signatures.shape[1]
    while size < 2 * len(routes):
        size *= 2
    known = np.full((size, wide + 2), -1, np.int64)
    examples, counts = np.empty(len(routes), np.int64), np.zeros(len(routes), np.int64)
    count = 0
    for i in range(len(routes)):
        if routes[i, GATE_LEVEL] < 0:
            continue
        number = known[_slot_of(known, routes, signatures, i), wide + 1]
        if number < 0:
            number = count
            put_number(known, routes, signatures, i, number)
            examples[count] = i
            count += 1
        counts[number] += 1
    return examples[:count], counts[:count]
