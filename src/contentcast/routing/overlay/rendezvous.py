"""A rendezvous node: whose clients want the events that come to its keys, of all whose subscriptions are held here.

Source: Baldoni et al. 2005, section 4.3.2: collected notifications go to the agent in the middle of a subscription's range.

    c holds 7 on keys 20..40, this node covers 18..25     an event that 7 matches -> (c, 7, the event), agent at key 30

Rule: a broker is named once for a batch of events, whatever number of its subscriptions match.
"""

from __future__ import annotations

import numpy as np

from contentcast.model import EventBatch
from contentcast.routing.chord.mcast import Targets
from contentcast.routing.chord.node import ChordNode
from contentcast.routing.contract import Account, Effect
from contentcast.routing.overlay.store import Store
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.wire import Publish


class Rendezvous:
    def __init__(self, spaces: SpaceRegister, store: Store, chord: ChordNode) -> None:
        self.spaces, self.store, self.chord = spaces, store, chord

    def match(self, publish: Publish) -> tuple[list[Effect], list[tuple[str, int, Publish]]]:
        """What matching cost, and each broker with one of its subscriptions that match and the events that its clients want."""
        events: EventBatch = self.spaces.fit(publish.events)
        audience = self.store.audience(events.space)
        if events.space != audience.space:
            events = events.widened(audience.space)
        if not len(audience) or not len(events):
            return [], []
        found = audience.match_living(events)
        effects: list[Effect] = [] if found.steps is None else [Account(events, found.steps)]
        rows, origins = found.events, audience.origin[found.rows]
        wanted = []
        for origin in np.unique(origins).tolist():
            mine = origins == origin
            number = int(audience.ids[found.rows[mine][0]])
            wanted.append((audience.origins[origin], number, publish.take(np.unique(rows[mine]))))
        return effects, wanted

    def middle(self, broker: str, number: int) -> int:
        """The key in the middle of the subscription's range that touches this node's arc."""
        lows, highs = self.store.ranges_of(broker, number)
        if not len(lows):
            return self.chord.me.key
        mine = Targets(lows, highs, np.arange(len(lows))).on(self.chord.member.arc, self.chord.bits)
        at = int(mine.rows[0]) if len(mine) else 0
        return int(lows[at]) + (int(highs[at]) - int(lows[at])) // 2
