"""Tables of events as an index wants them: the columns of the space that are there, in its types, checked.

Rule: a table that fits as it is comes back as it is; whatever does not fit is named.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from contentcast.model.errors import EventError
from contentcast.model.events.arrow_columns import check_column
from contentcast.model.events.event_batch import EventBatch, flattened, has_structs, is_known, one_chunk
from contentcast.model.events.intake import Intake
from contentcast.model.space import Space


def as_records(space: Space, events: Any, intake: Intake) -> pa.RecordBatch:
    """A RecordBatch, a Table or a pandas DataFrame; a missing column is absent everywhere."""
    if hasattr(events, "iloc"):  # pandas is not imported for those who do not use it
        return EventBatch.from_pandas(
            space,
            events,
            on_error=intake.on_error,
            unknown=intake.unknown,
            nan=intake.nan,
            finer=intake.finer,
            epoch=intake.epoch,
        ).records
    if not isinstance(events, (pa.RecordBatch, pa.Table)):
        wanted = "a pyarrow RecordBatch or Table, an EventBatch or a pandas DataFrame"
        raise EventError(f"events come as {wanted}, not as {type(events).__name__}")
    given = events
    if any(pa.types.is_struct(field.type) or has_structs(field.type) for field in events.schema):
        events = flattened(events)
    columns: dict[str, pa.Array] = {}
    fits = isinstance(given, pa.RecordBatch) and given is events
    for name, column in zip(events.schema.names, events.columns, strict=True):
        if not is_known(space, name, columns, intake):
            continue
        if isinstance(column, pa.ChunkedArray):
            column = one_chunk(column)
        checked = check_fits(space, name, column, intake)
        fits = fits and checked is column
        columns[name] = checked
    if fits and len(set(given.schema.names)) == len(given.schema):
        return given
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.nulls(events.num_rows, pa.struct([])).fill_null({}))
    named = [name for name in space.names if name in columns]
    schema = pa.schema([space.arrow_schema.field(name) for name in named])
    return pa.RecordBatch.from_arrays([columns[name] for name in named], schema=schema)


def check_fits(space: Space, name: str, column: pa.Array, intake: Intake) -> pa.Array:
    """The column as an `EventBatch` would hold it; what is wrong in it is named, or left out."""
    checked, complaints = check_column(space, name, column, intake)
    if not complaints:
        return checked
    if intake.on_error == "absent":
        return EventBatch.from_columns(space, {name: (checked, complaints)}, len(checked), None, intake).records.column(name)
    row, attribute, _, reason = complaints[0]
    raise EventError(f"event {row}, attribute {attribute}: {reason}")
