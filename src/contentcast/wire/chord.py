"""Messages of the ring that the structured overlay stands on: who is next to whom, and who stands before a key.

    Ask            flags u8, mapping i64                         tell me what you know of the ring
    Answer         successors u32, mapping i64 | predecessor | successors
    Locate         key u64, hops u16 | asker                     who stands before this key? It answers the asker
    Leaving        successors u32 | predecessor | successors

Rule: nodes go by their names; where a node stands on the ring follows from its name, so no message carries it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from contentcast.wire.fields import Reader, name_field, names_field, packed
from contentcast.wire.form import Form, Message

ASK: Final = struct.Struct("<Bq")
ANSWER: Final = struct.Struct("<Iq")
LOCATE: Final = struct.Struct("<QH")
LEAVING: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Ask(Message):
    """What do you know of the ring? `notify`: you are my first successor. `mapping`: the version of the asker's mapping."""

    notify: bool
    mapping: int = 0


@dataclass(frozen=True, slots=True)
class Answer(Message):
    """What the sender knows of the ring; alone on it, it is its own predecessor and has no successors."""

    predecessor: str
    successors: tuple[str, ...]
    mapping: int = 0


@dataclass(frozen=True, slots=True)
class Locate(Message):
    """The node that has the key between itself and its first successor answers `asker`."""

    key: int
    asker: str
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Leaving(Message):
    """The sender leaves the ring; these were its neighbours."""

    predecessor: str
    successors: tuple[str, ...]


def _encode_answer(message: Answer) -> bytes:
    head = packed(ANSWER, "an Answer", len(message.successors), message.mapping)
    return head + name_field(message.predecessor, "the predecessor") + names_field(message.successors, "a successor")


def _decode_answer(reader: Reader) -> Answer:
    count, mapping = reader.unpack(ANSWER, "an Answer")
    before = reader.name("the predecessor")
    return Answer(before, tuple(reader.names(count, "the successors")), mapping)


def _decode_ask(reader: Reader) -> Ask:
    notify, mapping = reader.unpack(ASK, "an Ask")
    return Ask(bool(notify), mapping)


def _encode_locate(message: Locate) -> bytes:
    return packed(LOCATE, "a Locate", message.key, message.hops) + name_field(message.asker, "the asker")


def _decode_locate(reader: Reader) -> Locate:
    key, hops = reader.unpack(LOCATE, "a Locate")
    return Locate(key, reader.name("the asker"), hops)


def _encode_leaving(message: Leaving) -> bytes:
    head = packed(LEAVING, "a Leaving", len(message.successors))
    return head + name_field(message.predecessor, "the predecessor") + names_field(message.successors, "a successor")


def _decode_leaving(reader: Reader) -> Leaving:
    (count,) = reader.unpack(LEAVING, "a Leaving")
    before = reader.name("the predecessor")
    return Leaving(before, tuple(reader.names(count, "the successors")))


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(
        30,
        Ask,
        lambda message: packed(ASK, "an Ask", message.notify, message.mapping),
        _decode_ask,
        lambda message: f"Ask{' notify' if message.notify else ''}",
        nbytes=lambda _: ASK.size,
    ),
    Form(31, Answer, _encode_answer, _decode_answer, lambda m: f"Answer {m.predecessor} {list(m.successors)}"),
    Form(32, Locate, _encode_locate, _decode_locate, lambda m: f"Locate {m.key:x} for {m.asker}"),
    Form(33, Leaving, _encode_leaving, _decode_leaving, lambda m: f"Leaving {m.predecessor} {list(m.successors)}"),
)
