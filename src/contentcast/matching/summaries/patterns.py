"""Pattern rows of a SACS: which of them a string satisfies, found once for each distinct string of a batch.

    rows   0: LIKE '%X'   1: LIKE '%an%' AND NOT LIKE '%X'    'banX' -> set 1 = entries of row 0     'b' -> set 0 = nobody

Rule: sets are numbered as they are first met and kept until there are MOST_SETS values; then all are forgotten.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.search_tree.pattern_sets import PatternTests
from contentcast.matching.summaries.columns import Ints, Rows
from contentcast.model.values.ranges import Ranges

MOST_SETS: Final = 100_000


class PatternRows:
    """Of one attribute; `entries` are those of the rows as the matcher numbers them."""

    def __init__(self, rows: Rows, place: Ints) -> None:
        self._tests, numbers = PatternTests.of(rows.patterns)
        self._rows_of: dict[int, list[tuple[Ranges, Ints]]] = {}
        for at, (number, pattern) in enumerate(zip(numbers, rows.patterns, strict=True)):
            listed = self._rows_of.setdefault(number, [])
            listed.append((pattern.ranges, place[rows.of_row(rows.intervals + at)]))
        self._forget()

    def _forget(self) -> None:
        self._set_of: dict[str, int] = {}
        self._number: dict[tuple[int, ...], int] = {}
        self.sets: list[Ints] = []

    def encode(self, column: pa.Array) -> npt.NDArray[np.int32]:
        """For each row of the batch the number of its set in `sets`; -1 where it is absent."""
        if len(self._set_of) > MOST_SETS:
            self._forget()
        distinct = column.dictionary_encode()
        found = [self.set_of(value) for value in distinct.dictionary.to_pylist()]
        where = distinct.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        numbers: npt.NDArray[np.int32] = np.array([*found, -1], np.int32)[where]
        return numbers

    def set_of(self, value: str) -> int:
        known = self._set_of.get(value)
        if known is None:
            known = self._set_of[value] = self._new_set(value)
        return known

    def _new_set(self, value: str) -> int:
        entries: set[int] = set()
        for number in self._tests.passed(value):
            for ranges, members in self._rows_of[number]:
                if value in ranges:
                    entries.update(members.tolist())
        key = tuple(sorted(entries))
        if key not in self._number:
            self._number[key] = len(self.sets)
            self.sets.append(np.array(key, np.int64))
        return self._number[key]
