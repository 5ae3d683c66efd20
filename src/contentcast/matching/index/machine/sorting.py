"""Sorting by digits (least significant digit first): of the ids of one event, and of places by their keys."""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

import numba as nb
import numpy as np

from contentcast.matching.index.machine.layout import INDEX
from contentcast.matching.index.machine.raw_arrays import address_of, long_line

ID_DIGIT_BITS = 10
"""Of a digit that ids are sorted by, at most."""


@nb.njit(nogil=True, cache=True)
def sort_ids(ids, count):
    """The first so many of the ids, in place: few by insertion, more by their digits."""
    if count <= 32:
        for i in range(1, count):
            each, k = ids[i], i
            while k > 0 and ids[k - 1] > each:
                ids[k] = ids[k - 1]
                k -= 1
            ids[k] = each
        return
    highest, bits = np.int64(0), 0
    for i in range(INDEX(count)):
        highest |= ids[i]
    while highest >> bits != 0:
        bits += 1
    digits = (bits + ID_DIGIT_BITS - 1) // ID_DIGIT_BITS
    wide = (bits + digits - 1) // digits if digits > 0 else 0  # all of about the same size
    mask = np.int64((1 << wide) - 1)
    starts = np.zeros(digits << ID_DIGIT_BITS, np.int32)
    for i in range(INDEX(count)):
        each = ids[i]
        for digit in range(digits):
            starts[INDEX(digit << ID_DIGIT_BITS | (each & mask))] += np.int32(1)
            each >>= wide
    here, there = address_of(ids), np.empty(count, np.int64)
    one, other = long_line(here, count), long_line(address_of(there), count)
    for digit in range(digits):
        begin, shift, at = INDEX(digit << ID_DIGIT_BITS), wide * digit, np.int32(0)
        for k in range(begin, begin + INDEX(mask + 1)):
            size = starts[k]
            starts[k] = at
            at += size
        for i in range(INDEX(count)):
            each = one[i]
            place = begin | INDEX((each >> shift) & mask)
            other[INDEX(starts[place])] = each
            starts[place] += np.int32(1)
        one, other = other, one
    if digits & 1:
        for i in range(INDEX(count)):
            other[i] = one[i]
    there[0] = 0  # used until now


KEY_DIGIT_BITS = 11


@nb.njit(nogil=True, cache=True)
def sorted_by_digit(keys, order, shift):
    """The order, an array of places, sorted by one digit of the keys there; what is equal stays in order."""
    starts = np.zeros((1 << KEY_DIGIT_BITS) + 1, np.int64)
    for key in keys:
        starts[((key >> shift) & ((1 << KEY_DIGIT_BITS) - 1)) + 1] += 1
    starts = np.cumsum(starts)
    found = np.empty_like(order)
    for place in order:
        digit = (keys[place] >> shift) & ((1 << KEY_DIGIT_BITS) - 1)
        found[starts[digit]] = place
        starts[digit] += 1
    return found
