"""What the clients of each broker have asked for: they outlive their broker, and ask again when it is back.

Rule: folded only when a broker starts again; until then a change costs one append.
"""

from __future__ import annotations

import numpy as np

from contentcast.model import Space, SubscriptionBatch
from contentcast.routing.contract import Subscribed, Unsubscribed


class Clients:
    """Of one broker."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: list[Subscribed | Unsubscribed] = []

    def note(self, change: Subscribed | Unsubscribed) -> None:
        self._changes.append(change)

    def wanted(self) -> list[Subscribed]:
        """What they want now: one batch for each space, in the order in which the spaces came."""
        held: dict[int, tuple[SubscriptionBatch, int]] = {}
        for change in self._changes:
            if isinstance(change, Subscribed):
                for row, each in enumerate(change.subscriptions.ids.tolist()):
                    held.pop(each, None)
                    held[each] = (change.subscriptions, row)
            else:
                for each in change.ids:
                    held.pop(each, None)
        parts: dict[Space, dict[int, tuple[SubscriptionBatch, list[int]]]] = {}
        for batch, row in held.values():
            parts.setdefault(batch.space, {}).setdefault(id(batch), (batch, []))[1].append(row)
        folded = [
            Subscribed(SubscriptionBatch.concat([batch.take(np.array(sorted(rows))) for batch, rows in batches.values()]))
            for batches in parts.values()
        ]
        self._changes = list(folded)
        return folded
