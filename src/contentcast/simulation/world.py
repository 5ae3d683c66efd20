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

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from contentcast.hosting.costs import PAPER_FAST, Costs
from contentcast.network.topology import Topology
from contentcast.routing.contract import (
    Acknowledged,
    Advertised,
    Declared,
    DurablySubscribed,
    DurablyUnsubscribed,
    Input,
    Published,
    Received,
    Resumed,
    Router,
    Subscribed,
    Suspended,
    Unadvertised,
    Unsubscribed,
)
from contentcast.routing.setup import CLOCK_S, MakeRouter
from contentcast.simulation.agenda import Agenda, SimulationError
from contentcast.simulation.broker import Broker, Surroundings
from contentcast.simulation.clients import Clients, DurableClients
from contentcast.simulation.deliveries import Accounts, Deliveries
from contentcast.simulation.disk import Disk
from contentcast.simulation.network_changes import PERFECT, SUBSCRIPTION_BYTES, NetworkChanges
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

DURABLE: Final = (DurablySubscribed, DurablyUnsubscribed, Resumed, Suspended, Acknowledged)
CLIENTS: Final = (Published, Subscribed, Unsubscribed, Advertised, Unadvertised, Declared, *DURABLE)
"""What a client may tell its broker."""


class World(NetworkChanges):
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

    # --- looking inside

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
