"""Values as codes: the domain of an attribute cut wherever a test cuts it, so that equal codes pass equal tests.

    tests  price < 120, price >= 100      cuts  [100, 120]      codes  0: below 100   1: [100, 120)   2: from 120   3: absent
    tests  issue = 'IBM', issue <> 'SAP'  points ['IBM', 'SAP'] codes  0: any other   1: IBM   2: SAP               3: absent

A test is then a set of codes, held as disjoint ranges: price < 120 is [0, 1], issue <> 'SAP' is [0, 1], IS NULL is [3, 3].
Rule: an event is coded once, by binary search or hash lookup; no node of the tree ever looks at a value.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.kernels.kernel import kernel
from contentcast.matching.search_tree.rows import AttributeTests
from contentcast.model.space import Attribute
from contentcast.model.values.keys import KEYED, column_keys, key_ends, key_of
from contentcast.model.values.kinds import TOP, Value
from contentcast.model.values.ranges import Ranges

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CodeRanges:
    """The codes of each test: test t has first[i] to last[i] for i from offsets[t] to offsets[t + 1]. The star, 0, has none."""

    offsets: Ints
    first: Codes
    last: Codes

    @classmethod
    def of(cls, sets: Iterable[Iterable[tuple[int, int]]]) -> CodeRanges:
        listed = [[], *(list(each) for each in sets)]
        flat = np.array([pair for each in listed for pair in each], np.int32).reshape(-1, 2)
        return cls(np.cumsum([0, *map(len, listed)]), flat[:, 0].copy(), flat[:, 1].copy())


class Coder(Protocol):
    """`count` codes for values, and the code `count` for absent."""

    count: int
    ranges: CodeRanges

    def encode(self, column: pa.Array) -> Codes: ...

    def code_of(self, key: Any) -> int:
        """The code of one order key or value; None is absent."""
        ...

    def possible(self, attribute: Attribute) -> Truths:
        """Which codes an event can have, given the declared domain; absent is always possible."""


def coder_of(tests: AttributeTests) -> Coder:
    if tests.kind.name in KEYED:
        return KeyCoder(tests)
    points = _all_points(tests)
    return OrderCoder(tests) if points is None else PointCoder(tests, points)


class KeyCoder:
    """Ints, floats, bools and timestamps: binary search among the cuts, as order keys."""

    def __init__(self, tests: AttributeTests) -> None:
        self.kind = tests.kind
        least, greatest = key_ends(self.kind)
        above = tests.last[tests.last < greatest] + 1
        others = [key_of(self.kind, cut) for each in tests.others for cut in each.ranges.cuts if cut is not TOP]
        cuts = np.unique(np.concatenate([tests.first, above, np.array(others, np.int64)]))
        self.cuts = cuts[cuts > least]  # a cut at the very beginning cuts nothing off
        self.count = len(self.cuts) + 1
        simple = np.stack([self._codes(tests.first), self._codes(tests.last)])
        ranges = CodeRanges.of(
            _with_absent(
                (
                    (self._code(low), self.count - 1 if high is TOP else self._code(high) - 1)
                    for low, high in each.ranges.pairs()
                ),
                each.absent,
                self.count,
            )
            for each in tests.others
        )
        self.ranges = CodeRanges(
            np.concatenate([[0], np.arange(len(tests.first)), ranges.offsets[1:] + len(tests.first)]),
            np.concatenate([simple[0], ranges.first]),
            np.concatenate([simple[1], ranges.last]),
        )

    def _codes(self, keys: Ints) -> Codes:
        return np.searchsorted(self.cuts, keys, side="right").astype(np.int32)

    def _code(self, value: Value) -> int:
        return int(np.searchsorted(self.cuts, key_of(self.kind, value), side="right"))

    def encode(self, column: pa.Array) -> Codes:
        codes = np.empty(len(column), np.int32)
        search(self.cuts, column_keys(self.kind, column), codes)
        if column.null_count:
            codes[_absent(column)] = self.count
        return codes

    @cached_property
    def _cut_list(self) -> list[int]:
        listed: list[int] = self.cuts.tolist()
        return listed

    def code_of(self, key: Any) -> int:
        return self.count if key is None else bisect_right(self._cut_list, key)

    def possible(self, attribute: Attribute) -> Truths:
        found = np.zeros(self.count + 1, bool)
        for low, high in attribute.domain.pairs():
            found[self._code(low) : self.count if high is TOP else self._code_below(high) + 1] = True
        found[self.count] = True
        return found

    def _code_below(self, high: Value) -> int:
        return int(np.searchsorted(self.cuts, key_of(self.kind, high) - 1, side="right"))


class PointCoder:
    """Strings and bytes of which only single values are asked for, or all but some: a hash lookup."""

    def __init__(self, tests: AttributeTests, points: list[Value]) -> None:
        self.values = pa.array(points, tests.kind.stored)
        self.code = {value: number for number, value in enumerate(points, start=1)}
        self.count = len(points) + 1
        self.ranges = CodeRanges.of(
            [((self.code[value],) * 2,) for value in tests.values]
            + [list(_with_absent(self._runs(each.ranges), each.absent, self.count)) for each in tests.others]
        )

    def _runs(self, ranges: Ranges) -> list[tuple[int, int]]:
        points = _points(ranges)
        if points is not None:
            return _runs(sorted(self.code[value] for value in points))
        left_out = {self.code[value] for value in _points(ranges.complement()) or ()}
        return _runs([code for code in range(self.count) if code not in left_out])

    def encode(self, column: pa.Array) -> Codes:
        found = pc.index_in(column, value_set=self.values)
        codes: Codes = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32) + np.int32(1)
        if column.null_count:
            codes[_absent(column)] = self.count
        return codes

    def code_of(self, key: Any) -> int:
        return self.count if key is None else self.code.get(key, 0)

    def possible(self, attribute: Attribute) -> Truths:
        found = np.ones(self.count + 1, bool)
        if attribute.has_domain:
            domain = attribute.domain
            found[1:-1] = [value in domain for value in self.code]
            listed = _points(domain)
            found[0] = listed is None or any(value not in self.code for value in listed)
        return found


class OrderCoder:
    """Strings and bytes asked for by order or prefix: binary search for each distinct value of a batch."""

    def __init__(self, tests: AttributeTests) -> None:
        self.kind = tests.kind
        ends = {cut for each in tests.others for cut in each.ranges.cuts if cut is not TOP}
        self.cuts: list[Value] = sorted({*tests.values, *map(self.kind.successor, tests.values), *ends} - {self.kind.least})
        self.count = len(self.cuts) + 1
        self._search_in = _objects(self.cuts)
        self.ranges = CodeRanges.of(
            [((bisect_right(self.cuts, value),) * 2,) for value in tests.values]
            + [
                list(
                    _with_absent(
                        ((self._at(low), self._at(high) - 1) for low, high in each.ranges.pairs()), each.absent, self.count
                    )
                )
                for each in tests.others
            ]
        )

    def _at(self, cut: Value) -> int:
        return self.count if cut is TOP else bisect_right(self.cuts, cut)

    def encode(self, column: pa.Array) -> Codes:
        distinct = column.dictionary_encode()
        values = _objects(distinct.dictionary.to_pylist())
        codes = np.searchsorted(self._search_in, values, side="right").astype(np.int32)
        codes = np.append(codes, np.int32(self.count))
        where = distinct.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
        found: Codes = codes[where]
        return found

    def code_of(self, key: Any) -> int:
        return self.count if key is None else bisect_right(self.cuts, key)

    def possible(self, attribute: Attribute) -> Truths:
        found = np.zeros(self.count + 1, bool)
        for low, high in attribute.domain.pairs():
            end = self.count if high is TOP else bisect_left(self.cuts, high)
            found[self._at(low) : end + 1] = True
        found[self.count] = True
        return found


@kernel
def search(cuts: Ints, keys: Ints, codes: Codes) -> None:
    """How many cuts are not above each key."""
    for at in range(len(keys)):
        key = keys[at]
        low, size = 0, len(cuts)
        # Halving without a branch: np.searchsorted took 3 times as long on 10,000 keys in random order.
        while size > 0:
            half = size >> 1
            right = cuts[low + half] <= key
            low = low + half + 1 if right else low
            size = size - half - 1 if right else half
        codes[at] = low


def _absent(column: pa.Array) -> Truths:
    found: Truths = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _objects(values: list[Value]) -> npt.NDArray[Any]:
    made = np.empty(len(values), object)
    made[:] = values
    return made


def _points(ranges: Ranges) -> tuple[Value, ...] | None:
    """The values, if each interval is a single one."""
    pairs = list(ranges.pairs())
    return tuple(low for low, _ in pairs) if all(ranges.kind.successor(low) == high for low, high in pairs) else None


def _all_points(tests: AttributeTests) -> list[Value] | None:
    """Every value that a test names, if each names finitely many that it wants or does not want; else None."""
    found = set(tests.values)
    for each in tests.others:
        points = _points(each.ranges)
        if points is None:
            points = _points(each.ranges.complement())
        if points is None:
            return None
        found.update(points)
    return sorted(found)


def _runs(codes: list[int]) -> list[tuple[int, int]]:
    """3, 4, 5, 9 as (3, 5), (9, 9)."""
    runs: list[tuple[int, int]] = []
    for code in codes:
        if runs and runs[-1][1] == code - 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return runs


def _with_absent(ranges: Iterable[tuple[int, int]], absent: bool, code: int) -> Iterable[tuple[int, int]]:
    yield from ranges
    if absent:
        yield (code, code)
