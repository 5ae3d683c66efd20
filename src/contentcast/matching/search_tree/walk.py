"""Matching: the parallel subsearches of an event, one after the other, over the flat arrays of `layout`.

Source: Banavar et al. 1999, section 2. A step is one visited node, which is what the paper's charts count. What a leaf lists is
marked in a bitmap over the subscriptions, so that the ids come out ascending and each once, without sorting:

    marks     bit o of word o >> 6: subscription number o is found       summary  bit w of word w >> 6: marks[w] is not 0

Rule: an event is a row of codes; the root -1 means that no subscription can match it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel
from contentcast.matching.bits import lowest_bit as _lowest_bit
from contentcast.matching.search_tree.grow import longer
from contentcast.matching.search_tree.layout import (
    BEGIN,
    COUNT,
    DENSE,
    KIND,
    LEAF_BEGIN,
    LEAF_END,
    LEVEL,
    LONE,
    LOW,
    RUN_BEGIN,
    RUN_END,
    SCAN_BEGIN,
    SCAN_END,
    SORTED,
    STAR,
    TREE,
)

lowest_bit: Any = _lowest_bit  # called from kernels, where it takes the word alone
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]


class Coded(NamedTuple):
    """Events as the kernels take them.

    `codes[event, level]`; at a pattern level it is a set, the pattern tests set_items[set_at[code]:set_at[code + 1]].
    """

    roots: Numbers
    codes: Numbers
    set_at: Ints
    set_items: Numbers


@kernel
def stabbed(entries: Numbers, begin: int, end: int, code: int, stack: Numbers, top: int, work: Ints) -> int:
    """Pushes the child of every entry whose range holds the code; logarithmic, and then in proportion to what it finds."""
    work[0], work[1] = begin, end
    depth = 2
    while depth:
        depth -= 2
        low, high = work[depth], work[depth + 1]
        while low < high:
            middle = (low + high) >> 1
            if entries[middle, 0] < code:  # everything below here ends before the code
                break
            if entries[middle, 1] > code:  # it and all to its right begin after it
                high = middle
                continue
            if entries[middle, 2] >= code:
                stack[top] = entries[middle, 3]
                top += 1
            work[depth], work[depth + 1] = low, middle
            depth += 2
            low = middle + 1
    return top


@kernel
def passing(entries, runs, table, run, code, set_at, set_items, stack, top, work):  # type: ignore[no-untyped-def]
    """Pushes the children of one run that the code leads to."""
    kind, begin, count = runs[run, KIND], runs[run, BEGIN], runs[run, COUNT]
    if kind == DENSE:
        code -= runs[run, LOW]
        if 0 <= code < count and table[begin + code] != -1:
            stack[top] = table[begin + code]
            top += 1
    elif kind == TREE:
        top = stabbed(entries, begin, begin + count, code, stack, top, work)
    elif kind == SORTED:
        at = _found(entries, begin, begin + count, code)
        if at >= 0:
            stack[top] = entries[at, 3]
            top += 1
    else:
        # Both lists ascend; each member of the shorter is looked for in the other.
        first, last = set_at[code], set_at[code + 1]
        if last - first <= count:
            for each in range(first, last):
                at = _found(entries, begin, begin + count, set_items[each])
                if at >= 0:
                    stack[top] = entries[at, 3]
                    top += 1
        else:
            for each in range(begin, begin + count):
                at = first + np.searchsorted(set_items[first:last], entries[each, 1])
                if at < last and set_items[at] == entries[each, 1]:
                    stack[top] = entries[each, 3]
                    top += 1
    return top


@kernel
def _found(entries: Numbers, low: int, end: int, code: int) -> int:
    high = end
    while low < high:
        middle = (low + high) >> 1
        if entries[middle, 1] < code:
            low = middle + 1
        else:
            high = middle
    return low if low < end and entries[low, 1] == code else -1


@kernel
def most_pushed(nodes: Numbers, runs: Numbers) -> int:
    """How many children one node can push."""
    most = 0
    for node in range(len(nodes)):
        count = nodes[node, SCAN_END] - nodes[node, SCAN_BEGIN] + 1
        for run in range(nodes[node, RUN_BEGIN], nodes[node, RUN_END]):
            count += 1 if runs[run, KIND] <= SORTED else runs[run, COUNT]
        most = max(most, count)
    return most


@kernel
def walk(  # type: ignore[no-untyped-def]
    nodes, entries, runs, table, owners, most, ids, alive, roots, codes, set_at, set_items
):
    """For each event the ids of the subscriptions that match and the number of visited nodes: (offsets, ids, steps)."""
    events = len(roots)
    offsets, steps = np.zeros(events + 1, np.int64), np.zeros(events, np.int64)
    found = np.empty(max(64, 4 * events), np.int64)
    count = 0
    words = (len(ids) + 63) >> 6
    marks, summary = np.zeros(words + 1, np.uint64), np.zeros((words >> 6) + 1, np.uint64)
    stack, work = np.empty(most + 64, np.int32), np.empty(256, np.int64)
    one, low6 = np.uint64(1), np.uint64(63)
    for event in range(events):
        top, visited = 0, 0
        if roots[event] != -1:
            stack[0] = roots[event]
            top = 1
        while top:
            if top + most > len(stack):
                stack = longer(stack, top + most)
            top -= 1
            node = stack[top]
            visited += 1
            if node < 0:
                owner = LONE - node
                word = owner >> 6
                marks[word] |= one << (np.uint64(owner) & low6)
                summary[word >> 6] |= one << (np.uint64(word) & low6)
                continue
            for each in range(nodes[node, LEAF_BEGIN], nodes[node, LEAF_END]):
                owner = owners[each]
                word = owner >> 6
                marks[word] |= one << (np.uint64(owner) & low6)
                summary[word >> 6] |= one << (np.uint64(word) & low6)
            if nodes[node, STAR] != -1:
                stack[top] = nodes[node, STAR]
                top += 1
            for each in range(nodes[node, SCAN_BEGIN], nodes[node, SCAN_END]):
                code = codes[event, entries[each, 0]]
                # Without a branch: whether an entry passes cannot be foretold, and with one this loop took twice as long.
                stack[top] = entries[each, 3]
                top += (entries[each, 1] <= code) & (code <= entries[each, 2])
            for run in range(nodes[node, RUN_BEGIN], nodes[node, RUN_END]):
                code = codes[event, runs[run, LEVEL]]
                top = passing(entries, runs, table, run, code, set_at, set_items, stack, top, work)
        steps[event] = visited
        for high in range(len(summary)):
            while summary[high]:
                word = (high << 6) + np.int64(lowest_bit(summary[high]))
                summary[high] &= summary[high] - one
                mark = marks[word] & alive[word]
                marks[word] = 0
                if count + 64 > len(found):
                    # As many as the events so far lead to expect: doubling, and a copy of the right size at the end, touched
                    # three times the memory, which counts where an event has 1,700 matches.
                    expected = (count + 64) * events // (event + 1)
                    more = np.empty(count + 64 + max(expected + expected // 8 - count, count // 4), np.int64)
                    more[:count] = found[:count]
                    found = more
                while mark:
                    found[count] = ids[(word << 6) + np.int64(lowest_bit(mark))]
                    mark &= mark - one
                    count += 1
        offsets[event + 1] = count
    return offsets, found[:count], steps
