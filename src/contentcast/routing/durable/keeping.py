"""How much durable delivery keeps, and for how long.

Rule: what a limit takes is told to the subscriber as numbers that it missed, never silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contentcast.model import EventBatch
from contentcast.wire.fields import Ints

BATCH_BYTES: Final = 256
"""What a batch takes besides its events, about."""


@dataclass(frozen=True, slots=True)
class Keeping:
    most_bytes: int = 1 << 30
    """Of what waits for one durable subscription, and of what an origin keeps for one home."""
    most_age_s: float = 0.0
    """How long something waits, counted within one life of the broker; 0: for ever."""
    trim_bytes: int = 64 << 20
    """A log is trimmed when it has grown by so much, and by twice of what is kept."""
    passing_publishers: int = 100_000
    """Publishers of one life of one client whose last number is kept; those of other publishers are kept for ever."""


def part_of(events: EventBatch, rows: Ints) -> EventBatch:
    """These rows, which ascend; nothing is copied for somebody who wants them all."""
    return events if len(rows) == len(events) else events.take(rows)


def batch_bytes(events: EventBatch) -> int:
    return BATCH_BYTES + int(events.records.nbytes)
