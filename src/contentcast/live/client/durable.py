"""A durable subscription at its client: every event has a number, and what the program is done with is acknowledged.

    comes          numbers 1..10, 11..20
    given          the program has number 14            `position`
    acknowledged   it is done with 13                   by itself when it asks for the next, or by `acknowledge`
    lost           the broker is told 20 when it is back: nothing comes twice
    another life   the broker goes on after 13, or after the number that the program has stored with its work (`after`)
    failed         the callback raises at 14: nothing more is handed over, and who subscribes again begins with 14

Rule: numbers come in their order and without a gap. Where a limit of the broker took some, a `Missed` says which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from contentcast.live.client.subscribing import Deliver, Subscription
from contentcast.live.errors import LiveError
from contentcast.model import ContentcastError, EventBatch

if TYPE_CHECKING:
    from contentcast.live.client.client import Client


FAILED: Final = "its callback failed at number {}, so it stops; what is not acknowledged comes to who subscribes again: {}"


class Missed(NamedTuple):
    """The events with these numbers were dropped by a limit of the broker."""

    first: int
    last: int


class Place(NamedTuple):
    """Where a durable subscription stands at its broker."""

    space: str
    predicate: str
    acknowledged: int
    numbered: int
    """The last number that was given to an event, which may not be on disk yet."""
    first: int
    last: int
    """`first` to `last` can be handed over; all that lies between `acknowledged` and `first` is missed."""


OnMissed = Callable[[Missed], object]


def check_wanted(durable: str, after: int | None, on_slow: str) -> None:
    """What would mean nothing is refused."""
    if after is not None and not durable:
        raise ContentcastError("after= is the number of an event of a durable subscription; add durable=NAME")
    if after is not None and after < 0:
        raise ContentcastError(f"after= is the number of the last event that you have, 0 if you have none; got {after}")
    if on_slow and durable:
        raise ContentcastError("on_slow= is for what is not durable: what a durable subscriber has not taken waits on disk")


class DurableSubscription(Subscription):
    """`after`: the number up to which the program has its events; None: up to the last that was acknowledged."""

    def __init__(
        self,
        client: Client,
        number: int,
        space: str,
        predicate: str,
        deliver: Deliver | None,
        batches: bool,
        durable: str,
        after: int | None,
        acknowledge: bool,
        on_missed: OnMissed | None,
    ) -> None:
        self.position = 0 if after is None else after
        """The number of the last event that the program was given."""
        self.acknowledged = 0
        self.holds_at: tuple[str, ...] = ()
        """The brokers where it was in force when it was made: all that they accept from then on comes."""
        self.lacking: tuple[str, ...] = ()
        """Brokers that could not be reached then: what they accept before they hear of it does not come."""
        self.received = -1 if after is None else after
        """The number of the last event that came; -1: none yet."""
        self._by_itself = acknowledge
        self._on_missed = on_missed
        self._firsts: deque[int] = deque()
        self._end = self.position
        self._taken_over: LiveError | None = None
        super().__init__(client, number, space, predicate, deliver, batches, "", durable)

    def take_numbered(self, first: int, events: EventBatch, missed: int) -> int:
        """How many of them are new."""
        if self.received >= 0:
            if first - missed > self.received + 1:
                return 0  # of an older connection, on which those between were lost
            if first + len(events) - 1 <= self.received:
                return 0
            skipped = max(0, self.received + 1 - first)
            events, first = events.slice(skipped), first + skipped
        if missed and first > self.received + 1:
            self._miss(Missed(max(first - missed, self.received + 1), first - 1))
        self.received = first + len(events) - 1
        if len(events):  # what was missed is also told alone
            self._firsts.append(first)
            self.take(events, 0)
        return len(events)

    def _miss(self, missed: Missed) -> None:
        self.missed += missed.last - missed.first + 1
        if self._on_missed is not None:
            try:
                self._on_missed(missed)
            except Exception as reason:
                self._client.callback_failed(reason)

    # --- to the program

    async def next_batch(self) -> EventBatch | None:
        batch = await super().next_batch()
        if batch is None:
            if self._taken_over is not None:
                raise self._taken_over
            return None
        self.position = self._end = self._firsts.popleft() + len(batch) - 1
        return batch

    def at(self, left: int) -> None:
        self.position = self._end - left

    def done(self) -> None:
        if self._by_itself:
            self.acknowledge()

    def acknowledge(self, upto: int | None = None) -> None:
        """The program is done with all numbers up to this one, or up to `position`: they do not come again."""
        wanted = self.position if upto is None else upto
        if wanted > self.acknowledged:
            self.acknowledged = wanted
            self._client.acknowledge_later(self.number, wanted)

    def ends_with(self, reason: Exception) -> bool:
        """An event whose callback has failed is not acknowledged, and none behind it either: it is the first to come again."""
        self.forget_waiting()
        self.end()
        self._client.stopped(self, LiveError(FAILED.format(self.position, str(reason) or type(reason).__name__), "callback"))
        return True

    async def leave(self) -> None:
        """It stays at the broker, and what comes meanwhile is kept for the next client that asks for it by its name."""
        await self._client.leave(self)

    # --- ending

    def forget_waiting(self) -> None:
        """What has come and was not given to the program: it comes again."""
        if not self._ended:
            self._client.taken(sum(map(len, self._waiting)))
        self._waiting.clear()
        self._firsts.clear()

    def taken_over(self, reason: LiveError) -> None:
        self._taken_over = reason
        self.forget_waiting()
        self.end()

    async def _hand_over(self) -> None:
        try:
            await super()._hand_over()
        except LiveError as reason:
            self._client.callback_failed(reason)
