"""What a broker remembers of the last events: from whom each came, over which links it went, and to whom it was handed.

    Came      events 7, 8 from desk-1               found again by their content or by their ids
    Sent      event 7 over the link to b            behind byte 90,211 of what that connection was given
    Handed    event 7 to desk-7's subscription 12   behind byte 4,020 of the client's connection, or left out

A connection tells how many bytes the other side has not taken, so a byte number says whether something still waits. What is
remembered is bounded by bytes (limit `remembered_bytes`); the oldest goes first.
Rule: remembering takes one step for each batch and client, and nothing here is looked at before somebody asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow.compute as pc

from contentcast.live.links.connection import Connection
from contentcast.model import EventBatch, Space
from contentcast.routing.contract import Ints
from contentcast.wire import Message, Publish

RECORD_BYTES: Final = 512
"""What a record takes besides its arrays, about."""
LEFT_OUT: Final = -1
"""The place of what a slow client was not given."""


class Came(NamedTuple):
    at: float
    events: EventBatch
    sender: str
    """A broker; empty if clients published it here."""
    clients: tuple[tuple[str, int], ...] = ()
    """Who published the events, in order, and how many."""


class Sent(NamedTuple):
    at: float
    to: str
    ids: tuple[Any, ...]
    connection: Connection | None
    """None: there is no connection yet, or no address is known."""
    place: int


class Handed(NamedTuple):
    at: float
    ids: Any
    rows: Ints
    who: Ints
    names: list[str]
    slots: Ints
    places: dict[int, tuple[Connection, int]]
    """By the slot of the session."""


class Numbered(NamedTuple):
    """Handed to the client of a durable subscription, under these numbers."""

    at: float
    subscription: int
    first: int
    ids: Any
    connection: Connection
    place: int


Record: TypeAlias = Came | Sent | Handed | Numbered


class Memory:
    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._records: deque[tuple[int, Record]] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def _note(self, record: Record, nbytes: int) -> None:
        nbytes += RECORD_BYTES
        if nbytes > self.most_bytes:
            return
        self._records.append((nbytes, record))
        self.bytes += nbytes
        while self.bytes > self.most_bytes:
            self.bytes -= self._records.popleft()[0]

    def came(self, at: float, events: EventBatch, sender: str, clients: tuple[tuple[str, int], ...] = ()) -> None:
        if self.most_bytes:
            self._note(Came(at, events, sender, clients), int(events.records.nbytes) + 8 * len(events))

    def sent(self, at: float, to: str, batches: list[EventBatch], connection: Connection | None) -> None:
        if self.most_bytes:
            ids = tuple(each.ids for each in batches)
            place = 0 if connection is None else connection.enqueued
            self._note(Sent(at, to, ids, connection, place), 8 * sum(map(len, ids)))

    def handed(self, record: Handed) -> None:
        if self.most_bytes:
            self._note(record, 8 * (len(record.ids) + 2 * len(record.rows)) + 100 * len(record.places))

    def numbered(self, record: Numbered) -> None:
        if self.most_bytes:
            self._note(record, 8 * len(record.ids))

    def keep(self, most_bytes: int) -> None:
        """From now on so much is remembered."""
        self.most_bytes = most_bytes
        while self.bytes > self.most_bytes:
            self.bytes -= self._records.popleft()[0]

    # --- asking

    def _of(self, kind: type[Any]) -> Iterator[Any]:
        """The newest first."""
        return (record for _, record in reversed(self._records) if isinstance(record, kind))

    def find(self, event: EventBatch) -> int | None:
        """The id of the last event with the content of this one that clients published here."""
        for came in self._of(Came):
            if not came.sender and came.events.space.name == event.space.name:
                rows = _alike(came.events, event)
                if len(rows):
                    return int(came.events.ids[int(rows[-1])].as_py())
        return None

    def last_events(self, space: Space, most: int) -> list[EventBatch]:
        """Up to so many of the last events of a space that came here, as events of this version of it."""
        found: list[EventBatch] = []
        for came in self._of(Came):
            if most <= 0:
                break
            if came.events.space.name == space.name:
                part = came.events.slice(max(0, len(came.events) - most))
                most -= len(part)
                found.append(part.widened(space) if space.extends(part.space) else part)
        return found

    def tell(self, id: int, now: float) -> dict[str, Any]:
        """All that is remembered of one event, as plain values."""
        return {
            "came": [_came(each, int(row), now) for each in self._of(Came) for row in _rows(each.events.ids, id)],
            "sent": [
                {"to": each.to, "ago_s": round(now - each.at, 3), **_waits(each.connection, each.place)}
                for each in self._of(Sent)
                if any(len(_rows(ids, id)) for ids in each.ids)
            ],
            "handed": [told for each in self._of(Handed) for told in _handed(each, id, now)],
            "numbered": [
                {
                    "subscription": each.subscription,
                    "number": each.first + int(row),
                    "ago_s": round(now - each.at, 3),
                    **_waits(each.connection, each.place),
                }
                for each in self._of(Numbered)
                for row in _rows(each.ids, id)
            ],
        }


def events_of(message: Message) -> list[EventBatch]:
    """The events that a message of any family carries."""
    if isinstance(message, Publish):
        return [message.events]
    inner = getattr(message, "message", None) or getattr(message, "publish", None)
    if isinstance(inner, Message):
        return events_of(inner)
    return [each.events for each in getattr(message, "publishes", ())]


def _rows(ids: Any, id: int) -> Ints:
    return np.flatnonzero(ids.to_numpy() == id)


def _came(came: Came, row: int, now: float) -> dict[str, Any]:
    client, at = "", row
    for name, count in came.clients:
        if at < count:
            client = name
            break
        at -= count
    return {"from": came.sender, "client": client, "ago_s": round(now - came.at, 3)}


def _handed(handed: Handed, id: int, now: float) -> Iterator[dict[str, Any]]:
    for row in _rows(handed.ids, id):
        for pair in np.flatnonzero(handed.rows == row):
            at = int(handed.who[pair])
            client, _, subscription = handed.names[at].rpartition("#")
            connection, place = handed.places.get(int(handed.slots[at]), (None, 0))
            told = {"left_out": True} if place == LEFT_OUT else _waits(connection, place)
            yield {"client": client, "subscription": int(subscription or 0), "ago_s": round(now - handed.at, 3), **told}


def _waits(connection: Connection | None, place: int) -> dict[str, Any]:
    """Whether the other side has taken all bytes up to this place, as far as this process knows."""
    if connection is None:
        return {"waits_bytes": 0, "connected": False}
    taken = connection.enqueued - connection.queued
    return {"waits_bytes": max(0, place - taken), "connected": connection.is_open}


def _alike(events: EventBatch, event: EventBatch) -> Ints:
    """The rows with the values of this one event, in the attributes that both spaces have; others must be absent."""
    alike = np.ones(len(events), bool)
    wanted: Mapping[str, Any] = dict(zip(event.space.names, event.records.columns, strict=True))
    for name, column in zip(events.space.names, events.records.columns, strict=True):
        value = wanted[name][0] if name in wanted else None
        if value is None or not value.is_valid:
            alike &= np.asarray(pc.is_null(column))
        else:
            try:
                equal = pc.fill_null(pc.equal(column, value), False)
                alike &= equal.to_numpy(zero_copy_only=False)
            except NotImplementedError:  # lists
                alike &= np.array([each == value.as_py() for each in column.to_pylist()], bool)
        if not alike.any():
            break
    return np.flatnonzero(alike)
