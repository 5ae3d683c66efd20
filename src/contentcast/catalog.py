"""Names of protocols, for the command line, experiments and Spark: `router("link-matching", "b", setup)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from contentcast.model.errors import ContentcastError, nearest
from contentcast.routing.contract import Router
from contentcast.routing.flooding import Flooding
from contentcast.routing.link_matching import Hybrid, LinkMatching
from contentcast.routing.match_first import MatchFirst
from contentcast.routing.setup import Setup
from contentcast.routing.two_tier import TwoTier


@dataclass(frozen=True, slots=True)
class Protocol:
    """How to make a router of it, and what it does in one line."""

    make: Callable[..., Router]
    description: str
    options: tuple[tuple[str, Any], ...] = ()


PROTOCOLS: Final[dict[str, Protocol]] = {
    "link-matching": Protocol(LinkMatching, "each broker matches as far as it takes to know the links"),
    "link-matching-paper": Protocol(
        LinkMatching, "the same with a link for each client, as published", (("client_links", True),)
    ),
    "hybrid": Protocol(Hybrid, "link matching that guesses Yes where the past says so"),
    "flooding": Protocol(Flooding, "every event to every broker"),
    "match-first": Protocol(MatchFirst, "matched where it enters, the list of subscribers in the header"),
    "match-first-unicast": Protocol(MatchFirst, "matched where it enters, a copy for each subscriber", (("unicast", True),)),
    "two-tier": Protocol(TwoTier, "matched where it enters, sent to the brokers that want it, matched again there"),
}


def protocol(name: str) -> Protocol:
    try:
        return PROTOCOLS[name]
    except KeyError:
        raise ContentcastError(f"there is no protocol {name!r}{nearest(name, PROTOCOLS, 'there are')}") from None


def router(name: str, broker: str, setup: Setup, **options: Any) -> Router:
    """A router of this protocol for one broker."""
    chosen = protocol(name)
    return chosen.make(broker, setup, **{**dict(chosen.options), **options})
