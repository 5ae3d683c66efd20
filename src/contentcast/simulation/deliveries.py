"""Who got which event when, by columns; and on request what matching each event cost at each broker.

    event  subscriber  broker  incarnation  published_at  delivered_at
    1      desk-7      c       1            1.0           1.0231

Effects are kept as they come and turned into columns by the thousand: a broker's visit pays for one append.
Rule: an event counts as delivered when its broker has let go of it. What a broker still held when it crashed is taken back.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import nan
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.model import EventBatch
from contentcast.routing.contract import Account, Deliver

FLUSH_AT: Final = 8192
Floats = npt.NDArray[np.float64]


class Deliveries:
    """`note` is called for every Deliver effect; `leaves` is when the broker has it out."""

    def __init__(self, brokers: Sequence[str], client_delay_s: float) -> None:
        self.brokers = brokers
        self.client_delay_s = client_delay_s
        self.published_at: dict[int, float] = {}
        self.last_at = 0.0
        """When the last one known reaches its client."""
        self._pending: list[tuple[float, int, int, Deliver]] = []
        self._flush_at = FLUSH_AT
        self._codes: dict[str, int] = {}
        self._integers = [array("q") for _ in range(4)]
        self._times = [array("d") for _ in range(2)]

    # An event that a transform made has no time of its own: NaN, and no latency is counted for it.
    def note_published(self, events: EventBatch, now: float) -> None:
        for each in events.ids.to_pylist():
            self.published_at[each] = now

    def note(self, leaves: float, broker: int, incarnation: int, deliver: Deliver, now: float) -> None:
        self._pending.append((leaves, broker, incarnation, deliver))
        if leaves > self.last_at:
            self.last_at = leaves
        if len(self._pending) >= self._flush_at:
            self.flush(now)

    def take_back(self, broker: int, now: float) -> int:
        """The broker has crashed: what it had not let go of yet. Says how many."""
        held = [each for each in self._pending if each[1] == broker and each[0] > now]
        if held:
            self._pending = [each for each in self._pending if each[1] != broker or each[0] <= now]
        return sum(len(each[3].rows) for each in held)

    def flush(self, now: float) -> None:
        kept = []
        events, subscribers, brokers, incarnations = self._integers
        published, delivered = self._times
        codes, began = self._codes, self.published_at
        numbered: dict[int, list[int]] = {}  # by identity: all are held by `_pending` until this is done
        for record in self._pending:
            leaves, broker, incarnation, deliver = record
            if leaves > now:
                kept.append(record)
                continue
            names = deliver.subscribers
            rows = deliver.rows.tolist()
            numbers = numbered.get(id(deliver.events))
            if numbers is None:
                numbers = numbered[id(deliver.events)] = deliver.events.ids.to_pylist()
            for row, who in zip(rows, deliver.who.tolist(), strict=True):
                number = numbers[row]
                events.append(number)
                subscribers.append(codes.setdefault(names[who], len(codes)))
                published.append(began.get(number, nan))
            count = len(rows)
            brokers.extend([broker] * count)
            incarnations.extend([incarnation] * count)
            delivered.extend([leaves + self.client_delay_s] * count)
        self._pending = kept
        self._flush_at = len(kept) + FLUSH_AT

    def table(self, now: float) -> pa.Table:
        """What has reached its client by now, in that order."""
        self.flush(now)
        events, subscribers, brokers, incarnations = (np.array(each, np.int64) for each in self._integers)
        published, delivered = (np.array(each, np.float64) for each in self._times)
        order = np.argsort(delivered, kind="stable")
        order = order[delivered[order] <= now]
        return pa.table(
            {
                "event": events[order],
                "subscriber": _named(subscribers[order], list(self._codes)),
                "broker": _named(brokers[order], list(self.brokers)),
                "incarnation": incarnations[order],
                "published_at": published[order],
                "delivered_at": delivered[order],
            }
        )


class Accounts:
    """The matching steps of each event at each broker, for who asks how they add up along a way."""

    def __init__(self, brokers: Sequence[str]) -> None:
        self.brokers = brokers
        self._columns = [array("q") for _ in range(3)]

    def note(self, broker: int, account: Account) -> None:
        events, brokers, steps = self._columns
        events.extend(account.events.ids.to_pylist())
        steps.extend(account.steps.tolist())
        brokers.extend([broker] * len(account.steps))

    def table(self) -> pa.Table:
        events, brokers, steps = (np.array(each, np.int64) for each in self._columns)
        return pa.table({"event": events, "broker": _named(brokers, list(self.brokers)), "steps": steps})


def _named(codes: npt.NDArray[np.int64], names: list[str]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string()))


def percentiles(seconds: Floats, wanted: Sequence[float]) -> dict[str, float]:
    """{'p50': 0.012, ...}; empty of nothing."""
    if not len(seconds):
        return {}
    found = np.percentile(seconds, list(wanted))
    return {f"p{each:g}": float(value) for each, value in zip(wanted, found, strict=True)}
