"""Many canonical predicates by columns: what a table of a million subscriptions becomes.

A million Predicate objects would take over a gigabyte and minutes; here a conjunction is a row number and each attribute has
one column of the conjunctions that constrain it. For three subscriptions over (issue string, price float)

    0: issue = 'IBM' AND price < 120      1: price BETWEEN 5 AND 9 OR issue = 'SAP'      2: issue LIKE '%X'

    predicate_of       [0, 1, 1, 2]                    conjunction -> predicate
    columns['issue']   conjunction [0, 2, 3]   code [0, 1, -1]   other [-1, -1, 0]   values ['IBM', 'SAP']   others [LIKE '%X']
    columns['price']   conjunction [0, 1]      first, last = keys of (-inf, 119.99999999999999), (5.0, 9.0)   other [-1, -1]

Rule: conjunctions of one predicate stand together and predicates stand in order; a predicate that asks for nothing has none.
`table[i]` gives the i-th back as an object, equal to what the parser makes of its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.predicate import Conjunction, Predicate
from contentcast.model.space import Space
from contentcast.model.values.keys import KEYED, cut_after, key_of, last_key, value_of
from contentcast.model.values.kinds import Kind
from contentcast.model.values.ranges import Ranges

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ConstraintColumn:
    """What the conjunctions ask of one attribute.

    A row is one interval of keys (`first`, `last`, of the kinds that have keys), or one value (`code` into `values`, of strings
    and bytes), or anything else: `other` >= 0, an index into `others`.
    """

    kind: Kind
    conjunction: Ints
    first: Ints
    last: Ints
    code: Ints
    other: Ints
    values: pa.Array
    others: tuple[Constraint, ...]

    def constraint(self, row: int) -> Constraint:
        if self.other[row] >= 0:
            return self.others[int(self.other[row])]
        if self.kind.name in KEYED:
            low = value_of(self.kind, int(self.first[row]))
            return Constraint(Ranges(self.kind, (low, cut_after(self.kind, int(self.last[row])))))
        return Constraint(Ranges.points(self.kind, [self.values[int(self.code[row])].as_py()]))


@dataclass(frozen=True, slots=True)
class PredicateTable:
    """`len(table)` predicates; `refused` has the error of each one that could not be read (it asks for nothing)."""

    space: Space
    count: int
    predicate_of: Ints
    columns: Mapping[str, ConstraintColumn]
    refused: Mapping[int, ContentcastError]

    def __len__(self) -> int:
        return self.count

    @property
    def conjunction_count(self) -> int:
        return len(self.predicate_of)

    def __getitem__(self, at: int) -> Predicate:
        if not -self.count <= at < self.count:
            raise IndexError(f"predicate {at} of {self.count}")
        at %= self.count
        if at in self.refused:
            raise self.refused[at]
        begin, end = np.searchsorted(self.predicate_of, [at, at + 1])
        return Predicate.of(self.space, [self.conjunction(each) for each in range(begin, end)])

    def __iter__(self) -> Iterator[Predicate]:
        return (self[at] for at in range(self.count))

    def conjunction(self, number: int) -> Conjunction:
        constraints = {}
        for name, column in self.columns.items():
            row = int(np.searchsorted(column.conjunction, number))
            if row < len(column.conjunction) and column.conjunction[row] == number:
                constraints[name] = column.constraint(row)
        return Conjunction.of(self.space, constraints)

    def widened(self, space: Space) -> PredicateTable:
        """The same in a space that has gained attributes: columns go by name, so nothing moves."""
        return replace(self, space=space)

    def take(self, rows: Ints) -> PredicateTable:
        """The predicates of these rows, ascending and each once, as a table of their own."""
        kept = np.isin(self.predicate_of, rows)
        number = np.cumsum(kept) - 1
        columns = {}
        for name, column in self.columns.items():
            mine = kept[column.conjunction]
            columns[name] = ConstraintColumn(
                column.kind,
                number[column.conjunction[mine]],
                column.first[mine],
                column.last[mine],
                column.code[mine],
                column.other[mine],
                column.values,
                column.others,
            )
        refused = {at: self.refused[int(row)] for at, row in enumerate(rows) if int(row) in self.refused}
        return PredicateTable(self.space, len(rows), np.searchsorted(rows, self.predicate_of[kept]), columns, refused)

    def without_unused(self) -> PredicateTable:
        """The same without values and others that no row has: `take` leaves them, since many tables may share them."""
        columns = {}
        for name, column in self.columns.items():
            values, code = _used(column.code)
            others, other = _used(column.other)
            columns[name] = replace(
                column,
                code=code,
                other=other,
                values=column.values.take(pa.array(values)),
                others=tuple(column.others[each] for each in others.tolist()),
            )
        return replace(self, columns=columns)

    def reordered(self, order: Ints) -> PredicateTable:
        """Predicate `order[i]` as the i-th; `order` is a permutation of all rows."""
        place = np.empty(self.count, np.int64)
        place[order] = np.arange(self.count)
        return _assembled(self.space, self.count, place[self.predicate_of], self.columns, _moved(self.refused, place))

    @classmethod
    def concat(cls, tables: Sequence[PredicateTable]) -> PredicateTable:
        """The predicates of several tables of one space, one table after the other."""
        space = tables[0].space
        starts = np.cumsum([0, *(table.count for table in tables)])
        shifts = np.cumsum([0, *(table.conjunction_count for table in tables)])
        owners = np.concatenate([table.predicate_of + start for table, start in zip(tables, starts, strict=False)])
        columns = {}
        for name in space.names:
            parts = [
                (table.columns[name], shift) for table, shift in zip(tables, shifts, strict=False) if name in table.columns
            ]
            if parts:
                columns[name] = _joined(parts)
        refused = {
            row + int(start): error
            for table, start in zip(tables, starts, strict=False)
            for row, error in table.refused.items()
        }
        return cls(space, int(starts[-1]), owners, columns, refused)

    @classmethod
    def of(cls, space: Space, predicates: Iterable[Predicate]) -> PredicateTable:
        builder = TableBuilder(space)
        count = 0
        for count, predicate in enumerate(predicates, start=1):
            builder.add(count - 1, predicate)
        return builder.table(count)


def _used(numbers: Ints) -> tuple[Ints, Ints]:
    """The numbers that occur, and each row's place among them; -1 stays -1."""
    used = np.unique(numbers[numbers >= 0])
    return used, np.where(numbers >= 0, np.searchsorted(used, numbers), -1)


def _moved(refused: Mapping[int, ContentcastError], place: Ints) -> dict[int, ContentcastError]:
    return {int(place[row]): error for row, error in refused.items()}


def _assembled(
    space: Space, count: int, owners: Ints, columns: Mapping[str, ConstraintColumn], refused: Mapping[int, ContentcastError]
) -> PredicateTable:
    """Conjunctions in the order of their predicates, whatever order they come in."""
    order = np.argsort(owners, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    moved = {}
    for name, column in columns.items():
        conjunction = place[column.conjunction]
        by = np.argsort(conjunction, kind="stable")
        moved[name] = replace(
            column,
            conjunction=conjunction[by],
            first=column.first[by],
            last=column.last[by],
            code=column.code[by],
            other=column.other[by],
        )
    return PredicateTable(space, count, owners[order], moved, refused)


def _joined(parts: Sequence[tuple[ConstraintColumn, int]]) -> ConstraintColumn:
    """Columns of one attribute, the conjunctions of each moved on by its shift; values and others stand once."""
    kind = parts[0][0].kind
    values = pa.chunked_array([column.values for column, _ in parts], kind.stored).combine_chunks().dictionary_encode()
    codes = values.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    others: dict[Constraint, int] = {}
    code, other = [], []
    start = 0
    for column, _ in parts:
        mine = np.append(codes[start : start + len(column.values)], -1)  # -1 stays -1
        code.append(mine[column.code])
        start += len(column.values)
        numbers = [others.setdefault(each, len(others)) for each in column.others]
        other.append(np.array([*numbers, -1], np.int64)[column.other])
    return ConstraintColumn(
        kind,
        np.concatenate([column.conjunction + shift for column, shift in parts]),
        np.concatenate([column.first for column, _ in parts]),
        np.concatenate([column.last for column, _ in parts]),
        np.concatenate(code),
        np.concatenate(other),
        values.dictionary,
        tuple(others),
    )


@dataclass(slots=True)
class Piece:
    """Some rows of one attribute's column while a table is being built."""

    conjunction: Ints
    first: Ints | None = None
    last: Ints | None = None
    values: pa.Array | None = None
    others: list[Constraint] | None = None


class TableBuilder:
    """Collects predicates one by one (`add`) and whole groups of one shape by columns (`add_group`)."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.refused: dict[int, ContentcastError] = {}
        self._rows: list[Ints] = []
        self._count = 0
        self._pieces: dict[str, list[Piece]] = {}
        self._single_rows: list[int] = []
        self._singles: dict[str, tuple[list[int], list[Constraint]]] = {}

    def refuse(self, row: int, error: ContentcastError) -> None:
        self.refused[row] = error

    def add(self, row: int, predicate: Predicate) -> None:
        for conjunction in predicate.conjunctions:
            for name, constraint in conjunction.items:
                numbers, constraints = self._singles.setdefault(name, ([], []))
                numbers.append(len(self._single_rows))
                constraints.append(constraint)
            self._single_rows.append(row)

    def add_group(self, rows: Ints, columns: Mapping[str, tuple[Ints, Ints] | pa.Array]) -> None:
        """One conjunction per row: for each attribute (first, last) keys, or the one value wanted."""
        numbers = np.arange(self._count, self._count + len(rows))
        self._rows.append(rows)
        self._count += len(rows)
        for name, column in columns.items():
            piece = Piece(numbers, values=column) if isinstance(column, pa.Array) else Piece(numbers, *column)
            self._pieces.setdefault(name, []).append(piece)

    def table(self, count: int) -> PredicateTable:
        for name, (numbers, constraints) in self._singles.items():
            pieces = self._pieces.setdefault(name, [])
            pieces += _pieces_of(self.space.kinds[name], np.array(numbers, np.int64) + self._count, constraints)
        rows = np.concatenate([*self._rows, np.array(self._single_rows, np.int64)])
        order = np.argsort(rows, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        columns = {
            name: _column(self.space.kinds[name], self._pieces[name], place)
            for name in self.space.names
            if name in self._pieces
        }
        return PredicateTable(self.space, count, rows[order], columns, self.refused)


def _pieces_of(kind: Kind, numbers: Ints, constraints: list[Constraint]) -> Iterator[Piece]:
    """Single intervals of keys, single values, and the rest."""
    plain: list[int] = []
    special: list[int] = []
    for at, constraint in enumerate(constraints):
        cuts = constraint.ranges.cuts
        simple = len(cuts) == 2 and not constraint.absent and constraint.only_ranges
        if simple and (kind.name in KEYED or kind.successor(cuts[0]) == cuts[1]):
            plain.append(at)
        else:
            special.append(at)
    if plain:
        lows = [constraints[at].ranges.cuts[0] for at in plain]
        if kind.name in KEYED:
            first = np.array([key_of(kind, low) for low in lows], np.int64)
            last = np.array([last_key(kind, constraints[at].ranges.cuts[1]) for at in plain], np.int64)
            yield Piece(numbers[plain], first, last)
        else:
            yield Piece(numbers[plain], values=pa.array(lows, kind.stored))
    if special:
        yield Piece(numbers[special], others=[constraints[at] for at in special])


def _column(kind: Kind, pieces: list[Piece], place: Ints) -> ConstraintColumn:
    """The pieces put together, in the order of the finished table."""
    conjunction = np.concatenate([place[piece.conjunction] for piece in pieces])
    total = len(conjunction)
    first, last = np.zeros(total, np.int64), np.full(total, -1, np.int64)
    code, other = np.full(total, -1, np.int64), np.full(total, -1, np.int64)
    others: dict[Constraint, int] = {}
    texts: list[pa.Array] = []
    coded: list[Any] = []
    at = 0
    for piece in pieces:
        span = slice(at, at + len(piece.conjunction))
        at = span.stop
        if piece.first is not None and piece.last is not None:
            first[span], last[span] = piece.first, piece.last
        elif piece.values is not None:
            texts.append(piece.values)
            coded.append(span)
        else:
            other[span] = [others.setdefault(each, len(others)) for each in piece.others or ()]
    values = pa.array([], kind.stored)
    if texts:
        encoded = pa.chunked_array(texts, kind.stored).combine_chunks().dictionary_encode()
        values = encoded.dictionary
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        start = 0
        for span in coded:
            code[span] = codes[start : start + span.stop - span.start]
            start += span.stop - span.start
    order = np.argsort(conjunction, kind="stable")
    return ConstraintColumn(
        kind, conjunction[order], first[order], last[order], code[order], other[order], values, tuple(others)
    )
