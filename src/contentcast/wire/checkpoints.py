"""Records by which a broker's log can be trimmed: the whole state of durable delivery, and what was dropped by limits.

    Checkpoint   records u32 | lengths u32 | the records      everything before it in the log is not needed any more
    Tables       as a document                                positions, versions and numbers
    Owed         home | a Custody                             what an origin has to send to a home
    Waiting      subscription, first i64 | a Publish          what waits for a durable subscription, by its numbers
    Stripped     home, upto as a document                     an origin's batches for a home lost their events by a limit
    Dropped      subscription, upto as a document             a subscription's events up to this number were dropped by a limit

Rule: a checkpoint is one record, so it is whole or it is not there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import numpy as np

from contentcast.wire.document import document
from contentcast.wire.durable import Custody
from contentcast.wire.fields import Reader, name_field, packed
from contentcast.wire.form import Form, Message
from contentcast.wire.publishing import Publish

COUNT: Final = struct.Struct("<I")
WAITING: Final = struct.Struct("<qq")
CHECKPOINT: Final = 82


@dataclass(frozen=True, slots=True)
class Checkpoint(Message):
    """Messages, each as its bytes, that tell the whole state."""

    records: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Tables(Message):
    last: int
    """The last position of this origin."""
    publishers: dict[str, tuple[int, int]]
    """The last number of each publisher, and its position."""
    homes: dict[str, tuple[int, int]]
    """Base, and the last position that the home wants something of."""
    have: dict[str, int]
    """Origin -> the last position taken."""
    held: dict[int, tuple[int, int, int]]
    """Durable subscription -> the version with which it began, the last number given, the last acknowledged."""
    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Publisher -> the numbers below its last that were not accepted, as ranges. An older broker wrote none."""


@dataclass(frozen=True, slots=True, eq=False)
class Owed(Message):
    home: str
    custody: Custody | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Waiting(Message):
    subscription: int
    first: int
    publish: Publish | None = None


@dataclass(frozen=True, slots=True)
class Stripped(Message):
    home: str
    upto: int


@dataclass(frozen=True, slots=True)
class Dropped(Message):
    subscription: int
    upto: int


def _encode_checkpoint(message: Checkpoint) -> bytes:
    lengths = np.array([len(each) for each in message.records], "<u4")
    return b"".join([COUNT.pack(len(message.records)), lengths.tobytes(), *message.records])


def _decode_checkpoint(reader: Reader) -> Checkpoint:
    (count,) = reader.unpack(COUNT, "a Checkpoint")
    lengths = reader.array("<u4", count, "the lengths of records").tolist()
    whole = reader.take(sum(lengths), "the records of a Checkpoint")
    ends = list(accumulate(lengths))
    return Checkpoint(tuple(bytes(whole[end - size : end]) for size, end in zip(lengths, ends, strict=True)))


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(
        CHECKPOINT,
        Checkpoint,
        _encode_checkpoint,
        _decode_checkpoint,
        lambda message: f"Checkpoint {len(message.records)} records",
    ),
    document(83, Tables),
    Form(
        84,
        Owed,
        lambda message: name_field(message.home, "the home"),
        lambda reader: Owed(reader.name("the home")),
        lambda message: f"Owed to {message.home}",
        carries="custody",
    ),
    Form(
        85,
        Waiting,
        lambda message: packed(WAITING, "a Waiting", message.subscription, message.first),
        lambda reader: Waiting(*reader.unpack(WAITING, "a Waiting")),
        lambda message: f"Waiting {message.subscription}: {message.first}",
        carries="publish",
    ),
    document(86, Stripped),
    document(87, Dropped),
)
