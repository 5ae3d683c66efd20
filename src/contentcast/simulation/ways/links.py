"""Links in virtual time: delay, bandwidth, loss, duplication, reordering; and whether there is a connection at all.

A message that a broker has ready at t waits until its direction of the link is free, takes size / bandwidth to get out, and
arrives `delay_s` later:

    ready 0.000   1000 bytes at 100 kB/s, 10 ms     leaves 0.010   arrives 0.020
    ready 0.004   1000 bytes                        leaves 0.020   arrives 0.030

A link carries one *connection* after the other, as TCP does. A cut or a crash ends it at once, and what is under way is lost;
each living end is told LinkLost when it notices. When the link works again and both ends have noticed, both are told LinkUp:
the next connection. What a router sends before it has heard of the current connection was meant for a former one, and is lost.
Rule: every direction of every link has dice of its own, made of the seed and its name. What happens on one changes no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

from contentcast.network.topology import Link
from contentcast.routing.contract import Input, Received
from contentcast.simulation.agenda import Agenda, SimulationError, Step
from contentcast.simulation.ways.parcels import Parcel


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """`loss` and `duplicate`: probabilities for each message. `jitter_s`: extra delay from 0 to this, so messages overtake."""

    loss: float = 0.0
    duplicate: float = 0.0
    jitter_s: float = 0.0

    def __post_init__(self) -> None:
        for name, value, most in (
            ("loss", self.loss, 1.0),
            ("duplicate", self.duplicate, 1.0),
            ("jitter_s", self.jitter_s, 3600),
        ):
            if not 0 <= value <= most:
                raise SimulationError(f"link quality: {name} goes from 0 to {most:g}, got {value!r}")

    @property
    def is_perfect(self) -> bool:
        return not (self.loss or self.duplicate or self.jitter_s)


class Receiver(Protocol):
    """The far end of a direction."""

    def arrive(self, input: Input, size: int) -> None: ...


class Direction:
    """One way of a link, with what it has carried.

    `messages`, `events` (copies of events in them) and `bytes` count what was sent into it, lost or not; `refused` what was
    sent while there was no connection.
    """

    __slots__ = (
        "_last_arrival",
        "agenda",
        "arrives",
        "bandwidth",
        "busy_s",
        "bytes",
        "connected",
        "delay_s",
        "dice",
        "duplicated",
        "events",
        "free_at",
        "heard",
        "lost",
        "messages",
        "quality",
        "receiver",
        "receiver_name",
        "refused",
        "sender",
        "told",
        "working",
    )

    def __init__(self, link: Link, sender: str, quality: LinkQuality, seed: int, agenda: Agenda) -> None:
        self.sender = sender
        self.receiver_name = link.beyond(sender)
        self.receiver: Receiver
        self.delay_s = link.delay_s
        self.bandwidth = link.bandwidth
        self.quality = quality
        # A text as seed goes through SHA-512: the same on every machine, and unlike the seeds next to it.
        self.dice = None if quality.is_perfect else Random(f"{seed} {sender} > {self.receiver_name}")
        self.agenda = agenda
        self.arrives = self._arrive  # bound once: steps are found again by it
        self.connected = False
        """Is there a connection?"""
        self.told = self.heard = 0
        """LinkUps put into the sender's queue, and those that its router has handled."""
        self.working = False
        """There is a connection and the sender's router has heard of it."""
        self.free_at = self._last_arrival = 0.0
        self.messages = self.events = self.bytes = self.lost = self.duplicated = self.refused = 0
        self.busy_s = 0.0

    def send(self, parcel: Parcel, ready: float) -> None:
        if not self.working:
            self.refused += 1
            return
        size = parcel.size
        self.messages += 1
        self.events += parcel.events
        self.bytes += size
        if self.bandwidth is not None:
            took = size / self.bandwidth
            if ready < self.free_at:
                ready = self.free_at
            ready += took
            self.free_at = ready
            self.busy_s += took
        at = ready + self.delay_s
        if self.dice is not None:
            self._send_by_dice(parcel, ready, at)
            return
        if at < self._last_arrival:  # a link that became faster still keeps the order
            at = self._last_arrival
        self._last_arrival = at
        self.agenda.put(at, self.arrives, (parcel, ready))

    def _send_by_dice(self, parcel: Parcel, leaves: float, at: float) -> None:
        # Four throws for every message, whatever comes of them: a message's luck does not depend on that of those before it.
        assert self.dice is not None
        random, quality = self.dice.random, self.quality
        lost, twice, late, later = random() < quality.loss, random() < quality.duplicate, random(), random()
        if lost:
            self.lost += 1
            return
        self.agenda.put(at + late * quality.jitter_s, self.arrives, (parcel, leaves))
        if twice:
            self.duplicated += 1
            self.agenda.put(at + later * quality.jitter_s, self.arrives, (parcel, leaves))

    def _arrive(self, told: tuple[Parcel, float]) -> None:
        parcel = told[0]
        self.receiver.arrive(Received(self.sender, parcel.opened()), parcel.size)

    def lose(self, left_after: float = -1.0, arriving_after: float = -1.0) -> None:
        """What is under way and left later than that, or arrives later than that, never arrives."""

        def is_lost(step: Step) -> bool:
            return step[2] is self.arrives and (step[3][1] > left_after or step[0] > arriving_after)

        self.lost += len(self.agenda.drop(is_lost))
        self.working = self.connected = False
        self.free_at = self._last_arrival = self.agenda.now


class SimulatedLink:
    """Both directions, and how far the ends are with their connection. `attempt` makes former plans to connect void."""

    __slots__ = ("attempt", "back", "is_cut", "link", "there", "unnoticed_until", "wanted")

    def __init__(self, link: Link, quality: LinkQuality, seed: int, agenda: Agenda) -> None:
        self.link = link
        self.there = Direction(link, link.one, quality, seed, agenda)
        self.back = Direction(link, link.other, quality, seed, agenda)
        self.is_cut = self.wanted = False
        self.attempt = 0
        self.unnoticed_until = 0.0

    @property
    def connected(self) -> bool:
        return self.there.connected

    def connect(self) -> None:
        for direction in (self.there, self.back):
            direction.connected = True
            direction.told += 1

    @property
    def directions(self) -> tuple[Direction, Direction]:
        return self.there, self.back
