"""What a client publishes: gathered, numbered, sent, and kept until the broker has accepted it.

Events that are published one by one within one wake-up go out as one batch. No more than the broker's window is under way;
who publishes more waits. After a reconnection what was not accepted is sent again under its old number, so that a broker that
had it already says `duplicate` and publishes nothing twice. A broker that keeps what it accepts remembers it for ever, and no
other broker does: the client goes back to that one (`conversation`).
Rule: numbers ascend without gaps, and are sent in their order.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from contentcast.model import ContentcastError, EventBatch, EventError, Space
from contentcast.wire.client import PASSING, Done, Post

MOST_ROWS: Final = 65_536
MOST_BATCH_BYTES: Final = 4 * 2**20
"""A larger batch is sent in parts."""
MOST_GATHERED: Final = 2_048
"""Events one by one that go out although the wake-up has not ended: the broker has something to do meanwhile."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The broker has accepted these events: with a data folder, they are on its disk. `duplicate`: it had them already.

    `position`: where they stand in the log of a broker with a data folder; 0 if it did not say.
    """

    events: int
    duplicate: bool = False
    position: int = 0


@dataclass(eq=False, slots=True)
class Sent:
    """A Post that is under way, and who waits for it."""

    post: Post
    nbytes: int
    waiting: list[Waiting]


Waiting: TypeAlias = tuple["asyncio.Future[Receipt]", int, bool]
"""A receipt to come, the number of its events, and whether the program waits for it; if not, `flush` raises a refusal."""


class Publishing:
    def __init__(
        self, publisher: str, send: Callable[[Post], None], wake: Callable[[], None], flush: Callable[[], None]
    ) -> None:
        self.publisher = publisher
        self.window_events, self.window_bytes = 1, 1
        self._send = send
        self._wake = wake
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._next = 1
        self._under_way: OrderedDict[tuple[str, int], Sent] = OrderedDict()
        self._events = self._bytes = 0
        self._gathered: dict[Space, list[tuple[Mapping[str, Any], Waiting]]] = {}
        self._gathered_count = 0
        self._space: Space | None = None
        self._entries: list[tuple[Mapping[str, Any], Waiting]] = []
        """Those of `_gathered` for this space."""
        self._room = asyncio.Event()
        self._room.set()
        self._refused: BaseException | None = None
        """The first refusal of an event for whose receipt nobody waits: `flush` raises it."""

    def __len__(self) -> int:
        """Events that were published and not accepted yet."""
        return self._events + self._gathered_count

    # --- publishing

    async def one(self, space: Space, event: Mapping[str, Any], wait: bool) -> asyncio.Future[Receipt]:
        """One event, with all others of this wake-up."""
        await self._wait_for_room()
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if space is not self._space:  # a space takes its time to be found by its hash
            self._space, self._entries = space, self._gathered.setdefault(space, [])
        self._entries.append((event, (future, 1, wait)))
        self._gathered_count += 1
        if self._gathered_count >= MOST_GATHERED:
            self.send_gathered()
            self._flush()
        else:
            self._wake()
        return future

    async def many(self, batch: EventBatch, wait: bool, keep_ids: bool = False) -> asyncio.Future[Receipt]:
        """A batch; the receipt comes when its last part was accepted, or one was refused."""
        self.send_gathered()
        last: asyncio.Future[Receipt] = self._loop.create_future()
        size = max(1, batch.records.nbytes // max(1, len(batch)))
        rows = max(1, min(MOST_ROWS, MOST_BATCH_BYTES // size))
        for begin in range(0, len(batch), rows):
            await self._wait_for_room()
            part = batch.slice(begin, rows)
            if last.done():  # a part was refused
                break
            is_last = begin + rows >= len(batch)
            self._post(part, [(last, len(batch) if is_last else 0, wait)], keep_ids)
        if not len(batch):
            last.set_result(Receipt(0))
        return last

    async def numbered(
        self, batch: EventBatch, wait: bool, publisher: str, number: int, keep_ids: bool = False
    ) -> asyncio.Future[Receipt]:
        """A batch under a name and a number of the program's own, which stays one message."""
        if publisher.startswith(PASSING) or not publisher or number < 1:
            raise ContentcastError(f"a publisher has a name that does not begin with {PASSING}, and numbers from 1 on")
        self.send_gathered()
        await self._wait_for_room()
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if (publisher, number) in self._under_way:
            raise ContentcastError(f"batch {number} of the publisher {publisher!r} is under way already")
        self._post(batch, [(future, len(batch), wait)], keep_ids, publisher, number)
        return future

    async def flush(self) -> None:
        """All is accepted; raises the first refusal that nobody has waited for."""
        while len(self):
            self._room.clear()
            await self._room.wait()
        if self._refused is not None:
            reason, self._refused = self._refused, None
            raise reason

    async def _wait_for_room(self) -> None:
        while self._events + self._gathered_count >= self.window_events or self._bytes >= self.window_bytes:
            self._room.clear()
            await self._room.wait()

    def send_gathered(self) -> None:
        """Called at the end of a wake-up."""
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, {}
        self._gathered_count, self._space = 0, None
        self._room.set()
        for space, entries in gathered.items():
            try:
                batch = EventBatch.from_dicts(space, [event for event, _ in entries], on_error="reject")
            except ContentcastError as reason:
                for _, each in entries:
                    self._fail(each, reason)
                continue
            refused = {each.event for each in batch.rejected}
            for rejection in batch.rejected:
                self._fail(entries[rejection.event][1], EventError(str(rejection)))
            waiting = [each for at, (_, each) in enumerate(entries) if at not in refused]
            if waiting:
                self._post(batch, waiting)

    def _post(
        self,
        batch: EventBatch,
        waiting: list[Waiting],
        keep_ids: bool = False,
        publisher: str = "",
        number: int = 0,
    ) -> None:
        post = Post(number or self._next, batch, publisher or self.publisher, keep_ids)
        self._next += not number
        sent = Sent(post, batch.records.nbytes, waiting)
        self._under_way[post.publisher, post.number] = sent
        self._events += len(batch)
        self._bytes += sent.nbytes
        self._send(post)

    # --- answers

    def done(self, done: Done) -> None:
        """All of this publisher up to this number are accepted."""
        duplicate = bool(done.document.get("duplicate"))
        publisher = str(done.document.get("publisher") or self.publisher)
        position = int(done.document.get("position") or 0)
        accepted = []
        for key in self._under_way:  # in the order of their numbers for each publisher
            if key[0] == publisher:
                if key[1] > done.request:
                    break
                accepted.append(key)
        for key in accepted:
            sent = self._under_way.pop(key)
            self._settle(sent)
            stands_at = position if key[1] == done.request else 0
            of_one = Receipt(1, duplicate, stands_at)
            for future, count, _ in sent.waiting:
                if count and not future.done():
                    future.set_result(of_one if count == 1 else Receipt(count, duplicate, stands_at))

    def failed(self, publisher: str, number: int, reason: ContentcastError) -> None:
        sent = self._under_way.pop((publisher or self.publisher, number), None)
        if sent is not None:
            self._settle(sent)
            for each in sent.waiting:
                self._fail(each, reason)

    def _fail(self, waiting: Waiting, reason: Exception) -> None:
        future, _, is_awaited = waiting
        if future.done():
            return
        future.set_exception(reason)
        if not is_awaited:
            future.exception()  # asyncio complains of one that nobody has looked at
            self._refused = self._refused or reason

    def _settle(self, sent: Sent) -> None:
        self._events -= len(sent.post.events)
        self._bytes -= sent.nbytes
        self._room.set()

    def resend(self) -> None:
        for sent in self._under_way.values():
            self._send(sent.post)

    def give_up(self, reason: ContentcastError) -> None:
        """The client ends: nobody will hear of what is under way."""
        for sent in self._under_way.values():
            for each in sent.waiting:
                self._fail(each, reason)
        for entries in self._gathered.values():
            for _, each in entries:
                self._fail(each, reason)
        self._under_way.clear()
        self._gathered.clear()
        self._space = None
        self._events = self._bytes = self._gathered_count = 0
        self._room.set()


def as_batch(space: Space, events: Any) -> EventBatch:
    """A batch of many events in any of the forms that people have."""
    match events:
        case EventBatch():
            if events.space == space:
                return events
            if space.extends(events.space):
                return events.widened(space)
            raise EventError(f"a batch of {events.space!r} does not fit {space!r}")
        case pa.RecordBatch() | pa.Table():
            return EventBatch.from_arrow(space, events)
        case Mapping():
            return EventBatch.from_dicts(space, [events])
        case _ if hasattr(events, "iloc") and hasattr(events, "columns"):
            return EventBatch.from_pandas(space, events)
        case Sequence() if not isinstance(events, str | bytes):
            return EventBatch.from_dicts(space, events)
    kinds = "a dict, a list of dicts, an EventBatch, an Arrow batch or table, or a pandas DataFrame"
    raise EventError(f"events are {kinds}, not {type(events).__name__}")
