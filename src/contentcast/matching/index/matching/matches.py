"""What a batch matches: the ids of each event, one after the other, and the pieces of several threads put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.limits import Limits
from contentcast.matching.index.machine import layout
from contentcast.matching.index.machine.result_buffers import result_buffer
from contentcast.matching.index.machine.simd import fill_rows, place_piece

Ints = npt.NDArray[np.int64]

SPLIT_FROM: Final = 1 << 18
"""Ids from which on several threads put the pieces together; fewer are done before another thread is awake."""


class Matches:
    """ids[ends[i-1]:ends[i]] are the subscriptions of event i, in no particular order; `buffer` begins with them."""

    __slots__ = ("buffer", "ends", "ids", "limits")

    def __init__(self, ends: Ints, ids: Ints, buffer: Ints, limits: Limits) -> None:
        self.ends, self.ids, self.buffer, self.limits = ends, ids, buffer, limits

    def rows(self, first: int = 0) -> Ints:
        """For each id the number of its event, counting from `first`."""
        streaming = len(self.ids) >= self.limits.streamed_from
        rows = result_buffer(len(self.ids) + layout.SLACK, in_lines=streaming)
        fill_rows(self.ends, rows, first, streaming)
        return rows[: len(self.ids)]


Run: TypeAlias = Callable[[Callable[[int], Any], range], Iterable[Any]]
"""Calls a function with each number, in any order or at once, and gives what it returns, as `map` does."""


def in_one(pieces: list[tuple[int, Matches]], run: Run) -> tuple[Ints, Ints]:
    """The rows and the ids of several pieces, each with the number of its first event, one after the other."""
    begins = np.cumsum([0, *(len(each.ids) for _, each in pieces)]).tolist()
    total = begins[-1]
    rows, ids = result_buffer(total + layout.SLACK), pieces[0][1].buffer
    if len(ids) < total + layout.SLACK:
        ids = result_buffer(total + layout.SLACK)

    def place(number: int) -> None:
        first, piece = pieces[number]
        place_piece(piece.ends, piece.ids, first, rows, ids, begins[number], total >= pieces[0][1].limits.streamed_from)

    for _ in (run if total >= SPLIT_FROM else map)(place, range(len(pieces))):
        pass
    return rows[:total], ids[:total]
