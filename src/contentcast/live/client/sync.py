"""The same client without async: an event loop in a thread of its own does the work.

Rule: every call returns, or raises, what the call of the same name of `Client` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from contentcast.live.client.client import Advertised, Client
from contentcast.live.client.connecting import connect
from contentcast.live.client.durable import DurableSubscription
from contentcast.live.client.publishing import Receipt
from contentcast.live.client.subscribing import Batches, Stream, Subscription
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


class SyncBatches(Iterator[EventBatch]):
    """`for batch in client.batches(...)`."""

    def __init__(self, stream: Batches, each: Iterator[EventBatch]) -> None:
        self.stream = stream
        self._each = each

    def __next__(self) -> EventBatch:
        return next(self._each)


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

    def publish(
        self, space: str | Space, events: Any, *, wait: bool = True, publisher: str = "", number: int = 0
    ) -> Receipt | Future[Receipt]:
        """As `Client.publish`; with `wait=False` a future of `concurrent.futures`."""
        if wait:
            return self.call(self._client.publish(space, events, publisher=publisher, number=number))
        sent = self.call(self._client.publish(space, events, wait=False, publisher=publisher, number=number))
        return asyncio.run_coroutine_threadsafe(_waited(sent), self._loop)

    def flush(self) -> None:
        self.call(self._client.flush())

    def advertise(self, space: str | Space, predicate: str = "TRUE") -> Advertised:
        return self.call(self._client.advertise(space, predicate))

    def unadvertise(self, advertised: Advertised) -> None:
        self.call(self._client.unadvertise(advertised))

    def events(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> Iterator[dict[str, Any]]:
        """`for event in client.events("trades", "price < 120")`; subscribed before this returns."""
        return self._iterate(self._client.events(space, predicate, **options))

    def batches(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> SyncBatches:
        stream = self._client.batches(space, predicate, **options)
        return SyncBatches(stream, self._iterate(stream))

    def numbered(self, batches: Iterator[EventBatch]) -> Iterator[tuple[int, EventBatch]]:
        """Batches of a durable subscription, each with the number of its first event."""
        if not isinstance(batches, SyncBatches):
            raise ContentcastError("numbered takes what batches(..., durable=NAME) returns")
        for batch in batches:
            assert isinstance(batches.stream.subscription, DurableSubscription)
            yield batches.stream.subscription.position - len(batch) + 1, batch

    def _iterate(self, stream: Stream[T]) -> Iterator[T]:
        self.call(stream.ready())
        return self._each(stream)

    def _each(self, stream: Stream[T]) -> Iterator[T]:
        try:
            while True:
                try:
                    yield self.call(_next(stream))
                except StopAsyncIteration:
                    return
        finally:
            if self._loop.is_running():
                self.call(stream.aclose())

    def space(self, name: str) -> Space:
        return self.call(self._client.space(name))

    def spaces(self) -> dict[str, Space]:
        return self.call(self._client.spaces())

    def ask(self, what: str, **document: Any) -> dict[str, Any]:
        return self.call(self._client.ask(what, **document))

    def close(self) -> None:
        if self._loop.is_running():
            self.call(self._client.close())
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _opened(url: str | Iterable[str], options: dict[str, Any]) -> Client:
    return await connect(url, **options)


async def _waited(sent: Any) -> Receipt:
    receipt: Receipt = await sent
    return receipt


async def _next(stream: Stream[T]) -> T:
    return await stream.__anext__()


def connect_sync(url: str | Iterable[str] = "contentcast://127.0.0.1", **options: Any) -> SyncClient:
    """As `connect`, without async."""
    return SyncClient(url, **options)
