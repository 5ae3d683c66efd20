"""Arrays that stand at an address: nobody counts references to them, so whoever owns the memory keeps it.

For an array that it allocates or is given, Numba counts them wherever the array goes, and Python pays to unpack it.
"""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def address_of(typing_context, array):
    """Where an array's data begin."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate


@intrinsic
def pointer(typing_context, address):
    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@nb.njit(nogil=True, cache=True, inline="always")
def longs(address, rows, columns):
    """The int64 that stand at an address, as a plane."""
    return nb.carray(pointer(address), (rows, columns), np.int64)


@nb.njit(nogil=True, cache=True, inline="always")
def long_line(address, count):
    return nb.carray(pointer(address), (count,), np.int64)


@nb.njit(nogil=True, cache=True, inline="always")
def ints(address, rows, columns):
    return nb.carray(pointer(address), (rows, columns), np.int32)


@nb.njit(nogil=True, cache=True, inline="always")
def int_line(address, count):
    return nb.carray(pointer(address), (count,), np.int32)


def planes(columns: int, *wanted: tuple[int, Any]) -> tuple[list[int], list[Any]]:
    """Addresses and lengths of planes of so many rows each, and the planes, all in one piece of memory.

    Asking NumPy for an array's address takes a microsecond, so it is asked once.
    """
    sizes = [-(-rows * columns * np.dtype(kind).itemsize // 64) * 64 for rows, kind in wanted]
    piece = np.empty(max(1, sum(sizes)), np.uint8)
    address, begin = piece.__array_interface__["data"][0], 0
    found: list[int] = []
    views = []
    for (rows, kind), size in zip(wanted, sizes, strict=True):
        found += (address + begin, rows, columns)
        views.append(np.ndarray((rows, columns), kind, piece, begin))
        begin += size
    return found, views
