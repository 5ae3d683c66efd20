"""What happens to a network while it runs: brokers crash, start again, join and leave; links are cut, mended and delayed.

    world.crash("b", at=1.0); world.restart("b", at=2.0); world.cut("a", "b"); world.join("e", [("a", 0.02)])

Without `at` it happens at once, before anything that was put for now.
Rule: who is told, and when, is decided here. A living end of a connection notices its loss after `detection_s`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from contentcast.network.topology import Link, Topology
from contentcast.routing.contract import LinkLost, LinkUp, Stopping
from contentcast.routing.setup import MakeRouter
from contentcast.simulation.agenda import SimulationError
from contentcast.simulation.broker import NO_MESSAGE, Broker, Surroundings
from contentcast.simulation.clients import Clients, DurableClients
from contentcast.simulation.outcomes import Outcomes
from contentcast.simulation.trace import Trace
from contentcast.simulation.ways.links import LinkQuality, SimulatedLink

SUBSCRIPTION_BYTES: Final = 0
"""What clients ask for costs the CPU a message; its bytes pass no link."""

PERFECT: Final = LinkQuality()


class NetworkChanges(Outcomes):
    """The part of `World` to which things happen; the world itself fills it."""

    topology: Topology
    seed: int
    trace: Trace | None
    detection_s: float
    names: list[str]
    durable: DurableClients
    _clients: dict[str, Clients]
    _around: Surroundings
    _make_router: MakeRouter
    _quality: LinkQuality | Mapping[tuple[str, str], LinkQuality]

    # --- brokers

    def crash(self, broker: str, at: float | None = None) -> None:
        """It stops: all it knew, all that waits for it and all that is under way to it is lost. What it has sent arrives."""
        if at is not None:
            self._broker(broker)
            return self.agenda.put(at, self.crash, broker)
        crashed = self._broker(broker)
        if not crashed.up:
            raise SimulationError(f"broker {broker} is down already; restart it first")
        self._say(f"crash {broker}")
        crashed.crash()
        self.durable.crashed(broker)
        for link in self._links_of(broker):
            self._review(link, crashed=broker)
            for direction in link.directions:
                if direction.receiver is crashed:  # also what another broker sent before it crashed itself
                    direction.lose()

    def restart(self, broker: str, at: float | None = None) -> None:
        """A new router of the next incarnation; its clients subscribe again, its links come up when they are noticed."""
        if at is not None:
            self._broker(broker)
            return self.agenda.put(at, self.restart, broker)
        started = self._broker(broker)
        if started.up:
            raise SimulationError(f"broker {broker} is running; crash it first")
        self._say(f"restart {broker}")
        self._start(started)
        for link in self._links_of(broker):
            self._review(link)

    def _start(self, broker: Broker) -> None:
        broker.start()
        for wanted in (*self._clients[broker.name].wanted(), *self.durable.wanted(broker.name)):
            broker.arrive(wanted, SUBSCRIPTION_BYTES)

    def join(self, broker: str, links: Iterable[tuple[str, float]] = (), at: float | None = None) -> None:
        """A broker comes to the running network, with links (neighbour, seconds one way); also one that has left before."""
        if at is not None:
            chosen = tuple(links)
            return self.agenda.put(at, lambda _: self.join(broker, chosen))
        self.topology = self.topology.with_broker(broker, [(broker, other, delay_s) for other, delay_s in links])
        self._say(f"join {broker}")
        if broker not in self._brokers:
            number = len(self.names)
            self.names.append(broker)
            self._clients[broker] = Clients()
            self._brokers[broker] = Broker(broker, number, self._make_router, self._around, self._left)
        for other in self.topology.neighbours(broker):
            self._make_link(self.topology.link(broker, other))
        self._change_network()
        self._start(self._brokers[broker])
        for link in self._links_of(broker):
            self._review(link)

    def leave(self, broker: str, at: float | None = None) -> None:
        """The broker is told that it stops, does what it still wants done, and is gone with its links; its clients too."""
        if at is not None:
            self._broker(broker)
            return self.agenda.put(at, self.leave, broker)
        leaving = self._broker(broker)
        if not leaving.up:
            raise SimulationError(f"broker {broker} is down; restart it before it can leave in order")
        self._say(f"leave {broker}")
        leaving.arrive(Stopping(), NO_MESSAGE)

    def _left(self, broker: Broker) -> None:
        if not broker.up or broker.name not in self.topology:
            return
        links = self._links_of(broker.name)
        broker.end()
        for link in links:
            self._review(link, crashed=broker.name)
            del self._links[link.link.one, link.link.other]
            for direction in link.directions:
                self._brokers[direction.sender].directions.pop(direction.receiver_name)
        self.topology = self.topology.without_broker(broker.name)
        self._clients[broker.name] = Clients()
        self._change_network()

    # --- links

    def cut(self, one: str, other: str, at: float | None = None) -> None:
        """The link carries nothing from now on, and loses what it carries. To cut a link that is cut changes nothing."""
        self._set_cut(one, other, True, at)

    def mend(self, one: str, other: str, at: float | None = None) -> None:
        self._set_cut(one, other, False, at)

    def _set_cut(self, one: str, other: str, is_cut: bool, at: float | None) -> None:
        link = self._link(one, other)
        if at is not None:
            return self.agenda.put(at, lambda _: self._set_cut(one, other, is_cut, None))
        if link.is_cut != is_cut:
            self._say(f"{'cut' if is_cut else 'mend'} {link.link.one}-{link.link.other}")
            link.is_cut = is_cut
            self._change_network()
            self._review(link)
            if is_cut:
                for direction in link.directions:
                    direction.lose()

    def partition(self, groups: Sequence[Iterable[str]], at: float | None = None) -> None:
        """Cut every link between different groups, and every LAN; brokers that are in none make one group together."""
        group_of = {broker: number for number, group in enumerate(groups, 1) for broker in group}
        for broker in group_of:
            self._broker(broker)
        if at is not None:
            return self.agenda.put(at, lambda _: self._part(group_of))
        self._part(group_of)

    def _part(self, group_of: Mapping[str, int]) -> None:
        sides: dict[int, list[str]] = {}
        for broker, number in group_of.items():
            sides.setdefault(number, []).append(broker)
        for segment in self._segments.values():
            segment.part([sides[number] for number in sorted(sides)])
        for one, other in self._links:
            if group_of.get(one) != group_of.get(other):
                self.cut(one, other)

    def heal(self, at: float | None = None) -> None:
        """Mend every link that is cut, and every LAN."""
        if at is not None:
            return self.agenda.put(at, lambda _: self.heal())
        for segment in self._segments.values():
            segment.heal()
        for one, other in self._links:
            self.mend(one, other)

    def delay(self, one: str, other: str, delay_s: float, at: float | None = None) -> None:
        """From now on the link takes so long. Nobody is told, and nothing overtakes what is under way."""
        link = self._link(one, other)
        if at is not None:
            return self.agenda.put(at, lambda _: self.delay(one, other, delay_s))
        self._say(f"delay {link.link.one}-{link.link.other} {delay_s!r}")
        for direction in link.directions:
            direction.delay_s = delay_s
        self._change_network()

    def stall(self, broker: str, seconds: float, at: float | None = None) -> None:
        """The broker's CPU does nothing for it for so long."""
        stalled = self._broker(broker)
        if at is not None:
            return self.agenda.put(at, lambda _: self.stall(broker, seconds))
        self._say(f"stall {broker} {seconds!r}")
        if stalled.up:
            stalled.stall(seconds)

    # --- connections

    def _make_link(self, link: Link) -> SimulatedLink:
        quality = (
            self._quality if isinstance(self._quality, LinkQuality) else self._quality.get((link.one, link.other), PERFECT)
        )
        made = self._links[link.one, link.other] = SimulatedLink(link, quality, self.seed, self.agenda)
        for direction in made.directions:
            self._brokers[direction.sender].directions[direction.receiver_name] = direction
            direction.receiver = self._brokers[direction.receiver_name]
        return made

    def _change_network(self) -> None:
        """After links or brokers came or went: the ways of messages to any broker."""
        whole = tuple(each.link for each in self._links.values() if not each.is_cut)
        directions = {(way.sender, way.receiver_name): way for each in self._links.values() for way in each.directions}
        self._underlay.changed(Topology(self.topology.brokers, tuple(sorted(whole))), directions)

    def _review(self, link: SimulatedLink, crashed: str = "") -> None:
        """After a cut, a mend, a crash or a restart: end the connection, or plan the next one."""
        ends = (self._brokers[link.link.one], self._brokers[link.link.other])
        wanted = not link.is_cut and ends[0].up and ends[1].up
        if wanted == link.wanted:
            return
        link.wanted = wanted
        link.attempt += 1
        if wanted:
            connects = max(self.now + self.detection_s, link.unnoticed_until)
            self.agenda.put(connects, self._connect, (link, link.attempt))
        elif link.connected:
            notices = link.unnoticed_until = self.now + self.detection_s
            for direction in link.directions:
                if direction.sender == crashed:  # what it sent still arrives, until the other end gives the connection up
                    direction.lose(left_after=self.now, arriving_after=notices)
                else:
                    direction.lose()
            for end in ends:
                if end.up:
                    self.agenda.put(notices, self._notice, (end, end.incarnation, link.link.beyond(end.name)))

    def _connect(self, told: tuple[SimulatedLink, int]) -> None:
        link, attempt = told
        if attempt != link.attempt:
            return
        link.connect()
        for direction in link.directions:
            self._brokers[direction.sender].arrive(LinkUp(direction.receiver_name, link.link.delay_s), NO_MESSAGE)

    def _notice(self, told: tuple[Broker, int, str]) -> None:
        end, incarnation, neighbour = told
        if end.up and end.incarnation == incarnation:
            end.arrive(LinkLost(neighbour), NO_MESSAGE)

    def _say(self, what: str) -> None:
        if self.trace is not None:
            self.trace.write(self.now, what)

    # --- who is who

    def _broker(self, name: str) -> Broker:
        found = self._brokers.get(name)
        if found is None or name not in self.topology:
            self.topology.number(name)  # names the nearest
        assert found is not None
        return found

    def _link(self, one: str, other: str) -> SimulatedLink:
        link = self.topology.link(one, other)
        return self._links[link.one, link.other]

    def _links_of(self, broker: str) -> list[SimulatedLink]:
        return [self._link(broker, other) for other in self.topology.neighbours(broker)]
