"""Values as codes: the values of an attribute cut wherever a row begins or ends, so that equal codes satisfy equal rows.

    price   rows [5, 9], [7, 7]         cuts [5, 7, 8, 10]     codes 0: below 5   1: [5, 7)   2: 7   3: [8, 9]   4: from 10
    symbol  rows 'OT' to 'OU', = 'OTE'  cuts OT, OTE, OU       codes 0: below OT   1: OT   2: between   3: OTE   4: between   5:
    OU

Kinds with order keys have one code for each stretch between two cuts. Texts have one more for each cut itself, so that a single
value needs one cut and not two.
Rule: a batch is coded column by column; no Python code looks at a single value, except to try patterns (see `patterns`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.kernels.kernel import kernel
from contentcast.matching.summaries.columns import POINT, UNBOUNDED, Ints, Rows
from contentcast.matching.summaries.kernels import ABSENT
from contentcast.model.values.keys import KEYED, NO_FLOAT, column_keys, key_ends
from contentcast.model.values.kinds import Kind, Value

Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

SIGN: Final = np.uint64(1 << 63)
"""Turned over, it makes signed numbers unsigned ones that sort as they did."""

MOST: Final = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class Coder:
    """Of one attribute: how many codes there are, and the first and last code of each of its intervals."""

    kind: Kind
    count: int
    first: Ints
    last: Ints
    keys: Keys
    texts: Texts | None = None

    @classmethod
    def of(cls, rows: Rows) -> Coder:
        if rows.kind.name in KEYED:
            cuts = key_cuts(rows)
            first, last = np.searchsorted(cuts, rows.low, "right"), np.searchsorted(cuts, rows.high, "right")
            return cls(rows.kind, len(cuts) + 1, first, last, Keys.of(cuts.view(np.uint64) ^ SIGN))
        first = 2 * rows.low + 1
        last = np.where(rows.high == POINT, first, np.where(rows.high == UNBOUNDED, 2 * len(rows.cuts), 2 * rows.high))
        texts = Texts.of(rows.cuts)
        keys = Keys.of(first_eight(texts.offsets, texts.data))
        return cls(rows.kind, 2 * len(rows.cuts) + 1, first, last, keys, texts)

    def encode(self, column: pa.Array, codes: Codes) -> None:
        """Fills in one code for each row of the batch; ABSENT where the column is null."""
        if self.texts is None:
            search_keys(*self.keys, column_keys(self.kind, column), codes)
        else:
            offsets, data = text_buffers(column)
            search_texts(*self.keys, self.texts.offsets, self.texts.data, offsets, data, codes)
        if column.null_count:
            codes[column.is_null().to_numpy(zero_copy_only=False)] = ABSENT


def key_cuts(rows: Rows) -> Ints:
    """Where the values of a kind with order keys are cut, ascending."""
    greatest = key_ends(rows.kind)[1]
    above = rows.high[rows.high < greatest] + 1
    if rows.kind.name == "float":
        above[above == NO_FLOAT] += 1
    return np.unique(np.concatenate([rows.low, above]))


class Keys(NamedTuple):
    """Sorted numbers, cut into stretches of equal width: those of stretch s stand from starts[s] to starts[s + 1]."""

    numbers: Words
    starts: Codes
    least: np.uint64
    shift: np.uint64

    @classmethod
    def of(cls, numbers: Words) -> Keys:
        if not len(numbers):
            return cls(numbers, np.zeros(2, np.int32), np.uint64(0), np.uint64(63))
        span = int(numbers[-1]) - int(numbers[0])
        shift = np.uint64(max(0, span.bit_length() - max(1, len(numbers).bit_length() - 2)))
        stretches = (span >> int(shift)) + 1
        inside = ((numbers - numbers[0]) >> shift).astype(np.int64)
        return cls(numbers, np.searchsorted(inside, np.arange(stretches + 1)).astype(np.int32), numbers[0], shift)


@dataclass(frozen=True, slots=True)
class Texts:
    """Sorted texts in one buffer. Their first eight bytes as numbers are searched first, and decide nearly always."""

    offsets: Ints
    data: Bytes

    @classmethod
    def of(cls, cuts: tuple[Value, ...]) -> Texts:
        raw = [each if isinstance(each, bytes) else each.encode() for each in cuts]
        offsets = np.cumsum([0, *map(len, raw)], dtype=np.int64)
        data = np.frombuffer(b"".join(raw) + bytes(8), np.uint8)
        return cls(offsets, data)


def text_buffers(column: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Where each text begins and the last one ends, and all bytes. A part of a larger column begins in the midst of both."""
    _, offsets, data = column.buffers()
    if offsets is None or not offsets.size:  # Arrow allows none for an empty array
        return np.zeros(len(column) + 1, np.int32), np.zeros(1, np.uint8)
    begins = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    return begins, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)


@kernel
def first_eight(offsets, data):  # type: ignore[no-untyped-def]
    """The first eight bytes of each text as one number, the first byte highest, short texts filled up with zeros."""
    found = np.zeros(len(offsets) - 1, np.uint64)
    for at in range(len(found)):
        begin, end = offsets[at], offsets[at + 1]
        key = np.uint64(0)
        for place in range(8):
            byte = np.uint64(data[begin + place]) if begin + place < end else np.uint64(0)
            key = (key << np.uint64(8)) | byte
        found[at] = key
    return found


@kernel
def _below(keys, starts, least, shift, key):  # type: ignore[no-untyped-def]
    """How many keys are below this one."""
    if key <= least:
        return 0
    stretch = (key - least) >> shift
    if stretch >= np.uint64(len(starts) - 1):
        return len(keys)
    low = np.int64(starts[np.int64(stretch)])
    size = np.int64(starts[np.int64(stretch) + 1]) - low
    while size > 0:  # halving without a branch
        half = size >> 1
        right = keys[low + half] < key
        low = low + half + 1 if right else low
        size = size - half - 1 if right else half
    return low


@kernel
def search_keys(keys, starts, least, shift, values, codes):  # type: ignore[no-untyped-def]
    """How many cuts are not above each value."""
    for at in range(len(values)):
        key = np.uint64(values[at]) ^ np.uint64(SIGN)
        codes[at] = len(keys) if key == np.uint64(MOST) else _below(keys, starts, least, shift, key + np.uint64(1))


@kernel
def search_texts(keys, starts, least, shift, cut_offsets, cut_data, offsets, data, codes):  # type: ignore[no-untyped-def]
    """2 * (cuts below the text), + 1 where the text is a cut itself. UTF-8 sorts as its characters do."""
    for at in range(len(codes)):
        begin, end = np.int64(offsets[at]), np.int64(offsets[at + 1])
        if begin == end:  # also what lies under an absent value, which many are
            codes[at] = 1 if len(keys) and cut_offsets[1] == 0 else 0
            continue
        key = np.uint64(0)
        for place in range(8):
            byte = np.uint64(data[begin + place]) if begin + place < end else np.uint64(0)
            key = (key << np.uint64(8)) | byte
        low = _below(keys, starts, least, shift, key)
        high, size = low, 1
        while high < len(keys) and keys[high] == key:  # in growing steps: thousands may share them
            high = min(high + size, len(keys))
            size *= 2
        equal = 0
        while low < high:
            middle = (low + high) >> 1
            order = (
                1 if keys[middle] != key else _compare(cut_data, cut_offsets[middle], cut_offsets[middle + 1], data, begin, end)
            )
            if order < 0:
                low = middle + 1
            else:
                high = middle
                equal |= order == 0
        codes[at] = 2 * low + equal


@kernel
def _compare(one, one_at, one_end, other, other_at, other_end):  # type: ignore[no-untyped-def]
    """-1, 0 or 1 as the first text is below, equal to or above the second."""
    while one_at < one_end and other_at < other_end:
        if one[one_at] != other[other_at]:
            return -1 if one[one_at] < other[other_at] else 1
        one_at += 1
        other_at += 1
    if one_at < one_end:
        return 1
    return -1 if other_at < other_end else 0
