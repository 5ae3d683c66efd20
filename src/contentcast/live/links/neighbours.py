"""The other brokers: links to neighbours, direct connections on demand, and where everybody listens.

A link is one connection for a pair of brokers, whoever dialled it. Both ends decide alike which of two connections stays:

    of two lives of the other broker     that of the later one
    dialled by the same end              the newer one: its dialler knows that the older one is gone
    else                                 the one that the broker with the smaller name dialled

Brokers tell each other where they listen, so that a message to any broker (`SendTo`) can be sent over a connection that is
made when it is needed. Heartbeats go over every connection between brokers; a broker that was silent for
`dead_after_s` is taken for dead. If this process itself was held up, the silence may be its own, and nobody is given up.
Rule: the broker hears of a link that is up once for each connection, and of a lost one before the next.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from contentcast.live.links.connection import Connection
from contentcast.live.links.dialling import FIRST_DELAY_S, BackOff, dial, fault, rounded_s
from contentcast.live.looking.witness import Witness
from contentcast.live.serving.space_news import SpaceNews
from contentcast.live.settings.address import Address, AddressError, read_address
from contentcast.live.settings.limits import LimitError, Limits
from contentcast.model import ContentcastError
from contentcast.wire import Message, encode, frame, spaces_of
from contentcast.wire.client import Addresses, Beat, Direct, Failed, Hello, Welcome

BEAT_EVERY_S: Final = 0.5
MOST_WAITING_DIRECT: Final = 1_000
"""Messages kept for a broker while a direct connection to it is made."""
DIRECT_IDLE_S: Final = 60.0


class Host(Protocol):
    """What the broker does for its links."""

    name: str
    incarnation: int

    @property
    def news(self) -> SpaceNews: ...

    def hello(self, role: str) -> Hello: ...

    def connection(self, dialled: bool) -> Connection: ...

    def link_up(self, link: str, delay_s: float) -> None: ...

    def link_changed(self, link: str, delay_s: float) -> None: ...

    def link_lost(self, link: str, reason: str) -> None: ...

    def check_broker(self, connection: Connection, name: str, protocol: str) -> str:
        """Why this broker is refused; empty if it is not."""
        ...

    def note(self, what: str, **facts: Any) -> None: ...


@dataclass(eq=False)
class Peer:
    """Another broker at the end of a connection."""

    name: str
    incarnation: int
    connection: Connection
    is_link: bool
    address: str = ""
    delay_s: float = FIRST_DELAY_S
    rtt_s: float = math.inf
    gone: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class Calling:
    """A connection that this end dials: a link, or to send something directly."""

    address: Address
    is_link: bool
    answered: asyncio.Future[Peer | None]


class Neighbours:
    def __init__(self, host: Host, limits: Limits, tls: Callable[[], ssl.SSLContext | None], witness: Witness) -> None:
        self._host = host
        self._witness = witness
        self.limits = limits
        self._tls = tls
        self.links: dict[str, Peer] = {}
        self.directs: dict[str, Peer] = {}
        self.addresses: dict[str, tuple[int, tuple[str, ...]]] = {}
        """Where brokers listen, and in which life they said so."""
        self.dialled: dict[Address, str] = {}
        """The neighbours that this broker was told to have, and how it stands with each."""
        self._tasks: dict[Address, asyncio.Task[None]] = {}
        self._waiting: dict[str, deque[Message]] = {}
        self._direct_tasks: set[asyncio.Task[None]] = set()
        self._out_of_reach: set[str] = set()
        """Brokers that did not answer the last time; the log has said so."""
        self._checked_at = 0.0
        self._frames: dict[int, tuple[Message, bytes]] = {}
        """Messages that were encoded in this turn: several links get the same."""
        self.lost_messages = 0

    # --- neighbours to dial

    def keep(self, addresses: list[Address]) -> None:
        """These are the neighbours from now on: new ones are dialled, links to others that were dialled before are closed."""
        for address in addresses:
            if address not in self._tasks:
                self.dialled[address] = "dialling"
                self._tasks[address] = asyncio.create_task(self._keep_link(address), name=f"link to {address}")
        for address in [each for each in self._tasks if each not in addresses]:
            self._tasks.pop(address).cancel()
            self.dialled.pop(address, None)
            for peer in [each for each in self.links.values() if each.address == str(address)]:
                peer.connection.close()

    async def _keep_link(self, address: Address) -> None:
        back_off = BackOff()
        name = ""
        while True:
            there = self.links.get(name)
            if there is None:
                try:
                    there = await self._call(address, is_link=True)
                    self.dialled[address] = f"linked to {there.name}" if there else "refused"
                except OSError as reason:
                    self._complain(address, fault(reason))
                except Itself as reason:
                    self._complain(address, str(reason))
                    return
                except Refusal as reason:
                    self._complain(address, f"refused: {reason}")
            if there is not None:
                name = there.name
                back_off.succeeded()
                await there.gone.wait()
                self.dialled[address] = "lost"
            await asyncio.sleep(back_off.wait_s())

    def _complain(self, address: Address, reason: str) -> None:
        if self.dialled.get(address) != reason:
            self.dialled[address] = reason
            self._host.note("link not made", address=str(address), reason=reason)

    async def _call(self, address: Address, is_link: bool) -> Peer | None:
        """The peer, or None if another connection to it is kept."""
        calling = Calling(address, is_link, asyncio.get_running_loop().create_future())

        def make() -> Connection:
            connection = self._host.connection(dialled=True)
            connection.holder = calling
            return connection

        connection = await dial(address, make, self._tls())
        connection.send(self._host.hello("link" if is_link else "direct"))
        try:
            async with asyncio.timeout(self.limits.greeting_s):
                return await calling.answered
        except TimeoutError:
            connection.abort()
            raise TimeoutError(f"{address} does not say who it is within {self.limits.greeting_s:g} s") from None

    def reload(self, limits: Limits, protocol: str) -> None:
        """From now on these hold. Who could be linked without a certificate may need one now."""
        self.limits = limits
        for peer in [*self.links.values(), *self.directs.values()]:
            peer.connection.most_bytes = limits.link_message_bytes
            problem = self._host.check_broker(peer.connection, peer.name, protocol)
            if problem:
                self._host.note("link no longer allowed", link=peer.name, reason=problem)
                peer.connection.send(Failed(0, "broker", problem))
                self._drop(peer, problem)
                peer.connection.close()

    async def ask_name(self, address: Address) -> str:
        """The name of the broker that listens there: for one who knows nobody yet."""
        there = await self._call(address, is_link=False)
        assert there is not None
        return there.name

    async def ask_names(self, addresses: tuple[Address, ...]) -> tuple[str, ...]:
        """The names of those through whom a broker without fixed links joins; one that answers is enough."""
        names: list[str] = []
        others = list(addresses)
        for address in addresses:
            try:
                names.append(await self.ask_name(address))
            except (OSError, Refusal) as reason:
                if isinstance(reason, Itself):
                    others.remove(address)
                self._host.note("not joined through", address=str(address), reason=fault(reason))
        if addresses and not others:
            raise ContentcastError("a broker cannot join through itself; name another broker, or none if this is the first")
        if addresses and not names:
            raise ContentcastError(f"none of {', '.join(map(str, others))} answers; start one of them first")
        return tuple(names)

    def welcomed(self, connection: Connection, calling: Calling, welcome: Welcome) -> None:
        """The answer to a call of ours."""
        problem = self._host.check_broker(connection, welcome.name, welcome.protocol)
        if problem:
            self.refused(calling, problem)
            connection.close()
            return
        peer = Peer(welcome.name, welcome.incarnation, connection, calling.is_link, str(calling.address))
        connection.holder = peer
        self._learn_of(welcome.name, welcome.incarnation, welcome.addresses)
        kept = self._take(peer)
        if not calling.answered.done():
            calling.answered.set_result(peer if kept else self.links.get(welcome.name))
        if not kept:
            connection.close()

    def refused(self, calling: Calling, reason: str, linked_to: str = "", itself: bool = False) -> None:
        """The other side does not want the connection, or it was lost before it was greeted; or it is this broker itself."""
        if calling.answered.done():
            return
        if itself:
            calling.answered.set_exception(Itself(reason))
        elif linked_to in self.links:
            calling.answered.set_result(self.links[linked_to])
        else:
            calling.answered.set_exception(Refusal(reason))

    # --- those who dial us

    def greeted(self, connection: Connection, hello: Hello) -> Failed | None:
        """A broker has dialled this one; what it is told if it is not wanted."""
        peer = Peer(hello.name, hello.incarnation, connection, hello.role == "link")
        if not self._wins(peer):
            reason = f"{self._host.name} keeps another connection to {hello.name}"
            return Failed(0, "already-linked", reason, text=self._host.name)
        mine = self._host.hello("link")
        connection.holder = peer
        welcome = Welcome(mine.name, mine.version, mine.incarnation, mine.protocol, mine.addresses)
        connection.send(welcome)
        self._learn_of(hello.name, hello.incarnation, hello.addresses)
        self._take(peer)
        return None

    def _wins(self, peer: Peer) -> bool:
        """Does this connection take the place of the one that is there?"""
        there = (self.links if peer.is_link else self.directs).get(peer.name)
        if there is None or not there.connection.is_open:
            return True
        if peer.incarnation != there.incarnation:
            return peer.incarnation > there.incarnation
        if peer.connection.dialled == there.connection.dialled:
            return True
        return self._dialler(peer) < self._dialler(there)

    def _dialler(self, peer: Peer) -> str:
        return self._host.name if peer.connection.dialled else peer.name

    def _take(self, peer: Peer) -> bool:
        if not self._wins(peer):
            return False
        table = self.links if peer.is_link else self.directs
        before = table.get(peer.name)
        if before is not None:
            self._drop(before, "another connection takes its place")
            before.connection.close()
        peer.connection.most_bytes = self.limits.link_message_bytes
        peer.connection.watch()
        table[peer.name] = peer
        self._out_of_reach.discard(peer.name)
        peer.connection.send(Addresses(dict(self.addresses)))
        if peer.is_link:
            self._host.link_up(peer.name, peer.delay_s)
        else:
            self._host.news.tell()
        for message in self._waiting.pop(peer.name, ()):
            self._send_direct(peer, message)
        return True

    def lost(self, peer: Peer, reason: str) -> None:
        self._drop(peer, reason)

    def _drop(self, peer: Peer, reason: str) -> None:
        table = self.links if peer.is_link else self.directs
        peer.gone.set()
        if table.get(peer.name) is peer:
            del table[peer.name]
            if peer.is_link:
                self._host.link_lost(peer.name, reason)

    # --- where brokers listen

    def _learn_of(self, name: str, incarnation: int, addresses: tuple[str, ...]) -> None:
        self.learn({name: (incarnation, tuple(addresses))}, None)

    def learn(self, known: dict[str, tuple[int, tuple[str, ...]]], sender: Peer | None) -> None:
        """Keeps what is new, and tells it on: without links over the direct connections, which an overlay has alone."""
        fresh: dict[str, tuple[int, tuple[str, ...]]] = {}
        for name, (incarnation, addresses) in known.items():
            before = self.addresses.get(name)
            if name == self._host.name or (before is not None and before[0] >= incarnation):
                continue
            if len(self.addresses) >= self.limits.brokers and before is None:
                continue
            try:
                for each in addresses:
                    read_address(each)
            except AddressError:
                continue
            fresh[name] = self.addresses[name] = (incarnation, addresses)
        if fresh:
            for peer in ({**self.directs, **self.links}).values():
                if peer is not sender:
                    peer.connection.send(Addresses(fresh))

    # --- sending

    def send(self, peer: Peer, message: Message) -> None:
        """Over a link. One that does not take what it is sent is cut, and made anew."""
        connection = peer.connection
        if connection.queued > self.limits.link_queue_bytes:
            reason = f"{connection.queued:,} bytes wait for {peer.name}"
            self._host.note("link cut", link=peer.name, reason=str(LimitError("link_queue_bytes", reason)))
            connection.abort()
            return
        known = self._frames.get(id(message))
        if known is None:
            known = self._frames[id(message)] = (message, frame(encode(message)))
        connection.name_spaces(spaces_of(message))
        connection.send_frame(known[1])
        self._witness.sent(peer.name, message, connection)

    def turn_ends(self) -> None:
        self._frames.clear()

    def send_to(self, broker: str, message: Message) -> None:
        """To any broker; it may be lost."""
        peer = self.links.get(broker) or self.directs.get(broker)
        if peer is not None:
            self._send_direct(peer, message)
            return
        if broker not in self.addresses or not self.addresses[broker][1]:
            self.lost_messages += 1
            self._witness.sent(broker, message, None)
            return
        waiting = self._waiting.get(broker)
        if waiting is None:
            self._waiting[broker] = deque([message], MOST_WAITING_DIRECT)
            task = asyncio.create_task(self._connect_directly(broker), name=f"direct to {broker}")
            self._direct_tasks.add(task)
            task.add_done_callback(self._direct_tasks.discard)
        else:
            waiting.append(message)

    def _send_direct(self, peer: Peer, message: Message) -> None:
        connection = peer.connection
        if connection.queued > self.limits.link_queue_bytes:
            self.lost_messages += 1
            return
        connection.name_spaces(spaces_of(message))
        connection.send_frame(frame(encode(Direct(message))))
        self._witness.sent(peer.name, message, connection)

    async def _connect_directly(self, broker: str) -> None:
        for text in self.addresses[broker][1]:
            try:
                await self._call(read_address(text), is_link=False)
                break
            except (OSError, Refusal) as reason:
                if broker not in self._out_of_reach:
                    self._host.note("direct connection not made", to=broker, address=text, reason=fault(reason))
        else:
            self._out_of_reach.add(broker)
        self.lost_messages += len(self._waiting.pop(broker, ()))

    # --- heartbeats

    def check(self, now: float) -> None:
        """Called every `BEAT_EVERY_S`: beats, and gives up who is silent."""
        late = now - self._checked_at - BEAT_EVERY_S if self._checked_at else 0.0
        self._checked_at = now
        for peer in [*self.links.values(), *self.directs.values()]:
            connection = peer.connection
            if late > BEAT_EVERY_S:
                connection.heard_at += late  # the silence was ours
            silent = now - connection.heard_at
            if silent > self.limits.dead_after_s:
                self._drop(peer, f"silent for {silent:.1f} s")
                connection.abort()
            elif not peer.is_link and connection.dialled and self._is_idle(connection, now):
                self._drop(peer, "idle")
                connection.close()
            else:
                connection.send(Beat(sent=now))

    def _is_idle(self, connection: Connection, now: float) -> bool:
        return now - connection.made_at > DIRECT_IDLE_S and connection.frames_in < 4 * (now - connection.made_at) / BEAT_EVERY_S

    def beaten(self, peer: Peer, beat: Beat, now: float) -> None:
        if beat.sent:
            peer.connection.send(Beat(heard=beat.sent))
        elif beat.heard:
            round_trip_s = max(0.0, now - beat.heard)
            peer.rtt_s = min(peer.rtt_s, round_trip_s)
            if peer.is_link:
                self._witness.beaten(peer.name, round_trip_s)
            delay_s = rounded_s(peer.rtt_s / 2)
            # A link tells its delay when it is clearly another one, so that routes do not change with every beat.
            if peer.is_link and self.links.get(peer.name) is peer and delay_s != peer.delay_s:
                peer.delay_s = delay_s
                self._host.link_changed(peer.name, delay_s)

    async def close(self) -> None:
        tasks = [*self._tasks.values(), *self._direct_tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in [*self.links.values(), *self.directs.values()]:
            peer.connection.close()


class Refusal(Exception):
    """The other side does not want this connection."""


class Itself(Refusal):
    """There is no other side: the address that was dialled leads back to this broker. It does so the next time, too."""
