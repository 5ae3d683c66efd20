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
    return effects + deliveries(events, found, clients, clients.who)


def deliveries(events: EventBatch, found: Found, audience: Audience, who: Ints) -> list[Effect]:
    """Hands each event to whom its rows belong: row r to subscriber who[r] of the audience, or to nobody here if that is -1."""
    rows, places = first_of_each(found, who, audience.last)
    return [Deliver(events, rows, who[found.rows[places]], audience.subscribers[0])] if len(rows) else []
