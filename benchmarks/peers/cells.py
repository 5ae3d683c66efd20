"""A range attribute cut into cells, so that a range test becomes a few equality tests: the usual way to join on bands.

cuts [5, 9]      cells  0: below 5    1: from 5 up to 9    2: from 9 on       4 <= price <= 6  meets the cells 0 and 1
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.peers.rules import Between, Ints


class Cells(NamedTuple):
    """`rule[i]` meets cell `code[i]`; `exact` if a rule that meets a cell holds all of it."""

    cuts: npt.NDArray[Any]
    rule: Ints
    code: Ints
    exact: bool

    def of(self, values: npt.NDArray[Any]) -> Ints:
        return np.searchsorted(self.cuts, values, side="right").astype(np.int64)


def cut(ranges: Between, most: int) -> Cells:
    """At most so many cells, with equally many bounds in each."""
    bounds = np.unique(np.concatenate([ranges.low, _after(ranges.high)]))
    exact = len(bounds) < most
    cuts = bounds if exact else np.unique(bounds[np.linspace(0, len(bounds) - 1, most - 1).astype(np.int64)])
    first = np.searchsorted(cuts, ranges.low, side="right")
    width = np.searchsorted(cuts, ranges.high, side="right") - first + 1
    rule = np.repeat(ranges.rule, width)
    code = np.arange(len(rule)) - np.repeat(np.cumsum(width) - width, width) + np.repeat(first, width)
    return Cells(cuts, rule, code, exact)


def _after(high: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The next greater value; the greatest of all stays, since nothing lies above it."""
    return np.nextafter(high, np.inf) if high.dtype.kind == "f" else high + (high < np.iinfo(np.int64).max)


CELLS: Final = 256
MOST_CELLS_PER_RULE: Final = 8


def for_joins(ranges: Between) -> Cells | None:
    """Cells to join on, or None where the ranges are too wide for it (volume > 200) and better left to a filter."""
    cells = cut(ranges, CELLS)
    narrow = len(cells.cuts) > 2 * MOST_CELLS_PER_RULE and len(cells.rule) <= MOST_CELLS_PER_RULE * len(ranges.rule)
    return cells if narrow else None
