"""Messages as bytes and back: `encode(message)` and `decode(data, spaces)`; what bytes each field takes is on this page.

    Publish      1 | incarnation i64, serial i64, events u32, form u8 | origin | space | events | destinations
    Interest     2 | incarnation i64, since i64, version i64, batches u32, removed u32 | origin | removed | subscriptions ...
    Neighbours   3 | incarnation i64, version i64, links u32 | origin | names | delays f64 ...
    Known        4 | brokers u32 | names | incarnation, interest, neighbours of each
    Frame        5 | session i64, number i64, of i64, acknowledged i64 | another message, or nothing

A message names its space and does not carry it: both ends have declared it, and `spaces` finds it by the name.
Rule: `decode` gives back what `encode` was given or raises a WireError that says why not: whatever the bytes are, no other
exception, and no more memory than a small multiple of their number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from contentcast.wire.columns import COLUMNS_FROM, decode_columns, encode_columns
from contentcast.wire.destinations import decode_destinations, encode_destinations, form_of
from contentcast.wire.fields import Reader, Spaces, WireError, name_field, numbers_field, packed, space_field, texts_field, utf8
from contentcast.wire.messages import Frame, Interest, Known, Mark, Message, Neighbours, Publish
from contentcast.wire.rows import decode_rows, encode_rows
from contentcast.wire.subscriptions import decode_subscriptions, encode_subscriptions

PUBLISH: Final = struct.Struct("<BqqIB")
INTEREST: Final = struct.Struct("<BqqqII")
NEIGHBOURS: Final = struct.Struct("<BqqI")
KNOWN: Final = struct.Struct("<BI")
FRAME: Final = struct.Struct("<Bqqqq")

_COLUMNS: Final = 0x80
"""In a Publish's form: the events stand by columns. The lower bits are the form of its destinations."""


def encode(message: Message) -> bytes:
    """The payload for one frame."""
    match message:
        case Publish():
            return _encode_publish(message)
        case Interest():
            return _encode_interest(message)
        case Neighbours():
            return _encode_neighbours(message)
        case Known():
            return _encode_known(message)
        case Frame():
            if isinstance(message.message, Frame):
                raise WireError("a Frame holds a message of another type, not a Frame")
            head = packed(FRAME, "a Frame", 5, message.session, message.number, message.of, message.acknowledged)
            return head + encode(message.message) if message.message is not None else head
    raise WireError(f"expected {_EXPECTED}, got {type(message).__name__}")


def decode(data: bytes | bytearray | memoryview, spaces: Spaces) -> Message:
    """The message of one payload; `spaces` is a mapping by name, or a function that returns None for an unknown name."""
    reader = Reader(data, spaces)
    message = _decode(reader)
    reader.end(f"a {type(message).__name__}")
    return message


def _decode(reader: Reader, inside: bool = False) -> Message:
    reader.need(1, "the type of a message")
    number = reader.data[reader.at]
    known = _DECODERS.get(number)
    if known is None:
        raise WireError(f"expected {_EXPECTED}, got message type {number}")
    if inside and number == 5:
        raise WireError("a Frame holds a message of another type, not a Frame")
    return known(reader)


# --- Publish


def _encode_publish(message: Publish) -> bytes:
    count, destinations = len(message.events), message.destinations
    by_columns = count >= COLUMNS_FROM
    form = form_of(destinations) | (_COLUMNS if by_columns else 0)
    return b"".join(
        (
            packed(PUBLISH, "a Publish", 1, message.incarnation, message.serial, count, form),
            name_field(message.origin, "the origin"),
            space_field(message.events.space),
            encode_columns(message.events) if by_columns else encode_rows(message.events),
            b"" if destinations is None else encode_destinations(destinations, count),
        )
    )


def _decode_publish(reader: Reader) -> Publish:
    _, incarnation, serial, count, form = reader.unpack(PUBLISH, "a Publish")
    origin = reader.name("the origin")
    space = reader.space()
    events = decode_columns(reader, space, count) if form & _COLUMNS else decode_rows(reader, space, count)
    return Publish(origin, incarnation, serial, events, decode_destinations(reader, form & ~_COLUMNS, count))


# --- Interest


def _encode_interest(message: Interest) -> bytes:
    counts = (len(message.added), len(message.removed))
    head = packed(INTEREST, "an Interest", 2, message.incarnation, message.since, message.version, *counts)
    try:
        removed = np.array(message.removed, np.int64)
    except OverflowError:
        raise WireError("the id of a removed subscription does not fit 64 bits") from None
    parts = [head, name_field(message.origin, "the origin"), numbers_field(removed)]
    return b"".join([*parts, *map(encode_subscriptions, message.added)])


def _decode_interest(reader: Reader) -> Interest:
    _, incarnation, since, version, batches, count = reader.unpack(INTEREST, "an Interest")
    origin = reader.name("the origin")
    removed = tuple(reader.numbers(count, "the removed subscriptions").tolist())
    reader.need(batches, f"{batches} batches of subscriptions")
    added = tuple([decode_subscriptions(reader) for _ in range(batches)])
    return Interest(origin, incarnation, since, version, added, removed)


# --- Neighbours and Known


def _encode_neighbours(message: Neighbours) -> bytes:
    links = message.links
    head = packed(NEIGHBOURS, "a Neighbours", 3, message.incarnation, message.version, len(links))
    delays = np.array([delay for _, delay in links], "<f8")
    _check_delays(message.origin, delays)
    names = texts_field([utf8(name, "a neighbour") for name, _ in links])
    return b"".join((head, name_field(message.origin, "the origin"), names, delays.tobytes()))


def _decode_neighbours(reader: Reader) -> Neighbours:
    _, incarnation, version, count = reader.unpack(NEIGHBOURS, "a Neighbours")
    origin = reader.name("the origin")
    names = reader.names(count, "the neighbours")
    delays = reader.array("<f8", count, "the delays")
    _check_delays(origin, delays)
    return Neighbours(origin, incarnation, version, tuple(zip(names, delays.tolist(), strict=True)))


def _check_delays(origin: str, delays: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    if not (delays >= 0).all():
        raise WireError(f"a link of {origin!r} has a delay of {delays[~(delays >= 0)][0]} s; it cannot be below 0")


def _encode_known(message: Known) -> bytes:
    try:
        marks = np.array([tuple(mark) for mark in message.marks.values()], np.int64).reshape(-1, 3)
    except OverflowError:
        raise WireError("a mark does not fit 64 bits") from None
    names = texts_field([utf8(name, "a broker") for name in message.marks])
    columns = [numbers_field(np.ascontiguousarray(marks[:, each])) for each in range(3)]
    return b"".join((packed(KNOWN, "a Known", 4, len(message.marks)), names, *columns))


def _decode_known(reader: Reader) -> Known:
    _, count = reader.unpack(KNOWN, "a Known")
    names = reader.names(count, "the brokers known")
    columns = [reader.numbers(count, f"the marks, {each}").tolist() for each in Mark._fields]
    marks = {name: Mark(*each) for name, each in zip(names, zip(*columns, strict=True), strict=True)}
    if len(marks) != count:
        raise WireError("a broker stands twice among those known")
    return Known(marks)


# --- Frame


def _decode_frame(reader: Reader) -> Frame:
    _, session, number, of, acknowledged = reader.unpack(FRAME, "a Frame")
    inside = _decode(reader, inside=True) if reader.left else None
    return Frame(session, number, of, acknowledged, inside)


_DECODERS: Final[dict[int, Callable[[Reader], Message]]] = {
    1: _decode_publish,
    2: _decode_interest,
    3: _decode_neighbours,
    4: _decode_known,
    5: _decode_frame,
}
_EXPECTED: Final = "Publish, Interest, Neighbours, Known or Frame"
