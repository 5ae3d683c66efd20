"""Which events have passed: nothing is forwarded or delivered twice, even while brokers disagree about the network.

On trees that all brokers agree on, an event reaches a broker once. While a change of the network is still being told, it may
come by two ways. A batch is remembered by its origin, incarnation and serial number together with the ids of its events that
came.
Rule: the last KEPT_BATCHES batches of each origin are remembered, and no more than KEPT_EVENTS events of them; a copy that
comes later than that is taken for a new event.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.wire import Publish

Ints = npt.NDArray[np.int64]

KEPT_BATCHES: Final = 10_000
KEPT_EVENTS: Final = 200_000


class Origin:
    """The batches of one broker in one of its lives, by serial number, and how many events they have together."""

    __slots__ = ("batches", "events")

    def __init__(self) -> None:
        self.batches: OrderedDict[int, pa.Array | Ints] = OrderedDict()
        self.events = 0

    def remember(self, serial: int, ids: pa.Array | Ints) -> None:
        before = self.batches.get(serial, ())
        self.batches[serial] = ids
        self.events += len(ids) - len(before)
        while len(self.batches) > KEPT_BATCHES or (self.events > KEPT_EVENTS and len(self.batches) > 1):
            self.events -= len(self.batches.popitem(last=False)[1])


class Seen:
    def __init__(self) -> None:
        self._origins: dict[tuple[str, int], Origin] = {}

    def fresh(self, publish: Publish) -> Publish | None:
        """The message with only those events that were not here before; None if there are none."""
        origin = self._origins.get((publish.origin, publish.incarnation))
        if origin is None:
            origin = self._origins[publish.origin, publish.incarnation] = Origin()
        before = origin.batches.get(publish.serial)
        if before is None:
            origin.remember(publish.serial, publish.events.ids)
            return publish if len(publish.events) else None
        ids = publish.events.ids.to_numpy()
        # The next part of a batch that was cut, and there is nothing to look for: a fifth of a LAN's receiver without this.
        if len(ids) and len(before) and ids.min() > np.max(before):
            origin.remember(publish.serial, np.concatenate([before, ids]))
            return publish
        new = np.flatnonzero(~np.isin(ids, np.asarray(before)))
        origin.remember(publish.serial, np.union1d(before, ids))
        if not len(new):
            return None
        return publish.take(new)
