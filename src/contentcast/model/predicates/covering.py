"""covers and overlaps: which predicate asks for all that another asks for, and which ask for something in common.

Source: SIENA's covering relations as given by Eide et al. 2003, section 2.5. A predicate is a set of events; `covers` is set
inclusion, `overlaps` a non-empty intersection. An advertisement's set of events is a predicate as well (`Advertisement`), so
the relations between subscriptions, between advertisements, and across are these two functions.
Rule: `covers` never says yes wrongly, `overlaps` never says no wrongly. Both are exact when no constraint holds a LIKE pattern
other than a prefix (for `covers` within MOST_PARTS of splitting). With patterns they are exact on finite sets and, short of
patterns.MOST_STATES, on patterns that must match; not on ranges, patterns and negated patterns of one attribute together.
Both work for MOST_STEPS at most, since strangers choose what is compared. Then `covers` answers "no" and `overlaps` "yes": a
router that believes them sends on too much, and never too little.
"""

from __future__ import annotations

from typing import Final

from contentcast.model.errors import TooManyConjunctions
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.predicate import Conjunction, Predicate
from contentcast.model.space import Space
from contentcast.model.values.effort import Effort

MOST_PARTS: Final = 2000
"""How many pieces `covers` cuts a conjunction into, to cover each by another alternative, before it gives up with "no"."""


MOST_STEPS: Final = 400_000
"""Work for one answer, as `effort` counts it: about 0.1 s."""
_STEPS_OF_A_PAIR: Final = 6
"""Of two conjunctions that are compared, for each attribute; more if their sets have many parts."""


def covers(wide: Predicate, narrow: Predicate, most_steps: int = MOST_STEPS) -> bool:
    """Does every event that satisfies `narrow` satisfy `wide`? Events keep to the space's declared domains.

    "No" if it is not found out within `most_steps`.
    """
    _same_space(wide, narrow)
    domain, budget, effort = domain_of(wide.space), [MOST_PARTS], Effort(most_steps)
    try:
        for each in narrow.conjunctions:
            within = _both(wide.space, each, domain, effort)
            if within is not None and not _covered(wide.space, within, wide.conjunctions, budget, effort):
                return False
    except TooManyConjunctions:
        return False
    return True


def overlaps(one: Predicate, other: Predicate, most_steps: int = MOST_STEPS) -> bool:
    """Is there an event of the space that satisfies both? "Yes" if it is not found out within `most_steps`."""
    _same_space(one, other)
    domain, effort = domain_of(one.space), Effort(most_steps)
    try:
        for mine in one.conjunctions:
            within = _both(one.space, mine, domain, effort)
            if within is None:
                continue
            if any(within.overlaps(theirs, effort) for theirs in other.conjunctions):
                return True
    except TooManyConjunctions:
        return True
    return False


def domain_of(space: Space) -> Conjunction:
    """What every event of the space satisfies: each attribute absent or within its declared domain."""
    return Conjunction.of(
        space, {name: Constraint(each.domain, absent=True) for name, each in space.items() if each.has_domain}
    )


def _same_space(one: Predicate, other: Predicate) -> None:
    if one.space != other.space:
        raise ValueError(f"a predicate over {one.space.name} and one over {other.space.name} have nothing to compare")


def _both(space: Space, one: Conjunction, other: Conjunction, effort: Effort) -> Conjunction | None:
    effort.spend(_steps(one, other))
    return one.intersect(space, other, effort)


def _steps(one: Conjunction, other: Conjunction) -> int:
    """What it takes to compare them, without their patterns, which count for themselves."""
    cuts = sum(len(constraint.ranges.cuts) for each in (one, other) for _, constraint in each.items)
    return _STEPS_OF_A_PAIR * (1 + len(one.items) + len(other.items)) + cuts // 2


def _covered(space: Space, narrow: Conjunction, wides: tuple[Conjunction, ...], budget: list[int], effort: Effort) -> bool:
    """Covered by one alternative, or cut by it so that the others cover the rest."""
    waiting = [(narrow, list(wides))]
    while waiting:
        piece, left = waiting.pop()
        effort.spend(3 * len(left))
        if any(wide.covers(piece, effort) for wide in left):
            continue
        uncut: list[Conjunction] = []  # may yet cover a smaller piece
        for at, wide in enumerate(left):
            rest = _remainder(space, piece, wide, effort)
            if rest is None:
                uncut.append(wide)
            elif rest != [piece]:  # else it takes nothing away, nor from any part of the piece
                budget[0] -= len(rest)
                waiting += [(part, uncut + left[at + 1 :]) for part in rest]
                break
        else:
            return False
        if budget[0] <= 0:
            return False
    return True


def _remainder(space: Space, narrow: Conjunction, wide: Conjunction, effort: Effort) -> list[Conjunction] | None:
    """What is left of `narrow` outside `wide`, as disjoint pieces; None if a pattern's complement would be needed."""
    pieces: list[Conjunction] = []
    inside: Conjunction | None = narrow
    for name, constraint in wide.items:
        outside = constraint.complement()
        if outside is None:
            return None
        if inside is None:
            break
        piece = _both(space, inside, Conjunction(((name, outside),)), effort)
        if piece is not None:
            pieces.append(piece)
        inside = _both(space, inside, Conjunction(((name, constraint),)), effort)
    return [narrow] if inside is None else pieces
