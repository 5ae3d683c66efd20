"""What a broker allows, each limit with a name. Whoever meets one is told its name and how to raise it.

Rule: nothing that others send makes a broker keep more than these numbers say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from contentcast.model import ContentcastError
from contentcast.model.errors import nearest
from contentcast.routing.durable.keeping import Keeping

MIB: Final = 2**20
OnSlow = Literal["pause", "skip", "disconnect"]
ON_SLOW: Final[tuple[OnSlow, ...]] = ("pause", "skip", "disconnect")


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = 20_000
    """Clients and brokers that are connected at once."""
    greeting_s: float = 5.0
    """How long somebody may be connected without having said who they are."""
    client_message_bytes: int = 16 * MIB
    link_message_bytes: int = 64 * MIB
    client_queue_bytes: int = 16 * MIB
    """What waits for one client; `on_slow` says what happens when it is full."""
    link_queue_bytes: int = 64 * MIB
    """What waits for one link. Publishers wait from half of it on; a link that is full is cut and made anew."""
    window_events: int = 100_000
    """Events that a client may publish before it has heard that they were accepted."""
    window_bytes: int = 16 * MIB
    subscriptions_per_client: int = 1_000_000
    subscriptions: int = 10_000_000
    durable_subscriptions: int = 100_000
    """Durable subscriptions of one broker, whether their clients are there or not."""
    durable_bytes: int = 1024 * MIB
    """What waits for one durable subscription, and for one broker that cannot be reached. The oldest beyond it is missed."""
    durable_age_s: float = 0.0
    """How long something waits for a durable subscriber, counted from the broker's last start; 0: for ever."""
    predicate_bytes: int = 65_536
    spaces: int = 1_000
    attributes: int = 1_000
    advertisements_per_client: int = 10_000
    requests_per_s: float = 0.0
    """Subscribing, declaring and asking by one client, in the mean over ten seconds; 0: as many as it likes."""
    brokers: int = 10_000
    """Brokers whose addresses are kept."""
    dead_after_s: float = 2.5
    """A broker that was silent for so long is taken for dead."""
    client_dead_after_s: float = 30.0
    remembered_bytes: int = 32 * MIB
    """What is remembered of the last events, for `contentcast why`; 0: nothing."""
    drain_s: float = 5.0
    """How long a broker that stops waits for what it has still to send."""


class LimitError(ContentcastError):
    """A limit of the broker was met; the message names it."""

    def __init__(self, limit: str, reason: str) -> None:
        super().__init__(f"{reason} (limit {limit})")
        self.limit = limit


def read_limits(told: Mapping[str, Any], base: Limits | None = None) -> Limits:
    known = {each.name: each.type for each in fields(Limits)}
    given: dict[str, Any] = {}
    for name, value in told.items():
        if name not in known:
            raise ContentcastError(f"there is no limit {name!r}{nearest(name, known, 'there are')}")
        wanted = float if known[name] == "float" else int
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or value < 0
            or (wanted is int and value != int(value))
        ):
            raise ContentcastError(f"the limit {name} is a number from 0, got {value!r}")
        given[name] = wanted(value)
    return replace(base or Limits(), **given)


def keeping(limits: Limits) -> Keeping:
    """What they say about durable delivery."""
    return Keeping(most_bytes=limits.durable_bytes, most_age_s=limits.durable_age_s)
