"""Whether a batch may hold values that an `EventBatch` refuses: found for all columns in one pass of a kernel.

Numbers are compared with the bounds of their domain, or of their kind (NaN, other years than 1 to 9999). Texts are looked
through for bytes that are not ASCII, and looked up if their domain lists values. What looks wrong is only a suspicion: under a
null anything may stand, and bytes that are not ASCII are mostly good UTF-8. The caller checks suspicious columns one by one.
"""

# Numba infers the kernel's types.
# mypy: allow-untyped-defs, allow-untyped-calls
# mypy: disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg,type-var,attr-defined"

from __future__ import annotations

from typing import Any, Final

import numba as nb
import numpy as np
import pyarrow as pa

from contentcast.matching.index.machine.raw_arrays import int_line, long_line, pointer
from contentcast.matching.index.values.dictionaries import UNKNOWN
from contentcast.matching.index.values.hash_tables import TextTable
from contentcast.model.space import Space
from contentcast.model.values.keys import key_of

_INTS, _FLOATS, _TEXTS = range(3)
_SORT, _VALUES, _OFFSETS, _FIRST, _COUNT, _LOW, _HIGH = range(7)
"""A column as the kernel gets it: sort, addresses of its values and of a text's offsets, first value and count, bounds."""
_YEARS: Final = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds since 1970 in the years 1 to 9999."""


class ColumnChecks:
    """The checks of one space."""

    def __init__(self, space: Space) -> None:
        self._rows: dict[str, tuple[int, int, int]] = {}
        """Sort and bounds of each attribute that the kernel looks at."""
        self._listed: dict[str, TextTable] = {}
        """The values of each text whose domain lists them."""
        self._always: list[str] = []
        """Attributes that the kernel cannot tell, by their domain or as lists: they are always checked one by one."""
        for name, attribute in space.items():
            kind = space.kinds[name]
            low, high = attribute.low, attribute.high
            if kind.element is not None or (attribute.values is not None and kind.name != "string"):
                self._always.append(name)
            elif kind.name == "timestamp" or (kind.name == "int" and attribute.has_domain):
                least, most = _YEARS if kind.name == "timestamp" else (-(2**63), 2**63 - 1)
                least, most = least if low is None else key_of(kind, low), most if high is None else key_of(kind, high)
                self._rows[name] = _INTS, least, most
            elif kind.name == "float":
                bounds = np.array([-np.inf if low is None else low, np.inf if high is None else high], np.float64)
                self._rows[name] = (_FLOATS, *bounds.view(np.int64).tolist())
            elif kind.name == "string" and low is None and high is None:
                self._rows[name] = _TEXTS, 0, 0
                if attribute.values is not None:
                    self._listed[name] = TextTable()
                    self._listed[name].add(list(dict.fromkeys(attribute.values)))
            elif attribute.has_domain:
                self._always.append(name)

    def suspects(self, records: pa.RecordBatch) -> list[str]:
        """The columns that may hold what is refused; they have the space's types."""
        columns: dict[str, Any] = {}
        rows, alive = [], []
        for name, column in zip(records.schema.names, records.columns, strict=True):
            row = self._rows.get(name)
            if row is None or not records.num_rows:
                continue
            buffers = column.buffers()
            if buffers[-1] is None:  # no text has a byte
                continue
            sort, low, high = row
            offsets = buffers[1].address if sort == _TEXTS else 0
            rows.append((sort, buffers[-1].address, offsets, column.offset, len(column), low, high))
            columns[name] = column
            alive.append(buffers)
        found = [name for name in self._always if name in records.schema.names]
        if rows:
            flags = np.zeros(len(rows), np.bool_)
            _look(np.array(rows, np.int64), flags)
            for (name, column), flag in zip(columns.items(), flags.tolist(), strict=True):
                if flag or (name in self._listed and _is_unlisted(self._listed[name], column)):
                    found.append(name)
        return found


def _is_unlisted(table: TextTable, column: Any) -> bool:
    """Has the column a text that the table does not know?"""
    codes = np.zeros(len(column), np.int64)
    table.look_up(column, UNKNOWN + 1, codes, 0)
    return bool((codes == UNKNOWN).any())


@nb.njit(nogil=True, cache=True)
def _look(columns, flags):
    """flags[i] says whether something in column i is suspicious."""
    for c in range(len(columns)):
        sort, first, count = columns[c, _SORT], columns[c, _FIRST], columns[c, _COUNT]
        wrong = False
        if sort == _INTS:
            low, high = columns[c, _LOW], columns[c, _HIGH]
            ints = long_line(columns[c, _VALUES] + 8 * first, count)
            for i in range(count):
                wrong |= (ints[i] < low) | (ints[i] > high)
        elif sort == _FLOATS:
            bounds = columns[c, _LOW : _HIGH + 1].view(np.float64)
            least, greatest = bounds[0], bounds[1]
            floats = nb.carray(pointer(columns[c, _VALUES] + 8 * first), (count,), np.float64)
            for i in range(count):
                wrong |= not ((floats[i] >= least) & (floats[i] <= greatest))
        else:
            offsets = int_line(columns[c, _OFFSETS] + 4 * first, count + 1)
            begin, size = np.int64(offsets[0]), np.int64(offsets[count]) - np.int64(offsets[0])
            text = nb.carray(pointer(columns[c, _VALUES] + begin), (size,), np.uint8)
            highest = np.uint8(0)
            for i in range(size):
                highest |= text[i]
            wrong = highest >= 128
        flags[c] = wrong
