"""The kernels: which entries an event matches, over flat arrays.

An entry lives in a cell, a stretch of the arena with one column per number it needs. A cell of the group "behind symbol, with
a price range left to test" that holds three entries and has room for four:

    arena[base ...]    ids  7 12 31 .    first  p p p .    last  p p p .

An event goes through the groups; behind each gate it opens lies one cell (a text gate may open several). The tests run column
by column over the cell, which the compiler turns into SIMD, and leave a 1 or 0 per entry; then the ids of the ones are
written.
Tried and slower: all tests on eight entries before the next eight (1.4 times the time on market data at 100,000 subscriptions);
a byte per entry and a branch per hit (1.3 to 1.6 times).

Ids are subscription ids; a negative one is ~tag: an even tag is a run of ids with the same entry, an odd one a subscription
with several conjunctions, written once per event (`stamps`).
"""

# Numba infers the kernels' types, and the callers in `store` and `engine` are typed.
# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import numba as nb
import numpy as np

from contentcast.matching.index.eight import at_least, at_most, equal_under, in_range, write_eight

OPEN, EQUAL, CELLS, TEXT = 0, 1, 2, 3
T_WORD, T_LOW, T_HIGH, T_RANGE, T_SET, T_TEXT = 0, 1, 2, 3, 4, 5
ABSENT_KEY = -(2**63)
GREATEST_KEY = 2**63 - 1
SPREAD = -7046029254386353131
BASE, COUNT, ROOM, OUTPUT, PLAIN = 0, 1, 2, 3, 4
"""Of a cell: where it begins, entries, room for entries, how many ids it writes at most, 1 if no id is negative."""
CELL_ROW = 8


class Groups(NamedTuple):
    """One row per group: its gate, its table, its tests."""

    gate: np.ndarray  # kind
    arg: np.ndarray  # the word, the key column or the text column
    mask: np.ndarray  # equal: the mask; cells: the level's shift
    table: np.ndarray  # where its table begins
    size: np.ndarray  # slots of the table (a power of two for equal)
    shift: np.ndarray  # equal: 64 - log2(size)
    tests: np.ndarray  # where its tests begin; one more than groups
    test_kind: np.ndarray
    test_arg: np.ndarray
    test_column: np.ndarray


class Cells(NamedTuple):
    """What an event needs of a cell, or of a table's slot, stands in one row, so that it is fetched at once."""

    arena: np.ndarray
    cell: np.ndarray  # [cell, BASE | COUNT | ROOM | OUTPUT | PLAIN]
    table: np.ndarray  # [slot, (key, cell)]; cell -1: empty
    run_start: np.ndarray
    run_length: np.ndarray
    run_ids: np.ndarray
    several: np.ndarray  # ids of the subscriptions with several conjunctions
    set_start: np.ndarray
    set_pairs: np.ndarray


class Events(NamedTuple):
    """One batch, encoded: [column, event]."""

    words: np.ndarray
    keys: np.ndarray
    ranks: np.ndarray  # the grid cell of each key, where there is a grid
    text_value: np.ndarray  # the row of the value's answers; -1: absent
    holds_start: np.ndarray  # [column, value]
    fails_start: np.ndarray
    holds: np.ndarray
    fails: np.ndarray


SLACK = 16
"""How many places past its end a kernel may read from the arena or write to the output."""


@nb.njit(nogil=True, cache=True, inline="always")
def spread(key, shift):
    return ((key * np.int64(SPREAD)) >> shift) & ((np.int64(1) << (np.int64(64) - shift)) - np.int64(1))


@nb.njit(nogil=True, cache=True, inline="always")
def _in_sorted(numbers, start, end, wanted):
    """Does the ascending stretch hold the number?"""
    last = end
    while start < end:
        middle = (start + end) >> 1
        if numbers[middle] < wanted:
            start = middle + 1
        else:
            end = middle
    return start < last and numbers[start] == wanted


@nb.njit(nogil=True, cache=True, inline="always")
def _in_set(set_start, set_pairs, number, key):
    low, high = set_start[number], set_start[number + 1]
    first = low
    while low < high:
        middle = (low + high) >> 1
        if set_pairs[2 * middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low > first and key <= set_pairs[2 * (low - 1) + 1]


@nb.njit(nogil=True, cache=True, inline="always")
def _text_holds(holds, holds_begin, holds_end, fails, fails_begin, fails_end, tagged):
    if tagged & 2:
        return not _in_sorted(fails, fails_begin, fails_end, tagged >> 2)
    return _in_sorted(holds, holds_begin, holds_end, tagged >> 2)


# All in one function, and no slices of arrays in it: each array that Numba hands to a function or slices has its reference
# count raised and lowered, which made it 6 to 12 times slower.
@nb.njit(nogil=True, cache=True)
def match(groups, cells, events, begin, end, out, ends, largest, stamps):
    """Ids of the events from `begin`; stops before one whose ids might not fit. Returns the next event.

    ends[event] is where its ids end in `out`. With empty stamps, ids of several conjunctions come as often as they match.
    `largest`: how many entries the largest cell has.
    """
    gates, args, masks, tables = groups.gate, groups.arg, groups.mask, groups.table
    sizes, shifts, tests = groups.size, groups.shift, groups.tests
    test_kinds, test_args, test_columns = groups.test_kind, groups.test_arg, groups.test_column
    arena, rows, slots = cells.arena, cells.cell, cells.table
    run_start, run_length, run_ids, several = cells.run_start, cells.run_length, cells.run_ids, cells.several
    set_start, set_pairs = cells.set_start, cells.set_pairs
    words, keys, ranks, text_value = events.words, events.keys, events.ranks, events.text_value
    holds_start, fails_start, holds, fails = events.holds_start, events.fails_start, events.holds, events.fails
    tagged_ids = np.empty(largest + SLACK, np.int64)
    passed = np.empty((largest >> 3) + 2, np.int64)
    at = np.int64(0)
    room = np.int64(len(out)) - SLACK
    stamped = len(stamps) > 0
    for event in range(begin, end):
        for group in range(len(gates)):
            gate = gates[group]
            cell = np.int64(-1)
            first_text, last_text = np.int64(0), np.int64(1)
            if gate == EQUAL:
                key = words[args[group], event] & masks[group]
                table = tables[group]
                slot = spread(key, shifts[group])
                while True:
                    cell = slots[table + slot, 1]
                    if cell < 0 or slots[table + slot, 0] == key:
                        break
                    slot = (slot + 1) & (sizes[group] - 1)
            elif gate == CELLS:
                rank = ranks[args[group], event]
                if rank >= 0:
                    cell = slots[tables[group] + (rank >> masks[group]), 1]
            elif gate == OPEN:
                cell = slots[tables[group], 1]
            else:
                value = text_value[args[group], event]
                if value < 0:
                    continue
                first_text, last_text = holds_start[args[group], value], holds_start[args[group], value + 1]
            for text in range(first_text, last_text):
                if gate == TEXT:
                    if holds[text] >= sizes[group]:
                        break
                    cell = slots[tables[group] + holds[text], 1]
                if cell < 0:
                    continue
                count = rows[cell, COUNT]
                if count == 0:
                    continue
                if at + rows[cell, OUTPUT] > room:
                    return event
                base = rows[cell, BASE]
                first_test, last_test = tests[group], tests[group + 1]
                if first_test == last_test and rows[cell, PLAIN]:
                    for k in range(np.uint64(count)):
                        out[np.uint64(at) + k] = arena[np.uint64(base) + k]
                    at += count
                    continue
                width = rows[cell, ROOM]
                blocks = (count + 7) >> 3
                left = np.int64(1)  # 0 once no entry of the cell is left
                for block in range(blocks):
                    passed[block] = 255
                passed[blocks - 1] = (1 << (count - 8 * (blocks - 1))) - 1  # nothing past the last entry
                for test in range(first_test, last_test):
                    kind, arg = test_kinds[test], test_args[test]
                    low = base + test_columns[test] * width
                    left = np.int64(0)
                    if kind == T_WORD:
                        word = words[arg, event]
                        for block in range(blocks):
                            passed[block] &= equal_under(arena, low + 8 * block, low + width + 8 * block, word)
                            left |= passed[block]
                    elif kind == T_RANGE:
                        key = keys[arg, event]
                        for block in range(blocks):
                            passed[block] &= in_range(arena, low + 8 * block, low + width + 8 * block, key)
                            left |= passed[block]
                    elif kind == T_LOW:
                        key = keys[arg, event]
                        for block in range(blocks):
                            passed[block] &= at_most(arena, low + 8 * block, key)
                            left |= passed[block]
                    elif kind == T_HIGH:
                        key = keys[arg, event]
                        if key == ABSENT_KEY:
                            key = np.int64(GREATEST_KEY)  # fails every bound, passes where there is none
                        for block in range(blocks):
                            passed[block] &= at_least(arena, low + 8 * block, key)
                            left |= passed[block]
                    elif kind == T_SET:
                        left = np.int64(1)
                        key = keys[arg, event]
                        for k in range(count):
                            number = arena[low + k]
                            if number >= 0 and not _in_set(set_start, set_pairs, number, key):
                                passed[k >> 3] &= ~(np.int64(1) << (k & 7))
                    else:
                        left = np.int64(1)
                        value = text_value[arg, event]
                        for k in range(count):
                            tagged = arena[low + k]
                            if tagged < 0 or (passed[k >> 3] >> (k & 7)) & 1 == 0:
                                continue
                            if value < 0:
                                holding = tagged & 1 == 1
                            else:
                                holding = _text_holds(
                                    holds, holds_start[arg, value], holds_start[arg, value + 1],
                                    fails, fails_start[arg, value], fails_start[arg, value + 1], tagged,
                                )  # fmt: skip
                            if not holding:
                                passed[k >> 3] &= ~(np.int64(1) << (k & 7))
                    if left == 0:
                        break
                if last_test > first_test and left == 0:
                    continue
                if rows[cell, PLAIN]:
                    for block in range(blocks):
                        at = write_eight(arena, base + 8 * block, passed[block], out, at)
                    continue
                hits = np.int64(0)
                for block in range(blocks):
                    hits = write_eight(arena, base + 8 * block, passed[block], tagged_ids, hits)
                for k in range(hits):
                    tagged = tagged_ids[k]
                    if tagged >= 0:
                        out[at] = tagged
                        at += 1
                        continue
                    number = (~tagged) >> 1
                    if (~tagged) & 1:
                        if not stamped or stamps[number] != event + 1:
                            if stamped:
                                stamps[number] = event + 1
                            out[at] = several[number]
                            at += 1
                    else:
                        start, length = run_start[number], run_length[number]
                        for i in range(8):  # most runs are short: no loop whose end is hard to guess
                            out[at + i] = run_ids[start + i]
                        for i in range(8, length):
                            out[at + i] = run_ids[start + i]
                        at += length
        ends[event] = at
    return end


@nb.njit(nogil=True, cache=True)
def fill_rows(ends, rows, first):
    """rows[k] = the event whose ids stand at k."""
    at = np.int64(0)
    for event in range(len(ends)):
        for k in range(at, ends[event]):
            rows[k] = first + event
        at = ends[event]


@nb.njit(nogil=True, cache=True)
def pack_word(codes, word, shift):
    for event in range(len(codes)):
        word[event] |= np.int64(codes[event]) << shift


@nb.njit(nogil=True, cache=True)
def rank_keys(grid, keys, ranks):
    """How many cut points are at or below each key; -1 for an absent one."""
    count = len(grid)
    for i in range(len(keys)):
        key = keys[i]
        if key == ABSENT_KEY:
            ranks[i] = -1
            continue
        base, size = 0, count
        while size > 1:  # no branch but a conditional move: the compiler keeps it so
            half = size >> 1
            base += half if grid[base + half - 1] <= key else 0
            size -= half
        ranks[i] = base + (1 if count and grid[base] <= key else 0)
