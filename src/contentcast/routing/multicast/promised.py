"""What publishers have advertised with a quality of service: such events get it, whatever their receivers ask for.

Source: Eide et al. 2003, section 7, announces a quality of service in subscriptions and advertisements.
Rule: one such event takes its whole message with it; more than was promised is no harm.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from contentcast.match_index import MatchIndex
from contentcast.model import EventBatch, Predicate, Space


class Promised:
    def __init__(self) -> None:
        self._predicates: dict[int, Predicate] = {}
        self._indexes: dict[Space, MatchIndex | None] = {}
        """For each space as events have it; None where nothing was promised."""

    def add(self, number: int, predicate: Predicate) -> None:
        self._predicates[number] = predicate
        self._indexes.clear()

    def remove(self, number: int) -> None:
        if self._predicates.pop(number, None) is not None:
            self._indexes.clear()

    def __bool__(self) -> bool:
        return bool(self._predicates)

    def any_of(self, events: EventBatch) -> bool:
        if not self._predicates:
            return False
        return bool(self.of(events).any())

    def of(self, events: EventBatch) -> npt.NDArray[np.bool_]:
        """For each event: was it promised?"""
        index = self._index(events.space) if len(events) else None
        found = np.zeros(len(events), np.bool_)
        return found if index is None else found | (index.match_counts(events).to_numpy() > 0)

    def _index(self, space: Space) -> MatchIndex | None:
        if space not in self._indexes:
            mine = {
                number: each for number, each in self._predicates.items() if space.extends(each.space) or space == each.space
            }
            made = MatchIndex(space) if mine else None
            for number, each in mine.items():
                assert made is not None
                made.add(number, each if each.space == space else Predicate.of(space, each.conjunctions))
            self._indexes[space] = made
        return self._indexes[space]
