"""Tree preparation: sorted conjunctions become the parallel search tree, identical subtrees only once.

Source: Banavar et al. 1999, section 2: a subscription is a path from root to leaf, shared as far as the tests are the same.
Three subscriptions over (a, b); test 0 is the star, and rows stand sorted, so the star's branch always comes first:

    row  a  b  owner                       node  level  branches (test -> child)
    0    0  1  2                           0     leaf   owner 2
    1    1  1  0                           1     b      1 -> 0
    2    1  2  1                           2     leaf   owner 0
                                           3     leaf   owner 1
    begin  [0, 1, 2, 3, 4, 6]              4     b      1 -> 2, 2 -> 3
    end    [1, 2, 3, 4, 6, 8]              5     a      0 -> 1, 1 -> 4
    test   [2, 1, 0, 1, 1, 2, 0, 1]
    child  [-, 0, -, -, 2, 3, 1, 4]

A leaf lists its owners in `test`. A node is written when the last row under it has been read, after its children; so an
identical one is already there and can be taken instead (the way minimal acyclic automata are built from sorted words).
Rule: children have smaller numbers than their parents.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]


class Grown(NamedTuple):
    """Nodes and their branches; `roots` has one node for each sub-tree, -1 where no conjunction belongs."""

    level: Numbers
    begin: Numbers
    end: Numbers
    test: Numbers
    child: Numbers
    roots: Numbers


@kernel
def longer(array, wanted):  # type: ignore[no-untyped-def]
    """The array, or a copy with room for `wanted` elements."""
    if wanted <= len(array):
        return array
    copy = np.empty(max(wanted, 2 * len(array)), array.dtype)
    copy[: len(array)] = array
    return copy


@kernel
def _mixed(seed: np.uint64, value: int) -> np.uint64:
    mixed = (seed ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))


@kernel
def _grow(rows: Numbers, owner: Ints, blocks: Ints, eliminate: bool, share: bool):  # type: ignore[no-untyped-def]
    levels = rows.shape[1]
    level, begin, end = np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.int32)
    hashes = np.empty(1024, np.uint64)
    test, child = np.empty(1024, np.int32), np.empty(1024, np.int32)
    known = np.full(4096, -1, np.int32)  # open addressing: hash -> node
    nodes, branches = 0, 0
    # The branches of every open node of the current path, deeper ones above; those of level l start at base[l].
    open_test, open_child = np.empty(1024, np.int32), np.empty(1024, np.int32)
    base = np.zeros(levels + 1, np.int64)
    top = 0
    roots = np.full(len(blocks) - 1, -1, np.int32)
    for block in range(len(blocks) - 1):
        if blocks[block] == blocks[block + 1]:
            continue
        leaf_begin = blocks[block]
        base[:] = 0
        top = 0
        for row in range(blocks[block] + 1, blocks[block + 1] + 1):
            same = -1  # how many tests this row has in common with the one before; after the last row, everything is closed
            if row < blocks[block + 1]:
                same = 0
                while same < levels and rows[row, same] == rows[row - 1, same]:
                    same += 1
            if same == levels:
                continue
            node = -1
            for at in range(levels, same, -1):
                if at == levels:
                    open_test, open_child = (
                        longer(open_test, top + row - leaf_begin),
                        longer(open_child, top + row - leaf_begin),
                    )
                    for each in range(leaf_begin, row):
                        if each == leaf_begin or owner[each] != owner[each - 1]:
                            open_test[top], open_child[top] = owner[each], -1
                            top += 1
                else:
                    open_test, open_child = longer(open_test, top + 1), longer(open_child, top + 1)
                    open_test[top], open_child[top] = rows[row - 1, at], node
                    top += 1
                first = base[at]
                # Trivial test elimination: the only way on is the star, so nobody needs to come by here.
                if eliminate and at < levels and top - first == 1 and open_test[first] == 0:
                    node = open_child[first]
                    top = first
                    continue
                mark = _mixed(np.uint64(at), top - first)
                for each in range(first, top):
                    mark = _mixed(_mixed(mark, open_test[each]), open_child[each])
                node = -1
                slot = np.int64(mark & np.uint64(len(known) - 1))
                if share:
                    while known[slot] >= 0:
                        like = known[slot]
                        if hashes[like] == mark and level[like] == at and end[like] - begin[like] == top - first:
                            equal = True
                            for each in range(top - first):
                                if (
                                    test[begin[like] + each] != open_test[first + each]
                                    or child[begin[like] + each] != open_child[first + each]
                                ):
                                    equal = False
                                    break
                            if equal:
                                node = like
                                break
                        slot = (slot + 1) & (len(known) - 1)
                if node < 0:
                    level, begin, end = longer(level, nodes + 1), longer(begin, nodes + 1), longer(end, nodes + 1)
                    hashes = longer(hashes, nodes + 1)
                    test, child = longer(test, branches + top - first), longer(child, branches + top - first)
                    node = nodes
                    nodes += 1
                    level[node], begin[node], hashes[node] = at, branches, mark
                    for each in range(first, top):
                        test[branches], child[branches] = open_test[each], open_child[each]
                        branches += 1
                    end[node] = branches
                    if share:
                        known[slot] = node
                        if 2 * nodes > len(known):
                            known = np.full(4 * len(known), -1, np.int32)
                            for each in range(nodes):
                                slot = np.int64(hashes[each] & np.uint64(len(known) - 1))
                                while known[slot] >= 0:
                                    slot = (slot + 1) & (len(known) - 1)
                                known[slot] = each
                top = first
            if same >= 0:
                open_test, open_child = longer(open_test, top + 1), longer(open_child, top + 1)
                open_test[top], open_child[top] = rows[row - 1, same], node
                top += 1
                base[same + 1 :] = top
            else:
                roots[block] = node
            leaf_begin = row
    return (level[:nodes], begin[:nodes], end[:nodes], test[:branches], child[:branches], roots)


def grow(rows: Numbers, owner: Ints, blocks: Ints, *, eliminate_trivial_tests: bool, share: bool) -> Grown:
    """`rows[row, level]` are test numbers, sorted by sub-tree, tests and owner; sub-tree s has the rows from blocks[s] on."""
    return Grown(*_grow(rows, owner, blocks, eliminate_trivial_tests, share))
