"""The same client without async: an event loop in a thread of its own does the work, and another thread calls the callbacks.

Rule: every call returns, or raises, what the call of the same name of `Client` does. Any thread may call, also a callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from threading import Thread, current_thread
from typing import Any, Final, Literal, TypeVar, overload

from contentcast.live.client.callbacks import Callbacks
from contentcast.live.client.client import Advertised, Client
from contentcast.live.client.connecting import connect
from contentcast.live.client.durable import DurableSubscription, Place
from contentcast.live.client.promises import OtherThreads, Promise
from contentcast.live.client.publishing import Receipt
from contentcast.live.client.subscribing import Delivered, Stream, Subscription, Subscriptions
from contentcast.live.errors import NotConnected
from contentcast.model import ContentcastError, EventBatch, Space

T = TypeVar("T")
CALLED: Final = ("on_change", "on_missed")
"""Functions of the program that a client calls, beside `deliver`."""


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
        self._client.end(self.inside.unsubscribe())

    def leave(self) -> None:
        self._client.end(self.inside.leave())

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


class SyncSubscriptions(Iterator[Delivered]):
    """Many as one; `for delivered in subscriptions` unless they were made with a callback."""

    def __init__(self, client: SyncClient, inside: Subscriptions) -> None:
        self._client = client
        self.inside = inside

    @property
    def ids(self) -> list[int]:
        return self.inside.ids

    @property
    def missed(self) -> int:
        return self.inside.missed

    def unsubscribe(self) -> None:
        self._client.end(self.inside.unsubscribe())

    def __next__(self) -> Delivered:
        found: Delivered = self._client.next_of(self.inside)
        return found


class SyncStream(Iterator[T]):
    """`for event in stream`; `subscription` is the one that it has for itself, and `next` does not wait for ever."""

    def __init__(self, client: SyncClient, stream: Stream[T]) -> None:
        assert stream.subscription is not None
        self.subscription = SyncSubscription(client, stream.subscription)
        self._client, self._stream = client, stream

    def __next__(self) -> T:
        found: T = self._client.next_of(self._stream)
        return found

    def next(self, seconds: float) -> T | None:
        """What comes within this time; None if nothing does."""
        found: T | None = None
        with suppress(StopIteration):
            found = self._client.next_of(self._stream, seconds)
        return found

    def close(self) -> None:
        """The subscription ends; a durable one stays at the broker."""
        self._client.end(self._stream.aclose())

    def __enter__(self) -> SyncStream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncClient:
    """Made by `connect_sync`. Callbacks run one after the other in a thread of their own, and may call the client."""

    def __init__(self, url: str | Iterable[str], **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="contentcast client", daemon=True)
        self._thread.start()
        self._callbacks = Callbacks(self._loop, self.call)
        try:
            self.inside: Client = self.call(_opened(url, self._called(options)))
        except BaseException:
            self._end()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Has it done in the client's event loop, and waits for it."""
        if current_thread() is self._thread:
            work.close()
            raise ContentcastError("a coroutine of the client's own event loop cannot wait for the client: `connect` has async")
        try:
            waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise NotConnected("the client was closed") from None
        try:
            return waiting.result()
        except CancelledError:
            raise NotConnected("the client was closed") from None
        except BaseException:  # Ctrl-C: nobody waits for it any more
            waiting.cancel()
            raise

    def end(self, work: Coroutine[Any, Any, Any]) -> None:
        """The end of something, which has ended anyway if the client has."""
        if self._loop.is_running():
            self.call(work)
        else:
            work.close()

    def next_of(self, source: Stream[T] | Subscriptions, seconds: float | None = None) -> Any:
        """The next of what comes. It is the end of that when the client has ended; with `seconds` None if nothing comes."""
        try:
            return self.call(_next(source, seconds))
        except StopAsyncIteration:
            raise StopIteration from None
        except NotConnected:
            if self._loop.is_running():
                raise
            raise StopIteration from None

    @property
    def name(self) -> str:
        return self.inside.name

    @property
    def broker(self) -> str:
        return self.inside.broker

    @property
    def missed(self) -> int:
        return self.inside.missed

    def declare(self, space: Space) -> Space:
        return self.call(self.inside.declare(space))

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
        taken = self._taken(deliver, one_by_one=not batches and not options.get("durable"))
        batches = batches or not options.get("durable")
        work = self.inside.subscribe(space, predicate, deliver=taken, batches=batches, **self._called(options))
        return SyncSubscription(self, self.call(work))

    def subscribe_many(
        self,
        space: str | Space,
        predicates: Iterable[str] | Mapping[int | str, str],
        *,
        deliver: Callable[[Delivered], object] | None = None,
        on_slow: str = "",
    ) -> SyncSubscriptions:
        taken = None if deliver is None else self._taken(deliver)
        work = self.inside.subscribe_many(space, predicates, deliver=taken, on_slow=on_slow)
        return SyncSubscriptions(self, self.call(work))

    def unsubscribe(self, subscription: SyncSubscription | str) -> None:
        """A text is the name of a durable subscription."""
        if isinstance(subscription, str):
            self.call(self.inside.unsubscribe(subscription))
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
            return self.call(self.inside.publish(space, events, publisher=publisher, number=number))
        return self.call(_promised(self.inside.publish(space, events, wait=False, publisher=publisher, number=number)))

    def flush(self) -> None:
        self.call(self.inside.flush())

    def advertise(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> Advertised:
        """`options` on a LAN: quality, rate."""
        return self.call(self.inside.advertise(space, predicate, **options))

    def unadvertise(self, advertised: Advertised) -> None:
        self.call(self.inside.unadvertise(advertised))

    def events(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> SyncStream[dict[str, Any]]:
        """`for event in client.events("trades", "price < 120")`; subscribed before this returns."""
        return self._iterate(self.inside.events(space, predicate, **self._called(options)))

    def batches(self, space: str | Space, predicate: str = "TRUE", **options: Any) -> SyncStream[EventBatch]:
        return self._iterate(self.inside.batches(space, predicate, **self._called(options)))

    def _iterate(self, stream: Stream[T]) -> SyncStream[T]:
        self.call(stream.ready())
        return SyncStream(self, stream)

    def _called(self, options: dict[str, Any]) -> dict[str, Any]:
        """The functions of the program among them are called in the thread of the callbacks."""
        found = {each: options[each] for each in CALLED if callable(options.get(each))}
        return {**options, **{each: self._callbacks.of(function) for each, function in found.items()}}

    def _taken(self, deliver: Callable[[Any], object], one_by_one: bool = False) -> Callable[[Any], object]:
        """A whole batch is handed to the thread of the callbacks at once, although the callback is given event by event."""
        if not callable(deliver):
            return deliver
        if one_by_one:
            return lambda batch: self._callbacks.each(deliver, batch.to_dicts())
        return lambda part: self._callbacks.one(deliver, part)

    def place(self, durable: str) -> Place:
        return self.call(self.inside.place(durable))

    def acknowledge(self, durable: str, upto: int) -> Place:
        return self.call(self.inside.acknowledge(durable, upto))

    def space(self, name: str) -> Space:
        return self.call(self.inside.space(name))

    def spaces(self) -> dict[str, Space]:
        return self.call(self.inside.spaces())

    def ask(self, what: str, **document: Any) -> dict[str, Any]:
        return self.call(self.inside.ask(what, **document))

    def close(self) -> None:
        self.__exit__(None)

    def _end(self) -> None:
        self._callbacks.end()
        with suppress(NotConnected):  # closed by another thread meanwhile
            self.call(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._loop.is_running():
            try:
                self.call(self.inside.__aexit__(kind))
            finally:
                self._end()


async def _opened(url: str | Iterable[str], options: dict[str, Any]) -> Client:
    return await connect(url, **options)


async def _promised(publishing: Coroutine[Any, Any, asyncio.Future[Receipt]]) -> Future[Receipt]:
    promise = await publishing
    assert isinstance(promise, Promise)
    return OtherThreads(promise)


async def _next(source: Stream[T] | Subscriptions, seconds: float | None) -> Any:
    if seconds is None:
        return await source.__anext__()
    try:
        async with asyncio.timeout(seconds):
            return await source.__anext__()
    except TimeoutError:
        return None


async def _cancel_all() -> None:
    """What still waits, as the callback that has closed the client does."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def connect_sync(url: str | Iterable[str] = "contentcast://127.0.0.1", **options: Any) -> SyncClient:
    """As `connect`, without async."""
    return SyncClient(url, **options)
