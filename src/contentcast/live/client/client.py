"""The client without threads: `async with cc.connect("contentcast://host:port") as client`.

It holds one connection to one of its brokers. When that is lost it connects to the next address, declares, subscribes and
advertises again, and sends again what was not accepted; `on_change` is told.

    connected    a request is sent, its answer ends it
    lost         requests wait, publishing fills its window, then waits
    connected    everything as above, by itself

Rule: an error is raised by the call that made the mistake. What cannot be (a name that is taken, a token that is refused) ends
the client, and every call says why.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, overload

import numpy as np

from contentcast.live.address import Address, read_addresses
from contentcast.live.client.publishing import Publishing, Receipt, as_batch
from contentcast.live.client.subscribing import (
    MOST_WAITING,
    Batches,
    Deliver,
    Delivered,
    Events,
    Ints,
    Subscription,
    Subscriptions,
)
from contentcast.live.errors import LiveError, NotConnected, error_of
from contentcast.live.links.connection import Connection
from contentcast.live.links.dialling import BackOff, dial
from contentcast.live.links.turns import Turns
from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.wire import Message, SpaceVersions, WireError, decode
from contentcast.wire.client import (
    Advertise,
    Ask,
    Beat,
    Delivery,
    Done,
    Failed,
    Hello,
    Spaces,
    Subscribe,
    Welcome,
    Withdraw,
)

GREETING_S: Final = 5.0
BEAT_EVERY_S: Final = 1.0
DEAD_AFTER_S: Final = 10.0
"""A broker that was silent for so long is given up, and another address is tried."""
MANY: Final = 50_000
"""Subscriptions in one message."""
FATAL: Final = frozenset({"access", "name-taken"})
MOST_MESSAGE_BYTES: Final = 64 * 2**20

OnChange: TypeAlias = Callable[[str, str], object]


@dataclass(frozen=True, slots=True)
class Advertised:
    """An advertisement of this client, to be handed to `unadvertise`."""

    number: int
    space: str
    predicate: str


class Client:
    """Made by `connect`."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        *,
        name: str = "",
        token: str = "",
        tls: ssl.SSLContext | None = None,
        reconnect: bool = True,
        on_change: OnChange | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.name = name or f"client-{secrets.token_hex(4)}"
        self.broker = ""
        """The name of the broker that it is connected to."""
        self.reconnections = 0
        self.missed = 0
        """Events that the broker left out because this client was slow."""
        self._addresses = addresses
        self._token, self._key = token, secrets.token_hex(16)
        self._tls = tls
        self._reconnect = reconnect
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._turns = Turns(self._loop, self._turn)
        self._versions = SpaceVersions()
        self._spaces: dict[str, Space] = {}
        self._declared: dict[str, Space] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._many: list[Subscriptions] = []
        self._advertised: dict[int, Advertised] = {}
        self._requests: dict[int, tuple[Message, asyncio.Future[dict[str, Any]]]] = {}
        self._next_request = self._next_number = 1
        self._connection: Connection | None = None
        self._welcome: asyncio.Future[Welcome] | None = None
        self._gone = asyncio.Event()
        self._closed: ContentcastError | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._waiting = 0
        self._most_waiting = most_waiting
        self._refusal: ContentcastError | None = None
        publisher = self.name
        self._publishing = Publishing(f"{publisher}/{self._key[:8]}" if not name else publisher, self._send, self._turns.want)

    # --- the five verbs, and declare

    async def declare(self, space: Space) -> Space:
        """Makes the space known to the network, or adds attributes to it; the space as it is now."""
        answer = await self._request(lambda number: Spaces.of([space], number))
        self._declared[space.name] = space
        return self._learn(answer)[space.name]

    async def subscribe(
        self,
        space: str | Space,
        predicate: str = "TRUE",
        *,
        deliver: Deliver | None = None,
        batches: bool = False,
        on_slow: str = "",
        durable: str = "",
    ) -> Subscription:
        """From the moment it returns, every event of the space that matches comes. `on_slow`: pause, skip or disconnect."""
        name = await self._space_name(space)
        subscription = Subscription(self, self._number(), name, predicate, deliver, batches, on_slow, durable)
        self._subscriptions[subscription.number] = subscription
        try:
            await self._subscribe(subscription)
        except BaseException:
            self._subscriptions.pop(subscription.number, None)
            subscription.end()
            raise
        return subscription

    async def subscribe_many(
        self, space: str | Space, predicates: Iterable[str], *, deliver: Deliver | None = None, on_slow: str = ""
    ) -> Subscriptions:
        """Many as one, read by the broker in bulk: each event comes once, with all of them that it satisfies.

        `deliver` is called with a `Delivered`; without it, `async for delivered in subscriptions` gives the same.
        """
        name = await self._space_name(space)
        made = Subscriptions(self, self._next_number, name, list(predicates), deliver, on_slow)
        self._next_number = made.end_number
        self._many.append(made)
        try:
            await self._subscribe_many(made)
        except BaseException:
            self._many.remove(made)
            made.end()
            raise
        return made

    async def unsubscribe_many(self, subscriptions: Subscriptions) -> None:
        if subscriptions in self._many:
            self._many.remove(subscriptions)
            numbers = tuple(range(subscriptions.first, subscriptions.end_number))
            await self._request(lambda number: Withdraw(number, "subscriptions", numbers))
        await subscriptions.finish()

    async def _subscribe_many(self, made: Subscriptions) -> None:
        ids: list[int] = []
        for begin in range(0, len(made.predicates), MANY):
            texts = tuple(made.predicates[begin : begin + MANY])
            numbers = tuple(range(made.first + begin, made.first + begin + len(texts)))
            ids += (await self._ask_for(made.space, numbers, texts, made.on_slow))["ids"]
        made.ids = ids

    async def change(self, subscription: Subscription, predicate: str) -> None:
        before, subscription.predicate = subscription.predicate, predicate
        try:
            await self._subscribe(subscription)
        except ContentcastError:
            subscription.predicate = before
            raise

    async def unsubscribe(self, subscription: Subscription | Iterable[Subscription]) -> None:
        gone = [subscription] if isinstance(subscription, Subscription) else list(subscription)
        numbers = tuple(each.number for each in gone if self._subscriptions.pop(each.number, None) is not None)
        if numbers and self._closed is None:
            await self._request(lambda number: Withdraw(number, "subscriptions", numbers))
        for each in gone:
            await each.finish()

    def events(self, space: str | Space, predicate: str = "TRUE", *, on_slow: str = "", durable: str = "") -> Events:
        """`async for event in client.events("trades", "price < 120")`: a dict each."""
        return Events(lambda: self.subscribe(space, predicate, on_slow=on_slow, durable=durable))

    def batches(self, space: str | Space, predicate: str = "TRUE", *, on_slow: str = "", durable: str = "") -> Batches:
        """`async for batch in client.batches(...)`: an `EventBatch` each."""
        return Batches(lambda: self.subscribe(space, predicate, on_slow=on_slow, durable=durable))

    @overload
    async def publish(self, space: str | Space, events: Any, *, wait: Literal[True] = True) -> Receipt: ...

    @overload
    async def publish(self, space: str | Space, events: Any, *, wait: Literal[False]) -> asyncio.Future[Receipt]: ...

    async def publish(self, space: str | Space, events: Any, *, wait: bool = True) -> Receipt | asyncio.Future[Receipt]:
        """A dict, a list of dicts, an `EventBatch`, Arrow or pandas.

        Returns the receipt when the broker has accepted it. With `wait=False` it returns a future of the receipt as soon as
        the broker's window has room; `flush` waits for all of them.
        """
        self._check_open()
        found = await self._space(space)
        if isinstance(events, Mapping):
            future = await self._publishing.one(found, events, wait)
        else:
            future = await self._publishing.many(as_batch(found, events), wait)
        return await future if wait else future

    async def flush(self) -> None:
        """Everything that was published so far is accepted; raises if some of it was refused meanwhile."""
        self._check_open()
        await self._publishing.flush()

    async def advertise(self, space: str | Space, predicate: str = "TRUE") -> Advertised:
        """Says what this client may publish."""
        made = Advertised(self._number(), await self._space_name(space), predicate)
        await self._request(lambda number: Advertise(number, made.space, made.number, predicate))
        self._advertised[made.number] = made
        return made

    async def unadvertise(self, advertised: Advertised) -> None:
        if self._advertised.pop(advertised.number, None) is not None:
            await self._request(lambda number: Withdraw(number, "advertisements", (advertised.number,)))

    # --- looking

    async def space(self, name: str) -> Space:
        """The space of this name, as it is declared now."""
        return self._learn(await self._request(lambda number: Ask(number, "spaces", {"names": [name]})))[name]

    async def spaces(self) -> dict[str, Space]:
        return self._learn(await self._request(lambda number: Ask(number, "spaces")))

    async def ask(self, what: str, **document: Any) -> dict[str, Any]:
        """What the broker says of itself: `state`, `why`."""
        return await self._request(lambda number: Ask(number, what, document))

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    # --- opening and closing

    async def open(self) -> Client:
        connection = await self._connect()
        self._keeper = asyncio.create_task(self._keep(connection), name=f"{self.name} keeps its connection")
        return self

    async def close(self) -> None:
        """What was published is accepted first, and what has come is handed over."""
        if self._closed is None and self.is_connected:
            self._publishing.send_gathered()
            with suppress(ContentcastError, TimeoutError):
                async with asyncio.timeout(GREETING_S):
                    await self.flush()
        self._end(NotConnected("the client was closed"))
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()
        await asyncio.gather(*(each.finish() for each in self._inboxes()))
        self._subscriptions.clear()
        self._many.clear()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    def _end(self, reason: ContentcastError) -> None:
        if self._closed is None:
            self._closed = reason
        self._publishing.give_up(reason)
        for _, future in self._requests.values():
            if not future.done():
                future.set_exception(reason)
        self._requests.clear()
        for each in self._inboxes():
            each.end()

    def _inboxes(self) -> list[Subscription | Subscriptions]:
        return [*self._subscriptions.values(), *self._many]

    # --- one connection after the other

    async def _connect(self) -> Connection:
        """To the first address that answers."""
        reasons = []
        for address in self._addresses:
            try:
                return await self._greet(address)
            except OSError as reason:
                said = reason.strerror or str(reason)
                reasons.append(f"{address}: {said}")
        raise NotConnected(f"no broker answers: {'; '.join(reasons)}. `contentcast broker` starts one")

    async def _greet(self, address: Address) -> Connection:
        self._gone = asyncio.Event()
        self._refusal = None
        self._welcome = self._loop.create_future()

        def make() -> Connection:
            return Connection(self, self._turns, dialled=True, most_bytes=MOST_MESSAGE_BYTES)

        connection = await dial(address, make, self._tls)
        connection.send(Hello("client", self.name, token=self._token, key=self._key))
        try:
            async with asyncio.timeout(GREETING_S):
                welcome = await self._welcome
        except TimeoutError:
            connection.abort()
            raise TimeoutError(f"it does not say who it is within {GREETING_S:g} s") from None
        self.broker = welcome.name
        self._publishing.window_events = max(1, welcome.window_events)
        self._publishing.window_bytes = max(1, welcome.window_bytes)
        self._connection = connection
        return connection

    async def _keep(self, connection: Connection) -> None:
        """Beats while it lasts, and connects again."""
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
            self._tell("lost", self.broker)
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
            self._on_change(what, about)

    def _say_again(self) -> None:
        """Everything that the broker must know, in the order in which one thing needs the other."""
        if self._declared:
            self._background(lambda number: Spaces.of(self._declared.values(), number))
        asked = {
            number for message, _ in self._requests.values() if isinstance(message, Subscribe) for number in message.numbers
        }
        for each in self._subscriptions.values():
            if each.number not in asked:
                asyncio.ensure_future(self._subscribe(each)).add_done_callback(self._said_again)
        for many in self._many:
            asyncio.ensure_future(self._subscribe_many(many)).add_done_callback(self._said_again)
        for made in self._advertised.values():
            self._background(lambda number, made=made: Advertise(number, made.space, made.number, made.predicate))  # type: ignore[misc]
        for message, _ in list(self._requests.values()):
            self._send(message)
        self._publishing.resend()

    def _background(self, make: Callable[[int], Message]) -> None:
        asyncio.ensure_future(self._request(make)).add_done_callback(self._said_again)

    def _said_again(self, task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and (reason := task.exception()) is not None:
            self._tell("failed", str(reason))

    # --- requests

    async def _request(self, make: Callable[[int], Message]) -> dict[str, Any]:
        self._check_open()
        number = self._next_request
        self._next_request += 1
        message = make(number)
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._requests[number] = (message, future)
        self._publishing.send_gathered()
        self._send(message)
        try:
            return await future
        finally:
            self._requests.pop(number, None)

    def _send(self, message: Message) -> None:
        if self._connection is not None and self._connection.is_open:
            self._connection.send(message)

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    async def _subscribe(self, chosen: Subscription) -> None:
        asked = (chosen.space, (chosen.number,), (chosen.predicate,), chosen.on_slow, chosen.durable)
        answer = await self._ask_for(*asked)
        (chosen.id,) = answer["ids"]
        chosen.narrowed = answer.get("narrowed", {}).get(chosen.number)

    async def _ask_for(
        self, space: str, numbers: tuple[int, ...], texts: tuple[str, ...], on_slow: str, durable: str = ""
    ) -> dict[str, Any]:
        return await self._request(lambda number: Subscribe(number, space, numbers, texts, on_slow, durable))

    async def _space(self, space: str | Space) -> Space:
        name = space if isinstance(space, str) else space.name
        found = self._spaces.get(name)
        if found is None or (isinstance(space, Space) and not found.extends(space)):
            found = await (self.space(name) if isinstance(space, str) else self.declare(space))
        return found

    async def _space_name(self, space: str | Space) -> str:
        return space if isinstance(space, str) else (await self._space(space)).name

    def _learn(self, answer: Mapping[str, Any]) -> dict[str, Space]:
        found = {each.name: each for each in (Space.from_dict(each) for each in answer["spaces"])}
        for space in found.values():
            self._versions.declare(space)
        self._spaces.update(found)
        return found

    # --- what comes

    def made(self, connection: Connection) -> None:
        pass

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
        if self._welcome is not None and not self._welcome.done():
            self._welcome.set_exception(ConnectionError(reason))
        self._gone.set()

    def _hear(self, connection: Connection, message: Message) -> None:
        match message:
            case Delivery():
                self._deliver(message)
            case Done(request, document, post):
                if post:
                    self._publishing.done(message)
                elif request in self._requests and not self._requests[request][1].done():
                    self._requests[request][1].set_result(document)
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
            self._publishing.failed(failed.request, reason)
        elif failed.request:
            if failed.request in self._requests and not self._requests[failed.request][1].done():
                self._requests[failed.request][1].set_exception(reason)
        else:
            if failed.code in FATAL or not self._reconnect:
                self._refusal = reason
            if self._welcome is not None and not self._welcome.done():
                self._welcome.set_exception(reason if failed.code in FATAL else ConnectionError(failed.reason))
            self._tell("refused", failed.reason)

    def _deliver(self, delivery: Delivery) -> None:
        self.missed += delivery.missed
        numbers, events = delivery.numbers, delivery.events
        if not len(numbers):
            return
        first, last = int(numbers.min()), int(numbers.max())
        if first == last and len(numbers) == len(events):
            self._hand_in(first, events, delivery.missed)
        else:
            rows = np.repeat(np.arange(len(events)), np.diff(delivery.ends, prepend=0))
            for many in self._many:
                if many.first <= last and first < many.end_number:
                    mine = np.flatnonzero((numbers >= many.first) & (numbers < many.end_number))
                    self._hand_in_many(many, events, rows[mine], numbers[mine], delivery.missed)
                    numbers, rows = np.delete(numbers, mine), np.delete(rows, mine)
            for each in np.unique(numbers).tolist():
                self._hand_in(each, events.take(rows[numbers == each]), delivery.missed)
        if self._is_full and self._connection is not None:
            self._connection.pause_reading()

    def _hand_in(self, number: int, events: EventBatch, missed: int) -> None:
        subscription = self._subscriptions.get(number)
        if subscription is not None:
            self._waiting += len(events)
            subscription.take(events, missed)
            return
        for many in self._many:
            if many.first <= number < many.end_number:
                rows = np.arange(len(events))
                self._hand_in_many(many, events, rows, np.full(len(events), number), missed)

    def _hand_in_many(self, many: Subscriptions, events: EventBatch, rows: Ints, numbers: Ints, missed: int) -> None:
        if not len(rows):
            return
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        chosen = rows[begins]
        part = events if len(chosen) == len(events) else events.take(chosen)
        self._waiting += len(part)
        many.take(Delivered(part, np.append(begins[1:], len(rows)), numbers - many.first), missed)

    @property
    def _is_full(self) -> bool:
        return self._waiting >= self._most_waiting

    def taken(self, count: int) -> None:
        """The program has taken so many events."""
        self._waiting -= count
        if self._waiting <= self._most_waiting // 2 and self._connection is not None:
            self._connection.resume_reading()

    def callback_failed(self, reason: Exception) -> None:
        """The program's own mistake: its event loop is told, and the next event comes all the same."""
        self._loop.call_exception_handler({"message": "a callback of a subscription failed", "exception": reason})

    def _turn(self) -> None:
        self._publishing.send_gathered()


class Connecting:
    """What `connect` returns: to be awaited, or to be entered with `async with`."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._client: Client | None = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._make().open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._make().open()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()


def connect(
    url: str | Iterable[str] = "contentcast://127.0.0.1",
    *,
    name: str = "",
    token: str = "",
    authority: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    reconnect: bool = True,
    on_change: OnChange | None = None,
    most_waiting: int = MOST_WAITING,
) -> Connecting:
    """A client of the broker at `url`, or of any of several (a list, or commas between them).

    `authority`, `certificate` and `key` are PEM files for contentcasts://; `token` is a signed one. `on_change` is called with
    "lost", "trying", "connected", "refused" or "failed", and what it is about.
    """
    addresses = read_addresses(url if isinstance(url, str) else list(url))

    def make() -> Client:
        from contentcast.live.tls import client_context

        tls = client_context(authority, certificate, key) if any(each.secure for each in addresses) else None
        return Client(
            addresses,
            name=name,
            token=token,
            tls=tls,
            reconnect=reconnect,
            on_change=on_change,
            most_waiting=most_waiting,
        )

    return Connecting(make)
