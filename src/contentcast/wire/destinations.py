"""The destination lists of a Publish: for each event the ids of subscriptions or the names of brokers.

    how many, u32 for each event | ids: 8 bytes each, or names: length u16 each, then all their bytes

Source: the header of match-first (Banavar et al. 1999, section 1), which grows with every destination.
Rule: an event's list takes the same bytes whatever other lists stand beside it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.wire.columns import offsets_of
from contentcast.wire.fields import MOST_NAME_BYTES, Reader, WireError

NONE, IDS, NAMES = 0, 1, 2
COUNT_BYTES: Final = 4
ID_BYTES: Final = 8
NAME_LENGTH_BYTES: Final = 2

Ints = npt.NDArray[np.int64]


def form_of(destinations: pa.ListArray | None) -> int:
    if destinations is None:
        return NONE
    kind = destinations.type
    if isinstance(kind, pa.ListType):
        if pa.types.is_integer(kind.value_type):
            return IDS
        if pa.types.is_string(kind.value_type):
            return NAMES
    raise WireError(f"destinations are lists of ids (list<int64>) or of names (list<string>), not {kind}")


def encode_destinations(destinations: pa.ListArray, events: int) -> bytes:
    form = form_of(destinations)
    if len(destinations) != events:
        raise WireError(f"{len(destinations)} destination lists for {events} events")
    values = destinations.flatten()
    if destinations.null_count or values.null_count:
        raise WireError("a destination list may be empty, but neither it nor anything in it may be null")
    counts = list_lengths(destinations).astype("<u4").tobytes()
    if form == IDS:
        try:
            return counts + bytes(np.asarray(values.cast(pa.int64()).to_numpy(), "<i8").tobytes())
        except pa.ArrowInvalid as reason:
            raise WireError(f"destinations: {reason}") from None
    offsets = offsets_of(values)
    lengths = np.diff(offsets)
    if len(lengths) and int(lengths.max()) > MOST_NAME_BYTES:
        raise WireError(f"the name of a destination takes {int(lengths.max())} bytes; at most {MOST_NAME_BYTES} fit")
    data = values.buffers()[2]
    texts = data.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes() if data else b""
    return b"".join((counts, lengths.astype("<u2").tobytes(), texts))


def list_lengths(destinations: pa.ListArray) -> Ints:
    return np.diff(offsets_of(destinations)).astype(np.int64)


def decode_destinations(reader: Reader, form: int, events: int) -> pa.ListArray | None:
    if form == NONE:
        return None
    if form not in (IDS, NAMES):
        raise WireError(f"there is no form {form} of destinations")
    counts = reader.array("<u4", events, "the lengths of the destination lists").astype(np.int64)
    total = int(counts.sum())
    each = ID_BYTES if form == IDS else NAME_LENGTH_BYTES
    reader.need(total * each, f"{total} destinations")
    offsets = pa.array(_offsets(counts), pa.int32())
    if form == IDS:
        return pa.ListArray.from_arrays(offsets, pa.array(reader.array("<i8", total, "the destinations")))
    lengths = reader.array("<u2", total, "the lengths of the destinations").astype(np.int64)
    starts = _offsets(lengths)
    raw = reader.take(int(starts[-1]), "the names of the destinations").tobytes()
    names = pa.Array.from_buffers(pa.string(), total, [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(raw)], 0)
    try:
        names.validate(full=True)
    except pa.ArrowInvalid as reason:
        raise WireError(f"the names of the destinations: {reason}") from None
    return pa.ListArray.from_arrays(offsets, names)


def _offsets(lengths: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
