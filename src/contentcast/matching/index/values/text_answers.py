"""Which text constraints hold for the values that were asked for, remembered between batches.

Constraints have numbers (`text_tests`), values have rows. Of three values, for which 0 and 2, none, and 2 hold:

    holds_start   0 2 2 3        holds   0 2 2
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc"

from __future__ import annotations

from dataclasses import dataclass, field

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.values.hash_tables import grown

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


@dataclass(slots=True)
class Answers:
    """Which numbers hold and which fail for each value that was asked for: holds[holds_start[row] : holds_start[row + 1]].

    `age` counts how often all was forgotten: a row belongs to one age.
    """

    holds_start: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    holds: Numbers = field(default_factory=lambda: np.zeros(0, np.int32))
    fails_start: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    fails: Numbers = field(default_factory=lambda: np.zeros(0, np.int32))
    count: int = 0
    most: int = 0
    """Numbers that hold for one value, at most."""
    age: int = 0

    def forget(self) -> None:
        """All of it; the arrays stay as they are for whoever still reads them."""
        self.holds_start, self.holds = np.zeros(1, np.int64), np.zeros(0, np.int32)
        self.fails_start, self.fails = np.zeros(1, np.int64), np.zeros(0, np.int32)
        self.count = self.most = 0
        self.age += 1

    def add(self, count: int, holds: tuple[Ints, Ints], fails: tuple[Ints, Ints]) -> Ints:
        """Answers for so many values: places of values and numbers, in this order. Returns their rows."""
        rows = np.arange(self.count, self.count + count)
        self.holds_start, self.holds, most = self._joined(self.holds_start, self.holds, count, *holds)
        self.fails_start, self.fails, _ = self._joined(self.fails_start, self.fails, count, *fails)
        self.most = max(self.most, most)
        self.count += count
        return rows

    def purge(self, rows: Ints, gone: npt.NDArray[np.bool_]) -> None:
        """Take the numbers that are gone out of the answers of these rows."""
        mine = np.zeros(self.count, np.bool_)
        mine[rows] = True
        self.holds_start, self.holds = _without(self.holds_start, self.holds, mine, gone)
        self.fails_start, self.fails = _without(self.fails_start, self.fails, mine, gone)

    def amend(self, holds: tuple[Ints, Ints], fails: tuple[Ints, Ints]) -> None:
        """More numbers that hold, and fail, for values that were asked for: their rows and the numbers, which ascend for each
        row.
        """
        (holds_start, holding, most), (fails_start, failing, _) = (
            self._amended(self.holds_start, self.holds, *holds), self._amended(self.fails_start, self.fails, *fails)
        )  # fmt: skip
        self.holds_start, self.holds, self.fails_start, self.fails = holds_start, holding, fails_start, failing
        self.most = max(self.most, most)

    def _amended(self, starts: Ints, numbers: Numbers, rows: Ints, new: Ints) -> tuple[Ints, Numbers, int]:
        if not len(rows):
            return starts, numbers, 0
        order = np.argsort(rows, kind="stable")
        made: tuple[Ints, Numbers, int] = _with_more(starts, numbers, self.count, rows[order], new[order].astype(np.int32))
        return made

    def _joined(self, starts: Ints, numbers: Numbers, count: int, places: Ints, more: Ints) -> tuple[Ints, Numbers, int]:
        counts = np.bincount(places, minlength=count)
        ends = starts[self.count] + np.cumsum(counts)
        joined = grown(numbers, int(starts[self.count]), more.astype(np.int32))
        return grown(starts, self.count + 1, ends), joined, int(counts.max(initial=0))


@nb.njit(nogil=True, cache=True)
def _with_more(starts, numbers, count, rows, new):
    """Ascending lists of numbers with more of them in these rows' lists; and the length of the longest."""
    found_starts, found = np.empty(count + 1, np.int64), np.empty(starts[count] + len(new), np.int32)
    at, k, most = 0, 0, 0
    for row in range(count):
        found_starts[row] = at
        for i in range(starts[row], starts[row + 1]):
            while k < len(rows) and rows[k] == row and new[k] < numbers[i]:
                found[at] = new[k]
                at, k = at + 1, k + 1
            found[at] = numbers[i]
            at += 1
        while k < len(rows) and rows[k] == row:
            found[at] = new[k]
            at, k = at + 1, k + 1
        most = max(most, at - found_starts[row])
    found_starts[count] = at
    return found_starts, found, most


@nb.njit(nogil=True, cache=True)
def _without(starts, numbers, mine, gone):
    """Lists of numbers without those that are gone from the lists of the rows that are `mine`."""
    found_starts, found = np.empty(len(mine) + 1, np.int64), np.empty(starts[len(mine)], np.int32)
    at = 0
    for row in range(len(mine)):
        found_starts[row] = at
        for i in range(starts[row], starts[row + 1]):
            if not (mine[row] and gone[numbers[i]]):
                found[at] = numbers[i]
                at += 1
    found_starts[len(mine)] = at
    return found_starts, found
