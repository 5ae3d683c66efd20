"""LIKE patterns in the tree: which pattern tests a string passes, found once for each distinct string.

A string may pass any number of pattern tests, so a pattern level of the tree is set-valued: a node has one branch for each test
that its subscriptions make, and the search follows all the branches whose test is in the string's set.

    tests   1: LIKE '%X'    2: LIKE '%an%' AND NOT LIKE '%X'        'banX' -> {1}    'ban' -> {2}    'b' -> {}

A pattern is looked for by its anchor, the longest text that every match contains: all substrings of the value with the length
of some anchor are looked up in one hash table, and only the patterns found there are tried. The work for a value grows with its
length and the number of anchor lengths, not with the number of patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.model.predicates.constraint import Constraint
from contentcast.model.values.kinds import Value
from contentcast.model.values.value_test import ValueTest

REMEMBERED_VALUES = 100_000
"""Sets of this many values are kept from batch to batch; then all are forgotten."""


class PatternTests:
    """The pattern parts (like, unlike, and whether absent passes) of some constraints, numbered from 1 as they come."""

    def __init__(self) -> None:
        self.number: dict[tuple[tuple[ValueTest, ...], tuple[ValueTest, ...], bool], int] = {}
        self._wanted: dict[ValueTest, list[int]] = {}
        self._only_unlike: list[int] = []
        self._anchored: dict[str, list[ValueTest]] = {}
        self._lengths: list[int] = []
        self._tests: list[tuple[tuple[ValueTest, ...], tuple[ValueTest, ...], bool]] = []
        self._sets: dict[Value, tuple[int, ...]] = {}

    @classmethod
    def of(cls, constraints: Iterable[Constraint]) -> tuple[PatternTests, list[int]]:
        """The tests, and the number of each constraint's own; 0 for one without patterns."""
        made = cls()
        numbers = []
        for each in constraints:
            key = (each.like, each.unlike, each.absent)
            numbers.append(0 if each.only_ranges else made.number.setdefault(key, len(made.number) + 1))
        for (like, unlike, _), number in made.number.items():
            if like:
                made._wanted.setdefault(like[0], []).append(number)
            else:
                made._only_unlike.append(number)
            for pattern in (*like, *unlike):
                listed = made._anchored.setdefault(pattern.anchor, [])
                if pattern not in listed:
                    listed.append(pattern)
        made._lengths = sorted({len(each) for each in made._anchored})
        made._tests = list(made.number)
        return made, numbers

    def __len__(self) -> int:
        return len(self.number)

    def passed(self, value: str) -> tuple[int, ...]:
        """The numbers of the tests that the value passes, ascending."""
        found = self._sets.get(value)
        if found is None:
            if len(self._sets) >= REMEMBERED_VALUES:
                self._sets.clear()
            found = self._sets[value] = tuple(sorted(self._search(value)))
        return found

    def passed_by(self, value: str | None) -> tuple[int, ...]:
        """The same, for a value that may be absent."""
        return self._absent if value is None else self.passed(value)

    @cached_property
    def _absent(self) -> tuple[int, ...]:
        return tuple(number for (_, _, absent), number in self.number.items() if absent)

    def _search(self, value: str) -> Iterator[int]:
        near = {""}  # of a list, which comes as bytes, nothing is known
        if isinstance(value, str):
            near = {value[at : at + length] for length in self._lengths for at in range(len(value) - length + 1)}
        matched = {each for text in near for each in self._anchored.get(text, ()) if each.matches(value)}
        candidates = [number for each in matched for number in self._wanted.get(each, ())]
        for number in (*candidates, *self._only_unlike):
            like, unlike, _ = self._tests[number - 1]
            if all(each in matched for each in like) and not any(each in matched for each in unlike):
                yield number

    def sets(self, column: pa.Array) -> tuple[npt.NDArray[np.int32], list[tuple[int, ...]]]:
        """For each row a position in a list of sets; the last set is that of absent."""
        distinct = column.dictionary_encode()
        found = [self.passed(value) for value in distinct.dictionary.to_pylist()]
        found.append(self.passed_by(None))
        return distinct.indices.fill_null(len(found) - 1).to_numpy(zero_copy_only=False).astype(np.int32), found
