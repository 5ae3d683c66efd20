"""A live broker: real sockets around the same router that runs in simulation.

    bytes -> links/connection -> payloads -> decoded -> inputs -> router.handle -> effects -> frames -> bytes

A turn (`links/turns`) takes everything that one wake-up of the event loop has brought: events that clients posted are put
together by space and matched at once, and each connection is written to once at the end.
Rule: everything happens in one event loop, in turns; the router is never entered twice.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from contentcast import catalog
from contentcast.hosting.perform import HostError, How, no_link, perform
from contentcast.live.alarms import Alarms
from contentcast.live.greeting import check_broker, spoken_protocol
from contentcast.live.links.connection import Connection
from contentcast.live.links.neighbours import BEAT_EVERY_S, Neighbours
from contentcast.live.links.throttle import Throttle
from contentcast.live.links.turns import Turns
from contentcast.live.listening import Listening
from contentcast.live.looking.log import Log
from contentcast.live.looking.witness import Witness
from contentcast.live.reception import Reception
from contentcast.live.records import MakeRecords, make_for
from contentcast.live.serving.deliveries import Deliveries
from contentcast.live.serving.requests import Serving
from contentcast.live.serving.sessions import Session
from contentcast.live.serving.space_news import SpaceNews
from contentcast.live.serving.spaces import LiveSpaces
from contentcast.live.settings.address import Address
from contentcast.live.settings.config import BrokerConfig
from contentcast.live.settings.identity import begin_life, read_identity
from contentcast.live.settings.limits import keeping
from contentcast.live.store import StoreError, check_is_there
from contentcast.live.warming import warm_up
from contentcast.model import ContentcastError
from contentcast.routing.contract import (
    Accepted,
    Account,
    Append,
    Changed,
    Declared,
    Deliver,
    DeliverDurably,
    Holds,
    Input,
    LinkLost,
    LinkUp,
    Received,
    Router,
    Send,
    SendTo,
    SetTimer,
    Started,
    Stopping,
    Synced,
    TimerFired,
    Trim,
)
from contentcast.routing.dice import Dice
from contentcast.routing.durable import Durable
from contentcast.routing.setup import Life, Setup
from contentcast.wire import DeclaredSpaces, WireError
from contentcast.wire.client import Ask, Hello

HOST: Final = "a live broker"
FIXED: Final = ("name", "listen", "join", "protocol", "options", "data", "http")
"""Settings that count until the broker starts again."""


class Broker:
    """`make_records`: where the router's records go; by itself to the data folder, or nowhere without one."""

    def __init__(self, config: BrokerConfig, *, log: Log | None = None, make_records: MakeRecords | None = None) -> None:
        config.check()
        self.is_durable = config.data is not None and catalog.Promise.DURABLE in catalog.protocol(config.protocol).promises
        self.read_config: Callable[[], BrokerConfig] | None = None
        """For `reload`: how it was configured."""
        self.failed: StoreError | None = None
        """Why it cannot go on: the disk."""
        on_disk = config.data if self.is_durable else None
        if on_disk is not None and (before := read_identity(on_disk)) is not None and before.has_log:
            check_is_there(on_disk, before.name)
        self._records = (make_records or make_for(on_disk, self._disk_failed))(lambda upto: self.put(Synced(upto)))
        try:
            identity = begin_life(config.name, config.data, self.is_durable)
        except BaseException:
            self._records.close()
            raise
        self.config = config
        self.name, self.incarnation = identity.name, identity.incarnation
        self.router: Router
        self.is_ready = False
        self.log = log or Log(config.log, self.name)
        self.spaces = LiveSpaces(config.limits)
        self._loop = asyncio.get_running_loop()
        self.witness = Witness(self._loop.time, config.limits.remembered_bytes)
        self.deliveries = Deliveries(self.witness)
        self.serving = Serving(self, self.spaces, self.deliveries, config.limits, config.access, config.on_slow)
        self.neighbours = Neighbours(self, config.limits, lambda: self._tls, self.witness)
        self.news = SpaceNews(self, self.spaces, lambda: [each.connection for each in self.neighbours.directs.values()])
        self.reception = Reception(self, self.serving, self.neighbours, self.spaces, config.limits)
        self.listening = Listening()
        self.throttle = Throttle(
            lambda: [each.connection for each in self.neighbours.links.values()],
            lambda: [each.connection for each in self.serving.sessions.values() if each.posted],
            lambda: [each.connection for each in self.serving.publications.ahead],
        )
        self.inputs = self.steps = self.turns_taken = 0
        self.started_at = 0.0
        self._turns = Turns(self._loop, self._turn)
        self._arrived: deque[tuple[Connection, bytes]] = deque()
        self._told: deque[Input] = deque()
        self._alarms = Alarms(self._loop, lambda timer: self.put(TimerFired(timer)))
        self._handling = False
        self._watch: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = config.tls.dialler() if config.tls else None
        self._stopping = False
        self.stopped = asyncio.Event()
        self.ended = asyncio.Event()
        """It has failed, and must be stopped."""
        self._how: How = {
            Send: self._send,
            SendTo: lambda effect: self.neighbours.send_to(effect.broker, effect.message),
            Deliver: self.deliveries.perform,
            SetTimer: self._alarms.set,
            Append: lambda effect: self._records.append(effect.record),
            Trim: lambda effect: self._records.trim(effect.before),
            Accepted: self.serving.publications.accepted,
            DeliverDurably: self.serving.durables.deliver,
            Holds: self.serving.durables.holds,
            Account: lambda effect: setattr(self, "steps", self.steps + int(effect.steps.sum())),
            Changed: lambda effect: None,
        }

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it listens, once it does."""
        return self.listening.addresses

    @property
    def durable(self) -> Durable | None:
        """The router, if it keeps what it accepts."""
        return self.router if isinstance(getattr(self, "router", None), Durable) else None  # type: ignore[return-value]

    # --- life

    async def start(self) -> None:
        config = self.config
        self.started_at = self._loop.time()
        await warm_up(config.protocol, self.note)
        await self.listening.open(config.listen, config.tls, lambda: self.connection(dialled=False))
        contacts = await self.neighbours.ask_names(config.join)
        setup = Setup(contacts=contacts, count_steps=False)
        dice = Dice(secrets.randbits(64))
        make = catalog.make_router(config.protocol, setup, durable=self.is_durable, **config.options)
        self.router = make(self.name, Life(self.incarnation, dice))
        if self.durable is not None:
            self.durable.keep(keeping(config.limits))
        self.handle(Started(*self._records.restored()))
        if self.durable is not None:
            for space in self.durable.router.spaces.named().values():
                self.spaces.declared(space)
        for space in config.spaces:
            self.handle(Declared(space))
            self.spaces.declared(space)
        self.serving.begin()
        self.news.begin(getattr(self.router, "needs_links", True))
        self.is_ready = True
        self.neighbours.keep(list(config.neighbours))
        self._beat()
        self._turns.want()
        if config.data is not None and not self.is_durable:
            self.note("nothing is durable", protocol=config.protocol, data=str(config.data), kept="the name alone")
        self.note("started", incarnation=self.incarnation, protocol=config.protocol, listen=", ".join(map(str, self.addresses)))

    async def stop(self) -> None:
        """In order: nobody new is taken, the router says what it has to say, and what is to be sent is sent."""
        if self._stopping:
            await self.stopped.wait()
            return
        self._stopping = True
        self.is_ready = False
        self.reception.is_closing = True
        self.listening.close()
        self._turn()
        if hasattr(self, "router"):
            self.handle(Stopping())
        self._turns.flush()
        await self._drain()
        await self.neighbours.close()
        for connection in list(self.reception.connections):
            connection.close()
        if self._watch is not None:
            self._watch.cancel()
        self._alarms.clear()
        self._records.close()
        self.note("stopped")
        self.stopped.set()

    def reload_by_signal(self) -> None:
        with suppress(ContentcastError):  # it stands in the log
            self.reload()

    def reload(self, read: Callable[[], BrokerConfig] | None = None) -> dict[str, Any]:
        """Takes what can change while it runs: neighbours, spaces, access, limits, certificates, the form of the log.

        What is wrong is noted and raised, and nothing changes.
        """
        read = read or self.read_config
        try:
            if read is None:
                raise ContentcastError(f"broker {self.name} was started without a configuration that can be read again")
            config = read()
            config.check()
            tls = config.tls.dialler() if config.tls else None
            self.listening.renew(config.tls)
        except ContentcastError as reason:
            self.note("not reloaded", reason=str(reason))
            raise
        kept = {each: getattr(self.config, each) for each in FIXED}
        # A broker without a name has made one up, and goes on with it.
        ignored = [each for each in FIXED if getattr(config, each) != kept[each] and not (each == "name" and not config.name)]
        self.config = replace(config, **kept)
        self._tls = tls
        self.log.write_as(config.log)
        self.reception.limits = self.spaces.limits = config.limits
        self.witness.memory.keep(config.limits.remembered_bytes)
        if self.durable is not None:
            self.durable.keep(keeping(config.limits))
        for space in config.spaces:
            self._route(Declared(space))
            self.spaces.declared(space)
        self.serving.reload(config.limits, config.access, config.on_slow)
        self.neighbours.reload(config.limits, self.spoken_protocol)
        self.neighbours.keep(list(config.neighbours))
        told = {"unchanged_until_restart": ", ".join(ignored) or "nothing"}
        self.note("reloaded", **told)
        return told

    async def _drain(self) -> None:
        until = self._loop.time() + self.config.limits.drain_s
        while self._loop.time() < until and (any(each.queued for each in self.reception.connections) or self._unsynced):
            await asyncio.sleep(0.01)

    @property
    def _unsynced(self) -> bool:
        """Does somebody wait for the disk?"""
        return self.durable is not None and self.durable.log.waiting > 0 and self.failed is None

    # --- connections

    def connection(self, dialled: bool) -> Connection:
        return Connection(self, self._turns, dialled=dialled)

    def made(self, connection: Connection) -> None:
        self.reception.made(connection)

    def arrived(self, connection: Connection, payloads: list[bytes]) -> None:
        self._arrived.extend((connection, payload) for payload in payloads)
        self._turns.want()

    def broken(self, connection: Connection, reason: WireError) -> None:
        self._turn()  # what came before it is whole
        self.reception.refuse(connection, "message", str(reason))

    def lost(self, connection: Connection, reason: str) -> None:
        self._turn()
        self.throttle.lost(connection)
        self.reception.lost(connection, reason)

    # --- turns

    def _turn(self) -> None:
        if self._handling:
            return
        self._handling = True
        self.turns_taken += 1
        try:
            while True:
                if self._told:
                    self.witness.turns_to(self._loop.time())
                    self._route(self._told.popleft())
                elif self._arrived:
                    connection, payload = self._arrived.popleft()
                    self.witness.turns_to(connection.heard_at)
                    self.reception.hear(connection, payload)
                elif self.serving.publications.has_posts:
                    self.serving.publications.publish()
                else:
                    break
        finally:
            self._handling = False
            self.neighbours.turn_ends()
        self.serving.publications.answer()
        self._check_links()

    def _check_links(self) -> None:
        self.throttle.check(self.config.limits.link_queue_bytes // 2)

    def handle(self, input: Input) -> None:
        """For what clients ask for: an error of the router is the caller's."""
        self.inputs += 1
        perform(self.router.handle(input, self._loop.time()), self._how, HOST)

    def put(self, input: Input) -> None:
        """In the next turn."""
        self._told.append(input)
        self._turns.want()

    def _route(self, input: Input) -> None:
        try:
            self.handle(input)
        except Exception as reason:
            self.reception.failures += 1
            self.log.failure("the router failed", reason, input=type(input).__name__)
            if isinstance(input, Received) and input.sender in self.neighbours.links:
                self.neighbours.links[input.sender].connection.abort()
            elif isinstance(reason, HostError):
                raise

    def received(self, input: Received) -> None:
        self.serving.publications.publish()
        self.witness.received(input.sender, input.message)
        if isinstance(input.message, DeclaredSpaces):
            for space in input.message.spaces:
                self.spaces.check(space)
        self._route(input)
        if isinstance(input.message, DeclaredSpaces):
            for space in input.message.spaces:
                self.spaces.declared(space)

    # --- effects

    def _send(self, effect: Send) -> None:
        peer = self.neighbours.links.get(effect.link)
        if peer is None:
            if any(isinstance(each, LinkLost) and each.link == effect.link for each in self._told):
                return  # the router will hear of it in this turn
            raise no_link(HOST, self.name, effect.link, self.neighbours.links)
        self.neighbours.send(peer, effect.message)

    def _disk_failed(self, reason: StoreError) -> None:
        """What was not synced was not accepted; whoever waits for it asks again when the broker is back."""
        self.failed = reason
        self.note("stops", reason=str(reason))
        self.ended.set()

    # --- for links

    def hello(self, role: str) -> Hello:
        told = self.config.advertise or tuple(each for each in self.addresses if not each.is_anywhere)
        addresses = tuple(map(str, told))
        return Hello(role, self.name, incarnation=self.incarnation, protocol=self.spoken_protocol, addresses=addresses)

    @property
    def spoken_protocol(self) -> str:
        return spoken_protocol(self.config.protocol, self.is_durable)

    def check_broker(self, connection: Connection, name: str, protocol: str) -> str:
        return check_broker(self.name, self.config, self.is_durable, connection.certificate(), name, protocol)

    def where(self, broker: str) -> str:
        _, addresses = self.neighbours.addresses.get(broker, (0, ()))
        return " or ".join(addresses) or "it; its address is not known here"

    def link_up(self, link: str, delay_s: float) -> None:
        self.note("link up", link=link, delay_ms=1000 * delay_s)
        self.put(LinkUp(link, delay_s))

    def link_changed(self, link: str, delay_s: float) -> None:
        """Another delay is worth no line in the log; `state` has it."""
        self.put(LinkUp(link, delay_s))

    def link_lost(self, link: str, reason: str) -> None:
        self.note("link lost", link=link, reason=reason)
        self.put(LinkLost(link))

    # --- watching over it

    def _beat(self) -> None:
        now = self._loop.time()
        self.neighbours.check(now)
        self.serving.check(now)
        self._check_links()
        self._watch = self._loop.call_later(BEAT_EVERY_S, self._beat)

    def note(self, what: str, **facts: Any) -> None:
        self.log.note(what, **facts)

    def answer(self, session: Session, ask: Ask) -> dict[str, Any]:
        from contentcast.live.looking.inspection import answer

        return answer(self, session, ask)

    async def __aenter__(self) -> Broker:
        try:
            await self.start()
        except BaseException:
            with suppress(Exception):
                await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
