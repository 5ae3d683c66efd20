"""Sets of values of one kind as sorted, disjoint, half-open intervals.

The set is one flat tuple of cuts: inside from the first to the second, outside to the third, inside to the fourth ...

    price < 5 OR price >= 10        (-inf, 5.0, 10.0, TOP)
    issue IN ('A', 'C')             ('A', 'A\\0', 'C', 'C\\0')
    startswith(issue, 'OT')         ('OT', 'OU')
    volume BETWEEN 1 AND 9          (1, 10)

Since every kind has a successor, [low, high) can say an open and a closed end alike, and equal sets have equal cuts: equality,
hashing and emptiness are those of the tuple. `intervals` gives the open and closed ends back, as a person would write them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from math import inf, nextafter
from typing import NamedTuple, Self

from contentcast.model.values.kinds import BOOL, BYTES, FLOAT, INT, STRING, TIMESTAMP, TOP, Kind, Value


class Interval(NamedTuple):
    """One interval with its ends as a person would write them; None stands for no bound on that side."""

    low: Value | None
    low_closed: bool
    high: Value | None
    high_closed: bool


@dataclass(frozen=True, slots=True)
class Ranges:
    """A set of values of one kind."""

    kind: Kind
    cuts: tuple[Value, ...]

    @classmethod
    def everything(cls, kind: Kind) -> Self:
        return cls(kind, (kind.least, TOP))

    @classmethod
    def nothing(cls, kind: Kind) -> Self:
        return cls(kind, ())

    @classmethod
    def points(cls, kind: Kind, values: Iterable[Value]) -> Self:
        cuts: list[Value] = []
        for value in sorted(set(values)):
            if cuts and cuts[-1] == value:  # 1 and 2 are neighbours: one interval
                cuts.pop()
            else:
                cuts.append(value)
            cuts.append(kind.successor(value))
        return cls(kind, tuple(cuts))

    @classmethod
    def between(
        cls, kind: Kind, low: Value = None, high: Value = None, *, low_closed: bool = True, high_closed: bool = True
    ) -> Self:
        """The interval from `low` to `high`; None leaves that side open-ended."""
        start = kind.least if low is None else low if low_closed else kind.successor(low)
        end = TOP if high is None else kind.successor(high) if high_closed else high
        return cls(kind, (start, end)) if start < end else cls(kind, ())

    @classmethod
    def union_all(cls, kind: Kind, sets: Iterable[Ranges]) -> Self:
        merged: list[Value] = []
        for low, high in sorted((pair for each in sets for pair in each.pairs()), key=lambda pair: pair[0]):
            if merged and low <= merged[-1]:
                merged[-1] = max(merged[-1], high)
            else:
                merged += (low, high)
        return cls(kind, tuple(merged))

    @classmethod
    def prefix(cls, prefix: str) -> Self:
        return cls(STRING, (prefix, after_prefix(prefix)))

    def __contains__(self, value: Value) -> bool:
        return bisect_right(self.cuts, value) % 2 == 1

    def __bool__(self) -> bool:
        return bool(self.cuts)

    @property
    def is_everything(self) -> bool:
        return len(self.cuts) == 2 and self.cuts[1] is TOP and bool(self.cuts[0] == self.kind.least)

    def pairs(self) -> Iterator[tuple[Value, Value]]:
        """The half-open intervals, ascending."""
        return zip(self.cuts[::2], self.cuts[1::2], strict=True)

    def complement(self) -> Self:
        cuts = self.cuts
        cuts = cuts[1:] if cuts and cuts[0] == self.kind.least else (self.kind.least, *cuts)
        cuts = cuts[:-1] if cuts[-1:] == (TOP,) else (*cuts, TOP)
        return type(self)(self.kind, cuts)

    def __and__(self, other: Ranges) -> Ranges:
        if self.cuts == other.cuts or other.is_everything:
            return self
        if self.is_everything:
            return other
        found: list[Value] = []
        mine, theirs = list(self.pairs()), list(other.pairs())
        i = j = 0
        while i < len(mine) and j < len(theirs):
            low, high = max(mine[i][0], theirs[j][0]), min(mine[i][1], theirs[j][1])
            if low < high:
                found += (low, high)
            if mine[i][1] < theirs[j][1]:
                i += 1
            else:
                j += 1
        return Ranges(self.kind, tuple(found))

    def __or__(self, other: Ranges) -> Ranges:
        if not other.cuts or self.cuts == other.cuts:
            return self
        if not self.cuts:
            return other
        return Ranges.union_all(self.kind, (self, other))

    def __le__(self, other: Ranges) -> bool:
        """Is this set a part of the other?"""
        theirs = other.cuts
        for low, high in self.pairs():
            inside = bisect_right(theirs, low)
            if inside % 2 == 0 or theirs[inside] < high:
                return False
        return True

    def spans(self, other: Ranges) -> bool:
        """Do its ends lie around the other's? Cheap, and without it the other is no part of this."""
        mine, theirs = self.cuts, other.cuts
        return not theirs or bool(mine and mine[0] <= theirs[0] and (mine[-1] is TOP or theirs[-1] <= mine[-1]))

    def isdisjoint(self, other: Ranges) -> bool:
        if len(self.cuts) > len(other.cuts):
            return other.isdisjoint(self)
        theirs = other.cuts
        for low, high in self.pairs():
            at = bisect_right(theirs, low)
            if at % 2 == 1 or bisect_left(theirs, high) > at:
                return False
        return True

    def values(self, most: int = 64) -> tuple[Value, ...] | None:
        """The values one by one when there are at most `most` of them and each is a point on its own, else None."""
        if len(self.cuts) > 2 * most:
            return None
        found: list[Value] = []
        for low, high in self.pairs():
            while low < high:
                if len(found) == most:
                    return None
                found.append(low)
                low = self.kind.successor(low)
                if (
                    self.kind in _DENSE or self.kind.element
                ) and low < high:  # never walk through what lies between two strings
                    return None
        return tuple(found)

    def intervals(self) -> Iterator[Interval]:
        """The intervals with the ends that print shortest: `price < 120.0`, not `price <= 119.99999999999999`."""
        for low, high in self.pairs():
            if self.kind.successor(low) == high and low not in _INFINITE:
                yield Interval(low, True, low, True)
                continue
            low_end, low_closed = (None, True) if low == self.kind.least else _shortest_low(self.kind, low)
            high_end, high_closed = (None, True) if high is TOP else _shortest_high(self.kind, high)
            yield Interval(low_end, low_closed, high_end, high_closed)


_DENSE = (STRING, BYTES, FLOAT)
_INFINITE = (inf, -inf)  # values like any other, but without a literal: a bound beside them says the same


def after_prefix(prefix: str) -> Value:
    """The first string after all those that begin with `prefix`: the last character one higher, past any U+10FFFF."""
    text = prefix.rstrip("\U0010ffff")
    if not text:
        return TOP
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if following == 0xD800 else following)  # surrogates are not characters


def prefix_of(low: Value, high: Value) -> str | None:
    """The prefix whose strings are exactly [low, high), if there is one."""
    return low if isinstance(low, str) and low and not low.endswith("\0") and after_prefix(low) == high else None


def before(kind: Kind, value: Value) -> Value | None:
    """The value whose successor is `value`, or None where there is none ('b' has no string right before it)."""
    if kind in (STRING, BYTES):
        end = "\0" if kind is STRING else b"\0"
        return value[:-1] if value.endswith(end) else None
    if value == kind.least:
        return None
    if kind is FLOAT:
        return nextafter(value, -inf)
    return _STEP_BACK[kind.name](value)


_STEP_BACK: dict[str, Callable[[Value], Value]] = {
    INT.name: lambda value: value - 1,
    BOOL.name: lambda value: False,
    TIMESTAMP.name: lambda value: value - timedelta(microseconds=1),
}


def _shortest_low(kind: Kind, low: Value) -> tuple[Value, bool]:
    earlier = before(kind, low)
    if earlier not in (None, -inf) and kind in _DENSE and (low == inf or len(repr(earlier)) < len(repr(low))):
        return earlier, False
    return low, True


def _shortest_high(kind: Kind, high: Value) -> tuple[Value, bool]:
    earlier = before(kind, high)
    if earlier not in (None, -inf) and (kind is INT or high == inf or len(repr(earlier)) < len(repr(high))):
        return earlier, True
    return high, False
