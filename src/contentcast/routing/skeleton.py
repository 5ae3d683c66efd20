"""The conversation that routers of broker networks share: events enter or come, everything else goes to the parts.

    Published            numbered, transformed into other spaces, then `publish`
    Received Publish     what was not here before, then `route`
    anything else        to every part in turn

A protocol says what it does with events in `publish` and `route`, and which parts of knowledge it takes:

    always       versions, spaces, view, local
    with_interest    everybody's subscriptions (`interest`), in place of `local` alone
    with_advertisements    everybody's advertisements
    in_trees         everybody's subscriptions in search trees, even where steps are not counted

Rule: a part never calls another part's `handle`; the order of the parts is the order in which they act.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, Protocol, Self

from contentcast.model import EventBatch
from contentcast.routing.contract import Effect, Input, Published, Received, Sizes
from contentcast.routing.parts.advertising import Advertising
from contentcast.routing.parts.interest import Interests
from contentcast.routing.parts.local import Local
from contentcast.routing.parts.network_view import NetworkView
from contentcast.routing.parts.publishing import Publishing
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.routing.parts.versions import Versions
from contentcast.routing.setup import Setup
from contentcast.wire import Publish


class Part(Protocol):
    def handle(self, input: Input, now: float) -> list[Effect]: ...

    def sizes(self) -> Sizes: ...

    def state(self) -> dict[str, Any]: ...


class Skeleton:
    """A router that matches nothing and sends nowhere: protocols fill in `route`, and `publish` if entering is different."""

    def __init__(
        self,
        broker: str,
        setup: Setup,
        *,
        with_interest: bool = False,
        with_advertisements: bool = False,
        in_trees: bool = False,
    ) -> None:
        self.broker = broker
        self.setup = setup
        self.versions = Versions(broker, setup.incarnation)
        self.view = NetworkView(broker, setup, self.versions)
        self.spaces = SpaceRegister(broker, self.versions)
        self.local = Local(broker, self.spaces, setup)
        self.publishing = Publishing(broker, setup)
        self.parts: list[Part] = [self.view, self.versions, self.spaces]
        if with_interest:
            self.interest = Interests(broker, setup, self.versions, self.spaces, self.local, in_trees=in_trees)
            self.parts.append(self.interest)
        else:
            self.parts.append(self.local)
        if with_advertisements:
            self.advertising = Advertising(broker, self.versions, self.local)
            self.parts.append(self.advertising)

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Published(events):
                return _flat(self.publish(each) for each in self.publishing.publish(self.spaces.fit(events)))
            case Received(_, Publish() as publish):
                fresh = self.publishing.fresh(publish)
                return [] if fresh is None else self.route(self._fitted(fresh))
            case _:
                return _flat(part.handle(input, now) for part in self.parts)

    def _fitted(self, publish: Publish) -> Publish:
        events: EventBatch = self.spaces.fit(publish.events)
        if events is publish.events:
            return publish
        return Publish(publish.origin, publish.incarnation, publish.serial, events, publish.header)

    def publish(self, publish: Publish) -> list[Effect]:
        """Events that enter the network here."""
        return self.route(publish)

    def route(self, publish: Publish) -> list[Effect]:
        """Events that have come here, or entered here."""
        return self.local.serve(publish.events)

    def rehearsal(self) -> Self:
        """Says of events what this router would do with them, and remembers nothing of it; it takes nothing but events."""
        made = copy(self)
        made.publishing = Publishing(self.broker, self.setup)
        return made

    def sizes(self) -> Sizes:
        found: dict[str, int] = {}
        for part in self.parts:
            found.update(part.sizes())
        return found

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for part in self.parts:
            found.update(part.state())
        return found


def _flat(effects: Iterable[list[Effect]]) -> list[Effect]:
    return [effect for each in effects for effect in each]
