"""Hash tables that turn the values of an event column into codes. They read Arrow's own buffers.

There are two tables: `KeyTable` for 64-bit keys (numbers, times) and `TextTable` for bytes (texts). Both look up a whole column
and write the codes into the words of the events. A table grows with its dictionary.

`pyarrow.compute.index_in` does the same and was used before. It builds its table again in each call; for short texts it took
four times as long.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg"

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index.machine.arrow_arrays import buffer_of, exported, offset_of, validity
from contentcast.matching.index.machine.raw_arrays import byte_line, int_line, long_line, longs
from contentcast.matching.index.machine.simd import load_eight

Ints = npt.NDArray[np.int64]

UNKNOWN = np.int64(1)
_SPREAD = np.int64(-7046029254386353131)  # 2^64 / golden ratio: spreads neighbouring keys over the table
_PADDING = 8
_INDEX = np.uint64
_LEAST_SLOTS = 64
_LONG_TEXT = np.int64(-(2**63))
DIRECT_SPAN = 4096
"""If all keys lie in a span of this many numbers, they are looked up in an array by position, not by hash."""


def _slots_for(count: int) -> int:
    """The number of slots: at most a fourth is full, because a second look costs more than the memory."""
    return max(_LEAST_SLOTS, 1 << (8 * count - 1).bit_length())


@dataclass(slots=True)
class KeyTable:
    """Codes of 64-bit keys. Code 0 marks an empty slot. direct[key - least] is the code of a key, if all keys lie close."""

    keys: Ints = field(default_factory=lambda: np.zeros(_LEAST_SLOTS, np.int64))
    codes: Any = field(default_factory=lambda: np.zeros(_LEAST_SLOTS, np.int32))
    direct: Any = field(default_factory=lambda: np.zeros(0, np.int32))
    least: int = 0
    count: int = 0
    _numbers: list[int] | None = None

    def numbers(self) -> list[int]:
        """The table as kernels get it: its arrays by address. Good until keys are added; the table keeps the arrays."""
        if self._numbers is None:
            at = [each.__array_interface__["data"][0] for each in (self.keys, self.codes, self.direct)]
            self._numbers = [at[0], len(self.keys), at[1], at[2], len(self.direct), self.least]
        return self._numbers

    def add(self, keys: Ints, first_code: int) -> None:
        """Add new keys with the codes from `first_code` on. If it fails, the keys do not count and must be added again."""
        count, new_codes = self.count + len(keys), np.arange(first_code, first_code + len(keys), dtype=np.int32)
        self._numbers = None
        if 4 * count > len(self.keys):
            held, size = self.codes > 0, _slots_for(count)
            slots, codes = np.zeros(size, np.int64), np.zeros(size, np.int32)
            _put_keys(slots, codes, self.keys[held], self.codes[held])
            self.keys, self.codes = slots, codes
        _put_keys(self.keys, self.codes, keys, new_codes)
        held = self.codes > 0
        least, greatest = int(self.keys[held].min()), int(self.keys[held].max())
        self.direct = np.zeros(0, np.int32)
        if greatest - least < DIRECT_SPAN:
            self.least = least
            self.direct = np.full(greatest - least + 1, UNKNOWN, np.int32)
            self.direct[self.keys[held] - least] = self.codes[held]
        self.count = count

    def look_up(self, keys: Ints, column: pa.Array | None, word: Ints, shift: int) -> None:
        """word[i] |= code of keys[i] << shift. Where the column is null, the code is 0."""
        address, _held = (0, None) if column is None else exported(column)
        code_keys(np.array(self.numbers()), keys if keys.flags.writeable else keys.copy(), address, word, shift)


@dataclass(slots=True)
class TextTable:
    """Codes of texts. A slot holds the key and the number of a text; the texts stand one after the other in `text`.

    A text of less than eight bytes has a key that holds its bytes and its length. A longer text has a hash as its key, which is
    always negative.
    """

    slots: Ints = field(default_factory=lambda: np.full((_LEAST_SLOTS, 2), -1, np.int64))
    text: Any = field(default_factory=lambda: np.zeros(_PADDING, np.uint8))
    starts: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    count: int = 0
    _numbers: list[int] | None = None

    def numbers(self) -> list[int]:
        """The table as kernels get it: its arrays by address. Good until texts are added; the table keeps the arrays."""
        if self._numbers is None:
            found = [(each.__array_interface__["data"][0], len(each)) for each in (self.slots, self.text, self.starts)]
            self._numbers = [number for pair in found for number in pair]  # whole, or not at all if this breaks off
        return self._numbers

    def add(self, values: list[Any]) -> None:
        """Add texts; their numbers follow the last one. If it fails, the texts do not count and must be added again."""
        self._numbers = None
        raw = [each.encode() if isinstance(each, str) else each for each in values]
        starts = self.starts[self.count] + np.concatenate([[0], np.cumsum([len(each) for each in raw])])
        self.starts = grown(self.starts, self.count, starts)
        self.text = grown(self.text, int(starts[0]), np.frombuffer(b"".join([*raw, bytes(_PADDING)]), np.uint8))
        first, count, slots = self.count, self.count + len(raw), self.slots
        if 4 * count > len(slots):
            first, slots = 0, np.full((_slots_for(count), 2), -1, np.int64)
        _put_texts(slots, self.text, self.starts, first, count)
        self.slots, self.count = slots, count

    def look_up(self, column: pa.Array, first_code: int, word: Ints, shift: int) -> None:
        """word[i] |= code of the column's text i << shift. The text with the number n has the code first_code + n."""
        if len(column):
            address, _held = exported(column)
            code_texts(np.array(self.numbers()), first_code, address, word, shift)


def frozen(array: Any) -> Any:
    """The array as read-only. Numba compiles a kernel again for a writable array, so all callers pass read-only ones."""
    if type(array) is np.ndarray and not array.flags.writeable:
        return array
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def grown(array: Any, begin: int, values: Any) -> Any:
    """The array with these values from `begin` on; a larger copy if they do not fit."""
    end = begin + len(values)
    if end > len(array):
        larger = np.zeros(2 * end, array.dtype)
        larger[:begin] = array[:begin]
        array = larger
    array[begin:end] = values
    return array


@nb.njit(nogil=True, cache=True, inline="always")
def _slot(number, size):
    """The first slot to look at. `size` is a power of two."""
    spread = number * _SPREAD
    return (spread ^ (spread >> 32)) & (size - 1)


@nb.njit(nogil=True, cache=True)
def _put_keys(slots, codes, keys, new_codes):
    size = np.int64(len(slots))
    for i in range(len(keys)):
        at = _slot(keys[i], size)
        while codes[at] != 0:
            at = (at + 1) & (size - 1)
        slots[at] = keys[i]
        codes[at] = new_codes[i]


@nb.njit(nogil=True, cache=True)
def code_keys(table, keys, column, word, shift):
    """word |= code << shift for each key that is there; `table` as `KeyTable.numbers` has it, `column` an Arrow array or 0."""
    valid, first = validity(column, len(word)), offset_of(column)
    slots, codes, direct = long_line(table[0], table[1]), int_line(table[2], table[1]), int_line(table[3], table[4])
    least = table[5]
    size, span = np.int64(len(slots)), _INDEX(len(direct))
    for i in range(_INDEX(len(keys) if span > 0 else 0)):
        place = _INDEX(keys[i] - least)
        code = np.int64(direct[place]) if place < span else UNKNOWN
        if len(valid) > 0:
            bit = _INDEX(first) + i
            code = code if (valid[bit >> _INDEX(3)] >> (bit & _INDEX(7))) & 1 else np.int64(0)
        word[i] |= code << shift
    for i in range(_INDEX(len(keys) if span == 0 else 0)):
        if len(valid) > 0:
            bit = _INDEX(first) + i
            if (valid[bit >> _INDEX(3)] >> (bit & _INDEX(7))) & 1 == 0:
                continue
        at = _INDEX(_slot(keys[i], size))
        code = UNKNOWN
        while codes[at] != 0:
            if slots[at] == keys[i]:
                code = np.int64(codes[at])
                break
            at = (at + _INDEX(1)) & _INDEX(size - 1)
        word[i] |= code << shift


# Each of these is one function for speed: Numba counts references to arrays that are passed to another function, even if it is
# inlined, for every value.
@nb.njit(nogil=True, cache=True)
def _put_texts(slots, text, starts, first, end):
    size = np.int64(len(slots))
    for number in range(first, end):
        begin, length = starts[number], starts[number + 1] - starts[number]
        key: Any = load_eight(text, begin)  # the texts end with padding
        if length < 8:
            key = key & ((np.int64(1) << (8 * length)) - 1) | length << 56
        else:
            key = (key ^ length) * _SPREAD
            for k in range(8, length, 8):
                key = (key ^ (key >> 29) ^ load_eight(text, begin + (k if k < length - 8 else length - 8))) * _SPREAD
            key |= _LONG_TEXT
        at = _slot(key, size)
        while slots[at, 1] >= 0:
            at = (at + 1) & (size - 1)
        slots[at, 0], slots[at, 1] = key, number


# Indices are unsigned. Numba lets a negative index count from the end and checks for it at each access: signed indices took 1.6
# times as long.
@nb.njit(nogil=True, cache=True)
def code_texts(table, first_code, column, word, shift):
    """word |= code << shift for each text that is there; `table` as `TextTable.numbers` has it, `column` an Arrow array."""
    slots, text, starts = longs(table[0], table[1], 2), byte_line(table[2], table[3]), long_line(table[4], table[5])
    first, valid = offset_of(column), validity(column, len(word))
    places = int_line(buffer_of(column, 1) + 4 * first, len(word) + 1)
    data = byte_line(buffer_of(column, 2), places[len(word)])  # nobody says where the buffer ends, so what is used is its end
    last_slot, last_eight = _INDEX(len(slots) - 1), np.int64(len(data)) - 8
    end = np.int64(places[0])
    for i in range(_INDEX(len(word))):
        begin, end = end, np.int64(places[i + _INDEX(1)])
        length = end - begin
        if len(valid) > 0:
            bit = _INDEX(first) + i
            if (valid[bit >> _INDEX(3)] >> (bit & _INDEX(7))) & 1 == 0:
                continue
        key: Any = np.int64(0)
        if length < 8 and begin <= last_eight:  # most texts are short, and most stand in their first slot
            key = load_eight(data, begin) & ((np.int64(1) << (8 * length)) - 1) | length << 56
            at = _INDEX(_slot(key, len(slots)))
            if slots[at, _INDEX(0)] == key:
                word[i] |= (slots[at, _INDEX(1)] + first_code) << shift
                continue
        elif length < 8:
            for k in range(length):
                key |= np.int64(data[begin + k]) << (8 * k)
            key |= length << 56
            at = _INDEX(_slot(key, len(slots)))
        else:
            key = (load_eight(data, begin) ^ length) * _SPREAD
            for k in range(8, length, 8):
                key = (key ^ (key >> 29) ^ load_eight(data, begin + (k if k < length - 8 else length - 8))) * _SPREAD
            key |= _LONG_TEXT
            at = _INDEX(_slot(key, len(slots)))
        code = UNKNOWN
        while slots[at, _INDEX(1)] >= 0:
            if slots[at, _INDEX(0)] == key:
                number = slots[at, _INDEX(1)]
                same = True
                if length >= 8:
                    same = starts[number + 1] - starts[number] == length
                    for k in range(length if same else 0):
                        same &= data[begin + k] == text[starts[number] + k]
                if same:
                    code = number + first_code
                    break
            at = (at + _INDEX(1)) & last_slot
        word[i] |= code << shift
