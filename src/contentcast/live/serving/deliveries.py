"""From `Deliver` to the clients: which session gets which events, with the numbers of the subscriptions they satisfy.

    Deliver   rows [0, 0, 2]   who [0, 1, 1]   subscribers ["desk-7#12", "desk-7#13"]
    desk-7    events 0 and 2 once each, with the numbers [[1, 2], [2]]

Events that several clients get alike are encoded once.
Rule: nothing here loops over events; there is one step for each client that gets something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.live.links.connection import Connection
from contentcast.live.looking.memory import LEFT_OUT
from contentcast.live.looking.witness import Witness
from contentcast.live.serving.sessions import Session, Standing, sort_into
from contentcast.routing.contract import Deliver
from contentcast.wire.client import encode_events

Ints = npt.NDArray[np.int64]

KEPT_LISTS: Final = 8


class Listed(NamedTuple):
    """A router's list of subscribers: for each the slot of its session (-1: gone) and its number there."""

    subscribers: object
    slots: Ints
    numbers: Ints
    sessions: list[Session]
    names: list[str]
    counts: Ints
    """How many events each has accepted since the list was made."""


class Deliveries:
    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._standing: dict[str, Standing] = {}
        self._listed: dict[int, Listed] = {}
        self._accepted: dict[str, int] = {}
        self.events = 0
        """Deliveries: (event, client) pairs, without those that were left out."""
        self.orphans = 0
        """Pairs for subscribers that have gone meanwhile."""

    def __len__(self) -> int:
        return len(self._standing)

    def take(self, standings: Mapping[str, Standing]) -> None:
        """Subscriptions by the names that the router knows."""
        self._standing.update(standings)
        self._forget_lists()

    def drop(self, name: str) -> None:
        if self._standing.pop(name, None) is not None:
            self._forget_lists()
            self._accepted.pop(name, None)

    def standing(self, name: str) -> Standing | None:
        return self._standing.get(name)

    def accepted(self) -> dict[str, int]:
        """For each subscription how many events it has accepted."""
        found = {name: self._accepted.get(name, 0) for name in self._standing}
        for listed in self._listed.values():
            for at in np.flatnonzero(listed.counts).tolist():
                if listed.names[at] in found:
                    found[listed.names[at]] += int(listed.counts[at])
        return found

    def _forget_lists(self) -> None:
        for listed in self._listed.values():
            for at in np.flatnonzero(listed.counts).tolist():
                name = listed.names[at]
                if name in self._standing:
                    self._accepted[name] = self._accepted.get(name, 0) + int(listed.counts[at])
        self._listed.clear()

    def perform(self, effect: Deliver) -> None:
        listed = self._find(effect.subscribers)
        who = effect.who
        np.add.at(listed.counts, who, 1)
        slots, rows, numbers = listed.slots[who], effect.rows, listed.numbers[who]
        if len(slots) and int(slots.min()) < 0:
            here = np.flatnonzero(slots >= 0)
            self.orphans += len(slots) - len(here)
            slots, rows, numbers = slots[here], rows[here], numbers[here]
        if not len(slots):
            return
        events = effect.events
        _, rows, numbers, parts = sort_into(slots, rows, numbers)
        written: dict[bytes, tuple[int, bytes]] = {}
        places: dict[int, tuple[Connection, int]] = {}
        before = self.events
        for slot, begin, end in parts:
            mine = rows[begin:end]
            firsts = np.flatnonzero(np.diff(mine, prepend=-1))
            chosen = mine[firsts]
            key = chosen.tobytes()
            found = written.get(key)
            if found is None:
                whole = len(chosen) == len(events)
                found = written[key] = encode_events(events if whole else events.take(chosen))
            pairs = np.diff(firsts, append=len(mine))
            session = listed.sessions[slot]
            is_queued = session.deliver(events.space, len(chosen), *found, pairs, numbers[begin:end])
            self.events += len(chosen) * is_queued
            places[slot] = (session.connection, session.connection.enqueued if is_queued else LEFT_OUT)
        self._witness.handed(effect, listed.names, listed.slots, places, self.events - before)

    def _find(self, subscribers: object) -> Listed:
        """Routers hand over the same list until their subscriptions change."""
        found = self._listed.get(id(subscribers))
        if found is not None and found.subscribers is subscribers:
            return found
        names: list[str] = list(subscribers)  # type: ignore[call-overload]
        sessions: list[Session] = []
        slot_of: dict[int, int] = {}
        slots = np.full(len(names), -1, np.int64)
        numbers = np.zeros(len(names), np.int64)
        for at, name in enumerate(names):
            standing = self._standing.get(name)
            if standing is None:
                continue
            slot = slot_of.get(id(standing.session))
            if slot is None:
                slot = slot_of[id(standing.session)] = len(sessions)
                sessions.append(standing.session)
            slots[at], numbers[at] = slot, standing.number
        if len(self._listed) >= KEPT_LISTS:
            self._forget_lists()
        counts = np.zeros(len(names), np.int64)
        found = self._listed[id(subscribers)] = Listed(subscribers, slots, numbers, sessions, names, counts)
        return found
