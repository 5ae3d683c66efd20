"""Trit annotations: for each node and link, will, may or will not a search that comes here reach a subscriber behind it?

Source: Banavar et al. 1999, section 3.1 and table 1. A vector of trits is two bit planes of 64-bit words, `yes` and `possible`
(Yes or Maybe), in which both operators are bitwise:

              yes  possible             Alternative   yes AND yes, possible OR possible   exactly one of the two is taken
    Yes         1         1             Parallel      yes OR yes,  possible OR possible   both are taken
    Maybe       0         1
    No          0         0

Figure 4, links from the left:  1 -> MYY   3 -> NYN   * -> YYN    Alternative MYM, and Parallel with the star YYM
    yes       011    010    110         010    110
    possible  111    010    110         111    111

The paper leaves out tests other than equality. Here ranges of one node overlap: an outcome is a code, it takes all the branches
whose range holds it (Parallel), and the outcomes are alternatives. A code with no branch, and absent, are outcomes that lead
nowhere: all No, so that a Yes on every branch is only a Maybe, unless the branches hold every code an event can have. At a
pattern level any number of branches may be taken, or none: nothing there is a Yes.
Rule: a Maybe in place of a Yes is right, only slower; more than SWEPT overlapping ranges of one node are not looked through.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel
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
    RANK,
    RUN_BEGIN,
    RUN_END,
    SCAN_BEGIN,
    SCAN_END,
    STAR,
)

Numbers = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

SWEPT: Final = 64


@kernel
def alternative(yes, possible, other_yes, other_possible):  # type: ignore[no-untyped-def]
    return yes & other_yes, possible | other_possible


@kernel
def parallel(yes, possible, other_yes, other_possible):  # type: ignore[no-untyped-def]
    return yes | other_yes, possible | other_possible


@kernel
def _every_outcome(branches: Ints, count: int, outcomes: Ints, yes: Words, result: Words) -> None:
    """`result`: the links that are Yes at every code an event can have. Branches (first, last, child) stand by first code.

    outcomes[c] is how many possible codes there are below c.
    """
    words = yes.shape[1]
    result[:] = 0
    disjoint = True
    end = 0  # codes below it are spoken for, or impossible
    for at in range(count):
        if branches[at, 0] > end and outcomes[branches[at, 0]] > outcomes[end]:
            return  # a code that leads nowhere
        disjoint &= at == 0 or branches[at, 0] >= end
        end = max(end, branches[at, 1] + 1)
    if outcomes[len(outcomes) - 1] > outcomes[end] or (not disjoint and count > SWEPT):
        return
    result[:] = ~np.uint64(0)
    for at in range(count):
        # A cell, whose codes take the same branches, begins where a range begins or right after one ends.
        for start in (branches[at, 0], branches[at, 1] + 1):
            stop = branches[at, 1] + 1 if disjoint else _next_edge(branches, count, start, len(outcomes) - 1)
            if start >= stop or outcomes[stop] == outcomes[start]:
                continue
            for word in range(words):
                here, nothing = np.uint64(0), np.uint64(0)
                for each in range(at if disjoint else 0, at + 1 if disjoint else count):
                    if branches[each, 0] <= start <= branches[each, 1]:
                        here = parallel(here, nothing, yes[branches[each, 2], word], nothing)[0]
                result[word] = alternative(result[word], nothing, here, nothing)[0]


@kernel
def _next_edge(branches: Ints, count: int, start: int, end: int) -> int:
    for each in range(count):
        for edge in (branches[each, 0], branches[each, 1] + 1):
            if start < edge < end:
                end = edge
    return end


@kernel
def annotate(nodes, entries, runs, table, owners, leaf_words, alive, outcome_at, outcomes):  # type: ignore[no-untyped-def]
    """(yes, possible) of every node and, after the nodes, of every owner alone.

    leaf_words[owner] are the links behind which the subscription has a subscriber.
    outcomes[outcome_at[level] + c] is how many of the level's codes below c an event can have; none for a pattern level.
    """
    words = leaf_words.shape[1]
    size = len(nodes) + len(leaf_words)
    yes, possible = np.zeros((size, words), np.uint64), np.zeros((size, words), np.uint64)
    for owner in range(len(leaf_words)):
        if (alive[owner >> 6] >> (np.uint64(owner) & np.uint64(63))) & np.uint64(1):
            yes[len(nodes) + owner] = leaf_words[owner]
    possible[len(nodes) :] = yes[len(nodes) :]
    branches, levels = np.empty((64, 3), np.int64), np.empty(64, np.int64)
    always = np.empty(words, np.uint64)
    for node in np.argsort(nodes[:, RANK]):
        for each in range(nodes[node, LEAF_BEGIN], nodes[node, LEAF_END]):
            for word in range(words):
                yes[node, word] |= yes[len(nodes) + owners[each], word]
        possible[node] = yes[node]
        star = nodes[node, STAR]
        if star != -1:
            star = star if star >= 0 else len(nodes) + LONE - star
            for word in range(words):
                yes[node, word], possible[node, word] = parallel(
                    yes[node, word], possible[node, word], yes[star, word], possible[star, word]
                )
        count = 0
        for run in range(nodes[node, RUN_BEGIN] - 1, nodes[node, RUN_END]):
            scanned = run < nodes[node, RUN_BEGIN]
            begin = nodes[node, SCAN_BEGIN] if scanned else runs[run, BEGIN]
            size = nodes[node, SCAN_END] - begin if scanned else runs[run, COUNT]
            levels = longer(levels, count + size)
            if count + size > len(branches):
                more = np.empty((2 * (count + size), 3), np.int64)
                more[:count] = branches[:count]
                branches = more
            for each in range(begin, begin + size):
                levels[count] = entries[each, 0] if scanned else runs[run, LEVEL]
                if not scanned and runs[run, KIND] == DENSE:
                    code = runs[run, LOW] + each - begin
                    branches[count, 0], branches[count, 1], branches[count, 2] = code, code, table[each]
                    count += table[each] != -1
                else:
                    branches[count, 0], branches[count, 1] = entries[each, 1], entries[each, 2]
                    branches[count, 2] = entries[each, 3]
                    count += 1
        order = np.argsort((levels[:count] << 32) + branches[:count, 0])
        for each in range(count):
            if branches[each, 2] < 0:
                branches[each, 2] = len(nodes) + LONE - branches[each, 2]
        levels[:count], branches[:count] = levels[:count][order], branches[:count][order]
        at = 0
        while at < count:
            level, stop = levels[at], at
            while stop < count and levels[stop] == level:
                child = branches[stop, 2]
                for word in range(words):
                    possible[node, word] |= possible[child, word]
                stop += 1
            here = outcomes[outcome_at[level] : outcome_at[level + 1]]
            if len(here):
                _every_outcome(branches[at:stop], stop - at, here, yes, always)
                for word in range(words):
                    yes[node, word] |= always[word]
            at = stop
    return yes, possible
