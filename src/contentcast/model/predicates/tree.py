"""The syntax of a predicate as a small tree, and what it means.

`normalise` turns a tree into its canonical `Predicate`. SQL has three truth values, so each node is asked twice: when is it
TRUE, and when is it FALSE (the rest is UNKNOWN, and only TRUE matches)? NOT swaps the two, and no third case is needed.
Rule: values in a tree are already of the attribute's kind; only an int attribute may meet a Decimal, compared exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

from contentcast.model.errors import TooManyConjunctions
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.list_tests import ANY_SIZE, Size, Some
from contentcast.model.predicates.predicate import Conjunction, Predicate, product, simplified
from contentcast.model.space import Space
from contentcast.model.values.effort import MOST_STEPS, Effort
from contentcast.model.values.folded import Folded, is_small
from contentcast.model.values.kinds import INT, INT_GREATEST, INT_LEAST, Kind, Value
from contentcast.model.values.networks import InNetwork
from contentcast.model.values.patterns import Pattern, escaped
from contentcast.model.values.ranges import Ranges
from contentcast.model.values.regular import Regex
from contentcast.model.values.value_test import ValueTest

MOST_CONJUNCTIONS: Final = 1000
"""A predicate with more alternatives than this in disjunctive form is refused: split it into several subscriptions."""

_MOST_MULTIPLIED: Final = 4
"""Up to so many times MOST_CONJUNCTIONS are multiplied out, since simplifying may leave few of them."""

_STEPS_OF_A_PRODUCT: Final = 12
"""For one conjunction with one other."""


@dataclass(frozen=True, slots=True)
class Compare:
    """`attribute op value`; a value of None is SQL's NULL."""

    attribute: str
    op: str  # = <> < <= > >= <=>
    value: Value | None


@dataclass(frozen=True, slots=True)
class Between:
    attribute: str
    low: Value | None
    high: Value | None


@dataclass(frozen=True, slots=True)
class In:
    attribute: str
    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`pattern` is None for LIKE NULL."""

    attribute: str
    pattern: str | None
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class TextTest:
    """startswith, endswith or contains."""

    attribute: str
    how: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Rlike:
    """A regular expression that matches somewhere in the string."""

    attribute: str
    expression: str | None


@dataclass(frozen=True, slots=True)
class InCidr:
    attribute: str
    network: str | None


@dataclass(frozen=True, slots=True)
class Lowered:
    """A test of the small letters of a string: an equality, LIKE, startswith, endswith or contains."""

    test: Compare | Like | TextTest

    @property
    def attribute(self) -> str:
        return self.test.attribute


@dataclass(frozen=True, slots=True)
class Exists:
    """Some element of a list, named `element`, satisfies a predicate. Unknown if none does and the predicate is for one of
    them.

    `array_contains` and `arrays_overlap` are this with an equality and an IN.
    """

    attribute: str
    element: str
    predicate: Tree


@dataclass(frozen=True, slots=True)
class ForAll:
    """Every element does. FALSE if it is FALSE for one; else unknown if it is for one."""

    attribute: str
    element: str
    predicate: Tree


@dataclass(frozen=True, slots=True)
class Sized:
    """A test of the size of a list, as if that were the attribute's value."""

    test: Compare | Between | In

    @property
    def attribute(self) -> str:
        return self.test.attribute


@dataclass(frozen=True, slots=True)
class IsNull:
    attribute: str


@dataclass(frozen=True, slots=True)
class IsTruth:
    """`attribute IS TRUE` or `IS FALSE`: never unknown."""

    attribute: str
    truth: bool


@dataclass(frozen=True, slots=True)
class Constant:
    truth: bool | None


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Tree


Test = Compare | Between | In | Like | TextTest | Rlike | InCidr | Lowered | Exists | ForAll | Sized | IsNull | IsTruth
Tree = Test | Constant | And | Or | Not


def normalise(space: Space, tree: Tree) -> Predicate:
    """The canonical predicate that is TRUE for exactly the events for which the tree is.

    Raises `TooManyConjunctions` where that would have more than MOST_CONJUNCTIONS parts or take more than `effort.MOST_STEPS`.
    """
    effort = Effort(MOST_STEPS)
    return Predicate(space, simplified(space, _when(space, tree, True, effort), effort=effort), tree)


def _when(space: Space, tree: Tree, wanted: bool, effort: Effort) -> list[Conjunction]:
    """The conjunctions under which the tree is TRUE (or FALSE).

    A tree goes as deep as its text has parentheses, so it is walked on a stack of its own. That holds a tree with the truth
    that is asked of it, or a number of parts with how their answers go together: True for all of them, False for any.
    """
    todo: list[tuple[Tree, bool] | tuple[int, bool]] = [(tree, wanted)]
    done: list[list[Conjunction]] = []
    while todo:
        what, truth = todo.pop()
        match what:
            case int(count):
                parts = done[len(done) - count :]
                del done[len(done) - count :]
                done.append(_all_of(space, parts, effort) if truth else _any_of(space, parts, effort))
            case Constant(constant):
                done.append([Conjunction()] if constant is truth else [])
            case Not(part):
                todo.append((part, not truth))
            case And(parts) | Or(parts):
                todo.append((len(parts), isinstance(what, And) is truth))
                todo += [(part, truth) for part in reversed(parts)]
            case Exists() | ForAll():
                alternatives = _of_elements(space.kinds[what.attribute], what, truth, effort)
                done.append([Conjunction.of(space, {what.attribute: each}) for each in alternatives if not each.is_empty])
            case _:
                constraint = test_constraint(space.kinds[what.attribute], what, truth)
                done.append([] if constraint.is_empty else [Conjunction.of(space, {what.attribute: constraint})])
    return done[0]


def _any_of(space: Space, alternatives: list[list[Conjunction]], effort: Effort) -> list[Conjunction]:
    found = list(_simplified(space, [each for alternative in alternatives for each in alternative], effort))
    return _limited(found, len(found))


def _all_of(space: Space, parts: list[list[Conjunction]], effort: Effort) -> list[Conjunction]:
    # Single conjunctions first: they narrow (or empty) the product before the alternatives multiply it.
    ordered = sorted(parts, key=len)
    if ordered and not ordered[0]:
        return []
    singles = [part[0] for part in ordered if len(part) == 1]
    together = _together(space, singles, effort)
    current = [] if together is None else [together]
    for part in ordered[len(singles) :]:
        count = len(part) * len(current)  # counted before it is multiplied out
        _limited(current, count // _MOST_MULTIPLIED)
        effort.spend(_STEPS_OF_A_PRODUCT * count)
        multiplied = product(space, current, part, effort)
        current = list(_simplified(space, multiplied, effort)) if len(current) > 1 else multiplied
        _limited(current, len(current))
    return current


def _together(space: Space, conjunctions: list[Conjunction], effort: Effort) -> Conjunction | None:
    """All at once: each attribute's constraints together, so that it does not matter in which order they were written."""
    asked: dict[str, list[Constraint]] = {}
    for conjunction in conjunctions:
        for name, constraint in conjunction.items:
            asked.setdefault(name, []).append(constraint)
    found: dict[str, Constraint] = {}
    for name, constraints in asked.items():
        found[name] = constraints[0] if len(constraints) == 1 else Constraint.all_of(constraints, effort)
        if found[name].is_empty:
            return None
    return Conjunction.of(space, found)


def _simplified(space: Space, conjunctions: list[Conjunction], effort: Effort) -> tuple[Conjunction, ...]:
    try:
        return simplified(space, conjunctions, 2 * MOST_CONJUNCTIONS, effort)
    except TooManyConjunctions as reason:
        if effort.left >= 0:
            _limited([], MOST_CONJUNCTIONS + 1)
        raise reason


def _limited(conjunctions: list[Conjunction], count: int) -> list[Conjunction]:
    if count > MOST_CONJUNCTIONS:
        raise TooManyConjunctions(
            f"the predicate has more than {MOST_CONJUNCTIONS} alternatives once its ANDs and ORs are multiplied out; "
            "split it into several subscriptions"
        )
    return conjunctions


def test_constraint(kind: Kind, test: Test, truth: bool) -> Constraint:
    """The constraint on the test's attribute under which the test is TRUE (or FALSE)."""
    match test:
        case IsNull():
            return Constraint.missing(kind) if truth else Constraint.present(kind)
        case IsTruth(_, wanted):
            found = Constraint(Ranges.points(kind, [wanted]))
            return found if truth else Constraint(found.ranges.complement(), absent=True)
        case Compare(_, "<=>", None):
            return Constraint.missing(kind) if truth else Constraint.present(kind)
        case Compare(_, "<=>", value):
            found = Constraint(_compared(kind, "=", value))
            return found if truth else Constraint(found.ranges.complement(), absent=True)
        case Lowered(inner):
            return _lowered(kind, inner, truth)
        case Sized(inner):
            return _sized(kind, test_constraint(INT, inner, truth).ranges)
        case Compare(_, _, None) | Like(_, None) | TextTest(_, _, None) | Rlike(_, None) | InCidr(_, None):
            return _never(kind)
        case Compare(_, op, value):
            return _either(_compared(kind, op, value), truth)
        case Between(_, low, high):
            return _between(kind, low, high, truth)
        case In(_, values):
            return _in(kind, values, truth)
        case Like(_, str(pattern), escape):
            return _like(kind, Pattern.of(pattern, escape), truth)
        case TextTest(_, how, str(text)):
            return _like(kind, _AS_PATTERN[how](text), truth)
        case Rlike(_, str(expression)):
            regex = Regex.of(expression)
            plain = regex.as_pattern()
            return _tested(kind, regex, truth) if plain is None else _like(kind, plain, truth)
        case InCidr(_, str(network)):
            return _tested(kind, InNetwork.of(network), truth)
    raise TypeError(f"not a test: {test!r}")


def _sized(kind: Kind, sizes: Ranges) -> Constraint:
    return Constraint.of(Ranges.everything(kind), like=(Size.of(sizes & ANY_SIZE),))


def _of_elements(kind: Kind, test: Exists | ForAll, truth: bool, effort: Effort) -> list[Constraint]:
    """The lists of which the test is TRUE (or FALSE), as alternatives.

    Some element is in one of the sets for which the predicate is TRUE (or FALSE, of a `forall` that is FALSE); or none is in
    the sets for which it is not FALSE (or not TRUE).
    """
    assert kind.element is not None
    some = isinstance(test, Exists) is truth
    everything = Ranges.everything(kind)
    if isinstance(test.predicate, (Compare, In)):  # as of array_contains and arrays_overlap, which come by the thousand
        wanted = test_constraint(kind.element, test.predicate, truth)
        if some and wanted.ranges and not wanted.absent:
            return [Constraint(everything, like=(Some.of(wanted),))]
    space = Space("element", {test.element: kind.element.name})
    sets = [
        each.get(test.element) or Constraint(Ranges.everything(kind.element), absent=True)
        for each in simplified(space, _when(space, test.predicate, truth, effort), effort=effort)
    ]
    if some:
        return [Constraint.of(everything, like=(Some.of(each),), effort=effort) for each in sets]
    others = _complement(kind.element, sets, effort)
    return [Constraint.of(everything, unlike=tuple(sorted(Some.of(each) for each in others)), effort=effort)]


def _complement(kind: Kind, sets: list[Constraint], effort: Effort) -> list[Constraint]:
    """All that none of the sets accepts, as sets."""
    found = [Constraint(Ranges.everything(kind), absent=True)]
    for each in sets:
        parts = [Constraint(each.ranges.complement(), not each.absent)]
        parts += [Constraint.of(each.ranges, unlike=(test,), effort=effort) for test in each.like]
        parts += [Constraint.of(each.ranges, like=(test,), effort=effort) for test in each.unlike]
        effort.spend(_STEPS_OF_A_PRODUCT * len(found) * len(parts))
        both = [Constraint.all_of((one, other), effort) for one in found for other in parts]
        found = _limited_sets([one for one in dict.fromkeys(both) if not one.is_empty])
    return found


def _limited_sets(sets: list[Constraint]) -> list[Constraint]:
    if len(sets) > MOST_CONJUNCTIONS:
        raise TooManyConjunctions("the elements' predicate has too many alternatives; split it into several tests")
    return sets


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


def _lowered(kind: Kind, test: Compare | Like | TextTest, truth: bool) -> Constraint:
    """What the test asks of the small letters, as a test of the value itself."""
    match test:
        case Compare(_, "<=>", None):
            return test_constraint(kind, test, truth)
        case Compare(_, op, str(text)):
            wanted = _lowered_like(kind, Pattern(escaped(text)), truth is (op != "<>"))
            # NULL <=> 'a' is FALSE, so an absent value satisfies the negation.
            return Constraint(wanted.ranges, True, wanted.like, wanted.unlike) if op == "<=>" and not truth else wanted
        case Like(_, str(pattern), escape):
            return _lowered_like(kind, Pattern.of(pattern, escape), truth)
        case TextTest(_, how, str(text)):
            return _lowered_like(kind, _AS_PATTERN[how](text), truth)
    return _never(kind)


def _lowered_like(kind: Kind, pattern: Pattern, truth: bool) -> Constraint:
    letters = "".join(token for token in pattern.tokens if isinstance(token, str))
    if not is_small(letters):  # no small letters match it
        return _either(Ranges.nothing(kind), truth)
    if pattern.text in ("", "%"):  # which say the same of the value itself
        return _like(kind, pattern, truth)
    return _tested(kind, Folded.of(pattern), truth)
