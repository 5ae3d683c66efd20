"""The messages of covering: subscriptions that are passed on over one link, and events that were not advertised.

    Forwarded    incarnation, since, version i64, added u32, removed u32 | for each added: origin | subscriptions
                 | for each removed: origin | how many u32 | ids
    AskAgain     nothing
    Everywhere   a Publish

Each direction of a link has a table of subscriptions, numbered by who sends it within its incarnation. `Forwarded` takes the
table from version `since` to `version`; since 0 is the whole table. Who finds a gap sends `AskAgain` and gets the whole.
Rule: subscriptions travel with the broker where their clients are, and without the clients' names, which nobody else needs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from contentcast.model import SubscriptionBatch
from contentcast.wire.encodings.subscriptions import decode_subscriptions, encode_subscriptions
from contentcast.wire.fields import Reader, name_field, numbers_field, packed
from contentcast.wire.form import Form, Message

FORWARDED: Final = struct.Struct("<qqqII")
COUNT: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True, eq=False)
class Forwarded(Message):
    """`removed` goes, then `added` comes: (origin, ids) and (origin, subscriptions of one space)."""

    incarnation: int
    since: int
    version: int
    added: tuple[tuple[str, SubscriptionBatch], ...] = ()
    removed: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class AskAgain(Message):
    """The sender lacks something of the receiver's table for this link and wants it whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Everywhere(Message):
    """Events that their broker's clients did not advertise in a space with advertisements: they go to every broker."""

    message: Message | None = None


def _encode(message: Forwarded) -> bytes:
    counts = (len(message.added), len(message.removed))
    parts = [packed(FORWARDED, "a Forwarded", message.incarnation, message.since, message.version, *counts)]
    for origin, batch in message.added:
        parts += (name_field(origin, "an origin"), encode_subscriptions(batch))
    for origin, ids in message.removed:
        parts += (name_field(origin, "an origin"), packed(COUNT, "the ids", len(ids)), numbers_field(np.array(ids, np.int64)))
    return b"".join(parts)


def _decode(reader: Reader) -> Forwarded:
    incarnation, since, version, batches, removals = reader.unpack(FORWARDED, "a Forwarded")
    reader.need(batches + removals, f"{batches} batches of subscriptions and {removals} removals")
    added = tuple([(reader.name("an origin"), decode_subscriptions(reader)) for _ in range(batches)])
    removed = []
    for _ in range(removals):
        origin = reader.name("an origin")
        (count,) = reader.unpack(COUNT, "the number of removed subscriptions")
        removed.append((origin, tuple(reader.numbers(count, "the removed subscriptions").tolist())))
    return Forwarded(incarnation, since, version, added, tuple(removed))


@lru_cache(maxsize=8)
def _nbytes(message: Forwarded) -> int:
    return len(_encode(message))


def _describe(message: Forwarded) -> str:
    more = " ".join(f"{origin}:{batch.space.name}{batch.ids.tolist()}" for origin, batch in message.added)
    less = " ".join(f"{origin}:{list(ids)}" for origin, ids in message.removed)
    return f"Forwarded {message.incarnation} {message.since}>{message.version} +({more}) -({less})"


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(
        20,
        Forwarded,
        _encode,
        _decode,
        _describe,
        nbytes=_nbytes,
        spaces=lambda message: [batch.space for _, batch in message.added],
    ),
    Form(21, AskAgain, lambda _: b"", lambda _: AskAgain(), lambda _: "AskAgain", nbytes=lambda _: 0),
    Form(
        22,
        Everywhere,
        lambda _: b"",
        lambda _: Everywhere(),
        lambda _: "Everywhere",
        nbytes=lambda _: 0,
        carries="message",
    ),
)
