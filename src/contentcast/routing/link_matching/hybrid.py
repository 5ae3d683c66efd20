"""The hybrid of link matching and flooding: where nearly every event is wanted behind a link, stop looking and send.

Source: Banavar et al. 1999, section 6, future work. One event in WATCHED_SHARE is searched to the end and counted, node by node
(`matching.search_tree.guesses`); from time to time what was learnt is put into the trits. What a history says (`Setup.wanted`)
stands in for the first events, and so no event has to be watched before the first guess. The threshold is between flooding
(0: send wherever anybody might want it) and link matching (above 1: never guess).
Rule: an event may be sent where nobody wants it, and is never missed; what clients get is always exact.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.search_tree.guesses import Guesses
from contentcast.model import EventBatch, Space
from contentcast.routing.link_matching.annotated import Annotated
from contentcast.routing.link_matching.masks import VirtualLinks
from contentcast.routing.link_matching.router import LinkMatching
from contentcast.routing.link_matching.starts import Ways
from contentcast.routing.setup import Setup
from contentcast.wire import Publish

Ints = npt.NDArray[np.int64]

WATCHED_SHARE: Final = 16
FIRST_WATCHED: Final = 64
"""The first events of a new annotation are all watched."""


class Hybrid(LinkMatching):
    """`threshold`: a Maybe that became a Yes at least so often is taken for one."""

    def __init__(self, broker: str, setup: Setup, *, threshold: float = 0.9, client_links: bool = False) -> None:
        super().__init__(broker, setup, client_links=client_links, by_tree=True)
        self.threshold = threshold
        self._wanted = setup.wanted
        self._guesses: dict[Space, Guesses] = {}
        self._plain: dict[Space, Annotated] = {}
        self._renewed_at = 0

    def ways(self, annotated: Annotated, publish: Publish) -> Ways:
        space, events = publish.events.space, publish.events
        start = annotated.start(publish.origin)
        if start is None or not start.neighbours:
            return annotated.ways(events, publish.origin)  # an end of the tree: there is nothing to guess
        guesses = self._guesses.get(space)
        if guesses is None or self._plain.get(space) is not annotated:
            known, guesses = guesses, Guesses(annotated.annotation, annotated.links.count, guesses)
            if known is None and self._wanted:
                guesses.expect(self._chances(annotated.links))
            self._guesses[space], self._plain[space] = guesses, annotated
            annotated.chosen = guesses.taken(self.threshold)
            self._renewed_at = 0
        extra = np.zeros(len(events), np.int64)
        watched = self._to_watch(events, guesses.watched)
        if len(watched):
            extra[watched] = guesses.watch(events if len(watched) == len(events) else events.take(watched))
            if guesses.watched >= 2 * self._renewed_at:  # ever more rarely, as less and less changes
                annotated.chosen = guesses.taken(self.threshold)
                self._renewed_at = max(FIRST_WATCHED // 4, guesses.watched)
        ways = annotated.ways(events, publish.origin)
        ways.steps += extra
        return ways

    def _chances(self, links: VirtualLinks) -> npt.NDArray[np.float64]:
        """For each virtual link: as likely as at the broker behind it where it is likeliest, for it is at least that."""
        found = np.zeros(links.count)
        for broker, link in zip(links.topology.brokers, links.of.tolist(), strict=True):
            if link >= 0:
                found[link] = max(found[link], self._wanted.get(broker, 0.0))
        return found

    def _to_watch(self, events: EventBatch, watched: int) -> Ints:
        """The rows to learn from: all at first, then one in WATCHED_SHARE.

        Chosen by a hash of the event's id: every sixteenth would see nothing but one kind of a stream that repeats itself.
        """
        if watched < FIRST_WATCHED:
            return np.arange(min(len(events), FIRST_WATCHED - watched))
        mixed = np.asarray(events.ids).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return np.flatnonzero((mixed >> np.uint64(40)) % np.uint64(WATCHED_SHARE) == 0)
