"""One durable subscription at its home: what waits for its client, by numbers.

    1  2  3 | 4  5 | 6  7  8 | 9           acknowledged 3, handed over 8: 4 to 8 are kept until they are acknowledged
    resume after 5                         6 and all that follow are handed over again

Rule: numbers are given once and never again. A number that is not in a batch any more is acknowledged, or missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import NamedTuple

from contentcast.model import EventBatch, Subscription
from contentcast.routing.contract import DeliverDurably, Effect
from contentcast.routing.durable.keeping import Keeping, batch_bytes


class Batch(NamedTuple):
    """Events on disk, the number of the first of them, and when this life of the broker got them."""

    first: int
    events: EventBatch
    at: float

    @property
    def last(self) -> int:
        return self.first + len(self.events) - 1


@dataclass(slots=True)
class Subscribed:
    """One durable subscription: its events from the first that was not acknowledged."""

    subscription: Subscription
    began: int
    """The version of the interests with which it began; what older versions asked for is not for it."""
    numbered: int = 0
    safe: int = 0
    """The last number that is on disk."""
    acknowledged: int = 0
    said: int = 0
    """The last number that its client has acknowledged, which may not be on disk yet."""
    handed: deque[Batch] = field(default_factory=deque)
    """Batches that were handed to the client that is here, each with the number of its first event."""
    ahead: deque[Batch] = field(default_factory=deque)
    """Batches that are on disk and were not handed over."""
    nbytes: int = 0
    present: bool = False
    given: int = 0
    """The last number handed over since the client is here."""
    allowed: int = 0

    def resume(self, after: int, upto: int) -> list[Effect]:
        self.present, self.allowed = True, upto
        self.given = max(after, self.said)
        self.ahead.extendleft(reversed(self.handed))
        self.handed.clear()
        return self.hand_over()

    def hand_over(self) -> list[Effect]:
        effects: list[Effect] = []
        while self.present and self.ahead and self.ahead[0].first <= self.allowed:
            self.handed.append(self.ahead.popleft())
            first, events, _ = self.handed[-1]
            end = first + len(events)
            if end - 1 > self.given:
                skipped = max(0, self.given + 1 - first)
                rest = events.slice(skipped) if skipped else events
                first += skipped
                missed = first - self.given - 1
                effects.append(DeliverDurably(self.subscription.id, self.subscription.subscriber, first, rest, missed))
                self.given = end - 1
        if self.present and not self.ahead and self.given < self.safe:
            # All that is left was dropped by a limit: it is told without an event, because none may follow for long.
            missed, nothing = self.safe - self.given, EventBatch.from_dicts(self.subscription.space, [])
            first = self.safe + 1
            effects.append(DeliverDurably(self.subscription.id, self.subscription.subscriber, first, nothing, missed))
            self.given = self.safe
        return effects

    def take(self, first: int, events: EventBatch | None, now: float) -> None:
        """On disk from now on; None: numbers up to `first` whose events are lost."""
        if events is None:
            self.safe = max(self.safe, first)
        else:
            self.add(Batch(first, events, now))

    def add(self, batch: Batch) -> None:
        self.ahead.append(batch)
        self.safe = max(self.safe, batch.last)
        self.nbytes += batch_bytes(batch.events)

    def acknowledge(self, upto: int) -> None:
        self.acknowledged = max(self.acknowledged, upto)
        self.said = max(self.said, upto)
        self.drop(self.acknowledged)

    def drop(self, upto: int) -> None:
        """Batches that lie before this number, or at it, go. If the client did not have them, it will miss their numbers."""
        for batches in (self.handed, self.ahead):
            while batches and batches[0].last <= upto:
                self.nbytes -= batch_bytes(batches.popleft().events)
            if batches:
                return

    def batches(self) -> Iterator[Batch]:
        """From the oldest on."""
        yield from self.handed
        yield from self.ahead

    def kept(self) -> tuple[int, int]:
        """The first and the last number whose events are on disk and were not acknowledged; none: (n + 1, n)."""
        if not self.handed and not self.ahead:
            return self.said + 1, self.said
        return max(self.said + 1, (self.handed or self.ahead)[0].first), (self.ahead or self.handed)[-1].last

    def exceeding(self, keeping: Keeping, now: float) -> int:
        """Up to which number it keeps too much or for too long; 0: it does not. The last batch is never too much."""
        upto = 0
        nbytes = self.nbytes
        oldest = now - keeping.most_age_s if keeping.most_age_s else -inf
        for batch, following in pairwise(self.batches()):
            if nbytes <= keeping.most_bytes and batch.at >= oldest:
                return upto
            nbytes -= batch_bytes(batch.events)
            upto = following.first - 1
        newest = (self.ahead or self.handed or (None,))[-1]
        return newest.last if newest is not None and newest.at < oldest else upto

    @property
    def waiting(self) -> int:
        """Events that are on disk and not acknowledged, up to the batch that the last acknowledgement lies in."""
        return sum(len(each.events) for each in self.batches())
