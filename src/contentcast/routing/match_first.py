"""Match first: the broker where an event enters finds all who want it, and the event travels with the list of them.

Source: Banavar et al. 1999, section 1, the first of the straightforward approaches, in both its forms: the list in the event's
header, split at every broker on the way, or (`unicast`) a copy of its own for every destination. A destination is named by the
id of one of its subscriptions that the event satisfies (8 bytes), which every broker can look up.
Rule: only the broker where an event enters matches it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from contentcast.routing.contract import Account, Deliver, Effect
from contentcast.routing.destinations import listed, onward, rows_of
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Header, Publish


class MatchFirst(Skeleton):
    def __init__(self, broker: str, setup: Setup, *, unicast: bool = False) -> None:
        super().__init__(broker, setup, with_interest=True)
        self.unicast = unicast

    def publish(self, publish: Publish) -> list[Effect]:
        """Matches, and writes each event's list: every subscriber once."""
        events = publish.events
        audience = self.interest.audience(events.space)
        found = audience.tree.match_batch(events)
        names, who = audience.subscribers
        rows = np.repeat(np.arange(len(events)), np.diff(found.offsets))
        _, first = np.unique(rows * max(1, len(names)) + who[found.ids], return_index=True)
        first.sort()
        lists = listed(rows[first], pa.array(audience.ids[found.ids[first]]), len(events))
        return [Account(events, found.steps), *self.route(publish.with_header(Header(subscriptions=lists)))]

    def route(self, publish: Publish) -> list[Effect]:
        lists = publish.header.subscriptions
        if lists is None:
            return []
        audience = self.interest.audience(publish.events.space)
        values, rows = lists.flatten(), rows_of(lists)
        who = audience.rows_of_ids(values.to_numpy())
        exits = self.view.exits()
        brokers = np.append(exits.numbers(audience.origins), -1)[np.append(audience.origin, -1)[who]]
        effects: list[Effect] = []
        here = np.flatnonzero(brokers == exits.topology.number(self.broker))
        if len(here):
            names, subscriber = audience.subscribers
            effects.append(Deliver(publish.events, rows[here], subscriber[who[here]], names))
        leaving = exits.of(publish.origin, brokers)
        sends = onward(publish, "subscriptions", rows, values, leaving, exits.neighbours, alone=self.unicast)
        return [*effects, *sends]
