"""The subscriptions of one space that a broker knows, with the broker that each belongs to; rows of one shelf.

    row        0      1      2
    origin     a      a      c          where the client is
    id         7      9      9          the same id at two brokers, while a client moves: two rows
    source     (batch, its place)       to send it on without taking it apart

Rule: a subscription keeps its row until it goes. Dead rows are swept by `swept`, which moves the living together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.covering import Shelf
from contentcast.model import Space, SubscriptionBatch

Ints = npt.NDArray[np.int64]
SWEEP_FROM: Final = 1000
"""Fewer dead rows than this are not worth sweeping."""


class Pool:
    def __init__(self, space: Space) -> None:
        self.space = space
        self.shelf = Shelf(space)
        self.living: dict[tuple[str, int], int] = {}
        self.keys: list[tuple[str, int]] = []
        self.origin_code = np.empty(16, np.int64)
        """Row -> number of its origin in `origins`."""
        self.origins: dict[str, int] = {}
        self._sources: list[tuple[SubscriptionBatch, int]] = []

    def __len__(self) -> int:
        return len(self.living)

    def add(self, origin: str, batch: SubscriptionBatch) -> list[int]:
        """New rows; who is there already must have been removed."""
        batch = batch.widened(self.space)
        rows = self.shelf.add(batch.table)
        code = self.origins.setdefault(origin, len(self.origins))
        if rows.stop > len(self.origin_code):
            more = np.empty(max(rows.stop, 2 * len(self.origin_code)), np.int64)
            more[: rows.start] = self.origin_code[: rows.start]
            self.origin_code = more
        self.origin_code[rows.start : rows.stop] = code
        for at, number in enumerate(batch.ids.tolist()):
            key = (origin, number)
            self.living[key] = rows.start + at
            self.keys.append(key)
            self._sources.append((batch, at))
        return [*rows]

    def remove(self, origin: str, ids: Iterable[int]) -> list[int]:
        """The rows that went."""
        found = (self.living.pop((origin, each), None) for each in ids)
        return [row for row in found if row is not None]

    def remove_origin(self, origin: str) -> list[int]:
        return self.remove(origin, [number for name, number in self.living if name == origin])

    @property
    def needs_sweep(self) -> bool:
        dead = len(self.keys) - len(self.living)
        return dead > max(SWEEP_FROM, len(self.living))

    def swept(self, space: Space) -> tuple[Pool, dict[int, int]]:
        """The living alone, in a version of the space; and the new row of each old one."""
        fresh, moved = Pool(space), {}
        for origin, batch, rows in self._by_source(sorted(self.living.values())):
            for old, new in zip(rows, fresh.add(origin, batch), strict=True):
                moved[old] = new
        return fresh, moved

    def _by_source(self, rows: Iterable[int]) -> list[tuple[str, SubscriptionBatch, list[int]]]:
        """Rows put together again as they came: origin, what of the batch is asked for, and the rows in its order."""
        groups: dict[int, tuple[str, SubscriptionBatch, list[int]]] = {}
        for row in rows:
            batch, _ = self._sources[row]
            groups.setdefault(id(batch), (self.keys[row][0], batch, []))[2].append(row)
        found = []
        for origin, batch, mine in groups.values():
            places = np.array([self._sources[row][1] for row in mine], np.int64)
            found.append((origin, batch if len(places) == len(batch) else batch.take(places), mine))
        return found

    def batches(self, rows: Iterable[int]) -> list[tuple[str, SubscriptionBatch]]:
        """One batch for each origin, origins sorted, without the names of subscribers: what travels."""
        by_origin: dict[str, list[SubscriptionBatch]] = {}
        for origin, batch, _ in self._by_source(sorted(rows)):
            nameless = SubscriptionBatch(batch.ids, batch.table, ("",) * len(batch))
            by_origin.setdefault(origin, []).append(nameless)
        return [(origin, SubscriptionBatch.concat(by_origin[origin])) for origin in sorted(by_origin)]

    def everything(self) -> list[tuple[str, SubscriptionBatch]]:
        return [(origin, batch) for origin, batch, _ in self._by_source(sorted(self.living.values()))]
