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
from contentcast.hosting.timers import Timers
from contentcast.live.greeting import check_broker, check_greeting
from contentcast.live.links.connection import Connection
from contentcast.live.links.neighbours import BEAT_EVERY_S, Calling, Neighbours, Peer, Refusal
from contentcast.live.links.turns import Turns
from contentcast.live.looking.log import Log
from contentcast.live.records import InMemory, Records
from contentcast.live.serving.deliveries import Deliveries
from contentcast.live.serving.requests import Serving
from contentcast.live.serving.sessions import Session
from contentcast.live.serving.spaces import LiveSpaces
from contentcast.live.settings.address import Address
from contentcast.live.settings.config import BrokerConfig
from contentcast.live.settings.identity import begin_life
from contentcast.live.settings.limits import LimitError
from contentcast.live.warming import warm
from contentcast.model import ContentcastError
from contentcast.routing.contract import (
    DIRECT,
    Account,
    Append,
    Changed,
    Declared,
    Deliver,
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
    Timer,
    TimerFired,
)
from contentcast.routing.dice import Dice
from contentcast.routing.setup import Life, Setup
from contentcast.wire import DeclaredSpaces, Message, WireError, decode, encode, frame, spaces_of
from contentcast.wire.client import (
    Addresses,
    Ask,
    Beat,
    Direct,
    Failed,
    Hello,
    Spaces,
    Welcome,
)

HOST: Final = "a live broker"
FIXED: Final = ("name", "listen", "protocol", "data", "http")
"""Settings that count until the broker starts again."""
WARM_S: Final = 5.0
"""Longer than it takes to load kernels that were compiled before."""
MakeRecords = Callable[[Callable[[int], None]], Records]


class Broker:
    """`make_records`: where the router's records go; in memory unless told."""

    def __init__(self, config: BrokerConfig, *, log: Log | None = None, make_records: MakeRecords = InMemory) -> None:
        config.check()
        catalog.protocol(config.protocol)
        identity = begin_life(config.name, config.data)
        self.config = config
        self.name, self.incarnation = identity.name, identity.incarnation
        self.addresses: tuple[Address, ...] = ()
        """Where it listens, once it does."""
        self.router: Router
        self.is_ready = False
        self.log = log or Log(config.log, self.name)
        self.spaces = LiveSpaces(config.limits)
        self.deliveries = Deliveries()
        self.serving = Serving(self, self.spaces, self.deliveries, config.limits, config.access, config.on_slow)
        self.neighbours = Neighbours(self, config.limits, self._dialling_tls)
        self.failures = self.refused = self.inputs = self.steps = self.turns_taken = 0
        self.received_events = 0
        self.started_at = 0.0
        self._make_records = make_records
        self._loop = asyncio.get_running_loop()
        self._turns = Turns(self._loop, self._turn)
        self._arrived: deque[tuple[Connection, bytes]] = deque()
        self._told: deque[Input] = deque()
        self._strangers: dict[Connection, asyncio.TimerHandle] = {}
        self._connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._timers = Timers()
        self._frames: dict[int, tuple[Message, bytes]] = {}
        """Messages that were encoded in this turn: several links get the same."""
        self._handling = False
        self._watch: asyncio.TimerHandle | None = None
        self._tls = config.tls.dialler() if config.tls else None
        self._throttled: set[Connection] = set()
        self._stopping = False
        self.stopped = asyncio.Event()
        self._how: How = {
            Send: self._send,
            SendTo: lambda effect: self.neighbours.send_to(effect.broker, effect.message),
            Deliver: self.deliveries.perform,
            SetTimer: self._set_timer,
            Append: lambda effect: self._records.append(effect.record),
            Account: self._account,
            Changed: lambda effect: None,
        }

    # --- life

    async def start(self) -> None:
        config = self.config
        self.started_at = self._loop.time()
        self._records = self._make_records(self._synced)
        await self._warm(config)
        await self._listen(config)
        contacts = await self._contacts(config)
        setup = Setup(contacts=contacts, count_steps=False)
        dice = Dice(secrets.randbits(64))
        make = catalog.make_router(config.protocol, setup, **config.options)
        self.router = make(self.name, Life(self.incarnation, dice))
        self.handle(Started(self._records.restored()))
        for space in config.spaces:
            self.handle(Declared(space))
            self.spaces.declared(space)
        self.is_ready = True
        self.neighbours.keep(list(config.neighbours))
        self._beat()
        self._turns.want()
        self.note("started", incarnation=self.incarnation, protocol=config.protocol, listen=", ".join(map(str, self.addresses)))

    async def _warm(self, config: BrokerConfig) -> None:
        late = self._loop.call_later(
            WARM_S, self.note, "compiling for this machine, which happens once and takes a minute or two"
        )
        try:
            await asyncio.to_thread(warm, config.protocol, dict(config.options))
        finally:
            late.cancel()

    async def _listen(self, config: BrokerConfig) -> None:
        found = []
        for address in config.listen:
            tls = config.tls.server() if address.secure and config.tls else None
            try:
                server = await self._loop.create_server(
                    lambda: self.connection(dialled=False), address.host, address.port, ssl=tls, backlog=1024
                )
            except OSError as reason:
                raise ContentcastError(f"{address}: cannot listen there: {reason.strerror or reason}") from None
            self._servers.append(server)
            found.append(replace(address, port=server.sockets[0].getsockname()[1]))
        self.addresses = tuple(found)

    async def _contacts(self, config: BrokerConfig) -> tuple[str, ...]:
        """The names of those through whom a broker without fixed links joins."""
        names: list[str] = []
        for address in config.join:
            try:
                names.append(await self.neighbours.ask_name(address))
            except (OSError, Refusal) as reason:
                self.note("not joined through", address=str(address), reason=str(reason))
        if config.join and not names:
            raise ContentcastError(f"none of {', '.join(map(str, config.join))} answers; start one of them first")
        return tuple(names)

    async def stop(self) -> None:
        """In order: nobody new is taken, the router says what it has to say, and what is to be sent is sent."""
        if self._stopping:
            await self.stopped.wait()
            return
        self._stopping = True
        self.is_ready = False
        for server in self._servers:
            server.close()
        self._turn()
        if hasattr(self, "router"):
            self.handle(Stopping())
        self._turns.flush()
        await self._drain()
        await self.neighbours.close()
        for connection in list(self._connections):
            connection.close()
        if self._watch is not None:
            self._watch.cancel()
        self._timers.clear()
        if hasattr(self, "_records"):
            self._records.close()
        self.note("stopped")
        self.stopped.set()

    def reload(self, read: Callable[[], BrokerConfig]) -> None:
        """Takes what can change while it runs: neighbours, spaces, access, limits, certificates."""
        try:
            config = read()
            config.check()
            tls = config.tls.dialler() if config.tls else None
        except ContentcastError as reason:
            self.note("not reloaded", reason=str(reason))
            return
        kept = {each: getattr(self.config, each) for each in FIXED}
        ignored = [each for each in FIXED if getattr(config, each) not in (kept[each], "", None)]
        self.config = replace(config, **kept)
        self._tls = tls
        self.serving.reload(config.limits, config.access, config.on_slow)
        for space in config.spaces:
            self.put(Declared(space))
            self.spaces.declared(space)
        self.neighbours.keep(list(config.neighbours))
        self.note("reloaded", unchanged_until_restart=", ".join(ignored) or "nothing")

    async def _drain(self) -> None:
        until = self._loop.time() + self.config.limits.drain_s
        while self._loop.time() < until and any(each.queued for each in self._connections):
            await asyncio.sleep(0.01)

    # --- connections

    def connection(self, dialled: bool) -> Connection:
        return Connection(self, self._turns, dialled=dialled)

    def made(self, connection: Connection) -> None:
        self._connections.add(connection)
        limits = self.config.limits
        if connection.dialled:
            return
        if len(self._connections) > limits.connections or self._stopping:
            self._refuse(connection, "limit connections", f"broker {self.name} has all the connections it may have")
            return
        self._strangers[connection] = self._loop.call_later(limits.greeting_s, self._too_late, connection)

    def _too_late(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._refuse(connection, "limit greeting_s", f"no Hello within {self.config.limits.greeting_s:g} s")

    def arrived(self, connection: Connection, payloads: list[bytes]) -> None:
        self._arrived.extend((connection, payload) for payload in payloads)
        self._turns.want()

    def broken(self, connection: Connection, reason: WireError) -> None:
        self._turn()  # what came before it is whole
        self._refuse(connection, "message", str(reason))

    def lost(self, connection: Connection, reason: str) -> None:
        self._turn()
        self._connections.discard(connection)
        self._throttled.discard(connection)
        waiting = self._strangers.pop(connection, None)
        if waiting is not None:
            waiting.cancel()
        match connection.holder:
            case Session() as session:
                self.serving.lost(session)
            case Peer() as peer:
                self.neighbours.lost(peer, reason)
            case Calling() as calling:
                self.neighbours.refused(calling, reason)

    def _refuse(self, connection: Connection, code: str, reason: str) -> None:
        self.refused += 1
        self.note("connection refused", peer=connection.peer, code=code, reason=reason)
        connection.send(Failed(0, code, reason))
        connection.close()

    # --- turns

    def _turn(self) -> None:
        if self._handling:
            return
        self._handling = True
        self.turns_taken += 1
        try:
            while True:
                if self._told:
                    self._route(self._told.popleft())
                elif self._arrived:
                    self._hear(*self._arrived.popleft())
                elif self.serving.has_posts:
                    self.serving.publish()
                else:
                    break
        finally:
            self._handling = False
            self._frames.clear()
        self._throttle()

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
            self.failures += 1
            self.log.failure("the router failed", reason, input=type(input).__name__)
            if isinstance(input, Received) and input.sender in self.neighbours.links:
                self.neighbours.links[input.sender].connection.abort()
            elif isinstance(reason, HostError):
                raise

    def _hear(self, connection: Connection, payload: bytes) -> None:
        try:
            message = decode(payload, self.spaces.versions)
            match connection.holder:
                case Session() as session:
                    self.serving.heard(session, message)
                case Peer() as peer:
                    self._hear_broker(peer, message)
                case Calling() as calling:
                    self._hear_answer(connection, calling, message)
                case _:
                    self._hear_stranger(connection, message)
        except ContentcastError as reason:
            if connection.is_open:
                self._refuse(connection, getattr(reason, "limit", "message"), str(reason))
        except Exception as reason:
            self.failures += 1
            self.log.failure("a message could not be handled", reason, peer=connection.peer)
            self._refuse(connection, "internal", f"broker {self.name} failed with this message; its log says more")

    def _hear_stranger(self, connection: Connection, message: Message) -> None:
        greeting = check_greeting(message)
        if not self.is_ready:
            raise ContentcastError(f"broker {self.name} is not ready; try again")
        if greeting.role in ("link", "direct"):
            problem = self.check_broker(connection, greeting.name, greeting.protocol)
            failed = Failed(0, "broker", problem) if problem else self.neighbours.greeted(connection, greeting)
        elif greeting.role == "client":
            failed = self.serving.greeted(connection, greeting)
        else:
            raise WireError(f"the roles are client, link and direct, not {greeting.role!r}")
        if failed is not None:
            if failed.code != "already-linked":
                self.refused += 1
                self.note("not welcome", who=greeting.name, peer=connection.peer, code=failed.code, reason=failed.reason)
            connection.send(failed)
            connection.close()
            return
        self._strangers.pop(connection).cancel()

    def _hear_answer(self, connection: Connection, calling: Calling, message: Message) -> None:
        match message:
            case Welcome():
                self.neighbours.welcomed(connection, calling, message)
            case Failed():
                self.neighbours.refused(calling, message.reason, message.text if message.code == "already-linked" else "")
                connection.close()
            case _:
                raise WireError(f"expected Welcome, got {type(message).__name__}")

    def _hear_broker(self, peer: Peer, message: Message) -> None:
        match message:
            case Beat():
                self.neighbours.beaten(peer, message, self._loop.time())
            case Spaces():
                self.spaces.named(message.read())
            case Addresses():
                self.neighbours.learn(message.known, peer)
            case Direct(message=Message() as inner):
                self._receive(Received(peer.name, inner, DIRECT))
            case Failed():
                self.note("told by a broker", broker=peer.name, code=message.code, reason=message.reason)
            case _ if peer.is_link and self.neighbours.links.get(peer.name) is peer:
                self._receive(Received(peer.name, message))
            case _ if peer.is_link:
                pass  # of a connection that another one has replaced
            case _:
                raise WireError(f"over a direct connection comes Direct, not {type(message).__name__}")

    def _receive(self, input: Received) -> None:
        self.serving.publish()
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
        connection, message = peer.connection, effect.message
        if connection.queued > self.config.limits.link_queue_bytes:
            reason = f"{connection.queued:,} bytes wait for {effect.link}"
            self.note("link cut", link=effect.link, reason=str(LimitError("link_queue_bytes", reason)))
            connection.abort()
            return
        known = self._frames.get(id(message))
        if known is None:
            known = self._frames[id(message)] = (message, frame(encode(message)))
        connection.name_spaces(spaces_of(message))
        connection.send_frame(known[1])

    def _set_timer(self, effect: SetTimer) -> None:
        at = self._timers.set(effect, self._loop.time())
        if at is not None:
            self._loop.call_at(at, self._wake, effect.timer, at)

    def _wake(self, timer: Timer, at: float) -> None:
        if self._stopping:
            return
        woken = self._timers.wake(timer, at)
        if woken is True:
            self.put(TimerFired(timer))
        elif woken is not None:
            self._loop.call_at(woken, self._wake, timer, woken)

    def _synced(self, upto: int) -> None:
        self.put(Synced(upto))

    def _account(self, effect: Account) -> None:
        self.steps += int(effect.steps.sum())

    # --- for links

    def hello(self, role: str) -> Hello:
        told = self.config.advertise or tuple(each for each in self.addresses if not each.is_anywhere)
        return Hello(
            role, self.name, incarnation=self.incarnation, protocol=self.config.protocol, addresses=tuple(map(str, told))
        )

    def check_broker(self, connection: Connection, name: str, protocol: str) -> str:
        return check_broker(self.name, self.config, connection.certificate(), name, protocol)

    def link_up(self, link: str, delay_s: float) -> None:
        self.note("link up", link=link, delay_ms=1000 * delay_s)
        self.put(LinkUp(link, delay_s))

    def link_lost(self, link: str, reason: str) -> None:
        self.note("link lost", link=link, reason=reason)
        self.put(LinkLost(link))

    def _dialling_tls(self) -> ssl.SSLContext | None:
        return self._tls

    # --- watching over it

    def _beat(self) -> None:
        now = self._loop.time()
        self.neighbours.check(now)
        self.serving.check(now)
        self._throttle()
        self._watch = self._loop.call_later(BEAT_EVERY_S, self._beat)

    def _throttle(self) -> None:
        """Clients that publish wait while a link is half full: nothing more is read from them."""
        half = self.config.limits.link_queue_bytes // 2
        crowded = any(peer.connection.queued > half for peer in self.neighbours.links.values())
        if crowded:
            for session in self.serving.sessions.values():
                if session.posted and session.connection not in self._throttled:
                    self._throttled.add(session.connection)
                    session.connection.pause_reading()
        elif self._throttled:
            for connection in self._throttled:
                connection.resume_reading()
            self._throttled.clear()

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
