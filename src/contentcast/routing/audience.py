"""Everybody who wants something of one space, in one search tree: what a broker matches events against.

A row is one subscription; the tree knows rows, the arrays beside it say whose they are:

    row          0        1        2
    ids          7        9        9          the same id at two brokers, while a client moves: two rows
    origin       0        0        1          origins ('a', 'b')
    names        desk-7   desk-1   desk-1     the subscribers

Rule: an audience is never changed. `changed` makes another that shares what stayed the same, so brokers of one process that
have heard the same may hold the same one (`Forest`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.search_tree import SearchTree
from contentcast.model import Space, SubscriptionBatch
from contentcast.model.predicates.table import PredicateTable

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Names = npt.NDArray[np.object_]

KEPT_AUDIENCES: Final = 16
"""Brokers of one process are a few changes apart from each other, not more."""
REPREPARED_SHARE: Final = 0.2
"""A change of a larger share of the rows prepares one tree anew; smaller ones are prepared beside what is there."""


class Change(NamedTuple):
    """`removed` of the origin's subscriptions go (None: all of them), then `added` come."""

    origin: str
    removed: tuple[int, ...] | None
    added: SubscriptionBatch | None


@dataclass(frozen=True)
class Audience:
    space: Space
    tree: SearchTree
    ids: Ints
    origin: Ints
    origins: tuple[str, ...]
    names: Names
    living: Bools

    @classmethod
    def empty(cls, space: Space, options: Mapping[str, Any] | None = None) -> Audience:
        nothing = np.empty(0, np.int64)
        return cls(space, SearchTree(space, **(options or {})), nothing, nothing, (), np.empty(0, object), np.empty(0, bool))

    def __len__(self) -> int:
        return int(self.living.sum())

    @cached_property
    def subscribers(self) -> tuple[list[str], Ints]:
        """The names of all who subscribe, and for each row which of them it is."""
        numbers: dict[str, int] = {}
        rows = [numbers.setdefault(name, len(numbers)) for name in self.names.tolist()]
        return list(numbers), np.array(rows, np.int64)

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
        """The audience after these changes, in their order. Rows of those who went are given to those who come."""
        tree = self.tree.copy()
        ids, origin, names, living = self.ids.copy(), self.origin.copy(), self.names.copy(), self.living.copy()
        numbers = {name: at for at, name in enumerate(self.origins)}
        coming: dict[int, tuple[Ints, PredicateTable]] = {}
        moved = 0
        for at, change in enumerate(changes):
            mine = numbers.setdefault(change.origin, len(numbers))
            if change.removed is None or change.removed:
                gone = (origin == mine) & living
                if change.removed is not None:
                    gone &= np.isin(ids, np.array(change.removed, np.int64))
                for row in np.flatnonzero(gone).tolist():
                    _take_out(tree, coming, row)
                living &= ~gone
                moved += int(gone.sum())
            if change.added is not None and len(change.added):
                rows = np.flatnonzero(~living)[: len(change.added)]
                lacking = len(change.added) - len(rows)
                rows = np.concatenate([rows, np.arange(len(ids), len(ids) + lacking)])
                ids, origin, names, living = (_longer(array, lacking) for array in (ids, origin, names, living))
                ids[rows], origin[rows], living[rows] = change.added.ids, mine, True
                names[rows] = np.array(change.added.subscribers, object)
                coming[at] = (rows, change.added.table)
                moved += len(rows)
        if coming:
            rows = np.concatenate([each for each, _ in coming.values()])
            tables = [table for _, table in coming.values()]
            tree.add_many(rows, tables[0] if len(tables) == 1 else PredicateTable.concat(tables))
        if moved > REPREPARED_SHARE * len(ids):
            tree.prepare()
        return Audience(self.space, tree, ids, origin, tuple(numbers), names, living)


def _take_out(tree: SearchTree, coming: dict[int, tuple[Ints, PredicateTable]], row: int) -> None:
    """A row that goes is in the tree, or among those that these same changes brought."""
    if row in tree:
        tree.remove(row)
        return
    for at, (rows, table) in coming.items():
        if row in rows:
            kept = np.flatnonzero(rows != row)
            coming[at] = (rows[kept], table.take(kept))
            if not len(kept):
                del coming[at]
            return


def _longer(array: npt.NDArray[Any], more: int) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros(more, array.dtype)]) if more else array


class Forest:
    """Audiences by what they are made of: the brokers of a simulated network grow each tree once."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self._kept: OrderedDict[Hashable, Audience] = OrderedDict()

    def audience(self, key: Hashable, before: Audience | None, space: Space, changes: Sequence[Change]) -> Audience:
        """The audience of this key; it is `before` (None: nobody) after `changes`."""
        found = self._kept.get(key)
        if found is None:
            found = (before or Audience.empty(space, self.options)).changed(changes)
            self._kept[key] = found
            if len(self._kept) > KEPT_AUDIENCES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found
