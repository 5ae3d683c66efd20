"""What a router is told and what it wants done: `handle(input, now) -> effects`.

Inputs are past tense, effects are orders. A router knows no clock, no socket, no disk and no dice: time is an argument, to be
woken is an effect, dice come with its set-up, and who performs the effects (a simulation, a live broker, a Spark task) is none
of its business.

    router.handle(Published(trades), now=3.0)
    [Account(trades, steps), Deliver(trades, rows, who, ("desk-7",)), Send("b", Publish("a", 1, 1, trades))]

    told                                    wants done
    Started, Stopping                       SetTimer, Changed                        life and time
    Published, Subscribed, Advertised ...   Deliver, Account                         clients
    DurablySubscribed, Resumed, ...         Accepted, DeliverDurably, Holds          clients of durable delivery
    LinkUp, LinkLost, Received              Send (link), SendTo (any broker),        other brokers
                                            Join, Leave, SendGroup (group)
    Synced                                  Append, Trim                             disk

Quiet. A network is quiet when only background timers are left, and nothing has changed for as long as the longest of them
takes. What counts as a change: a client's input, a link that comes or goes, a Deliver or DeliverDurably, an Append, a Join or
Leave, a timer that is not in the background, and `Changed`, by which a router says that soft state became different.
Rule: the same inputs at the same times give the same effects, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from contentcast.model import Advertisement, EventBatch, Space, SubscriptionBatch
from contentcast.wire import Message

Ints = npt.NDArray[np.int64]


class Timer(NamedTuple):
    """The name of a timer: the part of the router that wants to be woken, and about whom or what."""

    part: str
    about: str = ""

    def __str__(self) -> str:
        return f"{self.part} {self.about}" if self.about else self.part


@dataclass(frozen=True, slots=True)
class Via:
    """By which way a message came: over the link from its sender, directly (`SendTo`), or over a group."""

    way: Literal["link", "direct", "group"]
    group: str = ""


LINK: Final = Via("link")
DIRECT: Final = Via("direct")
NO_END: Final = 2**62
"""A number that no durable subscription reaches."""

# --- inputs


@dataclass(frozen=True, slots=True)
class Started:
    """The first input of every life. `restored`: the records of earlier lives that reached the disk, oldest first.

    `trimmed`: how many records stood before these and were dropped by a `Trim`.
    """

    restored: tuple[bytes, ...] = ()
    trimmed: int = 0


@dataclass(frozen=True, slots=True)
class Stopping:
    """The last input of a life that ends in order: what it wants done now is still done. A crash tells nobody."""


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A client of this broker published events; their ids are unique in the network.

    With the name of a `publisher` it is a durable publication, answered by `Accepted`. A publisher gives its batches ascending
    numbers from 1; what was not accepted it publishes again under the same numbers, in their order.
    """

    events: EventBatch
    publisher: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """A message came from this broker."""

    sender: str
    message: Message
    via: Via = LINK


@dataclass(frozen=True, slots=True, eq=False)
class Subscribed:
    """Clients of this broker want more. An id that is there already asks for what it says now."""

    subscriptions: SubscriptionBatch


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """These subscriptions of clients of this broker have ended; ids that are not there are passed over."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Advertised:
    """Clients of this broker say what they may publish. An id that is there already says what it says now."""

    advertisements: tuple[Advertisement, ...]


@dataclass(frozen=True, slots=True)
class Unadvertised:
    """These advertisements of clients of this broker have ended; ids that are not there are passed over."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DurablySubscribed:
    """Clients of this broker want every accepted event that matches, also while they are away or brokers are down.

    An id that is there already asks for what it says now; the same again changes nothing.
    """

    subscriptions: SubscriptionBatch


@dataclass(frozen=True, slots=True)
class DurablyUnsubscribed:
    """These durable subscriptions have ended, with all that waits for them; ids that are not there are passed over."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Resumed:
    """The client of a durable subscription is here and has all numbers up to `after`: from now on it is handed what follows.

    `upto`: no batch that begins behind this number is handed over before more is `Allowed`.
    """

    subscription: int
    after: int = 0
    upto: int = NO_END


@dataclass(frozen=True, slots=True)
class Allowed:
    """The client of a durable subscription takes numbers up to this one."""

    subscription: int
    upto: int


@dataclass(frozen=True, slots=True)
class Suspended:
    """The client of a durable subscription is away; what is for it waits until it has `Resumed`."""

    subscription: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The client of a durable subscription has all numbers up to this one for good."""

    subscription: int
    upto: int


@dataclass(frozen=True, slots=True)
class Declared:
    """A client or the configuration of this broker declared a space, or added attributes to one."""

    space: Space


@dataclass(frozen=True, slots=True)
class LinkUp:
    """The link to this neighbour works from now on. `delay_s` is one way."""

    link: str
    delay_s: float = 0.01


@dataclass(frozen=True, slots=True)
class LinkLost:
    link: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Whoever runs the network says that this broker is gone for ever: nothing is kept for it any more."""

    broker: str


@dataclass(frozen=True, slots=True)
class TimerFired:
    timer: Timer


@dataclass(frozen=True, slots=True)
class Synced:
    """All records up to this number are on disk. Records are numbered from 1 over all lives of the broker."""

    upto: int


Input: TypeAlias = (
    Started
    | Stopping
    | Published
    | Received
    | Subscribed
    | Unsubscribed
    | Advertised
    | Unadvertised
    | DurablySubscribed
    | DurablyUnsubscribed
    | Resumed
    | Allowed
    | Suspended
    | Acknowledged
    | Declared
    | LinkUp
    | LinkLost
    | Forgotten
    | TimerFired
    | Synced
)

# --- effects


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """Send the message over the link to this neighbour; to somebody else it is an error."""

    link: str
    message: Message


@dataclass(frozen=True, slots=True, eq=False)
class SendTo:
    """Send the message to any broker, neighbour or not. It may be lost, and nobody is told."""

    broker: str
    message: Message


@dataclass(frozen=True, slots=True, eq=False)
class SendGroup:
    """Send the message once, to all other brokers of the LAN that have joined the group. Each copy may be lost."""

    group: str
    message: Message


@dataclass(frozen=True, slots=True)
class Join:
    """Get what is sent to this group from now on; it may take a moment until that holds."""

    group: str


@dataclass(frozen=True, slots=True)
class Leave:
    group: str


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
        for begin, end in zip(starts, [*starts[1:], len(who)][: len(starts)], strict=True):
            yield self.subscribers[int(who[begin])], self.events.take(rows[begin:end])


@dataclass(frozen=True, slots=True)
class Accepted:
    """Tell the publisher: this batch is on disk, at this position of the broker's log. `duplicate`: it was there before.

    The position of a duplicate is told for the publisher's last batch, and is 0 for an older one.
    """

    publisher: str
    number: int
    position: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DeliverDurably:
    """Hand these events to the client of a durable subscription: they are its numbers `first`, `first` + 1, ...

    `missed`: so many numbers before `first` were dropped by a limit, and the client did not get them.
    """

    subscription: int
    subscriber: str
    first: int
    events: EventBatch
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Holds:
    """Answers a `DurablySubscribed` or `DurablyUnsubscribed` of these ids: it is on disk here and in force at these brokers.

    `lacking` are brokers that are known and could not be reached; what they accept before they hear of it does not count, and
    so it is with brokers that nobody here has heard of yet.
    """

    subscriptions: tuple[int, ...]
    brokers: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Wake me at this time. A timer of the same name that is still to fire is moved.

    `background`: a timer that is set again for ever, to refresh or to stabilise. It does not keep a network from being quiet.
    """

    timer: Timer
    at: float
    background: bool = False


@dataclass(frozen=True, slots=True)
class Append:
    """Write this record to the disk after those before it. `Synced` says when it is there for good."""

    record: bytes


@dataclass(frozen=True, slots=True)
class Trim:
    """The records before this number are not needed any more, by this life or a later one."""

    before: int


@dataclass(frozen=True, slots=True)
class Changed:
    """Soft state became different: the network is not quiet yet. For what no other effect shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """What matching cost: steps[i] visited nodes for event i."""

    events: EventBatch
    steps: Ints


Effect: TypeAlias = (
    Send
    | SendTo
    | SendGroup
    | Join
    | Leave
    | Deliver
    | Accepted
    | DeliverDurably
    | Holds
    | SetTimer
    | Append
    | Trim
    | Changed
    | Account
)

# --- a router

Sizes: TypeAlias = Mapping[str, int]
"""How much a router keeps, by name: "subscriptions", "nodes", "bytes", "links", and what its family has besides."""


class Router(Protocol):
    """One broker's part of a protocol."""

    broker: str

    def handle(self, input: Input, now: float) -> list[Effect]: ...

    def sizes(self) -> Sizes: ...

    def state(self) -> dict[str, Any]:
        """What it knows and how it would decide, as plain values: for tests, metrics and the web page."""
        ...
