"""The arrays that the kernels walk: what stands where in them, and the numbers that they share with those who fill them."""

# Numba reads the tuples' fields by place; their arrays are of the types that the comments say, else int64.
from __future__ import annotations

from typing import NamedTuple

import numpy as np

GATE_OPEN, GATE_EQUAL, GATE_CELLS, GATE_TEXT = 0, 1, 2, 3
T_WORD, T_LOW, T_HIGH, T_RANGE, T_SET, T_TEXT = 0, 1, 2, 3, 4, 5
ABSENT_CODE, LEAST_CODE, GREATEST_CODE = -(2**31), -(2**31) + 1, 2**31 - 1
"""Order codes (`order_codes`): of an absent value; of a range that is open below; of a range that is open above."""
BASE, COUNT, CAPACITY, OUTPUT, PLAIN, GROUP = 0, 1, 2, 3, 4, 5
"""The row of a cell: where it begins in the arena, entries, entries that it has room for, ids that it writes at most, 1 if no
id is negative (else 0), and its group.
"""
CELL_ROW = 8
ONLY_WORD, ONLY_RANGE, RANGE_LOW, WORD_RANGE, WORD_RANGE_LOW, OTHER = 1, 2, 3, 4, 5, 6
"""Shapes: the groups' most common sets of tests, which have loops of their own; 0 for none."""
SHAPES = {
    (): 0,
    ("word",): ONLY_WORD,
    ("range",): ONLY_RANGE,
    ("range", "low"): RANGE_LOW,
    ("word", "range"): WORD_RANGE,
    ("word", "range", "low"): WORD_RANGE_LOW,
}
FIELD, FORM, VALUE, LAST_VALUE, FIRST_CODE, LAST_CODE = 0, 1, 2, 3, 4, 5
"""A test of an entry (`entry_rows`). Field code: 2 * attribute number, + 1 when the test is not a range. Form: T_LOW to T_TEXT.
Value and last value: the keys of a range, or the number of a set or text test. Codes: the order codes of a range.
"""
TEST_ROW = 6
GATE_LEVEL, FIRST_CELL, LAST_CELL, MIXED = 0, 1, 2, 3
"""A route (`routes`): 64 * gate + level, the keys of the first and last cell, and a hash of all tests of the entry."""
ROUTE_ROW = 4
STRETCH = 256
"""Events whose gates are looked up together."""
MOST_OPENED = 1 << 16
"""Cells that the events of a stretch may open behind all gates; where events may open many, a stretch is shorter."""
MOST_FOUND = 1 << 12
"""Blocks of sixteen entries with a match that are kept for a stretch; beyond them small cells are tested as large ones."""
MOST_BLOCKS = 2
"""Blocks of sixteen entries that a small cell has at most; it is tested for all events of a stretch before ids are written."""
STREAMED = 1024
"""Ids that are written together where results go past the caches."""
BLOCK = 512
"""Entries whose bits of a bitmap are looked at together."""
MOST_EXACT = 7
"""An attribute of at most this many values has a bucket for each in the rows of a bitmap, and one for all else."""
BUCKETS = 4
"""Buckets of an attribute with more values; a power of two."""


class Groups(NamedTuple):
    """One row per group: its gate, its table, its tests."""

    gate: np.ndarray  # kind
    arg: np.ndarray  # the word, the code column or the text column
    mask: np.ndarray  # equal: the mask; cells: the level's shift
    table: np.ndarray  # where its table begins
    size: np.ndarray  # slots of the table (a power of two for equal)
    shift: np.ndarray  # equal: 64 - log2(size)
    shape: np.ndarray
    tests: np.ndarray  # where its tests begin; one more than groups
    test_kind: np.ndarray
    test_arg: np.ndarray
    test_column: np.ndarray


class GroupColumns(NamedTuple):
    """What a group's entries have in their columns: first the id, then two numbers for each half of a word, then the others."""

    width: np.ndarray  # columns of each group
    gate: np.ndarray  # its kind; the table of an equal one is hashed
    gate_word: np.ndarray  # of an equal gate, else -1
    gate_mask: np.ndarray
    gate_field: np.ndarray  # field code of the tests that lead through a gate of another kind
    level: np.ndarray  # of a grid, as a shift
    half_start: np.ndarray  # where its halves begin; one more than groups
    halves: np.ndarray
    blank_start: np.ndarray
    blank: np.ndarray  # an entry that asks for nothing
    field_code_start: np.ndarray
    field_codes: np.ndarray  # of the tests that it makes
    column: np.ndarray  # [group, subject of a test], or -1
    form: np.ndarray  # the same: how it is tested there


class Cells(NamedTuple):
    """What an event needs of a cell, or of a table's slot, stands in one row, so that it is fetched at once."""

    arena: np.ndarray  # int32
    cell: np.ndarray  # [cell, BASE | COUNT | CAPACITY | OUTPUT | PLAIN | GROUP]
    table: np.ndarray  # [slot, (key, cell)]; cell -1: empty
    run_start: np.ndarray
    run_length: np.ndarray
    run_ids: np.ndarray
    several: np.ndarray  # ids of the subscriptions with several conjunctions
    set_start: np.ndarray
    set_pairs: np.ndarray


class Bits(NamedTuple):
    """Bitmaps: rows of bits per field, attributes and their codes, and the entries in full (see `bitmaps`)."""

    word: np.ndarray  # per attribute: which word of the event
    shift: np.ndarray
    mask: np.ndarray
    codes: np.ndarray  # where its codes begin
    field: np.ndarray
    stride: np.ndarray  # rows by which one more of its bucket moves on
    values: np.ndarray  # how many of it were known when it was laid out
    first_row: np.ndarray  # per field
    rows: np.ndarray  # [row, word]
    named: np.ndarray  # [attribute and code, word]: bit k: block k has an entry that asks for it
    free: np.ndarray  # [attribute, word]: bit k: block k has an entry that does not test it
    ids: np.ndarray  # int32, per bit
    words: np.ndarray  # the words that the entries test
    entries: np.ndarray  # [bit, (value, mask) of each such word]
    flags: np.ndarray  # PLAIN_BITS: no id is negative; EXACT_BITS: the rows tell all; USED_BITS: how many


PLAIN_BITS, EXACT_BITS, USED_BITS = 0, 1, 2


class Events(NamedTuple):
    """One batch, encoded: [column, event]."""

    words: np.ndarray
    codes: np.ndarray  # int32: order codes
    ranks: np.ndarray  # int32: the grid cell of each code, where there is a grid
    keys: np.ndarray
    text_value: np.ndarray  # the row of the value's answers; -1: absent
    holds_start: np.ndarray  # of all columns together
    fails_start: np.ndarray
    holds: np.ndarray
    fails: np.ndarray
    most_texts: np.ndarray  # one number: how many text constraints one event satisfies at most


INDEX = np.uint64
"""The type of indices in the innermost loops: of each signed index Numba asks whether it is negative, to count from the end."""
SLACK = 32
"""How many places past its end a kernel may read from the arena or write to the output."""
