"""How many bytes a message takes on a link, without writing it; and by columns, for a million messages of one event each.

    message_bytes(Publish("a", 1, 7, trade))     == len(frame(encode(...)))
    PUBLISH_HEADER_BYTES + name_bytes(origin) + name_bytes(space.name)   what every Publish takes, its frame included
    event_bytes(trades)                          what each event adds, as the only one or among a few
    destination_bytes(lists)                     what each event's destination list adds

The simulation asks for every message it sends, so that of a batch the answer is remembered as long as its records live.
Rule: these are the lengths of the real thing; a test compares them.
"""

from __future__ import annotations

import struct
import weakref
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from contentcast.model import EventBatch, Space
from contentcast.wire.codec import FRAME, PUBLISH, encode
from contentcast.wire.columns import ALL_ABSENT, COLUMNS_FROM, SOME_ABSENT, bits, offsets_of, padded, presence
from contentcast.wire.columns import form_of as column_form
from contentcast.wire.destinations import COUNT_BYTES, ID_BYTES, IDS, NAME_LENGTH_BYTES, form_of, list_lengths
from contentcast.wire.fields import SPACE_PRINT_BYTES, Ints, name_bytes
from contentcast.wire.framing import FRAME_HEADER_BYTES
from contentcast.wire.messages import Frame, Interest, Message, Publish
from contentcast.wire.rows import FIXED_BYTES, LENGTH_BYTES, layout

PUBLISH_HEADER_BYTES: Final = FRAME_HEADER_BYTES + PUBLISH.size + SPACE_PRINT_BYTES
"""What a Publish takes besides the names of its origin and its space, its events and their destinations; with its frame."""

SESSION_BYTES: Final = FRAME.size
"""What a Frame adds to the message in it."""

_OFFSET: Final = struct.Struct("<i")


def message_bytes(message: Message) -> int:
    """The length of the message on a link, its frame included."""
    if isinstance(message, Publish):
        origin, space = message.origin, message.events.space
        size = PUBLISH_HEADER_BYTES + name_bytes(origin) + _space_name_bytes(space) + events_bytes(message.events)
        return size if message.destinations is None else size + _destinations_bytes(message.destinations)
    if isinstance(message, Frame) and message.message is not None:
        return SESSION_BYTES + message_bytes(message.message)
    return FRAME_HEADER_BYTES + (_interest_bytes(message) if isinstance(message, Interest) else len(encode(message)))


@lru_cache(maxsize=1024)
def _space_name_bytes(space: Space) -> int:
    return name_bytes(space.name)


@lru_cache(maxsize=32)
def _interest_bytes(message: Interest) -> int:
    """Written once to see; a broker tells all its neighbours the same."""
    return len(encode(message))


# --- events

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
        column = batch.records.column(at)
        fixed = FIXED_BYTES.get(kind.name)
        taken: Any = np.diff(offsets_of(column)) + LENGTH_BYTES if fixed is None else fixed
        found += np.where(presence(column), taken, 0) if column.null_count else taken
    return found


def _one_event(batch: EventBatch) -> int:
    """`event_bytes` of a batch of one, without arrays."""
    plan = layout(batch.space)
    records = batch.records
    size = plan.least_bytes
    for at, (_, kind, _) in enumerate(plan.attributes):
        column = records.column(at)
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
        column = batch.records.column(at)
        form = column_form(column)
        if form == ALL_ABSENT:
            continue
        size += bits(count) if form == SOME_ABSENT else 0
        if kind.name in ("string", "bytes"):
            offsets = offsets_of(column)
            size += padded(4 * (count + 1)) + padded(int(offsets[-1]) - int(offsets[0]))
        else:
            size += bits(count) if kind.name == "bool" else 8 * count
    return size


# --- destinations


def destination_bytes(destinations: pa.ListArray) -> Ints:
    """For each event the bytes of its list."""
    counts = list_lengths(destinations)
    if form_of(destinations) == IDS:
        return COUNT_BYTES + ID_BYTES * counts
    ends = offsets_of(destinations.values)[offsets_of(destinations)].astype(np.int64)
    return COUNT_BYTES + NAME_LENGTH_BYTES * counts + np.diff(ends)


def _destinations_bytes(destinations: pa.ListArray) -> int:
    """Of all events together; the ends of the offsets say enough."""
    count, first = len(destinations), destinations.offset
    if not count:
        return 0
    begin, end = _ends(destinations.buffers()[1], first, first + count)
    size = COUNT_BYTES * count
    if form_of(destinations) == IDS:
        return size + ID_BYTES * (end - begin)
    size += NAME_LENGTH_BYTES * (end - begin)
    if begin == end:
        return size
    names = destinations.values
    low, high = _ends(names.buffers()[1], names.offset + begin, names.offset + end)
    return size + high - low


def _ends(offsets: pa.Buffer, begin: int, end: int) -> tuple[int, int]:
    return _OFFSET.unpack_from(offsets, 4 * begin)[0], _OFFSET.unpack_from(offsets, 4 * end)[0]
