"""What the model does with predicates, for callers who have them as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from contentcast.language.errors import PredicateError
from contentcast.language.parser import parse_predicate
from contentcast.model.errors import ContentcastError
from contentcast.model.predicates import covering
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.space import Space
from contentcast.model.subscription import Advertisement, Subscription

ANY = "ANY"
"""In an advertisement: whatever value the attribute has."""


def as_predicate(space: Space, predicate: str | Predicate) -> Predicate:
    """A text is parsed; a predicate must be of the same space."""
    if isinstance(predicate, Predicate):
        if predicate.space != space:
            raise ContentcastError(f"a predicate over {predicate.space.name} does not fit the space {space.name}")
        return predicate
    return parse_predicate(space, predicate)


def covers(space: Space, wide: str | Predicate, narrow: str | Predicate) -> bool:
    """Does every event of the space that satisfies `narrow` satisfy `wide`? Never a wrong yes (`model.predicates.covering`)."""
    return covering.covers(as_predicate(space, wide), as_predicate(space, narrow))


def overlaps(space: Space, one: str | Predicate, other: str | Predicate) -> bool:
    """Is there an event of the space that satisfies both? Never a wrong no (`model.predicates.covering`)."""
    return covering.overlaps(as_predicate(space, one), as_predicate(space, other))


def subscription(space: Space, id: int, predicate: str | Predicate, *, subscriber: str = "", broker: str = "") -> Subscription:
    return Subscription(id, as_predicate(space, predicate), subscriber, broker)


def advertisement(
    space: Space, id: int, allowed: Mapping[str, str | Iterable[str]], *, publisher: str = "", broker: str = ""
) -> Advertisement:
    """`advertisement(video, 1, {"block_h": "block_h >= 0 AND block_h < 2", "pixels": "ANY"})`.

    Each attribute that may be carried, with a predicate over it alone; several are alternatives.
    """
    constraints = {}
    for name, texts in allowed.items():
        space[name]  # refused here, before its text is read
        given = [texts] if isinstance(texts, str) else list(texts)
        constraints[name] = tuple(each for text in given for each in _constraints(space, name, text))
    return Advertisement(id, space, constraints, publisher, broker)


def _constraints(space: Space, name: str, text: str) -> Iterable[Constraint]:
    if text == ANY:
        return [Constraint.present(space.kinds[name])]
    predicate = parse_predicate(space, text)
    found = []
    for conjunction in predicate.conjunctions:
        strange = [each for each in conjunction if each != name]
        if strange:
            raise PredicateError(text, 0, f"what is advertised for {name} may ask of {name} alone, not of {strange[0]}")
        found.append(conjunction.get(name) or Constraint.present(space.kinds[name]))
    return found
