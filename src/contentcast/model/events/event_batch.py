"""Events of one space as an Arrow record batch: the form in which events travel, are matched and are stored.

Rule: what an EventBatch holds has been checked: exactly the space's columns, in its order and types, no NaN, nothing outside a
declared domain. Null means that the event does not carry the attribute. What fails is named (event, attribute, value, reason)
and refuses the batch, or with `on_error="reject"` is set aside in `rejected`; nothing is changed silently.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.errors import EventError, nearest
from contentcast.model.events.arrow_columns import Complaint, check_column, check_objects
from contentcast.model.space import Space
from contentcast.model.values.kinds import Value
from contentcast.model.values.ranges import Ranges

DEEPEST: Final = 32
"""How deep objects may stand in an event; each level is one more dot in the attribute's name."""

OnError = Literal["raise", "reject"]
Checked = tuple[pa.Array, list[Complaint]]


@dataclass(frozen=True, slots=True)
class Rejection:
    """One event that was set aside, with the reason."""

    event: int
    attribute: str | None
    value: Any
    reason: str

    def __str__(self) -> str:
        where = f"event {self.event}" + (f", attribute {_short(self.attribute)}" if self.attribute else "")
        return f"{where}: {_short(self.reason)}"


def _short(text: str, most: int = 400) -> str:
    """A value of a megabyte stays in `value`; nobody wants it on the screen."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


@dataclass(frozen=True, slots=True)
class EventBatch:
    """`records` has the space's columns; `ids` one 64-bit id per row; `rejected` what was set aside on the way in."""

    space: Space
    records: pa.RecordBatch
    ids: pa.Int64Array
    rejected: tuple[Rejection, ...] = field(default=(), compare=False)

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
        return EventBatch(space, pa.record_batch(records, schema=space.arrow_schema), self.ids, self.rejected)

    # --- in

    @classmethod
    def from_dicts(
        cls,
        space: Space,
        events: Iterable[Mapping[str, Any]],
        *,
        ids: Sequence[int] | None = None,
        on_error: OnError = "raise",
    ) -> Self:
        """Plain Python values; nested mappings flatten to dotted names; None and a missing key are both absent."""
        return cls.from_rows(space, enumerate(events), ids=ids, on_error=on_error)

    @classmethod
    def from_rows(
        cls,
        space: Space,
        rows: Iterable[tuple[int, Mapping[str, Any] | Rejection]],
        *,
        ids: Sequence[int] | None = None,
        on_error: OnError = "raise",
        from_text: bool = False,
    ) -> Self:
        """As `from_dicts`, with the number by which to name each event; `from_text` reads timestamps and bytes from text.

        A row may come as a rejection already, from a reader that could not make an event of it.
        """
        _check_on_error(on_error)
        set_aside: list[Rejection] = []
        columns: dict[str, list[Value | None]] = {name: [] for name in space.names}
        rules = {
            name: (kind.read if from_text else kind.check, space[name].domain if space[name].has_domain else None)
            for name, kind in space.kinds.items()
        }
        kept: list[int] = []
        position = -1
        for position, (number, event) in enumerate(rows):
            values = event if isinstance(event, Rejection) else _checked_row(space, rules, number, event)
            if isinstance(values, Rejection):
                if on_error == "raise":
                    raise EventError(str(values))
                set_aside.append(values)
                continue
            kept.append(position)
            for name, column in columns.items():
                column.append(values.get(name))
        records = pa.record_batch(
            [pa.array(columns[name], type=kind.arrow) for name, kind in space.kinds.items()], schema=space.arrow_schema
        )
        return cls(space, records, _chosen_ids(ids, position + 1, kept), tuple(set_aside))

    @classmethod
    def from_arrow(
        cls,
        space: Space,
        records: pa.RecordBatch | pa.Table,
        *,
        ids: Sequence[int] | pa.Array | None = None,
        on_error: OnError = "raise",
        unknown: Literal["error", "ignore"] = "error",
    ) -> Self:
        """Columns by name; a missing column is absent everywhere; struct columns flatten to dotted names.

        A column that the space does not have is an error, or dropped with `unknown="ignore"`.
        """
        try:
            table = flattened(records)
            names = table.column_names
        except UnicodeDecodeError:
            raise EventError("the name of a column is not UTF-8 text; rename it") from None
        columns: dict[str, Checked] = {}
        for name, column in zip(names, table.columns, strict=True):
            if _is_known(space, name, columns, unknown):
                columns[name] = check_column(space, name, _one_chunk(column))
        return cls._from_columns(space, columns, table.num_rows, ids, on_error)

    @classmethod
    def from_pandas(
        cls,
        space: Space,
        frame: Any,
        *,
        ids: Sequence[int] | pa.Array | None = None,
        on_error: OnError = "raise",
        unknown: Literal["error", "ignore"] = "error",
    ) -> Self:
        """A pandas DataFrame; its index is left out. None, NaN, NaT and NA are absent, as pandas means them.

        A column of Python objects is checked value by value, as in `from_dicts`, the others as in `from_arrow`.
        """
        columns: dict[str, Checked] = {}
        for label, column in frame.items():
            name = str(label)
            if column.dtype == object and not _has_below(space, name):
                if _is_known(space, name, columns, unknown):
                    columns[name] = check_objects(space, name, column.where(column.notna(), None).tolist())
                continue
            try:
                table = flattened(pa.table({name: pa.array(column, from_pandas=True)}))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as reason:
                raise EventError(f"column {name} is {column.dtype}, which Arrow cannot hold: {reason}") from None
            for each in table.column_names:
                if _is_known(space, each, columns, unknown):
                    columns[each] = check_column(space, each, _one_chunk(table.column(each)))
        return cls._from_columns(space, columns, len(frame), ids, on_error)

    @classmethod
    def _from_columns(
        cls, space: Space, columns: Mapping[str, Checked], count: int, ids: Sequence[int] | pa.Array | None, on_error: OnError
    ) -> Self:
        """Columns that were checked; what they complain about refuses the batch or is set aside."""
        _check_on_error(on_error)
        complaints = [each for name in space.names if name in columns for each in columns[name][1]]
        arrays = [columns[name][0] if name in columns else pa.nulls(count, kind.arrow) for name, kind in space.kinds.items()]
        batch = pa.record_batch(arrays, schema=space.arrow_schema)
        all_ids = _chosen_ids(ids, count)
        if not complaints:
            return cls(space, batch, all_ids)
        set_aside = [Rejection(event, *complaint) for event, complaint in _first_per_row(complaints)]
        if on_error == "raise":
            raise EventError(str(set_aside[0]))
        kept = pa.array(np.setdiff1d(np.arange(count), np.array([each.event for each in set_aside])))
        return cls(space, batch.take(kept), all_ids.take(kept), tuple(set_aside))

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
    return EventBatch(batches[0].space, records, pa.concat_arrays([batch.ids for batch in batches]), rejected)


def flattened(records: pa.RecordBatch | pa.Table) -> pa.Table:
    """Struct columns as one dotted column per member."""
    if not isinstance(records, (pa.RecordBatch, pa.Table)):
        raise EventError(f"a record batch or a table is wanted, not a {type(records).__name__}; see from_pandas and from_dicts")
    table = pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else records
    while any(pa.types.is_struct(each.type) for each in table.schema):
        table = table.flatten()
    return table


def flat(event: Mapping[str, Any]) -> dict[str, Any]:
    """`{"detail": {"state": "up"}}` as `{"detail.state": "up"}`."""
    found: dict[str, Any] = {}
    waiting = [("", iter(event.items()))]
    while waiting:
        above, items = waiting[-1]
        for name, value in items:
            if isinstance(value, Mapping) and value:
                if len(waiting) == DEEPEST:
                    raise ValueError(f"nested too deeply; objects go {DEEPEST} deep")
                waiting.append((f"{above}{name}.", iter(value.items())))
                break
            if f"{above}{name}" in found:
                raise ValueError(f"{above}{name} is given twice, nested and dotted")
            found[f"{above}{name}"] = value
        else:
            waiting.pop()
    return found


def _shown(value: Any) -> str:
    """For a message: neither nested lists without end nor ints of thousands of digits can be written out."""
    try:
        return _short(repr(value))
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that cannot be written out"


def _checked_row(
    space: Space, rules: Mapping[str, tuple[Any, Ranges | None]], number: int, event: Mapping[str, Any]
) -> dict[str, Value] | Rejection:
    if not isinstance(event, Mapping):
        return Rejection(number, None, event, f"{_shown(event)} is not an object with attributes")
    values: dict[str, Value] = {}
    attribute: str | None = None
    value: Any = event
    try:
        if any(isinstance(each, Mapping) for each in event.values()):
            event = flat(event)
        for attribute, value in event.items():
            rule = rules.get(attribute)
            if rule is None:
                if not value and (value is None or isinstance(value, Mapping)) and _has_below(space, attribute):
                    continue  # `"detail": null` and `"detail": {}` carry no detail.state
                raise ValueError(f"{space.name} has no attribute {attribute!r}{nearest(str(attribute), space.names)}")
            if value is None:
                continue
            check, domain = rule
            values[attribute] = check(value)
            if domain is not None and values[attribute] not in domain:
                raise ValueError(outside(space, attribute, value))
    except (ValueError, RecursionError) as reason:
        why = "nested too deeply" if isinstance(reason, RecursionError) else str(reason)
        return Rejection(number, None if attribute is None else str(attribute), value, why)
    return values


def _has_below(space: Space, name: Any) -> bool:
    """Does the space have attributes inside an object of this name?"""
    return any(each.startswith(f"{name}.") for each in space.names)


def _is_known(space: Space, name: str, before: Container[str], unknown: str) -> bool:
    """Is it a column to read? One that the space does not have is passed over or refused, one that comes twice is refused."""
    if unknown not in ("error", "ignore"):
        raise EventError(f"unknown is 'error' or 'ignore', not {unknown!r}")
    if name not in space:
        if unknown == "error":
            near = nearest(name, space.names)
            raise EventError(f"{space.name} has no attribute {name!r}{near} (or ignore it: unknown='ignore')")
        return False
    if name in before:
        raise EventError(f"the column {name} comes twice; rename or drop one")
    return True


def outside(space: Space, name: str, value: Any) -> str:
    """Why a value is not of the attribute's domain."""
    attribute = space[name]
    if attribute.values is not None:
        return f"{value!r} is not one of {', '.join(map(repr, attribute.values[:12]))}"
    low = "" if attribute.low is None else f" from {attribute.low!r}"
    high = "" if attribute.high is None else f" to {attribute.high!r}"
    return f"{value!r} is outside the domain{low}{high}"


def _check_on_error(on_error: str) -> None:
    if on_error not in ("raise", "reject"):
        raise EventError(f"on_error is 'raise' or 'reject', not {on_error!r}")


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else (pa.array([], column.type))
    )


def _first_per_row(complaints: list[Complaint]) -> list[tuple[int, tuple[str, Any, str]]]:
    first: dict[int, tuple[str, Any, str]] = {}
    for complaint in complaints:
        first.setdefault(complaint.row, (complaint.attribute, complaint.value, complaint.reason))
    return sorted(first.items(), key=lambda item: item[0])


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
            chosen = _one_chunk(chosen)
        if len(chosen) != count:
            raise EventError(f"{len(chosen)} ids for {count} events")
        if chosen.null_count or pc.count_distinct(chosen).as_py() != count:
            raise EventError("event ids must differ from each other, and none may be missing")
    return chosen if kept is None or len(kept) == count else chosen.take(pa.array(kept, pa.int64()))
