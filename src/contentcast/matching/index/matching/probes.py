"""Small steps of the kernels: where a key lies in a table, whether a set or a text constraint holds, which ids an entry has."""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

import numba as nb


@nb.njit(nogil=True, cache=True, inline="always")
def in_sorted(numbers, start, end, wanted):
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
def in_set(set_start, set_pairs, number, key):
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
def text_holds(holds, holds_begin, holds_end, fails, fails_begin, fails_end, tagged):
    if tagged & 2:
        return not in_sorted(fails, fails_begin, fails_end, tagged >> 2)
    return in_sorted(holds, holds_begin, holds_end, tagged >> 2)


@nb.njit(nogil=True, cache=True, inline="always")
def name_ids(out, start, end, tagged_ids, event, run_start, run_length, run_ids, several, stamps):
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
