"""Events of one space as an Arrow record batch: the form in which events travel, are matched and are stored.

Rule: what an EventBatch holds has been checked: exactly the space's columns, in its order and types, no NaN, nothing outside a
declared domain. Null means that the event does not carry the attribute. What fails is named (event, attribute, value, reason)
and refuses the batch; with `on_error="reject"` it is set aside in `rejected`, with `on_error="absent"` the attribute is left
out and told in `left_out`; nothing is changed silently. All ways in take the words of `intake`.
Rule: events are numbered from 0 in the order in which they came, those included that do not fit; `ids` are these numbers unless
the caller gives others, and `rejected` speaks of the same numbers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.errors import EventError
from contentcast.model.events.arrow_columns import Complaint, check_column, check_objects
from contentcast.model.events.intake import DEFAULT, How, Intake
from contentcast.model.events.plain_rows import FROM_EVENTS, plain_columns
from contentcast.model.events.rows import Rejection, RowChecker, no_such
from contentcast.model.space import Space, is_list
from contentcast.model.values.kinds import Value

Checked = tuple[pa.Array, list[Complaint]]


@dataclass(frozen=True, slots=True)
class EventBatch:
    """`records` has the space's columns; `ids` one 64-bit id per row; `rejected` what was set aside on the way in, `left_out`
    the attributes that events came with and do not have here.
    """

    space: Space
    records: pa.RecordBatch
    ids: pa.Int64Array
    rejected: tuple[Rejection, ...] = field(default=(), compare=False)
    left_out: tuple[Rejection, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return int(self.records.num_rows)

    def widened(self, space: Space) -> EventBatch:
        """The same events in a space that has gained attributes, which none of them carries."""
        if space is self.space:
            return self
        given = dict(zip(self.space.names, self.records.columns, strict=True))
        columns = [given.get(name) for name in space.names]
        lacking = [pa.nulls(len(self), kind.arrow) for kind in space.kinds.values()]
        records = [null if column is None else column for column, null in zip(columns, lacking, strict=True)]
        return EventBatch(space, pa.record_batch(records, schema=space.arrow_schema), self.ids, self.rejected, self.left_out)

    # --- in

    @classmethod
    def from_dicts(
        cls, space: Space, events: Iterable[Mapping[str, Any]], *, ids: Sequence[int] | None = None, **how: Unpack[How]
    ) -> Self:
        """Plain Python values; nested mappings flatten to dotted names; None and a missing key are both absent."""
        intake = Intake.of(how)
        if isinstance(events, list) and len(events) >= FROM_EVENTS and (columns := plain_columns(space, events)) is not None:
            records = pa.RecordBatch.from_arrays(columns, schema=space.arrow_schema)
            return cls(space, records, _chosen_ids(ids, len(events)))
        return cls.from_rows(space, ((None, event) for event in events), ids=ids, intake=intake)

    @classmethod
    def from_rows(
        cls,
        space: Space,
        rows: Iterable[tuple[int | None, Any]],
        *,
        ids: Sequence[int] | None = None,
        intake: Intake = DEFAULT,
        from_text: bool = False,
        first: int = 0,
    ) -> Self:
        """As `from_dicts`, each event with its line in a file or None; `from_text` reads bytes from base64, and `first` is the
        number of the first event.

        A row may come as a rejection already, from a reader that could not make an event of it.
        """
        checker = RowChecker(space, intake, from_text=from_text)
        set_aside: list[Rejection] = []
        columns: dict[str, list[Value | None]] = {name: [] for name in space.names}
        kept: list[int] = []
        number = first - 1
        for number, (line, event) in enumerate(rows, start=first):
            known = len(checker.left_out)
            values = event if isinstance(event, Rejection) else checker.check(number, event)
            if isinstance(values, Rejection):
                values = replace(values, event=number, line=line)
                if intake.on_error == "raise":
                    raise EventError(str(values))
                set_aside.append(values)
                continue
            if line is not None and len(checker.left_out) > known:
                checker.left_out[known:] = [replace(each, line=line) for each in checker.left_out[known:]]
            kept.append(number - first)
            for name, column in columns.items():
                column.append(values.get(name))
        records = pa.record_batch(
            [pa.array(columns[name], type=kind.arrow) for name, kind in space.kinds.items()], schema=space.arrow_schema
        )
        chosen = _chosen_ids(ids, number + 1 - first, kept)
        numbered = pc.add(chosen, first) if first and ids is None else chosen
        return cls(space, records, numbered, tuple(set_aside), tuple(checker.left_out))

    @classmethod
    def from_arrow(
        cls,
        space: Space,
        records: pa.RecordBatch | pa.Table,
        *,
        ids: Sequence[int] | pa.Array | None = None,
        **how: Unpack[How],
    ) -> Self:
        """Columns by name; a missing column is absent everywhere; struct columns flatten to dotted names."""
        intake = Intake.of(how)
        try:
            table = flattened(records)
            names = table.column_names
        except UnicodeDecodeError:
            raise EventError("the name of a column is not UTF-8 text; rename it") from None
        columns: dict[str, Checked] = {}
        for name, column in zip(names, table.columns, strict=True):
            if is_known(space, name, columns, intake):
                columns[name] = check_column(space, name, one_chunk(column), intake)
        return cls.from_columns(space, columns, table.num_rows, ids, intake)

    @classmethod
    def from_pandas(cls, space: Space, frame: Any, *, ids: Sequence[int] | pa.Array | None = None, **how: Unpack[How]) -> Self:
        """A pandas DataFrame; its index is left out. None, NaN, NaT and NA are absent, as pandas means them.

        A column of Python objects is checked value by value, as in `from_dicts`, the others as in `from_arrow`.
        """
        intake = Intake.of(how)
        columns: dict[str, Checked] = {}
        for label, column in frame.items():
            name = str(label)
            if column.dtype == object and not _has_below(space, name):
                if is_known(space, name, columns, intake):
                    columns[name] = check_objects(space, name, column.where(column.notna(), None).tolist(), intake)
                continue
            try:
                table = flattened(pa.table({name: pa.array(column, from_pandas=True)}))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as reason:
                raise EventError(f"column {name} is {column.dtype}, which Arrow cannot hold: {reason}") from None
            for each in table.column_names:
                if is_known(space, each, columns, intake):
                    columns[each] = check_column(space, each, one_chunk(table.column(each)), intake)
        return cls.from_columns(space, columns, len(frame), ids, intake)

    @classmethod
    def from_columns(
        cls,
        space: Space,
        columns: Mapping[str, Checked],
        count: int,
        ids: Sequence[int] | pa.Array | None,
        intake: Intake,
    ) -> Self:
        """Columns that were checked; what they complain about refuses the batch, is set aside or left out."""
        complaints = [each for name in space.names if name in columns for each in columns[name][1]]
        arrays = {
            name: columns[name][0] if name in columns else pa.nulls(count, kind.arrow) for name, kind in space.kinds.items()
        }
        all_ids = _chosen_ids(ids, count)
        if complaints and intake.on_error == "absent":
            for name, rows in _rows_of(complaints).items():
                keep = np.ones(count, np.bool_)
                keep[rows] = False
                arrays[name] = pc.if_else(pa.array(keep), arrays[name], pa.scalar(None, arrays[name].type))
        batch = pa.record_batch(list(arrays.values()), schema=space.arrow_schema)
        if not complaints:
            return cls(space, batch, all_ids)
        told = complaints if intake.on_error == "absent" else _first_per_row(complaints)
        named = [Rejection(*each) for each in told]
        if intake.on_error == "raise":
            raise EventError(str(named[0]))
        if intake.on_error == "absent":
            named.sort(key=lambda each: each.event)
            return cls(space, batch, all_ids, left_out=tuple(named))
        kept = pa.array(np.setdiff1d(np.arange(count), np.array([each.event for each in named])))
        return cls(space, batch.take(kept), all_ids.take(kept), tuple(named))

    # --- parts

    def take(self, rows: Any) -> EventBatch:
        """The events of these row numbers, in their order."""
        rows = rows if isinstance(rows, pa.Array) else pa.array(rows)
        if not len(rows):
            rows = rows.cast(pa.int64())
        if not pa.types.is_integer(rows.type) or rows.null_count:
            raise EventError(f"take wants row numbers, not {rows.type} (of a mask: np.flatnonzero)")
        return EventBatch(self.space, self.records.take(rows), self.ids.take(rows))

    def slice(self, offset: int = 0, length: int | None = None) -> EventBatch:
        return EventBatch(self.space, self.records.slice(offset, length), self.ids.slice(offset, length))

    def to_dicts(self) -> list[dict[str, Value]]:
        """One dict per event, without the attributes that it does not carry."""
        return [{name: value for name, value in row.items() if value is not None} for row in self.records.to_pylist()]


def concat(batches: Sequence[EventBatch]) -> EventBatch:
    """Several batches of one space as one; the ids stay, so they should differ between the batches too."""
    spaces = {batch.space for batch in batches}
    if len(spaces) != 1:
        raise EventError("batches of one space can be put together, and at least one is needed")
    records = pa.concat_batches([batch.records for batch in batches])
    rejected = tuple(each for batch in batches for each in batch.rejected)
    left_out = tuple(each for batch in batches for each in batch.left_out)
    return EventBatch(batches[0].space, records, pa.concat_arrays([batch.ids for batch in batches]), rejected, left_out)


def flattened(records: pa.RecordBatch | pa.Table) -> pa.Table:
    """Struct columns as one dotted column per member, lists of structs as one list for each member."""
    if not isinstance(records, (pa.RecordBatch, pa.Table)):
        raise EventError(f"a record batch or a table is wanted, not a {type(records).__name__}; see from_pandas and from_dicts")
    table = pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else records
    while any(pa.types.is_struct(each.type) or has_structs(each.type) for each in table.schema):
        table = table.flatten()
        for at, field_ in enumerate(table.schema):
            if has_structs(field_.type):
                table = _with_members(table, at)
                break
    return table


def has_structs(type_: pa.DataType) -> bool:
    """Is it the type of lists of structs?"""
    return is_list(type_) and bool(pa.types.is_struct(type_.value_type))


def _with_members(table: pa.Table, at: int) -> pa.Table:
    """The column of lists of structs replaced by columns of lists of their members."""
    name, column = table.column_names[at], one_chunk(table.column(at))
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    absent = pc.is_null(column) if column.null_count else None
    structs = column.flatten()
    table = table.remove_column(at)
    for member, values in zip(structs.type, structs.flatten(), strict=True):
        lists = pa.ListArray.from_arrays(offsets, values, mask=absent)
        table = table.add_column(at, f"{name}.{member.name}", lists)
        at += 1
    return table


def _has_below(space: Space, name: Any) -> bool:
    """Does the space have attributes inside an object of this name?"""
    return any(each.startswith(f"{name}.") for each in space.names)


def is_known(space: Space, name: str, before: Container[str], intake: Intake) -> bool:
    """Is it a column to read? One that the space does not have is passed over or refused, one that comes twice is refused."""
    if name not in space:
        if intake.unknown == "error":
            raise EventError(no_such(space, name))
        return False
    if name in before:
        raise EventError(f"the column {name} comes twice; rename or drop one")
    return True


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else (pa.array([], column.type))
    )


def _first_per_row(complaints: list[Complaint]) -> list[Complaint]:
    first: dict[int, Complaint] = {}
    for each in complaints:
        first.setdefault(each.row, each)
    return sorted(first.values(), key=lambda each: each.row)


def _rows_of(complaints: list[Complaint]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in complaints:
        found.setdefault(each.attribute, []).append(each.row)
    return found


def _chosen_ids(ids: Sequence[int] | pa.Array | None, count: int, kept: list[int] | None = None) -> pa.Int64Array:
    if ids is None:
        chosen = pa.array(np.arange(count, dtype=np.int64))
    else:
        try:
            chosen = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else pa.array(ids)
            if not pa.types.is_integer(chosen.type) and len(chosen):
                raise EventError(f"event ids are 64-bit ints, not {chosen.type}")
            chosen = chosen.cast(pa.int64())
        except (pa.ArrowInvalid, TypeError, OverflowError) as reason:
            raise EventError(f"event ids are 64-bit ints: {reason}") from None
        if isinstance(chosen, pa.ChunkedArray):
            chosen = one_chunk(chosen)
        if len(chosen) != count:
            raise EventError(f"{len(chosen)} ids for {count} events")
        if chosen.null_count or pc.count_distinct(chosen).as_py() != count:
            raise EventError("event ids must differ from each other, and none may be missing")
    return chosen if kept is None or len(kept) == count else chosen.take(pa.array(kept, pa.int64()))
