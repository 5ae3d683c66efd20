"""What the clients of this node want, as it is told to rendezvous nodes: with a version for each, and by which keys.

    Subscribed 7            Stored 7 version 2                              to SK(7)
    Subscribed 7 again      Stored without 7 version 3, Stored 7 version 4  to the old keys, to the new keys
    Unsubscribed 7          Stored without 7 version 5                      to SK(7)

Rule: versions of one id only grow within a life of the node, so the order in which they arrive does not matter.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from contentcast.model import SubscriptionBatch
from contentcast.routing.chord.mcast import Targets
from contentcast.routing.contract import Subscribed, Unsubscribed
from contentcast.routing.overlay.store import Ranges
from contentcast.routing.parts.local import Local
from contentcast.routing.parts.spaces import SpaceRegister
from contentcast.wire.overlay import Stored

Ints = npt.NDArray[np.int64]
NONE = np.empty(0, np.int64)


class Wishes:
    def __init__(self, broker: str, incarnation: int, local: Local, spaces: SpaceRegister, lifetime_s: float) -> None:
        self._broker = broker
        self._incarnation = incarnation
        self._local = local
        self._spaces = spaces
        self._lifetime_s = lifetime_s
        self._version = 0
        self._version_of: dict[int, int] = {}

    def ids(self) -> tuple[int, ...]:
        return tuple(self._version_of)

    def change(self, input: Subscribed | Unsubscribed, ranges: Ranges) -> list[tuple[Stored, Targets]]:
        """Takes a client's input, and says what is to be told to which keys."""
        ids = input.ids if isinstance(input, Unsubscribed) else tuple(input.subscriptions.ids.tolist())
        ended = self._mine(ids)
        self._local.change(input)
        self._version += 1
        told = [self._ended(batch, ranges) for batch in ended]
        for batch in ended:
            for each in batch.ids.tolist():
                del self._version_of[each]
        self._version += 1
        if isinstance(input, Subscribed) and len(input.subscriptions):
            self._version_of.update(dict.fromkeys(ids, self._version))
            told.append(self._told(input.subscriptions, ranges))
        return told

    def all(self, ranges: Ranges, renewal: bool = False) -> list[tuple[Stored, Targets]]:
        return [self._told(batch, ranges, renewal) for batch in self._local.batches()]

    def _mine(self, ids: tuple[int, ...]) -> list[SubscriptionBatch]:
        known = np.array([each for each in ids if each in self._version_of], np.int64)
        if not len(known):
            return []
        parts = [(batch, np.flatnonzero(np.isin(batch.ids, known))) for batch in self._local.batches()]
        return [batch.take(rows) for batch, rows in parts if len(rows)]

    def _told(self, batch: SubscriptionBatch, ranges: Ranges, renewal: bool = False) -> tuple[Stored, Targets]:
        present = batch.widened(self._spaces.present(batch.space))
        versions = np.array([self._version_of[each] for each in batch.ids.tolist()], np.int64)
        stored = Stored(self._broker, self._incarnation, self._lifetime_s, present, versions, NONE, NONE, renewal)
        return stored, Targets(*ranges.of(present))

    def _ended(self, batch: SubscriptionBatch, ranges: Ranges) -> tuple[Stored, Targets]:
        present = batch.widened(self._spaces.present(batch.space))
        versions = np.full(len(batch), self._version, np.int64)
        stored = Stored(self._broker, self._incarnation, self._lifetime_s, None, NONE, batch.ids, versions)
        return stored, Targets(*ranges.of(present))
