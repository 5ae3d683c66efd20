"""A disjunction of conjunctions with fewer parts: alike ones merged, covered ones dropped, until nothing changes.

    issue = 'A' AND p  OR  issue = 'B' AND p      ->  issue IN ('A', 'B') AND p        (they differ in one attribute only)
    price < 5  OR  price < 3 AND volume > 7       ->  price < 5                        (the first covers the second)

The work is done on small numbers: constraints are interned, a conjunction is a tuple of (attribute, constraint) numbers, and
each pair of constraints is compared once. Which conjunctions could cover which is first asked of all pairs at once, by the
ranks of their ends: 999 conjunctions of two ranges took nine times as long pair by pair.
Rule: the result depends on the set of conjunctions alone, and simplifying it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.model.errors import TooManyConjunctions
from contentcast.model.predicates.constraint import MOST_COMPARED, Constraint
from contentcast.model.values.effort import UNLIMITED, Effort
from contentcast.model.values.kinds import TOP
from contentcast.model.values.ranges import Ranges

Mask = npt.NDArray[np.bool_]

_FEW: Final = 12
_STEPS_OF_A_PAIR: Final = 5
_STEPS_OF_A_ROW: Final = 12
_CANDIDATES_IN_A_STEP: Final = 3
_PAIRS_IN_A_STEP: Final = 1_000
"""NumPy looks at so many pairs in the time of one step."""

Part = tuple[int, int]
"""An attribute's position and the number of a constraint."""

Row = tuple[Part, ...]
Ranks = npt.NDArray[np.int64]


class Simplifier:
    """One disjunction on its way to fewer parts."""

    def __init__(self, most: int | None = None, effort: Effort = UNLIMITED) -> None:
        self.most, self.effort = most, effort
        self.constraints: list[Constraint] = []
        self._numbers: dict[Constraint, int] = {}
        self._covers: dict[tuple[int, int], bool] = {}
        self._unions: dict[tuple[int, int], int | None] = {}

    def number(self, constraint: Constraint) -> int:
        found = self._numbers.get(constraint)
        if found is None:
            found = self._numbers[constraint] = len(self.constraints)
            self.constraints.append(constraint)
        return found

    def simplify(self, rows: list[Row]) -> list[Row]:
        current = list(dict.fromkeys(rows))
        while len(current) > 1:
            merged = self._merged(current)
            self.effort.spend(_STEPS_OF_A_ROW * len(merged))
            fewer = self._absorbed(merged)
            if len(fewer) == len(current):
                return fewer
            current = fewer
        return current

    def _merged(self, rows: list[Row]) -> list[Row]:
        current = dict.fromkeys(rows)
        having: dict[int, dict[Row, None]] = {}
        for row in current:
            for position, _ in row:
                having.setdefault(position, {})[row] = None
        for position in sorted(having):
            groups: dict[Row, list[int]] = {}
            for row in having[position]:
                at = next(i for i, part in enumerate(row) if part[0] == position)
                groups.setdefault(row[:at] + row[at + 1 :], []).append(row[at][1])
            for rest, numbers in groups.items():
                if len(numbers) == 1:
                    continue
                self._replace(current, having, [tuple(sorted((*rest, (position, number)))) for number in numbers], None)
                for number in self._joined(numbers):
                    anything = self.constraints[number].is_anything
                    self._replace(current, having, [], rest if anything else tuple(sorted((*rest, (position, number)))))
        return list(current)

    @staticmethod
    def _replace(current: dict[Row, None], having: dict[int, dict[Row, None]], gone: list[Row], new: Row | None) -> None:
        for row in gone:
            current.pop(row, None)
            for position, _ in row:
                having[position].pop(row, None)
        if new is not None and new not in current:
            current[new] = None
            for position, _ in new:
                having[position][new] = None

    def _joined(self, numbers: list[int]) -> list[int]:
        """Fewer constraints that together say the same: all the ranges as one, then what can be joined in pairs."""
        if len(numbers) == 1:
            return numbers
        plain = [number for number in numbers if self.constraints[number].only_ranges]
        found = [number for number in numbers if not self.constraints[number].only_ranges]
        if len(found) > MOST_COMPARED:
            return [*found, *([self._all_ranges(plain)] if plain else [])]
        joined: list[int] = []
        for number in [*([self._all_ranges(plain)] if plain else []), *found]:
            self._join(joined, number)
        return joined

    def _all_ranges(self, numbers: list[int]) -> int:
        constraints = [self.constraints[number] for number in numbers]
        ranges = Ranges.union_all(constraints[0].ranges.kind, [each.ranges for each in constraints])
        return self.number(Constraint(ranges, any(each.absent for each in constraints)))

    def _join(self, numbers: list[int], new: int) -> None:
        """Add to a list of which no two can be said as one."""
        for at, each in enumerate(numbers):
            both = self._union(each, new)
            if both is not None:
                del numbers[at]
                self._join(numbers, both)
                return
        numbers.append(new)

    def _union(self, one: int, other: int) -> int | None:
        pair = (one, other)
        if pair not in self._unions:
            self.effort.spend(_STEPS_OF_A_PAIR)
            both = self.constraints[one].union(self.constraints[other], self.effort)
            self._unions[pair] = None if both is None else self.number(both)
        return self._unions[pair]

    def _absorbed(self, rows: list[Row]) -> list[Row]:
        """Drop each row that another covers."""
        if self.most is not None and len(rows) > 2 * self.most:
            raise TooManyConjunctions(f"more than {2 * self.most} alternatives")
        crowded = self._crowded(rows)
        rows = sorted(rows, key=len)
        parts = [dict(row) for row in rows]
        gone = [False] * len(rows)
        # A longer row covers no shorter one, and of two that cover each other (they would be equal) the first stays.
        for wide, narrow in self._candidates(rows, crowded):
            if gone[wide] or gone[narrow]:
                continue
            if self._row_covers(rows[wide], parts[narrow]):
                gone[narrow] = True
        kept = [row for row, dropped in zip(rows, gone, strict=True) if not dropped]
        if self.most is not None and len(kept) > self.most:
            raise TooManyConjunctions(f"more than {self.most} alternatives")
        return kept

    def _candidates(self, rows: list[Row], crowded: set[int]) -> Iterator[tuple[int, int]]:
        """The pairs (wide, narrow) of which the wide one's attributes are some of the narrow one's, and its ends lie around.

        For each attribute of the wide row the ranks of the first and the last cut are compared, for all narrow rows at once.
        """
        count = len(rows)
        if count <= _FEW:  # NumPy takes longer to begin than these take
            yield from self._candidates_of_few(rows)
            return
        positions = sorted({position for row in rows for position, _ in row})
        ends = {position: self._ends(rows, position, position in crowded) for position in positions}
        self.effort.spend(count * count // _PAIRS_IN_A_STEP)
        for wide, row in enumerate(rows):
            found: Mask | None = None
            for position, _ in row:
                there, first, last, same = ends[position]
                fits = there & (first[wide] <= first) & (last[wide] >= last)
                if same[wide] >= 0:  # a pattern among too many: it covers only itself
                    fits &= same == same[wide]
                found = fits if found is None else found & fits
            if found is None:
                found = np.ones(count, np.bool_)
            found[wide] = False
            candidates = np.flatnonzero(found).tolist()
            self.effort.spend(len(candidates) // _CANDIDATES_IN_A_STEP)
            for narrow in candidates:
                yield wide, narrow

    def _candidates_of_few(self, rows: list[Row]) -> Iterator[tuple[int, int]]:
        parts = [{position: self.constraints[number].ranges for position, number in row} for row in rows]
        for wide, asked in enumerate(parts):
            for narrow, given in enumerate(parts):
                if wide != narrow and all(at in given and ranges.spans(given[at]) for at, ranges in asked.items()):
                    yield wide, narrow

    def _ends(self, rows: list[Row], position: int, crowded: bool) -> tuple[Mask, Ranks, Ranks, Ranks]:
        """Which rows have the attribute, the ranks of their first and last cuts, and the constraint that covers only itself."""
        numbers = [next((number for at, number in row if at == position), -1) for row in rows]
        used = sorted({number for number in numbers if number >= 0})
        cuts = {number: self.constraints[number].ranges.cuts for number in used}
        ordered = sorted({cut for each in cuts.values() if each for cut in (each[0], each[-1])}, key=_order)
        ranks = {_order(cut): rank for rank, cut in enumerate(ordered)}
        first, last, same = (np.full(len(self.constraints) + 1, -1, np.int64) for _ in range(3))
        for number in used:
            each = cuts[number]
            # Nothing but "absent": its ends lie around nothing, and within everything.
            first[number], last[number] = (ranks[_order(each[0])], ranks[_order(each[-1])]) if each else (len(ranks), -1)
            same[number] = number if crowded and not self.constraints[number].only_ranges else -1
        at = np.array(numbers)
        return at >= 0, first[at], last[at], same[at]

    def _crowded(self, rows: list[Row]) -> set[int]:
        """The attributes with too many different patterns to compare them all."""
        patterns: dict[int, set[int]] = {}
        for row in rows:
            for position, number in row:
                if not self.constraints[number].only_ranges:
                    patterns.setdefault(position, set()).add(number)
        return {position for position, numbers in patterns.items() if len(numbers) > MOST_COMPARED}

    def _row_covers(self, wide: Row, narrow: dict[int, int]) -> bool:
        for position, number in wide:
            other = narrow[position]
            if number == other:
                continue
            pair = (number, other)
            covered = self._covers.get(pair)
            if covered is None:
                self.effort.spend(_STEPS_OF_A_PAIR + len(self.constraints[other].ranges.cuts) // 4)
                covered = self._covers[pair] = self.constraints[number].covers(self.constraints[other], self.effort)
            if not covered:
                return False
        return True


def _order(cut: Any) -> tuple[bool, Any]:
    """Sorts and finds cuts of one kind, the one above all values last."""
    return (True, 0) if cut is TOP else (False, cut)
