"""Two tiers: the broker where an event enters finds the brokers that want it; each of those finds which of its clients do.

Source: Banavar et al. 1999, section 6, "Two-tier Routing", which it leaves as an alternative. The group of brokers travels with
the event as a list of their names, since one multicast group for each set of brokers would be 2^B groups. The first tier is
link matching with a link for each broker of the network: by the search tree, whose search ends when every broker is a Yes or a
No, or by the index where steps are not counted.
Rule: an event is matched at the broker where it enters and at those of its group, and by nobody on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.search_tree.links import Annotation, words_of
from contentcast.model import EventBatch, Space
from contentcast.routing.audience import Audience, TreeAudience
from contentcast.routing.audience.pairs import Words, bits_of_events, words_of_events
from contentcast.routing.audience.serving import deliveries
from contentcast.routing.contract import Account, Effect
from contentcast.routing.destinations import Exits, onward, rows_of
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Publish

Ints = npt.NDArray[np.int64]


class Wanted(NamedTuple):
    """Event `events[i]` is wanted at the origin with the number `origins[i]`."""

    events: Ints
    origins: Ints
    served: list[Effect] | None
    """What the clients here get. The index finds them among all others; None: not looked for, as by the tree."""
    steps: Ints | None


@dataclass(slots=True)
class FirstTier:
    """`words[r]` has the bit of the broker whose client asks for row r; `every` has the bits of all brokers."""

    audience: Audience
    words: Words
    every: Words
    names: pa.Array
    here: Ints
    """For each row the number of its subscriber if that is a client of this broker, else -1."""
    annotation: Annotation | None
    """None: by the index."""

    @classmethod
    def of(cls, audience: Audience, broker: str, before: FirstTier | None, by_tree: bool) -> FirstTier:
        count = len(audience.origins)
        here = audience.origins.index(broker) if broker in audience.origins else -1
        clients = np.where(audience.origin == here, audience.who, -1)
        bits = np.array([words_of([at], count) for at in range(count)], np.uint64).reshape(count, max(1, (count + 63) // 64))
        words = bits[audience.origin]
        words[~audience.living] = 0
        annotation = None
        if by_tree:
            same = before is not None and before.audience.origins == audience.origins
            reused = before.annotation if before is not None and same else None
            tree = cast(TreeAudience, audience).tree
            annotation = tree.annotate_words(np.arange(len(audience.ids)), words, before=reused)
        names = pa.array(audience.origins, pa.string())
        return cls(audience, words, words_of(range(count), count), names, clients, annotation)

    def brokers(self, events: EventBatch) -> Wanted:
        if self.annotation is None:
            found = self.audience.match(events)
            served = deliveries(events, found, self.audience, self.here)
            return Wanted(*bits_of_events(words_of_events(found, self.words)), served, None)
        searched = self.annotation.match_links(events, self.every, look_ahead=True)
        return Wanted(*bits_of_events(searched.yes), None, searched.steps)


class TwoTier(Skeleton):
    def __init__(self, broker: str, setup: Setup) -> None:
        super().__init__(broker, setup, with_interest=True)
        self._tiers: dict[Space, FirstTier] = {}

    def first_tier(self, space: Space) -> FirstTier:
        """Everybody's subscriptions with a bit for each broker, as of now."""
        audience = self.interest.audience(space)
        found = self._tiers.get(space)
        if found is None or found.audience is not audience:
            found = self._tiers[space] = FirstTier.of(audience, self.broker, found, self.setup.count_steps)
        return found

    def publish(self, publish: Publish) -> list[Effect]:
        """The first tier: which brokers?"""
        tier = self.first_tier(publish.events.space)
        rows, origins, served, steps = tier.brokers(publish.events)
        exits = self.view.exits()
        numbers = exits.numbers_of_origins(tier.audience.origins)[origins]
        if served is None:
            served = self._serve(publish.events, rows[numbers == exits.here])
        sent = self._pass_on(publish, exits, rows, numbers, lambda at: tier.names.take(pa.array(origins[at])))
        counted: list[Effect] = [] if steps is None else [Account(publish.events, steps)]
        return [*counted, *served, *sent]

    def route(self, publish: Publish) -> list[Effect]:
        lists = publish.header.brokers
        if lists is None:
            return []
        exits, values = self.view.exits(), lists.flatten()
        coded = values.dictionary_encode()
        numbers = exits.numbers(coded.dictionary.to_pylist())[coded.indices.to_numpy()]
        rows = rows_of(lists)
        served = self._serve(publish.events, rows[numbers == exits.here])
        return served + self._pass_on(publish, exits, rows, numbers, lambda at: values.take(pa.array(at)))

    def _pass_on(
        self, publish: Publish, exits: Exits, rows: Ints, brokers: Ints, names: Callable[[Ints], pa.Array]
    ) -> list[Effect]:
        """Event rows[i] is for the broker with the number brokers[i]; `names` gives the names of some of these."""
        return onward(publish, "brokers", rows, names, exits.of(publish.origin, brokers), exits.neighbours)

    def _serve(self, events: EventBatch, rows: Ints) -> list[Effect]:
        """The second tier: which clients?"""
        if not len(rows):
            return []
        return self.local.serve(events if len(rows) == len(events) else events.take(rows))
