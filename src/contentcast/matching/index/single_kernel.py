"""The kernel of `single`: arrays made from the addresses in a header, then `kernels.match` on one event.

The header: largest cell, words, key columns; per key column 1 if float plus 2 if it has a grid; then address and two lengths
of each array of Groups and Cells and of each key column's grid.
"""

# mypy: ignore-errors

from __future__ import annotations

import numba as nb
import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from contentcast.matching.index import kernels
from contentcast.matching.index.kernels import ABSENT_KEY, Cells, Events, Groups


@intrinsic
def _pointer(typing_context, address):
    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@nb.njit(nogil=True, cache=True, inline="always")
def _line(header, at):
    return carray(_pointer(header[at]), (header[at + 1],), np.int64)


@nb.njit(nogil=True, cache=True, inline="always")
def _plane(header, at):
    return carray(_pointer(header[at]), (header[at + 1], header[at + 2]), np.int64)


@nb.njit(nogil=True, cache=True)
def match_one(header, numbers, out):
    """How many ids were written to `out`, or -1 if there was no room."""
    largest, words, columns = header[0], header[1], header[2]
    at = 3 + columns
    groups = Groups(
        _line(header, at), _line(header, at + 3), _line(header, at + 6), _line(header, at + 9), _line(header, at + 12),
        _line(header, at + 15), _line(header, at + 18), _line(header, at + 21), _line(header, at + 24), _line(header, at + 27),
    )  # fmt: skip
    at += 30
    cells = Cells(
        _line(header, at), _plane(header, at + 3), _plane(header, at + 6), _line(header, at + 9), _line(header, at + 12),
        _line(header, at + 15), _line(header, at + 18), _line(header, at + 21), _line(header, at + 24),
    )  # fmt: skip
    at += 27
    codes = numbers[:words].reshape((words, 1)).copy()
    keys = numbers[words:].reshape((columns, 1)).copy()
    ranks = np.empty((columns, 1), np.int64)
    floats = numbers.view(np.float64)
    for column in range(columns):
        if header[3 + column] & 1:
            number = floats[words + column]
            if number != number:
                keys[column, 0] = ABSENT_KEY
            else:
                bits = np.int64(0) if number == 0.0 else numbers[words + column]
                keys[column, 0] = bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFFFFFFFFFF)
        if header[3 + column] & 2:
            kernels.rank_keys(_line(header, at + 3 * column), keys[column], ranks[column])
    none = np.zeros((1, 1), np.int64)
    numberless = np.zeros(0, np.int32)
    events = Events(codes, keys, ranks, none, none, none, numberless, numberless)
    ends = np.zeros(1, np.int64)
    stamps = np.zeros(0, np.int64)
    if kernels.match(groups, cells, events, 0, 1, out, ends, largest, stamps) == 0:
        return np.int64(-1)
    return ends[0]
