"""A client at its broker: what it subscribes to and advertises, what waits for it, and what is known of it.

The router knows a subscriber for each subscription, `desk-7#12`: what it delivers then says which subscriptions an event
satisfies, and nothing is matched a second time to find out.
Rule: a session keeps no more than its limits say; what it may do when its client is slow is in `Session.deliver`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.live.links.connection import Connection
from contentcast.live.settings.limits import LimitError, Limits, OnSlow
from contentcast.model import EventBatch, Space
from contentcast.wire import frame
from contentcast.wire.client import encode_delivery, encode_events

Ints = npt.NDArray[np.int64]

_DELIVERY: Final = bytes([78])


@dataclass(slots=True, eq=False)
class Standing:
    """One subscription of a client: its number at the client, its id in the network, the name that the router knows.

    It is not changed. It is not frozen either: to make a million frozen ones takes three times as long.
    """

    session: Session
    number: int
    id: int
    space: Space
    text: str
    narrowed: bool = False
    durable: str = ""
    """The name of a durable one."""
    at: float = 0.0
    """When it was made, by the clock of the event loop."""


class Claim(NamedTuple):
    """One advertisement of a client: its ids in the network (a disjunction is several), its space and what it says."""

    ids: tuple[int, ...]
    space: str
    text: str


def router_name(session: Session, id: int) -> str:
    """By which the router knows a subscription."""
    return f"{session.name}#{id}"


@dataclass(eq=False)
class Session:
    name: str
    key: str
    connection: Connection
    limits: Limits
    identity: str = ""
    until: int | None = None
    """When the token expires that has proven the identity, in seconds since 1970."""
    on_slow: OnSlow = "pause"
    subscriptions: dict[int, Standing] = field(default_factory=dict)
    advertisements: dict[int, Claim] = field(default_factory=dict)
    """By their numbers at the client."""
    delivered: int = 0
    missed: int = 0
    """Events that were left out because the client was slow, over its whole life."""
    posted: int = 0
    unanswered_events: int = 0
    unanswered_bytes: int = 0
    """Of posts on their way to the disk."""
    _untold: int = 0
    """The part of `missed` that the client was not told of yet."""
    _untold_in: Space | None = None
    """The space of the last of these."""
    paused: bool = False
    cut: str = ""
    """Why this broker has ended the connection."""
    tokens: float = 0.0
    tokens_at: float = 0.0

    def deliver(self, space: Space, count: int, form: int, written: bytes, pairs: Ints, numbers: Ints) -> bool:
        """Hands over events that are encoded already, or does with a slow client what was agreed: then they are left out."""
        connection = self.connection
        queued = connection.queued
        self._untold_in = space
        if self.paused and queued:
            self._leave_out(count)
            return False
        self.paused = False
        if queued + len(written) > self.limits.client_queue_bytes and queued:
            self._slow(count)
            return False
        connection.name_spaces([space])
        payload = encode_delivery(count, form, written, pairs, numbers, self._untold)
        self._untold = 0
        self.delivered += count
        connection.send_frame(frame(_DELIVERY + payload))
        return True

    def tell_missed(self) -> None:
        """A delivery without events, when the client has read all: what was left out at the end of a burst is told too."""
        if self._untold and self._untold_in is not None and not self.connection.queued:
            nothing = np.empty(0, np.int64)
            events = EventBatch.from_dicts(self._untold_in, [])
            self.deliver(events.space, 0, *encode_events(events), nothing, nothing)

    def _slow(self, count: int) -> None:
        match self.on_slow:
            case "pause":  # until all that waits was taken
                self.paused = True
                self._leave_out(count)
            case "skip":  # what does not fit
                self._leave_out(count)
            case "disconnect":
                self._leave_out(count)
                self.cut = f"{self.connection.queued:,} bytes wait for it (limit client_queue_bytes)"
                self.connection.abort()

    def _leave_out(self, count: int) -> None:
        self.missed += count
        self._untold += count

    @property
    def is_ahead(self) -> bool:
        """Has it published far more than its window allows? One batch may go beyond the window."""
        limits = self.limits
        return self.unanswered_events > 2 * limits.window_events or self.unanswered_bytes > 2 * limits.window_bytes

    def allow_request(self, now: float) -> None:
        """A bucket that holds ten seconds' worth of requests."""
        rate = self.limits.requests_per_s
        if not rate:
            return
        self.tokens = min(10 * rate, self.tokens + (now - self.tokens_at) * rate) if self.tokens_at else 10 * rate
        self.tokens_at = now
        if self.tokens < 1:
            raise LimitError("requests_per_s", f"{self.name} asks for more than {rate:g} things a second; wait and ask again")
        self.tokens -= 1

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "identity": self.identity,
            "peer": self.connection.peer,
            "subscriptions": len(self.subscriptions),
            "advertisements": len(self.advertisements),
            "posted": self.posted,
            "delivered": self.delivered,
            "missed": self.missed,
            "paused": self.paused,
            "on_slow": self.on_slow,
            "queued_bytes": self.connection.queued,
            "bytes_in": self.connection.bytes_in,
            "bytes_out": self.connection.bytes_out,
        }


def sort_into(slots: Ints, rows: Ints, numbers: Ints) -> tuple[Ints, Ints, Ints, list[tuple[int, int, int]]]:
    """Pairs in the order of their sessions, rows and numbers; and for each session where its part begins and ends."""
    slots, rows, numbers = _in_order(slots, rows, numbers)
    begins = np.flatnonzero(np.diff(slots, prepend=-2))
    ends = np.append(begins[1:], len(slots))
    parts = [(int(slots[begin]), int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)]
    return slots, rows, numbers, parts


def _in_order(slots: Ints, rows: Ints, numbers: Ints) -> tuple[Ints, Ints, Ints]:
    """By slots, rows and numbers. All three go into one int64 where they fit, and that is sorted by its value:

        slot 2, row 5, number 103    10 101 0011    (numbers from 100 on)

    `np.lexsort` takes seven times as long; at 10,000 filters that was half of the time of a broker.
    """
    least = int(numbers.min())
    row_bits, number_bits = int(rows.max()).bit_length(), (int(numbers.max()) - least).bit_length()
    if int(slots.max()).bit_length() + row_bits + number_bits > 63:
        order = np.lexsort((numbers, rows, slots))
        return slots[order], rows[order], numbers[order]
    packed = np.sort((slots << row_bits | rows) << number_bits | numbers - least)
    numbers = (packed & (1 << number_bits) - 1) + least
    packed >>= number_bits
    return packed >> row_bits, packed & (1 << row_bits) - 1, numbers
