"""Who is connected to a broker, and to which of its parts goes what they say.

    a stranger     Hello within a few seconds        becomes a client, or another broker
    a client       everything                        `serving`
    a broker       heartbeats, addresses, spaces     `neighbours` and the spaces
                   all else                          the router, as `Received`

Rule: what cannot be read or is out of place ends its connection, with the reason told and noted, and nobody else notices.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from contentcast.live.greeting import check_greeting
from contentcast.live.links.connection import Connection
from contentcast.live.links.neighbours import Calling, Neighbours, Peer
from contentcast.live.looking.log import Log
from contentcast.live.serving.requests import Serving
from contentcast.live.serving.sessions import Session
from contentcast.live.serving.space_news import SpaceNews
from contentcast.live.serving.spaces import LiveSpaces
from contentcast.live.settings.limits import Limits
from contentcast.model import ContentcastError
from contentcast.routing.contract import DIRECT, Received
from contentcast.wire import Message, WireError, decode
from contentcast.wire.client import Addresses, Beat, Direct, Failed, Spaces, Welcome

ITSELF: Final = "itself"
"""The code of the answer to a broker that has dialled its own address, and who alone hears it."""


class Host(Protocol):
    name: str
    incarnation: int
    is_ready: bool
    log: Log
    news: SpaceNews

    def note(self, what: str, **facts: Any) -> None: ...

    def check_broker(self, connection: Connection, name: str, protocol: str) -> str: ...

    def received(self, input: Received) -> None: ...


class Reception:
    def __init__(self, host: Host, serving: Serving, neighbours: Neighbours, spaces: LiveSpaces, limits: Limits) -> None:
        self.limits = limits
        self.connections: set[Connection] = set()
        self.strangers: dict[Connection, asyncio.TimerHandle] = {}
        self.refused = self.failures = 0
        self.is_closing = False
        self._host = host
        self._serving = serving
        self._neighbours = neighbours
        self._spaces = spaces
        self._loop = asyncio.get_running_loop()

    # --- coming and going

    def made(self, connection: Connection) -> None:
        self.connections.add(connection)
        if connection.dialled:
            return
        if len(self.connections) > self.limits.connections or self.is_closing:
            self.refuse(connection, "limit connections", f"broker {self._host.name} has all the connections it may have")
            return
        self.strangers[connection] = self._loop.call_later(self.limits.greeting_s, self._too_late, connection)

    def _too_late(self, connection: Connection) -> None:
        self.strangers.pop(connection, None)
        self.refuse(connection, "limit greeting_s", f"no Hello within {self.limits.greeting_s:g} s")

    def lost(self, connection: Connection, reason: str) -> None:
        self.connections.discard(connection)
        waiting = self.strangers.pop(connection, None)
        if waiting is not None:
            waiting.cancel()
        match connection.holder:
            case Session() as session:
                self._serving.lost(session)
            case Peer() as peer:
                self._neighbours.lost(peer, reason)
            case Calling() as calling:
                self._neighbours.refused(calling, reason)

    def refuse(self, connection: Connection, code: str, reason: str) -> None:
        self.refused += 1
        self._host.note("connection refused", peer=connection.peer, code=code, reason=reason)
        connection.send(Failed(0, code, reason))
        connection.close()

    # --- what they say

    def hear(self, connection: Connection, payload: bytes) -> None:
        try:
            message = decode(payload, self._spaces.versions)
            match connection.holder:
                case Session() as session:
                    self._serving.heard(session, message)
                case Peer() as peer:
                    self._hear_broker(peer, message)
                case Calling() as calling:
                    self._hear_answer(connection, calling, message)
                case _:
                    self._hear_stranger(connection, message)
        except ContentcastError as reason:
            if connection.is_open:
                self.refuse(connection, getattr(reason, "limit", "message"), str(reason))
        except Exception as reason:
            self.failures += 1
            self._host.log.failure("a message could not be handled", reason, peer=connection.peer)
            self.refuse(connection, "internal", f"broker {self._host.name} failed with this message; its log says more")

    def _hear_stranger(self, connection: Connection, message: Message) -> None:
        if connection not in self.strangers:
            return  # refused in this wake-up, before its greeting was read
        greeting = check_greeting(message)
        if (greeting.name, greeting.incarnation) == (self._host.name, self._host.incarnation) and greeting.role != "client":
            reason = "this is the broker's own address; give it the address of another broker, or leave it out"
            connection.send(Failed(0, ITSELF, reason))
            connection.close()
            return
        if not self._host.is_ready:
            raise ContentcastError(f"broker {self._host.name} is not ready; try again")
        if greeting.role in ("link", "direct"):
            problem = self._host.check_broker(connection, greeting.name, greeting.protocol)
            failed = Failed(0, "broker", problem) if problem else self._neighbours.greeted(connection, greeting)
        elif greeting.role == "client":
            failed = self._serving.greeted(connection, greeting)
        else:
            raise WireError(f"the roles are client, link and direct, not {greeting.role!r}")
        if failed is not None:
            if failed.code != "already-linked":
                self.refused += 1
                self._host.note("not welcome", who=greeting.name, peer=connection.peer, code=failed.code, reason=failed.reason)
            connection.send(failed)
            connection.close()
            return
        self.strangers.pop(connection).cancel()

    def _hear_answer(self, connection: Connection, calling: Calling, message: Message) -> None:
        match message:
            case Welcome():
                self._neighbours.welcomed(connection, calling, message)
            case Failed():
                linked_to = message.text if message.code == "already-linked" else ""
                self._neighbours.refused(calling, message.reason, linked_to, message.code == ITSELF)
                connection.close()
            case _:
                raise WireError(f"expected Welcome, got {type(message).__name__}")

    def _hear_broker(self, peer: Peer, message: Message) -> None:
        match message:
            case Beat():
                self._neighbours.beaten(peer, message, self._loop.time())
            case Spaces():
                named = message.read()
                self._spaces.named(named)
                self._host.news.heard(named)
            case Addresses():
                self._neighbours.learn(message.known, peer)
            case Direct(message=Message() as inner):
                self._host.received(Received(peer.name, inner, DIRECT))
            case Failed():
                self._host.note("told by a broker", broker=peer.name, code=message.code, reason=message.reason)
            case _ if peer.is_link and self._neighbours.links.get(peer.name) is peer:
                self._host.received(Received(peer.name, message))
            case _ if peer.is_link:
                pass  # of a connection that another one has replaced
            case _:
                raise WireError(f"over a direct connection comes Direct, not {type(message).__name__}")
