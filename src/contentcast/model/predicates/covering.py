"""covers and overlaps: which predicate asks for all that another asks for, and which ask for something in common.

Source: SIENA's covering relations as given by Eide et al. 2003, section 2.5. A predicate is a set of events; `covers` is set
inclusion, `overlaps` a non-empty intersection. An advertisement's set of events is a predicate as well (`Advertisement`), so
the relations between subscriptions, between advertisements, and across are these two functions.
Rule: `covers` never says yes wrongly, `overlaps` never says no wrongly. Both are exact when no constraint holds a LIKE pattern
other than a prefix (for `covers` within MOST_PARTS of splitting). With patterns they are exact on finite sets and, short of
patterns.MOST_STATES, on patterns that must match; not on ranges, patterns and negated patterns of one attribute together.
"""

from __future__ import annotations

from typing import Final

from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.predicate import Conjunction, Predicate
from contentcast.model.space import Space

MOST_PARTS: Final = 2000
"""How many pieces `covers` cuts a conjunction into, to cover each by another alternative, before it gives up with "no"."""


def covers(wide: Predicate, narrow: Predicate) -> bool:
    """Does every event that satisfies `narrow` satisfy `wide`? Events keep to the space's declared domains."""
    _same_space(wide, narrow)
    domain = domain_of(wide.space)
    budget = [MOST_PARTS]
    for each in narrow.conjunctions:
        within = each.intersect(wide.space, domain)
        if within is not None and not _covered(wide.space, within, wide.conjunctions, budget):
            return False
    return True


def overlaps(one: Predicate, other: Predicate) -> bool:
    """Is there an event of the space that satisfies both?"""
    _same_space(one, other)
    domain = domain_of(one.space)
    for mine in one.conjunctions:
        within = mine.intersect(one.space, domain)
        if within is not None and any(within.intersect(one.space, theirs) is not None for theirs in other.conjunctions):
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


def _covered(space: Space, narrow: Conjunction, wides: tuple[Conjunction, ...], budget: list[int]) -> bool:
    """Covered by one alternative, or cut by it so that the others cover the rest."""
    waiting = [(narrow, list(wides))]
    while waiting:
        piece, left = waiting.pop()
        if any(wide.covers(piece) for wide in left):
            continue
        uncut: list[Conjunction] = []  # may yet cover a smaller piece
        for at, wide in enumerate(left):
            rest = _remainder(space, piece, wide)
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


def _remainder(space: Space, narrow: Conjunction, wide: Conjunction) -> list[Conjunction] | None:
    """What is left of `narrow` outside `wide`, as disjoint pieces; None if a pattern's complement would be needed."""
    pieces: list[Conjunction] = []
    inside: Conjunction | None = narrow
    for name, constraint in wide.items:
        outside = constraint.complement()
        if outside is None:
            return None
        if inside is None:
            break
        piece = inside.intersect(space, Conjunction(((name, outside),)))
        if piece is not None:
            pieces.append(piece)
        inside = inside.intersect(space, Conjunction(((name, constraint),)))
    return [narrow] if inside is None else pieces
