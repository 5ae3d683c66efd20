"""A client's conversation with its broker: one connection after the other, requests and their answers.

    connected    a request is sent, its answer ends it
    lost         requests wait, publishing fills its window, then waits
    connected    everything is said again that the broker must know, by itself
    expired      a client that is given tokens connects again with the next one; any other one ends
    refused      the next connection waits a little; what was under way both times is given up

Rule: an error is raised by the call that made the mistake. What cannot be (a name that is taken, a token that is refused) ends
the client, and every call says why.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from contentcast.live.client.message_size import TooLarge, accepted_bytes, fits, framed
from contentcast.live.client.publishing import Publishing, Sent
from contentcast.live.errors import LiveError, NotConnected, error_of
from contentcast.live.links.connection import Connection
from contentcast.live.links.dialling import BackOff, dial, fault
from contentcast.live.links.turns import Turns
from contentcast.live.settings.address import Address
from contentcast.model import ContentcastError
from contentcast.wire import Message, SpaceVersions, WireError, decode
from contentcast.wire.client import (
    DURABLY,
    PASSING,
    TOKEN_EXPIRED,
    Beat,
    Delivery,
    Done,
    DurableDelivery,
    Failed,
    Hello,
    Spaces,
    Welcome,
)

GREETING_S: Final = 5.0
BEAT_EVERY_S: Final = 1.0
DEAD_AFTER_S: Final = 10.0
"""A broker that was silent for so long is given up, and another address is tried."""
LASTING_S: Final = 1.0
"""A connection that was lost sooner, or refused, is followed by a wait."""
FATAL: Final = frozenset({"access", "name-taken"})
UNREADABLE: Final = frozenset({"message", "internal"})
"""The broker could not handle a message, and does not say which one."""
MOST_MESSAGE_BYTES: Final = 64 * 2**20

OnChange: TypeAlias = Callable[[str, str], object]
ShownToken: TypeAlias = str | Callable[[], str]
"""A token, or who gives one for each connection."""


@dataclass(eq=False, slots=True)
class Request:
    """What the broker was asked, as it was sent, and who waits for the answer."""

    message: Message
    framed: bytes
    answer: asyncio.Future[dict[str, Any]]
    ends_with_connection: bool
    """A broker that hears of this client anew need not be told."""


class Conversation(ABC):
    """The part of a client that knows about connections; `Client` has the verbs."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        *,
        name: str = "",
        token: ShownToken = "",
        tls: ssl.SSLContext | None = None,
        reconnect: bool = True,
        on_change: OnChange | None = None,
    ) -> None:
        self.name = name or f"client-{secrets.token_hex(4)}"
        self.broker = ""
        """The name of the broker that it is connected to."""
        self.reconnections = 0
        self._addresses = addresses
        self._asked = addresses[0]
        """Where it is connected to, or tries to."""
        self._token, self._key = token, secrets.token_hex(16)
        self._tls = tls
        self._reconnect = reconnect
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._turns = Turns(self._loop, self._turn)
        self._versions = SpaceVersions()
        self._requests: dict[int, Request] = {}
        self._next_request = 1
        self._connection: Connection | None = None
        self._welcome: asyncio.Future[Welcome] | None = None
        self._gone = asyncio.Event()
        self._closed: ContentcastError | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._refusal: ContentcastError | None = None
        self._is_refused = False
        """Has the broker said that it ends this connection?"""
        self._suspects: set[int | tuple[str, int]] = set()
        """Requests and posts that were under way when a broker could not handle a message."""
        # Numbers begin anew with every client, so its publisher is another one than that of a namesake before it.
        publisher = f"{PASSING}{self.name}/{self._key[:8]}"
        self._publishing = Publishing(publisher, self._send_post, self._turns.want, self._turns.flush)
        self._home = ""
        """The broker that keeps this client's durable subscriptions, or what it has published: no other one will do."""
        self._home_at: Address | None = None
        self._at: Address | None = None
        """The address of the connection that there is, or was last."""
        self._is_kept = False
        """Does this broker keep what it accepts?"""
        self._current: Connection | None = None

    @abstractmethod
    def _say_again(self) -> None:
        """Everything that a broker must know which has heard nothing yet."""

    @abstractmethod
    def _deliver(self, delivery: Delivery) -> None: ...

    @abstractmethod
    def _deliver_durably(self, delivery: DurableDelivery) -> None: ...

    @abstractmethod
    def _taken_over(self, durable: str, reason: LiveError) -> None:
        """Another client is there for this durable subscription now."""

    @abstractmethod
    def _end_inboxes(self) -> None: ...

    @property
    @abstractmethod
    def _is_full(self) -> bool:
        """Does so much wait for the program that the client does not read?"""

    @property
    def _answer_is_due(self) -> bool:
        return bool(self._requests) or len(self._publishing) > 0

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    async def open(self) -> Self:
        connection = await self._connect()
        self._keeper = asyncio.create_task(self._keep(connection), name=f"{self.name} keeps its connection")
        return self

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    def _end(self, reason: ContentcastError) -> None:
        if self._closed is None:
            self._closed = reason
        self._publishing.give_up(reason)
        for request in self._requests.values():
            if not request.answer.done():
                request.answer.set_exception(reason)
        self._requests.clear()
        self._end_inboxes()

    # --- one connection after the other

    async def _connect(self) -> Connection:
        """To the first address that answers."""
        reasons = []
        hint = ""
        for address in self._addresses:
            try:
                return await self._greet(address)
            except LiveError as refusal:
                if not self._home or address == self._home_at:
                    raise
                self._refusal = None  # whoever is there, it is not the broker that this client waits for
                reasons.append(f"{address}: {refusal}")
            except OSError as reason:
                reasons.append(f"{address}: {fault(reason)}")
                if isinstance(reason, ConnectionRefusedError):
                    hint = ". `contentcast broker` starts one"
        raise NotConnected(f"no broker answers: {'; '.join(reasons)}{hint}")

    async def _greet(self, address: Address) -> Connection:
        self._gone = asyncio.Event()
        self._is_refused = False
        self._asked = address
        self._welcome = self._loop.create_future()

        def make() -> Connection:
            return Connection(self, self._turns, dialled=True, most_bytes=MOST_MESSAGE_BYTES)

        connection = await dial(address, make, self._tls)
        try:
            connection.send(Hello("client", self.name, token=self._present_token(), key=self._key))
            async with asyncio.timeout(GREETING_S):
                welcome = await self._welcome
            if self._home and welcome.name != self._home:
                raise ConnectionError(
                    f"{welcome.name} does not keep what this client has published or subscribes to; {self._home} does"
                )
        except BaseException as reason:
            self._current = None  # its end is not the end of the connection that is tried next
            connection.abort()
            if isinstance(reason, TimeoutError):
                raise TimeoutError(f"it does not say who it is within {GREETING_S:g} s") from None
            raise
        self._at = address
        self.broker, self._is_kept = welcome.name, welcome.protocol.endswith(DURABLY)
        self._publishing.window_events = max(1, welcome.window_events)
        self._publishing.window_bytes = max(1, welcome.window_bytes)
        self._publishing.most_bytes = accepted_bytes(welcome.most_bytes)
        self._connection = connection
        return connection

    def _present_token(self) -> str:
        if isinstance(self._token, str):
            return self._token
        try:
            return self._token()
        except Exception as reason:
            raise LiveError(f"there is no token to show: {str(reason) or type(reason).__name__}", "token") from reason

    async def _keep(self, connection: Connection) -> None:
        """Beats while it lasts, and connects again."""
        pauses = BackOff()
        while True:
            while not self._gone.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_EVERY_S):
                        await self._gone.wait()
                now = self._loop.time()
                if now - connection.heard_at > DEAD_AFTER_S and not self._is_full:
                    connection.abort()
                elif connection.is_open:
                    connection.send(Beat(sent=now))
            self._connection = None
            if self._refusal is not None or not self._reconnect:
                self._end(self._refusal or NotConnected(f"the connection to {self.broker} was lost", "lost"))
                return
            for request in self._requests.values():
                if request.ends_with_connection and not request.answer.done():
                    request.answer.set_result({})
            self._tell("lost", self.broker)
            if self._home and len(self._addresses) > 1:
                self._tell("waiting", f"for {self._home}, which keeps what this client has published or subscribes to")
            if self._loop.time() - connection.made_at < LASTING_S or self._is_refused:
                await asyncio.sleep(pauses.wait_s())
            else:
                pauses.succeeded()
            back_off = BackOff()
            while True:
                try:
                    connection = await self._connect()
                    break
                except NotConnected as reason:
                    self._tell("trying", str(reason))
                except ContentcastError as reason:
                    self._end(reason)
                    return
                await asyncio.sleep(back_off.wait_s())
            self.reconnections += 1
            self._say_again()
            self._tell("connected", self.broker)

    def _tell(self, what: str, about: str) -> None:
        if self._on_change is not None:
            try:
                self._on_change(what, about)
            except Exception as reason:
                self.callback_failed(reason)

    def callback_failed(self, reason: Exception) -> None:
        """The program's own mistake: its event loop is told."""
        self._loop.call_exception_handler({"message": "a callback of a client failed", "exception": reason})

    def _keep_to_this_broker(self) -> None:
        self._home, self._home_at = self.broker, self._at

    # --- requests

    async def _take_back(self, make: Callable[[int], Message]) -> None:
        """A request to forget something, of which the next connection knows nothing anyway."""
        if self._closed is None and self.is_connected:
            await self._request(make, ends_with_connection=True)

    async def _request(self, make: Callable[[int], Message], ends_with_connection: bool = False) -> dict[str, Any]:
        self._check_open()
        number = self._next_request
        self._next_request += 1
        message = make(number)
        written = framed(message, self._publishing.most_bytes)
        request = Request(message, written, self._loop.create_future(), ends_with_connection)
        self._requests[number] = request
        self._publishing.send_gathered()
        self._send_request(request)
        try:
            return await request.answer
        finally:
            self._requests.pop(number, None)

    def _send_request(self, request: Request) -> None:
        """Another broker may accept less in one message than the one that it was written for."""
        most_bytes = self._publishing.most_bytes
        if not fits(request.framed, most_bytes):
            if not request.answer.done():
                what = f"the message {type(request.message).__name__}"
                request.answer.set_exception(TooLarge(what, len(request.framed), most_bytes, "ask for less at once"))
        elif self._connection is not None:
            self._connection.send_frame(request.framed)
            self._connection.resume_reading()

    def _send(self, message: Message) -> None:
        if self._connection is not None and self._connection.is_open:
            self._connection.send(message)

    def _send_post(self, sent: Sent) -> None:
        """What a broker may have on its disk, its answer being lost, it alone can tell from a duplicate.

        What was published before it was accepted before: through another broker it could be overtaken.
        """
        if self._connection is not None and self._connection.is_open:
            if self._is_kept:
                self._keep_to_this_broker()
            self._connection.name_spaces([sent.space])
            self._connection.send_frame(sent.framed)
            self._connection.resume_reading()

    # --- what comes

    def made(self, connection: Connection) -> None:
        self._current = connection
        self._refusal = None

    def arrived(self, connection: Connection, payloads: list[bytes]) -> None:
        for payload in payloads:
            try:
                self._hear(connection, decode(payload, self._versions))
            except ContentcastError as reason:
                self._refusal = LiveError(f"broker {self.broker} sent what cannot be read: {reason}", "message")
                connection.abort()
                return

    def broken(self, connection: Connection, reason: WireError) -> None:
        if self._welcome is not None and not self._welcome.done():
            self._welcome.set_exception(LiveError(str(reason), "message"))
        connection.abort()

    def lost(self, connection: Connection, reason: str) -> None:
        if connection is not self._current:
            return  # another one was made meanwhile
        if self._welcome is not None and not self._welcome.done():
            tls = "" if self._asked.secure else "; if it wants TLS, its address begins with contentcasts://"
            self._welcome.set_exception(ConnectionError(f"{reason} before it said who it is{tls}"))
        self._gone.set()

    def _hear(self, connection: Connection, message: Message) -> None:
        match message:
            case Delivery():
                self._deliver(message)
            case DurableDelivery():
                self._deliver_durably(message)
            case Done(request, document, post):
                if post:
                    self._publishing.done(message)
                elif request in self._requests and not self._requests[request].answer.done():
                    self._requests[request].answer.set_result(document)
            case Failed():
                self._failed(message)
            case Spaces():
                for space in message.read():
                    self._versions.declare(space)
            case Beat(sent=sent):
                if sent:
                    connection.send(Beat(heard=sent))
            case Welcome():
                if self._welcome is not None and not self._welcome.done():
                    self._welcome.set_result(message)
            case _:
                raise WireError(f"a broker does not say {type(message).__name__} to a client")

    def _failed(self, failed: Failed) -> None:
        reason = error_of(failed)
        if failed.post:
            self._publishing.failed(failed.text, failed.request, reason)
        elif failed.code in ("taken-over", "rights"):
            if failed.text:
                self._taken_over(failed.text, LiveError(failed.reason, failed.code))
            else:
                self._tell("refused", failed.reason)
        elif failed.request:
            self._fail_request(failed.request, reason)
        else:
            self._is_refused = True
            if failed.code in UNREADABLE and self._connection is not None:
                self._give_up_suspects(failed)
            is_final = failed.code in FATAL or (failed.code == TOKEN_EXPIRED and isinstance(self._token, str))
            if is_final or not self._reconnect:
                self._refusal = reason
            if self._welcome is not None and not self._welcome.done():
                self._welcome.set_exception(reason if failed.code in FATAL else ConnectionError(failed.reason))
            self._tell("refused", failed.reason)

    def _fail_request(self, number: int, reason: ContentcastError) -> None:
        if number in self._requests and not self._requests[number].answer.done():
            self._requests[number].answer.set_exception(reason)

    def _give_up_suspects(self, failed: Failed) -> None:
        """One of what was under way cannot be handled. What was under way twice at such a refusal is not sent a third time."""
        under_way: set[int | tuple[str, int]] = {*self._requests, *self._publishing.under_way}
        twice = self._suspects & under_way
        self._suspects = under_way - twice
        reason = LiveError(f"broker {self.broker} has twice refused what was under way: {failed.reason}", failed.code)
        for each in twice:
            if isinstance(each, int):
                self._fail_request(each, reason)
            else:
                self._publishing.failed(*each, reason)

    def _turn(self) -> None:
        self._publishing.send_gathered()
