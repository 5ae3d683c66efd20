"""A network of brokers in virtual time: it tells routers what happens to them and performs what they want done.

    world = World(topology, make_router, seed=7)
    world.put("c", Subscribed(CHEAP)); world.put("a", Published(TRADE), at=1.0)
    world.cut("a", "b", at=2.0); world.mend("a", "b", at=3.0)
    world.run().delivered                                               # [("desk-7", 1)]

The routers are the real ones; only links, CPUs, clients and time are played. An event's latency runs from the moment it enters
its publishing broker's queue to its arrival at the subscriber, `client_delay_s` after the last broker let go of it.
Rule: same arguments, same calls: same trace, byte for byte. Nothing here asks the machine for time or chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from contentcast.hosting.costs import PAPER_FAST, Costs
from contentcast.network.topology import Link, Topology
from contentcast.routing.contract import (
    Acknowledged,
    Advertised,
    Declared,
    DurablySubscribed,
    DurablyUnsubscribed,
    Input,
    LinkLost,
    LinkUp,
    Published,
    Received,
    Resumed,
    Router,
    Stopping,
    Subscribed,
    Suspended,
    Unadvertised,
    Unsubscribed,
)
from contentcast.routing.setup import CLOCK_S, MakeRouter
from contentcast.simulation.agenda import Agenda, SimulationError
from contentcast.simulation.broker import NO_MESSAGE, Broker, Surroundings
from contentcast.simulation.clients import Clients, DurableClients
from contentcast.simulation.deliveries import Accounts, Deliveries
from contentcast.simulation.disk import Disk
from contentcast.simulation.outcomes import Outcomes
from contentcast.simulation.trace import Trace
from contentcast.simulation.ways.links import LinkQuality, SimulatedLink
from contentcast.simulation.ways.parcels import MessageBytes, Scales
from contentcast.simulation.ways.segment import Segment, SegmentPlan
from contentcast.simulation.ways.underlay import Underlay
from contentcast.wire import Publish

DETECTION_S: Final = 0.1
"""How long a living end takes to notice that a connection is lost, and that it can be had again."""

SYNC_S: Final = 0.002
"""How long a disk takes to make safe what was written."""

SUBSCRIPTION_BYTES: Final = 0
"""What clients ask for costs the CPU a message; its bytes pass no link."""

PERFECT: Final = LinkQuality()

DURABLE: Final = (DurablySubscribed, DurablyUnsubscribed, Resumed, Suspended, Acknowledged)
CLIENTS: Final = (Published, Subscribed, Unsubscribed, Advertised, Unadvertised, Declared, *DURABLE)
"""What a client may tell its broker."""


class World(Outcomes):
    """`make_router(broker, life)` makes the router of each start of a broker, from incarnation 1.

    `links` is the quality of all links, or of some by their ends. `announce=False`: the routers are told the network when they
    are made and hear no LinkUp at the start. `codec`: every message goes through the wire's encoding. `accounts`: keep the
    steps of each event at each broker. `watch`: brokers whose queue lengths are kept over time. `segments`: the LANs; unless
    told, all brokers are on one. `direct_s`: the delay of every message to any broker; unless told, that of the way there.
    """

    def __init__(
        self,
        topology: Topology,
        make_router: MakeRouter,
        *,
        seed: int = 0,
        costs: Costs = PAPER_FAST,
        links: LinkQuality | Mapping[tuple[str, str], LinkQuality] = PERFECT,
        codec: bool = False,
        trace: Trace | None = None,
        client_delay_s: float = 0.001,
        detection_s: float = DETECTION_S,
        announce: bool = True,
        accounts: bool = False,
        watch: Iterable[str] = (),
        message_bytes: MessageBytes | None = None,
        segments: Iterable[SegmentPlan] = (SegmentPlan(),),
        direct_s: float | None = None,
        sync_s: float = SYNC_S,
        clock_s: float = CLOCK_S,
    ) -> None:
        self.topology = topology
        self.seed = seed
        self.agenda = Agenda()
        self.trace = trace
        self.detection_s = detection_s
        self.unpublished: list[int] = []
        """Ids of events that came to a broker that was down."""
        self.names: list[str] = list(topology.brokers)
        """All brokers that there ever were; a broker's number is its place."""
        self._make_router = make_router
        self._quality = links
        self._deliveries = Deliveries(self.names, client_delay_s)
        self.durable = DurableClients(self.agenda, client_delay_s, self._say_durably)
        """What durable subscribers have got, and what publishers were told."""
        self._accounts = Accounts(self.names) if accounts else None
        self._scales = Scales(message_bytes, codec)
        direct = links if isinstance(links, LinkQuality) else PERFECT
        self._underlay = Underlay(self.agenda, seed, direct, direct_s, self._reach)
        self._segments = {plan.name: Segment(plan, self.agenda, seed, self._reach) for plan in segments}
        self._around = Surroundings(
            self.agenda,
            costs,
            self._scales,
            self._deliveries,
            self.durable,
            self._accounts,
            trace,
            self._underlay,
            tuple(self._segments.values()),
            seed,
            sync_s,
            clock_s,
        )
        self._clients = {name: Clients() for name in topology.brokers}
        self._brokers = {
            name: Broker(name, at, make_router, self._around, self._left) for at, name in enumerate(topology.brokers)
        }
        self._links: dict[tuple[str, str], SimulatedLink] = {}
        for link in topology.links:
            made = self._make_link(link)
            made.wanted = True
            if announce:
                self.agenda.put(0.0, self._connect, (made, made.attempt))
            else:
                made.connect()
                for direction in made.directions:
                    direction.working, direction.heard = True, direction.told
        self._change_network()
        for name in watch:
            self._broker(name).history = [(0.0, 0)]
        for broker in self._brokers.values():
            broker.start()

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

    def _reach(self, broker: str, input: Received, size: int) -> None:
        """A message that came directly or over a group; one for a broker that is down is lost."""
        reached = self._brokers.get(broker)
        if reached is not None and reached.up:
            reached.arrive(input, size)

    # --- what clients do

    def put(self, broker: str, input: Input, at: float | None = None) -> None:
        """A client of this broker publishes, subscribes, advertises, takes it back or declares a space, now or later."""
        if not isinstance(input, CLIENTS):
            raise SimulationError(
                f"clients publish, subscribe, advertise and declare; {type(input).__name__} comes of what a router does and of "
                "cut, mend, crash, restart, join and leave"
            )
        self._broker(broker)
        self.agenda.put(self.now if at is None else at, self._enter, (broker, input))

    def feed(self, inputs: Iterable[tuple[float, str, Input]]) -> None:
        """A stream of (time, broker, input) in the order of time, read as time passes: only the next is on the agenda."""
        self._feed_next(iter(inputs))

    def _feed_next(self, inputs: Iterator[tuple[float, str, Input]]) -> None:
        for time, broker, input in inputs:
            self.agenda.put(time, self._feed, (broker, input, inputs))
            return

    def _feed(self, told: tuple[str, Input, Iterator[tuple[float, str, Input]]]) -> None:
        broker, input, inputs = told
        self._feed_next(inputs)
        self._enter((broker, input))

    def _enter(self, told: tuple[str, Any]) -> None:
        name, input = told
        broker = self._broker(name)
        if type(input) is Published:
            if not broker.up:
                self.unpublished += input.events.ids.to_pylist()
                return
            self._deliveries.note_published(input.events, self.now)
            # As the broker will send it on, so that the batch is measured once.
            broker.arrive(input, self._scales.size(Publish(name, broker.incarnation, 0, input.events)))
            return
        if isinstance(input, DURABLE):
            for each in self.durable.said(name, input):
                self._say_durably(name, each)
            return
        self._clients[name].note(input)
        if broker.up:
            broker.arrive(input, SUBSCRIPTION_BYTES)

    def _say_durably(self, name: str, input: Input) -> None:
        if self._brokers[name].up:
            self._brokers[name].arrive(input, SUBSCRIPTION_BYTES)

    # --- time

    def run(self, until: float | None = None, most_steps: int | None = None) -> World:
        """Until this time, or until quiet: nothing is under way, waits or is planned, and all clients have what is theirs."""
        if not self.agenda.run(until, most_steps):
            raise SimulationError(
                f"not quiet after {most_steps:,} steps, at {self.now:.3f} s with {len(self.agenda):,} to come; "
                "run(until=...) ends at a time"
            )
        if until is None:
            self.agenda.now = max(self.now, self._deliveries.last_at + self._deliveries.client_delay_s)
        return self

    # --- faults: without `at` they happen at once, before anything that was put for now

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

    def router(self, broker: str) -> Router:
        """To look inside: what it returns has `state()`."""
        return self._broker(broker).router

    def disk(self, broker: str) -> Disk:
        """What has survived of this broker."""
        return self._broker(broker).disk

    def is_up(self, broker: str) -> bool:
        return self._broker(broker).up

    def incarnation(self, broker: str) -> int:
        return self._broker(broker).incarnation
