"""What one conjunction asks of one attribute: a set of values, and whether the attribute may be absent.

A constraint is a subset of (the values of the kind) plus "absent", so `IS NULL`, `IS NOT NULL` and an advertisement's "may be
left out" need no cases of their own. For strings the values are ranges narrowed by tests that must, or must not, match: LIKE
patterns, regular expressions, networks (see `value_test`). Prefixes, sets and excluded sets are ranges, so only suffix,
contains and general patterns stay patterns.
Rule: a constraint is canonical once built by `Constraint.of`: no pattern that the rest already implies, none on finite sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from contentcast.model.predicates.list_tests import facts_cover, settled, united_facts
from contentcast.model.values.effort import UNLIMITED, Effort
from contentcast.model.values.folded import Folded
from contentcast.model.values.kinds import TOP, Kind, Value
from contentcast.model.values.patterns import LONGEST_COMPILED, Pattern, escaped
from contentcast.model.values.ranges import Ranges, prefix_of
from contentcast.model.values.regular import Regex
from contentcast.model.values.tests_of_values import have_no_match, implies, imply_together
from contentcast.model.values.value_test import ValueTest

_LETTERS_IN_A_STEP: Final = 50
"""That a pattern reads."""
MOST_COMPARED: Final = 32
"""How many LIKE patterns are compared with each other; among more only equal ones are found."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """`like` patterns all match, `unlike` patterns all do not; both sorted."""

    ranges: Ranges
    absent: bool = False
    like: tuple[ValueTest, ...] = ()
    unlike: tuple[ValueTest, ...] = ()

    @classmethod
    def of(
        cls,
        ranges: Ranges,
        absent: bool = False,
        like: tuple[ValueTest, ...] = (),
        unlike: tuple[ValueTest, ...] = (),
        effort: Effort = UNLIMITED,
    ) -> Self:
        if not like and not unlike:
            return cls(ranges, absent)
        if ranges.kind.element is not None:
            facts = settled(like, unlike, effort)
            return cls(Ranges.nothing(ranges.kind), absent) if facts.contradictory else cls(ranges, absent, *facts.tests())
        for pattern in like:
            ranges = ranges & Ranges.prefix(pattern.prefix)
        points = _points(ranges)
        if points is not None:
            effort.spend(_steps_of_points(points, (*like, *unlike)))
            kept = [
                each
                for each in points
                if all(pattern.matches(each) for pattern in like) and not any(pattern.matches(each) for pattern in unlike)
            ]
            return cls(Ranges.points(ranges.kind, kept), absent)
        if len(like) + len(unlike) > MOST_COMPARED:
            if not ranges:
                return cls(ranges, absent)
            return cls(ranges, absent, tuple(sorted(each for each in like if not each.is_prefix)), tuple(sorted(unlike)))
        like = _least(like, effort)
        if _contradictory(ranges, like, unlike, effort):
            return cls(Ranges.nothing(ranges.kind), absent)
        known = (*like, *_pattern_of(ranges))
        like = tuple(sorted(each for each in like if not each.is_prefix and not _by_ranges(ranges, each, effort)))
        unlike = _greatest(tuple(each for each in unlike if not have_no_match((*known, each), effort)), effort)
        return cls(ranges, absent, like, unlike)

    @classmethod
    def present(cls, kind: Kind) -> Self:
        return cls(Ranges.everything(kind))

    @classmethod
    def missing(cls, kind: Kind) -> Self:
        return cls(Ranges.nothing(kind), absent=True)

    def accepts(self, value: Value | None) -> bool:
        """None is absent."""
        if value is None:
            return self.absent
        return (
            (value in self.ranges if self.ranges.kind.element is None else bool(self.ranges))
            and all(pattern.matches(value) for pattern in self.like)
            and not any(pattern.matches(value) for pattern in self.unlike)
        )

    @property
    def is_empty(self) -> bool:
        return not self.absent and not self.ranges

    @property
    def is_anything(self) -> bool:
        return self.absent and self.ranges.is_everything and not self.like and not self.unlike

    @property
    def only_ranges(self) -> bool:
        return not self.like and not self.unlike

    def __and__(self, other: Constraint) -> Constraint:
        return Constraint.all_of((self, other))

    @classmethod
    def all_of(cls, constraints: Sequence[Constraint], effort: Effort = UNLIMITED) -> Constraint:
        """All at once: the ranges in pairs and the pairs in pairs, then the patterns.

        One after the other, 20,000 `<>` took 100 s.
        """
        ranges = [each.ranges for each in constraints]
        while len(ranges) > 1:
            halves = [one & other for one, other in zip(ranges[::2], ranges[1::2], strict=False)]
            ranges = [*halves, *ranges[2 * len(halves) :]]
        like = {pattern for each in constraints for pattern in each.like}
        unlike = {pattern for each in constraints for pattern in each.unlike}
        absent = all(each.absent for each in constraints)
        return cls.of(ranges[0], absent, tuple(sorted(like)), tuple(sorted(unlike)), effort)

    def union(self, other: Constraint, effort: Effort = UNLIMITED) -> Constraint | None:
        """Both together as one constraint, or None where one constraint cannot say it."""
        absent = self.absent or other.absent
        if (self.like, self.unlike) == (other.like, other.unlike):
            return Constraint.of(self.ranges | other.ranges, absent, self.like, self.unlike, effort)
        if not self.ranges:
            return Constraint(other.ranges, absent, other.like, other.unlike)
        if not other.ranges:
            return Constraint(self.ranges, absent, self.like, self.unlike)
        if self._covers_values(other, effort):
            return Constraint(self.ranges, absent, self.like, self.unlike)
        if other._covers_values(self, effort):
            return Constraint(other.ranges, absent, other.like, other.unlike)
        if self.ranges.kind.element is not None:
            both = united_facts(settled(self.like, self.unlike, effort), settled(other.like, other.unlike, effort), effort)
            return None if both is None else Constraint.of(self.ranges, absent, *both.tests(), effort)
        return None

    def complement(self) -> Constraint | None:
        """All that this one does not accept, or None where one constraint cannot say it."""
        return Constraint(self.ranges.complement(), not self.absent) if self.only_ranges else None

    def covers(self, narrow: Constraint, effort: Effort = UNLIMITED) -> bool:
        """Does all that the narrow one accepts pass here? Exact without patterns; with them a "no" may be wrong."""
        return (self.absent or not narrow.absent) and self._covers_values(narrow, effort)

    def _covers_values(self, narrow: Constraint, effort: Effort) -> bool:
        if not narrow.ranges <= self.ranges:
            return False
        if self.only_ranges or not narrow.ranges:
            return True
        if self.ranges.kind.element is not None:
            wide = settled(self.like, self.unlike, effort)
            return facts_cover(wide, settled(narrow.like, narrow.unlike, effort), effort)
        points = _points(narrow.ranges)
        if points is not None:
            effort.spend(_steps_of_points(points, (*self.like, *self.unlike)))
            return all(self.accepts(each) for each in points)
        if len(narrow.like) + len(narrow.unlike) + len(self.like) + len(self.unlike) > 2 * MOST_COMPARED:
            return {*self.like} <= {*narrow.like} and {*self.unlike} <= {*narrow.unlike}
        known = (*narrow.like, *_pattern_of(narrow.ranges))
        return all(imply_together(known, wanted, effort) for wanted in self.like) and all(
            have_no_match((*known, unwanted), effort) or any(implies(unwanted, each, effort) for each in narrow.unlike)
            for unwanted in self.unlike
        )

    def overlaps(self, other: Constraint, effort: Effort = UNLIMITED) -> bool:
        """Is there something that both accept? Exact without patterns; with them a "yes" may be wrong."""
        if self.absent and other.absent:
            return True
        effort.spend(min(len(self.ranges.cuts), len(other.ranges.cuts)))
        if self.only_ranges and other.only_ranges:
            return not self.ranges.isdisjoint(other.ranges)
        return not Constraint.all_of((self, other), effort).is_empty

    def sort_key(self) -> tuple[Any, ...]:
        return (self.absent, self.ranges.cuts, self.like, self.unlike)


def _points(ranges: Ranges) -> tuple[Value, ...] | None:
    """The values one by one if each interval is a single value."""
    return ranges.values(most=max(1, len(ranges.cuts) // 2))


def _steps_of_points(points: tuple[Value, ...], tests: Sequence[ValueTest]) -> int:
    """To try the tests on the values: a regular expression reads letter by letter, a pattern at the speed of C.

    A pattern with `_` inside a piece may read the whole piece at each letter, up to the length that is looked for at once.
    """
    letters = sum(len(each) for each in points if isinstance(each, str))
    regexes = sum(isinstance(each, Regex) for each in tests)
    patterns = (each.pattern if isinstance(each, Folded) else each for each in tests)
    gapped = sum(min(each.longest_gapped, LONGEST_COMPILED) for each in patterns if isinstance(each, Pattern))
    read = (4 * len(tests) + gapped) * letters // (4 * _LETTERS_IN_A_STEP)
    return len(tests) * len(points) + read + regexes * letters


def _pattern_of(ranges: Ranges) -> tuple[Pattern, ...]:
    """The prefix that all the ranges share, as a pattern, if they share one."""
    if not ranges:
        return ()
    low, high = ranges.cuts[0], ranges.cuts[-1]
    prefix = prefix_of(low, high)
    if prefix is None and high is not TOP:
        same = next(
            (at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), min(len(low), len(high))
        )
        prefix = low[:same]
    return (Pattern.of(escaped(prefix) + "%"),) if prefix else ()


def _by_ranges(ranges: Ranges, wanted: ValueTest, effort: Effort) -> bool:
    return any(implies(each, wanted, effort) for each in _pattern_of(ranges))


def _least(tests: tuple[ValueTest, ...], effort: Effort) -> tuple[ValueTest, ...]:
    """Those that no other one implies."""
    kept: list[ValueTest] = []
    for test in sorted(set(tests)):
        if not any(implies(each, test, effort) for each in kept):
            kept = [each for each in kept if not implies(test, each, effort)] + [test]
    return tuple(sorted(kept))


def _greatest(tests: tuple[ValueTest, ...], effort: Effort) -> tuple[ValueTest, ...]:
    """Those that imply no other one."""
    kept: list[ValueTest] = []
    for test in sorted(set(tests)):
        if not any(implies(test, each, effort) for each in kept):
            kept = [each for each in kept if not implies(each, test, effort)] + [test]
    return tuple(sorted(kept))


def _contradictory(ranges: Ranges, like: tuple[ValueTest, ...], unlike: tuple[ValueTest, ...], effort: Effort) -> bool:
    if not ranges:
        return True
    wanted: tuple[ValueTest, ...] = (*like, *_pattern_of(ranges))
    return have_no_match(wanted, effort) or any(imply_together(wanted, unwanted, effort) for unwanted in unlike)
