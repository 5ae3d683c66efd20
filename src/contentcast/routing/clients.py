"""The last step of every protocol but one: an event is at a broker; which of its clients get it?

Rule: one delivery for each (event, client), however many of the client's subscriptions the event satisfies.
"""

from __future__ import annotations

import numpy as np

from contentcast.model import EventBatch
from contentcast.routing.audience import Audience
from contentcast.routing.contract import Account, Deliver, Effect


def serve(clients: Audience, events: EventBatch) -> list[Effect]:
    """Matches the events against what the clients of one broker want."""
    if not len(clients) or not len(events):
        return []
    found = clients.tree.match_batch(events)
    effects: list[Effect] = [Account(events, found.steps)]
    if len(found.ids):
        names, who = clients.subscribers
        rows = np.repeat(np.arange(len(events)), np.diff(found.offsets))
        # Sorted and freed of repetitions by hand: np.unique hashes integers first, which took three times as long.
        pairs = np.sort(rows * len(names) + who[found.ids])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        effects.append(Deliver(events, pairs // len(names), pairs % len(names), names))
    return effects
