"""Match first: the broker where an event enters finds all who want it, and the event travels with the list of them.

Source: Banavar et al. 1999, section 1, the first of the straightforward approaches, in both its forms: the list in the event's
header, split at every broker on the way, or (`unicast`) a copy of its own for every destination. A destination is named by the
id of one of its subscriptions that the event satisfies (8 bytes), which every broker can look up.
Rule: only the broker where an event enters matches it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.routing.contract import Account, Deliver, Effect, Input, Published, Received, Sizes
from contentcast.routing.destinations import listed, onward, rows_of
from contentcast.routing.knowledge import Knowledge
from contentcast.routing.publishing import Publishing
from contentcast.routing.setup import Setup
from contentcast.wire import Publish

Ints = npt.NDArray[np.int64]


class MatchFirst:
    def __init__(self, broker: str, setup: Setup, *, unicast: bool = False) -> None:
        self.broker = broker
        self.unicast = unicast
        self.knowledge = Knowledge(broker, setup)
        self.publishing = Publishing(broker, setup)

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
        """Matches, and writes each event's list: every subscriber once."""
        events = publish.events
        audience = self.knowledge.audience(events.space)
        found = audience.tree.match_batch(events)
        names, who = audience.subscribers
        rows = np.repeat(np.arange(len(events)), np.diff(found.offsets))
        _, first = np.unique(rows * max(1, len(names)) + who[found.ids], return_index=True)
        first.sort()
        lists = listed(rows[first], pa.array(audience.ids[found.ids[first]]), len(events))
        addressed = Publish(publish.origin, publish.incarnation, publish.serial, events, lists)
        return [Account(events, found.steps), *self._route(addressed)]

    def _route(self, publish: Publish) -> list[Effect]:
        if publish.destinations is None:
            return []
        audience = self.knowledge.audience(publish.events.space)
        lists = publish.destinations
        values, rows = lists.flatten(), rows_of(lists)
        who = audience.rows_of_ids(values.to_numpy())
        exits = self.knowledge.exits()
        brokers = np.append(exits.numbers(audience.origins), -1)[np.append(audience.origin, -1)[who]]
        effects: list[Effect] = []
        here = np.flatnonzero(brokers == exits.topology.number(self.broker))
        if len(here):
            names, subscriber = audience.subscribers
            effects.append(Deliver(publish.events, rows[here], subscriber[who[here]], names))
        leaving = exits.of(publish.origin, brokers)
        return [*effects, *onward(publish, rows, values, leaving, exits.neighbours, alone=self.unicast)]

    def sizes(self) -> Sizes:
        return self.knowledge.sizes()

    def state(self) -> dict[str, Any]:
        return self.knowledge.state()
