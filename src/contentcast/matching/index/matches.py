"""What a batch matches: the ids of each event, one after the other, and the pieces of several threads put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from contentcast.matching.index import layout
from contentcast.matching.index.lanes import fill_rows, place_piece
from contentcast.matching.index.room import room_for

Ints = npt.NDArray[np.int64]

STREAMED_FROM: Final = 3 << 20
"""So many ids do not stay in the caches until somebody reads them: they are written past them."""
SPLIT_FROM: Final = 1 << 18
"""So few ids are put in their places sooner than a thread is woken to help."""


class Matches:
    """ids[ends[i-1]:ends[i]] are the subscriptions of event i, in no particular order; they stand at the begin of `room`."""

    __slots__ = ("ends", "ids", "room")

    def __init__(self, ends: Ints, ids: Ints, room: Ints) -> None:
        self.ends, self.ids, self.room = ends, ids, room

    def rows(self, first: int = 0) -> Ints:
        """For each id the number of its event, counting from `first`."""
        rows = room_for(len(self.ids) + layout.SLACK)
        fill_rows(self.ends, rows, first, len(self.ids) >= STREAMED_FROM)
        return rows[: len(self.ids)]


Run: TypeAlias = Callable[[Callable[[int], Any], range], Iterable[Any]]
"""Calls a function with each number, in any order or at once, and gives what it returns, as `map` does."""


def in_one(pieces: list[tuple[int, Matches]], run: Run) -> tuple[Ints, Ints]:
    """The rows and the ids of several pieces, each with the number of its first event, one after the other."""
    begins = np.cumsum([0, *(len(each.ids) for _, each in pieces)]).tolist()
    total = begins[-1]
    rows, ids = room_for(total + layout.SLACK), pieces[0][1].room
    if len(ids) < total + layout.SLACK:
        ids = room_for(total + layout.SLACK)

    def place(number: int) -> None:
        first, piece = pieces[number]
        place_piece(piece.ends, piece.ids, first, rows, ids, begins[number], total >= STREAMED_FROM)

    for _ in (run if total >= SPLIT_FROM else map)(place, range(len(pieces))):
        pass
    return rows[:total], ids[:total]
