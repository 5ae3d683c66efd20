"""Small cells, tested for all events of a stretch before any id is written (see `kernel`)."""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from contentcast.matching.index.machine.layout import BASE, CAPACITY, COUNT, INDEX, MOST_BLOCKS, PLAIN
from contentcast.matching.index.machine.simd import (
    pass_all,
    pass_range,
    pass_range_low,
    pass_word,
    pass_word_range,
    pass_word_range_low,
    prefetch,
)

CELLS_AHEAD = 4
"""How many cells later the one is tested whose entries are fetched now."""


class Lists(NamedTuple):
    """The cells that the events of a stretch open, what they have found, and what the cells are tested with."""

    opened: np.ndarray  # int32: cells behind one gate
    opener: np.ndarray  # int32: which event of the stretch opens each
    found: np.ndarray  # place << 16 | ones, or cell << 16
    before: np.ndarray  # int32: what the same event had found before
    newest: np.ndarray  # int32: what each event has found last, or -1
    arena: np.ndarray  # int32
    rows: np.ndarray
    words: np.ndarray
    codes: np.ndarray  # int32
    test_args: np.ndarray


def _tester(passing, has_word, has_code, has_lower):
    """A function that tests the small cells of a group that the events of a stretch have opened, all before any id is written.

    It adds to what was found: sixteen entries and which of them match, or a cell to be tested later, and links it to what the
    event had found before. Above the limit it only adds cells. Returns the number of all that was found.
    """

    @nb.njit(nogil=True, cache=True)
    def test(lists, test, many, first, limit, number):
        opened, opener, found, before, newest = lists.opened, lists.opener, lists.found, lists.before, lists.newest
        arena, rows, words, codes, test_args = lists.arena, lists.rows, lists.words, lists.codes, lists.test_args
        word_at, code_at, lower_at = np.int64(0), np.int64(0), np.int64(0)
        if has_word:
            word_at = test_args[test]
            test += 1
        if has_code:
            code_at = test_args[test]
            test += 1
        if has_lower:
            lower_at = test_args[test]
        for i in range(INDEX(many)):
            cell, k = INDEX(opened[i]), INDEX(opener[i])
            event = INDEX(first) + k
            ahead = INDEX(opened[min(i + INDEX(CELLS_AHEAD), INDEX(many - 1))])
            ahead_at = rows[ahead, INDEX(BASE)] + rows[ahead, INDEX(CAPACITY)]
            for j in range(4):
                prefetch(arena, ahead_at + 16 * j)
            base, count, apart = rows[cell, INDEX(BASE)], rows[cell, INDEX(COUNT)], rows[cell, INDEX(CAPACITY)]
            if count > 16 * MOST_BLOCKS or rows[cell, INDEX(PLAIN)] == 0 or number + MOST_BLOCKS > limit:
                found[INDEX(number)], before[INDEX(number)] = np.int64(cell) << 16, newest[k]
                newest[k] = number
                number += 1
                continue
            word, code, lower = np.int64(0), np.int64(0), np.int64(0)
            if has_word:
                word = words[INDEX(word_at >> 1), event] >> (32 * (word_at & 1))
            if has_code:
                code = np.int64(codes[INDEX(code_at), event])
            if has_lower:
                lower = np.int64(codes[INDEX(lower_at), event])
            last = newest[k]
            for place in range(base, base + count, 16):
                left = base + count - place
                ones = 0xFFFF if left >= 16 else (1 << left) - 1
                ones &= passing(arena, place + apart, apart, word, code, lower)
                found[INDEX(number)], before[INDEX(number)] = place << 16 | ones, last
                last = np.int32(number) if ones != 0 else last
                number += ones != 0
            newest[k] = last
        return number

    return test


test_none = _tester(pass_all, False, False, False)
test_word = _tester(pass_word, True, False, False)
test_range = _tester(pass_range, False, True, False)
test_range_low = _tester(pass_range_low, False, True, True)
test_word_range = _tester(pass_word_range, True, True, False)
test_word_range_low = _tester(pass_word_range_low, True, True, True)
