"""The witness of a broker: told of every event that comes, goes on and is handed over, it measures and remembers.

Rule: it changes nothing, and the broker's parts tell it once for each batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contentcast.live.links.connection import Connection
from contentcast.live.looking.memory import Handed, Memory, Numbered, events_of
from contentcast.live.looking.meters import Meters
from contentcast.model import EventBatch
from contentcast.routing.contract import Deliver, DeliverDurably, Ints
from contentcast.wire import Message


class Witness:
    def __init__(self, clock: Callable[[], float], remembered_bytes: int) -> None:
        self.clock = clock
        self.meters = Meters(clock())
        self.memory = Memory(remembered_bytes)

    def turns_to(self, at: float) -> None:
        """What is handled from now on came at this time."""
        self.meters.turn(at)

    @property
    def since(self) -> float:
        return self.meters.since

    def published(self, events: EventBatch, clients: tuple[tuple[str, int], ...]) -> None:
        """Clients published these, with their ids."""
        self.memory.came(self.clock(), events, "", clients)

    def accepted(self, space: str, count: int, since: float) -> None:
        """They are told so now; what was routed for it had waited since then."""
        now = self.clock()
        self.meters.published[space].add(count, now - since, now)

    def received(self, sender: str, message: Message) -> None:
        for events in events_of(message):
            self.meters.received[sender] += len(events)
            self.memory.came(self.clock(), events, sender)

    def sent(self, to: str, message: Message, connection: Connection | None) -> None:
        batches = events_of(message)
        if batches:
            now = self.clock()
            self.meters.links[to].add(sum(map(len, batches)), now - self.meters.since, now)
            self.memory.sent(now, to, batches, connection)

    def handed(
        self, effect: Deliver, names: list[str], slots: Ints, places: dict[int, tuple[Connection, int]], pairs: int
    ) -> None:
        now = self.clock()
        self.meters.delivered[effect.events.space.name].add(pairs, now - self.meters.since, now)
        self.memory.handed(Handed(now, effect.events.ids, effect.rows, effect.who, names, slots, places))

    def handed_durably(self, effect: DeliverDurably, connection: Connection) -> None:
        now = self.clock()
        self.meters.delivered[effect.events.space.name].add(len(effect.events), now - self.meters.since, now)
        numbered = Numbered(now, effect.subscription, effect.first, effect.events.ids, connection, connection.enqueued)
        self.memory.numbered(numbered)

    def beaten(self, link: str, round_trip_s: float) -> None:
        self.meters.beats[link].add(1, round_trip_s / 2, self.clock())

    def state(self) -> dict[str, Any]:
        return {"remembered_records": len(self.memory), "remembered_bytes": self.memory.bytes}
