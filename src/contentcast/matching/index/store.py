"""Groups and cells as they grow and shrink: the arrays that the kernels walk, and the ways to change them.

A group is a gate with the tests that are left behind it. Its table leads from a key (the codes under the gate's mask, the
grid cell, the text constraint's number) to a cell; a cell is a stretch of the arena (see `kernels`). A cell that is full
moves to the arena's end with twice the room, so one more subscription never moves more than one cell.
Rule: only this file writes the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index import changes, layout
from contentcast.matching.index.bitmaps import Bitmaps
from contentcast.matching.index.changes import References
from contentcast.matching.index.layout import Cells, Groups
from contentcast.matching.index.plan import LEVEL_BITS, Gate, Test

Ints = npt.NDArray[np.int64]


_WIDTH: Final = {"word": 2, "range": 2, "low": 1, "high": 1, "set": 1, "text": 1}
_TEST: Final = {
    "word": layout.T_WORD,
    "low": layout.T_LOW,
    "high": layout.T_HIGH,
    "range": layout.T_RANGE,
    "set": layout.T_SET,
    "text": layout.T_TEXT,
}
ARENA_ROOM: Final = 8
"""How many times as much memory as it needs the arena has set aside when it is made."""
_GATE: Final = {"open": layout.OPEN, "equal": layout.EQUAL, "cells": layout.CELLS, "text": layout.TEXT}


@dataclass(slots=True)
class Group:
    """`level`: of a cells gate, 0 for the finest."""

    gate: Gate
    level: int
    tests: tuple[Test, ...]
    table: int = 0
    size: int = 0
    keys: int = 0

    @property
    def width(self) -> int:
        return 1 + sum(_WIDTH[kind] for kind, _ in self.tests)

    def columns(self) -> Iterator[tuple[Test, int]]:
        """Each test with the column where its numbers begin."""
        at = 1
        for test in self.tests:
            yield test, at
            at += _WIDTH[test[0]]


def ordered(signature: frozenset[Test]) -> tuple[Test, ...]:
    """The cheap and telling tests first."""
    rank = {"word": 0, "range": 1, "low": 2, "high": 3, "set": 4, "text": 5}
    return tuple(sorted(signature, key=lambda test: (rank[test[0]], str(test[1]))))


def _zeros(count: int, dtype: Any = np.int64, fill: int = 0) -> Any:
    return np.full(count, fill, dtype)


@dataclass(slots=True)
class Store:
    """All cells of an index, the tables that lead to them and the bitmaps."""

    groups: list[Group] = field(default_factory=list)
    arena: Any = field(default_factory=lambda: np.empty(1 << 12, np.int32))
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
    several: Ints = field(default_factory=lambda: _zeros(0))
    several_count: int = 0
    several_numbers: dict[int, int] = field(default_factory=dict)
    bitmaps: Bitmaps = field(default_factory=Bitmaps)
    references: References = field(
        default_factory=lambda: References(_zeros(64), _zeros(64, np.int32, -1), _zeros(64, np.int32), _zeros(64, np.int32))
    )
    slots_used: int = 0
    references_used: int = 0

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

    def group_arrays(self, code_column: dict[str, int], key_column: dict[str, int], text_column: dict[str, int]) -> Groups:
        """The groups as arrays; the columns are those of an encoded batch."""
        kinds, args, masks, tables, sizes, shifts, shapes = ([] for _ in range(7))
        columns_for = {"set": key_column, "text": text_column}
        starts, test_kinds, test_args, test_columns = [0], [], [], []
        for group in self.groups:
            gate = group.gate
            kinds.append(_GATE[gate.kind])
            args.append(
                {
                    "equal": gate.word,
                    "cells": code_column.get(gate.attribute, 0),
                    "text": text_column.get(gate.attribute, 0),
                }.get(gate.kind, 0)
            )
            masks.append(gate.mask if gate.kind == "equal" else LEVEL_BITS * group.level)
            tables.append(group.table)
            sizes.append(group.size)
            shifts.append(64 - (group.size.bit_length() - 1) if group.size else 63)
            shapes.append(layout.SHAPES.get(tuple(kind for kind, _ in group.tests), layout.OTHER))
            for (kind, arg), column in group.columns():
                test_kinds.append(_TEST[kind])
                test_args.append(arg if kind == "word" else columns_for.get(kind, code_column)[arg])
                test_columns.append(column)
            starts.append(len(test_kinds))
        return Groups(
            *(np.array(each, np.int64) for each in (kinds, args, masks, tables, sizes, shifts, shapes, starts)),
            *(np.array(each, np.int64) for each in (test_kinds, test_args, test_columns)),
        )

    # --- finding cells

    def cells_for(self, number: int, keys: Ints, reach: int = 0) -> Any:
        """The cell of each key in a group's table, made where there is none. `reach`: a direct table's least size."""
        group = self.groups[number]
        self._fit_table(group, keys, reach)
        found, none = np.empty(len(keys), np.int32), _zeros(0)
        self._fit_cells(self.cell_count + len(keys))
        before, hashed, shift = self.cell_count, group.gate.kind == "equal", _shift(group.size)
        self.cell_count = changes.find_or_add_cells(
            self.cells(none, none), self.group_of, self.key_of, number, hashed, group.table, group.size, shift, keys, before,
            found,
        )  # fmt: skip
        group.keys += self.cell_count - before
        return found

    def _fit_table(self, group: Group, keys: Ints, reach: int) -> None:
        if group.gate.kind == "equal":
            wanted = 8
            while wanted < 2 * (group.keys + len(keys) + 1):
                wanted *= 2
        else:
            wanted = max(reach, int(keys.max()) + 1 if len(keys) else 1, group.size)
            if wanted > group.size:
                wanted = max(wanted, group.size * 2)
        if wanted <= group.size:
            return
        old = self.table[group.table : group.table + group.size].copy()
        self.table = _fit(self.table, self.table_end + wanted, -1)
        group.table, group.size = self.table_end, wanted
        self.table[group.table : group.table + wanted] = -1
        self.table_end += wanted
        if group.gate.kind == "equal":
            held = old[old[:, 1] >= 0]
            changes.put_keys(self.table, group.table, wanted, _shift(wanted), held[:, 0].copy(), held[:, 1].copy())
        else:
            self.table[group.table : group.table + len(old)] = old

    def _fit_cells(self, count: int) -> None:
        for name in ("cell", "group_of", "key_of"):
            setattr(self, name, _fit(getattr(self, name), count))

    # --- changing

    def append(self, number: int, cell_of: Any, columns: Any, lengths: Ints) -> None:
        """Entries of one group (columns[0] their ids) into their cells."""
        width = self.groups[number].width
        self._fit_arena(self.free + len(cell_of) * width)
        rows = np.argsort(cell_of, kind="stable") if len(cell_of) > 1 else np.zeros(len(cell_of), np.int64)
        none = _zeros(0)
        done = 0
        while True:
            self.free, more = changes.append_entries(
                self.cells(none, none), rows[done:], cell_of[rows[done:]], columns, lengths, self.free
            )
            done += more
            if done == len(rows):
                return
            self._fit_arena(self.free + width * max(4, 2 * int(self.room[cell_of[rows[done]]]), len(rows) - done))

    def _fit_arena(self, size: int) -> None:
        """Room for so many numbers in all, and for more, so that it is hardly ever moved: what is not used takes no memory."""
        if size + layout.SLACK > len(self.arena):
            try:
                larger = np.empty(ARENA_ROOM * (size + layout.SLACK), np.int32)
            except MemoryError:  # where memory that is set aside counts as used
                larger = np.empty(size + size // 4 + layout.SLACK, np.int32)
            larger[: self.free] = self.arena[: self.free]
            self.arena = larger

    def reserve(self, size: int) -> None:
        """Room for so many numbers; it takes memory only as it is used."""
        self._fit_arena(size)

    def add_runs(self, starts: Ints, lengths: Ints, ids: Ints) -> int:
        """Runs of ids with one entry; returns the number of the first."""
        first = len(self.run_start)
        self.run_start = np.concatenate([self.run_start, starts + len(self.run_ids)])
        self.run_length = np.concatenate([self.run_length, lengths])
        self.run_ids = np.concatenate([self.run_ids, ids, _zeros(layout.SLACK)])
        return first

    def add_several(self, ids: Ints) -> Ints:
        """Subscriptions with several conjunctions or an id too long for an entry; returns their tagged ids."""
        numbers = np.arange(self.several_count, self.several_count + len(ids))
        self.several = _fit(self.several, self.several_count + len(ids))
        self.several[numbers] = ids
        self.several_numbers.update(zip(ids.tolist(), numbers.tolist(), strict=True))
        self.several_count += len(ids)
        return ~(2 * numbers + 1)

    def refer(self, ids: Ints, cells: Any) -> None:
        """Remember that these ids have entries in these cells."""
        room = self.references_used + len(ids)
        if 2 * (self.slots_used + len(ids)) > len(self.references.id):
            self.slots_used = int(np.count_nonzero(self.references.head >= 0))  # those of what is gone do not move
            size = 64
            while size < 3 * (self.slots_used + len(ids)):
                size *= 2
            larger = References(_zeros(size), _zeros(size, np.int32, -1), self.references.cell, self.references.next)
            changes.move_references(self.references, larger, _shift(size))
            self.references = larger
        cell, following = _fit(self.references.cell, room), _fit(self.references.next, room)
        self.references = References(self.references.id, self.references.head, cell, following)
        self.slots_used += changes.add_references(self.references, self.reference_shift, ids, cells, self.references_used)
        self.references_used = room

    @property
    def reference_shift(self) -> int:
        return _shift(len(self.references.id))

    def ids(self) -> Ints:
        """Of all subscriptions, in no particular order."""
        return self.references.id[self.references.head >= 0]

    def knows(self, ids: Ints) -> Any:
        """Which of the ids are there."""
        found = np.empty(len(ids), np.bool_)
        changes.are_known(self.references, self.reference_shift, ids, found)
        return found

    def remove(self, ids: Ints) -> None:
        """All entries of these subscriptions, which are there; each is given once."""
        shift, none = self.reference_shift, _zeros(0)
        slots = np.empty(changes.count_references(self.references, shift, ids), np.int64)
        widths = np.array([group.width for group in self.groups], np.int64)
        cells = self.cells(none, none)
        used = changes.remove_ids(cells, self.references, shift, widths, ids, self.tagged_ids(ids), slots)
        self.bitmaps.remove(slots[:used])
        for each in ids.tolist() if self.several_numbers else ():
            self.several_numbers.pop(each, None)

    def places_of(self, ids: Ints) -> tuple[Ints, Ints, Ints]:
        """Of each entry of these subscriptions the id as it carries it, its cell and its place there; or, if it lives in the
        bitmaps, ~(its slot + 1) and 0.
        """
        shift = self.reference_shift
        wanted = self.tagged_ids(ids)
        owner, cell_of, inside = (np.empty(changes.count_references(self.references, shift, ids), np.int64) for _ in range(3))
        none = _zeros(0)
        cells = self.cells(none, none)
        count = changes.places_of(cells, self.references, shift, ids, wanted, owner, cell_of, inside)
        return wanted[owner[:count]], cell_of[:count], inside[:count]

    def cells_of(self, subscription: int) -> list[int]:
        """The cells that hold its entries."""
        return [cell for cell in self._referred(subscription) if cell >= 0]

    def slots_of(self, subscription: int) -> list[int]:
        """The slots of the bitmaps that hold its entries."""
        return [~cell - 1 for cell in self._referred(subscription) if cell < -1]

    def _referred(self, subscription: int) -> list[int]:
        slot = changes.find_id(self.references, self.reference_shift, subscription)
        found = []
        at = int(self.references.head[slot])
        while at >= 0:
            found.append(int(self.references.cell[at]))
            at = int(self.references.next[at])
        return found

    def recode(self, attribute: str, old: Any, new: Any) -> None:
        """Order codes of an attribute have changed: `new[i]` instead of `old[i]`, ascending."""
        none = _zeros(0)
        group_of = self.group_of[: self.cell_count]
        for number, group in enumerate(self.groups):
            for (kind, arg), column in group.columns():
                if kind in ("range", "low", "high") and arg == attribute:
                    mine = np.flatnonzero(group_of == number)
                    for each in range(column, column + _WIDTH[kind]):
                        changes.recode(self.cells(none, none), mine, each, old, new)

    def bytes_used(self) -> int:
        return int(sum(each.nbytes for each in self.arrays().values()) - 4 * (len(self.arena) - self.free))

    def arrays(self) -> dict[str, Any]:
        """All there is to save, by name."""
        found = {
            each.name: getattr(self, each.name) for each in fields(self) if isinstance(getattr(self, each.name), np.ndarray)
        }
        found |= {f"references.{name}": array for name, array in self.references._asdict().items()}
        return found | {f"bitmaps.{name}": array for name, array in self.bitmaps.arrays().items()}

    def thaw(self) -> bool:
        """Before a change: a mapped file becomes memory of our own. True if it was one."""
        if self.arena.flags.writeable:
            return False
        for name, array in self.arrays().items():
            if "." not in name:
                setattr(self, name, array.copy())
        self.references = References(*(each.copy() for each in self.references))
        for name, array in self.bitmaps.arrays().items():
            setattr(self.bitmaps, name, array.copy())
        return True

    def tagged_ids(self, ids: Ints) -> Ints:
        """The ids as their entries carry them."""
        return np.array([self.tagged(each) for each in ids.tolist()], np.int64) if self.several_numbers else ids

    def tagged(self, subscription: int) -> int:
        """The id as its entries carry it."""
        number = self.several_numbers.get(subscription)
        return subscription if number is None else ~(2 * number + 1)


def _shift(size: int) -> int:
    return 64 - (size.bit_length() - 1)


def _fit(array: Any, size: int, fill: int | None = 0) -> Any:
    """The array, or a copy with room for `size` and some more."""
    if size <= len(array):
        return array
    room = max(size + size // 2, 64)
    shape = (room, *array.shape[1:])
    larger = np.empty(shape, array.dtype) if fill is None else np.full(shape, fill, array.dtype)
    larger[: len(array)] = array
    return larger
