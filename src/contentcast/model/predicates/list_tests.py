r"""Tests of lists: `Some` element is accepted by a constraint; the `Size` is in a set of ints. And what several of them say
together.

    array_contains(tags, 'x')                Some({'x'}) NOT array_contains(tags, 'x')            not Some({'x'} or null)
    a null element makes the answer unknown, so there is none forall(tags, t -> t LIKE 'a%')           not Some(all but 'a%',
    or null) size(tags) > 2                           Size(3 and more)

So `exists` and `forall`, true or false, are Some and not Some, of elements that may be null; three truth values need no third
case. A test is its text, as every test of a value: `\e` or `\#` and its parts as JSON.
Rule: `settled` decides contradictions and covering as far as the elements' constraints do: never wrongly yes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from contentcast.model.values.caches import weighed
from contentcast.model.values.effort import UNLIMITED, Effort
from contentcast.model.values.keys import key_of, value_of
from contentcast.model.values.kinds import INT, SCALARS, TIMESTAMP, TOP, Kind, Value
from contentcast.model.values.list_bytes import elements_of, size_of
from contentcast.model.values.ranges import Ranges
from contentcast.model.values.value_test import ValueTest

if TYPE_CHECKING:
    from contentcast.model.predicates.constraint import Constraint

SOME, SIZE = "\\e", "\\#"
ANY_SIZE: Final = Ranges.between(INT, 0)
NOT_EMPTY: Final = Ranges.between(INT, 1)
EMPTY: Final = Ranges.points(INT, [0])

_STEPS_OF_FACTS: Final = 10
_STEPS_OF_A_PAIR: Final = 8
"""To compare the constraints of two elements, without their patterns, which count for themselves."""


class Some(ValueTest):
    """`Some.of(constraint)`: an element, null ones too, is one that the constraint accepts (null as absent)."""

    __slots__ = ()

    @classmethod
    def of(cls, constraint: Constraint) -> Some:
        ranges = constraint.ranges
        cuts = [None if cut is TOP else _plain(ranges.kind, cut) for cut in ranges.cuts]
        like, unlike = ([each.text for each in tests] for tests in (constraint.like, constraint.unlike))
        described = [ranges.kind.name, cuts, int(constraint.absent), like, unlike]
        return cls(SOME + json.dumps(described, ensure_ascii=False, separators=(",", ":")))

    @property
    def constraint(self) -> Constraint:
        return _constraint(self.text)

    def matches(self, value: Any) -> bool:
        constraint = self.constraint
        return any(constraint.accepts(each) for each in elements_of(constraint.ranges.kind, value))

    @property
    def said(self) -> str:
        return f"HAS an element {self.text[2:]}"


class Size(ValueTest):
    """`Size.of(Ranges.between(INT, 3))`."""

    __slots__ = ()

    @classmethod
    def of(cls, ranges: Ranges) -> Size:
        return cls(SIZE + json.dumps([None if cut is TOP else cut for cut in ranges.cuts], separators=(",", ":")))

    @property
    def ranges(self) -> Ranges:
        return _ranges(self.text)

    def matches(self, value: Any) -> bool:
        return size_of(value) in self.ranges

    @property
    def said(self) -> str:
        return f"HAS a size in {self.text[2:]}"


def _plain(kind: Kind, value: Value) -> Any:
    return key_of(kind, value) if kind is TIMESTAMP else value


@weighed(8_000_000, lambda text: 1_000 + 20 * len(text))  # type: ignore[arg-type]
def _constraint(text: str) -> Constraint:
    # A constraint holds tests of lists, and these hold constraints of elements; so one of the two imports late.
    from contentcast.model.predicates.constraint import Constraint
    from contentcast.model.predicates.test_texts import known_test

    name, cuts, absent, like, unlike = json.loads(text[len(SOME) :])
    kind = SCALARS[name]
    values = [TOP if cut is None else value_of(kind, cut) if kind is TIMESTAMP else cut for cut in cuts]
    return Constraint(Ranges(kind, tuple(values)), bool(absent), tuple(map(known_test, like)), tuple(map(known_test, unlike)))


@weighed(1_000_000, lambda text: 300 + 20 * len(text))  # type: ignore[arg-type]
def _ranges(text: str) -> Ranges:
    return Ranges(INT, tuple(TOP if cut is None else cut for cut in json.loads(text[len(SIZE) :])))


class Facts(NamedTuple):
    """What a list is like: its sizes, constraints of which each accepts some element, and of which each accepts none."""

    sizes: Ranges
    some: tuple[Constraint, ...]
    none: tuple[Constraint, ...]

    @property
    def contradictory(self) -> bool:
        return not self.sizes

    def tests(self) -> tuple[tuple[ValueTest, ...], tuple[ValueTest, ...]]:
        """Those that must match, and those that must not, as few as say it."""
        like: list[ValueTest] = [Some.of(each) for each in self.some]
        if self.sizes != (NOT_EMPTY if self.some else ANY_SIZE):
            like.append(Size.of(self.sizes))
        return tuple(sorted(like)), tuple(sorted(Some.of(each) for each in self.none))


def settled(like: Iterable[ValueTest], unlike: Iterable[ValueTest], effort: Effort = UNLIMITED) -> Facts:
    """The facts, canonical: no constraint that another one implies, and none that says what the sizes say."""
    effort.spend(_STEPS_OF_FACTS)
    sizes, some, none = ANY_SIZE, list[Any](), list[Any]()
    for test in like:
        if isinstance(test, Size):
            sizes &= test.ranges
        elif isinstance(test, Some):
            some.append(test.constraint)
    for test in unlike:
        if isinstance(test, Size):
            sizes &= test.ranges.complement()
        elif isinstance(test, Some):
            none.append(test.constraint)
    none = _united([each for each in none if not each.is_empty], effort)
    if any(each.is_anything for each in none):
        sizes, none = sizes & EMPTY, []
    if some:
        sizes &= NOT_EMPTY
    some = [_without(each, none, effort) for each in some if not each.is_anything]
    if any(each.is_empty for each in some):
        sizes = Ranges.nothing(INT)
    if not sizes:
        return Facts(sizes, (), ())
    if sizes == EMPTY:
        return Facts(sizes, (), ())
    return Facts(sizes, tuple(_least(some, effort)), tuple(none))


def _without(wanted: Constraint, none: list[Constraint], effort: Effort) -> Constraint:
    """What is left of a constraint where no element may be one of these."""
    for each in none:
        effort.spend(_STEPS_OF_A_PAIR)
        if each.covers(wanted, effort):
            return each & type(each)(Ranges.nothing(each.ranges.kind))
        others = each.complement()
        if others is not None:
            wanted = wanted & others
    return wanted


def _united(constraints: list[Constraint], effort: Effort) -> list[Constraint]:
    """Fewer that accept the same together."""
    if len(constraints) < 2:
        return constraints
    found: list[Constraint] = []
    for each in sorted(set(constraints), key=_order):
        _unite(found, each, effort)
    return sorted(found, key=_order)


def _unite(found: list[Constraint], new: Constraint, effort: Effort) -> None:
    for at, each in enumerate(found):
        effort.spend(_STEPS_OF_A_PAIR)
        both = each.union(new, effort)
        if both is not None:
            del found[at]
            _unite(found, both, effort)
            return
    found.append(new)


def _least(constraints: list[Constraint], effort: Effort) -> list[Constraint]:
    """Those that cover no other one."""
    if len(constraints) < 2:
        return constraints
    kept: list[Constraint] = []
    for each in sorted(set(constraints), key=_order):
        effort.spend(_STEPS_OF_A_PAIR * (1 + 2 * len(kept)))
        if not any(each.covers(other, effort) for other in kept):
            kept = [other for other in kept if not other.covers(each, effort)] + [each]
    return sorted(kept, key=_order)


def _order(constraint: Constraint) -> str:
    return Some.of(constraint).text


def facts_cover(wide: Facts, narrow: Facts, effort: Effort = UNLIMITED) -> bool:
    """Does every list of which the narrow facts are true satisfy the wide ones? A "no" may be wrong."""
    if not narrow.sizes <= wide.sizes:
        return False
    never_empty = 0 not in narrow.sizes
    effort.spend(_STEPS_OF_A_PAIR * (len(wide.some) + len(wide.none)) * (1 + len(narrow.some) + len(narrow.none)))
    for wanted in wide.some:
        by_one = any(wanted.covers(each, effort) for each in narrow.some)
        by_all = never_empty and any(
            (left := each.complement()) is not None and wanted.covers(left, effort) for each in narrow.none
        )
        if not by_one and not by_all:
            return False
    if narrow.sizes == EMPTY:
        return True
    return all(any(each.covers(unwanted, effort) for each in narrow.none) for unwanted in wide.none)


def united_facts(one: Facts, other: Facts, effort: Effort = UNLIMITED) -> Facts | None:
    """Both together, if facts can say it: other sizes; or some element in one set or in another, which is some in either."""
    if (one.some, one.none) == (other.some, other.none):
        return Facts(one.sizes | other.sizes, one.some, one.none)
    if (
        len(one.some) != 1
        or len(other.some) != 1
        or one.none
        or other.none
        or one.sizes != NOT_EMPTY
        or other.sizes != NOT_EMPTY
    ):
        return None
    both = one.some[0].union(other.some[0], effort)
    return None if both is None else Facts(NOT_EMPTY, (both,), ())
