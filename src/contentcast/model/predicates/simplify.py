"""A disjunction of conjunctions with fewer parts: alike ones merged, covered ones dropped, until nothing changes.

    issue = 'A' AND p  OR  issue = 'B' AND p      ->  issue IN ('A', 'B') AND p        (they differ in one attribute only)
    price < 5  OR  price < 3 AND volume > 7       ->  price < 5                        (the first covers the second)

The work is done on small numbers: constraints are interned, a conjunction is a tuple of (attribute, constraint) numbers with a
bit mask of its attributes, and each pair of constraints is compared once. 512 conjunctions of nine attributes take
0.1 s this way; comparing the objects took seconds.
Rule: the result depends on the set of conjunctions alone, and simplifying it again changes nothing.
"""

from __future__ import annotations

from typing import Final

from contentcast.model.errors import TooManyConjunctions
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.values.ranges import Ranges

MOST_COMPARED: Final = 64
"""How many different constraints with LIKE patterns one attribute may have before they are only compared for equality."""

Part = tuple[int, int]
"""An attribute's position and the number of a constraint."""

Row = tuple[Part, ...]


class Simplifier:
    """One disjunction on its way to fewer parts."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
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
            fewer = self._absorbed(self._merged(current))
            if len(fewer) == len(current):
                return fewer
            current = fewer
        return current

    def _merged(self, rows: list[Row]) -> list[Row]:
        for position in sorted({position for row in rows for position, _ in row}):
            groups: dict[Row, list[int]] = {}
            untouched: list[Row] = []
            for row in rows:
                at = next((i for i, part in enumerate(row) if part[0] == position), None)
                if at is None:
                    untouched.append(row)
                else:
                    groups.setdefault(row[:at] + row[at + 1 :], []).append(row[at][1])
            joined = [
                tuple(sorted((*rest, (position, number)))) if not self.constraints[number].is_anything else rest
                for rest, numbers in groups.items()
                for number in self._joined(numbers)
            ]
            rows = list(dict.fromkeys([*untouched, *joined]))
        return rows

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
            both = self.constraints[one].union(self.constraints[other])
            self._unions[pair] = None if both is None else self.number(both)
        return self._unions[pair]

    def _absorbed(self, rows: list[Row]) -> list[Row]:
        """Drop each row that another covers."""
        crowded = self._crowded(rows)
        kept: list[tuple[int, dict[int, int], Row]] = []
        for row in sorted(rows, key=len):
            parts = dict(row)
            mask = sum(1 << position for position in parts)
            if any(not other & ~mask and self._row_covers(wide, parts, crowded) for other, _, wide in kept):
                continue
            kept = [
                (other, narrow, wide)
                for other, narrow, wide in kept
                if mask != other or not self._row_covers(row, narrow, crowded)  # a longer row covers no shorter one
            ]
            kept.append((mask, parts, row))
            if self.most is not None and len(kept) > self.most:
                raise TooManyConjunctions(f"more than {self.most} alternatives")
        return [row for _, _, row in kept]

    def _crowded(self, rows: list[Row]) -> set[int]:
        """The attributes with too many different patterns to compare them all."""
        patterns: dict[int, set[int]] = {}
        for row in rows:
            for position, number in row:
                if not self.constraints[number].only_ranges:
                    patterns.setdefault(position, set()).add(number)
        return {position for position, numbers in patterns.items() if len(numbers) > MOST_COMPARED}

    def _row_covers(self, wide: Row, narrow: dict[int, int], crowded: set[int]) -> bool:
        constraints = self.constraints
        for position, number in wide:  # nearly all pairs end here, without a place in the table
            if not constraints[number].ranges.spans(constraints[narrow[position]].ranges):
                return False
        for position, number in wide:
            other = narrow[position]
            if number == other:
                continue
            if position in crowded and not constraints[number].only_ranges:
                return False
            pair = (number, other)
            covered = self._covers.get(pair)
            if covered is None:
                covered = self._covers[pair] = constraints[number].covers(constraints[other])
            if not covered:
                return False
        return True
