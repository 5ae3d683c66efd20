"""The meaning of a subscription: a disjunction of conjunctions with one canonical constraint per attribute.

    issue = 'IBM' AND (price < 5 OR price > 10) OR volume IS NULL
    -> {issue: ('IBM', 'IBM\\0'), price: (-inf, 5.0, 10.000000000000002, TOP)}  OR  {volume: absent}

An attribute that a conjunction does not name may be anything or absent. No conjunctions: nothing matches; one empty
conjunction: everything does. Why this form, and what it does not promise: docs/internals/decisions/0001-normal-form.md.
Rule: `Predicate.of` simplifies until no rule applies, so that a predicate prints and parses back to an equal one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, Self

from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.simplify import Simplifier
from contentcast.model.space import Space
from contentcast.model.values.effort import UNLIMITED, Effort
from contentcast.model.values.kinds import Value

if TYPE_CHECKING:
    from contentcast.model.predicates.tree import Tree


_FEW: Final = 8
"""Conjunctions that are compared in pairs, by their attributes alone, before anything else is done with them."""


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Constraints that all hold, as (attribute, constraint) in the space's order."""

    items: tuple[tuple[str, Constraint], ...] = ()

    @classmethod
    def of(cls, space: Space, constraints: Mapping[str, Constraint]) -> Self:
        kept = [(name, each) for name, each in constraints.items() if not each.is_anything]
        if len(kept) < 2:
            return cls(tuple(kept))
        return cls(tuple(sorted(kept, key=lambda item: space.position(item[0]))))

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def get(self, name: str) -> Constraint | None:
        for each, constraint in self.items:
            if each == name:
                return constraint
        return None

    def accepts(self, event: Mapping[str, Value]) -> bool:
        return all(constraint.accepts(event.get(name)) for name, constraint in self.items)

    def intersect(self, space: Space, other: Conjunction, effort: Effort = UNLIMITED) -> Conjunction | None:
        """Both at once, or None if nothing can satisfy both."""
        if not other.items:
            return self
        if not self.items:
            return other
        constraints = dict(self.items)
        for name, constraint in other.items:
            mine = constraints.get(name)
            both = constraint if mine is None else Constraint.all_of((mine, constraint), effort)
            if both.is_empty:
                return None
            constraints[name] = both
        return Conjunction.of(space, constraints)

    def covers(self, narrow: Conjunction, effort: Effort = UNLIMITED) -> bool:
        """Does every event of the narrow one satisfy this one? As exact as `Constraint.covers`."""
        theirs = dict(narrow.items)
        for name, constraint in self.items:
            asked = theirs.get(name)
            if asked is None or not constraint.ranges.spans(asked.ranges):
                return False
        effort.spend(sum(len(theirs[name].ranges.cuts) // 2 for name, _ in self.items))
        return all(constraint.covers(theirs[name], effort) for name, constraint in self.items)

    def overlaps(self, other: Conjunction, effort: Effort = UNLIMITED) -> bool:
        """Can an event satisfy both? As exact as `Constraint.overlaps`."""
        theirs = dict(other.items)
        effort.spend(4 + 4 * len(theirs))
        return all((asked := theirs.get(name)) is None or constraint.overlaps(asked, effort) for name, constraint in self.items)

    def sort_key(self, space: Space) -> list[Any]:
        return [(space.position(name), constraint.sort_key()) for name, constraint in self.items]


@dataclass(frozen=True, slots=True)
class Predicate:
    """What events of `space` are asked for. `tree` is the text's syntax, kept for the oracle and not part of the meaning."""

    space: Space
    conjunctions: tuple[Conjunction, ...]
    tree: Tree | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, space: Space, conjunctions: Iterable[Conjunction], tree: Tree | None = None) -> Self:
        return cls(space, simplified(space, conjunctions), tree)

    @property
    def is_nothing(self) -> bool:
        return not self.conjunctions

    @property
    def is_anything(self) -> bool:
        return self.conjunctions == (Conjunction(),)

    def accepts(self, event: Mapping[str, Value]) -> bool:
        """Does the event match? Takes plain values of the right kinds; an attribute that is None or missing is absent."""
        return any(conjunction.accepts(event) for conjunction in self.conjunctions)

    def intersect(self, other: Predicate) -> Predicate:
        return Predicate.of(self.space, product(self.space, self.conjunctions, other.conjunctions))

    def union(self, other: Predicate) -> Predicate:
        return Predicate.of(self.space, (*self.conjunctions, *other.conjunctions))


def product(
    space: Space, ones: Iterable[Conjunction], others: Iterable[Conjunction], effort: Effort = UNLIMITED
) -> list[Conjunction]:
    """Every conjunction of the one with every one of the other, without those that nothing satisfies."""
    others = list(others)
    return [both for one in ones for other in others if (both := one.intersect(space, other, effort)) is not None]


def simplified(
    space: Space, conjunctions: Iterable[Conjunction], most: int | None = None, effort: Effort = UNLIMITED
) -> tuple[Conjunction, ...]:
    """The same disjunction with fewer parts (see `simplify`), in one order. Raises once there are more than `most`."""
    given = list(conjunctions)
    if len(given) < 2:
        return tuple(given)
    if len(given) <= _FEW and _are_apart(given):
        return tuple(sorted(given, key=lambda each: each.sort_key(space)))
    given = list(dict.fromkeys(given))
    if len(given) < 2:
        return tuple(given)
    work = Simplifier(most, effort)
    rows = [tuple((space.position(name), work.number(constraint)) for name, constraint in each.items) for each in given]
    found = [
        Conjunction(tuple((space.names[position], work.constraints[number]) for position, number in row))
        for row in work.simplify(rows)
    ]
    return tuple(sorted(found, key=lambda each: each.sort_key(space)))


def _are_apart(conjunctions: list[Conjunction]) -> bool:
    """Does each have an attribute that the other lacks, whichever two are taken? Then none merge and none covers another."""
    names = [{name for name, _ in each.items} for each in conjunctions]
    return not any(one <= other or other <= one for one, other in combinations(names, 2))
