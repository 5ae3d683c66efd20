"""The index without a compiler: every predicate is tried on every event, by columns, in plain NumPy.

It answers while an index is small, and while the kernels of `matching.index` are being compiled. Its methods are those of
`CellIndex`, so `MatchIndex` holds one or the other. What it keeps is a `PredicateTable`, and what it does with it is one step
for each attribute, for the three subscriptions of `model.predicates.table` and two events:

    events            issue  IBM SAP       price 7 130
    failed            conjunction 0  1  2  3       one row for each event
    after issue       IBM         .  .  x  x       SAP and LIKE '%X' are not satisfied
                      SAP         x  .  .  x
    after price       IBM 7       .  .  x  x       event 0 satisfies subscriptions 0 and 1
                      SAP 130     x  x  .  x       event 1 satisfies subscription 1

Rule: nothing here imports Numba. `Scan` judges it as it judges every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.errors import ContentcastError
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.space import Space
from contentcast.model.values.keys import KEYED, float_keys, key_of
from contentcast.model.values.kinds import TOP, Kind
from contentcast.model.values.list_bytes import list_column

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MOST_IDS: Final = 2**62
"""Ids are from 0 up to, and without, this number."""
BLOCK: Final = 1 << 20
"""Events are matched in blocks of about so many (event, conjunction), which take a byte each."""
MOST_DEAD: Final = 0.5
"""Rows of subscriptions that went are dropped when they are more than this share."""
MUCH_WORK: Final = 30_000_000
"""From so many (event, conjunction) on the kernels are asked for: that is about half a second of work here."""


class Found:
    """ids[ends[i-1]:ends[i]] are the subscriptions of event i, ascending."""

    __slots__ = ("ends", "ids")

    def __init__(self, ends: Ints, ids: Ints) -> None:
        self.ends, self.ids = ends, ids

    def rows(self, first: int = 0) -> Ints:
        """For each id the number of its event, counting from `first`."""
        return np.repeat(np.arange(first, first + len(self.ends)), np.diff(self.ends, prepend=0))


class PlainIndex:
    """Subscriptions of one space. As with `CellIndex`, many may read at once, given a lock as `guard`; whoever changes it must
    see to it that nobody reads meanwhile.
    """

    one = None
    """`CellIndex` has a matcher for single events here."""

    def __init__(
        self, space: Space, guard: AbstractContextManager[Any] | None = None, on_much_work: Callable[[], None] | None = None
    ) -> None:
        self.space = space
        self.guard = guard or nullcontext()
        self.version = 0
        self._on_much_work = on_much_work
        self._work = 0
        self._row_of: dict[int, int] = {}
        self._ids: Ints = np.empty(0, np.int64)
        """The subscription of each row of the table; that of a row whose subscription went is -1."""
        self._table = PredicateTable.of(space, ())
        self._waiting: list[tuple[Ints, PredicateTable]] = []
        """What stands behind `_ids` and `_table` and is joined to them when somebody matches."""
        self._rows = 0
        """All rows, with those that wait."""

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, subscription: int) -> bool:
        return subscription in self._row_of

    def ids(self) -> Ints:
        return np.sort(np.fromiter(self._row_of, np.int64, len(self._row_of)))

    # --- changing

    def add(self, ids: Ints, table: PredicateTable) -> None:
        """Subscriptions `ids[i]` with predicate `table[i]`; none of the ids may be there yet."""
        rows = {}
        for row, each in enumerate(ids.tolist(), start=self._rows):
            if not 0 <= each < MOST_IDS:
                raise ContentcastError(f"subscription ids are from 0 to 2^62 - 1, not {each}")
            if each in self._row_of:
                raise ContentcastError(f"subscription {each} is already there; remove it first")
            if each in rows:
                raise ContentcastError(f"subscription {each} is given twice")
            rows[each] = row
        if rows:
            self.version += 1
            self._waiting.append((ids, table))
            self._rows += len(ids)
            self._row_of |= rows

    def remove(self, ids: Ints) -> None:
        """All of them, or none if one is not there; each is given once."""
        for each in ids.tolist():
            if each not in self._row_of:
                raise ContentcastError(f"there is no subscription {each}")
        self.version += 1
        self._settled()
        for each in ids.tolist():
            self._ids[self._row_of.pop(each)] = -1

    def _settled(self) -> PredicateTable:
        """One table of all rows, without most of those that went."""
        with self.guard:
            if self._waiting:
                self._ids = np.concatenate([self._ids, *(ids for ids, _ in self._waiting)])
                self._table = PredicateTable.concat([self._table, *(table for _, table in self._waiting)])
                self._waiting = []
            if len(self._ids) - len(self._row_of) > MOST_DEAD * len(self._ids):
                kept = np.flatnonzero(self._ids >= 0)
                self._table, self._ids = self._table.take(kept).without_unused(), self._ids[kept]
                self._row_of = {each: row for row, each in enumerate(self._ids.tolist())}
                self._rows = len(kept)
            return self._table

    def everything(self) -> tuple[Ints, PredicateTable]:
        """All subscriptions, for the index that goes on from here."""
        table = self._settled()
        kept = np.flatnonzero(self._ids >= 0)
        return self._ids[kept], table if len(kept) == len(table) else table.take(kept)

    # --- looking inside

    def predicate(self, subscription: int) -> Predicate:
        if subscription not in self._row_of:
            raise ContentcastError(f"there is no subscription {subscription}")
        table = self._settled()
        return table[self._row_of[subscription]]

    def statistics(self) -> dict[str, Any]:
        table = self._settled()
        columns = table.columns.values()
        size = sum(8 * 5 * len(each.conjunction) + each.values.nbytes for each in columns) + 8 * len(table.predicate_of)
        nothing: dict[str, int] = {}
        return {
            "subscriptions": len(self),
            "entries": table.conjunction_count,
            "in_bitmaps": 0,
            "cells": 0,
            "bytes": size + 8 * len(self._ids),
            "values": {name: len(each.values) for name, each in table.columns.items()},
            "range_ends": nothing,
            "text_tests": nothing,
            "planned_for": 0,
            "migrating": False,
            "groups": [],
        }

    @property
    def conjunction_count(self) -> int:
        return self._table.conjunction_count + sum(table.conjunction_count for _, table in self._waiting)

    # --- matching

    def match(self, records: pa.RecordBatch) -> Found:
        """The matches of a batch, in one piece."""
        found = list(self._blocks(records))
        if len(found) == 1:
            return found[0]
        begins = np.cumsum([0, *(len(each.ids) for each in found)])
        ends = [each.ends + begin for each, begin in zip(found, begins, strict=False)]
        nothing = np.empty(0, np.int64)
        return Found(np.concatenate([nothing, *ends]), np.concatenate([nothing, *(each.ids for each in found)]))

    def match_split(self, records: pa.RecordBatch, parts: int, run: Any) -> list[tuple[int, Found]]:
        """As `match`: several threads would wait for each other."""
        return [(0, self.match(records))]

    def match_bounded(self, records: pa.RecordBatch, most: int) -> Iterator[tuple[int, Found]]:
        """The matches in pieces of at most `most` ids, or one event's; each with the number of its first event."""
        first, version = 0, self.version
        for block in self._blocks(records):
            begin = 0
            while begin < len(block.ends):
                if self.version != version:
                    raise ContentcastError("the index was changed while its matches were read; read them all first")
                before = int(block.ends[begin - 1]) if begin else 0
                end = max(begin + 1, int(np.searchsorted(block.ends, before + most, "right")))
                yield first + begin, Found(block.ends[begin:end] - before, block.ids[before : block.ends[end - 1]])
                begin = end
            first += len(block.ends)

    def single(self) -> OneByOne:
        """The matcher of one event at a time."""
        return OneByOne(self)

    def _blocks(self, records: pa.RecordBatch) -> Iterator[Found]:
        table, ids = self._settled(), self._ids
        self._work += records.num_rows * table.conjunction_count
        if self._work > MUCH_WORK and self._on_much_work is not None:
            self._on_much_work()
            self._on_much_work = None
        step = max(1, BLOCK // max(1, table.conjunction_count))
        for begin in range(0, records.num_rows, step):
            yield _match_block(table, ids, records.slice(begin, step))


class OneByOne:
    """Single events, as batches of one."""

    def __init__(self, index: PlainIndex) -> None:
        self._index = index

    @overload
    def match(self, event: Mapping[str, Any]) -> list[int]: ...
    @overload
    def match(self, event: Mapping[str, Any], *, as_array: Literal[True]) -> Ints: ...

    def match(self, event: Mapping[str, Any], *, as_array: bool = False) -> Any:
        """The ids of one event, ascending, as a list or as an array."""
        found = self._index.match(EventBatch.from_dicts(self._index.space, [event]).records).ids
        return found if as_array else found.tolist()


def _match_block(table: PredicateTable, ids: Ints, records: pa.RecordBatch) -> Found:
    count = records.num_rows
    failed = np.zeros((table.conjunction_count, count), np.bool_)
    for name, column in table.columns.items():
        if len(column.conjunction):
            place = records.schema.get_field_index(name)
            given = pa.nulls(count, column.kind.stored) if place < 0 else list_column(column.kind, records.column(place))
            if column.kind.name in KEYED:
                _test_keys(column, given, failed)
            else:
                _test_texts(column, given, failed)
    conjunctions, events = np.nonzero(~failed)
    found = ids[table.predicate_of[conjunctions]]
    living = found >= 0
    found, events = found[living], events[living]
    order = np.lexsort((found, events))
    found, events = found[order], events[order]
    if len(found) > 1:  # an event may satisfy several alternatives of one predicate
        first = np.append(True, (found[1:] != found[:-1]) | (events[1:] != events[:-1]))
        found, events = found[first], events[first]
    return Found(np.searchsorted(events, np.arange(count), "right"), found)


def _test_keys(column: ConstraintColumn, given: pa.Array, failed: Bools) -> None:
    """Numbers, bools and timestamps: one interval of keys, or several."""
    keys, absent = _keys(column.kind, given), given.is_null().to_numpy(zero_copy_only=False)
    plain = np.flatnonzero(column.other < 0)
    first, last = column.first[plain, None], column.last[plain, None]
    failed[column.conjunction[plain]] |= (keys < first) | (keys > last) | absent
    for conjunctions, constraint in _others(column):
        cuts = [key_of(column.kind, cut) for cut in constraint.ranges.cuts if cut is not TOP]
        outside = np.searchsorted(np.array(cuts, np.int64), keys, "right") % 2 == 0
        failed[conjunctions] |= np.where(absent, not constraint.absent, outside)


def _test_texts(column: ConstraintColumn, given: pa.Array, failed: Bools) -> None:
    """Strings and bytes: one value, or anything else, which each different value is asked once."""
    plain = np.flatnonzero(column.other < 0)
    if len(plain):
        codes = pc.fill_null(pc.index_in(given, value_set=column.values), -1).to_numpy(zero_copy_only=False)
        failed[column.conjunction[plain]] |= codes != column.code[plain, None]
    if len(plain) < len(column.conjunction):
        encoded = given.dictionary_encode()
        values = [*encoded.dictionary.to_pylist(), None]
        code = pc.fill_null(encoded.indices, len(values) - 1).to_numpy(zero_copy_only=False)
        for conjunctions, constraint in _others(column):
            failed[conjunctions] |= ~np.array([constraint.accepts(each) for each in values], np.bool_)[code]


def _others(column: ConstraintColumn) -> Iterator[tuple[Ints, Constraint]]:
    """The conjunctions of each constraint that is neither one interval nor one value."""
    rows = np.flatnonzero(column.other >= 0)
    if not len(rows):
        return
    rows = rows[np.argsort(column.other[rows], kind="stable")]
    numbers, starts = np.unique(column.other[rows], return_index=True)
    for number, mine in zip(numbers.tolist(), np.split(rows, starts[1:]), strict=True):
        yield column.conjunction[mine], column.others[number]


def _keys(kind: Kind, given: pa.Array) -> Ints:
    if given.null_count:
        given = given.fill_null(kind.least if kind.name in ("int", "float", "bool") else pa.scalar(0, kind.arrow))
    if kind.name == "float":
        return float_keys(given.to_numpy(zero_copy_only=False))
    if kind.name == "timestamp":
        given = given.cast(pa.int64())
    found: Ints = given.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
