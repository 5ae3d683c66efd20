"""The spaces that were declared anywhere in the network, and how what is of an older version fits the present one.

Topic `spaces`: each broker tells all spaces declared at it. The present version of a space is what all brokers declared under
its name, joined in the order of their names. Attributes can be added while the network runs; an event of an older version lacks
them. A declaration that gives an attribute another kind is refused where it is made; if two brokers made such declarations at
the same time, the broker with the smaller name counts, and `state` names the other one.
Rule: all brokers that have heard the same declarations have the same spaces, attribute by attribute.
"""

from __future__ import annotations

from typing import Any

from contentcast.model import EventBatch, Space
from contentcast.model.errors import SpaceError
from contentcast.routing.contract import Declared, Effect, Input
from contentcast.routing.parts.versions import Versions
from contentcast.wire import DeclaredSpaces, Mark


class SpaceRegister:
    topic = DeclaredSpaces.topic

    def __init__(self, broker: str, versions: Versions) -> None:
        self.broker = broker
        self._versions = versions
        self._declared: dict[str, dict[str, Space]] = {}
        """Broker -> name -> what was declared there."""
        self._present: dict[str, Space] = {}
        self._refused: dict[str, str] = {}
        versions.take(self)

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Declared(space):
                return self._declare(space)
        return []

    def _declare(self, space: Space) -> list[Effect]:
        """Raises a `SpaceError` when an attribute has another kind already."""
        present = self._present.get(space.name)
        joined = space if present is None else present.joined(space)
        if joined is present:
            return []
        mine = self._declared.setdefault(self.broker, {})
        before = mine.get(space.name)
        mine[space.name] = space if before is None else before.joined(space)
        self._versions.next(self.topic)
        self._join()
        return self._versions.tell(self.tell(self.broker, self._versions.mark(self.broker), 0))

    def _join(self) -> None:
        present: dict[str, Space] = {}
        self._refused = {}
        for origin in sorted(self._declared):
            for name, space in self._declared[origin].items():
                try:
                    present[name] = present[name].joined(space) if name in present else space
                except SpaceError as reason:
                    self._refused[f"{name} at {origin}"] = str(reason)
        # A space that did not change stays the same object: what was built for it is found by identity.
        self._present = {
            name: before if (before := self._present.get(name)) == each else each for name, each in present.items()
        }

    # --- the topic

    def hear(self, told: DeclaredSpaces) -> None:
        self._declared[told.origin] = {each.name: each for each in told.spaces}
        self._join()

    def forget(self, origin: str) -> None:
        """What a broker declared in an earlier life stays: others may use the space, and it is joined with what comes."""

    def tell(self, origin: str, mark: Mark, since: int) -> DeclaredSpaces:
        return DeclaredSpaces(origin, mark.incarnation, mark.of(self.topic), tuple(self._declared.get(origin, {}).values()))

    # --- what follows from it

    def present(self, space: Space) -> Space:
        """The present version of this space. One that nobody declared is taken as it comes."""
        known = self._present.get(space.name)
        if known is None or known is space:
            return space
        if known == space or known.extends(space):
            return known
        return known.joined(space)

    def fit(self, events: EventBatch) -> EventBatch:
        return events.widened(self.present(events.space)) if self._present else events

    def named(self) -> dict[str, Space]:
        return dict(sorted(self._present.items()))

    def sizes(self) -> dict[str, int]:
        return {}

    def state(self) -> dict[str, Any]:
        refused = {"refused spaces": dict(sorted(self._refused.items()))} if self._refused else {}
        return {"spaces": {name: space.to_dict()["attributes"] for name, space in self.named().items()}, **refused}
