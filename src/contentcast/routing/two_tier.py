"""Two tiers: the broker where an event enters finds the brokers that want it; each of those finds which of its clients do.

Source: Banavar et al. 1999, section 6, "Two-tier Routing", which it leaves as an alternative. The group of brokers travels with
the event as a list of their names, since one multicast group for each set of brokers would be 2^B groups. The first tier is
link matching with a link for each broker of the network: the search ends when every broker is a Yes or a No.
Rule: an event is matched at the broker where it enters and at those of its group, and by nobody on the way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.search_tree.links import Annotation, words_of
from contentcast.model import EventBatch, Space
from contentcast.routing.audience import Audience
from contentcast.routing.contract import Account, Effect
from contentcast.routing.destinations import listed, onward, rows_of
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Header, Publish


class TwoTier(Skeleton):
    def __init__(self, broker: str, setup: Setup) -> None:
        super().__init__(broker, setup, with_interest=True)
        self._tiers: dict[Space, tuple[Audience, Annotation]] = {}

    def publish(self, publish: Publish) -> list[Effect]:
        """The first tier: which brokers?"""
        events = publish.events
        audience, annotation = self._first_tier(events.space)
        every = words_of(range(len(audience.origins)), len(audience.origins))
        found = annotation.match_links(events, every, look_ahead=True)
        bits = np.unpackbits(found.yes.view(np.uint8), axis=1, bitorder="little")
        rows, brokers = np.nonzero(bits)
        lists = listed(rows, pa.array(audience.origins, pa.string()).take(pa.array(brokers)), len(events))
        return [Account(events, found.steps), *self.route(publish.with_header(Header(brokers=lists)))]

    def _first_tier(self, space: Space) -> tuple[Audience, Annotation]:
        """The tree with a trit for each broker."""
        audience = self.interest.audience(space)
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

    def route(self, publish: Publish) -> list[Effect]:
        lists = publish.header.brokers
        if lists is None:
            return []
        exits = self.view.exits()
        values, rows = lists.flatten(), rows_of(lists)
        coded = values.dictionary_encode()
        brokers = exits.numbers(coded.dictionary.to_pylist())[coded.indices.to_numpy()]
        here = rows[brokers == exits.topology.number(self.broker)]
        leaving = exits.of(publish.origin, brokers)
        return [*self._serve(publish.events, here), *onward(publish, "brokers", rows, values, leaving, exits.neighbours)]

    def _serve(self, events: EventBatch, rows: npt.NDArray[np.int64]) -> list[Effect]:
        """The second tier: which clients?"""
        if not len(rows):
            return []
        return self.local.serve(events if len(rows) == len(events) else events.take(rows))
