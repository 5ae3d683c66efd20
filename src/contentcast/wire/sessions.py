"""The message of a session: another message on a link that may lose, repeat and reorder, or only an acknowledgement.

Frame     session i64, number i64, of i64, acknowledged i64 | another message, or nothing
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from contentcast.wire.fields import Reader, packed
from contentcast.wire.form import Form, Message

FRAME: Final = struct.Struct("<qqqq")


@dataclass(frozen=True, slots=True, eq=False)
class Frame(Message):
    """Message `number` of a session, from 1; everything of the other side's session `of` up to `acknowledged` has arrived."""

    session: int
    number: int
    of: int
    acknowledged: int
    message: Message | None = None


def _encode(message: Frame) -> bytes:
    return packed(FRAME, "a Frame", message.session, message.number, message.of, message.acknowledged)


def _decode(reader: Reader) -> Frame:
    return Frame(*reader.unpack(FRAME, "a Frame"))


def _describe(message: Frame) -> str:
    return f"Frame {message.session}/{message.number} ack {message.of}/{message.acknowledged}"


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(5, Frame, _encode, _decode, _describe, nbytes=lambda _: FRAME.size, carries="message"),
)
