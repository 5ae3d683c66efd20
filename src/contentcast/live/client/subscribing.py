"""What a client has subscribed to, and how the events that come for it reach the program.

    callback     deliver(event) for each event, deliver(batch) with batches=True; a coroutine is awaited
    events       async for event in client.events("trades", "price < 120"): a dict each
    batches      async for batch in client.batches(...): an `EventBatch` each, for those who want volume
    many         async for delivered in await client.subscribe_many(...): events once each, with all that they satisfy

Rule: what waits here is bounded. When it is full the client stops reading, and the broker does what `on_slow` says.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from contentcast.model import ContentcastError, EventBatch

if TYPE_CHECKING:
    from contentcast.live.client.client import Client

MOST_WAITING: Final = 100_000
"""Events that wait in a client for the program to take them."""

UNREAD: Final = (
    "subscribe: nothing would read what comes; add deliver=FUNCTION, which is called with each event, or take "
    "`async for event in client.events(...)` or `client.batches(...)` in place of it"
)

CALLER: Final[ContextVar[object]] = ContextVar("whose callback is running")
"""An `Inbox`, or the event loop of a client that has all callbacks called in one thread. None waits for its own end."""

Deliver = Callable[[Any], Awaitable[object] | object]
Ints = npt.NDArray[np.int64]
T = TypeVar("T")


def check_predicate(predicate: str) -> None:
    if not isinstance(predicate, str):
        raise ContentcastError(f"a predicate is a text, 'TRUE' for every event; got {predicate!r}")


class Came(Protocol):
    def __len__(self) -> int: ...

    def to_dicts(self) -> list[Any]: ...


W = TypeVar("W", bound=Came)


class Inbox(Generic[W]):
    """What has come and was not taken yet, and the task that hands it to a callback."""

    def __init__(self, client: Client, deliver: Deliver | None, batches: bool) -> None:
        if deliver is not None and not callable(deliver):
            raise ContentcastError(f"deliver= is a function that is called with what comes, got {deliver!r}")
        self.missed = 0
        """Events that the broker left out because this client was slow."""
        self._client = client
        self._deliver = deliver
        self._batches = batches
        self._waiting: deque[W] = deque()
        self._came = asyncio.Event()
        self._ended = False
        self._pump = asyncio.create_task(self._hand_over()) if deliver is not None else None

    def at(self, left: int) -> None:
        """The program is given an event of the batch that it took last; so many are left of it."""

    def done(self) -> None:
        """The program is done with what it was given."""

    def ends_with(self, reason: Exception) -> bool:
        """Its callback has failed: does nothing more come to it? By itself the next event comes all the same."""
        return False

    # --- from the client

    def take(self, batch: W, missed: int) -> None:
        self.missed += missed
        if not self._ended:
            self._waiting.append(batch)
            self._came.set()

    def end(self) -> None:
        """What waits here, perhaps for ever, no longer keeps the client from reading."""
        if not self._ended:
            self._client.taken(sum(map(len, self._waiting)))
            self._ended = True
        self._came.set()

    async def finish(self) -> None:
        """What has come is handed over; then nothing more."""
        self.end()
        if self._pump is not None and CALLER.get(None) not in (self, asyncio.get_running_loop()):
            await self._pump

    # --- to the program

    async def next_batch(self) -> W | None:
        """None when it has ended."""
        while not self._waiting:
            if self._ended:
                return None
            self._came.clear()
            await self._came.wait()
        batch = self._waiting.popleft()
        if not self._ended:
            self._client.taken(len(batch))
        return batch

    async def _hand_over(self) -> None:
        assert self._deliver is not None
        CALLER.set(self)
        while (batch := await self.next_batch()) is not None:
            parts = [batch] if self._batches else batch.to_dicts()
            for at, each in enumerate(parts, 1):
                self.at(len(parts) - at)
                try:
                    result = self._deliver(each)
                    if inspect.isawaitable(result):
                        await result
                except Exception as reason:
                    self._client.callback_failed(reason)
                    if self.ends_with(reason):
                        return
                self.done()


@dataclass(frozen=True, slots=True, eq=False)
class Delivered:
    """Events that satisfy some of many subscriptions, each once.

    Event i satisfies those at the places `places[ends[i - 1]:ends[i]]` of what was subscribed to. `ids` has the ids that the
    subscriber gave them, if it gave any.
    """

    events: EventBatch
    ends: Ints
    places: Ints
    ids: Sequence[int | str] | None = None

    def __len__(self) -> int:
        return len(self.events)

    def to_dicts(self) -> list[tuple[dict[str, Any], list[Any]]]:
        """Each event with the ids of the subscriptions that it satisfies, or else their places."""
        parts = [each.tolist() for each in np.split(self.places, self.ends[:-1])]
        if self.ids is not None:
            parts = [[self.ids[place] for place in each] for each in parts]
        return list(zip(self.events.to_dicts(), parts, strict=True))


class Subscriptions(Inbox[Delivered]):
    """Many subscriptions of one space as one: an event comes once, with all of them that it satisfies."""

    def __init__(
        self,
        client: Client,
        first: int,
        space: str,
        predicates: Iterable[str] | Mapping[int | str, str],
        deliver: Deliver | None,
        on_slow: str,
    ) -> None:
        self.predicates = list(predicates.values() if isinstance(predicates, Mapping) else predicates)
        for each in self.predicates:
            check_predicate(each)
        super().__init__(client, deliver, batches=True)
        self.first = first
        self.space = space
        self.names: Sequence[int | str] | None = list(predicates) if isinstance(predicates, Mapping) else None
        """The ids that the subscriber gave them."""
        self.on_slow = on_slow
        self.ids: list[int] = []

    @property
    def end_number(self) -> int:
        return self.first + len(self.predicates)

    def has(self, number: int) -> bool:
        return self.first <= number < self.end_number

    async def unsubscribe(self) -> None:
        await self._client.unsubscribe_many(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivered:
        found = await self.next_batch()
        if found is None:
            raise StopAsyncIteration
        return found


class Subscription(Inbox[EventBatch]):
    """One subscription of a client. It stays while the client is open, over any number of connections."""

    def __init__(
        self,
        client: Client,
        number: int,
        space: str,
        predicate: str,
        deliver: Deliver | None,
        batches: bool = False,
        on_slow: str = "",
        durable: str = "",
    ) -> None:
        check_predicate(predicate)
        super().__init__(client, deliver, batches)
        self.number = number
        self.space = space
        self.predicate = predicate
        self.on_slow = on_slow
        self.durable = durable
        self.id = 0
        """Its id in the network, which may be another after a reconnection."""
        self.narrowed: str | None = None
        """What the broker made of the predicate, if its rights allow less than was asked for."""

    def has(self, number: int) -> bool:
        return number == self.number

    async def change(self, predicate: str) -> None:
        """Asks for something else from now on; what matches both before and after is not lost."""
        await self._client.change(self, predicate)

    async def unsubscribe(self) -> None:
        await self._client.unsubscribe(self)

    async def leave(self) -> None:
        """Nothing more comes of it to this client. A durable one stays, and keeps what comes meanwhile."""
        await self.unsubscribe()

    def drop(self) -> None:
        """The program has lost it: it is left as soon as the event loop comes to it. Any thread may call this."""
        self._client.drop(self)


class Stream(Generic[T]):
    """`async for` over a subscription of its own, which begins with the first event asked for.

    `async with client.events(...) as events:` subscribes at once, and unsubscribes at the end. Without it the subscription
    ends when the program has dropped the stream, as it does by leaving its loop.
    """

    def __init__(self, begin: Callable[[], Awaitable[Subscription]]) -> None:
        self._begin = begin
        self.subscription: Subscription | None = None

    async def ready(self) -> Self:
        """Subscribed: what is published from now on comes."""
        if self.subscription is None:
            self.subscription = await self._begin()
        return self

    async def aclose(self) -> None:
        if self.subscription is not None:
            with suppress(Exception):
                await self.subscription.leave()

    def acknowledge(self) -> None:
        """What was given so far is done with. By itself that is so when the next is asked for; only durable ones care."""
        if self.subscription is not None:
            self.subscription.done()

    def __del__(self) -> None:
        if self.subscription is not None:
            self.subscription.drop()

    async def __aenter__(self) -> Self:
        return await self.ready()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        raise NotImplementedError


class Events(Stream[dict[str, Any]]):
    """A dict for each event."""

    def __init__(self, begin: Callable[[], Awaitable[Subscription]]) -> None:
        super().__init__(begin)
        self._rows: deque[dict[str, Any]] = deque()

    async def __anext__(self) -> dict[str, Any]:
        await self.ready()
        assert self.subscription is not None
        self.subscription.done()
        while not self._rows:
            batch = await self.subscription.next_batch()
            if batch is None:
                raise StopAsyncIteration
            self._rows.extend(batch.to_dicts())
        self.subscription.at(len(self._rows) - 1)
        return self._rows.popleft()


class Batches(Stream[EventBatch]):
    """A batch for each message that came."""

    async def __anext__(self) -> EventBatch:
        await self.ready()
        assert self.subscription is not None
        self.subscription.done()
        batch = await self.subscription.next_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch
