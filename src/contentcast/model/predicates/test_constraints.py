"""What each test asks of its attribute: the constraint under which it is TRUE, and the one under which it is FALSE.

Rule: a test of a value that is absent, or with NULL, is unknown, so neither constraint lets it through. IS and <=> are never
unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

from contentcast.model.predicates import tree as nodes
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.list_tests import ANY_SIZE, Size
from contentcast.model.values.folded import Folded, is_small
from contentcast.model.values.kinds import INT, INT_GREATEST, INT_LEAST, Kind, Value
from contentcast.model.values.networks import InNetwork
from contentcast.model.values.patterns import Pattern, escaped
from contentcast.model.values.ranges import Ranges
from contentcast.model.values.regular import Regex
from contentcast.model.values.value_test import ValueTest


def test_constraint(kind: Kind, test: nodes.Test, truth: bool) -> Constraint:
    """The constraint on the test's attribute under which the test is TRUE (or FALSE)."""
    match test:
        case nodes.IsNull():
            return Constraint.missing(kind) if truth else Constraint.present(kind)
        case nodes.IsTruth(_, wanted):
            found = Constraint(Ranges.points(kind, [wanted]))
            return found if truth else Constraint(found.ranges.complement(), absent=True)
        case nodes.Compare(_, "<=>", None):
            return Constraint.missing(kind) if truth else Constraint.present(kind)
        case nodes.Compare(_, "<=>", value):
            found = Constraint(_compared(kind, "=", value))
            return found if truth else Constraint(found.ranges.complement(), absent=True)
        case nodes.Lowered(inner):
            return _lowered(kind, inner, truth)
        case nodes.Sized(inner):
            return _sized(kind, test_constraint(INT, inner, truth).ranges)
        case (
            nodes.Compare(_, _, None)
            | nodes.Like(_, None)
            | nodes.TextTest(_, _, None)
            | nodes.Rlike(_, None)
            | nodes.InCidr(_, None)
        ):
            return _never(kind)
        case nodes.Compare(_, op, value):
            return _either(_compared(kind, op, value), truth)
        case nodes.Between(_, low, high):
            return _between(kind, low, high, truth)
        case nodes.In(_, values):
            return _in(kind, values, truth)
        case nodes.Like(_, str(pattern), escape):
            return _like(kind, Pattern.of(pattern, escape), truth)
        case nodes.TextTest(_, how, str(text)):
            return _like(kind, _AS_PATTERN[how](text), truth)
        case nodes.Rlike(_, str(expression)):
            regex = Regex.of(expression)
            plain = regex.as_pattern()
            return _tested(kind, regex, truth) if plain is None else _like(kind, plain, truth)
        case nodes.InCidr(_, str(network)):
            return _tested(kind, InNetwork.of(network), truth)
    raise TypeError(f"not a test: {test!r}")


def _sized(kind: Kind, sizes: Ranges) -> Constraint:
    return Constraint.of(Ranges.everything(kind), like=(Size.of(sizes & ANY_SIZE),))


def _never(kind: Kind) -> Constraint:
    return Constraint(Ranges.nothing(kind))


def _either(ranges: Ranges, truth: bool) -> Constraint:
    return Constraint(ranges if truth else ranges.complement())


def _compared(kind: Kind, op: str, value: Value) -> Ranges:
    if kind.name == "int" and not (isinstance(value, int) and INT_LEAST <= value <= INT_GREATEST):
        return _int_against(kind, op, Decimal(value))
    match op:
        case "=":
            return Ranges.points(kind, [value])
        case "<>":
            return Ranges.points(kind, [value]).complement()
        case "<":
            return Ranges.between(kind, high=value, high_closed=False)
        case "<=":
            return Ranges.between(kind, high=value)
        case ">":
            return Ranges.between(kind, low=value, low_closed=False)
        case ">=":
            return Ranges.between(kind, low=value)
    raise TypeError(f"not a comparison: {op!r}")


def _int_against(kind: Kind, op: str, value: Decimal) -> Ranges:
    """An int attribute against a number that is no 64-bit int: exact, whatever the number."""
    floor = int(value.to_integral_value(ROUND_FLOOR))
    if floor == value and INT_LEAST <= floor <= INT_GREATEST:
        return _compared(kind, op, floor)  # 5.0 is 5
    if op in ("=", "<>"):
        return Ranges.nothing(kind) if op == "=" else Ranges.everything(kind)
    if op in ("<", "<="):
        if floor < INT_LEAST:
            return Ranges.nothing(kind)
        return Ranges.between(kind, high=min(floor, INT_GREATEST))
    ceiling = int(value.to_integral_value(ROUND_CEILING))
    return Ranges.nothing(kind) if ceiling > INT_GREATEST else Ranges.between(kind, low=max(ceiling, INT_LEAST))


def _between(kind: Kind, low: Value | None, high: Value | None, truth: bool) -> Constraint:
    """`low <= a AND a <= high`, either of which may be NULL and so unknown."""
    sides = [_compared(kind, op, value) for op, value in ((">=", low), ("<=", high)) if value is not None]
    if truth:
        return Constraint(sides[0] & sides[1]) if len(sides) == 2 else _never(kind)
    outside = Ranges.nothing(kind)
    for side in sides:
        outside = outside | side.complement()
    return Constraint(outside)


def _in(kind: Kind, values: tuple[Value | None, ...], truth: bool) -> Constraint:
    given = [value for value in values if value is not None]
    if kind.name == "int":
        found = Ranges.union_all(kind, [_compared(kind, "=", value) for value in given])
    else:
        found = Ranges.points(kind, given)
    if truth:
        return Constraint(found)
    return _never(kind) if len(given) < len(values) else Constraint(found.complement())  # NOT IN (.., NULL): unknown


_AS_PATTERN: Final[dict[str, Callable[[str], Pattern]]] = {
    "startswith": lambda text: Pattern(escaped(text) + "%"),
    "endswith": lambda text: Pattern("%" + escaped(text)),
    "contains": lambda text: Pattern("%" + escaped(text) + "%" if text else "%"),
}
"""As their canonical patterns."""


def _like(kind: Kind, pattern: Pattern, truth: bool) -> Constraint:
    if pattern.literal is not None:
        return _either(Ranges.points(kind, [pattern.literal]), truth)
    if pattern.is_prefix:
        return _either(Ranges.prefix(pattern.prefix), truth)
    return _tested(kind, pattern, truth)


def _tested(kind: Kind, test: ValueTest, truth: bool) -> Constraint:
    """One test that is more than its prefix is canonical as it stands."""
    if truth:
        return Constraint(Ranges.prefix(test.prefix) if test.prefix else Ranges.everything(kind), like=(test,))
    return Constraint(Ranges.everything(kind), unlike=(test,))


def _lowered(kind: Kind, test: nodes.Compare | nodes.Like | nodes.TextTest, truth: bool) -> Constraint:
    """What the test asks of the small letters, as a test of the value itself."""
    match test:
        case nodes.Compare(_, "<=>", None):
            return test_constraint(kind, test, truth)
        case nodes.Compare(_, op, str(text)):
            wanted = _lowered_like(kind, Pattern(escaped(text)), truth is (op != "<>"))
            # NULL <=> 'a' is FALSE, so an absent value satisfies the negation.
            return Constraint(wanted.ranges, True, wanted.like, wanted.unlike) if op == "<=>" and not truth else wanted
        case nodes.Like(_, str(pattern), escape):
            return _lowered_like(kind, Pattern.of(pattern, escape), truth)
        case nodes.TextTest(_, how, str(text)):
            return _lowered_like(kind, _AS_PATTERN[how](text), truth)
    return _never(kind)


def _lowered_like(kind: Kind, pattern: Pattern, truth: bool) -> Constraint:
    letters = "".join(token for token in pattern.tokens if isinstance(token, str))
    if not is_small(letters):  # no small letters match it
        return _either(Ranges.nothing(kind), truth)
    if pattern.text in ("", "%"):  # which say the same of the value itself
        return _like(kind, pattern, truth)
    return _tested(kind, Folded.of(pattern), truth)
