"""Small numbers for the values that subscriptions compare with: the first step of every match.

An attribute that is tested for equality has a dictionary: 0 stands for absent, 1 for any value that no subscription names, 2
and up for those that some do. A code takes a few bits, and the codes of many attributes stand side by side in one 64-bit
word:

    word 0    | exchange 3 bits | symbol 11 bits |       symbol = 'IBM' AND exchange = 'NYSE' is one compare under a mask
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc"

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index.values.hash_tables import KeyTable, TextTable
from contentcast.model.errors import EventError
from contentcast.model.values.keys import KEYED, value_of
from contentcast.model.values.kinds import Kind, Value

ABSENT: Final = 0
UNKNOWN: Final = 1
FIRST: Final = 2
CODED_IN_PYTHON: Final = 256
"""Values that are looked up in Python: so many take less time there than the way to the kernel."""
ABSENT_KEY: Final = -(2**63)
"""The order key of an absent attribute: below every other, so that no range but an explicit one holds it."""

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Dictionary:
    """The codes of one attribute; grows, and never gives a code a second meaning."""

    kind: Kind
    shift: int = 0
    bits: int = 0
    word: int = 0
    codes: dict[Value, int] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    _table: KeyTable | TextTable | None = None

    @classmethod
    def of(cls, kind: Kind, values: list[Value], shift: int, bits: int, word: int) -> Dictionary:
        """A dictionary as it was."""
        return cls(kind, shift, bits, word, {value: code for code, value in enumerate(values, start=FIRST)}, list(values))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def capacity(self) -> int:
        return (1 << self.bits) - FIRST

    def code(self, value: Value) -> int:
        """The value's code, given to it now if it has none. Keyed kinds use the key as the value."""
        found = self.codes.get(value)
        if found is None:
            found = self.codes[value] = len(self.values) + FIRST
            self.values.append(value)
        return found

    def shrink(self, count: int) -> None:
        """Only the first values."""
        if len(self.values) > count:
            for value in self.values[count:]:
                del self.codes[value]
            del self.values[count:]
            self._table = None

    def codes_of(self, values: pa.Array | Ints) -> Ints:
        """The same for many values (or keys), of which none is absent."""
        if len(values) <= CODED_IN_PYTHON:
            return np.array([self.code(each) for each in values.tolist()], np.int64)
        table, codes = self.table(), np.zeros(len(values), np.int64)
        if isinstance(table, KeyTable):
            table.look_up(values, None, codes, 0)
        else:
            table.look_up(values, FIRST, codes, 0)
        new = np.flatnonzero(codes == UNKNOWN)
        if len(new):
            listed = values.take(pa.array(new)).to_pylist() if isinstance(values, pa.Array) else values[new].tolist()
            codes[new] = [self.code(each) for each in listed]
        return codes

    def look_up(self, column: pa.Array, word: Ints) -> None:
        """An event column's codes, put into their bits of the events' words."""
        table = self.table()
        if isinstance(table, KeyTable):
            table.look_up(column_keys(self.kind, column, mark_absent=False), column, word, self.shift)
        else:
            table.look_up(column, FIRST, word, self.shift)

    def table(self) -> KeyTable | TextTable:
        if self._table is None:
            self._table = KeyTable() if self.kind.name in KEYED else TextTable()
        done = self._table.count
        if done < len(self.values):
            if isinstance(self._table, KeyTable):
                self._table.add(np.array(self.values[done:], np.int64), FIRST + done)
            else:
                self._table.add(self.values[done:])
        return self._table

    def value(self, code: int) -> Value:
        return value_of(self.kind, self.values[code - FIRST]) if self.kind.name in KEYED else self.values[code - FIRST]


def column_keys(kind: Kind, column: pa.Array, *, mark_absent: bool = True) -> Ints:
    """An event column as order keys; absent ones get ABSENT_KEY, and an int that low moves up by one (see `entries`)."""
    if kind.name == "bool":
        raw = column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64)
    elif kind.name == "float":
        raw = float_column(column)
    else:
        raw = (
            np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]
            if len(column)
            else (np.zeros(0, np.int64))
        )
    if mark_absent:
        if kind.name == "int" and len(raw) and raw.min() == ABSENT_KEY:
            raw = np.maximum(raw, ABSENT_KEY + 1)
        if column.null_count:
            raw = np.where(column.is_valid().to_numpy(zero_copy_only=False), raw, ABSENT_KEY)
    return np.asarray(raw, np.int64)


def float_column(column: pa.Array) -> Ints:
    if not len(column):
        return np.zeros(0, np.int64)
    values = np.frombuffer(column.buffers()[1], np.float64)[column.offset : column.offset + len(column)]
    keys, strange = _float_keys(values)
    if strange >= 0:  # under a null anything may stand
        numbers = np.where(column.is_valid().to_numpy(zero_copy_only=False), values, 0.0)
        found = np.flatnonzero(np.isnan(numbers))
        if len(found):
            raise EventError(f"event {int(found[0])}: NaN is not a value; leave it null if it is unknown")
    return np.asarray(keys, np.int64)


@nb.njit(nogil=True, cache=True)
def _float_keys(values):
    """The keys, and whether there is a NaN (0) or none (-1)."""
    out = np.empty(len(values), np.int64)
    bits = values.view(np.int64)
    strange = np.int64(-1)
    for i in range(len(values)):
        b = bits[i]
        if values[i] == 0.0:
            b = np.int64(0)  # -0.0 is 0.0
        out[i] = b if b >= 0 else b ^ np.int64(0x7FFFFFFFFFFFFFFF)
        if values[i] != values[i]:
            strange = np.int64(0)
    return out, strange
