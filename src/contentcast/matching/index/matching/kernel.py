"""The kernels: which entries an event matches, over flat arrays.

An entry lives in a cell, a stretch of the arena with one column per number it needs. A cell of the group "behind symbol, with
a price range left to test" that holds three entries and has room for four:

    arena[base ...]    ids  7 12 31 .    first  p p p .    last  p p p .

A batch goes through in stretches of up to 256 events, each in five phases, which have their numbers in `match`:

    1  open cells          gate by gate, the cells that the events of the stretch open are looked up
    2  test small cells    sixteen entries at a time, for all events
    3  find bitmap rows    for each event the rows of the bitmaps and the blocks that may hold a match
    4  walk bitmaps        event by event: the rows are AND-ed, and the ids of the bits that are left are written
    5  write ids           event by event: those of phase 2 are written, and the larger cells tested

Looking up and testing in turns, event by event, took 1.3 to 2 times as long; testing the small cells event by event 1.6 times.

Ids are subscription ids; a negative one is ~tag: an even tag is a run of ids with the same entry, an odd one a subscription
with several conjunctions, or an id of more than 31 bits, written once per event (`stamps`).
"""

# Numba infers the kernels' types, and the callers in `kernel_call` are typed.
# mypy: ignore-errors

from __future__ import annotations

import numba as nb
import numpy as np

from contentcast.matching.index.machine.compaction import write_few, write_sixteen
from contentcast.matching.index.machine.hashing import spread
from contentcast.matching.index.machine.layout import (
    ABSENT_CODE,
    BASE,
    BLOCK,
    BUCKETS,
    CAPACITY,
    COUNT,
    EXACT_BITS,
    GATE_CELLS,
    GATE_EQUAL,
    GATE_OPEN,
    GREATEST_CODE,
    GROUP,
    INDEX,
    MOST_BLOCKS,
    MOST_EXACT,
    MOST_FOUND,
    MOST_OPENED,
    ONLY_RANGE,
    ONLY_WORD,
    OTHER,
    OUTPUT,
    PLAIN,
    PLAIN_BITS,
    RANGE_LOW,
    SLACK,
    STREAMED,
    STRETCH,
    T_HIGH,
    T_LOW,
    T_RANGE,
    T_SET,
    T_WORD,
    USED_BITS,
    WORD_RANGE,
    WORD_RANGE_LOW,
)
from contentcast.matching.index.machine.raw_arrays import address_of, int_line, long_line, longs, pointer
from contentcast.matching.index.machine.simd import (
    and_rows,
    at_least,
    at_most,
    equal_under,
    flush,
    in_range,
    lowest_one,
    pass_range,
    pass_range_low,
    pass_word,
    pass_word_range,
    pass_word_range_low,
    prefetch,
)
from contentcast.matching.index.matching.cell_tests import (
    Lists,
    test_none,
    test_range,
    test_range_low,
    test_word,
    test_word_range,
    test_word_range_low,
)
from contentcast.matching.index.matching.probes import in_set, name_ids, text_holds


@nb.njit(nogil=True, cache=True, inline="always")
def _stretch(groups, openings, count):
    """How many events go through together."""
    return max(1, min(STRETCH, count, MOST_OPENED // (len(groups.gate) * openings + 1)))


@nb.njit(nogil=True, cache=True, inline="always")
def _most_found(groups, openings, stretch):
    return stretch * openings * len(groups.gate) + min(MOST_FOUND, stretch * MOST_BLOCKS * len(groups.gate)) + MOST_BLOCKS


@nb.njit(nogil=True, cache=True)
def scratch_size(groups, bits, most_texts, count, largest, most):
    """How many numbers `match` needs room for, taken from one piece: one for each would cost a quick event half its time."""
    openings = max(1, most_texts)
    stretch = _stretch(groups, openings, count)
    fields, alive_words = len(bits.first_row), bits.named.shape[1]
    size = alive_words * (1 + stretch) + fields * (1 + stretch) + 2 * BLOCK // 64
    size += max(largest, 2 * BLOCK) + SLACK + (largest >> 4) + 2
    size += 2 * (stretch * openings + 2) + 2 * _most_found(groups, openings, stretch) + stretch
    return size + (STREAMED + max(most, 2 * BLOCK) + SLACK if most > 0 else 0)


# All in one function, and no slices of arrays in it: each array that Numba hands to a function or slices has its reference
# count raised and lowered, which made it 6 to 12 times slower. Phases 1, 3 and 5 as functions that Numba inlines were tried
# again when the arrays came by address: a batch took 1.01 to 1.48 times as long (market 100,000: 1.19, summaries 10,000: 1.48).
@nb.njit(nogil=True, cache=True)
def match(groups, cells, bits, events, begin, end, results, ends, largest, most, stamps, scratch):
    """Ids of the events from `begin`; stops before one whose ids might not fit. Returns the next event.

    ends[event] is where its ids end in `results`. With empty stamps, ids of several conjunctions come as often as they match.
    `largest`: how many entries the largest cell has; `most`: how many ids one cell writes at most, if what is written goes past
    the caches (`results` beginning a line), else 0. `scratch`: so much as `scratch_size` says, kept by the caller.
    """
    gates, args, masks, tables, shapes = groups.gate, groups.arg, groups.mask, groups.table, groups.shape
    sizes, shifts, tests = groups.size, groups.shift, groups.tests
    test_kinds, test_args, test_columns = groups.test_kind, groups.test_arg, groups.test_column
    arena, rows, slots = cells.arena, cells.cell, cells.table
    run_start, run_length, run_ids, several = cells.run_start, cells.run_length, cells.run_ids, cells.several
    set_start, set_pairs = cells.set_start, cells.set_pairs
    words, codes, ranks, keys, text_value = events.words, events.codes, events.ranks, events.keys, events.text_value
    holds_start, fails_start, holds, fails = events.holds_start, events.fails_start, events.holds, events.fails
    bit_word, bit_shift, bit_mask, bit_codes = bits.word, bits.shift, bits.mask, bits.codes
    bit_field, bit_stride, bit_values, first_row = bits.field, bits.stride, bits.values, bits.first_row
    bit_ids, bit_free = bits.ids, bits.free
    bits_plain, bits_exact = bits.flags[PLAIN_BITS], bits.flags[EXACT_BITS]
    entry_words, entries = bits.words, bits.entries
    row_words, alive_words = bits.rows.shape[1], bits.named.shape[1]
    bit_rows, named = bits.rows.reshape(-1), bits.named.reshape(-1)
    fields = len(first_row)
    openings = max(1, events.most_texts[0])
    stretch = _stretch(groups, openings, end - begin)
    places, most_found = stretch * openings + 1, _most_found(groups, openings, stretch)
    free = address_of(scratch)
    used_blocks, free = long_line(free, alive_words), free + 8 * alive_words
    alive_blocks, free = longs(free, alive_words, stretch), free + 8 * alive_words * stretch
    row_at, free = long_line(free, fields), free + 8 * fields
    row_of, free = longs(free, fields, stretch), free + 8 * fields * stretch
    blocks, free = nb.carray(pointer(free), (2 * BLOCK // 16,), np.uint16), free + 2 * BLOCK // 8
    tagged_ids, free = long_line(free, max(largest, 2 * BLOCK) + SLACK), free + 8 * (max(largest, 2 * BLOCK) + SLACK)
    passed, free = long_line(free, (largest >> 4) + 2), free + 8 * ((largest >> 4) + 2)
    found, free = long_line(free, most_found), free + 8 * most_found
    before, free = int_line(free, most_found), free + 8 * most_found
    opened, free = int_line(free, places), free + 8 * places
    opener, free = int_line(free, places), free + 8 * places
    newest, free = int_line(free, stretch), free + 8 * stretch
    lists = Lists(opened, opener, found, before, newest, arena, rows, words, codes, test_args)
    for number in range(alive_words):
        used_blocks[number] = 0
    for number in range(row_words // (BLOCK // 64) if fields > 0 else 0):
        if bits.flags[USED_BITS] > BLOCK * number:
            used_blocks[number >> 6] |= np.int64(1) << (number & 63)
    streaming = most > 0
    out = long_line(free, STREAMED + max(most, 2 * BLOCK) + SLACK) if streaming else results
    done = np.int64(0)  # what has gone from `out` to the results
    at = np.int64(0)
    room = np.int64(len(results)) - SLACK
    for first in range(begin, end, stretch):
        last = min(end, first + stretch)
        for k in range(last - first):
            newest[k] = -1
        number = np.int64(0)
        for group in range(len(gates)):
            # 1. Open cells.
            gate, arg, table = gates[group], args[group], tables[group]
            many = np.int64(0)  # a plain 0 would be a type of its own at first, and the functions below be compiled for it too
            if gate == GATE_EQUAL:
                mask, shift, last_slot = masks[group], shifts[group], INDEX(sizes[group] - 1)
                for event in range(INDEX(first), INDEX(last)):
                    key = words[INDEX(arg), event] & mask
                    slot = INDEX(spread(key, shift))
                    while True:
                        cell = slots[INDEX(table) + slot, INDEX(1)]
                        if cell < 0 or slots[INDEX(table) + slot, INDEX(0)] == key:
                            break
                        slot = (slot + INDEX(1)) & last_slot
                    opened[INDEX(many)], opener[INDEX(many)] = cell, event - INDEX(first)
                    many += cell >= 0
            elif gate == GATE_CELLS:
                shift = masks[group]
                for event in range(INDEX(first), INDEX(last)):
                    rank = np.int64(ranks[INDEX(arg), event])
                    cell = slots[INDEX(table + (max(rank, 0) >> shift)), INDEX(1)]
                    opened[INDEX(many)], opener[INDEX(many)] = cell, event - INDEX(first)
                    many += (cell >= 0) & (rank >= 0)
            elif gate == GATE_OPEN:
                cell = slots[table, 1]
                for event in range(first, last):
                    opened[many], opener[many] = cell, event - first
                    many += cell >= 0
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
                        opened[many], opener[many] = cell, event - first
                        many += cell >= 0
            # 2. Test small cells.
            shape = shapes[group]
            limit = most_found - stretch * openings * (len(gates) - group)  # each cell still to come takes one place at least
            if shape == 0:
                number = test_none(lists, tests[group], many, first, limit, number)
            elif shape == ONLY_WORD:
                number = test_word(lists, tests[group], many, first, limit, number)
            elif shape == ONLY_RANGE:
                number = test_range(lists, tests[group], many, first, limit, number)
            elif shape == RANGE_LOW:
                number = test_range_low(lists, tests[group], many, first, limit, number)
            elif shape == WORD_RANGE:
                number = test_word_range(lists, tests[group], many, first, limit, number)
            elif shape == WORD_RANGE_LOW:
                number = test_word_range_low(lists, tests[group], many, first, limit, number)
            else:
                for i in range(many):
                    k = np.int64(opener[i])
                    found[number], before[number] = np.int64(opened[i]) << 16, newest[k]
                    newest[k] = number
                    number += 1
        # 3. Find bitmap rows.
        these = INDEX(last - first)
        for f in range(INDEX(fields)):
            for k in range(these):
                row_of[f, k] = first_row[f]
        for s in range(INDEX(alive_words if fields > 0 else 0)):
            for k in range(these):
                alive_blocks[s, k] = used_blocks[s]
        for a in range(INDEX(len(bit_word))):
            w, f, shift, mask, codes_at = INDEX(bit_word[a]), INDEX(bit_field[a]), bit_shift[a], bit_mask[a], bit_codes[a]
            stride, values = bit_stride[a], bit_values[a]
            if values <= MOST_EXACT:
                for k in range(these):
                    code = (words[w, INDEX(first) + k] >> shift) & mask
                    row_of[f, k] += min(max(code - 1, 0), values) * stride
            else:
                for k in range(these):
                    row_of[f, k] += ((words[w, INDEX(first) + k] >> shift) & (BUCKETS - 1)) * stride
            for s in range(INDEX(alive_words)):
                others = bit_free[a, s]
                if others & used_blocks[s] == used_blocks[s]:
                    continue  # every block has an entry that does not mind
                for k in range(these):
                    code = codes_at + ((words[w, INDEX(first) + k] >> shift) & mask)
                    alive_blocks[s, k] &= named[INDEX(code) * INDEX(alive_words) + s] | others
        for event in range(first, last):
            # 4. Walk bitmaps.
            if fields > 0:
                for f in range(INDEX(fields)):
                    row_at[f] = row_of[f, INDEX(event - first)] * row_words
                for s in range(alive_words):
                    alive = alive_blocks[s, event - first]
                    while alive != 0:  # two blocks at a time: half as many ends of loops to guess
                        one = 64 * s + lowest_one(alive)
                        alive &= alive - 1
                        other = 64 * s + lowest_one(alive) if alive != 0 else one
                        both = np.int64(-1) if alive != 0 else np.int64(0xFFFFFFFF)
                        alive &= alive - 1
                        f, some = np.int64(0), both
                        while f < fields and some != 0:
                            following = min(fields, f + 8)
                            some = and_rows(bit_rows, row_at, f, following, (BLOCK // 64) * one, blocks, 0)
                            some |= and_rows(bit_rows, row_at, f, following, (BLOCK // 64) * other, blocks, 1) << 32
                            some &= both
                            f = following
                        if some == 0:
                            continue
                        if done + at + 2 * BLOCK > room:
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
                            slot = BLOCK * (one if k < BLOCK // 16 else other) + 16 * (k & (BLOCK // 16 - 1))
                            ones = np.int64(blocks[INDEX(k)])
                            if not bits_exact:
                                left = ones
                                while left != 0:
                                    bit = lowest_one(left)
                                    apart = np.int64(0)
                                    for w in range(len(entry_words)):
                                        value, mask = entries[slot + bit, 2 * w], entries[slot + bit, 2 * w + 1]
                                        apart |= (words[entry_words[w], event] ^ value) & mask
                                    ones &= ~(np.int64(apart != 0) << bit)
                                    left &= left - 1
                            at = write_sixteen(bit_ids, slot, ones, out, at)
                        if not bits_plain:
                            at = name_ids(out, start, at, tagged_ids, event, run_start, run_length, run_ids, several, stamps)
            # 5. Write ids: what phase 2 has found, and larger cells.
            item = np.int64(newest[INDEX(event - first)])
            while item >= 0:
                if streaming and at >= STREAMED:
                    whole = flush(results, done, out, at)
                    done, at = done + whole, at - whole
                place, ones = found[INDEX(item)] >> 16, found[INDEX(item)] & 0xFFFF
                item = np.int64(before[INDEX(item)])
                if item >= 0 and found[INDEX(item)] & 0xFFFF == 0:  # a larger cell is next: its columns are fetched now
                    ahead = INDEX(found[INDEX(item)] >> 16)
                    for k in range(8):
                        prefetch(arena, rows[ahead, INDEX(BASE)] + (k >> 1) * rows[ahead, INDEX(CAPACITY)] + 16 * (k & 1))
                if ones != 0:
                    if done + at + 16 > room:
                        for k in range(at if streaming else 0):
                            results[done + k] = out[k]
                        return event
                    at = write_few(arena, place, ones, out, at)
                    continue
                cell = place
                count, base, room_of = rows[cell, COUNT], rows[cell, BASE], rows[cell, CAPACITY]
                if done + at + rows[cell, OUTPUT] > room:
                    for k in range(at if streaming else 0):
                        results[done + k] = out[k]
                    return event
                group = rows[cell, GROUP]
                shape = shapes[group]
                first_test, last_test = tests[group], tests[group + 1]
                start = at
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
                            ones &= pass_word(arena, k + room_of, room_of, word, code, lower)
                            at = write_sixteen(arena, k, ones, out, at)
                    elif shape == ONLY_RANGE:
                        for k in range(base, base + count, 16):
                            left = base + count - k
                            ones = 0xFFFF if left >= 16 else (1 << left) - 1
                            ones &= pass_range(arena, k + room_of, room_of, word, code, lower)
                            at = write_sixteen(arena, k, ones, out, at)
                    elif shape == RANGE_LOW:
                        for k in range(base, base + count, 16):
                            left = base + count - k
                            ones = 0xFFFF if left >= 16 else (1 << left) - 1
                            ones &= pass_range_low(arena, k + room_of, room_of, word, code, lower)
                            at = write_sixteen(arena, k, ones, out, at)
                    elif shape == WORD_RANGE:
                        for k in range(base, base + count, 16):
                            left = base + count - k
                            ones = 0xFFFF if left >= 16 else (1 << left) - 1
                            ones &= pass_word_range(arena, k + room_of, room_of, word, code, lower)
                            at = write_sixteen(arena, k, ones, out, at)
                    else:
                        for k in range(base, base + count, 16):
                            left = base + count - k
                            ones = 0xFFFF if left >= 16 else (1 << left) - 1
                            ones &= pass_word_range_low(arena, k + room_of, room_of, word, code, lower)
                            at = write_sixteen(arena, k, ones, out, at)
                else:
                    pieces = (count + 15) >> 4
                    for k in range(pieces):
                        passed[k] = 0xFFFF
                    passed[pieces - 1] = (1 << (count - 16 * (pieces - 1))) - 1  # nothing past the last entry
                    some = np.int64(1)  # 0 once no entry of the cell is left
                    for test in range(first_test, last_test):
                        kind, arg = test_kinds[test], test_args[test]
                        low = base + test_columns[test] * room_of
                        some = np.int64(0)
                        if kind == T_WORD:
                            word = words[arg >> 1, event] >> (32 * (arg & 1))
                            for k in range(pieces):
                                passed[k] &= equal_under(arena, low + 16 * k, low + room_of + 16 * k, word)
                                some |= passed[k]
                        elif kind == T_RANGE:
                            code = np.int64(codes[arg, event])
                            for k in range(pieces):
                                passed[k] &= in_range(arena, low + 16 * k, low + room_of + 16 * k, code)
                                some |= passed[k]
                        elif kind == T_LOW:
                            code = np.int64(codes[arg, event])
                            for k in range(pieces):
                                passed[k] &= at_most(arena, low + 16 * k, code)
                                some |= passed[k]
                        elif kind == T_HIGH:
                            code = np.int64(codes[arg, event])
                            if code == ABSENT_CODE:
                                code = np.int64(GREATEST_CODE)  # fails every bound, passes where there is none
                            for k in range(pieces):
                                passed[k] &= at_least(arena, low + 16 * k, code)
                                some |= passed[k]
                        elif kind == T_SET:
                            some = np.int64(1)
                            key = keys[arg, event]
                            for k in range(count):
                                number = np.int64(arena[low + k])
                                if number >= 0 and not in_set(set_start, set_pairs, number, key):
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
                                    holding = text_holds(
                                        holds, holds_start[value], holds_start[value + 1],
                                        fails, fails_start[value], fails_start[value + 1], tagged,
                                    )  # fmt: skip
                                if not holding:
                                    passed[k >> 4] &= ~(np.int64(1) << (k & 15))
                        if some == 0:
                            break
                    if some != 0:
                        for k in range(pieces):
                            at = write_sixteen(arena, base + 16 * k, passed[k], out, at)
                if not rows[cell, PLAIN]:
                    at = name_ids(out, start, at, tagged_ids, event, run_start, run_length, run_ids, several, stamps)
            ends[event] = done + at
    for k in range(at if streaming else 0):
        results[done + k] = out[k]
    return end
