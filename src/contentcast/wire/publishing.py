"""The message that brings events: `Publish`, and what a family of protocols writes in its header beside them.

    Publish   incarnation i64, serial i64, events u32, form u8 | origin | space | events | header

`form` has a bit for each field of the header that is there (`header.FIELDS`), and 0x80 when the events stand by columns.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from contentcast.model import EventBatch
from contentcast.wire.encodings.columns import COLUMNS_FROM, decode_columns, encode_columns
from contentcast.wire.encodings.header import (
    NO_HEADER,
    Header,
    decode_header,
    encode_header,
    form_of,
    header_bytes,
    header_bytes_alone,
)
from contentcast.wire.encodings.rows import decode_rows, encode_rows
from contentcast.wire.encodings.sizes import events_bytes
from contentcast.wire.fields import SPACE_PRINT_BYTES, Ints, Reader, name_bytes, name_field, packed, space_field
from contentcast.wire.form import Form, Message

PUBLISH: Final = struct.Struct("<qqIB")
_COLUMNS: Final = 0x80


@dataclass(frozen=True, slots=True, eq=False)
class Publish(Message):
    """Events that entered the network at `origin`, as its batch number `serial` (of which these may be a part)."""

    origin: str
    incarnation: int
    serial: int
    events: EventBatch
    header: Header = NO_HEADER

    def take(self, rows: Ints) -> Publish:
        """The same with these events only, each with its part of the header."""
        return Publish(self.origin, self.incarnation, self.serial, self.events.take(rows), self.header.take(rows))

    def with_header(self, header: Header) -> Publish:
        return Publish(self.origin, self.incarnation, self.serial, self.events, header)


def _encode(message: Publish) -> bytes:
    count = len(message.events)
    by_columns = count >= COLUMNS_FROM
    form = form_of(message.header) | (_COLUMNS if by_columns else 0)
    return b"".join(
        (
            packed(PUBLISH, "a Publish", message.incarnation, message.serial, count, form),
            name_field(message.origin, "the origin"),
            space_field(message.events.space),
            encode_columns(message.events) if by_columns else encode_rows(message.events),
            encode_header(message.header, count),
        )
    )


def _decode(reader: Reader) -> Publish:
    incarnation, serial, count, form = reader.unpack(PUBLISH, "a Publish")
    origin = reader.name("the origin")
    space = reader.space()
    events = decode_columns(reader, space, count) if form & _COLUMNS else decode_rows(reader, space, count)
    return Publish(origin, incarnation, serial, events, decode_header(reader, form & ~_COLUMNS, count))


def _fixed_bytes(message: Publish) -> int:
    return PUBLISH.size + SPACE_PRINT_BYTES + name_bytes(message.origin) + name_bytes(message.events.space.name)


def _nbytes(message: Publish) -> int:
    return _fixed_bytes(message) + events_bytes(message.events) + header_bytes(message.header)


def _alone(message: Publish) -> Ints | int:
    return _fixed_bytes(message) + header_bytes_alone(message.header)


def _describe(message: Publish) -> str:
    ids = message.events.ids.tolist()
    return f"Publish {message.origin}.{message.incarnation}/{message.serial}{ids}{message.header}"


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(
        1,
        Publish,
        _encode,
        _decode,
        _describe,
        nbytes=_nbytes,
        spaces=lambda message: (message.events.space,),
        events=lambda message: message.events,
        alone=_alone,
    ),
)
