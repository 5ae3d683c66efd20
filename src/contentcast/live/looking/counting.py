"""What each subscription of a broker's clients has accepted; for one that has accepted nothing, the test that keeps it from it.

    7   desk-7   issue = 'IBM' AND price < 120     accepted 3
    8   desk-7   price < 0                         accepted 0    price < 0.0 holds for 0 of the last 200 events

The last events are those that this broker remembers. Where a network brings a broker only what its clients want, they may be
few; `contentcast why SPACE --subscription ID` asks the other brokers too.
Rule: the work is bounded, however many subscriptions there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from contentcast.language import parse_predicate, print_predicate
from contentcast.live.looking.hops import addresses_of
from contentcast.live.looking.judging import never
from contentcast.model import EventBatch

if TYPE_CHECKING:
    from contentcast.live.broker import Broker

MOST_COUNTED: Final = 1_000
"""Subscriptions that stand in `state()`; where there are more, who wants them asks for them."""
MOST_JUDGED: Final = 100
"""Subscriptions without a match that are judged in one answer."""
LAST_EVENTS: Final = 200
"""Events that they are judged by."""


def counted(broker: Broker) -> list[dict[str, Any]]:
    """Every subscription of the clients here, those that are durable behind the others."""
    found = [*_standing(broker), *_durable(broker)]
    silent = [each for each in found if not each["accepted"]][:MOST_JUDGED]
    samples: dict[str, list[dict[str, Any]]] = {}
    for each in silent:
        name = each["space"]
        if name not in samples:
            samples[name] = last_events(broker, name)
        each["never"] = never(parse_predicate(broker.spaces.of(name), each["predicate"]), samples[name])["keeps"]
    return found


def _standing(broker: Broker) -> Iterator[dict[str, Any]]:
    for name, count in broker.deliveries.accepted().items():
        standing = broker.deliveries.standing(name)
        assert standing is not None
        yield {
            "id": standing.id,
            "client": standing.session.name,
            "space": standing.space.name,
            "predicate": standing.text,
            "accepted": count,
        }


def _durable(broker: Broker) -> Iterator[dict[str, Any]]:
    if broker.durable is None:
        return
    home = broker.durable.home
    for id in home.ids():
        known = home.subscription(id)
        assert known is not None
        acknowledged, numbered = home.place(id)
        yield {
            "id": id,
            "client": known.subscriber.removeprefix("/"),
            "space": known.space.name,
            "predicate": print_predicate(known.predicate),
            "accepted": numbered,
            "acknowledged": acknowledged,
            "durable": True,
        }


def last_events(broker: Broker, space: str) -> list[dict[str, Any]]:
    present = broker.spaces.of(space)
    batches: Sequence[EventBatch] = broker.witness.memory.last_events(present, LAST_EVENTS)
    return [event for batch in batches for event in batch.to_dicts()]


def tell_last_events(broker: Broker, asked: Mapping[str, Any]) -> dict[str, Any]:
    """For one who judges a subscription of another broker's client."""
    name = str(asked["space"])
    events = last_events(broker, name) if name in broker.spaces.present else []
    return {"broker": broker.name, "events": events, "addresses": addresses_of(broker)}


def judge(broker: Broker, asked: Mapping[str, Any]) -> dict[str, Any]:
    """One subscription of a client here: what it has accepted, and what keeps it from the events that are given."""
    wanted = int(asked["subscription"])
    told = {"broker": broker.name, "subscription": None, "addresses": addresses_of(broker)}
    for each in [*_standing(broker), *_durable(broker)]:
        if each["id"] == wanted:
            predicate = parse_predicate(broker.spaces.of(each["space"]), each["predicate"])
            known = [event for event in asked.get("events", ()) if set(event) <= set(predicate.space.names)]
            return {**told, **each, "subscription": wanted, **never(predicate, known)}
    return told
