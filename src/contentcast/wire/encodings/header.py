"""The header of a Publish: what a family of protocols carries with the events. A field that is not there takes no byte.

    field           bit   for              who                      bytes
    subscriptions   0x01  each event       match-first              how many u32 | ids, 8 bytes each
    brokers         0x02  each event       two-tier, summaries      how many u32 | length u16 of each name, then all names
    keys            0x04  each event       overlay                  how many u32 | keys, 8 bytes each
    checked         0x08  the message      summaries (BROCLI)       how many u32 | length u16 of each name, then all names

Source: the header of match-first (Banavar et al. 1999, section 1), which grows with every destination; the list of brokers
already checked of Triantafillou and Economides 2004, section 4.3; the keys of Baldoni et al. 2005.
Rule: an event's lists take the same bytes whatever other lists stand beside them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.wire.encodings.columns import offsets_of
from contentcast.wire.fields import MOST_NAME_BYTES, Reader, WireError, utf8

Ints = npt.NDArray[np.int64]

COUNT_BYTES: Final = 4
ID_BYTES: Final = 8
NAME_LENGTH_BYTES: Final = 2
FIELDS: Final = ("subscriptions", "brokers", "keys")
"""The fields with a list for each event; bit i of the form is field i."""
CHECKED: Final = 0x08
_OF_NAMES: Final = frozenset({"brokers"})
_OFFSET: Final = struct.Struct("<i")


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """`subscriptions`, `brokers` and `keys` are list arrays with one list for each event; `checked` is of all of them."""

    subscriptions: pa.ListArray | None = None
    brokers: pa.ListArray | None = None
    keys: pa.ListArray | None = None
    checked: tuple[str, ...] = ()

    def take(self, rows: Ints) -> Header:
        if self.subscriptions is None and self.brokers is None and self.keys is None:
            return self
        chosen = pa.array(rows)
        return replace(self, **{name: values.take(chosen) for name, values in _lists(self)})

    def __str__(self) -> str:
        parts = [f" {name} {values.to_pylist()}" for name, values in _lists(self)]
        return "".join(parts) + (f" checked {list(self.checked)}" if self.checked else "")


NO_HEADER: Final = Header()


def _lists(header: Header) -> list[tuple[str, pa.ListArray]]:
    if header is NO_HEADER:
        return []
    found = ((name, getattr(header, name)) for name in FIELDS)
    return [(name, values) for name, values in found if values is not None]


def form_of(header: Header) -> int:
    if header is NO_HEADER:
        return 0
    form = CHECKED if header.checked else 0
    for name, values in _lists(header):
        kind = values.type
        fits = pa.types.is_string if name in _OF_NAMES else pa.types.is_int64
        if not isinstance(kind, pa.ListType) or not fits(kind.value_type):
            wanted = "list<string>" if name in _OF_NAMES else "list<int64>"
            raise WireError(f"the {name} of a header are {wanted}, not {kind}")
        form |= 1 << FIELDS.index(name)
    return form


# --- out


def encode_header(header: Header, events: int) -> bytes:
    if header is NO_HEADER:
        return b""
    parts = [_encode_lists(name, values, events) for name, values in _lists(header)]
    if header.checked:
        parts.append(_encode_checked(header.checked))
    return b"".join(parts)


def _encode_lists(name: str, lists: pa.ListArray, events: int) -> bytes:
    if len(lists) != events:
        raise WireError(f"{len(lists)} lists of {name} for {events} events")
    values = lists.flatten()
    if lists.null_count or values.null_count:
        raise WireError(f"a list of {name} may be empty, but neither it nor anything in it may be null")
    counts = list_lengths(lists).astype("<u4").tobytes()
    if name not in _OF_NAMES:
        return counts + bytes(np.asarray(values.to_numpy(), "<i8").tobytes())
    offsets = offsets_of(values)
    lengths = np.diff(offsets)
    if len(lengths) and int(lengths.max()) > MOST_NAME_BYTES:
        raise WireError(f"the name of a broker takes {int(lengths.max())} bytes; at most {MOST_NAME_BYTES} fit")
    data = values.buffers()[2]
    texts = data.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes() if data else b""
    return b"".join((counts, lengths.astype("<u2").tobytes(), texts))


def _encode_checked(names: Sequence[str]) -> bytes:
    raw = [utf8(each, "a broker that was checked") for each in names]
    lengths = np.array([len(each) for each in raw], np.int64)
    if int(lengths.max()) > MOST_NAME_BYTES:
        raise WireError(f"the name of a broker takes {int(lengths.max())} bytes; at most {MOST_NAME_BYTES} fit")
    return b"".join((struct.pack("<I", len(raw)), lengths.astype("<u2").tobytes(), *raw))


def list_lengths(lists: pa.ListArray) -> Ints:
    return np.diff(offsets_of(lists)).astype(np.int64)


# --- in


def decode_header(reader: Reader, form: int, events: int) -> Header:
    if not form:
        return NO_HEADER
    if form & ~(CHECKED | (1 << len(FIELDS)) - 1):
        raise WireError(f"there is no form {form} of a header")
    lists: dict[str, pa.ListArray] = {}
    for at, name in enumerate(FIELDS):
        if form & (1 << at):
            lists[name] = (_decode_names if name in _OF_NAMES else _decode_numbers)(reader, name, events)
    checked: tuple[str, ...] = ()
    if form & CHECKED:
        (count,) = reader.unpack(struct.Struct("<I"), "the brokers checked")
        checked = tuple(_names(reader, count, "the brokers checked").to_pylist())
        if not checked:
            raise WireError("a header without brokers checked does not say that it has them")
    return Header(**lists, checked=checked)


def _decode_numbers(reader: Reader, name: str, events: int) -> pa.ListArray:
    offsets, total = _read_offsets(reader, name, events)
    reader.need(total * ID_BYTES, f"{total} {name}")
    return pa.ListArray.from_arrays(offsets, pa.array(reader.array("<i8", total, f"the {name}")))


def _decode_names(reader: Reader, name: str, events: int) -> pa.ListArray:
    offsets, total = _read_offsets(reader, name, events)
    return pa.ListArray.from_arrays(offsets, _names(reader, total, f"the {name}"))


def _read_offsets(reader: Reader, name: str, events: int) -> tuple[pa.Array, int]:
    counts = reader.array("<u4", events, f"the lengths of the lists of {name}").astype(np.int64)
    total = int(counts.sum())
    reader.need(total, f"{total} {name}")  # each takes at least a byte, so the offsets below fit 32 bits
    return pa.array(_offsets(counts), pa.int32()), total


def _names(reader: Reader, count: int, what: str) -> pa.Array:
    reader.need(count * NAME_LENGTH_BYTES, f"{count} lengths of {what}")
    lengths = reader.array("<u2", count, f"the lengths of {what}").astype(np.int64)
    starts = _offsets(lengths)
    raw = reader.take(int(starts[-1]), f"the names of {what}").tobytes()
    names = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(raw)], 0)
    try:
        names.validate(full=True)
    except pa.ArrowInvalid as reason:
        raise WireError(f"{what}: {reason}") from None
    return names


def _offsets(lengths: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


# --- how many bytes


def header_bytes(header: Header) -> int:
    """Of all events together; the ends of the offsets say enough."""
    return sum(_lists_bytes(name, values) for name, values in _lists(header)) + _checked_bytes(header.checked)


def header_bytes_alone(header: Header) -> Ints | int:
    """For each event what its part of the header takes in a message of its own."""
    found: Ints | int = _checked_bytes(header.checked)
    for name, values in _lists(header):
        counts = list_lengths(values)
        if name in _OF_NAMES:
            ends = offsets_of(values.values)[offsets_of(values)].astype(np.int64)
            found = found + COUNT_BYTES + NAME_LENGTH_BYTES * counts + np.diff(ends)
        else:
            found = found + COUNT_BYTES + ID_BYTES * counts
    return found


def _checked_bytes(names: Sequence[str]) -> int:
    return COUNT_BYTES + sum(NAME_LENGTH_BYTES + len(each.encode()) for each in names) if names else 0


def _lists_bytes(name: str, lists: pa.ListArray) -> int:
    count, first = len(lists), lists.offset
    if not count:
        return 0
    begin, end = _ends(lists.buffers()[1], first, first + count)
    size = COUNT_BYTES * count
    if name not in _OF_NAMES:
        return size + ID_BYTES * (end - begin)
    size += NAME_LENGTH_BYTES * (end - begin)
    if begin == end:
        return size
    names = lists.values
    low, high = _ends(names.buffers()[1], names.offset + begin, names.offset + end)
    return size + high - low


def _ends(offsets: pa.Buffer, begin: int, end: int) -> tuple[int, int]:
    return _OFFSET.unpack_from(offsets, 4 * begin)[0], _OFFSET.unpack_from(offsets, 4 * end)[0]
