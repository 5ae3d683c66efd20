"""What the network wants of a space, for a gateway that must know what to bring: the most general predicates.

    ask("wanted", space="trades", but="gateway office ")      {"predicates": ["price < 120", "issue = 'SAP'"]}

A broker whose protocol tells it everybody's subscriptions (link matching and its relatives) answers from them; a durable broker
knows everybody's durable subscriptions besides. Others know only part of it, and where very many subscribe the answer would be
long and take long: then the answer is everything.
Rule: whatever somebody in the network wants, and the gateway may publish, is covered by the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from contentcast.language import print_predicate
from contentcast.live.serving.sessions import Session
from contentcast.live.settings.access import AccessError, publishable
from contentcast.matching.covering import most_general
from contentcast.model import Predicate, Space, SubscriptionBatch
from contentcast.routing.parts.interest import Interests

if TYPE_CHECKING:
    from contentcast.live.broker import Broker

MOST_COMPARED: Final = 2_000
"""Subscriptions of a space; finding the general ones among so many takes some ten milliseconds."""
MOST_TOLD: Final = 256


def wanted(broker: Broker, session: Session, asked: dict[str, Any]) -> dict[str, Any]:
    """`but`: subscribers whose names begin so are left out; gateways of one LAN do not count each other's wants."""
    rights = broker.serving.access.of(session.identity)
    if not rights.gateway:
        raise AccessError(f"{session.identity or 'who shows no identity'} may not ask what is wanted; see the right gateway")
    space = broker.spaces.of(str(asked.get("space", "")))
    allowed = publishable(rights, session.identity, space)
    durable = broker.durable
    interest = getattr(broker.router if durable is None else durable.router, "interest", None)
    if not isinstance(interest, Interests):
        return {"predicates": _texts([allowed])}
    kept = () if durable is None else durable.origin.all_interests()
    found = general(chain(interest.everything(), kept), space, str(asked.get("but", "")))
    return {"predicates": _texts([allowed] if found is None else [each.intersect(allowed) for each in found])}


def general(batches: Iterable[SubscriptionBatch], space: Space, but: str = "") -> list[Predicate] | None:
    """The most general of these, as predicates of the space; None if they are too many to tell."""
    tables = []
    count = 0
    for batch in batches:
        if batch.space.name != space.name:
            continue
        if but:
            kept = [at for at, name in enumerate(batch.subscribers) if not name.startswith(but)]
            batch = batch.take(np.array(kept, np.int64)) if len(kept) < len(batch) else batch
        count += len(batch)
        if count > MOST_COMPARED:
            return None
        if len(batch):
            tables.append(batch.table.widened(space))
    found = most_general(tables)
    return found if len(found) <= MOST_TOLD else None


def _texts(predicates: list[Predicate]) -> list[str]:
    return [print_predicate(each) for each in predicates if not each.is_nothing]
