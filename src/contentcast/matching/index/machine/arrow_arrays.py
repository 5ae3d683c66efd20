"""Arrow's arrays where they stand, as kernels read them: the C data interface.

Source: the Arrow C data interface, https://arrow.apache.org/docs/format/CDataInterface.html, struct ArrowArray. Everything that
a kernel wants to know of a record batch stands in one such struct, and to have it made takes two microseconds. To ask pyarrow
for each column and for each of its buffers took forty, which was most of the time of a small batch.

    a batch       length 3 ... children -> issue, price
    issue         length 3, nulls 1, offset 0, buffers -> valid 101, offsets 0 3 3 6, bytes IBMSUN

Rule: the caller keeps what `exported` returns for as long as a kernel reads; the types of the columns were looked at before.
"""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

import ctypes
from typing import Any

import numba as nb
import numpy as np

from contentcast.matching.index.machine.raw_arrays import byte_line, long_line

_NULL_COUNT, _OFFSET, _BUFFERS, _CHILDREN, _FIELDS = 1, 2, 5, 6, 7
"""Places in the struct, which has pointers and 64-bit numbers only."""

_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype, _address.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def exported(data: Any) -> tuple[int, Any]:
    """The address of the struct of an array or a record batch, and what keeps it there."""
    held = data.__arrow_c_array__()[1]
    return _address(held, b"arrow_array"), held


@nb.njit(nogil=True, cache=True, inline="always")
def column_at(batch, number):
    """The address of the struct of a column of a batch."""
    return long_line(long_line(batch, _FIELDS)[_CHILDREN], number + 1)[number]


@nb.njit(nogil=True, cache=True, inline="always")
def offset_of(column):
    """The place of the first value in the buffers. Of no column, 0: as of one where all values are there from the first on."""
    return long_line(column, _FIELDS)[_OFFSET] if column != 0 else np.int64(0)


@nb.njit(nogil=True, cache=True, inline="always")
def buffer_of(column, number):
    """The address of a buffer, 0 if there is none."""
    return long_line(long_line(column, _FIELDS)[_BUFFERS], number + 1)[number]


@nb.njit(nogil=True, cache=True, inline="always")
def validity(column, count):
    """The bits of the values that are there, from the first byte of the buffer on; empty if all are there."""
    bits, size = np.int64(0), np.int64(0)
    if column != 0 and long_line(column, _FIELDS)[_NULL_COUNT] != 0:
        bits = buffer_of(column, 0)
        size = (offset_of(column) + count + 7) >> 3 if bits != 0 else size
    return byte_line(bits, size)
