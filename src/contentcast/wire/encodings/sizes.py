"""How many bytes the events of a message take, without writing them: for a batch, and for each event by columns.

    events_bytes(trades)     what all of them take in one message, in the form in which they travel
    event_bytes(trades)      what each of them takes as the only one, or among a few

The simulation asks for every message it sends, so that of a batch the answer is remembered as long as its records live.
Rule: these are the lengths of the real thing; a test compares them.
"""

from __future__ import annotations

import struct
import weakref
from typing import Any, Final

import numpy as np
import pyarrow as pa

from contentcast.model import EventBatch
from contentcast.model.values.list_bytes import list_column
from contentcast.wire.encodings.columns import ALL_ABSENT, COLUMNS_FROM, SOME_ABSENT, bits, offsets_of, padded, presence
from contentcast.wire.encodings.columns import form_of as column_form
from contentcast.wire.encodings.rows import FIXED_BYTES, LENGTH_BYTES, layout
from contentcast.wire.fields import Ints

_OFFSET: Final = struct.Struct("<i")

_remembered: dict[int, tuple[weakref.ref[Any], int]] = {}
"""By the identity of the records; an entry goes when they do, so that no other object can have the number meanwhile."""


def events_bytes(batch: EventBatch) -> int:
    """The bytes of all events of a Publish, in the form in which they travel."""
    key = id(batch.records)
    found = _remembered.get(key)
    if found is None:
        count = len(batch)
        size = (
            _one_event(batch)
            if count == 1
            else int(event_bytes(batch).sum())
            if count < COLUMNS_FROM
            else _columns_bytes(batch)
        )
        found = _remembered[key] = weakref.ref(batch.records, lambda _: _remembered.pop(key, None)), size
    return found[1]


def event_bytes(batch: EventBatch) -> Ints:
    """For each event its bytes as a row: what it takes in a message of its own, and in any of fewer than COLUMNS_FROM."""
    found = np.full(len(batch), layout(batch.space).least_bytes, np.int64)
    for at, kind in enumerate(batch.space.kinds.values()):
        column = list_column(kind, batch.records.column(at))
        fixed = FIXED_BYTES.get(kind.name)
        taken: Any = np.diff(offsets_of(column)) + LENGTH_BYTES if fixed is None else fixed
        found += np.where(presence(column), taken, 0) if column.null_count else taken
    return found


def _one_event(batch: EventBatch) -> int:
    """`event_bytes` of a batch of one, without arrays."""
    plan = layout(batch.space)
    records = batch.records
    size = plan.least_bytes
    for at, (name, kind, _) in enumerate(plan.attributes):
        column = list_column(batch.space.kinds[name], records.column(at))
        if not column.null_count:
            fixed = FIXED_BYTES.get(kind)
            if fixed is None:
                begin, end = _ends(column.buffers()[1], column.offset, column.offset + 1)
                fixed = LENGTH_BYTES + end - begin
            size += fixed
    return size


def _columns_bytes(batch: EventBatch) -> int:
    count = len(batch)
    size = padded(len(batch.space)) + 8 * count
    for at, kind in enumerate(batch.space.kinds.values()):
        column = list_column(kind, batch.records.column(at))
        form = column_form(column)
        if form == ALL_ABSENT:
            continue
        size += bits(count) if form == SOME_ABSENT else 0
        if kind.name in ("string", "bytes") or kind.element is not None:
            offsets = offsets_of(column)
            size += padded(4 * (count + 1)) + padded(int(offsets[-1]) - int(offsets[0]))
        else:
            size += bits(count) if kind.name == "bool" else 8 * count
    return size


def _ends(offsets: pa.Buffer, begin: int, end: int) -> tuple[int, int]:
    return _OFFSET.unpack_from(offsets, 4 * begin)[0], _OFFSET.unpack_from(offsets, 4 * end)[0]
