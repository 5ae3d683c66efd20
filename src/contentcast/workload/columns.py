"""Arrow columns of numbers, names and predicates, for a million rows without a loop over rows.

Rule: a number's text is exact (ints, and hundredths written as two ints), so it reads back as the very value that
events carry. A clause that a row does not have is null, and `conjunction` leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from contentcast.workload.dice import Integers, Truths

Column: TypeAlias = "pa.Array[Any]"

# The stubs know these only for lists and bytes, and the compute functions only for arguments that are all columns.
_array: Final[Any] = pa.array
_buffer: Final[Any] = pa.py_buffer
_compute: Final[Any] = pc

_NO_TEXT: Final = pa.scalar(None, pa.string())
_HUNDREDTHS: Final[Column] = _array([f"{part:02d}" for part in range(100)])


# --- values


def column(values: NDArray[Any], where: Truths | None = None) -> Column:
    """The values as a column; null where `where` says no."""
    made: Column = _array(values, mask=None if where is None else ~where)
    return made


def hundredths(units: Integers) -> Column:
    """1225 as 12.25: the double nearest to what `hundredths_text` writes."""
    return column(units / np.float64(100))


def strings(names: Sequence[str]) -> Column:
    made: Column = _array(list(names), pa.string())
    return made


def named(names: Sequence[str] | Column, which: Integers, where: Truths | None = None) -> Column:
    """`names[which]` as a plain string column; null where `where` says no."""
    known: Any = names if isinstance(names, pa.Array) else strings(names)
    taken: Column = known.take(column(which, where))
    return taken


def blobs(content: NDArray[np.uint8]) -> Column:
    """One value of bytes for each row of the array."""
    rows, size = content.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    buffers = [None, _buffer(offsets), _buffer(np.ascontiguousarray(content))]
    made: Column = pa.Array.from_buffers(pa.binary(), rows, buffers)
    return made


# --- texts


def integer_text(numbers: Integers) -> Column:
    return column(numbers).cast(pa.string())


def hundredths_text(units: Integers) -> Column:
    """1225 as 12.25; for values from 0."""
    return joined(integer_text(units // 100), ".", named(_HUNDREDTHS, units % 100))


def numbered(prefix: str, numbers: Integers) -> Column:
    """desk-1, desk-2, ..."""
    return joined(prefix, integer_text(numbers))


def spelled(syllables: Sequence[str], digits: Sequence[Integers]) -> Column:
    """Words of one syllable for each column of digits."""
    known = strings(syllables)
    return joined(*(named(known, digit) for digit in digits))


def joined(*pieces: str | Column) -> Column:
    made: Column = _compute.binary_join_element_wise(*pieces, "")
    return made


def either(where: Truths, then: Column, otherwise: str) -> Column:
    made: Column = _compute.if_else(column(where), then, otherwise)
    return made


# --- predicates


def clause(where: Truths, *pieces: str | Column) -> Column:
    """The pieces joined in the rows `where` they apply, null elsewhere."""
    made: Column = _compute.if_else(column(where), joined(*pieces), _NO_TEXT)
    return made


def conjunction(clauses: Sequence[Column]) -> Column:
    """The clauses of each row between ANDs; TRUE where a row has none."""
    # With "skip", Arrow drops a row whose pieces are all null (seen with 26.0), so no such row may get there.
    some = reduce(_compute.or_, map(_compute.is_valid, clauses))
    first = _compute.if_else(some, clauses[0], "TRUE")
    made: Column = _compute.binary_join_element_wise(first, *clauses[1:], " AND ", null_handling="skip")
    return made
