"""`kernels.match`, called with addresses: for each array that Python hands to a kernel it pays about a microsecond.

The arrays of an index are handed over once: their addresses and shapes stand in one array, the header, which is good until the
index changes; those of an encoded batch in another one. Whoever calls keeps the arrays alive.

    header   largest cell, ids that a cell writes at most, words, columns of codes and of keys; per column 1 if its values are
             floats; per scale its shift and steps; then address and two lengths of each array of Groups, Cells, Bits, scales
"""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba as nb
import numpy as np

from contentcast.matching.index import kernels
from contentcast.matching.index.codes import ABSENT_KEY
from contentcast.matching.index.layout import PLACE, Bits, Cells, Events, Groups
from contentcast.matching.index.memory import address_of, int_line, ints, long_line, longs
from contentcast.matching.index.scales import look_up_keys

FLOATS = 5
"""Where in the header the columns begin."""
MOST_NUMBERS = 1 << 20
"""In a header."""
ONE_NUMBERS = 4
"""Where in what is given for one event its words begin."""
TEXT_ARRAYS = 5
"""Of `Events`, those that tell which text constraints hold: what `match_one` is given the addresses of."""


def addresses(arrays: Iterable[Any]) -> list[int]:
    """Address and two lengths of each."""
    found: list[int] = []
    for array in arrays:
        assert array.flags.c_contiguous
        found += (array.__array_interface__["data"][0], array.shape[0], array.shape[1] if array.ndim > 1 else 1)
    return found


@nb.njit(nogil=True, cache=True, inline="always")
def _line(header, at):
    return long_line(header[at], header[at + 1])


@nb.njit(nogil=True, cache=True, inline="always")
def _short_line(header, at):
    return int_line(header[at], header[at + 1])


@nb.njit(nogil=True, cache=True, inline="always")
def _plane(header, at):
    return longs(header[at], header[at + 1], header[at + 2])


@nb.njit(nogil=True, cache=True, inline="always")
def _short_plane(header, at):
    return ints(header[at], header[at + 1], header[at + 2])


@nb.njit(nogil=True, cache=True, inline="always")
def _index_arrays(header):
    at = FLOATS + header[3] + header[4] + header[3]
    groups = Groups(
        _line(header, at), _line(header, at + 3), _line(header, at + 6), _line(header, at + 9), _line(header, at + 12),
        _line(header, at + 15), _line(header, at + 18), _line(header, at + 21), _line(header, at + 24), _line(header, at + 27),
        _line(header, at + 30),
    )  # fmt: skip
    at += 33
    cells = Cells(
        _short_line(header, at), _plane(header, at + 3), _plane(header, at + 6), _line(header, at + 9), _line(header, at + 12),
        _line(header, at + 15), _line(header, at + 18), _line(header, at + 21), _line(header, at + 24),
    )  # fmt: skip
    at += 27
    bits = Bits(
        _line(header, at), _line(header, at + 3), _line(header, at + 6), _line(header, at + 9), _line(header, at + 12),
        _line(header, at + 15), _line(header, at + 18), _line(header, at + 21), _plane(header, at + 24),
        _plane(header, at + 27), _plane(header, at + 30), _short_line(header, at + 33), _line(header, at + 36),
        _plane(header, at + 39), _line(header, at + 42),
    )  # fmt: skip
    return groups, cells, bits, at + 45


@nb.njit(nogil=True, cache=True)
def match_many(header, batch, begin, end, out, ends, streaming, stamps):
    """`kernels.match` for a batch, given as the addresses of its `Events`."""
    groups, cells, bits, _ = _index_arrays(header)
    events = Events(
        _plane(batch, 0), _short_plane(batch, 3), _short_plane(batch, 6), _plane(batch, 9), _plane(batch, 12),
        _line(batch, 15), _line(batch, 18), _short_line(batch, 21), _short_line(batch, 24), _line(batch, 27),
    )  # fmt: skip
    most = header[1] if streaming else np.int64(0)
    scratch = np.empty(kernels.scratch_size(groups, bits, events.most_texts[0], end - begin, header[0], most), np.int64)
    following = kernels.match(groups, cells, bits, events, begin, end, out, ends, header[0], most, stamps, scratch)
    scratch[0] = 0  # used until now
    return following


@nb.njit(nogil=True, cache=True)
def match_one(at):
    """How many ids one event has, written out ascending, or -1 if there was no room.

    At the address stand those of the header and of the room for ids, how many there is room for, the address of the addresses
    of the text answers, and the event's words, values and rows of text answers: to unpack arrays, or only more numbers, is a
    good part of the time of a quick event.
    """
    given = long_line(at, ONE_NUMBERS)
    header, out, numbers_at = long_line(given[0], MOST_NUMBERS), long_line(given[1], given[2]), at + 8 * ONE_NUMBERS
    words, coded, keyed = header[2], header[3], header[4]
    numbers = long_line(numbers_at, words + coded + keyed)
    groups, cells, bits, scales = _index_arrays(header)
    texts = long_line(given[3], 3 * TEXT_ARRAYS + 1)
    text_columns, most_texts = texts[3 * TEXT_ARRAYS], _line(texts, 12)
    size = kernels.scratch_size(groups, bits, most_texts[0], 1, header[0], 0)
    scratch = np.empty(size + 2 * coded + keyed + 2, np.int64)
    mine = address_of(scratch) + 8 * size
    keys, codes, ranks = mine, mine + 8 * (coded + keyed), mine + 8 * (coded + keyed) + 4 * coded
    ends, nothing = mine + 8 * (2 * coded + keyed), mine + 8 * (2 * coded + keyed + 1)
    key_line, floats = long_line(keys, coded + keyed), numbers.view(np.float64)
    for column in range(coded + keyed):
        key = numbers[words + column]
        if header[FLOATS + column]:
            number = floats[words + column]
            if number != number:
                key = np.int64(ABSENT_KEY)
            else:
                key = np.int64(0) if number == 0.0 else key
                key = key if key >= 0 else key ^ np.int64(0x7FFFFFFFFFFFFFFF)
        key_line[column] = key
    for column in range(coded):
        scale = scales + 6 * column
        look_up_keys(
            _plane(header, scale), _short_line(header, scale + 3), header[FLOATS + coded + keyed + column],
            long_line(keys + 8 * column, 1), int_line(codes + 4 * column, 1), int_line(ranks + 4 * column, 1),
        )  # fmt: skip
    events = Events(
        longs(numbers_at, words, 1), ints(codes, coded, 1), ints(ranks, coded, 1), longs(keys + 8 * coded, keyed, 1),
        longs(numbers_at + 8 * (words + coded + keyed), text_columns, 1), _line(texts, 0), _line(texts, 3),
        _short_line(texts, 6), _short_line(texts, 9), most_texts,
    )  # fmt: skip
    last, no_stamps = long_line(ends, 1), long_line(nothing, 0)
    if kernels.match(groups, cells, bits, events, 0, 1, out, last, header[0], 0, no_stamps, scratch) == 0:
        scratch[0] = 0
        return np.int64(-1)
    count = last[0]
    scratch[0] = 0  # used until now
    _sort(out, count)
    return count


DIGIT_BITS = 10
"""Of a digit that ids are sorted by, at most."""


@nb.njit(nogil=True, cache=True)
def _sort(ids, count):
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
    for i in range(PLACE(count)):
        highest |= ids[i]
    while highest >> bits != 0:
        bits += 1
    digits = (bits + DIGIT_BITS - 1) // DIGIT_BITS
    wide = (bits + digits - 1) // digits if digits > 0 else 0  # all of about the same size
    mask = np.int64((1 << wide) - 1)
    starts = np.zeros(digits << DIGIT_BITS, np.int32)
    for i in range(PLACE(count)):
        each = ids[i]
        for digit in range(digits):
            starts[PLACE(digit << DIGIT_BITS | (each & mask))] += np.int32(1)
            each >>= wide
    here, there = address_of(ids), np.empty(count, np.int64)
    one, other = long_line(here, count), long_line(address_of(there), count)
    for digit in range(digits):
        begin, shift, at = PLACE(digit << DIGIT_BITS), wide * digit, np.int32(0)
        for k in range(begin, begin + PLACE(mask + 1)):
            size = starts[k]
            starts[k] = at
            at += size
        for i in range(PLACE(count)):
            each = one[i]
            place = begin | PLACE((each >> shift) & mask)
            other[PLACE(starts[place])] = each
            starts[place] += np.int32(1)
        one, other = other, one
    if digits & 1:
        for i in range(PLACE(count)):
            other[i] = one[i]
    there[0] = 0  # used until now
