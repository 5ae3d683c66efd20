"""Names of protocols, for the command line, experiments and Spark, and what each of them promises.

    make_router("link-matching", Setup(topology=network))      a function that makes the router of each broker, for any host

A protocol from outside this package is named by its class: `package.module:Class`. Options of a protocol stand behind its name,
wherever a protocol can be named: `overlay,mapping=key-space-split,bits=13`.
Rule: a promise is declared here and nowhere else, and the conformance suite tests it for every protocol that declares it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from typing import Any, Final

from contentcast.model.errors import ContentcastError, nearest
from contentcast.routing.contract import Router
from contentcast.routing.covering import Covering
from contentcast.routing.durable import Durable
from contentcast.routing.flooding import Flooding
from contentcast.routing.link_matching import Hybrid, LinkMatching
from contentcast.routing.match_first import MatchFirst
from contentcast.routing.multicast import Multicast
from contentcast.routing.overlay.router import Overlay
from contentcast.routing.reliable import Reliable
from contentcast.routing.setup import Life, MakeRouter, Setup
from contentcast.routing.summaries import Summaries
from contentcast.routing.two_tier import TwoTier


class Promise(Enum):
    """What a protocol can promise. Every one has a faulty router in the conformance suite that breaks it and is caught."""

    EXACT = "each subscriber gets each event that matches, once, and no other"
    NO_LINK_TWICE = "no event crosses a link twice in the same direction"
    NOTHING_FOR_NOBODY = "no link carries an event that nobody behind it wants"
    SURVIVES_CRASHES = "when brokers have crashed and come back, everybody gets what matches again"
    STEPS = "tells the steps of matching"
    DURABLE = "with a disk, what is accepted reaches every durable subscription that it matches, exactly once"


ALWAYS: Final = frozenset({Promise.EXACT, Promise.SURVIVES_CRASHES})
WITH_DISKS: Final = ALWAYS | {Promise.DURABLE}
"""Brokers that tell each other what they know (`routing.skeleton`), which durable delivery is built around."""
BY_TREES: Final = WITH_DISKS | {Promise.NO_LINK_TWICE, Promise.STEPS}
"""Events follow the spanning trees of the brokers where they enter."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """How to make a router of it, what it does in one line, and what it promises."""

    make: Callable[..., Router]
    description: str
    options: tuple[tuple[str, Any], ...] = ()
    promises: frozenset[Promise] = ALWAYS


PROTOCOLS: Final[dict[str, Protocol]] = {
    "link-matching": Protocol(
        LinkMatching,
        "each broker matches as far as it takes to know the links",
        promises=BY_TREES | {Promise.NOTHING_FOR_NOBODY},
    ),
    "link-matching-paper": Protocol(
        LinkMatching,
        "the same with a link for each client, as published",
        (("client_links", True),),
        BY_TREES | {Promise.NOTHING_FOR_NOBODY},
    ),
    "hybrid": Protocol(Hybrid, "link matching that guesses Yes where the past says so", promises=BY_TREES),
    "flooding": Protocol(Flooding, "every event to every broker", promises=BY_TREES),
    "match-first": Protocol(
        MatchFirst,
        "matched where it enters, the list of subscribers in the header",
        promises=BY_TREES | {Promise.NOTHING_FOR_NOBODY},
    ),
    "match-first-unicast": Protocol(
        MatchFirst,
        "matched where it enters, a copy for each subscriber",
        (("unicast", True),),
        WITH_DISKS | {Promise.NOTHING_FOR_NOBODY, Promise.STEPS},
    ),
    "two-tier": Protocol(
        TwoTier,
        "matched where it enters, sent to the brokers that want it, matched again there",
        promises=BY_TREES | {Promise.NOTHING_FOR_NOBODY},
    ),
    "summaries": Protocol(
        Summaries,
        "summaries merge towards the best-connected brokers, which examine events one after the other",
        promises=WITH_DISKS | {Promise.STEPS},
    ),
    "summaries-side-by-side": Protocol(
        Summaries,
        "the same with all examiners asked at once",
        (("side_by_side", True),),
        WITH_DISKS | {Promise.STEPS},
    ),
    "overlay": Protocol(Overlay, "matched where event and subscription meet on a ring of keys; needs no configuration"),
    "multicast": Protocol(Multicast, "a LAN without links: each event once to the multicast group that its content maps to"),
    "covering": Protocol(
        Covering,
        "subscriptions stop where one that covers them has passed, events go the way back (SIENA)",
        promises=BY_TREES | {Promise.NOTHING_FOR_NOBODY},
    ),
}


def promising(promise: Promise) -> list[str]:
    """The protocols that promise it."""
    return [name for name, each in PROTOCOLS.items() if promise in each.promises]


def protocol(name: str) -> Protocol:
    """A protocol of this package by its name, or one from outside as `package.module:Class`; options behind a comma."""
    name, *told = name.split(",")
    found = _from_outside(name) if ":" in name else _named(name)
    if not told:
        return found
    return replace(found, options=(*found.options, *(_option(name, found, each) for each in told)))


def options_of(chosen: Protocol) -> dict[str, Any]:
    """The options that can be told as text, with their defaults."""
    named = inspect.signature(chosen.make).parameters.values()
    plain = {each.name: each.default for each in named if each.kind is each.KEYWORD_ONLY and _is_plain(each.default)}
    return plain | {name: value for name, value in chosen.options if name in plain}


def _is_plain(default: Any) -> bool:
    return isinstance(default, str | int | float)


def _option(name: str, chosen: Protocol, text: str) -> tuple[str, Any]:
    known = options_of(chosen)
    option, equals, value = (each.strip() for each in text.partition("="))
    if not equals:
        raise ContentcastError(f"an option of a protocol is NAME=VALUE, got {text!r} behind {name}")
    if option not in known:
        there = nearest(option, known, "there are") if known else "; it has none"
        raise ContentcastError(f"the protocol {name} has no option {option!r}{there}")
    default = known[option]
    if isinstance(default, str):
        return option, value
    try:
        read = json.loads(value.lower())
    except ValueError:
        read = None
    fits = isinstance(read, bool) if isinstance(default, bool) else isinstance(read, int | float) and not isinstance(read, bool)
    if not fits or (isinstance(default, int) and isinstance(read, float)):
        wanted = "true or false" if isinstance(default, bool) else "a whole number" if isinstance(default, int) else "a number"
        raise ContentcastError(f"the protocol {name}: {option} is {wanted}, got {value!r}")
    return option, read


def _named(name: str) -> Protocol:
    try:
        return PROTOCOLS[name]
    except KeyError:
        near = nearest(name, PROTOCOLS, "there are")
        own = "" if near.endswith("?") else "; your own is package.module:Class"
        raise ContentcastError(f"there is no protocol {name!r}{near}{own}") from None


def _from_outside(name: str) -> Protocol:
    module, _, found = name.partition(":")
    try:
        made = getattr(import_module(module), found)
    except ImportError as reason:
        raise ContentcastError(f"the protocol {name}: {module} cannot be imported: {reason}") from None
    except AttributeError:
        raise ContentcastError(f"the protocol {name}: {module} has no {found!r}") from None
    if not callable(made) or not hasattr(made, "handle"):
        raise ContentcastError(f"the protocol {name}: a router is a class with handle(input, now), made with (broker, setup)")
    description = (made.__doc__ or name).strip().splitlines()[0]
    return Protocol(made, description, promises=getattr(made, "PROMISES", ALWAYS))


def router(name: str, broker: str, setup: Setup, **options: Any) -> Router:
    """A router of this protocol for one broker."""
    chosen = protocol(name)
    return chosen.make(broker, setup, **{**dict(chosen.options), **options})


def make_router(
    protocol: str | Callable[[str, Setup], Router],
    setup: Setup | None = None,
    *,
    reliable: bool = False,
    durable: bool = False,
    **options: Any,
) -> MakeRouter:
    """The function by which a host makes routers: of a protocol by its name, or of what makes one from a broker and a set-up.

    All brokers share the set-up, and so its forest. `reliable`: over links that lose, repeat and reorder. `durable`: with
    durable delivery around it, for hosts with a disk.
    """
    shared = Setup() if setup is None else setup

    def make(broker: str, life: Life) -> Router:
        mine = shared.living(life)
        made = router(protocol, broker, mine, **options) if isinstance(protocol, str) else protocol(broker, mine, **options)
        if durable:
            made = Durable(made, mine)  # type: ignore[arg-type]  # those that promise it are made on the skeleton
        return Reliable(made, life.incarnation) if reliable else made

    return make
