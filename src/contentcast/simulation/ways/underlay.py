"""Messages to any broker: the way through the network below, without the brokers on it.

A `SendTo` takes the way of least delay over links that are not cut. Brokers on the way do not see it, and a broker that is down
does not stop it; bandwidth and queues of links are not played for it. It counts as a message on every link that it crosses. A
network without links is a set of nodes that reach each other directly, each message `direct_s` on its way.
Rule: every pair of sender and receiver has dice of its own, made of the seed and their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from random import Random
from typing import Final

from contentcast.network.topology import Topology
from contentcast.routing.contract import DIRECT, Received
from contentcast.simulation.agenda import Agenda
from contentcast.simulation.ways.links import Direction, LinkQuality
from contentcast.simulation.ways.parcels import Parcel

DIRECT_S: Final = 0.05
"""The delay of a message between two nodes of a network without links: Baldoni et al. 2005, section 5.1."""

Deliverer = Callable[[str, Received, int], None]


class Underlay:
    """`arrive(broker, input, size)` hands a message over; `quality` says what a link does to it."""

    def __init__(self, agenda: Agenda, seed: int, quality: LinkQuality, direct_s: float | None, arrive: Deliverer) -> None:
        self.messages = self.bytes = self.crossed = self.lost = 0
        self._agenda = agenda
        self._seed = seed
        self._quality = quality
        self._direct_s = direct_s
        self._arrive = arrive
        self._topology: Topology | None = None
        self._directions: Mapping[tuple[str, str], Direction] = {}
        self._dice: dict[tuple[str, str], Random] = {}
        self._ways: dict[tuple[str, str], tuple[float, tuple[Direction, ...]] | None] = {}

    def changed(self, topology: Topology, directions: Mapping[tuple[str, str], Direction]) -> None:
        """The network without its cut links, and the directions of its links."""
        self._topology = topology
        self._directions = directions
        self._ways.clear()

    def send(self, sender: str, receiver: str, parcel: Parcel, ready: float) -> None:
        self.messages += 1
        self.bytes += parcel.size
        way = self._way(sender, receiver)
        if way is None:
            self.lost += 1
            return
        delay_s, links = way
        self.crossed += max(1, len(links))
        for link in links:
            link.messages += 1
            link.events += parcel.events
            link.bytes += parcel.size
        if not self._quality.is_perfect:
            dice = self._dice_of(sender, receiver)
            hops = max(1, len(links))
            lost = any(dice.random() < self._quality.loss for _ in range(hops))
            delay_s += sum(dice.random() for _ in range(hops)) * self._quality.jitter_s
            if lost:
                self.lost += 1
                return
        self._agenda.put(ready + delay_s, self._arrives, (sender, receiver, parcel))

    def _way(self, sender: str, receiver: str) -> tuple[float, tuple[Direction, ...]] | None:
        """Seconds and links from one to the other; None if there is no way."""
        if (sender, receiver) not in self._ways:
            self._ways[sender, receiver] = self._found(sender, receiver)
        return self._ways[sender, receiver]

    def _found(self, sender: str, receiver: str) -> tuple[float, tuple[Direction, ...]] | None:
        topology = self._topology
        if topology is None or sender not in topology or receiver not in topology:
            return None
        if self._direct_s is not None or not self._directions:
            return (DIRECT_S if self._direct_s is None else self._direct_s), ()
        path = topology.path(sender, receiver)
        if not path:
            return None
        links = tuple(self._directions[step] for step in pairwise(path))
        return sum(each.delay_s for each in links), links

    def _dice_of(self, sender: str, receiver: str) -> Random:
        found = self._dice.get((sender, receiver))
        if found is None:
            found = self._dice[sender, receiver] = Random(f"{self._seed} direct {sender} > {receiver}")
        return found

    def _arrives(self, told: tuple[str, str, Parcel]) -> None:
        sender, receiver, parcel = told
        self._arrive(receiver, Received(sender, parcel.opened(), DIRECT), parcel.size)
