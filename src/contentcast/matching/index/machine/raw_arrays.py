"""Arrays that stand at an address: nobody counts references to them, so whoever owns the memory keeps it.

For an array that it allocates or is given, Numba counts them wherever the array goes, and Python pays to unpack it.
"""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

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


@nb.njit(nogil=True, cache=True, inline="always")
def byte_line(address, count):
    return nb.carray(pointer(address), (count,), np.uint8)
