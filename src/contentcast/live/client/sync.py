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
from contentcast.live.client.publishing import Receipt
from contentcast.live.client.subscribing import Stream, Subscription
from contentcast.model import EventBatch, Space

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
        on_slow: str = "",
    ) -> SyncSubscription:
        made = self.call(self._client.subscribe(space, predicate, deliver=deliver, batches=batches, on_slow=on_slow))
        return SyncSubscription(self, made)

    def unsubscribe(self, subscription: SyncSubscription) -> None:
        subscription.unsubscribe()

    def publish(self, space: str | Space, events: Any, *, wait: bool = True) -> Receipt | Future[Receipt]:
        """As `Client.publish`; with `wait=False` a future of `concurrent.futures`."""
        if wait:
            return self.call(self._client.publish(space, events))
        sent = self.call(self._client.publish(space, events, wait=False))
        return asyncio.run_coroutine_threadsafe(_waited(sent), self._loop)

    def flush(self) -> None:
        self.call(self._client.flush())

    def advertise(self, space: str | Space, predicate: str = "TRUE") -> Advertised:
        return self.call(self._client.advertise(space, predicate))

    def unadvertise(self, advertised: Advertised) -> None:
        self.call(self._client.unadvertise(advertised))

    def events(self, space: str | Space, predicate: str = "TRUE", *, on_slow: str = "") -> Iterator[dict[str, Any]]:
        """`for event in client.events("trades", "price < 120")`; subscribed before this returns."""
        return self._iterate(self._client.events(space, predicate, on_slow=on_slow))

    def batches(self, space: str | Space, predicate: str = "TRUE", *, on_slow: str = "") -> Iterator[EventBatch]:
        return self._iterate(self._client.batches(space, predicate, on_slow=on_slow))

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
