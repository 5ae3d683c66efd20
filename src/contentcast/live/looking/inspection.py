"""Looking inside a running broker: its state as plain values, for `contentcast top`, tests and the web page.

Rule: nothing here holds a secret, and nothing here grows with the number of events.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from contentcast.live.looking.counting import MOST_COUNTED, counted, judge, tell_last_events
from contentcast.live.looking.hops import addresses_of, explain, hop, past
from contentcast.live.looking.wanted import wanted
from contentcast.live.serving.sessions import Session
from contentcast.live.settings.access import AccessError
from contentcast.model import ContentcastError
from contentcast.routing.contract import Forgotten
from contentcast.wire import WireError
from contentcast.wire.client import Ask

if TYPE_CHECKING:
    from contentcast.live.broker import Broker

MOST_CLIENTS: Final = 1_000
QUESTIONS: Final = ("state", "subscriptions", "hop", "explain", "past", "last events", "judge", "reload", "forget")


def state(broker: Broker, *, with_router: bool = False, with_counts: bool = False) -> dict[str, Any]:
    """What the broker is, has and does. `with_router`: all that its router knows, which may be much.

    `with_counts`: what each subscription has accepted, if they are not too many.
    """
    serving, neighbours = broker.serving, broker.neighbours
    now = broker.witness.clock()
    sessions = sorted(serving.sessions.values(), key=lambda each: -each.connection.queued)
    found: dict[str, Any] = {
        "broker": broker.name,
        "incarnation": broker.incarnation,
        "protocol": broker.config.protocol,
        "ready": broker.is_ready,
        "listen": [str(each) for each in broker.addresses],
        "up_s": round(now - broker.started_at, 3),
        "spaces": sorted(broker.spaces.present),
        "by_space": broker.witness.meters.spaces(now),
        **broker.witness.state(),
        "memory_bytes": memory_bytes(),
        **broker.witness.meters.between_brokers(),
        "published": serving.published,
        "delivered": broker.deliveries.events + serving.durables.events,
        "missed": serving.missed,
        "steps": broker.steps,
        "inputs": broker.inputs,
        "turns": broker.turns_taken,
        "failures": broker.reception.failures,
        "refused": broker.reception.refused,
        "subscriptions": len(broker.deliveries) + (0 if broker.durable is None else broker.durable.home.count),
        "links": {
            name: {
                "peer": peer.connection.peer,
                "delay_ms": round(1000 * peer.delay_s, 3),
                "queued_bytes": peer.connection.queued,
                "bytes_in": peer.connection.bytes_in,
                "bytes_out": peer.connection.bytes_out,
                "messages_in": peer.connection.frames_in,
                "messages_out": peer.connection.frames_out,
                **broker.witness.meters.link(name, now),
            }
            for name, peer in sorted(neighbours.links.items())
        },
        "dialling": {str(address): how for address, how in neighbours.dialled.items()},
        "brokers": sorted({broker.name, *neighbours.addresses}),
        "addresses": addresses_of(broker),
        "lost_direct_messages": neighbours.lost_messages,
        "clients": [each.state() for each in sessions[:MOST_CLIENTS]],
        "client_count": len(sessions),
    }
    if broker.durable is not None:
        sizes = broker.durable.sizes()
        found["durable"] = {
            "subscriptions": sizes["durable subscriptions"],
            "waiting": sizes["waiting"],
            "kept": sizes["kept"],
            "handed_over": serving.durables.events,
            "log_records": broker.durable.log.written,
            "lacking": broker.durable.home.lacking(),
        }
    if with_counts and len(broker.deliveries) <= MOST_COUNTED:
        found["counted"] = counted(broker)
        found["never_matched"] = [each for each in found["counted"] if not each["accepted"]]
    if with_router:
        found["router"] = broker.router.state()
    return found


def memory_bytes() -> int | None:
    """What the process of the broker has in memory; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def answer(broker: Broker, session: Session, ask: Ask) -> dict[str, Any]:
    if ask.what == "wanted":
        return wanted(broker, session, ask.document)
    if ask.what in QUESTIONS and not broker.serving.access.of(session.identity).operate:
        raise AccessError(f"{session.identity or 'who shows no identity'} may not look inside; see the right operate")
    try:
        return _answer(broker, ask)
    except ContentcastError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as reason:
        raise WireError(f"{ask.what} cannot be asked like this: {type(reason).__name__} {reason}") from None


def _answer(broker: Broker, ask: Ask) -> dict[str, Any]:
    match ask.what:
        case "state":
            router, counts = bool(ask.document.get("router")), bool(ask.document.get("counts", True))
            return state(broker, with_router=router, with_counts=counts)
        case "subscriptions":
            return {"subscriptions": counted(broker)}
        case "hop":
            return hop(broker, ask.document)
        case "reload":
            return broker.reload()
        case "forget":
            return _forget(broker, str(ask.document.get("broker", "")))
        case "explain":
            return explain(broker, ask.document)
        case "past":
            return past(broker, ask.document)
        case "last events":
            return tell_last_events(broker, ask.document)
        case "judge":
            return judge(broker, ask.document)
    raise ContentcastError(f"a broker can be asked for {', '.join(QUESTIONS)} or wanted, not for {ask.what!r}")


def _forget(broker: Broker, gone: str) -> dict[str, Any]:
    """For brokers that keep something for others; the others are told by the router."""
    if broker.durable is None:
        raise ContentcastError(f"broker {broker.name} keeps nothing for others, so there is nothing to forget")
    owed = len(broker.durable.origin.homes[gone].waiting) if gone in broker.durable.origin.homes else 0
    broker.handle(Forgotten(gone))
    broker.neighbours.addresses.pop(gone, None)
    broker.note("forgotten", gone=gone, dropped_batches=owed)
    return {"broker": broker.name, "forgotten": gone, "dropped_batches": owed}
