"""What the neighbours have passed on to a broker: a table for each link, and of each origin the link that counts.

A broker takes the subscriptions of an origin from the neighbour that is next on its own way to that origin. While brokers
disagree about the network, others may have told of it too; that is kept until they take it back, and counts when the way
changes.
Rule: a table is exactly what the neighbour said last, version by version.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from contentcast.model import SubscriptionBatch
from contentcast.wire.covering import Forwarded


class Table:
    """One neighbour's: batches by origin, as of a version of the neighbour's life."""

    def __init__(self) -> None:
        self.incarnation = 0
        self.version = 0
        self.blocks: dict[str, list[SubscriptionBatch]] = {}

    def lacks(self, told: Forwarded) -> bool:
        """Is something missing between what is known and what is told?"""
        return told.since != 0 and (told.incarnation, told.since) != (self.incarnation, self.version)

    def is_old(self, told: Forwarded) -> bool:
        return (told.incarnation, told.version) < (self.incarnation, self.version) or (
            told.since != 0 and (told.incarnation, told.version) == (self.incarnation, self.version)
        )

    def apply(self, told: Forwarded) -> None:
        if told.since == 0:
            self.blocks = {}
        for origin, ids in told.removed:
            gone = np.array(ids, np.int64)
            kept = [left for each in self.blocks.get(origin, ()) if len(left := each.without(gone))]
            self.blocks[origin] = kept
        for origin, batch in told.added:
            self.blocks.setdefault(origin, []).append(batch)
        self.incarnation, self.version = told.incarnation, told.version

    def of(self, origin: str) -> Iterator[SubscriptionBatch]:
        return iter(self.blocks.get(origin, ()))
