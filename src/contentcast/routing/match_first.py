"""Match first: the broker where an event enters finds all who want it, and the event travels with the list of them.

Source: Banavar et al. 1999, section 1, the first of the straightforward approaches, in both its forms: the list in the event's
header, split at every broker on the way, or (`unicast`) a copy of its own for every destination. A destination is named by the
id of one of its subscriptions that the event satisfies (8 bytes), which every broker can look up.
Rule: only the broker where an event enters matches it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.routing.audience import Audience
from contentcast.routing.audience.pairs import first_of_each
from contentcast.routing.contract import Account, Deliver, Effect
from contentcast.routing.destinations import onward, rows_of
from contentcast.routing.setup import Setup
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Publish

Ints = npt.NDArray[np.int64]


class MatchFirst(Skeleton):
    def __init__(self, broker: str, setup: Setup, *, unicast: bool = False) -> None:
        super().__init__(broker, setup, with_interest=True)
        self.unicast = unicast

    def publish(self, publish: Publish) -> list[Effect]:
        """Matches; every subscriber gets each event once."""
        audience = self.interest.audience(publish.events.space)
        found = audience.match(publish.events)
        rows, places = first_of_each(found, audience.who, audience.last)
        members = found.rows[places]
        brokers = self.view.exits().numbers_of_origins(audience.origins)[audience.origin[members]]
        effects = self._pass_on(publish, audience, rows, members, brokers, audience.ids[members])
        return effects if found.steps is None else [Account(publish.events, found.steps), *effects]

    def route(self, publish: Publish) -> list[Effect]:
        lists = publish.header.subscriptions
        if lists is None:
            return []
        audience = self.interest.audience(publish.events.space)
        ids = lists.flatten().to_numpy()
        members = audience.rows_of_ids(ids)
        brokers = np.full(len(members), -1, np.int64)
        known = np.flatnonzero(members >= 0)
        brokers[known] = self.view.exits().numbers_of_origins(audience.origins)[audience.origin[members[known]]]
        return self._pass_on(publish, audience, rows_of(lists), members, brokers, ids)

    def _pass_on(
        self, publish: Publish, audience: Audience, rows: Ints, members: Ints, brokers: Ints, ids: Ints
    ) -> list[Effect]:
        """Event rows[i] is for who asked for ids[i]: row members[i] of the audience, at the broker of this number; -1 if nobody
        knows them.
        """
        exits = self.view.exits()
        effects: list[Effect] = []
        here = np.flatnonzero(brokers == exits.here)
        if len(here):
            names, subscriber = audience.subscribers
            effects.append(Deliver(publish.events, rows[here], subscriber[members[here]], names))
        leaving = exits.of(publish.origin, brokers)
        sends = onward(
            publish, "subscriptions", rows, lambda at: pa.array(ids[at]), leaving, exits.neighbours, alone=self.unicast
        )
        return effects + sends
