"""Two tiers: the broker where an event enters finds the brokers that want it; each of those finds which of its clients do.

Source: Banavar et al. 1999, section 6, "Two-tier Routing", which it leaves as an alternative. The group of brokers travels with
the event as a list of their names, since one multicast group for each set of brokers would be 2^B groups. The first tier is
link matching with a link for each broker of the network: the search ends when every broker is a Yes or a No.
Rule: an event is matched at the broker where it enters and at those of its group, and by nobody on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from contentcast.matching.search_tree.links import Annotation, words_of
from contentcast.model import EventBatch, Space
from contentcast.routing.audience import Audience
from contentcast.routing.clients import serve
from contentcast.routing.contract import Account, Effect, Input, Published, Received, Sizes
from contentcast.routing.destinations import listed, onward, rows_of
from contentcast.routing.knowledge import Knowledge
from contentcast.routing.publishing import Publishing
from contentcast.routing.setup import Setup
from contentcast.wire import Publish


class TwoTier:
    def __init__(self, broker: str, setup: Setup) -> None:
        self.broker = broker
        self.knowledge = Knowledge(broker, setup)
        self.publishing = Publishing(broker, setup)
        self._tiers: dict[Space, tuple[Audience, Annotation]] = {}

    def handle(self, input: Input, now: float) -> list[Effect]:
        match input:
            case Published(events):
                return [effect for publish in self.publishing.publish(events) for effect in self._publish(publish)]
            case Received(_, Publish() as publish):
                fresh = self.publishing.fresh(publish)
                return [] if fresh is None else self._route(fresh)
            case _:
                return self.knowledge.handle(input, now)

    def _publish(self, publish: Publish) -> list[Effect]:
        """The first tier: which brokers?"""
        events = publish.events
        audience, annotation = self._first_tier(events.space)
        every = words_of(range(len(audience.origins)), len(audience.origins))
        found = annotation.match_links(events, every, look_ahead=True)
        bits = np.unpackbits(found.yes.view(np.uint8), axis=1, bitorder="little")
        rows, brokers = np.nonzero(bits)
        lists = listed(rows, pa.array(audience.origins, pa.string()).take(pa.array(brokers)), len(events))
        grouped = Publish(publish.origin, publish.incarnation, publish.serial, events, lists)
        return [Account(events, found.steps), *self._route(grouped)]

    def _first_tier(self, space: Space) -> tuple[Audience, Annotation]:
        """The tree with a trit for each broker."""
        audience = self.knowledge.audience(space)
        before = self._tiers.get(space)
        if before is not None and before[0] is audience:
            return before
        count = len(audience.origins)
        words = np.array([words_of([at], count) for at in range(count)], np.uint64).reshape(count, max(1, (count + 63) // 64))
        same = before is not None and before[0].origins == audience.origins
        annotation = audience.tree.annotate_words(
            np.arange(len(audience.ids)), words[audience.origin], before=before[1] if before is not None and same else None
        )
        self._tiers[space] = (audience, annotation)
        return audience, annotation

    def _route(self, publish: Publish) -> list[Effect]:
        if publish.destinations is None:
            return []
        exits = self.knowledge.exits()
        values, rows = publish.destinations.flatten(), rows_of(publish.destinations)
        coded = values.dictionary_encode()
        brokers = exits.numbers(coded.dictionary.to_pylist())[coded.indices.to_numpy()]
        here = rows[brokers == exits.topology.number(self.broker)]
        leaving = exits.of(publish.origin, brokers)
        return [*self._serve(publish.events, here), *onward(publish, rows, values, leaving, exits.neighbours, alone=False)]

    def _serve(self, events: EventBatch, rows: Any) -> list[Effect]:
        """The second tier: which clients?"""
        if not len(rows):
            return []
        chosen = events if len(rows) == len(events) else events.take(rows)
        return serve(self.knowledge.clients(events.space), chosen)

    def sizes(self) -> Sizes:
        return self.knowledge.sizes()

    def state(self) -> dict[str, Any]:
        return self.knowledge.state()
