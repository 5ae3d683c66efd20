"""One list as bytes, so that engines which know strings and bytes take lists too: equal lists have equal bytes.

    ['ab', null]  of strings     2 0 0 0 | 2 0 0 0 a b | 255 255 255 255          how many; each: its length and text, or no
    length [5, null]     of ints        2 0 0 0 | 1 5 0 0 0 0 0 0 0 | 0 0 0 0 0 0 0 0 0   how many; each: whether it is there,
    eight bytes

A column is written by NumPy, no list of it one by one.
Rule: -0.0 is written as 0.0, which it equals. `elements_of` gives back what was written, `read_column` checks every byte first.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.values.caches import weighed
from contentcast.model.values.keys import key_of, value_of
from contentcast.model.values.kinds import TIMESTAMP, Kind, Value

NO_TEXT: Final = 0xFFFFFFFF
"""Stands where a null has no length."""
_COUNT: Final = struct.Struct("<I")
_WIDE: Final = 9

Bytes = npt.NDArray[np.uint8]


def list_column(kind: Kind, column: pa.Array) -> pa.Array:
    """A column of lists as one of bytes; nulls stay. A column of anything else stays as it is."""
    if kind.element is None:
        return column
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    elements = column.flatten()
    sizes, written = _texts(elements) if kind.element.name == "string" else _numbers(kind.element, elements)
    first = np.concatenate([[0], np.cumsum(lengths)])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    starts = ends[first] + 4 * np.arange(len(lengths) + 1)
    text = np.zeros(int(starts[-1]), np.uint8)
    header = starts[:-1, None] + np.arange(4)
    text[header] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    rest = np.ones(len(text), np.bool_)
    rest[header] = False
    text[rest] = written
    nulls = None
    if column.null_count:
        nulls = pa.array(column.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
    offsets = pa.py_buffer(starts.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(column), [nulls, offsets, pa.py_buffer(text)])


def list_records(kinds: Mapping[str, Kind], records: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its columns of lists as bytes; itself if it has none."""
    if all(kind.element is None for kind in kinds.values()):
        return records
    names = records.schema.names
    columns = [
        list_column(kinds[name], column) if name in kinds else column
        for name, column in zip(names, records.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names) if columns else records


def _numbers(element: Kind, elements: pa.Array) -> tuple[npt.NDArray[np.int64], Bytes]:
    there = elements.is_valid().to_numpy(zero_copy_only=False)
    if element.name == "float":
        values = (elements.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0).astype("<f8").view(np.uint8)
    else:
        plain = elements.cast(pa.int64()) if element.name in ("timestamp", "bool") else elements
        values = plain.fill_null(0).to_numpy(zero_copy_only=False).astype("<i8").view(np.uint8)
    written = np.zeros((len(elements), _WIDE), np.uint8)
    written[:, 0] = there
    written[:, 1:] = values.reshape(-1, 8)
    written[~there, 1:] = 0
    return np.full(len(elements), _WIDE, np.int64), written.reshape(-1)


def _texts(elements: pa.Array) -> tuple[npt.NDArray[np.int64], Bytes]:
    there = elements.is_valid().to_numpy(zero_copy_only=False)
    raw = elements.fill_null("").cast(pa.binary())
    lengths = pc.binary_length(raw).to_numpy(zero_copy_only=False).astype(np.int64)
    joined = np.frombuffer(b"".join(raw.to_pylist()), np.uint8) if len(raw) < 64 else _joined(raw)
    sizes = 4 + lengths
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    written = np.zeros(int(sizes.sum()), np.uint8)
    header = starts[:, None] + np.arange(4)
    written[header] = np.where(there, lengths, NO_TEXT).astype("<u4").view(np.uint8).reshape(-1, 4)
    rest = np.ones(len(written), np.bool_)
    rest[header] = False
    written[rest] = joined
    return sizes, written


def _joined(raw: pa.Array) -> Bytes:
    offsets = np.frombuffer(raw.buffers()[1], np.int32)[raw.offset : raw.offset + len(raw) + 1]
    data = raw.buffers()[2]
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.zeros(0, np.uint8)


def list_value(kind: Kind, value: Value) -> Value:
    """One value as its bytes, if it is a list; without Arrow, which takes ten times as long for one."""
    if kind.element is None or value is None or isinstance(value, bytes):
        return value
    parts = [_COUNT.pack(len(value))]
    for each in value:
        if kind.element.name == "string":
            raw = b"" if each is None else each.encode()
            parts.append(_COUNT.pack(NO_TEXT if each is None else len(raw)) + raw)
        elif each is None:
            parts.append(bytes(_WIDE))
        elif kind.element.name == "float":
            parts.append(b"\1" + struct.pack("<d", each + 0.0))
        else:
            parts.append(b"\1" + struct.pack("<q", key_of(kind.element, each)))
    return b"".join(parts)


def size_of(value: Any) -> int:
    return int(_COUNT.unpack_from(value)[0]) if isinstance(value, bytes) else len(value)


def elements_of(element: Kind, value: Any) -> tuple[Value | None, ...]:
    """The elements of a list, or of the bytes of one."""
    return _read((element.name, value)) if isinstance(value, bytes) else tuple(value)


@weighed(8_000_000, lambda key: 300 + 20 * len(key[1]))  # type: ignore[index]
def _read(key: tuple[str, bytes]) -> tuple[Value | None, ...]:
    name, raw = key
    found: list[Value | None] = []
    (count,) = _COUNT.unpack_from(raw)
    at = 4
    for _ in range(count):
        if name == "string":
            (length,) = _COUNT.unpack_from(raw, at)
            at += 4
            found.append(None if length == NO_TEXT else raw[at : at + length].decode())
            at += 0 if length == NO_TEXT else length
        else:
            (number,) = struct.unpack_from("<d" if name == "float" else "<q", raw, at + 1)
            found.append(_as_value(name, number) if raw[at] else None)
            at += _WIDE
    if at != len(raw):
        raise ValueError("something follows the list")
    return tuple(found)


def _as_value(name: str, number: Any) -> Value:
    if name == "bool":
        return bool(number)
    return value_of(TIMESTAMP, number) if name == "timestamp" else number


def read_column(kind: Kind, column: pa.Array) -> pa.Array:
    """The lists that a column of bytes from elsewhere holds; raises ValueError where one is not what `list_column` writes."""
    element = kind.element
    assert element is not None
    lists: list[Any] = []
    for raw in column.to_pylist():
        if raw is None:
            lists.append(None)
            continue
        try:
            lists.append([None if each is None else element.check(each) for each in _read((element.name, raw))])
        except (struct.error, UnicodeDecodeError, OverflowError) as reason:
            raise ValueError(f"the bytes of {kind.article} are damaged: {reason}") from None
    found = pa.array(lists, kind.arrow)
    if not list_column(kind, found).equals(column):
        raise ValueError(f"the bytes of {kind.article} are not as they are written")
    return found
