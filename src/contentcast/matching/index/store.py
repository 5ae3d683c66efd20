"""Groups and cells as they grow and shrink: the arrays that the kernels walk, and the ways to change them.

A group is a gate with the tests that are left behind it. Its table leads from a key (the codes under the gate's mask, the
grid cell, the text constraint's number) to a cell; a cell is a stretch of the arena (see `kernels`). A cell that is full
moves to the arena's end with twice the room, so one more subscription never moves more than one cell.
Rule: only this file writes the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.index import appending, changes, layout, referring
from contentcast.matching.index.asks import Asks
from contentcast.matching.index.bitmaps import Bitmaps
from contentcast.matching.index.groups import WIDTH, Group
from contentcast.matching.index.layout import Cells, GroupColumns
from contentcast.matching.index.referring import References, no_references, shift_of
from contentcast.matching.index.room import roomy, set_aside

Ints = npt.NDArray[np.int64]


ARENA_ROOM: Final = 24
"""How many times as much memory as it needs the arena has set aside when it is made: a plan may be in use until there are some
nine times as many entries, and cells that have moved leave as much behind.
"""
LEAST_RUN: Final = 4
"""Entries of a cell that ask the same are put together where this many do on average in their group; testing one is cheaper
than following a run, and where there are runs all ids have to be looked at.
"""
FEW: Final = 64
"""Of fewer that come at once no runs are made."""


class Places(NamedTuple):
    """Of entries: which of some ids each has, whether its subscription has several, its cell and its place there; or, if it
    lives in the bitmaps, ~(its slot + 1) and 0. One with a range in several cells of a grid comes as often.
    """

    owner: Ints
    several: Any
    cell: Ints
    inside: Ints


def _zeros(count: int, dtype: Any = np.int64) -> Any:
    return np.zeros(count, dtype)


@dataclass(slots=True)
class Store:
    """All cells of an index, the tables that lead to them and the bitmaps."""

    groups: list[Group] = field(default_factory=list)
    arena: Any = field(default_factory=lambda: np.zeros(1 << 12, np.int32))
    free: int = 0
    cell_count: int = 0
    cell: Ints = field(default_factory=lambda: np.zeros((64, layout.CELL_ROW), np.int64))
    group_of: Any = field(default_factory=lambda: _zeros(64, np.int32))
    key_of: Ints = field(default_factory=lambda: _zeros(64))
    table: Ints = field(default_factory=lambda: np.full((64, 2), -1, np.int64))
    table_end: int = 0
    run_start: Ints = field(default_factory=lambda: _zeros(0))
    run_length: Ints = field(default_factory=lambda: _zeros(0))
    run_ids: Ints = field(default_factory=lambda: _zeros(0))
    run_count: int = 0
    run_end: int = 0
    several: Ints = field(default_factory=lambda: _zeros(0))
    several_count: int = 0
    several_numbers: dict[int, int] = field(default_factory=dict)
    barren: set[int] = field(default_factory=set)
    """Subscriptions that no event can match: they have no entries."""
    bitmaps: Bitmaps = field(default_factory=Bitmaps)
    references: References = field(default_factory=no_references)
    left: list[Any] = field(default_factory=list)
    """Arrays that larger ones have taken the place of."""

    # --- columns of the cells

    @property
    def base(self) -> Ints:
        return self.cell[:, layout.BASE]

    @property
    def count(self) -> Ints:
        return self.cell[:, layout.COUNT]

    @property
    def room(self) -> Ints:
        return self.cell[:, layout.ROOM]

    # --- views for the kernels

    def cells(self, set_start: Ints, set_pairs: Ints) -> Cells:
        return Cells(
            self.arena, self.cell, self.table,
            self.run_start, self.run_length, self.run_ids, self.several, set_start, set_pairs,
        )  # fmt: skip

    # --- finding cells

    def open_cells(self, columns: GroupColumns, where: Ints, groups: Ints, reach: dict[int, int]) -> tuple[Ints, Any]:
        """The cells that entries go to (see `asks`), made where there are none: entry and cell of each, those of one group
        together. Of an entry in the bitmaps the group is -1; `reach`: how many keys the tables have that are not hashed.
        """
        order, expected = appending.by_group(where, groups, len(self.groups))
        each = expected.tolist()
        for number, keys in enumerate(each):
            if keys:
                self._fit_table(self.groups[number], keys, reach.get(number, 0))
        total = sum(each)
        rows, cells = np.empty(total, np.int64), np.empty(total, np.int32)
        self._fit_cells(self.cell_count + total)
        before = self.cell_count
        tables = np.array([(group.table, group.size, shift_of(group.size)) for group in self.groups], np.int64).reshape(-1, 3)
        self.cell_count = appending.open_cells(
            self.table, self.cell, self.group_of, self.key_of, columns, tables, where, groups, order, before, rows, cells
        )
        if self.cell_count > before:
            for number, new in enumerate(np.bincount(self.group_of[before : self.cell_count]).tolist()):
                self.groups[number].keys += new
        return rows, cells

    def _fit_table(self, group: Group, keys: int, reach: int) -> None:
        if group.gate.kind == "equal":
            wanted = 8
            while wanted < 2 * (group.keys + keys + 1):
                wanted *= 2
        else:
            wanted = max(reach, 2 * group.size if reach > group.size else 0)
        if wanted <= group.size:
            return
        self.table = roomy(self.table, self.table_end, self.table_end + wanted)
        old, new = (self.table[begin : begin + size] for begin, size in ((group.table, group.size), (self.table_end, wanted)))
        if group.gate.kind == "equal":
            held = old[old[:, 1] >= 0]
            new[:] = -1
            changes.put_keys(self.table, self.table_end, wanted, shift_of(wanted), held[:, 0].copy(), held[:, 1].copy())
        else:
            new[: len(old)], new[len(old) :] = old, -1
        group.table, group.size = self.table_end, wanted
        self.table_end += wanted

    def _fit_cells(self, count: int) -> None:
        for name in ("cell", "group_of", "key_of"):
            setattr(self, name, roomy(getattr(self, name), self.cell_count, count))

    # --- changing

    def append(self, columns: GroupColumns, asks: Asks, rows: Ints, cells: Any, mixed: Ints, ids: Any) -> None:
        """Entries into their cells: of each its row among the asks, and its cell; `mixed` and `ids` are the rows'."""
        order = np.argsort(cells.astype(np.int64) << 32 | mixed[rows] & 0xFFFFFFFF, kind="stable")
        lengths, next_run = np.ones(len(order), np.int64), self.run_count
        if len(order) >= FEW:
            run_lengths, run_ids = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
            left, runs, inside = appending.join_same(
                asks, rows, cells, self.group_of, columns.width, order, LEAST_RUN, ids, lengths, run_lengths, run_ids
            )
            order = order[:left]
            self._add_runs(run_lengths[:runs], run_ids[:inside])
            self._fit_arena(self.free + int(columns.width[self.group_of[cells[order]]].sum()))
        done = 0
        while True:
            self.free, done, next_run = appending.append_entries(
                self.arena, self.cell, columns, asks, rows, cells, order, lengths, ids, next_run, self.free, done
            )
            if done == len(order):
                return
            cell = cells[order[done]]
            width = int(columns.width[self.group_of[cell]])
            self._fit_arena(self.free + width * max(4, 2 * int(self.room[cell]), len(order) - done))

    def take_back(self, ids: Ints) -> None:
        """Adding these has broken off: take out what has come of them, and the groups that have no table yet."""
        self._count_again()
        known = self.knows(ids)
        self.remove(ids[known])
        for each in ids[~known].tolist():
            self.several_numbers.pop(each, None)
        while self.groups and not self.groups[-1].size:
            self.groups.pop()

    def _count_again(self) -> None:
        """What a kernel has written may not have been taken note of."""
        self.cell_count = max(self.cell_count, int(self.table[: self.table_end, 1].max(initial=-1)) + 1)
        group_of, cell = self.group_of[: self.cell_count], self.cell[: self.cell_count]
        widths = np.array([group.width for group in self.groups], np.int64)
        ends = cell[:, layout.BASE] + cell[:, layout.ROOM] * widths[group_of]
        self.free = max(self.free, int(ends.max(initial=0)))
        for group, keys in zip(self.groups, np.bincount(group_of, minlength=len(self.groups)).tolist(), strict=True):
            group.keys = keys
        referring.count_again(self.references)

    def _fit_arena(self, size: int) -> None:
        """Room for so many numbers in all, and for more, so that it is hardly ever moved: what is not used takes no memory."""
        if size + layout.SLACK > len(self.arena):
            larger = set_aside((size + layout.SLACK,), np.int32, times=ARENA_ROOM, used=size)
            larger[: self.free] = self.arena[: self.free]
            self.arena = larger

    def reserve(self, size: int) -> None:
        """Room for so many numbers in the arena; it takes memory only as it is used."""
        self._fit_arena(size)

    def _add_runs(self, lengths: Ints, ids: Ints) -> None:
        """Runs of ids with one entry."""
        count, end = self.run_count + len(lengths), self.run_end + len(ids)
        if len(lengths):
            self.run_start, self.run_length = (roomy(each, self.run_count, count) for each in (self.run_start, self.run_length))
            self.run_ids = roomy(self.run_ids, self.run_end, end + layout.SLACK)
            self.run_start[self.run_count : count] = np.cumsum(lengths) - lengths + self.run_end
            self.run_length[self.run_count : count], self.run_ids[self.run_end : end] = lengths, ids
            self.run_count, self.run_end = count, end

    def add_several(self, ids: Ints) -> Ints:
        """Subscriptions with several conjunctions or an id too long for an entry; returns their tagged ids."""
        numbers = np.arange(self.several_count, self.several_count + len(ids))
        self.several = roomy(self.several, self.several_count, self.several_count + len(ids))
        self.several[numbers] = ids
        self.several_numbers.update(zip(ids.tolist(), numbers.tolist(), strict=True))
        self.several_count += len(ids)
        return ~(2 * numbers + 1)

    def refer(self, ids: Ints, cells: Ints) -> None:
        """Remember that these ids have entries in these cells; there is room for it (`fit_references`)."""
        referring.add_references(self.references, ids, cells)

    def fit_references(self, ids: int, cells: int = 0) -> None:
        """Room for so many ids more, and for so many cells that they refer to."""
        before, self.references = self.references, referring.fitted(self.references, ids, cells)
        if len(before.old_id) and self.references.old_id is not before.old_id:
            self.left += [before.old_id, before.old_head]

    @property
    def known(self) -> int:
        """How many subscriptions there are."""
        return int(self.references.state[referring.KNOWN])

    def ids(self) -> Ints:
        """Of all subscriptions, in no particular order."""
        return referring.ids_of(self.references)

    def some_ids(self, most: int) -> Ints:
        """Of so many subscriptions, any."""
        return referring.some_ids(self.references, most)

    def knows(self, ids: Ints) -> Any:
        """Which of the ids are there."""
        return referring.known_among(self.references, ids)

    def remove(self, ids: Ints) -> None:
        """All entries of these subscriptions, which are there; each is given once."""
        none = _zeros(0)
        slots = np.empty(referring.count_references(self.references, ids), np.int64)
        widths = np.array([group.width for group in self.groups], np.int64)
        cells, tagged = self.cells(none, none), self.tagged_ids(ids)
        listed = ids.tolist() if self.several_numbers or self.barren else []
        if self.bitmaps.used:
            self.bitmaps.expect_to_remove(len(slots))
        used = changes.remove_ids(cells, self.references, widths, ids, tagged, slots)  # from here on nothing may fail
        self.bitmaps.remove(slots[:used])
        for each in listed:
            self.several_numbers.pop(each, None)
            self.barren.discard(each)

    def places_of(self, ids: Ints) -> Places:
        """Where the entries of these subscriptions are."""
        wanted = self.tagged_ids(ids)
        owner, cell_of, inside = (np.empty(referring.count_references(self.references, ids), np.int64) for _ in range(3))
        none = _zeros(0)
        cells = self.cells(none, none)
        count = changes.places_of(cells, self.references, ids, wanted, owner, cell_of, inside)
        owner = owner[:count]
        return Places(owner, wanted[owner] < 0, cell_of[:count], inside[:count])

    def all_places(self, ids: Ints) -> Places:
        """Where all entries are, those of one cell together; `ids` are those of all subscriptions, ascending."""
        counts = self.count[: self.cell_count]
        cells = np.repeat(np.arange(self.cell_count), counts)
        inside = np.arange(len(cells)) - np.repeat(np.cumsum(counts) - counts, counts)
        slots = self.bitmaps.slots()
        tagged = np.concatenate([self.arena[self.base[cells] + inside], self.bitmaps.ids[slots]]).astype(np.int64)
        cells, inside = np.concatenate([cells, ~(slots + 1)]), np.concatenate([inside, np.zeros(len(slots), np.int64)])
        run = np.flatnonzero((tagged < 0) & (~tagged & 1 == 0))
        if len(run):  # an entry with a run of ids comes once for each
            numbers, lengths = ~tagged[run] >> 1, np.ones(len(tagged), np.int64)
            lengths[run] = self.run_length[numbers]
            starts = np.zeros(len(tagged), np.int64)
            starts[run] = self.run_start[numbers]
            source = np.repeat(np.arange(len(tagged)), lengths)
            offset = np.arange(len(source)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            of_run = np.zeros(len(tagged), np.bool_)
            of_run[run] = True
            tagged, cells, inside = tagged[source], cells[source], inside[source]
            tagged[of_run[source]] = self.run_ids[(starts[source] + offset)[of_run[source]]]
        several = tagged < 0
        tagged[several] = self.several[~tagged[several] >> 1]
        return Places(np.searchsorted(ids, tagged), several, cells, inside)

    def recode(self, attribute: str, old: Any, new: Any) -> None:
        """Order codes of an attribute have changed: `new[i]` instead of `old[i]`, ascending."""
        none = _zeros(0)
        cells, group_of = self.cells(none, none), self.group_of[: self.cell_count]
        columns = [
            (np.flatnonzero(group_of == number), each)
            for number, group in enumerate(self.groups)
            for (kind, arg), column in group.columns()
            if kind in ("range", "low", "high") and arg == attribute
            for each in range(column, column + WIDTH[kind])
        ]
        for mine, column in columns:  # from here on nothing may fail
            changes.recode(cells, mine, column, old, new)

    def bytes_used(self) -> int:
        return int(sum(each.nbytes for each in self.arrays().values()))

    def arrays(self) -> dict[str, Any]:
        """All there is to save, by name."""
        found = {
            each.name: getattr(self, each.name) for each in fields(self) if isinstance(getattr(self, each.name), np.ndarray)
        }
        found |= {f"references.{name}": array for name, array in self.references._asdict().items()}
        cells, chains = ("cell", "group_of", "key_of"), ("references.cell", "references.next")
        chained = int(self.references.state[referring.CHAINED])
        used = dict.fromkeys(cells, self.cell_count) | dict.fromkeys(chains, chained)
        used |= {"arena": self.free + 2 * layout.SLACK, "table": self.table_end, "several": self.several_count}
        used |= {"run_start": self.run_count, "run_length": self.run_count, "run_ids": self.run_end + layout.SLACK}
        found |= {name: found[name][:count] for name, count in used.items()}
        return found | {f"bitmaps.{name}": array for name, array in self.bitmaps.arrays().items()}

    def thaw(self) -> bool:
        """Before a change: a mapped file becomes memory of our own. True if it was one."""
        if self.arena.flags.writeable:
            return False
        own = {name: array.copy() for name, array in self.arrays().items()}  # all, before any is used
        for name in self.bitmaps.arrays():
            setattr(self.bitmaps, name, own[f"bitmaps.{name}"])
        self.references = References(*(own[f"references.{name}"] for name in References._fields))
        for name in [each for each in own if "." not in each and each != "arena"]:
            setattr(self, name, own[name])
        self.arena = own["arena"]  # the last: it tells whether all are our own
        return True

    def tagged_ids(self, ids: Ints) -> Ints:
        """The ids as their entries carry them."""
        return np.array([self.tagged(each) for each in ids.tolist()], np.int64) if self.several_numbers else ids

    def tagged(self, subscription: int) -> int:
        """The id as its entries carry it."""
        number = self.several_numbers.get(subscription)
        return subscription if number is None else ~(2 * number + 1)
