"""One subscription of a client on a LAN: what it is called with, what waits for it, and what it was told that it misses.

    callback     deliver(event) for each event, deliver(batch) with batches=True, in the turn in which it came
    loop         async for event in client.events(...): what comes waits here, MOST_WAITING events of it

A reliable subscription gets every event once, unless its sender no longer has it. Then `on_missed` is called with a `Gap` and
`gaps` counts it: what is missing is told, never passed over in silence.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from contentcast.model import EventBatch, Predicate
from contentcast.routing.multicast.mapping import everywhere
from contentcast.routing.multicast.streams import Gap

if TYPE_CHECKING:
    from contentcast.live.lan.client import LanClient

MOST_WAITING: Final = 100_000
"""Events that wait for the program, of one subscription without a callback; the oldest are left out, and counted."""

Call = Callable[[Any], Any]
OnGap = Callable[[Gap], object]


class LanSubscription:
    """Without a callback its events wait here, for `events` and `batches`."""

    def __init__(
        self,
        client: LanClient,
        number: int,
        predicate: Predicate,
        deliver: Call | None,
        batches: bool,
        on_missed: OnGap | None = None,
    ) -> None:
        self.number, self.space = number, predicate.space.name
        self.missed = 0
        """Events that were left out because the program did not take them."""
        self.gaps = 0
        """Messages that a publisher sent reliably and no longer had when they were asked for again."""
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._predicate = predicate
        self._call = deliver
        self._on_missed = on_missed
        self._batches = batches
        self._waiting: deque[EventBatch] = deque()
        self._count = 0
        self._came = asyncio.Event()
        self._ended = False
        self._tasks: set[asyncio.Future[Any]] = set()

    async def unsubscribe(self) -> None:
        await self._client.unsubscribe(self)

    async def leave(self) -> None:
        """Only a durable subscription stays when its client leaves it."""
        await self.unsubscribe()

    def drop(self) -> None:
        """The program has lost it: it ends as soon as the event loop comes to it. Any thread may call this."""
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(lambda: None if self._ended else asyncio.ensure_future(self.leave()))

    # --- from the server

    def hand(self, events: EventBatch) -> None:
        """Called in the thread and the turn in which the event came."""
        if self._call is None:
            self._keep(events)
            return
        for each in [events] if self._batches else events.to_dicts():
            self._run(self._call, each)

    def miss(self, gap: Gap) -> None:
        """Something that was sent reliably cannot be had any more. Was it perhaps for this one?"""
        agreement = self._client.server.router.agreement
        honoured = list(agreement.honoured())
        known = {group for mapping in honoured for group in mapping.groups()} - {agreement.control}
        if gap.group not in known or gap.group in everywhere(honoured, [self._predicate]):
            self.gaps += gap.messages
            if self._on_missed is not None:
                self._run(self._on_missed, gap)

    def _run(self, call: Call, told: Any) -> None:
        try:
            result = call(told)
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(result)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except Exception as reason:
            about = f"a callback of a subscription to {self.space}"
            asyncio.get_running_loop().call_exception_handler({"message": about, "exception": reason})

    def _keep(self, events: EventBatch) -> None:
        self._waiting.append(events)
        self._count += len(events)
        while self._count > MOST_WAITING and len(self._waiting) > 1:
            gone = len(self._waiting.popleft())
            self._count -= gone
            self.missed += gone
        self._came.set()

    def end(self) -> None:
        self._ended = True
        self._came.set()

    # --- to the program

    async def next_batch(self) -> EventBatch | None:
        """None when it has ended."""
        while not self._waiting:
            if self._ended:
                return None
            self._came.clear()
            await self._came.wait()
        batch = self._waiting.popleft()
        self._count -= len(batch)
        return batch

    def at(self, left: int) -> None:
        """Only durable subscriptions number their events."""

    def done(self) -> None:
        """Only durable subscriptions acknowledge."""
