"""Grids: the cells of an attribute's keys in which ranges are filed, and which of their levels are worth their price.

A grid cuts the keys into cells; a cell of level n is 2^n cells of the finest level. A range is filed in every cell that it
reaches, at the finest level in use at which these are at most `most`, and an event looks into one cell of each level in use:

    level 0   | | | | | | | | | | | | | | | |         price BETWEEN 8.30 AND 8.70    three cells here
    level 2   |       |       |       |       |       price BETWEEN 2 AND 9          all four here, or thirteen of level 0

Few levels are few cells to look into, but wide ranges then lie in many cells, which take memory, or narrow ones in large cells,
where they are tested for nothing. `with_levels` weighs these for the ranges that there are. For 10,000 subscriptions of market
data one level of up to 12 cells each matched a fifth faster than levels four times as wide as each other with up to three.
"""

# Numba infers the kernels' types.
# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc"

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numba as nb
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_CELLS: Final = (3, 6, 12, 24)
"""Of how many cells a range may lie in, what is tried."""
MOST_COPIES: Final = 1 << 21
"""Of all ranges of a grid, in all cells; if they are more, a range lies in the fewest cells that are tried."""
COARSER: Final = 3
"""Levels that are tried above the coarsest that some range needs."""
SAMPLED_RANGES: Final = 1_000
"""Ranges for which levels are weighed."""

LOOK_NS: Final = 2.0
"""Looking into the table of a level (all measured, about)."""
OPEN_NS: Final = 9.0
"""Beginning with a cell that holds something, the half-filled sixteen at its end included."""
SIXTEEN_NS: Final = 4.0
"""Testing sixteen entries."""
MEGABYTE_NS: Final = 8.0
"""What an event pays for a megabyte more to walk through, which the caches do not hold."""
ENTRY_MEGABYTES: Final = 24e-6


@dataclass(frozen=True, slots=True)
class Grid:
    """`levels` in use, ascending. A range that needs a coarser one goes to an even one above them: later ones may be wider than
    all there were.
    """

    cuts: Ints
    levels: Ints
    most: int

    def cells(self, level: int) -> int:
        return (len(self.cuts) >> level) + 1


def level_of(first: Ints, last: Ints, most: int) -> Ints:
    """The finest level at which a range, from one cell of the finest to another, lies in at most so many cells."""
    level = np.zeros(len(first), np.int64)
    while True:
        wide = (last >> level) - (first >> level) >= most
        if not wide.any():
            return level
        level += wide


def share(below: Floats, first: Ints, last: Ints, level: int | Ints) -> Floats:
    """Of the events, those that look into one of a range's cells; `below`: the share below each cell of the finest level."""
    end = np.minimum(((last >> level) + 1) << level, len(below) - 1)
    return np.asarray(below[end] - below[(first >> level) << level])


def with_levels(cuts: Ints, below: Floats, first: Ints, last: Ints, times: float) -> Grid:
    """The grid for ranges from one cell to another, each standing for so many `times` as many, with the levels that cost an
    event least.
    """
    step = max(1, len(first) // SAMPLED_RANGES)
    some_first, some_last = np.ascontiguousarray(first[::step]), np.ascontiguousarray(last[::step])
    times *= len(first) / max(1, len(some_first))
    best_ns, chosen = np.inf, (MOST_CELLS[0], 1)
    for most in MOST_CELLS:
        ns, copies, levels = cheapest(below, some_first, some_last, most, times)
        if ns < best_ns and (copies <= MOST_COPIES or most == MOST_CELLS[0]):
            best_ns, chosen = ns, (most, levels)
    most, levels = chosen
    return Grid(cuts, np.array([level for level in range(levels.bit_length()) if levels >> level & 1], np.int64), most)


@nb.njit(nogil=True, cache=True)
def cheapest(below, first, last, most, times):
    """The cheapest levels if each range goes to the next that is not finer than its own: what they cost an event, how many
    copies of ranges they hold, and which they are, as bits. Found for the ranges up to each level, from those up to finer ones.
    """
    needed, size = np.int64(0), len(below) - 1
    own = np.zeros(len(first), np.int64)
    for i in range(len(first)):
        while (last[i] >> own[i]) - (first[i] >> own[i]) >= most:
            own[i] += 1
        needed = max(needed, own[i])
    top = needed
    while top < needed + COARSER and size >> top > 0:
        top += 1
    tested, copies = np.zeros((top + 1, top + 1)), np.zeros((top + 1, top + 1))  # [level, own level]
    for i in range(len(first)):
        for level in range(own[i], top + 1):
            begin, end = first[i] >> level, (last[i] >> level) + 1
            tested[level, own[i]] += (below[min(end << level, size)] - below[begin << level]) * times
            copies[level, own[i]] += (end - begin) * times
    ns, held, levels = np.zeros(top + 2), np.zeros(top + 2), np.zeros(top + 2, np.int64)  # of ranges below each level
    for level in range(top + 1):
        ns[level + 1] = np.inf
        some_tested = some_copies = 0.0
        for begin in range(level, -1, -1):
            some_tested += tested[level, begin]
            some_copies += copies[level, begin]
            both = ns[begin] + level_ns(some_tested, some_copies)
            if both < ns[level + 1]:
                ns[level + 1], held[level + 1] = both, held[begin] + some_copies
                levels[level + 1] = levels[begin] | np.int64(1) << level
    best = needed + 1 + np.argmin(ns[needed + 1 :])
    return ns[best], held[best], levels[best]


@nb.njit(nogil=True, cache=True)
def level_ns(tested, copies):
    """What a level costs, of which an event looks at so many entries."""
    opened = 1.0 - np.exp(-tested)
    return LOOK_NS + opened * OPEN_NS + tested / 16 * SIXTEEN_NS + copies * ENTRY_MEGABYTES * MEGABYTE_NS
