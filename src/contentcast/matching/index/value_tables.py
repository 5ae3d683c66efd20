"""From an event column's values to codes: hash tables over Arrow's own buffers.

Two kinds of table: of 64-bit keys (numbers, times), and of bytes (texts). Both are asked for a whole column and put the codes
where they belong in the events' words; a table grows with its dictionary.
`pyarrow.compute.index_in` does the same and was used before; it makes its table anew in each call and took four times as long
for short texts.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg"

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index.lanes import load_eight

Ints = npt.NDArray[np.int64]

UNKNOWN = np.int64(1)
_SPREAD = np.int64(-7046029254386353131)  # 2^64 / golden ratio: spreads neighbouring keys over the table
_PADDING = 8


@dataclass(slots=True)
class KeyTable:
    """Codes of 64-bit keys; code 0: an empty slot."""

    keys: Ints = field(default_factory=lambda: np.zeros(8, np.int64))
    codes: Any = field(default_factory=lambda: np.zeros(8, np.int32))
    count: int = 0

    def add(self, keys: Ints, first_code: int) -> None:
        """New keys, with the codes from `first_code` on."""
        self.count += len(keys)
        if 2 * self.count > len(self.keys):
            held = self.codes > 0
            old_keys, old_codes = self.keys[held], self.codes[held]
            size = 1 << (4 * self.count - 1).bit_length()
            self.keys, self.codes = np.zeros(size, np.int64), np.zeros(size, np.int32)
            _put_keys(self.keys, self.codes, old_keys, old_codes)
        _put_keys(self.keys, self.codes, keys, np.arange(first_code, first_code + len(keys), dtype=np.int32))

    def look_up(self, keys: Ints, column: pa.Array, word: Ints, shift: int) -> None:
        """word |= code << shift for each of the column's keys."""
        valid, first = _validity(column)
        _code_keys(self.keys, self.codes, frozen(keys), valid, first, word, shift)


@dataclass(slots=True)
class TextTable:
    """Codes of texts: slots with hash and number of the text, the texts one after the other in `text`."""

    hashes: Ints = field(default_factory=lambda: np.zeros(8, np.int64))
    numbers: Any = field(default_factory=lambda: np.full(8, -1, np.int32))
    text: Any = field(default_factory=lambda: np.zeros(_PADDING, np.uint8))
    starts: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    firsts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of each text its first eight bytes as a number."""
    count: int = 0

    def add(self, values: list[Any]) -> None:
        """More texts, numbered on."""
        raw = [each.encode() if isinstance(each, str) else each for each in values]
        starts = self.starts[self.count] + np.concatenate([[0], np.cumsum([len(each) for each in raw])])
        self.starts = grown(self.starts, self.count, starts)
        self.text = grown(self.text, int(starts[0]), np.frombuffer(b"".join([*raw, bytes(_PADDING)]), np.uint8))
        self.firsts = grown(self.firsts, self.count, np.zeros(len(raw), np.int64))
        first = self.count
        self.count += len(raw)
        if 2 * self.count > len(self.hashes):
            size = 1 << (4 * self.count - 1).bit_length()
            self.hashes, self.numbers = np.zeros(size, np.int64), np.full(size, -1, np.int32)
            first = 0
        _put_texts(self.hashes, self.numbers, self.firsts, self.text, self.starts, first, self.count)

    def look_up(self, column: pa.Array, first_code: int, word: Ints, shift: int) -> None:
        """word |= code << shift for each of the column's texts; number n has the code `first_code` + n."""
        valid, first = _validity(column)
        _, offsets, text = column.buffers()
        if not len(column):
            return
        places = frozen(np.frombuffer(offsets, np.int32))
        data = frozen(np.frombuffer(text, np.uint8)) if text is not None else _NO_BYTES
        _code_texts(
            self.hashes, self.numbers, self.firsts, self.text, self.starts, first_code,
            data, places, column.offset, valid, first, word, shift,
        )  # fmt: skip


def _validity(column: pa.Array) -> tuple[Any, int]:
    """The column's bitmap of values that are there, empty if all are, and where in it the column begins."""
    bits = column.buffers()[0]
    if bits is None or column.null_count == 0:
        return _NO_BYTES, 0
    return frozen(np.frombuffer(bits, np.uint8)), column.offset


def frozen(array: Any) -> Any:
    """The array, not to be written: Numba compiles a kernel anew for arrays that differ in this alone."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


_NO_BYTES: Any = frozen(np.zeros(0, np.uint8))


def grown(array: Any, begin: int, values: Any) -> Any:
    """The array with these values from `begin` on, moved if there is no room for them."""
    end = begin + len(values)
    if end > len(array):
        larger = np.zeros(2 * end, array.dtype)
        larger[:begin] = array[:begin]
        array = larger
    array[begin:end] = values
    return array


@nb.njit(nogil=True, cache=True, inline="always")
def _slot(number, size):
    """The first slot to look into, in a table of a power of two slots."""
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
def _code_keys(slots, codes, keys, valid, first, word, shift):
    size = np.int64(len(slots))
    for i in range(len(keys)):
        if len(valid) > 0 and (valid[(first + i) >> 3] >> ((first + i) & 7)) & 1 == 0:
            continue
        at = _slot(keys[i], size)
        code = UNKNOWN
        while codes[at] != 0:
            if slots[at] == keys[i]:
                code = np.int64(codes[at])
                break
            at = (at + 1) & (size - 1)
        word[i] |= code << shift


# In one function each: arrays that go through functions of their own, even inlined ones, have their reference counts raised and
# lowered for every value.
@nb.njit(nogil=True, cache=True)
def _put_texts(hashes, numbers, firsts, text, starts, first, end):
    size = np.int64(len(hashes))
    for number in range(first, end):
        begin, length = starts[number], starts[number + 1] - starts[number]
        chunk: Any = load_eight(text, begin)  # the texts end with padding
        if length < 8:
            chunk &= (np.int64(1) << (8 * length)) - 1
        firsts[number] = chunk
        hashed = (chunk ^ length) * _SPREAD
        hashed ^= hashed >> 29
        for k in range(8, length):
            hashed = (hashed ^ np.int64(text[begin + k])) * _SPREAD
            hashed ^= hashed >> 29
        at = hashed & (size - 1)
        while numbers[at] >= 0:
            at = (at + 1) & (size - 1)
        hashes[at] = hashed
        numbers[at] = number


@nb.njit(nogil=True, cache=True)
def _code_texts(hashes, numbers, firsts, text, starts, first_code, data, places, offset, valid, first, word, shift):
    size = np.int64(len(hashes))
    for i in range(len(word)):
        if len(valid) > 0 and (valid[(first + i) >> 3] >> ((first + i) & 7)) & 1 == 0:
            continue
        begin = np.int64(places[offset + i])
        length = np.int64(places[offset + i + 1]) - begin
        chunk: Any = np.int64(0)
        if begin + 8 <= len(data):
            chunk = load_eight(data, begin)
            if length < 8:
                chunk &= (np.int64(1) << (8 * length)) - 1
        else:
            for k in range(length if length < 8 else 8):
                chunk |= np.int64(data[begin + k]) << (8 * k)
        hashed = (chunk ^ length) * _SPREAD
        hashed ^= hashed >> 29
        for k in range(8, length):
            hashed = (hashed ^ np.int64(data[begin + k])) * _SPREAD
            hashed ^= hashed >> 29
        at = hashed & (size - 1)
        code = UNKNOWN
        while numbers[at] >= 0:
            number = np.int64(numbers[at])
            if hashes[at] == hashed and firsts[number] == chunk and starts[number + 1] - starts[number] == length:
                same = True
                for k in range(8, length):
                    same &= data[begin + k] == text[starts[number] + k]
                if same:
                    code = number + first_code
                    break
            at = (at + 1) & (size - 1)
        word[i] |= code << shift
