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

from contentcast.live.client.message_size import PART_BYTES, TooLarge, fits, framed
from contentcast.live.client.promises import Promise, Refusals
from contentcast.model import ContentcastError, EventBatch, EventError, Space
from contentcast.wire.client import PASSING, Done, Post
from contentcast.wire.framing import MOST_PAYLOAD_BYTES

MOST_ROWS: Final = 65_536
"""A larger batch is sent in parts."""
MOST_GATHERED: Final = 2_048
"""Events one by one that go out although the wake-up has not ended: the broker has something to do meanwhile."""
LONG: Final = frozenset({str, bytes, list, tuple})


@dataclass(frozen=True, slots=True)
class Receipt:
    """The broker has accepted these events: with a data folder, they are on its disk. `duplicate`: it had them already.

    `position`: where they stand in the log of a broker with a data folder; it ascends over all its lives. 0: it did not say.
    """

    events: int
    duplicate: bool = False
    position: int = 0


@dataclass(eq=False, slots=True)
class Sent:
    """A Post that is under way, as it was sent, and who waits for it."""

    publisher: str
    number: int
    space: Space
    count: int
    nbytes: int
    framed: bytes
    waiting: list[Waiting]


Waiting: TypeAlias = tuple["asyncio.Future[Receipt]", int]
"""A receipt to come, and the number of its events."""


class Publishing:
    def __init__(
        self, publisher: str, send: Callable[[Sent], None], wake: Callable[[], None], flush: Callable[[], None]
    ) -> None:
        self.publisher = publisher
        self.window_events, self.window_bytes = 1, 1
        self.most_bytes = MOST_PAYLOAD_BYTES
        """What the broker accepts in one message."""
        self._send = send
        self._wake = wake
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._next = 1
        self._under_way: OrderedDict[tuple[str, int], Sent] = OrderedDict()
        self._events = self._bytes = 0
        self._gathered: dict[Space, list[tuple[Mapping[str, Any], Waiting]]] = {}
        self._gathered_count = self._gathered_bytes = 0
        self._space: Space | None = None
        self._entries: list[tuple[Mapping[str, Any], Waiting]] = []
        """Those of `_gathered` for this space."""
        self._room = asyncio.Event()
        self._room.set()
        self._refusals = Refusals()

    def __len__(self) -> int:
        """Events that were published and not accepted yet."""
        return self._events + self._gathered_count

    # --- publishing

    async def one(self, space: Space, event: Mapping[str, Any], wait: bool) -> asyncio.Future[Receipt]:
        """One event, with all others of this wake-up."""
        await self._wait_for_room()
        future = self._future(wait)
        if space is not self._space:  # a space takes its time to be found by its hash
            self._space, self._entries = space, self._gathered.setdefault(space, [])
        self._entries.append((event, (future, 1)))
        self._gathered_count += 1
        for value in event.values():  # only what is long is measured: it is what makes a message too large
            if value.__class__ in LONG:
                self._gathered_bytes += len(value)
        if self._gathered_count >= MOST_GATHERED or self._gathered_bytes >= PART_BYTES:
            self.send_gathered()
            self._flush()
        else:
            self._wake()
        return future

    async def many(self, batch: EventBatch, wait: bool, keep_ids: bool = False) -> asyncio.Future[Receipt]:
        """A batch; the receipt comes when its last part was accepted, or one was refused."""
        self.send_gathered()
        last = self._future(wait)
        size = max(1, batch.records.nbytes // max(1, len(batch)))
        rows = max(1, min(MOST_ROWS, PART_BYTES // size))
        for begin in range(0, len(batch), rows):
            await self._wait_for_room()
            part = batch.slice(begin, rows)
            if last.done():  # a part was refused
                break
            is_last = begin + rows >= len(batch)
            try:
                self._post_in_parts(part, (last, len(batch) if is_last else 0), keep_ids)
            except ContentcastError:
                last.cancel()  # this call says what is wrong
                raise
        if not len(batch):
            last.set_result(Receipt(0))
        return last

    async def numbered(
        self, batch: EventBatch, wait: bool, publisher: str, number: int, keep_ids: bool = False
    ) -> asyncio.Future[Receipt]:
        """A batch under a name and a number of the program's own, which stays one message."""
        if not publisher:
            raise ContentcastError(f"number={number} needs the name under which it counts; add publisher='NAME'")
        if publisher.startswith(PASSING):
            raise ContentcastError(
                f"publisher={publisher!r}: names that begin with {PASSING} are the broker's own; take another"
            )
        if number < 1:
            got = f", got {number}" if number else ""
            raise ContentcastError(f"publisher={publisher!r} needs number= for each batch, ascending numbers from 1 on{got}")
        self.send_gathered()
        await self._wait_for_room()
        future = self._future(wait)
        if (publisher, number) in self._under_way:
            raise ContentcastError(f"batch {number} of the publisher {publisher!r} is under way already")
        self._post(batch, [(future, len(batch))], keep_ids, publisher, number)
        return future

    async def flush(self) -> None:
        """All is accepted; raises the first refusal that nobody has looked at."""
        await self.settled()
        self.raise_refused()

    async def settled(self) -> None:
        """All is accepted or refused."""
        while len(self):
            self._room.clear()
            await self._room.wait()

    def raise_refused(self) -> None:
        self._refusals.raise_first()

    def _future(self, wait: bool) -> asyncio.Future[Receipt]:
        return self._loop.create_future() if wait else Promise(loop=self._loop)

    async def _wait_for_room(self) -> None:
        while self._events + self._gathered_count >= self.window_events or self._bytes >= self.window_bytes:
            self._room.clear()
            await self._room.wait()

    def send_gathered(self) -> None:
        """Called at the end of a wake-up."""
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, {}
        self._gathered_count, self._gathered_bytes, self._space = 0, 0, None
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
                self._post_each(batch, waiting)

    def _post_each(self, batch: EventBatch, waiting: list[Waiting]) -> None:
        """Events that were gathered, one waiting for each: in one message, or else by halves."""
        try:
            self._post(batch, waiting)
        except ContentcastError as reason:
            half = len(batch) // 2
            if not half or not isinstance(reason, TooLarge):
                for each in waiting:
                    self._fail(each, reason)
                return
            self._post_each(batch.slice(0, half), waiting[:half])
            self._post_each(batch.slice(half), waiting[half:])

    def _post_in_parts(self, batch: EventBatch, waiting: Waiting, keep_ids: bool) -> None:
        """Events of one call: in one message, or else by halves; the receipt comes with the last one."""
        try:
            self._post(batch, [waiting], keep_ids)
        except TooLarge:
            half = len(batch) // 2
            if not half:
                raise
            self._post_in_parts(batch.slice(0, half), (waiting[0], 0), keep_ids)
            self._post_in_parts(batch.slice(half), waiting, keep_ids)

    def _post(
        self,
        batch: EventBatch,
        waiting: list[Waiting],
        keep_ids: bool = False,
        publisher: str = "",
        number: int = 0,
    ) -> None:
        post = Post(number or self._next, batch, publisher or self.publisher, keep_ids)
        if number:
            what = f"batch {number} of the publisher {publisher!r}"
            written = framed(post, self.most_bytes, what, "publish smaller batches, each with a number of its own")
        else:
            what = "an event" if len(batch) == 1 else "a batch"
            written = framed(post, self.most_bytes, f"{what} of {batch.space.name}", "make it smaller")
        self._next += not number
        sent = Sent(post.publisher, post.number, batch.space, len(batch), batch.records.nbytes, written, waiting)
        self._under_way[post.publisher, post.number] = sent
        self._events += sent.count
        self._bytes += sent.nbytes
        self._send(sent)

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
            for future, count in sent.waiting:
                if count and not future.done():
                    future.set_result(of_one if count == 1 else Receipt(count, duplicate, stands_at))

    def failed(self, publisher: str, number: int, reason: ContentcastError) -> None:
        sent = self._under_way.pop((publisher or self.publisher, number), None)
        if sent is not None:
            self._settle(sent)
            for each in sent.waiting:
                self._fail(each, reason)

    def _fail(self, waiting: Waiting, reason: Exception) -> None:
        future, _ = waiting
        if future.done():
            return
        future.set_exception(reason)
        if isinstance(future, Promise):
            self._refusals.note(future)

    def _settle(self, sent: Sent) -> None:
        self._events -= sent.count
        self._bytes -= sent.nbytes
        self._room.set()

    def resend(self) -> None:
        """Another broker may accept less in one message than the one before."""
        for key, sent in list(self._under_way.items()):
            if fits(sent.framed, self.most_bytes):
                self._send(sent)
            else:
                what = f"what was published to {sent.space.name}"
                self.failed(*key, TooLarge(what, len(sent.framed), self.most_bytes, "publish less at once"))

    @property
    def under_way(self) -> set[tuple[str, int]]:
        """Publisher and number of what was sent and is not accepted yet."""
        return set(self._under_way)

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
        self._events = self._bytes = self._gathered_count = self._gathered_bytes = 0
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
