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

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from contentcast.matching.search_tree.codes import search
from contentcast.matching.summaries.columns import POINT, UNBOUNDED, Ints, Rows
from contentcast.matching.summaries.kernels import ABSENT
from contentcast.model.values.keys import KEYED, NO_FLOAT, float_keys, key_ends
from contentcast.model.values.kinds import Kind, Value

Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Coder:
    """Of one attribute: how many codes there are, and the first and last code of each of its intervals."""

    kind: Kind
    count: int
    first: Ints
    last: Ints
    cuts: Ints
    texts: Texts | None = None

    @classmethod
    def of(cls, rows: Rows) -> Coder:
        if rows.kind.name in KEYED:
            cuts = key_cuts(rows)
            first, last = np.searchsorted(cuts, rows.low, "right"), np.searchsorted(cuts, rows.high, "right")
            return cls(rows.kind, len(cuts) + 1, first, last, cuts)
        first = 2 * rows.low + 1
        last = np.where(rows.high == POINT, first, np.where(rows.high == UNBOUNDED, 2 * len(rows.cuts), 2 * rows.high))
        return cls(rows.kind, 2 * len(rows.cuts) + 1, first, last, np.empty(0, np.int64), Texts.of(rows.cuts))

    def encode(self, column: pa.Array, codes: Codes) -> None:
        """Fills in one code for each row of the batch; ABSENT where the column is null."""
        if self.texts is None:
            search(self.cuts, _keys(self.kind, column), codes)
        else:
            offsets, data = text_buffers(column)
            search_texts(self.texts.keys, self.texts.offsets, self.texts.data, offsets, data, codes)
        if column.null_count:
            codes[column.is_null().to_numpy(zero_copy_only=False)] = ABSENT


def key_cuts(rows: Rows) -> Ints:
    """Where the values of a kind with order keys are cut, ascending."""
    greatest = key_ends(rows.kind)[1]
    above = rows.high[rows.high < greatest] + 1
    if rows.kind.name == "float":
        above[above == NO_FLOAT] += 1
    return np.unique(np.concatenate([rows.low, above]))


@dataclass(frozen=True, slots=True)
class Texts:
    """Sorted texts in one buffer; `keys` are the first eight bytes of each as a number, which decides nearly always."""

    keys: Words
    offsets: Ints
    data: Bytes

    @classmethod
    def of(cls, cuts: tuple[Value, ...]) -> Texts:
        raw = [each if isinstance(each, bytes) else each.encode() for each in cuts]
        offsets = np.cumsum([0, *map(len, raw)], dtype=np.int64)
        data = np.frombuffer(b"".join(raw) + bytes(8), np.uint8)
        return cls(first_eight(offsets, data), offsets, data)


def _keys(kind: Kind, column: pa.Array) -> Ints:
    if kind.name == "timestamp":
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(False if kind.name == "bool" else 0)
    values = column.to_numpy(zero_copy_only=False)
    return float_keys(values) if kind.name == "float" else values.astype(np.int64, copy=False)


def text_buffers(column: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Where each text begins and the last one ends, and all bytes. A part of a larger column begins in the midst of both."""
    _, offsets, data = column.buffers()
    if offsets is None or not offsets.size:  # Arrow allows none for an empty array
        return np.zeros(len(column) + 1, np.int32), np.zeros(1, np.uint8)
    begins = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    return begins, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def search_texts(keys, cut_offsets, cut_data, offsets, data, codes):  # type: ignore[no-untyped-def]
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
        # Halving without a branch by the first eight bytes, then by whole texts among the few that share them.
        low, size = 0, len(keys)
        while size > 0:
            half = size >> 1
            right = keys[low + half] < key
            low = low + half + 1 if right else low
            size = size - half - 1 if right else half
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


@njit(cache=True, nogil=True)
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
