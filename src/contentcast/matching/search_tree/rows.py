"""The distinct tests that subscriptions make of one attribute, numbered from 1; 0 is the star, "do not care".

    price < 120   ->  1   as keys (first, last)        issue = 'IBM'  ->  1   as a value
    price IN (5, 9) -> 2  as a Constraint              issue LIKE '%X' -> 2   as a Constraint

A conjunction is then one row of small numbers, one for each attribute, and rows sort by columns.
Rule: simple tests (one interval of keys, one value) are held by columns, and only the rest as objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.space import Space
from contentcast.model.values.keys import KEYED
from contentcast.model.values.kinds import Kind, Value

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class AttributeTests:
    """Tests 1 .. k: first those of (first, last) or of `values`, whichever the kind has, then `others`."""

    kind: Kind
    first: Ints
    last: Ints
    values: tuple[Value, ...]
    others: tuple[Constraint, ...]

    @classmethod
    def none(cls, kind: Kind) -> Self:
        return cls(kind, np.empty(0, np.int64), np.empty(0, np.int64), (), ())

    @property
    def simple(self) -> int:
        return len(self.first) if self.kind.name in KEYED else len(self.values)

    def __len__(self) -> int:
        return self.simple + len(self.others)

    @classmethod
    def of(cls, column: ConstraintColumn) -> tuple[Self, Numbers]:
        """The tests of a column, and the number of each of its rows."""
        simple = column.other < 0
        numbers = np.zeros(len(column.conjunction), np.int32)
        if column.kind.name in KEYED:
            first, last, numbers[simple] = distinct_pairs(column.first[simple], column.last[simple])
            found = cls(column.kind, first, last, (), column.others)
        else:
            empty = np.empty(0, np.int64)
            found = cls(column.kind, empty, empty, tuple(column.values.to_pylist()), column.others)
            numbers[simple] = column.code[simple] + 1
        numbers[~simple] = column.other[~simple] + found.simple + 1
        return found, numbers

    @classmethod
    def united(cls, parts: Sequence[tuple[Self, Numbers]]) -> tuple[Self, list[Numbers]]:
        """The tests that occur in any of the parts' rows, and the rows with the new numbers."""
        kind = parts[0][0].kind
        used = [_used(tests, rows) for tests, rows in parts]
        maps = [np.zeros(len(tests) + 1, np.int32) for tests, _ in parts]
        simple = [mark[1 : tests.simple + 1] for mark, (tests, _) in zip(used, parts, strict=True)]
        values: dict[Value, int] = {}
        first = last = np.empty(0, np.int64)
        if kind.name in KEYED:
            firsts = np.concatenate([tests.first[mark] for mark, (tests, _) in zip(simple, parts, strict=True)])
            lasts = np.concatenate([tests.last[mark] for mark, (tests, _) in zip(simple, parts, strict=True)])
            first, last, numbers = distinct_pairs(firsts, lasts)
            at = 0
            for mark, map_ in zip(simple, maps, strict=True):
                count = int(mark.sum())
                map_[1 : len(mark) + 1][mark] = numbers[at : at + count]
                at += count
        else:
            for mark, map_, (tests, _) in zip(simple, maps, parts, strict=True):
                for each in np.flatnonzero(mark):
                    map_[each + 1] = values.setdefault(tests.values[each], len(values) + 1)
        others: dict[Constraint, int] = {}
        base = len(first) + len(values) + 1
        for mark, map_, (tests, _) in zip(used, maps, parts, strict=True):
            for number, constraint in enumerate(tests.others, start=tests.simple + 1):
                if mark[number]:
                    map_[number] = base + others.setdefault(constraint, len(others))
        return cls(kind, first, last, tuple(values), tuple(others)), [
            map_[rows] for map_, (_, rows) in zip(maps, parts, strict=True)
        ]


def distinct_pairs(first: Ints, last: Ints) -> tuple[Ints, Ints, Numbers]:
    """The pairs ascending, each once, and the number from 1 of each given one."""
    order = np.lexsort((last, first))
    first, last = first[order], last[order]
    new = np.ones(len(order), bool)
    new[1:] = (first[1:] != first[:-1]) | (last[1:] != last[:-1])
    numbers = np.empty(len(order), np.int32)
    numbers[order] = np.cumsum(new)
    return first[new], last[new], numbers


def _used(tests: AttributeTests, rows: Numbers) -> npt.NDArray[np.bool_]:
    mark = np.zeros(len(tests) + 1, bool)
    mark[rows] = True
    return mark


@dataclass(frozen=True, slots=True)
class Rows:
    """Conjunctions as rows of test numbers. `ids` ascend; `owner[row]` is a position in `ids`.

        7: issue = 'IBM' AND price < 120      8: price < 120 OR issue = 'SAP'      9: TRUE

        ids    [7, 8, 9]       owner  [0, 1, 1, 2]
        issue  [1, 0, 2, 0]    tests  = 'IBM', = 'SAP'
        price  [1, 1, 0, 0]    tests  < 120

    A subscription that asks for nothing has no row.
    """

    space: Space
    ids: Ints
    owner: Ints
    numbers: dict[str, Numbers]
    tests: dict[str, AttributeTests]

    @classmethod
    def of(cls, ids: Ints, table: PredicateTable) -> Self:
        order = np.argsort(ids, kind="stable")
        place = np.empty(len(ids), np.int64)
        place[order] = np.arange(len(ids))
        numbers, tests = {}, {}
        for name, kind in table.space.kinds.items():
            column = table.columns.get(name)
            numbers[name] = np.zeros(table.conjunction_count, np.int32)
            tests[name] = AttributeTests.none(kind)
            if column is not None:
                tests[name], found = AttributeTests.of(column)
                numbers[name][column.conjunction] = found
        return cls(table.space, ids[order], place[table.predicate_of], numbers, tests)

    def __len__(self) -> int:
        return len(self.ids)

    def kept(self, alive: npt.NDArray[np.bool_]) -> Self:
        """Only the subscriptions that are alive; tests that nobody makes any more stay until `united`."""
        place = np.cumsum(alive) - 1
        rows = alive[self.owner]
        numbers = {name: each[rows] for name, each in self.numbers.items()}
        return type(self)(self.space, self.ids[alive], place[self.owner[rows]], numbers, self.tests)

    @classmethod
    def united(cls, parts: Sequence[Self]) -> Self:
        """All of them as one."""
        ids = np.concatenate([part.ids for part in parts])
        order = np.argsort(ids, kind="stable")
        place = np.empty(len(ids), np.int64)
        place[order] = np.arange(len(ids))
        starts = np.cumsum([0, *(len(part) for part in parts)])
        owner = np.concatenate([place[part.owner + start] for part, start in zip(parts, starts, strict=False)])
        numbers, tests = {}, {}
        for name in parts[0].space.names:
            tests[name], pieces = AttributeTests.united([(part.tests[name], part.numbers[name]) for part in parts])
            numbers[name] = np.concatenate(pieces)
        return cls(parts[0].space, ids[order], owner, numbers, tests)

    def stars(self, name: str) -> int:
        """How many conjunctions do not care about the attribute."""
        return int(np.count_nonzero(self.numbers[name] == 0))
