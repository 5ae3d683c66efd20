"""The same client without async: an event loop in a thread of its own does the work.

Rule: every call returns, or raises, what the call of the same name of `Client` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any, Literal, TypeVar, overload

from contentcast.live.client.client import Advertised, Client
from contentcast.live.client.connecting import connect
from contentcast.live.client.durable import DurableSubscription, Place
from contentcast.live.client.promises import OtherThreads, Promise
from contentcast.live.client.publishing import Receipt
from contentcast.live.client.subscribing import Stream, Subscription
from contentcast.model import ContentcastError, EventBatch, Space

T = TypeVar("T")


class SyncSubscription:
    def __init__(self, client: SyncClient, inside: Subscription) -> None:
        self._client = client
        self.inside = inside

    @property
    def id(self) -> int:
        return self.inside.id

    @property
    def missed(self) -> int:
        return self.inside.missed

    @property
    def predicate(self) -> str:
        return self.inside.predicate

    def change(self, predicate: str) -> None:
        self._client.call(self.inside.change(predicate))

    def unsubscribe(self) -> None:
        self._client.call(self.inside.unsubscribe())

    def leave(self) -> None:
        self._client.call(self.inside.leave())

    @property
    def position(self) -> int:
        """Of a durable one: the number of the last event that the program was given."""
        return self._durable.position

    def acknowledge(self, upto: int | None = None) -> None:
        """Of a durable one: the program is done with all numbers up to this one, or up to `position`."""

        async def acknowledged() -> None:
            self._durable.acknowledge(upto)

        self._client.call(acknowledged())

    @property
    def _durable(self) -> DurableSubscription:
        if not isinstance(self.inside, DurableSubscription):
            raise ContentcastError("only a durable subscription has numbers; subscribe with durable=NAME")
        return self.inside


class SyncStream(Iterator[T]):
    """`for event in stream`; `subscription` is the one that it has for itself, and `next` does not wait for ever."""

    def __init__(self, client: SyncClient, stream: Stream[T]) -> None:
        assert stream.subscription is not None
        self.subscription = SyncSubscription(client, stream.subscription)
        self._client, self._stream = client, stream
        self._each = client.each(stream)

    def __next__(self) -> T:
        return next(self._each)

    def next(self, seconds: float) -> T | None:
        """What comes within this time; None if nothing does."""
        found = _next_within(self._stream, seconds)
        return self._client.call(found)

    def close(self) -> None:
        """The subscription ends; a durable one stays at the broker."""
        self._client.leave(self._stream)

    def __enter__(self) -> SyncStream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncClient:
    """Made by `connect_sync`. Callbacks run in the client's own thread."""

    def __init__(self, url: str | Iterable[str], **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="contentcast client", daemon=True)
        self._thread.start()
        try:
            self._client: Client = self.call(_opened(url, options))
        except BaseException:
            self._end()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def name(self) -> str:
        return self._client.name

    @property
    def broker(self) -> str:
        return self._client.broker

    @property
    def missed(self) -> int:
        return self._client.missed

    def declare(self, space: Space) -> Space:
        return self.call(self._client.declare(space))

    def subscribe(
        self,
        space: str | Space,
        predicate: str = "TRUE",
        *,
        deliver: Callable[[Any], object],
        batches: bool = False,
        **options: Any,
    ) -> SyncSubscription:
        """`options` as for `Client.subscribe`: on_slow, durable, after, acknowledge, on_missed."""
        made = self.call(self._client.subscribe(space, predicate, deliver=deliver, batches=batches, **options))
        return SyncSubscription(self, made)

    def unsubscribe(self, subscription: SyncSubscription | str) -> None:
        """A text is the name of a durable subscription."""
        if isinstance(subscription, str):
            self.call(self._client.unsubscribe(subscription))
        else:
            subscription.unsubscribe()

    @overload
    def publish(
        self, space: str | Space, events: Any, *, wait: Literal[True] = True, publisher: str = "", number: int = 0
    ) -> Receipt: ...

    @overload
    def publish(
        self, space: str | Space, events: Any, *, wait: Literal[False], publisher: str = "", number: int = 0
    ) -> Future[Receipt]: ...

    def publish(
        self, space: str | Space, events: Any, *, wait: bool = True, publisher: str = "", number: int = 0
    ) -> Receipt | Future[Receipt]:
        """As `Client.publish`; with `wait=False` a future of `concurrent.futures`."""
        if wait:
            return self.call(self._client.publish(space, events, publisher=publisher, number=number))
        return self.call(_promised(self._client.publish(space, events, wait=False, publisher=publisher, number=number)))

    def flush(self) -> None:
        self.call(self._client.flush())

    def advertise(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> Advertised:
        """`options` on a LAN: quality, rate."""
        return self.call(self._client.advertise(space, predicate, **options))

    def unadvertise(self, advertised: Advertised) -> None:
        self.call(self._client.unadvertise(advertised))

    def events(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> SyncStream[dict[str, Any]]:
        """`for event in client.events("trades", "price < 120")`; subscribed before this returns."""
        return self._iterate(self._client.events(space, predicate, **options))

    def batches(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> SyncStream[EventBatch]:
        return self._iterate(self._client.batches(space, predicate, **options))

    def _iterate(self, stream: Stream[T]) -> SyncStream[T]:
        self.call(stream.ready())
        return SyncStream(self, stream)

    def each(self, stream: Stream[T]) -> Iterator[T]:
        try:
            while True:
                try:
                    yield self.call(_next(stream))
                except StopAsyncIteration:
                    return
        finally:
            self.leave(stream)

    def leave(self, stream: Stream[Any]) -> None:
        if self._loop.is_running():
            self.call(stream.aclose())

    def place(self, durable: str) -> Place:
        return self.call(self._client.place(durable))

    def acknowledge(self, durable: str, upto: int) -> Place:
        return self.call(self._client.acknowledge(durable, upto))

    def space(self, name: str) -> Space:
        return self.call(self._client.space(name))

    def spaces(self) -> dict[str, Space]:
        return self.call(self._client.spaces())

    def ask(self, what: str, **document: Any) -> dict[str, Any]:
        return self.call(self._client.ask(what, **document))

    def close(self) -> None:
        self.__exit__(None)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._loop.is_running():
            try:
                self.call(self._client.__aexit__(kind))
            finally:
                self._end()


async def _opened(url: str | Iterable[str], options: dict[str, Any]) -> Client:
    return await connect(url, **options)


async def _promised(publishing: Coroutine[Any, Any, asyncio.Future[Receipt]]) -> Future[Receipt]:
    promise = await publishing
    assert isinstance(promise, Promise)
    return OtherThreads(promise)


async def _next_within(stream: Stream[T], seconds: float) -> T | None:
    try:
        async with asyncio.timeout(seconds):
            return await stream.__anext__()
    except TimeoutError:
        return None


async def _next(stream: Stream[T]) -> T:
    return await stream.__anext__()


def connect_sync(url: str | Iterable[str] = "contentcast://127.0.0.1", **options: Any) -> SyncClient:
    """As `connect`, without async."""
    return SyncClient(url, **options)
