"""Events as rows: the form of small batches.

    id i64 | presence, one bit for each attribute of the space in its order, rounded up to bytes | the values that are there

    int, float, timestamp (microseconds since 1970)   8 bytes      bool   1 byte      string, bytes   length u32 | bytes
    lists   as bytes, see `model.values.list_bytes`

A trade with issue 'IBM', price 119.5 and no volume takes 8 + 1 + (4 + 3) + 8 = 24 bytes. From COLUMNS_FROM events on a batch
travels by columns instead (see `columns`).
Rule: an event takes the same bytes whatever other events are in the batch, so that `sizes` can count them by columns; and what
comes in has been checked as every EventBatch is: no NaN, years 1 to 9999, text in UTF-8, nothing outside a declared domain.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa

from contentcast.model import EventBatch, Ranges, Space
from contentcast.model.events.parts import Part
from contentcast.model.events.rows import outside
from contentcast.model.values.keys import key_ends, value_of
from contentcast.model.values.kinds import TIMESTAMP, Value
from contentcast.model.values.list_bytes import list_column, read_column
from contentcast.wire.fields import Reader, WireError

ID_BYTES: Final = 8
LENGTH_BYTES: Final = 4
FIXED_BYTES: Final = {"int": 8, "float": 8, "timestamp": 8, "bool": 1}
"""What a value takes; of a string and of bytes it is LENGTH_BYTES and as many as they have."""

_LONG, _DOUBLE, _LENGTH = struct.Struct("<q"), struct.Struct("<d"), struct.Struct("<I")
_NOTHING: Final = bytes(8)
_BOOLS: Final = {False: b"\0", True: b"\1"}
_FIRST_US, _LAST_US = key_ends(TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the rows of a space are read: for each attribute its name, kind (of lists: bytes) and declared domain."""

    presence_bytes: int
    attributes: tuple[tuple[str, str, Ranges | None], ...]

    @property
    def least_bytes(self) -> int:
        """Of an event that carries nothing."""
        return ID_BYTES + self.presence_bytes


@lru_cache(maxsize=1024)
def layout(space: Space) -> Layout:
    attributes = (
        (name, "bytes" if space.kinds[name].element is not None else each.kind, each.domain if each.has_domain else None)
        for name, each in space.items()
    )
    return Layout(-(-len(space) // 8), tuple(attributes))


def encode_rows(batch: EventBatch) -> bytes:
    if isinstance(batch, Part):
        rows = batch.of_whole(_rows)  # an event is written once, however many links it leaves by
        if rows is not None:
            return b"".join([rows[row] for row in batch.rows.tolist()])
    return b"".join(_rows(batch))


def _rows(batch: EventBatch) -> list[bytes]:
    plan = layout(batch.space)
    kinds = batch.space.kinds
    columns = [
        _cells(kind, list_column(kinds[name], batch.records.column(at))) for at, (name, kind, _) in enumerate(plan.attributes)
    ]
    rows: list[bytes] = []
    for row, number in enumerate(batch.ids.to_pylist()):
        present = 0
        values: list[bytes] = []
        for at, cells in enumerate(columns):
            cell = cells[row]
            if cell is not None:
                present |= 1 << at
                values.append(cell)
        rows.append(b"".join((_LONG.pack(number), present.to_bytes(plan.presence_bytes, "little"), *values)))
    return rows


def _cells(kind: str, column: pa.Array) -> list[bytes | None]:
    """The bytes of each value, None where there is none. Cutting them out of Arrow's buffers took 1.1 to 2 times as long."""
    if kind in ("string", "bytes"):
        raw = column.view(pa.binary()).to_pylist()
        return [None if each is None else _LENGTH.pack(len(each)) + each for each in raw]
    if kind == "bool":
        return [None if each is None else _BOOLS[each] for each in column.to_pylist()]
    form = _DOUBLE if kind == "float" else _LONG
    numbers = column.view(pa.int64()).to_pylist() if kind == "timestamp" else column.to_pylist()
    return [None if each is None else form.pack(each) for each in numbers]


def decode_rows(reader: Reader, space: Space, count: int) -> EventBatch:
    """Cut into cells first, then made into Arrow's buffers: pa.array of Python values took 3 to 7 us a column, this takes 1."""
    plan = layout(space)
    reader.need(count * plan.least_bytes, f"{count} events")
    data = reader.data[reader.at :].tobytes()
    ids: list[bytes] = []
    columns: list[list[bytes | None]] = [[] for _ in plan.attributes]
    fields = [(cells, FIXED_BYTES.get(kind, 0)) for cells, (_, kind, _) in zip(columns, plan.attributes, strict=True)]
    at, head = 0, plan.least_bytes
    for row in range(count):
        ids.append(data[at : at + ID_BYTES])
        present = int.from_bytes(data[at + ID_BYTES : at + head], "little")
        at += head
        for cells, width in fields:
            if present & 1:
                if not width:
                    width = int.from_bytes(data[at : at + LENGTH_BYTES], "little")
                    at += LENGTH_BYTES
                cells.append(data[at : at + width])
                at += width
            else:
                cells.append(None)
            present >>= 1
        if present:
            raise WireError(f"event {row} carries more attributes than the {len(columns)} of {space.name}")
        if at > len(data):  # cells beyond the end came out short; nobody has looked at them yet
            raise WireError(f"event {row} needs {at - len(data)} bytes more than are left; it is cut off or a length lies")
    reader.at += at
    arrays = [
        _column(space, name, kind, domain, cells) for (name, kind, domain), cells in zip(plan.attributes, columns, strict=True)
    ]
    numbers = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(b"".join(ids))], 0)
    return EventBatch(space, pa.RecordBatch.from_arrays(arrays, schema=space.arrow_schema), numbers)


def _column(space: Space, name: str, kind: str, domain: Ranges | None, cells: list[bytes | None]) -> pa.Array:
    count = len(cells)
    absent = cells.count(None)
    there = _bitmap([each is not None for each in cells]) if absent else None
    arrow = space.kinds[name].stored
    values: Sequence[Any] | None = None
    if kind in ("string", "bytes"):
        texts = [each or b"" for each in cells]
        offsets = struct.pack(f"<{count + 1}i", 0, *accumulate(map(len, texts)))
        buffers = [there, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    elif kind == "bool":
        if not {*cells} <= {None, b"\0", b"\1"}:
            raise WireError(f"attribute {name}: a bool is 0 or 1, not {max(each for each in cells if each)[0]}")
        values = [each == b"\1" for each in cells]
        buffers = [there, _bitmap(values)]
    else:
        raw = b"".join([each or _NOTHING for each in cells])
        values = struct.unpack(f"<{count}{'d' if kind == 'float' else 'q'}", raw)
        buffers = [there, pa.py_buffer(raw)]
        _check_numbers(name, kind, values)
    array = pa.Array.from_buffers(arrow, count, buffers, absent)
    if kind == "string":
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as reason:
            raise WireError(f"attribute {name}: not UTF-8: {reason}") from None
    if space.kinds[name].element is not None:
        try:
            return read_column(space.kinds[name], array)
        except ValueError as reason:
            raise WireError(f"attribute {name}: {reason}") from None
    if domain is not None:
        for row, cell in enumerate(cells):
            if cell is not None and (value := _plain(kind, cell, values, row)) not in domain:
                raise WireError(f"event {row}, attribute {name}: {outside(space, name, value)}")
    return array


def _plain(kind: str, cell: bytes, values: Sequence[Any] | None, row: int) -> Value:
    """The value as the model has it."""
    if values is None:
        return cell.decode() if kind == "string" else cell
    return value_of(TIMESTAMP, values[row]) if kind == "timestamp" else values[row]


def _check_numbers(name: str, kind: str, values: Sequence[Any]) -> None:
    if kind == "float":
        for row, value in enumerate(values):
            if value != value:
                raise WireError(f"event {row}, attribute {name}: NaN is not a value")
    elif kind == "timestamp":
        for row, value in enumerate(values):
            if not _FIRST_US <= value <= _LAST_US:
                raise WireError(f"event {row}, attribute {name}: {value} us since 1970 is outside the years 1 to 9999")


def _bitmap(values: Sequence[bool]) -> pa.Buffer:
    if len(values) > 64:  # a number of so many bits takes quadratic time, and for a few bits NumPy takes longer
        return pa.py_buffer(np.packbits(np.array(values, bool), bitorder="little").tobytes())
    found = sum(1 << at for at, each in enumerate(values) if each)
    return pa.py_buffer(found.to_bytes(-(-len(values) // 8) or 1, "little"))
