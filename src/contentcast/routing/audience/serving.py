"""The last step of every protocol but one: an event is at a broker; which of its clients get it?

Rule: one delivery for each (event, client), however many of the client's subscriptions the event satisfies.
"""

from __future__ import annotations

from contentcast.model import EventBatch
from contentcast.routing.audience.members import Audience, Found, Ints
from contentcast.routing.audience.pairs import first_of_each
from contentcast.routing.contract import Account, Deliver, Effect


def serve(clients: Audience, events: EventBatch) -> list[Effect]:
    """Matches the events against what the clients of one broker want."""
    if not len(clients) or not len(events):
        return []
    found = clients.match(events)
    effects: list[Effect] = [] if found.steps is None else [Account(events, found.steps)]
    return effects + deliveries(events, found, clients.who, clients.subscribers[0])


def deliveries(events: EventBatch, found: Found, who: Ints, names: list[str]) -> list[Effect]:
    """Hands each event to whom its rows belong: row r to names[who[r]], or to nobody here if that is -1."""
    rows, places = first_of_each(found, who, len(names))
    return [Deliver(events, rows, who[found.rows[places]], names)] if len(rows) else []
