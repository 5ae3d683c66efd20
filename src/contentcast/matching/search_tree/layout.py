"""The tree as flat arrays, in the order in which a search reads them.

A node tests one attribute, and the star's branch is a node of its own. With delayed branching (section 2.1) the star's branch
is not entered before the tests below it have been applied: a node then also makes the tests of the nodes that only stars lead
to, and what the search visits next are the branches that pass. A visit reads one contiguous stretch of entries.

Three subscriptions over (issue, price); codes as in `codes`, L the level of an attribute:

    0: issue = 'IBM' AND price < 120     1: issue = 'SAP'     2: price >= 100

    nodes    scan_begin  scan_end  run_begin  run_end  star  leaf_begin  leaf_end
      0               0         3          0        0    -1           0         0     the root, delayed: tests issue and price
      1               3         4          0        0    -1           0         0     after issue = 'IBM'
    entries  level  first  last  child
      0          0      1     1      1     issue is IBM: node 1
      1          0      2     2     -3     issue is SAP: the leaf of subscription 1 alone
      2          1      1     2     -4     price from 100: the leaf of subscription 2 alone
      3          1      0     1     -2     price below 120: the leaf of subscription 0 alone

A leaf with one subscription is named by whoever leads to it, LONE - number; one with several is a node, and its subscriptions
are owners[leaf_begin:leaf_end]. With delayed branching a node can be both: who does not care about anything below ends in it.

Few branches are entries to scan. More than SCANNED of one attribute become a run:
    DENSE    a table child[code - low]         single codes that fill at least a quarter of their span
    SORTED   entries by code, binary search    other single codes
    TREE     entries by first code, as an implicit balanced tree; column 0 holds the greatest last code of the entry's subtree
    SET      entries by pattern test; the event has a set of tests (see `pattern_sets`)
Rule: a conjunction is filed once; if its test is several ranges of codes, it has several entries with one child, and an event's
code lies in at most one of them. So no subscription is replicated, and none is found twice.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel
from contentcast.matching.search_tree.grow import Grown, longer

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

SCANNED: Final = 6
LONE: Final = -2
"""A child LONE - owner is a leaf with that one owner; -1 is no child."""

DENSE, SORTED, TREE, SET = 0, 1, 2, 3
SCAN_BEGIN, SCAN_END, RUN_BEGIN, RUN_END, STAR, LEAF_BEGIN, LEAF_END, RANK = 0, 1, 2, 3, 4, 5, 6, 7
KIND, LEVEL, BEGIN, COUNT, LOW = 0, 1, 2, 3, 4


class Tests(NamedTuple):
    """The ranges of codes of every test: test t of level l has those from range_at[at[l] + t] to the next."""

    at: Ints
    range_at: Ints
    first: Numbers
    last: Numbers


class Layout(NamedTuple):
    """What the walks read. `roots` as in `Grown`, in the new numbers."""

    nodes: Numbers
    entries: Numbers
    runs: Numbers
    table: Numbers
    owners: Numbers
    roots: Numbers
    lone: int

    @property
    def node_count(self) -> int:
        """Leaves of one owner included."""
        return len(self.nodes) + self.lone

    @property
    def nbytes(self) -> int:
        return int(sum(array.nbytes for array in self[:-1]))


@kernel
def _more(array, wanted):  # type: ignore[no-untyped-def]
    """`longer` for rows."""
    if wanted <= len(array):
        return array
    copy = np.empty((max(wanted, 2 * len(array)), array.shape[1]), array.dtype)
    copy[: len(array)] = array
    return copy


@kernel
def _reach(entries: Numbers, begin: int, end: int, stack: Ints) -> None:
    """Column 0 of entries begin .. end: the greatest last code in the part of the balanced tree below each."""
    # Ranges in an order in which a part comes after the part that holds it; read backwards, children come first.
    stack[0, 0], stack[0, 1] = begin, end
    read, written = 0, 1
    while read < written:
        low, high = stack[read, 0], stack[read, 1]
        middle = (low + high) >> 1
        if low < middle:
            stack[written, 0], stack[written, 1] = low, middle
            written += 1
        if middle + 1 < high:
            stack[written, 0], stack[written, 1] = middle + 1, high
            written += 1
        read += 1
    for at in range(written - 1, -1, -1):
        low, high = stack[at, 0], stack[at, 1]
        middle = (low + high) >> 1
        greatest = entries[middle, 2]
        if low < middle:
            greatest = max(greatest, entries[(low + middle) >> 1, 0])
        if middle + 1 < high:
            greatest = max(greatest, entries[(middle + 1 + high) >> 1, 0])
        entries[middle, 0] = greatest


@kernel
def _lay_out(  # type: ignore[no-untyped-def]
    grown_level, begin, end, test, child, grown_roots, levels, set_valued, test_at, range_at, range_first, range_last, delay
):
    place = np.full(len(grown_level), -1, np.int32)  # node as grown -> node as laid out
    queue = np.empty(max(16, len(grown_level)), np.int32)
    nodes, entries = np.zeros((1024, 8), np.int32), np.empty((1024, 4), np.int32)
    runs, table, owners = np.empty((256, 5), np.int32), np.empty(256, np.int32), np.empty(256, np.int32)
    entry_count, run_count, table_count, owner_count, placed = 0, 0, 0, 0, 0
    one, wide = np.empty((64, 3), np.int32), np.empty((64, 3), np.int32)
    scanned = np.empty((64, 4), np.int32)
    work = np.empty((64, 2), np.int64)
    # A leaf with one owner needs no node of its own: whoever leads to it names the owner.
    lone = 0
    for node in range(len(grown_level)):
        if grown_level[node] == levels and end[node] - begin[node] == 1:
            place[node] = LONE - test[begin[node]]
    counted = np.zeros(len(grown_level), np.bool_)
    roots = np.full(len(grown_roots), -1, np.int32)
    for each in range(len(grown_roots)):
        node = grown_roots[each]
        if node >= 0:
            if place[node] == -1:
                place[node] = placed
                queue[placed] = node
                placed += 1
            roots[each] = place[node]
            if place[node] < 0 and not counted[node]:
                counted[node] = True
                lone += 1
    number = 0
    while number < placed:
        nodes = _more(nodes, number + 1)
        nodes[number, :] = 0
        nodes[number, STAR] = -1
        nodes[number, RUN_BEGIN] = run_count
        scan_count = 0
        at = queue[number]
        nodes[number, RANK] = at  # children rank below their parents
        while at >= 0:
            level = grown_level[at]
            if level == levels:
                nodes[number, LEAF_BEGIN] = owner_count
                owners = longer(owners, owner_count + end[at] - begin[at])
                for branch in range(begin[at], end[at]):
                    owners[owner_count] = test[branch]
                    owner_count += 1
                nodes[number, LEAF_END] = owner_count
                break
            star = -1
            ones = wides = 0
            for branch in range(begin[at], end[at]):
                if test[branch] == 0:
                    star = child[branch]
                    continue
                if place[child[branch]] == -1:
                    place[child[branch]] = placed
                    queue[placed] = child[branch]
                    placed += 1
                to = place[child[branch]]
                if to < 0 and not counted[child[branch]]:
                    counted[child[branch]] = True
                    lone += 1
                which = test_at[level] + test[branch]
                size = range_at[which + 1] - range_at[which]
                one, wide = _more(one, ones + size), _more(wide, wides + size)
                for each in range(range_at[which], range_at[which + 1]):
                    if range_first[each] == range_last[each]:
                        one[ones, 0], one[ones, 1], one[ones, 2] = range_first[each], range_last[each], to
                        ones += 1
                    else:
                        wide[wides, 0], wide[wides, 1], wide[wides, 2] = range_first[each], range_last[each], to
                        wides += 1
            # Single codes: a table or a sorted list. A code that has come before, as 1 in `= 1` and `IN (1, 3)`, is a range.
            if ones > SCANNED or set_valued[level]:
                order = np.argsort(one[:ones, 0], kind="mergesort")
                different = 0
                wide = _more(wide, wides + ones)
                for each in range(ones):
                    if different and one[order[each], 0] == one[order[different - 1], 0]:
                        wide[wides] = one[order[each]]
                        wides += 1
                    else:
                        order[different] = order[each]
                        different += 1
                ones = different
                if ones > 0:
                    runs = _more(runs, run_count + 1)
                    low, high = one[order[0], 0], one[order[ones - 1], 0]
                    span = high - low + 1
                    runs[run_count, LEVEL], runs[run_count, COUNT], runs[run_count, LOW] = level, ones, low
                    if not set_valued[level] and span <= 4 * ones:
                        table = longer(table, table_count + span)
                        table[table_count : table_count + span] = -1
                        for each in order[:ones]:
                            table[table_count + one[each, 0] - low] = one[each, 2]
                        runs[run_count, KIND], runs[run_count, BEGIN], runs[run_count, COUNT] = DENSE, table_count, span
                        table_count += span
                    else:
                        entries = _more(entries, entry_count + ones)
                        runs[run_count, KIND], runs[run_count, BEGIN] = SET if set_valued[level] else SORTED, entry_count
                        for each in range(ones):
                            entries[entry_count, 0] = level
                            entries[entry_count, 1:] = one[order[each]]
                            entry_count += 1
                    run_count += 1
                    ones = 0
            total = ones + wides
            wide = _more(wide, total)
            for each in range(ones):
                wide[wides + each] = one[each]
            if total > SCANNED:
                runs, entries = _more(runs, run_count + 1), _more(entries, entry_count + total)
                runs[run_count, KIND], runs[run_count, LEVEL], runs[run_count, BEGIN] = TREE, level, entry_count
                runs[run_count, COUNT], runs[run_count, LOW] = total, 0
                run_count += 1
                order = np.argsort(wide[:total, 0], kind="mergesort")
                for each in range(total):
                    entries[entry_count + each, 1:] = wide[order[each]]
                work = _more(work, total + 1)
                _reach(entries, entry_count, entry_count + total, work)
                entry_count += total
            else:
                scanned = _more(scanned, scan_count + total)
                for each in range(total):
                    scanned[scan_count, 0] = level
                    scanned[scan_count, 1:] = wide[each]
                    scan_count += 1
            if delay:
                at = star
                continue
            if star >= 0:
                if place[star] == -1:
                    place[star] = placed
                    queue[placed] = star
                    placed += 1
                nodes[number, STAR] = place[star]
                if place[star] < 0 and not counted[star]:
                    counted[star] = True
                    lone += 1
            break
        nodes[number, RUN_END] = run_count
        entries = _more(entries, entry_count + scan_count)
        nodes[number, SCAN_BEGIN], nodes[number, SCAN_END] = entry_count, entry_count + scan_count
        entries[entry_count : entry_count + scan_count] = scanned[:scan_count]
        entry_count += scan_count
        number += 1
    return (
        nodes[:placed].copy(),
        entries[:entry_count].copy(),
        runs[:run_count].copy(),
        table[:table_count].copy(),
        owners[:owner_count].copy(),
        roots,
        lone,
    )


def lay_out(grown: Grown, levels: int, set_valued: npt.NDArray[np.bool_], tests: Tests, *, delay_branching: bool) -> Layout:
    """`levels` is the level of leaves."""
    arrays = _lay_out(*grown, levels, set_valued, tests.at, tests.range_at, tests.first, tests.last, delay_branching)
    return Layout(*arrays)
