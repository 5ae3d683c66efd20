"""What a router is told and what it wants done: `handle(input, now) -> effects`.

Inputs are past tense, effects are orders. A router knows no clock, no socket and no dice: time is an argument, to be woken is
an effect, and who performs the effects (a simulation, a live broker, a Spark task) is none of its business.

    router.handle(Published(trades), now=3.0)
    [Account(trades, steps), Deliver(trades, rows, who, ("desk-7",)), Send("b", Publish("a", 1, 1, trades))]

Rule: the same inputs at the same times give the same effects, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.wire import Message

Ints = npt.NDArray[np.int64]

# --- inputs


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A client of this broker published events; their ids are unique in the network."""

    events: EventBatch


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """A message came over the link to this neighbour."""

    link: str
    message: Message


@dataclass(frozen=True, slots=True, eq=False)
class Subscribed:
    """Clients of this broker want more. An id that is there already asks for what it says now."""

    subscriptions: SubscriptionBatch


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """These subscriptions of clients of this broker have ended; ids that are not there are passed over."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LinkUp:
    """The link to this neighbour works from now on. `delay_s` is one way."""

    link: str
    delay_s: float = 0.01


@dataclass(frozen=True, slots=True)
class LinkLost:
    link: str


@dataclass(frozen=True, slots=True)
class TimerFired:
    name: str


Input: TypeAlias = Published | Received | Subscribed | Unsubscribed | LinkUp | LinkLost | TimerFired

# --- effects


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """Send the message over the link to this neighbour."""

    link: str
    message: Message


@dataclass(frozen=True, slots=True, eq=False)
class Deliver:
    """Pair i: hand event `rows[i]` to the client `subscribers[who[i]]`. No pair stands twice."""

    events: EventBatch
    rows: Ints
    who: Ints
    subscribers: Sequence[str]

    def each(self) -> Iterator[tuple[str, EventBatch]]:
        """For hosts that hand over client by client: the client and its events, in order."""
        order = np.argsort(self.who, kind="stable")
        who, rows = self.who[order], self.rows[order]
        starts = np.flatnonzero(np.diff(who, prepend=-1))
        for begin, end in zip(starts, [*starts[1:], len(who)], strict=True):
            yield self.subscribers[int(who[begin])], self.events.take(rows[begin:end])


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Wake me at this time. A timer of the same name that is still to fire is moved."""

    name: str
    at: float


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """What matching cost: steps[i] visited nodes for event i."""

    events: EventBatch
    steps: Ints


Effect: TypeAlias = Send | Deliver | SetTimer | Account

# --- a router


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a router keeps."""

    subscriptions: int
    nodes: int
    nbytes: int
    links: int


class Router(Protocol):
    """One broker's part of a protocol."""

    broker: str

    def handle(self, input: Input, now: float) -> list[Effect]: ...

    def sizes(self) -> Sizes: ...

    def state(self) -> dict[str, Any]:
        """What it knows and how it would decide, as plain values: for tests, metrics and the web page."""
        ...
