"""From a predicate's tree to its canonical form, a disjunction of conjunctions.

SQL has three truth values, so each node is asked twice: when is it TRUE, and when is it FALSE (the rest is UNKNOWN, and only
TRUE matches)? NOT swaps the two, and no third case is needed.
Rule: the work is counted before it is done, so that no text of a stranger multiplies out without end.
"""

from __future__ import annotations

from typing import Final

from contentcast.model.errors import TooManyConjunctions
from contentcast.model.predicates import tree as nodes
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.list_tests import Some
from contentcast.model.predicates.predicate import Conjunction, Predicate, product, simplified
from contentcast.model.predicates.test_constraints import test_constraint
from contentcast.model.space import Space
from contentcast.model.values.caches import weighed
from contentcast.model.values.effort import MOST_STEPS, Effort
from contentcast.model.values.kinds import Kind
from contentcast.model.values.ranges import Ranges

MOST_CONJUNCTIONS: Final = 1000
"""A predicate with more alternatives than this in disjunctive form is refused: split it into several subscriptions."""

_MOST_MULTIPLIED: Final = 4
"""Up to so many times MOST_CONJUNCTIONS are multiplied out, since simplifying may leave few of them."""

STEPS_OF_A_PRODUCT: Final = 12
"""For one conjunction with one other."""
_STEPS_OF_ELEMENTS: Final = 50
_STEPS_OF_A_PREDICATE: Final = 20
"""For one test of a list. One that stands in a text again is not counted again, so that canonical forms read back."""


def normalise(space: Space, tree: nodes.Tree) -> Predicate:
    """The canonical predicate that is TRUE for exactly the events for which the tree is.

    Raises `TooManyConjunctions` where that would have more than MOST_CONJUNCTIONS parts or take more than `effort.MOST_STEPS`.
    """
    effort = Effort(MOST_STEPS)
    found = _when(space, tree, True, effort)
    # What `_any_of` gives is simplified already, and to do so again changes nothing.
    return Predicate(space, tuple(found) if _is_any_of(tree) else simplified(space, found, effort=effort), tree)


def _is_any_of(tree: nodes.Tree) -> bool:
    """Are the alternatives of a tree those of its parts, taken together? Those of an OR are, and of an AND that is negated."""
    truth = True
    while isinstance(tree, nodes.Not):
        tree, truth = tree.part, not truth
    return isinstance(tree, nodes.Or if truth else nodes.And)


def _when(space: Space, tree: nodes.Tree, wanted: bool, effort: Effort) -> list[Conjunction]:
    """The conjunctions under which the tree is TRUE (or FALSE).

    A tree goes as deep as its text has parentheses, so it is walked on a stack of its own. That holds a tree with the truth
    that is asked of it, or a number of parts with how their answers go together: True for all of them, False for any.
    """
    todo: list[tuple[nodes.Tree, bool] | tuple[int, bool]] = [(tree, wanted)]
    done: list[list[Conjunction]] = []
    of_lists: dict[nodes.Tree, dict[bool, list[Conjunction]]] = {}
    while todo:
        what, truth = todo.pop()
        match what:
            case int(count):
                parts = done[len(done) - count :]
                del done[len(done) - count :]
                done.append(_all_of(space, parts, effort) if truth else _any_of(space, parts, effort))
            case nodes.Constant(constant):
                done.append([Conjunction()] if constant is truth else [])
            case nodes.Not(part):
                todo.append((part, not truth))
            case nodes.And(parts) | nodes.Or(parts):
                todo.append((len(parts), isinstance(what, nodes.And) is truth))
                todo += [(part, truth) for part in reversed(parts)]
            case nodes.Exists() | nodes.ForAll() | nodes.Sized():
                known = of_lists.setdefault(what, {})
                found = known.get(truth)
                if found is None:
                    effort.spend(_STEPS_OF_ELEMENTS)
                    kind = space.kinds[what.attribute]
                    if isinstance(what, nodes.Sized):
                        alternatives = [test_constraint(kind, what, truth)]
                    else:
                        alternatives = _of_elements(kind, what, truth, effort)
                    found = [Conjunction.of(space, {what.attribute: each}) for each in alternatives if not each.is_empty]
                    known[truth] = found
                done.append(found)
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
        effort.spend(STEPS_OF_A_PRODUCT * count)
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


def _of_elements(kind: Kind, test: nodes.Exists | nodes.ForAll, truth: bool, effort: Effort) -> list[Constraint]:
    """The lists of which the test is TRUE (or FALSE), as alternatives.

    Some element is in one of the sets for which the predicate is TRUE (or FALSE, of a `forall` that is FALSE); or none is in
    the sets for which it is not FALSE (or not TRUE).
    """
    assert kind.element is not None
    some = isinstance(test, nodes.Exists) is truth
    everything = Ranges.everything(kind)
    # As array_contains and arrays_overlap make them, which come by the thousand.
    if isinstance(test.predicate, (nodes.Compare, nodes.In)):
        wanted = test_constraint(kind.element, test.predicate, truth)
        if some and wanted.ranges and not wanted.absent:
            return [Constraint(everything, like=(Some.of(wanted),))]
    effort.spend(_STEPS_OF_A_PREDICATE)
    space = space_of_elements((test.attribute, test.element, kind.element.name))
    sets = [
        each.get(test.element) or Constraint(Ranges.everything(kind.element), absent=True)
        for each in simplified(space, _when(space, test.predicate, truth, effort), effort=effort)
    ]
    if some:  # one test alone is canonical, unless it asks for nothing of the element
        return [
            Constraint.of(everything, like=(Some.of(each),), effort=effort)
            if each.is_anything or each.is_empty
            else Constraint(everything, like=(Some.of(each),))
            for each in sets
        ]
    others = _complement(kind.element, sets, effort)
    if len(others) == 1 and not others[0].is_anything and not others[0].is_empty:
        return [Constraint(everything, unlike=(Some.of(others[0]),))]
    return [Constraint.of(everything, unlike=tuple(sorted(Some.of(each) for each in others)), effort=effort)]


@weighed(1_000_000, lambda key: 2_000 + 5 * len("".join(key)))  # type: ignore[arg-type]
def space_of_elements(key: tuple[str, str, str]) -> Space:
    """A space of one attribute: of the list's name, what an element is called and its kind. They come by the thousand."""
    name, called, kind = key
    return Space(f"the elements of {name}", {called: kind})


def _complement(kind: Kind, sets: list[Constraint], effort: Effort) -> list[Constraint]:
    """All that none of the sets accepts, as sets."""
    found = [Constraint(Ranges.everything(kind), absent=True)]
    for at, each in enumerate(sets):
        _limit_sets(len(each.like) + len(each.unlike))  # each test makes a part: counted before it is made
        parts = [Constraint(each.ranges.complement(), not each.absent)]
        parts += [Constraint.of(each.ranges, unlike=(test,), effort=effort) for test in each.like]
        parts += [Constraint.of(each.ranges, like=(test,), effort=effort) for test in each.unlike]
        effort.spend(STEPS_OF_A_PRODUCT * len(found) * len(parts))
        both = parts if at == 0 else [Constraint.all_of((one, other), effort) for one in found for other in parts]
        found = [one for one in dict.fromkeys(both) if not one.is_empty]
        _limit_sets(len(found))
    return found


def _limit_sets(count: int) -> None:
    if count > MOST_CONJUNCTIONS:
        raise TooManyConjunctions(
            f"the predicate of a list's elements has more than {MOST_CONJUNCTIONS:,} alternatives; split it into several tests"
        )
