"""A canonical predicate back as a syntax tree: the shortest tests that say the same.

The way back from `normalise`: whatever comes out here normalises to an equal predicate again. The printer turns it into
text, and the oracle judges with it predicates that never had a text (intersections, unions).
"""

from __future__ import annotations

from collections.abc import Iterator

from contentcast.model.predicates import tree as nodes
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.list_tests import Size, Some
from contentcast.model.predicates.predicate import Conjunction, Predicate
from contentcast.model.values.folded import Folded
from contentcast.model.values.kinds import INT
from contentcast.model.values.networks import InNetwork
from contentcast.model.values.patterns import Pattern, Wildcard
from contentcast.model.values.ranges import Interval, Ranges, prefix_of
from contentcast.model.values.regular import Regex
from contentcast.model.values.value_test import ValueTest

_INFINITE = {float("inf"), float("-inf")}  # no literal says them; a bound beside them does


def tree_of(predicate: Predicate) -> nodes.Tree:
    """The predicate's own syntax if it has one, else its spelling."""
    return predicate.tree if predicate.tree is not None else spell(predicate)


def spell(predicate: Predicate) -> nodes.Tree:
    if predicate.is_nothing:
        return nodes.Constant(False)
    return _either([_conjunction(each) for each in predicate.conjunctions])


def _either(trees: list[nodes.Tree]) -> nodes.Tree:
    return trees[0] if len(trees) == 1 else nodes.Or(tuple(trees))


def _both(trees: list[nodes.Tree]) -> nodes.Tree:
    return trees[0] if len(trees) == 1 else nodes.And(tuple(trees))


def _conjunction(conjunction: Conjunction) -> nodes.Tree:
    parts: list[nodes.Tree] = []
    for name, constraint in conjunction.items:
        spelt = spell_constraint(name, constraint)
        parts += spelt.parts if isinstance(spelt, nodes.And) else (spelt,)
    return _both(parts) if parts else nodes.Constant(True)


def spell_constraint(name: str, constraint: Constraint) -> nodes.Tree:
    if not constraint.ranges:
        return nodes.IsNull(name) if constraint.absent else nodes.Constant(False)
    parts: list[nodes.Tree] = [part for each in constraint.like for part in _parts(_test(name, each))]
    parts += [_negated(name, each) for each in constraint.unlike]
    implied = Ranges.everything(constraint.ranges.kind)
    for each in constraint.like:
        implied = implied & Ranges.prefix(each.prefix)
    if constraint.ranges != implied:
        spelt = _ranges(name, constraint.ranges)
        parts = [*(spelt.parts if isinstance(spelt, nodes.And) else (spelt,)), *parts]
    if not parts:
        parts.append(nodes.Not(nodes.IsNull(name)))
    return nodes.Or((nodes.IsNull(name), _both(parts))) if constraint.absent else _both(parts)


def _ranges(name: str, ranges: Ranges) -> nodes.Tree:
    outside = ranges.complement()
    excluded = outside.values(most=len(outside.cuts) // 2) if len(outside.cuts) <= len(ranges.cuts) else None
    if excluded and ranges.kind.name != "bool" and not _INFINITE.intersection(excluded):
        return nodes.Compare(name, "<>", excluded[0]) if len(excluded) == 1 else nodes.Not(nodes.In(name, excluded))
    points: list[object] = []
    spans: list[nodes.Tree] = []
    for (low, high), interval in zip(ranges.pairs(), ranges.intervals(), strict=True):
        prefix = prefix_of(low, high)
        if interval.low == interval.high and interval.low is not None:
            points.append(interval.low)
        elif prefix is not None:
            spans.append(nodes.TextTest(name, "startswith", prefix))
        else:
            spans.append(_both(list(_interval(name, interval))))
    if points:
        spans.insert(0, nodes.Compare(name, "=", points[0]) if len(points) == 1 else nodes.In(name, tuple(points)))
    return _either(spans) if spans else nodes.Not(nodes.IsNull(name))


def _interval(name: str, interval: Interval) -> Iterator[nodes.Tree]:
    low, low_closed, high, high_closed = interval
    if low is not None and high is not None and low_closed and high_closed:
        yield nodes.Between(name, low, high)
        return
    if low is not None:
        yield nodes.Compare(name, ">=" if low_closed else ">", low)
    if high is not None:
        yield nodes.Compare(name, "<=" if high_closed else "<", high)
    if low is None and high is None:
        yield nodes.Not(nodes.IsNull(name))


ELEMENT = "t"
"""What an element of a list is called."""


def _parts(tree: nodes.Tree) -> tuple[nodes.Tree, ...]:
    return tree.parts if isinstance(tree, nodes.And) else (tree,)


def _negated(name: str, test: ValueTest) -> nodes.Tree:
    """That the test does not match. Of elements: that there is none which the constraint accepts, null or not."""
    if not isinstance(test, Some):
        return nodes.Not(_test(name, test))
    unwanted = test.constraint
    others = unwanted.complement()
    if others is not None and unwanted.ranges and _is_simpler(others, unwanted):
        return nodes.ForAll(name, ELEMENT, spell_constraint(ELEMENT, others))
    if unwanted.absent and unwanted.ranges:  # a null makes it unknown, so there is none either
        present = Constraint(unwanted.ranges, False, unwanted.like, unwanted.unlike)
        return nodes.Not(nodes.Exists(name, ELEMENT, spell_constraint(ELEMENT, present)))
    spelt = spell_constraint(ELEMENT, unwanted)
    return nodes.Not(
        nodes.Exists(name, ELEMENT, spelt if unwanted.absent else nodes.And((nodes.Not(nodes.IsNull(ELEMENT)), *_parts(spelt))))
    )


def _is_simpler(one: Constraint, other: Constraint) -> bool:
    points = other.ranges.values(most=max(1, len(other.ranges.cuts) // 2))
    return other.only_ranges and not (points and other.absent) and (len(one.ranges.cuts) <= len(other.ranges.cuts))


def _test(name: str, test: ValueTest) -> nodes.Tree:
    match test:
        case Some():
            return nodes.Exists(name, ELEMENT, spell_constraint(ELEMENT, test.constraint))
        case Size():
            spelt = _ranges(name, test.ranges | Ranges.between(INT, None, -1) if _is_low(test.ranges) else test.ranges)
            return _sized(spelt)
        case Folded():
            pattern = test.pattern
            return nodes.Lowered(
                _pattern(name, pattern) if pattern.literal is None else nodes.Compare(name, "=", pattern.literal)
            )
        case Regex():
            return nodes.Rlike(name, test.expression)
        case InNetwork():
            return nodes.InCidr(name, test.network)
        case Pattern():
            return _pattern(name, test)
    raise TypeError(f"not a test: {test!r}")


def _pattern(name: str, pattern: Pattern) -> nodes.Like | nodes.TextTest:
    """endswith and contains where they say it, which is how people think of them."""
    tokens = pattern.tokens
    inner = [token for token in tokens if isinstance(token, str)]
    if inner and len(inner) == len(tokens) - 1 and tokens[-1] is Wildcard.RUN:
        return nodes.TextTest(name, "startswith", "".join(inner))
    if inner and tokens[0] is Wildcard.RUN:
        if len(inner) == len(tokens) - 1:
            return nodes.TextTest(name, "endswith", "".join(inner))
        if len(inner) == len(tokens) - 2 and tokens[-1] is Wildcard.RUN:
            return nodes.TextTest(name, "contains", "".join(inner))
    return nodes.Like(name, pattern.text)


def _is_low(sizes: Ranges) -> bool:
    """Does the set go down to the least size, and beyond 0, so that a bound from above says it?"""
    return 0 in sizes and sizes.cuts[1] != 1


def _sized(tree: nodes.Tree) -> nodes.Tree:
    match tree:
        case nodes.Compare() | nodes.Between() | nodes.In():
            return nodes.Sized(tree)
        case nodes.Not(part):
            return nodes.Not(_sized(part))
        case nodes.And(parts) | nodes.Or(parts):
            return type(tree)(tuple(_sized(part) for part in parts))
    raise TypeError(f"not a test of a size: {tree!r}")
