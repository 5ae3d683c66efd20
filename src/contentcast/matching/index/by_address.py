"""`kernels.match`, called with addresses: for each array that Python hands to a kernel it pays about a microsecond.

The arrays of an index are handed over once: their addresses and shapes stand in one array, the header, which is good until the
index changes; those of an encoded batch in another one. Whoever calls keeps the arrays alive.

    header   largest cell, ids that a cell writes at most, words, columns of codes and of keys; per column 1 if its values are
             floats; per scale its shift; then address and two lengths of each array of Groups, Cells, Bits and of each scale
"""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from contentcast.matching.index import kernels
from contentcast.matching.index.codes import ABSENT_KEY
from contentcast.matching.index.layout import Bits, Cells, Events, Groups
from contentcast.matching.index.scales import look_up_keys

FLOATS = 5
"""Where in the header the columns begin."""


def addresses(arrays: Iterable[Any]) -> list[int]:
    """Address and two lengths of each."""
    found: list[int] = []
    for array in arrays:
        assert array.flags.c_contiguous
        found += (array.__array_interface__["data"][0], array.shape[0], array.shape[1] if array.ndim > 1 else 1)
    return found


@intrinsic
def _pointer(typing_context, address):
    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@nb.njit(nogil=True, cache=True, inline="always")
def _line(header, at):
    return carray(_pointer(header[at]), (header[at + 1],), np.int64)


@nb.njit(nogil=True, cache=True, inline="always")
def _short_line(header, at):
    return carray(_pointer(header[at]), (header[at + 1],), np.int32)


@nb.njit(nogil=True, cache=True, inline="always")
def _plane(header, at):
    return carray(_pointer(header[at]), (header[at + 1], header[at + 2]), np.int64)


@nb.njit(nogil=True, cache=True, inline="always")
def _short_plane(header, at):
    return carray(_pointer(header[at]), (header[at + 1], header[at + 2]), np.int32)


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
        _line(header, at + 15), _plane(header, at + 18), _plane(header, at + 21), _short_line(header, at + 24),
        _line(header, at + 27),
    )  # fmt: skip
    return groups, cells, bits, at + 30


@nb.njit(nogil=True, cache=True)
def match_many(header, batch, begin, end, out, ends, streaming, stamps):
    """`kernels.match` for a batch, given as the addresses of its `Events`."""
    groups, cells, bits, _ = _index_arrays(header)
    events = Events(
        _plane(batch, 0), _short_plane(batch, 3), _short_plane(batch, 6), _plane(batch, 9), _plane(batch, 12),
        _line(batch, 15), _line(batch, 18), _short_line(batch, 21), _short_line(batch, 24), _line(batch, 27),
    )  # fmt: skip
    most = header[1] if streaming else np.int64(0)
    return kernels.match(groups, cells, bits, events, begin, end, out, ends, header[0], most, stamps)


@nb.njit(nogil=True, cache=True)
def match_one(header, numbers, out):
    """How many ids one event's words and values have, written to `out`, ascending, or -1 if there was no room."""
    words, coded, keyed = header[2], header[3], header[4]
    groups, cells, bits, at = _index_arrays(header)
    keys = numbers[words:].reshape((coded + keyed, 1)).copy()
    floats = numbers.view(np.float64)
    for column in range(coded + keyed):
        if header[FLOATS + column]:
            number = floats[words + column]
            if number != number:
                keys[column, 0] = ABSENT_KEY
            else:
                bits_of = np.int64(0) if number == 0.0 else numbers[words + column]
                keys[column, 0] = bits_of if bits_of >= 0 else bits_of ^ np.int64(0x7FFFFFFFFFFFFFFF)
    codes = np.empty((coded, 1), np.int32)
    ranks = np.empty((coded, 1), np.int32)
    for column in range(coded):
        scale = at + 12 * column
        look_up_keys(
            _line(header, scale), _short_line(header, scale + 3), _short_line(header, scale + 6),
            _short_line(header, scale + 9), header[FLOATS + coded + keyed + column], keys[column], codes[column], ranks[column],
        )  # fmt: skip
    none = np.zeros((1, 1), np.int64)
    starts = np.zeros(1, np.int64)
    numberless = np.zeros(0, np.int32)
    events = Events(
        numbers[:words].reshape((words, 1)).copy(), codes, ranks, keys[coded:], none, starts, starts, numberless, numberless,
        np.zeros(1, np.int64),
    )  # fmt: skip
    ends = np.zeros(1, np.int64)
    stamps = np.zeros(0, np.int64)
    if kernels.match(groups, cells, bits, events, 0, 1, out, ends, header[0], 0, stamps) == 0:
        return np.int64(-1)
    _sort(out, ends[0])
    return ends[0]


@nb.njit(nogil=True, cache=True)
def _sort(ids, count):
    """The first so many of the ids, in place: few by insertion, more by their digits, eleven bits each."""
    if count <= 32:
        for i in range(1, count):
            each, k = ids[i], i
            while k > 0 and ids[k - 1] > each:
                ids[k] = ids[k - 1]
                k -= 1
            ids[k] = each
        return
    highest = np.int64(0)
    for i in range(count):
        highest |= ids[i]
    here, there = ids, np.empty(count, np.int64)
    starts = np.empty(2048, np.int64)
    shift = 0
    while highest >> shift != 0:
        starts[:] = 0
        for i in range(count):
            starts[(here[i] >> shift) & 2047] += 1
        at = np.int64(0)
        for digit in range(2048):
            size = starts[digit]
            starts[digit] = at
            at += size
        for i in range(count):
            digit = (here[i] >> shift) & 2047
            there[starts[digit]] = here[i]
            starts[digit] += 1
        here, there = there, here
        shift += 11
    if (shift // 11) & 1:
        for i in range(count):
            ids[i] = here[i]
