"""Everybody who wants something of one space: what a broker matches events against.

A row is one subscription; the engine knows rows, the arrays beside it say whose they are:

    row          0        1        2
    ids          7        9        9          the same id at two brokers, while a client moves: two rows
    origin       0        0        1          origins ('a', 'b')
    names        desk-7   desk-1   desk-1     the subscribers
    living       True     True     False      row 2 has gone, and may be given to somebody who comes

Rule: an audience is never changed. `changed` makes another that shares what stayed the same, so brokers of one process that
have heard the same may hold the same one (`forest`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.model.predicates.table import PredicateTable

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Names = npt.NDArray[np.object_]


class Change(NamedTuple):
    """`removed` of the origin's subscriptions go (None: all of them), then `added` come."""

    origin: str
    removed: tuple[int, ...] | None
    added: SubscriptionBatch | None


class Found(NamedTuple):
    """Event e satisfies rows[offsets[e]:offsets[e + 1]] of the audience, and took steps[e] visited nodes (None: not counted).

    A row that is not living may be among them, and so may one beyond the audience's arrays: they are of other audiences that
    share the engine, and count for nobody (`pairs`).
    """

    offsets: Ints
    rows: Ints
    steps: Ints | None


class Matched(NamedTuple):
    """Pair i: event `events[i]` satisfies row `rows[i]`, which is living. Events ascend. `steps` as in `Found`."""

    events: Ints
    rows: Ints
    steps: Ints | None


class Arrival(NamedTuple):
    """Rows that come with a change, and what they ask for."""

    rows: Ints
    table: PredicateTable

    def without(self, gone: Ints) -> Arrival:
        kept = np.flatnonzero(~np.isin(self.rows, gone))
        return self if len(kept) == len(self.rows) else Arrival(self.rows[kept], self.table.take(kept))


class Members(NamedTuple):
    """The arrays of an audience: see above."""

    ids: Ints
    origin: Ints
    origins: tuple[str, ...]
    names: Names
    living: Bools


NOBODY: Final = Members(np.empty(0, np.int64), np.empty(0, np.int64), (), np.empty(0, object), np.empty(0, bool))


@dataclass(frozen=True, eq=False)
class Audience:
    """What all audiences have; `by_tree` and `by_index` match."""

    space: Space
    ids: Ints
    origin: Ints
    origins: tuple[str, ...]
    names: Names
    living: Bools

    def match(self, events: EventBatch) -> Found:
        raise NotImplementedError

    def free_rows(self, living: Bools, count: int) -> Ints:
        """`count` rows for those who come: some that are free, then new ones at the end."""
        raise NotImplementedError

    def with_rows(self, gone: Ints, arrivals: list[Arrival], moved: int, members: Members) -> Audience:
        """The audience of these members: without the rows `gone` and with the arrivals, `moved` rows in all."""
        raise NotImplementedError

    def sizes(self) -> dict[str, int]:
        raise NotImplementedError

    def __len__(self) -> int:
        return int(self.living.sum())

    def match_living(self, events: EventBatch) -> Matched:
        """Which events satisfy which of the living rows, one pair after the other."""
        found = self.match(events)
        event = np.repeat(np.arange(len(events)), np.diff(found.offsets))
        kept = found.rows < len(self.living)
        kept[kept] = self.living[found.rows[kept]]
        return Matched(event, found.rows, found.steps) if kept.all() else Matched(event[kept], found.rows[kept], found.steps)

    @cached_property
    def subscribers(self) -> tuple[list[str], Ints]:
        """The names of all who subscribe, and for each row which of them it is."""
        numbers: dict[str, int] = {}
        rows = [numbers.setdefault(name, len(numbers)) for name in self.names.tolist()]
        return list(numbers), np.array(rows, np.int64)

    @cached_property
    def last(self) -> Ints:
        """Scratch of `pairs`, see `stamps`."""
        return stamps(len(self.subscribers[0]))

    @cached_property
    def who(self) -> Ints:
        """For each row the number of its subscriber, -1 for a row that is not living."""
        return np.where(self.living, self.subscribers[1], -1)

    @cached_property
    def _by_id(self) -> tuple[Ints, Ints]:
        """The ids of the living, ascending, and their rows."""
        rows = np.flatnonzero(self.living)
        order = np.argsort(self.ids[rows], kind="stable")
        return self.ids[rows][order], rows[order]

    @cached_property
    def _row_table(self) -> Ints:
        """The row of each id from the least to the greatest, -1 for none, where ids stand close: a lookup in place of a search,
        which took half of the time of match-first. Empty where they do not."""
        known, rows = self._by_id
        if known[-1] - known[0] > 4 * len(known):
            return np.empty(0, np.int64)
        table = np.full(int(known[-1] - known[0]) + 1, -1, np.int64)
        table[known[::-1] - known[0]] = rows[::-1]
        return table

    def rows_of_ids(self, ids: Ints) -> Ints:
        """The row of each subscription id, -1 where there is none; of an id that stands twice, one of the two."""
        known, rows = self._by_id
        if not len(known):
            return np.full(len(ids), -1, np.int64)
        if len(self._row_table):
            at = ids - known[0]
            inside = (at >= 0) & (at < len(self._row_table))
            return self._row_table[at] if inside.all() else np.where(inside, self._row_table[np.where(inside, at, 0)], -1)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        found: Ints = np.where(known[at] == ids, rows[at], -1)
        return found

    def changed(self, changes: Iterable[Change]) -> Audience:
        """The audience after these changes, in their order."""
        ids, origin, names, living = self.ids.copy(), self.origin.copy(), self.names.copy(), self.living.copy()
        numbers = {name: at for at, name in enumerate(self.origins)}
        arrivals: list[Arrival] = []
        moved = 0
        for change in changes:
            mine = numbers.setdefault(change.origin, len(numbers))
            if change.removed is None or change.removed:
                leaving = (origin == mine) & living
                if change.removed is not None:
                    leaving &= np.isin(ids, np.array(change.removed, np.int64))
                gone = np.flatnonzero(leaving)
                living[gone] = False
                # Who comes and goes in one go was never there.
                arrivals = [kept for each in arrivals if len((kept := each.without(gone)).rows)]
                moved += len(gone)
            if change.added is not None and len(change.added):
                rows = self.free_rows(living, len(change.added))
                lacking = max(0, int(rows.max()) + 1 - len(ids))
                ids, origin, names, living = (_longer(array, lacking) for array in (ids, origin, names, living))
                ids[rows], origin[rows], living[rows] = change.added.ids, mine, True
                names[rows] = np.array(change.added.subscribers, object)
                arrivals.append(Arrival(rows, change.added.table))
                moved += len(rows)
        stayed = living[: len(self.living)].copy()
        for each in arrivals:
            stayed[each.rows[each.rows < len(stayed)]] = False
        gone = np.flatnonzero(self.living & ~stayed)
        origins = self.origins if len(numbers) == len(self.origins) else tuple(numbers)  # the same one: found by identity
        return self.with_rows(gone, arrivals, moved, Members(ids, origin, origins, names, living))


def joined(arrivals: list[Arrival]) -> Arrival:
    if len(arrivals) == 1:
        return arrivals[0]
    return Arrival(np.concatenate([each.rows for each in arrivals]), PredicateTable.concat([each.table for each in arrivals]))


def stamps(subscribers: int) -> Ints:
    """For each subscriber the number of the last event that was theirs, counted from 1 on through all batches; at the end, how
    many events there were. So each subscriber is found once for each event, and nothing is sorted, nor cleared for the next
    batch, which took longer than to match one event.
    """
    return np.zeros(subscribers + 1, np.int64)


def _longer(array: npt.NDArray[Any], more: int) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros(more, array.dtype)]) if more else array
