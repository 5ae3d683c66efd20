"""The kernels: which entries an event matches, over flat arrays.

An entry lives in a cell, a stretch of the arena with one column per number it needs. A cell of the group "behind symbol, with
a price range left to test" that holds three entries and has room for four:

    arena[base ...]    ids  7 12 31 .    first  p p p .    last  p p p .

A batch goes through in stretches of events. First every gate is looked up for all of a stretch, one gate after the other, which
leaves for each event the cells it opens (a text gate may open several); then, event by event, the cells' entries are tested
sixteen at a time (`lanes`) and the ids of those that pass are written. Entries that only compare values of small domains may
live in bitmaps instead (`bitmaps`), which are walked first.
Looking up and testing in turns, event by event, took 1.3 to 2 times as long.

Ids are subscription ids; a negative one is ~tag: an even tag is a run of ids with the same entry, an odd one a subscription
with several conjunctions, or an id of more than 31 bits, written once per event (`stamps`).
"""

# Numba infers the kernels' types, and the callers in `store` and `engine` are typed.
# mypy: ignore-errors

from __future__ import annotations

import numba as nb
import numpy as np

from contentcast.matching.index.lanes import (
    and_rows,
    at_least,
    at_most,
    equal_under,
    flush,
    in_range,
    lowest_one,
    write_sixteen,
)
from contentcast.matching.index.layout import (
    ABSENT_CODE,
    BASE,
    BLOCK,
    CELLS,
    COUNT,
    EQUAL,
    GREATEST_CODE,
    GROUP,
    MOST_OPENED,
    ONLY_RANGE,
    ONLY_WORD,
    OPEN,
    OTHER,
    OUTPUT,
    PLAIN,
    RANGE_LOW,
    ROOM,
    SLACK,
    SPREAD,
    STREAMED,
    STRETCH,
    T_HIGH,
    T_LOW,
    T_RANGE,
    T_SET,
    T_WORD,
    WORD_RANGE,
    WORD_RANGE_LOW,
)


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


@nb.njit(nogil=True, cache=True, inline="always")
def _name_ids(out, start, end, tagged_ids, event, run_start, run_length, run_ids, several, stamps):
    """Put the ids that the tagged ones in out[start:end] stand for in their place; returns the new end."""
    for k in range(start, end):
        tagged_ids[k - start] = out[k]
    at = start
    for k in range(end - start):
        tagged = tagged_ids[k]
        if tagged >= 0:
            out[at] = tagged
            at += 1
            continue
        number = (~tagged) >> 1
        if (~tagged) & 1:
            if len(stamps) == 0 or stamps[number] != event + 1:
                if len(stamps) > 0:
                    stamps[number] = event + 1
                out[at] = several[number]
                at += 1
        else:
            first, length = run_start[number], run_length[number]
            for i in range(8):  # most runs are short: no loop whose end is hard to guess
                out[at + i] = run_ids[first + i]
            for i in range(8, length):
                out[at + i] = run_ids[first + i]
            at += length
    return at


# All in one function, and no slices of arrays in it: each array that Numba hands to a function or slices has its reference
# count raised and lowered, which made it 6 to 12 times slower.
@nb.njit(nogil=True, cache=True)
def match(groups, cells, bits, events, begin, end, results, ends, largest, most, stamps):
    """Ids of the events from `begin`; stops before one whose ids might not fit. Returns the next event.

    ends[event] is where its ids end in `results`. With empty stamps, ids of several conjunctions come as often as they match.
    `largest`: how many entries the largest cell has; `most`: how many ids one cell writes at most, if what is written goes past
    the caches (`results` beginning a line), else 0.
    """
    gates, args, masks, tables, shapes = groups.gate, groups.arg, groups.mask, groups.table, groups.shape
    sizes, shifts, tests = groups.size, groups.shift, groups.tests
    test_kinds, test_args, test_columns = groups.test_kind, groups.test_arg, groups.test_column
    arena, rows, slots = cells.arena, cells.cell, cells.table
    run_start, run_length, run_ids, several = cells.run_start, cells.run_length, cells.run_ids, cells.several
    set_start, set_pairs = cells.set_start, cells.set_pairs
    words, codes, ranks, keys, text_value = events.words, events.codes, events.ranks, events.keys, events.text_value
    holds_start, fails_start, holds, fails = events.holds_start, events.fails_start, events.holds, events.fails
    bit_word, bit_shift, bit_mask, bit_field = bits.word, bits.shift, bits.mask, bits.field
    bit_stride, first_row, bit_ids, bits_plain = bits.stride, bits.first_row, bits.ids, bits.plain[0]
    row_words, summary_words = bits.rows.shape[1], bits.summary.shape[1]
    bit_rows, summary = bits.rows.reshape(-1), bits.summary.reshape(-1)
    fields = len(first_row)
    row_at, block = np.empty(fields, np.int64), np.empty(BLOCK // 16, np.uint16)
    tagged_ids = np.empty(max(largest, BLOCK) + SLACK, np.int64)
    passed = np.empty((largest >> 4) + 2, np.int64)
    width = len(gates) * (1 + events.most_texts[0]) + 1
    stretch = max(1, min(STRETCH, end - begin, MOST_OPENED // width))
    opened = np.empty(stretch * width, np.int32)
    opens = np.empty(stretch, np.int64)
    row_of = np.empty((fields, stretch), np.int64)
    streaming = most > 0
    out = np.empty(STREAMED + max(most, BLOCK) + SLACK, np.int64) if streaming else results
    done = np.int64(0)  # what has gone from `out` to the results
    at = np.int64(0)
    room = np.int64(len(results)) - SLACK
    for first in range(begin, end, stretch):
        last = min(end, first + stretch)
        for k in range(last - first):
            opens[k] = k * width
        for group in range(len(gates)):
            gate, arg, table = gates[group], args[group], tables[group]
            if gate == EQUAL:
                mask, shift, size = masks[group], shifts[group], sizes[group]
                for event in range(first, last):
                    key = words[arg, event] & mask
                    slot = spread(key, shift)
                    while True:
                        cell = slots[table + slot, 1]
                        if cell < 0 or slots[table + slot, 0] == key:
                            break
                        slot = (slot + 1) & (size - 1)
                    opened[opens[event - first]] = cell
                    opens[event - first] += cell >= 0
            elif gate == CELLS:
                shift = masks[group]
                for event in range(first, last):
                    rank = np.int64(ranks[arg, event])
                    cell = slots[table + (max(rank, 0) >> shift), 1]
                    opened[opens[event - first]] = cell
                    opens[event - first] += (cell >= 0) & (rank >= 0)
            elif gate == OPEN:
                cell = slots[table, 1]
                for event in range(first, last):
                    opened[opens[event - first]] = cell
                    opens[event - first] += cell >= 0
            else:
                size = sizes[group]
                for event in range(first, last):
                    value = text_value[arg, event]
                    if value < 0:
                        continue
                    for text in range(holds_start[value], holds_start[value + 1]):
                        if holds[text] >= size:
                            break
                        cell = slots[table + holds[text], 1]
                        opened[opens[event - first]] = cell
                        opens[event - first] += cell >= 0
        for f in range(fields):
            for k in range(last - first):
                row_of[f, k] = first_row[f]
        for a in range(len(bit_word)):
            w, f, shift, mask, stride = bit_word[a], bit_field[a], bit_shift[a], bit_mask[a], bit_stride[a]
            for k in range(last - first):
                row_of[f, k] += ((words[w, first + k] >> shift) & mask) * stride
        for event in range(first, last):
            if fields > 0:
                for f in range(fields):
                    row_at[f] = row_of[f, event - first] * row_words
                for s in range(summary_words):
                    alive = np.int64(-1)
                    for f in range(fields):
                        alive &= summary[row_of[f, event - first] * summary_words + s]
                    while alive != 0:
                        number = 64 * s + lowest_one(alive)
                        alive &= alive - 1
                        for k in range(BLOCK // 16):
                            block[k] = 0xFFFF
                        f, some = np.int64(0), np.int64(1)
                        while f < fields:
                            following = min(fields, f + (6 if f == 0 else 12))
                            some = and_rows(bit_rows, row_at, f, following, (BLOCK // 64) * number, block)
                            f = fields if some == 0 else following
                        if some == 0:
                            continue
                        if done + at + BLOCK > room:
                            for k in range(at if streaming else 0):
                                results[done + k] = out[k]
                            return event
                        if streaming and at >= STREAMED:
                            whole = flush(results, done, out, at)
                            done, at = done + whole, at - whole
                        start = at
                        while some != 0:
                            k = lowest_one(some)
                            some &= some - 1
                            at = write_sixteen(bit_ids, BLOCK * number + 16 * k, np.int64(block[k]), out, at)
                        if not bits_plain:
                            at = _name_ids(out, start, at, tagged_ids, event, run_start, run_length, run_ids, several, stamps)
            for place in range((event - first) * width, opens[event - first]):
                cell = opened[place]
                count, base = rows[cell, COUNT], rows[cell, BASE]
                if count == 0:
                    continue
                if done + at + rows[cell, OUTPUT] > room:
                    for k in range(at if streaming else 0):
                        results[done + k] = out[k]
                    return event
                if streaming and at >= STREAMED:
                    whole = flush(results, done, out, at)
                    done, at = done + whole, at - whole
                group = rows[cell, GROUP]
                shape = shapes[group]
                first_test, last_test = tests[group], tests[group + 1]
                room_of = rows[cell, ROOM]
                start = at
                ones = np.int64(0xFFFF)
                if shape == 0:
                    for k in range(np.uint64(count)):
                        out[np.uint64(at) + k] = arena[np.uint64(base) + k]
                    at += count
                elif shape < OTHER:
                    word, code, lower = np.int64(0), np.int64(0), np.int64(0)
                    test = first_test
                    if shape == ONLY_WORD or shape >= WORD_RANGE:
                        word = words[test_args[test] >> 1, event] >> (32 * (test_args[test] & 1))
                        test += 1
                    if shape >= ONLY_RANGE:
                        code = np.int64(codes[test_args[test], event])
                        test += 1
                    if shape in (RANGE_LOW, WORD_RANGE_LOW):
                        lower = np.int64(codes[test_args[test], event])
                    if shape == ONLY_WORD:
                        for k in range(base, base + count, 16):
                            left = base + count - k
                            ones = 0xFFFF if left >= 16 else (1 << left) - 1
                            one = k + room_of
                            ones &= equal_under(arena, one, one + room_of, word)
                            at = write_sixteen(arena, k, ones, out, at)
                    elif shape == ONLY_RANGE:
                        for k in range(base, base + count, 16):
                            left = base + count - k
                            ones = 0xFFFF if left >= 16 else (1 << left) - 1
                            one = k + room_of
                            ones &= in_range(arena, one, one + room_of, code)
                            at = write_sixteen(arena, k, ones, out, at)
                    elif shape == RANGE_LOW:
                        for k in range(base, base + count, 16):
                            left = base + count - k
                            ones = 0xFFFF if left >= 16 else (1 << left) - 1
                            one = k + room_of
                            ones &= in_range(arena, one, one + room_of, code)
                            ones &= at_most(arena, one + 2 * room_of, lower)
                            at = write_sixteen(arena, k, ones, out, at)
                    elif shape == WORD_RANGE:
                        for k in range(base, base + count, 16):
                            left = base + count - k
                            ones = 0xFFFF if left >= 16 else (1 << left) - 1
                            one = k + room_of
                            ones &= equal_under(arena, one, one + room_of, word)
                            ones &= in_range(arena, one + 2 * room_of, one + 3 * room_of, code)
                            at = write_sixteen(arena, k, ones, out, at)
                    else:
                        for k in range(base, base + count, 16):
                            left = base + count - k
                            ones = 0xFFFF if left >= 16 else (1 << left) - 1
                            one = k + room_of
                            ones &= equal_under(arena, one, one + room_of, word)
                            ones &= in_range(arena, one + 2 * room_of, one + 3 * room_of, code)
                            ones &= at_most(arena, one + 4 * room_of, lower)
                            at = write_sixteen(arena, k, ones, out, at)
                else:
                    blocks = (count + 15) >> 4
                    for k in range(blocks):
                        passed[k] = 0xFFFF
                    passed[blocks - 1] = (1 << (count - 16 * (blocks - 1))) - 1  # nothing past the last entry
                    some = np.int64(1)  # 0 once no entry of the cell is left
                    for test in range(first_test, last_test):
                        kind, arg = test_kinds[test], test_args[test]
                        low = base + test_columns[test] * room_of
                        some = np.int64(0)
                        if kind == T_WORD:
                            word = words[arg >> 1, event] >> (32 * (arg & 1))
                            for k in range(blocks):
                                passed[k] &= equal_under(arena, low + 16 * k, low + room_of + 16 * k, word)
                                some |= passed[k]
                        elif kind == T_RANGE:
                            code = np.int64(codes[arg, event])
                            for k in range(blocks):
                                passed[k] &= in_range(arena, low + 16 * k, low + room_of + 16 * k, code)
                                some |= passed[k]
                        elif kind == T_LOW:
                            code = np.int64(codes[arg, event])
                            for k in range(blocks):
                                passed[k] &= at_most(arena, low + 16 * k, code)
                                some |= passed[k]
                        elif kind == T_HIGH:
                            code = np.int64(codes[arg, event])
                            if code == ABSENT_CODE:
                                code = np.int64(GREATEST_CODE)  # fails every bound, passes where there is none
                            for k in range(blocks):
                                passed[k] &= at_least(arena, low + 16 * k, code)
                                some |= passed[k]
                        elif kind == T_SET:
                            some = np.int64(1)
                            key = keys[arg, event]
                            for k in range(count):
                                number = np.int64(arena[low + k])
                                if number >= 0 and not _in_set(set_start, set_pairs, number, key):
                                    passed[k >> 4] &= ~(np.int64(1) << (k & 15))
                        else:
                            some = np.int64(1)
                            value = text_value[arg, event]
                            for k in range(count):
                                tagged = np.int64(arena[low + k])
                                if tagged < 0 or (passed[k >> 4] >> (k & 15)) & 1 == 0:
                                    continue
                                if value < 0:
                                    holding = tagged & 1 == 1
                                else:
                                    holding = _text_holds(
                                        holds, holds_start[value], holds_start[value + 1],
                                        fails, fails_start[value], fails_start[value + 1], tagged,
                                    )  # fmt: skip
                                if not holding:
                                    passed[k >> 4] &= ~(np.int64(1) << (k & 15))
                        if some == 0:
                            break
                    if some != 0:
                        for k in range(blocks):
                            at = write_sixteen(arena, base + 16 * k, passed[k], out, at)
                if not rows[cell, PLAIN]:
                    at = _name_ids(out, start, at, tagged_ids, event, run_start, run_length, run_ids, several, stamps)
            ends[event] = done + at
    for k in range(at if streaming else 0):
        results[done + k] = out[k]
    return end
