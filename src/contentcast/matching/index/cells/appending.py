"""The kernels that put entries into cells: they choose the cells, join equal entries and write the columns.

    entry rows  ->  open_cells (pairs of row and cell)  ->  join_same (equal entries become one with a run of ids)
                ->  append_entries (columns in the arena)

A full cell moves to the end of the arena with twice the room. So one more entry never moves more than one cell.
"""

# Numba infers the types, and the callers in `store` are typed.
# mypy: ignore-errors

from __future__ import annotations

import numba as nb
import numpy as np

from contentcast.matching.index.machine.hashing import spread
from contentcast.matching.index.machine.layout import (
    BASE,
    CAPACITY,
    CELL_ROW,
    COUNT,
    FIELD,
    FIRST_CELL,
    FIRST_CODE,
    GATE_EQUAL,
    GROUP,
    LAST_CELL,
    LAST_CODE,
    LAST_VALUE,
    OUTPUT,
    PLAIN,
    SLACK,
    T_HIGH,
    T_LOW,
    T_RANGE,
    T_SET,
    VALUE,
)
from contentcast.matching.index.machine.simd import prefetch

ENTRIES_AHEAD = 16
"""Prefetch distance: while entry k is filed, the slot or cell of entry k + this is fetched from memory."""


@nb.njit(nogil=True, cache=True)
def by_group(routes, group_of_row, groups):
    """The rows that have a group, sorted by group; and for each group the number of pairs of row and cell."""
    starts, keys = np.zeros(groups + 1, np.int64), np.zeros(groups, np.int64)
    for i in range(len(group_of_row)):
        group = group_of_row[i]
        if group >= 0:
            starts[group + 1] += 1
            keys[group] += routes[i, LAST_CELL] - routes[i, FIRST_CELL] + 1
    for group in range(groups):
        starts[group + 1] += starts[group]
    order = np.empty(starts[groups], np.int64)
    for i in range(len(group_of_row)):
        group = group_of_row[i]
        if group >= 0:
            order[starts[group]] = i
            starts[group] += 1
    return order, keys


@nb.njit(nogil=True, cache=True)
def open_cells(slots, cell, group_of, key_of, groups, tables, routes, group_of_row, order, next_cell, rows, cells):
    """Find the cell of each entry and key in the table of its group. A new key gets the next free cell.

    tables[group] holds the begin, the size and the shift of the group's table. `rows` and `cells` get one pair for each entry
    and key. Returns the number of the next free cell.
    """
    count = 0
    for k in range(len(order)):
        i, ahead = order[k], order[min(k + ENTRIES_AHEAD, len(order) - 1)]
        group, ahead_group = group_of_row[i], group_of_row[ahead]
        key, slot = routes[ahead, FIRST_CELL], tables[ahead_group, 0]
        slot += spread(key, tables[ahead_group, 2]) if groups.gate[ahead_group] == GATE_EQUAL else key
        prefetch(slots, 2 * slot)
        hashed, table, size, shift = groups.gate[group] == GATE_EQUAL, tables[group, 0], tables[group, 1], tables[group, 2]
        for key in range(routes[i, FIRST_CELL], routes[i, LAST_CELL] + 1):
            slot = table + (spread(key, shift) if hashed else key)
            while hashed and slots[slot, 1] >= 0 and slots[slot, 0] != key:
                slot = table + ((slot - table + 1) & (size - 1))
            if slots[slot, 1] < 0:
                if hashed:
                    slots[slot, 0] = key
                slots[slot, 1] = next_cell
                group_of[next_cell], key_of[next_cell] = group, key
                cell[next_cell, PLAIN], cell[next_cell, GROUP] = 1, group
                next_cell += 1
            rows[count], cells[count] = i, slots[slot, 1]
            count += 1
    return next_cell


@nb.njit(nogil=True, cache=True)
def _ask_the_same(entries, one, other):
    for word in range(len(entries.words)):
        if entries.words[word, one] != entries.words[word, other] or entries.masks[word, one] != entries.masks[word, other]:
            return False
    begin, count = entries.start[one], entries.start[one + 1] - entries.start[one]
    if entries.start[other + 1] - entries.start[other] != count:
        return False
    for k in range(count):
        for part in range(LAST_VALUE + 1):
            if entries.tests[begin + k, part] != entries.tests[entries.start[other] + k, part]:
                return False
    return True


@nb.njit(nogil=True, cache=True)
def join_same(entries, rows, cells, group_of, widths, order, least, ids, lengths, run_lengths, run_ids):
    """Join equal entries of one cell to one entry with a run of ids.

    A group takes part if joining leaves at most one of `least` entries, and if its entries test anything.
    The input is sorted by cell, with equal entries side by side. `order` keeps the entries that are left; `lengths` gets the
    number of ids that each stands for, negative for a run. Returns the entries left, the runs, and the ids in runs.
    """
    counts, distinct = np.zeros(len(widths), np.int64), np.zeros(len(widths), np.int64)
    for i in range(len(order)):
        one, other = order[max(i - 1, 0)], order[i]
        same = i > 0 and cells[one] == cells[other] and _ask_the_same(entries, rows[one], rows[other])
        counts[group_of[cells[other]]] += 1
        distinct[group_of[cells[other]]] += not same
    left, runs, inside, at = 0, 0, 0, 0
    while at < len(order):
        cell, row = cells[order[at]], rows[order[at]]
        group = group_of[cell]
        joining = widths[group] > 1 and distinct[group] * least <= counts[group] and ids[row] >= 0
        length = 1
        while joining and at + length < len(order) and cells[order[at + length]] == cell:
            other = rows[order[at + length]]
            if ids[other] < 0 or not _ask_the_same(entries, row, other):
                break  # an entry of a subscription with several conjunctions is not joined
            length += 1
        for k in range(length if length > 1 else 0):
            run_ids[inside + k] = ids[rows[order[at + k]]]
        order[left], lengths[left] = order[at], length
        if length > 1:
            run_lengths[runs], lengths[left] = length, -length
            inside += length
            runs += 1
        at += length
        left += 1
    return left, runs, inside


@nb.njit(nogil=True, cache=True)
def append_entries(arena, cell, groups, entries, rows, cells, order, lengths, ids, next_run, free, begin):
    """Append the entries order[begin:] to their cells. The entries of one cell stand side by side.

    A new cell gets room for its entries in this call. A full cell moves to the end of the arena with twice the room. `lengths`
    comes from `join_same`. Returns the end of the arena, the next entry and the next run. If the arena is too small, it stops
    early; the caller grows the arena and calls it again from the next entry.
    """
    for i in range(begin, len(order)):
        at, row = cells[order[i]], rows[order[i]]
        prefetch(cell, CELL_ROW * np.int64(cells[order[min(i + ENTRIES_AHEAD, len(order) - 1)]]))
        ahead = cells[order[min(i + ENTRIES_AHEAD // 2, len(order) - 1)]]
        ahead_at = cell[ahead, BASE] + cell[ahead, COUNT]
        for column in range(groups.width[cell[ahead, GROUP]]):
            prefetch(arena, ahead_at + column * cell[ahead, CAPACITY])
        group = cell[at, GROUP]
        width, count, room = groups.width[group], cell[at, COUNT], cell[at, CAPACITY]
        if count == room:
            wider = max(np.int64(4), np.int64(room) * 2)
            if room == 0:
                wider = 1
                while i + wider < len(order) and cells[order[i + wider]] == at:
                    wider += 1
            if free + wider * width + SLACK > len(arena):
                return free, i, next_run
            base = cell[at, BASE]
            for column in range(width):
                for k in range(count):
                    arena[free + column * wider + k] = arena[base + column * room + k]
            cell[at, BASE], cell[at, CAPACITY] = free, wider
            room = wider
            free += wider * width
        base = cell[at, BASE] + count
        blank = groups.blank_start[group]
        for column in range(width):
            arena[base + column * room] = groups.blank[blank + column]
        tagged, length = np.int64(ids[row]), lengths[i]
        if length < 0:
            tagged, length = ~(2 * next_run), -length
            next_run += 1
        arena[base] = tagged
        column = 1
        for k in range(groups.half_start[group], groups.half_start[group + 1]):
            word, shift = groups.halves[k] >> 1, 32 * (groups.halves[k] & 1)
            mask = entries.masks[word, row]
            if groups.gate_word[group] == word:
                mask &= ~groups.gate_mask[group]
            mask = (mask >> shift) & 0xFFFFFFFF
            arena[base + column * room] = (entries.words[word, row] >> shift) & mask
            arena[base + (column + 1) * room] = mask
            column += 2
        for k in range(entries.start[row], entries.start[row + 1]):
            field_code = entries.tests[k, FIELD]
            column, form = groups.column[group, field_code], groups.form[group, field_code]
            if column < 0:
                continue  # the gate tests it
            if form >= T_SET:
                arena[base + column * room] = entries.tests[k, VALUE]
            else:
                if form != T_HIGH:
                    arena[base + column * room] = entries.tests[k, FIRST_CODE]
                if form != T_LOW:
                    arena[base + (column + (form == T_RANGE)) * room] = entries.tests[k, LAST_CODE]
        cell[at, COUNT] = count + 1
        cell[at, OUTPUT] += length
        if tagged < 0:
            cell[at, PLAIN] = 0
    return free, len(order), next_run
