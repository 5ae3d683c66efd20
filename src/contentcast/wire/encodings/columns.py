"""Events by columns, in Arrow's own layout: the form of batches of COLUMNS_FROM events or more.

    one byte for each attribute, rounded up to 8:  0 all there   1 some absent   2 all absent
    ids, 8 bytes each
    for each attribute that is not absent everywhere:  [presence, one bit for each event] | values
        int, float, timestamp   8 bytes each      bool   one bit each      string, bytes   n + 1 offsets of 4 bytes | all bytes
        lists   as bytes, see `model.values.list_bytes`

Every buffer is filled up to a multiple of 8 bytes; `decode_columns` copies all of them at once into one aligned buffer and lays
Arrow arrays over it (NumPy arrays that are not aligned would make Numba compile every kernel a second time).

Why not Arrow IPC messages: one of 232 bytes, with a compressed buffer that promises 1 GiB, made Arrow allocate 1 GiB before it
saw that it was a lie, and compression cannot be forbidden on reading. They are also 560 to 1,120 bytes longer for six to ten
attributes; to write and read them took 0.5 to 1.0 times as long, most of it the checks that both need.
Rule: nothing is laid over the bytes before every length and offset was seen to stay inside.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.model import EventBatch, EventError, Space
from contentcast.model.events.arrow_columns import check_column
from contentcast.model.values.list_bytes import list_column, read_column
from contentcast.wire.fields import Reader, WireError

# Time to write and read a batch as rows, as a multiple of that by columns, in one run (and bytes, rows/columns):
#     events                1            10           32           48           64           100          300
#     market (6)     0.15 (0.71)  0.31 (0.94)  0.97 (0.99)  2.50 (1.00)  1.81 (1.00)  6.58 (1.01)  8.04 (1.01)
#     gryphon (10)   0.23 (0.87)  0.38 (1.00)  0.41 (1.02)  0.98 (1.02)  1.07 (1.02)  2.18 (1.02)  5.76 (1.02)
#     summaries (10) 0.18 (0.61)  0.39 (0.48)  0.69 (0.53)  1.22 (0.54)  1.87 (0.54)  2.35 (0.54)  6.45 (0.54)
# Events of the last carry few of their attributes: by columns they take more bytes, as in Arrow, and less time.
COLUMNS_FROM: Final = 48

ALL_THERE, SOME_ABSENT, ALL_ABSENT = 0, 1, 2
_OFFSET: Final = struct.Struct("<i")


def padded(count: int) -> int:
    return count + -count % 8


def bits(count: int) -> int:
    """The bytes of one bit each, filled up."""
    return padded(-(-count // 8))


# --- out


def encode_columns(batch: EventBatch) -> bytes:
    count = len(batch)
    forms = bytearray(padded(len(batch.space)))
    parts: list[bytes] = []
    for at, kind in enumerate(batch.space.kinds.values()):
        column = list_column(kind, batch.records.column(at))
        forms[at] = form_of(column)
        if forms[at] == ALL_ABSENT:
            continue
        there = presence(column) if forms[at] == SOME_ABSENT else None
        if there is not None:
            parts.append(_bits(there))
        if kind.name in ("string", "bytes") or kind.element is not None:
            offsets = offsets_of(column)
            data = column.buffers()[2]
            parts.append(_filled((offsets - offsets[0]).astype("<i4").tobytes()))
            parts.append(_filled(data.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes() if data else b""))
        elif kind.name == "bool":
            parts.append(_bits(column.fill_null(False).to_numpy(zero_copy_only=False)))
        else:
            values = np.frombuffer(column.buffers()[1], "<i8", count, column.offset * 8)
            # What lies under an absent value may be anything: it is nobody's business, and would differ from run to run.
            parts.append((values if there is None else np.where(there, values, 0)).tobytes())
    ids = np.frombuffer(batch.ids.buffers()[1], "<i8", count, batch.ids.offset * 8).tobytes()
    return b"".join((forms, ids, *parts))


def form_of(column: pa.Array) -> int:
    nulls = column.null_count
    return ALL_THERE if not nulls else SOME_ABSENT if nulls < len(column) else ALL_ABSENT


def presence(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are there."""
    found = column.buffers()[0]
    if found is None:
        return np.ones(len(column), bool)
    first = column.offset // 8
    raw = np.frombuffer(found, np.uint8)[first : (column.offset + len(column) + 7) // 8]
    start = column.offset - 8 * first
    return np.unpackbits(raw, bitorder="little")[start : start + len(column)].view(np.bool_)


def offsets_of(column: pa.Array) -> npt.NDArray[np.int32]:
    """Where each string or bytes value begins, and where the last one ends."""
    found = column.buffers()[1]
    if found is None or not found.size:  # Arrow allows none for an empty array
        return np.zeros(len(column) + 1, np.int32)
    return np.frombuffer(found, np.int32, len(column) + 1, column.offset * 4)


def _bits(values: npt.NDArray[np.bool_]) -> bytes:
    return _filled(np.packbits(values, bitorder="little").tobytes())


def _filled(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % 8)


# --- in


class _Buffers:
    """One aligned copy of the rest of a message, handed out buffer by buffer."""

    def __init__(self, raw: memoryview) -> None:
        aligned = np.empty(-(-len(raw) // 8), np.int64).view(np.uint8)[: len(raw)]
        aligned[:] = np.frombuffer(raw, np.uint8)
        self.buffer = pa.py_buffer(aligned)
        self.size, self.at = len(raw), 0
        self._nothing = pa.py_buffer(b"")

    def take(self, count: int, what: str) -> pa.Buffer:
        left = self.size - self.at
        if count < 0 or padded(count) > left:
            raise WireError(f"{what} needs {padded(count)} bytes and {left} are left; the message is cut off or a length lies")
        begin = self.at
        self.at += padded(count)
        return self.buffer.slice(begin, count)

    def absent(self, arrow: pa.DataType, count: int) -> pa.Array:
        """A column without a value. All of them share one buffer, so that a message grows no more than twofold by them."""
        if self._nothing.size < 8 * (count + 1):
            self._nothing = pa.py_buffer(bytes(8 * (count + 1)))
        texts = [pa.py_buffer(b"")] if pa.types.is_string(arrow) or pa.types.is_binary(arrow) else []
        return pa.Array.from_buffers(arrow, count, [self._nothing, self._nothing, *texts], count)


def decode_columns(reader: Reader, space: Space, count: int) -> EventBatch:
    forms = reader.take(padded(len(space)), "the forms of the columns")[: len(space)].tobytes()
    reader.need(8 * count, f"the ids of {count} events")
    buffers = _Buffers(reader.data[reader.at :])
    ids = pa.Array.from_buffers(pa.int64(), count, [None, buffers.take(8 * count, "the ids")], 0)
    arrays = []
    for form, (name, kind) in zip(forms, space.kinds.items(), strict=True):
        column = _column(buffers, kind.name if kind.element is None else "bytes", kind.stored, form, count, f"column {name}")
        try:
            column = column if kind.element is None else read_column(kind, column)
            column, complaints = check_column(space, name, column)
        except (EventError, ValueError, pa.ArrowException) as reason:
            raise WireError(f"column {name}: {reason}") from None
        if complaints:
            raise WireError(f"event {complaints[0].row}, attribute {name}: {complaints[0].reason}")
        arrays.append(column)
    reader.at += buffers.at
    return EventBatch(space, pa.RecordBatch.from_arrays(arrays, schema=space.arrow_schema), ids)


def _column(buffers: _Buffers, kind: str, arrow: pa.DataType, form: int, count: int, what: str) -> pa.Array:
    if form == ALL_ABSENT:
        return buffers.absent(arrow, count)
    if form not in (ALL_THERE, SOME_ABSENT):
        raise WireError(f"{what}: there is no form {form} of a column")
    there = buffers.take(-(-count // 8), f"{what}, presence") if form == SOME_ABSENT else None
    parts: list[Any] = [there]
    if kind in ("string", "bytes"):
        offsets = buffers.take(4 * (count + 1), f"{what}, offsets")
        (end,) = _OFFSET.unpack_from(offsets, 4 * count)
        parts += (offsets, buffers.take(end, f"{what}, text"))
    else:
        parts.append(buffers.take(-(-count // 8) if kind == "bool" else 8 * count, what))
    try:
        column = pa.Array.from_buffers(arrow, count, parts)
        column.validate(full=True)  # offsets ascend and stay inside, text is UTF-8; nobody may look at a value before
    except pa.ArrowInvalid as reason:
        raise WireError(f"{what}: {reason}") from None
    return column
