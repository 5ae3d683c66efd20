"""Groups and cells as they grow and shrink: the arrays that the kernels walk, and the ways to change them.

A group is a gate with the tests that are left behind it. Its table leads from a key (the codes under the gate's mask, the
grid cell, the text constraint's number) to a cell; a cell is a stretch of the arena (see `kernel`). A cell that is full
moves to the arena's end with twice the room, so one more subscription never moves more than one cell.
Rule: only this file writes the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.cells import appending
from contentcast.matching.index.cells import cell_changes as cell_changes
from contentcast.matching.index.cells import id_table as id_tables
from contentcast.matching.index.cells.bitmaps import Bitmaps
from contentcast.matching.index.cells.groups import WIDTH, Group
from contentcast.matching.index.cells.id_table import IdTable, empty_id_table
from contentcast.matching.index.machine import layout
from contentcast.matching.index.machine.hashing import shift_of
from contentcast.matching.index.machine.layout import Cells, GroupColumns
from contentcast.matching.index.machine.reserved import reserve, with_capacity
from contentcast.matching.index.planning.gates import Gate
from contentcast.matching.index.values.entry_rows import EntryRows

Ints = npt.NDArray[np.int64]


_NUMBERS: Final = ("free", "cell_count", "table_end", "several_count", "run_count", "run_end")
"""The fields of `Store` that say how much of its arrays is used."""
ARENA_GROWTH_FACTOR: Final = 24
"""Growth factor of the arena. A plan may be in use until there are nine times as many entries, and cells that have moved leave
as much unused behind them.
"""
LEAST_RUN: Final = 4
"""Equal entries of a cell become one entry with a run of ids, in groups where on average this many are equal. For fewer,
testing each entry is cheaper than following a run.
"""
RUNS_FROM: Final = 64
"""Entries from which on runs are made of those that come at once."""


class Locations(NamedTuple):
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
    id_table: IdTable = field(default_factory=empty_id_table)
    _known_tables: tuple[int, int, Ints] | None = None

    # --- columns of the cells

    @property
    def base(self) -> Ints:
        return self.cell[:, layout.BASE]

    @property
    def count(self) -> Ints:
        return self.cell[:, layout.COUNT]

    @property
    def capacity(self) -> Ints:
        return self.cell[:, layout.CAPACITY]

    # --- views for the kernels

    def cells(self, set_start: Ints, set_pairs: Ints) -> Cells:
        return Cells(
            self.arena, self.cell, self.table,
            self.run_start, self.run_length, self.run_ids, self.several, set_start, set_pairs,
        )  # fmt: skip

    # --- finding cells

    def open_cells(self, columns: GroupColumns, routes: Ints, groups: Ints, reach: dict[int, int]) -> tuple[Ints, Any]:
        """The cells that entries go to by their routes, made where there are none: entry and cell of each, those of one group
        together. The group of an entry in the bitmaps is -1. `reach`: how many keys the tables have that are not hashed.
        """
        order, expected = appending.by_group(routes, groups, len(self.groups))
        each = expected.tolist()
        for number, keys in enumerate(each):
            if keys:
                self._fit_table(self.groups[number], keys, reach.get(number, 0))
        total = sum(each)
        rows, cells = np.empty(total, np.int64), np.empty(total, np.int32)
        self._fit_cells(self.cell_count + total)
        before = self.cell_count
        self.cell_count = appending.open_cells(
            self.table,
            self.cell,
            self.group_of,
            self.key_of,
            columns,
            self._tables(),
            routes,
            groups,
            order,
            before,
            rows,
            cells,
        )
        if self.cell_count > before:
            for number, new in enumerate(np.bincount(self.group_of[before : self.cell_count]).tolist()):
                self.groups[number].keys += new
        return rows, cells

    def _tables(self) -> Ints:
        """The table, size and shift of each group; made anew when one has come or one table has moved to the end of all."""
        if self._known_tables is None or self._known_tables[:2] != (len(self.groups), self.table_end):
            rows = [(group.table, group.size, shift_of(group.size)) for group in self.groups]
            self._known_tables = len(self.groups), self.table_end, np.array(rows, np.int64).reshape(-1, 3)
        return self._known_tables[2]

    def _fit_table(self, group: Group, keys: int, reach: int) -> None:
        if group.gate.kind == "equal":
            wanted = 8
            while wanted < 2 * (group.keys + keys + 1):
                wanted *= 2
        else:
            wanted = max(reach, 2 * group.size if reach > group.size else 0)
        if wanted <= group.size:
            return
        self.table = with_capacity(self.table, self.table_end, self.table_end + wanted)
        old, new = (self.table[begin : begin + size] for begin, size in ((group.table, group.size), (self.table_end, wanted)))
        if group.gate.kind == "equal":
            held = old[old[:, 1] >= 0]
            new[:] = -1
            cell_changes.put_keys(self.table, self.table_end, wanted, shift_of(wanted), held[:, 0].copy(), held[:, 1].copy())
        else:
            new[: len(old)], new[len(old) :] = old, -1
        group.table, group.size = self.table_end, wanted
        self.table_end += wanted

    def _fit_cells(self, count: int) -> None:
        for name in ("cell", "group_of", "key_of"):
            setattr(self, name, with_capacity(getattr(self, name), self.cell_count, count))

    # --- changing

    def append(self, columns: GroupColumns, entry_rows: EntryRows, rows: Ints, cells: Any, mixed: Ints, ids: Any) -> None:
        """Entries into their cells: of each its row among the entry rows, and its cell; `mixed` and `ids` are the rows'."""
        order = np.argsort(cells.astype(np.int64) << 32 | mixed[rows] & 0xFFFFFFFF, kind="stable")
        lengths, next_run = np.ones(len(order), np.int64), self.run_count
        if len(order) >= RUNS_FROM:
            run_lengths, run_ids = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
            left, runs, inside = appending.join_same(
                entry_rows, rows, cells, self.group_of, columns.width, order, LEAST_RUN, ids, lengths, run_lengths, run_ids
            )
            order = order[:left]
            self._add_runs(run_lengths[:runs], run_ids[:inside])
            self._fit_arena(self.free + int(columns.width[self.group_of[cells[order]]].sum()))
        done = 0
        while True:
            self.free, done, next_run = appending.append_entries(
                self.arena, self.cell, columns, entry_rows, rows, cells, order, lengths, ids, next_run, self.free, done
            )
            if done == len(order):
                return
            cell = cells[order[done]]
            width = int(columns.width[self.group_of[cell]])
            self._fit_arena(self.free + width * max(4, 2 * int(self.capacity[cell]), len(order) - done))

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
        ends = cell[:, layout.BASE] + cell[:, layout.CAPACITY] * widths[group_of]
        self.free = max(self.free, int(ends.max(initial=0)))
        for group, keys in zip(self.groups, np.bincount(group_of, minlength=len(self.groups)).tolist(), strict=True):
            group.keys = keys
        id_tables.recount(self.id_table)

    def _fit_arena(self, size: int) -> None:
        """Room for so many numbers in all, and for more, so that it is hardly ever moved: what is not used takes no memory."""
        if size + layout.SLACK > len(self.arena):
            larger = reserve((size + layout.SLACK,), np.int32, times=ARENA_GROWTH_FACTOR, used=size)
            larger[: self.free] = self.arena[: self.free]
            self.arena = larger

    def reserve(self, size: int) -> None:
        """Room for so many numbers in the arena; it takes memory only as it is used."""
        self._fit_arena(size)

    def _add_runs(self, lengths: Ints, ids: Ints) -> None:
        """Runs of ids with one entry."""
        count, end = self.run_count + len(lengths), self.run_end + len(ids)
        if len(lengths):
            self.run_start, self.run_length = (
                with_capacity(each, self.run_count, count) for each in (self.run_start, self.run_length)
            )
            self.run_ids = with_capacity(self.run_ids, self.run_end, end + layout.SLACK)
            self.run_start[self.run_count : count] = np.cumsum(lengths) - lengths + self.run_end
            self.run_length[self.run_count : count], self.run_ids[self.run_end : end] = lengths, ids
            self.run_count, self.run_end = count, end

    def add_several(self, ids: Ints) -> Ints:
        """Subscriptions with several conjunctions or an id too long for an entry; returns their tagged ids."""
        numbers = np.arange(self.several_count, self.several_count + len(ids))
        self.several = with_capacity(self.several, self.several_count, self.several_count + len(ids))
        self.several[numbers] = ids
        self.several_numbers.update(zip(ids.tolist(), numbers.tolist(), strict=True))
        self.several_count += len(ids)
        return ~(2 * numbers + 1)

    def refer(self, ids: Ints, cells: Ints) -> None:
        """Remember that these ids have entries in these cells; there is room for it (`fit_id_table`)."""
        id_tables.add_references(self.id_table, ids, cells)

    def fit_id_table(self, ids: int, cells: int = 0) -> None:
        """Room for so many ids more, and for so many cells that they refer to."""
        self.id_table = id_tables.with_room_for(self.id_table, ids, cells)

    @property
    def known(self) -> int:
        """How many subscriptions there are."""
        return int(self.id_table.state[id_tables.KNOWN])

    def ids(self) -> Ints:
        """Of all subscriptions, in no particular order."""
        return id_tables.all_ids(self.id_table)

    def some_ids(self, most: int) -> Ints:
        """Of so many subscriptions, any."""
        return id_tables.some_ids(self.id_table, most)

    def knows(self, ids: Ints) -> Any:
        """Which of the ids are there."""
        return id_tables.which_are_known(self.id_table, ids)

    def remove(self, ids: Ints) -> None:
        """All entries of these subscriptions, which are there; each is given once."""
        none = _zeros(0)
        slots = np.empty(id_tables.count_references(self.id_table, ids), np.int64)
        widths = np.array([group.width for group in self.groups], np.int64)
        cells, tagged = self.cells(none, none), self.tagged_ids(ids)
        listed = ids.tolist() if self.several_numbers or self.barren else []
        if self.bitmaps.used:
            self.bitmaps.expect_to_remove(len(slots))
        used = cell_changes.remove_ids(cells, self.id_table, widths, ids, tagged, slots)  # from here on nothing may fail
        self.bitmaps.remove(slots[:used])
        for each in listed:
            self.several_numbers.pop(each, None)
            self.barren.discard(each)

    def locate(self, ids: Ints) -> Locations:
        """Where the entries of these subscriptions are."""
        wanted = self.tagged_ids(ids)
        owner, cell_of, inside = (np.empty(id_tables.count_references(self.id_table, ids), np.int64) for _ in range(3))
        none = _zeros(0)
        cells = self.cells(none, none)
        count = cell_changes.locate_entries(cells, self.id_table, ids, wanted, owner, cell_of, inside)
        owner = owner[:count]
        return Locations(owner, wanted[owner] < 0, cell_of[:count], inside[:count])

    def locate_all(self, ids: Ints) -> Locations:
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
        return Locations(np.searchsorted(ids, tagged), several, cells, inside)

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
            cell_changes.recode(cells, mine, column, old, new)

    def bytes_used(self) -> int:
        return int(sum(each.nbytes for each in self.arrays().values()))

    def arrays(self) -> dict[str, Any]:
        """All there is to save, by name."""
        found = {
            each.name: getattr(self, each.name) for each in fields(self) if isinstance(getattr(self, each.name), np.ndarray)
        }
        found |= {f"id_table.{name}": array for name, array in self.id_table._asdict().items()}
        cells, chains = ("cell", "group_of", "key_of"), ("id_table.cell", "id_table.next")
        chained = int(self.id_table.state[id_tables.CHAINED])
        used = dict.fromkeys(cells, self.cell_count) | dict.fromkeys(chains, chained)
        used |= {"arena": self.free + 2 * layout.SLACK, "table": self.table_end, "several": self.several_count}
        used |= {"run_start": self.run_count, "run_length": self.run_count, "run_ids": self.run_end + layout.SLACK}
        found |= {name: found[name][:count] for name, count in used.items()}
        return found | {f"bitmaps.{name}": array for name, array in self.bitmaps.arrays().items()}

    def _take_arrays(self, arrays: dict[str, Any]) -> None:
        """Go on with these arrays, as `arrays` names them."""
        mine = {name: array for name, array in arrays.items() if "." not in name}
        bitmaps = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith("bitmaps.")}
        id_table = IdTable(*(arrays[f"id_table.{name}"] for name in IdTable._fields))
        self.bitmaps.restore(self.bitmaps.names, bitmaps)
        self.id_table = id_table
        for name in [each for each in mine if each != "arena"]:
            setattr(self, name, mine[name])
        self.arena = mine["arena"]  # the last: it tells whether all are our own

    @property
    def is_own(self) -> bool:
        """Are the arrays our own memory, and not those of a mapped file?"""
        return bool(self.arena.flags.writeable)

    def thaw(self) -> None:
        """Before a change: a mapped file becomes memory of our own."""
        if not self.is_own:
            self._take_arrays({name: array.copy() for name, array in self.arrays().items()})  # all, before any is used

    # --- files

    def describe(self) -> dict[str, Any]:
        """What a file needs beside the arrays."""
        return {
            "numbers": {each: getattr(self, each) for each in _NUMBERS},
            "several": self.several_numbers,
            "barren": sorted(self.barren),
            "bitmaps": self.bitmaps.names,
            "groups": [
                ((each.gate.kind, each.gate.word, each.gate.mask, each.gate.attribute), each.level, each.tests, each.table,
                 each.size, each.keys)
                for each in self.groups
            ],
        }  # fmt: skip

    def restore(self, described: dict[str, Any], arrays: dict[str, Any]) -> None:
        """What `describe` and `arrays` have given; the arrays may be mapped, and are not written to (`thaw`)."""
        for name in _NUMBERS:
            setattr(self, name, described["numbers"][name])
        self.several_numbers, self.barren = described["several"], set(described["barren"])
        self.bitmaps.names = described["bitmaps"]
        self.groups = [
            Group(Gate(*gate), level, tuple((kind, arg) for kind, arg in tests), table, size, keys)
            for gate, level, tests, table, size, keys in described["groups"]
        ]
        self._take_arrays(arrays)

    def tagged_ids(self, ids: Ints) -> Ints:
        """The ids as their entries carry them."""
        return np.array([self.tagged(each) for each in ids.tolist()], np.int64) if self.several_numbers else ids

    def tagged(self, subscription: int) -> int:
        """The id as its entries carry it."""
        number = self.several_numbers.get(subscription)
        return subscription if number is None else ~(2 * number + 1)
