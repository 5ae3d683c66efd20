"""Matches as Arrow record batches: a row for each pair, or a row for each event with the list of its subscriptions.

    event | subscription        event | subscriptions
        0 |            7            0 | [7, 9]
        0 |            9            2 | [7]
        2 |            7

Rule: ids are int64 columns, or string columns where the ids of the index are texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.model.events.event_batch import EventBatch

if TYPE_CHECKING:
    from contentcast.matching.index import Matches
    from contentcast.matching.plain_index import Found

Ints: TypeAlias = npt.NDArray[np.int64]
Called: TypeAlias = npt.NDArray[Any] | None
"""The ids of matches where they are texts."""
Events: TypeAlias = Any
"""A pyarrow RecordBatch or Table, an EventBatch, or a pandas DataFrame."""

PAIRS: Final = pa.schema([pa.field("event", pa.int64(), nullable=False), pa.field("subscription", pa.int64(), nullable=False)])
LISTS: Final = pa.schema(
    [
        pa.field("event", pa.int64(), nullable=False),
        pa.field("subscriptions", pa.list_(pa.int64()), nullable=False),
    ]
)
NAMED_PAIRS: Final = PAIRS.set(1, pa.field("subscription", pa.string(), nullable=False))
MOST_IN_LISTS: Final = 1 << 30
"""Ids in the lists of one record batch: their offsets have 32 bits."""
_INT64: Final = pa.int64()


def batches(events: Events | Iterable[Events]) -> Iterable[Events]:
    """One batch, or a row of them; iterating over a pandas DataFrame would give the names of its columns."""
    return [events] if isinstance(events, (pa.RecordBatch, pa.Table, EventBatch)) or hasattr(events, "iloc") else events


def as_pairs(rows: Ints, ids: npt.NDArray[Any]) -> pa.RecordBatch:
    if ids.dtype == object:
        return pa.RecordBatch.from_arrays([pa.array(rows), pa.array(ids, pa.string())], schema=NAMED_PAIRS)
    # By their buffers: `pa.array` takes two microseconds more for each.
    columns = [pa.Array.from_buffers(_INT64, len(each), [None, pa.py_buffer(each)]) for each in (rows, ids)]
    return pa.RecordBatch.from_arrays(columns, schema=PAIRS)


def as_list_array(pieces: list[tuple[int, Any]], called: Called) -> pa.ListArray:
    """A list for each event, also for those that nobody wants; `pieces` are the matches of one batch after another."""
    counts = counts_of(pieces)
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if called is not None:
        return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(called, pa.string()))
    ids = pieces[0][1].ids if len(pieces) == 1 else np.concatenate([each.ids for _, each in pieces])
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))


def counts_of(pieces: list[tuple[int, Any]]) -> Ints:
    """How many subscriptions each event satisfies."""
    return np.concatenate([np.diff(each.ends, prepend=0) for _, each in pieces])


def as_lists(events: Events, first: int, begin: int, found: Matches | Found, called: Called) -> pa.RecordBatch:
    """The events of one piece that somebody wants. The piece begins at row `begin` of `events`, whose first row is `first`."""
    counts = np.diff(found.ends, prepend=0)
    wanted = np.flatnonzero(counts)
    offsets = np.zeros(len(wanted) + 1, np.int32)
    np.cumsum(counts[wanted], out=offsets[1:])
    ids = pa.array(found.ids) if called is None else pa.array(called, pa.string())
    lists = pa.ListArray.from_arrays(pa.array(offsets), ids)
    rows = events.ids.to_numpy()[begin + wanted] if isinstance(events, EventBatch) else first + begin + wanted
    schema = LISTS if called is None else LISTS.set(1, pa.field("subscriptions", lists.type, nullable=False))
    return pa.RecordBatch.from_arrays([pa.array(rows), lists], schema=schema)
