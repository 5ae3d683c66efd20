"""The network as this broker knows it: who has which links, and the ways that follow from it.

Topic `links`: each broker tells all its links in every version. A link is there if both ends say so.
Rule: the topology is made anew only when links have changed; what is computed from it belongs to that topology.
"""

from __future__ import annotations

from typing import Any

from contentcast.network.topology import Link, Topology
from contentcast.routing.contract import Effect, Input, LinkLost, LinkUp
from contentcast.routing.destinations import Exits
from contentcast.routing.parts.versions import Versions
from contentcast.routing.setup import Setup
from contentcast.wire import Mark, Neighbours

Links = tuple[tuple[str, float], ...]


class NetworkView:
    topic = Neighbours.topic

    def __init__(self, broker: str, setup: Setup, versions: Versions) -> None:
        self.broker = broker
        self._versions = versions
        self._told: dict[str, Links] = {broker: ()}
        self._topology: Topology | None = None
        self._onward: dict[str, tuple[str, ...]] = {}
        self._exits: Exits | None = None
        versions.take(self)
        if setup.topology is not None:
            self._configure(setup.topology, first_life=setup.incarnation == 1)

    def _configure(self, topology: Topology, first_life: bool) -> None:
        """Who starts again does not know which of its links still work: it is told by LinkUp."""
        for each in topology.brokers:
            if each != self.broker or first_life:
                self._told[each] = tuple((other, topology.link(each, other).delay_s) for other in topology.neighbours(each))
                self._versions.preset(each, self.topic)
        self._versions.links.update(self._told[self.broker])

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Before `versions`, which tells the new neighbour how far this broker has heard."""
        links = self._versions.links
        match input:
            case LinkUp(link, delay_s) if links.get(link) != delay_s:
                links[link] = delay_s
                return self._tell_links()
            case LinkLost(link) if link in links:
                del links[link]
                return self._tell_links()
        return []

    def _tell_links(self) -> list[Effect]:
        self._told[self.broker] = tuple(sorted(self._versions.links.items()))
        self._topology = None
        self._versions.next(self.topic)
        return self._versions.tell(self.tell(self.broker, self._versions.mark(self.broker), 0))

    # --- the topic

    def hear(self, told: Neighbours) -> None:
        if self._told.get(told.origin) != told.links:
            self._told[told.origin] = told.links
            self._topology = None

    def forget(self, origin: str) -> None:
        if self._told.pop(origin, ()):
            self._topology = None

    def tell(self, origin: str, mark: Mark, since: int) -> Neighbours:
        return Neighbours(origin, mark.incarnation, mark.of(self.topic), self._told[origin])

    # --- what follows from it

    @property
    def topology(self) -> Topology:
        """The links that both ends say they have."""
        if self._topology is None:
            told = {origin: dict(links) for origin, links in self._told.items()}
            links = [
                Link(one, other, delay_s)
                for one, all_links in told.items()
                for other, delay_s in all_links.items()
                if one < other and one in told.get(other, {})
            ]
            self._topology = Topology.of(told, links)
            self._onward = {}
        return self._topology

    def onward(self, origin: str) -> tuple[str, ...]:
        """To whom this broker passes on what entered at `origin`, if all are to have it."""
        topology = self.topology
        found = self._onward.get(origin)
        if found is None:
            found = tuple(topology.children(origin, self.broker)) if origin in topology else ()
            self._onward[origin] = found
        return found

    def exits(self) -> Exits:
        """By which link each publisher's events leave this broker for each other."""
        topology = self.topology
        if self._exits is None or self._exits.topology is not topology:
            self._exits = Exits(topology, self.broker)
        return self._exits

    def sizes(self) -> dict[str, int]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"brokers": sorted(self._told)}
