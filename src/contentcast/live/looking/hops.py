"""What a broker would do with an event, without doing it: one hop of `contentcast why` and of `publish --dry-run`.

The router is asked by the same functions that route, which change nothing but what a hybrid learns. Whoever asks goes on with
the messages that it is given to the brokers that would get them, so that every hop is judged by the broker itself.
Rule: nothing is delivered, sent or counted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from contentcast.language import parse_predicate, print_predicate, print_tree
from contentcast.model import ContentcastError, EventBatch, Predicate
from contentcast.model.predicates.spelling import spell_constraint
from contentcast.routing.contract import Deliver, Send, SendTo
from contentcast.routing.durable import Durable
from contentcast.routing.skeleton import Skeleton
from contentcast.wire import Publish, decode, encode

if TYPE_CHECKING:
    from contentcast.live.broker import Broker


def hop(broker: Broker, asked: Mapping[str, Any]) -> dict[str, Any]:
    """`event` and `space`: it would enter here. `message`: it would come from another broker."""
    durable = broker.durable
    router = broker.router if durable is None else durable.router
    gets: list[dict[str, Any]] = []
    if not isinstance(router, Skeleton):
        raise ContentcastError(f"brokers with {broker.config.protocol} cannot say what they would do with an event")
    if "message" in asked:
        message = decode(asked["message"], broker.spaces.versions)
        if not isinstance(message, Publish):
            raise ContentcastError(
                f"{broker.config.protocol} sends events in {type(message).__name__}, which cannot be followed"
            )
        effects = router.route(message)
    else:
        events = EventBatch.from_dicts(broker.spaces.of(str(asked["space"])), [asked["event"]], ids=[-1])
        events = router.spaces.fit(events)
        effects = router.publish(Publish(broker.name, broker.incarnation, 0, events))
        if durable is not None:  # goes to its home directly
            for wanted in durable.origin.wanted(events):
                gets += [_kept_for(durable, wanted.home, each) for each in wanted.ids.tolist()]
    onward: dict[str, bytes] = {}
    for effect in effects:
        match effect:
            case Deliver():
                gets += [_receiver(broker, effect.subscribers[int(who)]) for who in effect.who]
            case Send(link, message) | SendTo(link, message):
                onward[link] = encode(message)
    return {
        "broker": broker.name,
        "gets": gets,
        "onward": onward,
        "links": sorted(broker.neighbours.links),
        "addresses": _addresses(broker),
    }


def _addresses(broker: Broker) -> dict[str, list[str]]:
    return {name: list(addresses) for name, (_, addresses) in broker.neighbours.addresses.items()}


def _kept_for(durable: Durable, home: str, id: int) -> dict[str, Any]:
    interest = durable.interests.known.get(home)
    names = [each.subscriber for batch in interest.subscriptions for each in batch if each.id == id] if interest else []
    return {"client": names[0].removeprefix("/") if names else "", "subscription": id, "broker": home, "durable": True}


def _receiver(broker: Broker, name: str) -> dict[str, Any]:
    standing = broker.deliveries.standing(name)
    if standing is None:
        return {"client": name, "subscription": 0}
    return {"client": standing.session.name, "subscription": standing.id}


def explain(broker: Broker, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a subscription of one of this broker's clients says to an event, test by test, and what waits for its client."""
    wanted = int(asked["subscription"])
    for session in broker.serving.sessions.values():
        for standing in session.subscriptions.values():
            if standing.id != wanted:
                continue
            space = broker.spaces.of(standing.space.name)
            if str(asked["space"]) != space.name:
                raise ContentcastError(f"subscription {wanted} is of the space {space.name}, and the event of {asked['space']}")
            return {
                **_judged(parse_predicate(space, standing.text), asked["event"]),
                "subscription": wanted,
                "broker": broker.name,
                "client": session.name,
                "narrowed": standing.narrowed,
                "queued_bytes": session.connection.queued,
                "paused": session.paused,
                "missed": session.missed,
                "addresses": _addresses(broker),
            }
    return {"broker": broker.name, "subscription": None, "addresses": _addresses(broker)}


def _judged(predicate: Predicate, event: Mapping[str, Any]) -> dict[str, Any]:
    """Without an index: for one event and one predicate, compiling or loading a kernel would take longer than anything else."""
    (checked,) = EventBatch.from_dicts(predicate.space, [event]).to_dicts()
    matched = predicate.accepts(checked)
    failed = [
        {"test": print_tree(spell_constraint(name, constraint)), "value": checked.get(name)}
        for conjunction in predicate.conjunctions
        for name, constraint in conjunction.items
        if not constraint.accepts(checked.get(name))
    ]
    return {"matched": matched, "predicate": print_predicate(predicate), "failed": [] if matched else failed}
