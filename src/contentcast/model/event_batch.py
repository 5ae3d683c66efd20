"""Events of one space as an Arrow record batch: the form in which events travel, are matched and are stored.

Rule: what an EventBatch holds has been checked: exactly the space's columns, in its order and types, no NaN, nothing outside a
declared domain. Null means that the event does not carry the attribute. What fails is named (event, attribute, value, reason)
and refuses the batch, or with `on_error="reject"` is set aside in `rejected`; nothing is changed silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.arrow_columns import Complaint, check_column
from contentcast.model.errors import EventError, nearest
from contentcast.model.kinds import Value
from contentcast.model.ranges import Ranges
from contentcast.model.space import Space

OnError = Literal["raise", "reject"]


@dataclass(frozen=True, slots=True)
class Rejection:
    """One event that was set aside, with the reason."""

    event: int
    attribute: str | None
    value: Any
    reason: str

    def __str__(self) -> str:
        where = f"event {self.event}" + (f", attribute {self.attribute}" if self.attribute else "")
        return f"{where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class EventBatch:
    """`records` has the space's columns; `ids` one 64-bit id per row; `rejected` what was set aside on the way in."""

    space: Space
    records: pa.RecordBatch
    ids: pa.Int64Array
    rejected: tuple[Rejection, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return int(self.records.num_rows)

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
        rows: Iterable[tuple[int, Mapping[str, Any]]],
        *,
        ids: Sequence[int] | None = None,
        on_error: OnError = "raise",
        from_text: bool = False,
        rejected: Sequence[Rejection] = (),
    ) -> Self:
        """As `from_dicts`, with the number by which to name each event; `from_text` reads timestamps and bytes from text."""
        _check_on_error(on_error)
        set_aside = list(rejected)
        columns: dict[str, list[Value | None]] = {name: [] for name in space.names}
        rules = {
            name: (kind.read if from_text else kind.check, space[name].domain if space[name].has_domain else None)
            for name, kind in space.kinds.items()
        }
        kept: list[int] = []
        position = -1
        for position, (number, event) in enumerate(rows):
            values = _checked_row(space, rules, number, event)
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
        _check_on_error(on_error)
        table = flattened(records)
        strange = [name for name in table.column_names if name not in space]
        if strange and unknown == "error":
            raise EventError(
                f"{space.name} has no attribute {strange[0]!r}{nearest(strange[0], space.names)}"
                " (or ignore it: unknown='ignore')"
            )
        complaints: list[Complaint] = []
        arrays = []
        for name in space.names:
            if name in table.column_names:
                checked, found = check_column(space, name, _one_chunk(table.column(name)))
                complaints += found
                arrays.append(checked)
            else:
                arrays.append(pa.nulls(table.num_rows, space.kinds[name].arrow))
        kept: np.ndarray[Any, Any] | None = None
        set_aside: list[Rejection] = []
        if complaints:
            for event, (attribute, value, reason) in _first_per_row(complaints):
                set_aside.append(Rejection(event, attribute, value, reason))
            if on_error == "raise":
                raise EventError(str(set_aside[0]))
            kept = np.setdiff1d(np.arange(table.num_rows), np.array([each.event for each in set_aside]))
        batch = pa.record_batch(arrays, schema=space.arrow_schema)
        all_ids = _chosen_ids(ids, table.num_rows)
        if kept is None:
            return cls(space, batch, all_ids)
        return cls(space, batch.take(pa.array(kept)), all_ids.take(pa.array(kept)), tuple(set_aside))

    @classmethod
    def from_pandas(cls, space: Space, frame: Any, **options: Any) -> Self:
        """A pandas DataFrame; its index is left out. NaN in an object or nullable column is absent, as pandas means it."""
        return cls.from_arrow(space, pa.Table.from_pandas(frame, preserve_index=False), **options)

    # --- parts

    def take(self, rows: Any) -> EventBatch:
        rows = pa.array(rows) if not isinstance(rows, pa.Array) else rows
        return EventBatch(self.space, self.records.take(rows), self.ids.take(rows))

    def slice(self, offset: int = 0, length: int | None = None) -> EventBatch:
        return EventBatch(self.space, self.records.slice(offset, length), self.ids.slice(offset, length))

    def to_dicts(self) -> list[dict[str, Value]]:
        """One dict per event, without the attributes that it does not carry."""
        return [{name: value for name, value in row.items() if value is not None} for row in self.records.to_pylist()]


def concat(batches: Sequence[EventBatch]) -> EventBatch:
    """Several batches of one space as one."""
    spaces = {batch.space for batch in batches}
    if len(spaces) != 1:
        raise EventError("batches of one space can be put together, and at least one is needed")
    records = pa.concat_batches([batch.records for batch in batches])
    rejected = tuple(each for batch in batches for each in batch.rejected)
    return EventBatch(batches[0].space, records, pa.concat_arrays([batch.ids for batch in batches]), rejected)


def flattened(records: pa.RecordBatch | pa.Table) -> pa.Table:
    """Struct columns as one dotted column per member."""
    table = pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else records
    while any(pa.types.is_struct(each.type) for each in table.schema):
        table = table.flatten()
    return table


def flat(event: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """`{"detail": {"state": "up"}}` as `{"detail.state": "up"}`."""
    found: dict[str, Any] = {}
    for name, value in event.items():
        parts = flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
        for each, part in parts.items():
            if each in found:
                raise ValueError(f"{each} is given twice, nested and dotted")
            found[each] = part
    return found


def _checked_row(
    space: Space, rules: Mapping[str, tuple[Any, Ranges | None]], number: int, event: Mapping[str, Any]
) -> dict[str, Value] | Rejection:
    if not isinstance(event, Mapping):
        return Rejection(number, None, event, f"{event!r} is not an object with attributes")
    values: dict[str, Value] = {}
    attribute: str | None = None
    value: Any = event
    try:
        if any(isinstance(each, Mapping) for each in event.values()):
            event = flat(event)
        for attribute, value in event.items():
            rule = rules.get(attribute)
            if rule is None:
                raise ValueError(f"{space.name} has no attribute {attribute!r}{nearest(str(attribute), space.names)}")
            if value is None:
                continue
            check, domain = rule
            values[attribute] = check(value)
            if domain is not None and values[attribute] not in domain:
                raise ValueError(outside(space, attribute, value))
    except ValueError as reason:
        return Rejection(number, attribute, value, str(reason))
    return values


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
            chosen = pc.cast(ids if isinstance(ids, pa.Array) else pa.array(ids), pa.int64())
        except (pa.ArrowInvalid, pa.ArrowTypeError) as reason:
            raise EventError(f"event ids are 64-bit ints: {reason}") from None
        if len(chosen) != count:
            raise EventError(f"{len(chosen)} ids for {count} events")
        if chosen.null_count or pc.count_distinct(chosen).as_py() != count:
            raise EventError("event ids must differ from each other, and none may be missing")
    return chosen if kept is None or len(kept) == count else chosen.take(pa.array(kept, pa.int64()))
