"""Who wants what, and who may publish what.

Source: SIENA's two kinds of filter (Eide et al. 2003, section 2.5). A subscription's constraints on one attribute all hold; an
advertisement's are alternatives, and *every* attribute that a notification carries must be allowed by one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field

from contentcast.model.errors import TooManyConjunctions
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.normalise import MOST_CONJUNCTIONS, STEPS_OF_A_PRODUCT
from contentcast.model.predicates.predicate import Conjunction, Predicate, product, simplified
from contentcast.model.space import Space
from contentcast.model.values.effort import MOST_STEPS, Effort
from contentcast.model.values.kinds import Value

SubscriptionId = int
"""Given by whoever registers the subscription; unique within a network. 64 bits."""

EventId = int
"""Given by whoever publishes; unique within a batch, and within a network once a broker has accepted it. 64 bits."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A predicate, its id, who asks and at which broker."""

    id: SubscriptionId
    predicate: Predicate
    subscriber: str = ""
    broker: str = ""

    @property
    def space(self) -> Space:
        return self.predicate.space


@dataclass(frozen=True, slots=True)
class Advertisement:
    """For each attribute that may be carried, the constraints of which one must allow its value; no other may be carried.

    `effort`: the steps that its normal form may take. A decoder gives the same to all advertisements of a message.
    """

    id: int
    space: Space
    allowed: Mapping[str, tuple[Constraint, ...]]
    publisher: str = ""
    broker: str = ""
    predicate: Predicate = field(init=False, compare=False)
    """The set of events it allows: each attribute absent or allowed, which is what `covers` and `overlaps` compare."""

    effort: InitVar[Effort | None] = None

    def __post_init__(self, effort: Effort | None) -> None:
        for name in self.allowed:
            self.space[name]  # an unknown name is refused with the nearest one
        effort = effort or Effort(MOST_STEPS)
        conjunctions = [Conjunction()]
        # Attributes with one alternative first, before the others multiply.
        for parts in sorted((self._parts(name, effort) for name in self.space.names), key=len):
            count = len(conjunctions) * len(parts)
            if count > MOST_CONJUNCTIONS:
                raise TooManyConjunctions(
                    f"the advertisement has more than {MOST_CONJUNCTIONS} alternatives once those of its attributes are "
                    "multiplied out; split it into several advertisements"
                )
            if count > 1:
                effort.spend(STEPS_OF_A_PRODUCT * count)
            conjunctions = product(self.space, conjunctions, parts)
        # Nothing is left to simplify: alternatives that differ in one attribute differ in two of its simplified parts.
        conjunctions.sort(key=lambda each: each.sort_key(self.space))
        object.__setattr__(self, "predicate", Predicate(self.space, tuple(conjunctions)))

    def _parts(self, name: str, effort: Effort) -> tuple[Conjunction, ...]:
        """An attribute absent, or allowed by one of its constraints."""
        missing = Constraint.missing(self.space.kinds[name])
        options = [Constraint(each.ranges, True, each.like, each.unlike) for each in self.allowed.get(name, ())] or [missing]
        return simplified(self.space, [Conjunction.of(self.space, {name: each}) for each in options], effort=effort)

    def allows(self, event: Mapping[str, Value]) -> bool:
        """May this event be published under the advertisement?"""
        return all(
            any(constraint.accepts(value) for constraint in self.allowed.get(name, ()))
            for name, value in event.items()
            if value is not None
        )
