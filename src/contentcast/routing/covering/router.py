"""Covering, as in SIENA: a subscription travels the tree of its broker and stops where one that covers it has passed.

Source: Triantafillou & Economides 2004, sections 2.2 and 5.2.1, on Siena (Carzaniga et al. 2000); the relations are those that
Eide et al. 2003, section 2.5 give. Events follow the way back. When a subscription ends, what it held back is passed on.
Departs from it in three points. In a network with cycles a subscription holds back only what its own tree can answer for
(`branches`); the trees follow the network as it changes; and events that nobody advertised reach everybody all the same
(`publishers`).
Rule: an event crosses a link at most once, and only towards a broker that has a subscription for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from contentcast.matching.search_tree.links import Annotation, words_of
from contentcast.model import EventBatch, Space
from contentcast.network.topology import Topology
from contentcast.routing.audience import Audience, TreeAudience
from contentcast.routing.audience.pairs import Words, words_of_events
from contentcast.routing.contract import Account, Effect, Input, Received, Send
from contentcast.routing.covering.passing import Passing
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Publish
from contentcast.wire.covering import Everywhere

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Directions:
    """What others want of a space, with a bit for each origin, in one network."""

    audience: Audience
    topology: Topology
    words: Words
    """Row -> the bit of its origin."""
    annotation: Annotation | None
    """None: matched by the index."""
    numbers: Ints
    """Origin -> its number in the network; -1: it is not there."""

    def wanted(self, events: EventBatch, open_origins: list[int]) -> tuple[npt.NDArray[np.bool_], Ints | None]:
        """[event, origin]: does one of these origins want it? And the steps, if they are counted."""
        count = len(self.numbers)
        if self.annotation is None:
            yes, steps = words_of_events(self.audience.match(events), self.words), None
        else:
            found = self.annotation.match_links(events, words_of(open_origins, count), look_ahead=True)
            yes, steps = found.yes, found.steps
        return np.unpackbits(yes.view(np.uint8), axis=1, bitorder="little")[:, :count].astype(bool), steps


class Covering(Skeleton):
    def __init__(self, broker: str, setup: Setup) -> None:
        super().__init__(broker, setup, with_advertisements=True)
        self.passing = Passing(broker, setup, self.versions, self.view, self.spaces, self.local, self.advertising)
        self.parts[self.parts.index(self.local)] = self.passing
        self._directions: dict[Space, Directions] = {}

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Received(_, Everywhere(Publish() as publish)):
                fresh = self.publishing.fresh(publish)
                return [] if fresh is None else self._everywhere(self._fitted(fresh))
        return super().handle(input, now)

    def publish(self, publish: Publish) -> list[Effect]:
        """What was not advertised, in a space where somebody advertises, has no way laid out: it goes to every broker."""
        publishers = self.passing.publishers(publish.events.space)
        if not publishers:
            return self.route(publish)
        advertised = publishers.advertised(self.broker, publish.events)
        if advertised.all():
            return self.route(publish)
        effects = self._everywhere(publish.take(np.flatnonzero(~advertised)))
        return [*self.route(publish.take(np.flatnonzero(advertised))), *effects] if advertised.any() else effects

    def _everywhere(self, publish: Publish) -> list[Effect]:
        onward = self.view.onward(publish.origin)
        return [*self.local.serve(publish.events), *(Send(link, Everywhere(publish)) for link in onward)]

    def route(self, publish: Publish) -> list[Effect]:
        return [*self.local.serve(publish.events), *self._onward(publish)]

    def _onward(self, publish: Publish) -> list[Effect]:
        """Over each link on the way from the publisher to a broker that has asked for some of the events, those events."""
        directions = self._direct(publish.events.space)
        if not len(directions.audience):
            return []
        exits = self.view.exits()
        places = exits.of(publish.origin, directions.numbers)
        open_origins = np.flatnonzero(places >= 0)
        if not len(open_origins):
            return []
        wanted, steps = directions.wanted(publish.events, open_origins.tolist())
        effects: list[Effect] = [] if steps is None else [Account(publish.events, steps)]
        for at, neighbour in enumerate(exits.neighbours):
            rows = np.flatnonzero(wanted[:, places == at].any(axis=1))
            if len(rows):
                effects.append(Send(neighbour, publish if len(rows) == len(publish.events) else publish.take(rows)))
        return effects

    def _direct(self, space: Space) -> Directions:
        audience, topology = self.passing.audience(space), self.view.topology
        before = self._directions.get(space)
        if before is not None and before.audience is audience and before.topology is topology:
            return before
        numbers = self.view.exits().numbers(audience.origins)
        if before is not None and before.audience is audience:
            words, annotation = before.words, before.annotation
        else:
            words, annotation = self._annotate(audience, before)
        found = self._directions[space] = Directions(audience, topology, words, annotation, numbers)
        return found

    def _annotate(self, audience: Audience, before: Directions | None) -> tuple[Words, Annotation | None]:
        count = len(audience.origins)
        bits = np.array([words_of([at], count) for at in range(count)], np.uint64).reshape(count, max(1, (count + 63) // 64))
        words = bits[audience.origin]
        words[~audience.living] = 0
        if not self.setup.count_steps:
            return words, None
        same = before is not None and before.audience.origins == audience.origins
        reused = before.annotation if before is not None and same else None
        tree = cast(TreeAudience, audience).tree
        return words, tree.annotate_words(np.arange(len(audience.ids)), words, before=reused)
