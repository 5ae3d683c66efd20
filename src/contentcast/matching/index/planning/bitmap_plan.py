"""Whether bitmaps pay for the entries over small domains, and how their rows are laid out (`bitmaps` has the picture).

Attributes share a field until its rows would be more than `MOST_COMBINED`: one row to fetch for all of them. An attribute of
few values has a bucket for each value; the values of others share four buckets.
"""

# Numba infers the kernels' types.
# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg"

from __future__ import annotations

from typing import Final

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine.layout import BLOCK, BUCKETS, MOST_EXACT
from contentcast.matching.index.values.dictionaries import Dictionary

Ints = npt.NDArray[np.int64]

MOST_VALUES: Final = 62
"""An attribute of more values is not one of few."""
MOST_COMBINED: Final = 256
"""Rows of a field that several attributes share."""
ATTRIBUTE_NS: Final = 2.0
BLOCK_NS: Final = 5.0
FIELD_NS: Final = 1.1
ALIVE: Final = 0.35
"""The share of blocks that an event looks at; measured, as the times are, on the scenarios w1 and w1b."""


def bucket_count(dictionary: Dictionary) -> int:
    return len(dictionary) + 1 if len(dictionary) <= MOST_EXACT else BUCKETS


def bitmap_fields(buckets: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Field and stride of each attribute, and the rows of each field."""
    field_of, stride, rows = [], [], [1]
    for each in buckets:
        if rows[-1] > 1 and rows[-1] * each > MOST_COMBINED:
            rows.append(1)
        field_of.append(len(rows) - 1)
        stride.append(rows[-1])
        rows[-1] *= each
    return field_of, stride, rows


def cost_ns(entries: int, dictionaries: list[Dictionary]) -> float:
    """What an event will cost, about."""
    fields = len(bitmap_fields([bucket_count(each) for each in dictionaries])[2])
    return ATTRIBUTE_NS * len(dictionaries) + ALIVE * (entries / BLOCK + 1) * (BLOCK_NS + FIELD_NS * fields)


def in_order_of_use(masks: Ints, dictionaries: dict[str, Dictionary]) -> list[str]:
    """The attributes, those that most entries test first."""

    def uses(name: str) -> int:
        each = dictionaries[name]
        return int(np.count_nonzero(masks[each.word] >> each.shift & (1 << each.bits) - 1))

    return sorted(dictionaries, key=uses, reverse=True)


def sorting_keys(words: Ints, masks: Ints, dictionaries: dict[str, Dictionary]) -> Ints:
    """Numbers that have about the order of the entries by these attributes: as many of the first ones as 62 bits hold."""
    fields = np.array([(each.word, each.shift, each.bits) for each in dictionaries.values()], np.int64)
    keys = np.empty(words.shape[1], np.int64)
    _sorting_keys(words, masks, fields[np.cumsum(fields[:, 2]) <= 62], keys)
    return keys


@nb.njit(nogil=True, cache=True)
def _sorting_keys(words, masks, fields, keys):
    for i in range(len(keys)):
        key = np.int64(0)
        for f in range(len(fields)):
            word, shift, bits = fields[f]
            full = (np.int64(1) << bits) - 1
            code = np.int64(0)
            if (masks[word, i] >> shift) & full != 0:
                code = min(((words[word, i] >> shift) & full) + 1, full)
            key = key << bits | code
        keys[i] = key
