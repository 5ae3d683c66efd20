"""Parts of a batch by their rows, which are cut out when somebody reads them.

A broker sends each neighbour those events of a batch that somebody behind it wants. To cut them out of Arrow's columns takes
longer than to find them, and a host that writes events as rows needs no columns: it writes each event of the whole once and
picks the rows of each part.

    whole     e0 e1 e2 e3        parts   rows [0, 2]   rows [1, 2, 3]        taken together when read: e0 e2 e1 e2 e3

Parts that were made together are taken together: Arrow needs as long to take five events as to take sixty.
Rule: a part is an EventBatch that is equal to `whole.take(rows)`; who reads its columns need not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from contentcast.model.events.event_batch import EventBatch

Ints = npt.NDArray[np.int64]
Made = TypeVar("Made")


class Part(EventBatch):
    """Rows of a whole. `records` and `ids` are empty slots until somebody asks for them."""

    __slots__ = ("_cut", "_first", "rows", "whole")

    whole: EventBatch
    rows: Ints
    _cut: _Cut
    _first: int

    def __init__(self, cut: _Cut, first: int, rows: Ints) -> None:
        put = object.__setattr__  # a batch is frozen
        put(self, "space", cut.whole.space)
        put(self, "rejected", ())
        put(self, "left_out", ())
        put(self, "whole", cut.whole)
        put(self, "rows", rows)
        put(self, "_cut", cut)
        put(self, "_first", first)

    def __len__(self) -> int:
        return len(self.rows)

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there, once for each part."""
        if name not in ("records", "ids"):
            raise AttributeError(f"a batch of events has no attribute {name!r}")
        mine = self._cut.together().slice(self._first, len(self.rows))
        object.__setattr__(self, "records", mine.records)
        object.__setattr__(self, "ids", mine.ids)
        return getattr(mine, name)

    def of_whole(self, make: Callable[[EventBatch], Made]) -> Made | None:
        """What `make` makes of the whole, once for all parts that were made together. None if they have fewer events together
        than the whole: for them alone it would be less work.
        """
        return self._cut.of_whole(make)

    def __reduce__(self) -> tuple[Any, ...]:
        """To another process goes the part alone."""
        return EventBatch, (self.space, self.records, self.ids)


class _Cut:
    """Parts that were made together, one after the other."""

    __slots__ = ("_made", "_rows", "_together", "whole")

    def __init__(self, whole: EventBatch, rows: Sequence[Ints]) -> None:
        self.whole = whole
        self._rows = rows
        self._together: EventBatch | None = None
        self._made: dict[Any, Any] = {}

    def together(self) -> EventBatch:
        if self._together is None:
            self._together = self.whole.take(np.concatenate(self._rows))
        return self._together

    def of_whole(self, make: Callable[[EventBatch], Made]) -> Made | None:
        if make not in self._made:
            worth_it = sum(map(len, self._rows)) >= len(self.whole)
            self._made[make] = make(self.whole) if worth_it else None
        found: Made | None = self._made[make]
        return found


def cut(whole: EventBatch, parts: Sequence[Ints | None]) -> list[EventBatch]:
    """The events of each part by their rows (None: all of them)."""
    chosen = [rows for rows in parts if rows is not None]
    made = _Cut(whole, chosen)
    found: list[EventBatch] = []
    first = 0
    for rows in parts:
        if rows is None:
            found.append(whole)
        else:
            found.append(Part(made, first, rows))
            first += len(rows)
    return found
