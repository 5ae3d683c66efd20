"""What a broker would do with an event, without doing it: one hop of `contentcast why` and of `publish --dry-run`.

A rehearsal of the router is asked, which decides as the router does and remembers nothing (a hybrid learns from it all the
same). Whoever asks goes on with the messages that it is given to the brokers that would get them, so that every hop is judged
by the broker itself. `past` tells what did become of an event, as far as this broker remembers.
Rule: nothing is delivered, sent or counted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from contentcast.language import parse_predicate
from contentcast.live.looking.judging import judged
from contentcast.live.looking.memory import events_of
from contentcast.model import ContentcastError, EventBatch
from contentcast.routing.contract import DIRECT, LINK, Deliver, Published, Received, Send, SendTo
from contentcast.routing.durable import Durable
from contentcast.wire import WireError, decode, encode

if TYPE_CHECKING:
    from contentcast.live.broker import Broker


def hop(broker: Broker, asked: Mapping[str, Any]) -> dict[str, Any]:
    """`event` and `space`: it would enter here. `message` and `sender`: it would come from another broker."""
    durable = broker.durable
    router = broker.router if durable is None else durable.router
    rehearse = getattr(router, "rehearsal", None)
    if rehearse is None:
        raise ContentcastError(
            f"brokers with {broker.config.protocol} cannot say what they would do with an event; publish it, then contentcast "
            "why says what became of it"
        )
    gets: list[dict[str, Any]] = []
    now = broker.witness.clock()
    if "message" in asked:
        message = decode(asked["message"], broker.spaces.versions)
        if not events_of(message):  # a rehearsal shares what the router knows: nobody teaches it anything here
            raise WireError(f"a {type(message).__name__} brings no events that could be followed")
        way = DIRECT if asked.get("direct") else LINK
        effects = rehearse().handle(Received(str(asked.get("sender", "")), message, way), now)
    else:
        events = EventBatch.from_dicts(broker.spaces.of(str(asked["space"])), [asked["event"]], ids=[-1])
        effects = rehearse().handle(Published(events), now)
        if durable is not None:  # goes to its home directly
            for wanted in durable.origin.wanted(durable.router.spaces.fit(events)):
                gets += [_kept_for(durable, wanted.home, each) for each in wanted.ids.tolist()]
    onward: list[tuple[str, bytes, bool]] = []
    for effect in effects:
        match effect:
            case Deliver():
                gets += [_receiver(broker, effect.subscribers[int(who)]) for who in effect.who]
            case Send(link, message) | SendTo(link, message) if events_of(message):
                onward.append((link, encode(message), isinstance(effect, SendTo)))
    return {
        "broker": broker.name,
        "gets": gets,
        "onward": onward,
        "links": sorted(broker.neighbours.links),
        "addresses": addresses_of(broker),
    }


def addresses_of(broker: Broker) -> dict[str, list[str]]:
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


def past(broker: Broker, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What became of an event here: `id`, or `space` and `event` for the last one of this content that was published here."""
    id = asked.get("id")
    if id is None:
        space = broker.spaces.present.get(str(asked["space"]))
        id = None if space is None else broker.witness.memory.find(EventBatch.from_dicts(space, [asked["event"]]))
    told: dict[str, Any] = {
        "broker": broker.name,
        "id": id,
        "links": sorted(broker.neighbours.links),
        "addresses": addresses_of(broker),
    }
    if id is None:
        return told
    told |= broker.witness.memory.tell(int(id), broker.witness.clock())
    durable = broker.durable
    if durable is not None:
        told["waits"] = [
            {"subscription": number, "number": place, "handed": handed}
            for number, place, handed in durable.home.numbers_of(int(id))
        ]
        told["owed"] = [
            {"home": home, "position": position, "subscriptions": ids.tolist()}
            for home, position, ids in durable.origin.owes(int(id))
        ]
        for each in told["numbered"]:
            each["acknowledged"] = each["number"] <= durable.home.place(each["subscription"])[0]
    return told


def explain(broker: Broker, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a subscription of one of this broker's clients says to an event, test by test, and what waits for its client."""
    wanted = int(asked["subscription"])
    nobody = {"broker": broker.name, "subscription": None, "addresses": addresses_of(broker)}
    found = _standing(broker, wanted) or _away(broker, wanted)
    if found is None:
        return nobody
    space = broker.spaces.of(found["space"])
    if str(asked["space"]) != space.name:
        raise ContentcastError(f"subscription {wanted} is of the space {space.name}, and the event of {asked['space']}")
    return {**nobody, **found, **judged(parse_predicate(space, found["predicate"]), asked["event"]), "subscription": wanted}


def _standing(broker: Broker, wanted: int) -> dict[str, Any] | None:
    for session in broker.serving.sessions.values():
        for standing in session.subscriptions.values():
            if standing.id == wanted:
                return {
                    "client": session.name,
                    "space": standing.space.name,
                    "predicate": standing.text,
                    "narrowed": standing.narrowed,
                    "durable": standing.durable,
                    "age_s": round(broker.witness.clock() - standing.at, 3),
                    "queued_bytes": session.connection.queued,
                    "paused": session.paused,
                    "missed": session.missed,
                }
    return None


def _away(broker: Broker, wanted: int) -> dict[str, Any] | None:
    """A durable subscription whose client is not here."""
    from contentcast.language import print_predicate

    known = None if broker.durable is None else broker.durable.home.subscription(wanted)
    if known is None:
        return None
    name = known.subscriber.removeprefix("/")
    return {
        "client": f"{name} (away)",
        "space": known.space.name,
        "predicate": print_predicate(known.predicate),
        "narrowed": False,
        "durable": name,
        "queued_bytes": 0,
        "paused": False,
        "missed": 0,
    }
