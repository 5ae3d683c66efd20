"""The messages of durable delivery, and the records of its log, which are written as messages.

    DurableInterest   incarnation, version i64, batches u32 | origin | subscriptions ...           topic, and record
    InForce           version, base, last i64                                                      origin to home
    Custody           base, after, position, version i64, pairs, missed u32 | rows | ids           origin to home
                      | missed | a Publish
    Have              subscription, upto i64, asks u8                                              home to origin, and record
    Kept              position, number i64, homes u32, pairs u32 | publisher | homes | versions    record of an origin
                      | how many pairs of each home | rows | ids | a Publish
    Taken             position i64, pairs, missed u32 | origin | rows | ids | missed | a Publish   record of a home

A *pair* is a row of the events and the id of a durable subscription that it satisfies. The *origin* is the broker where the
events entered, the *home* is the broker of the subscriber (`routing.durable`).
Rule: every row of a pair is a row of the events that the message carries.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from contentcast.model import SubscriptionBatch
from contentcast.wire.encodings.subscriptions import decode_subscriptions, encode_subscriptions
from contentcast.wire.fields import Ints, Reader, WireError, name_field, numbers_field, packed, texts_field, utf8
from contentcast.wire.form import Form, Message
from contentcast.wire.knowledge import WHOLE, Whole
from contentcast.wire.publishing import Publish

IN_FORCE: Final = struct.Struct("<qqq")
CUSTODY: Final = struct.Struct("<qqqqII")
HAVE: Final = struct.Struct("<qqB")
KEPT: Final = struct.Struct("<qqII")
TAKEN: Final = struct.Struct("<qII")
NONE: Final = np.empty(0, np.int64)


GONE: Final = 2**62
"""A version above all others of one life of a broker."""
BELIEVED: Final = 2**53
"""No broker comes so far: a higher position or version is made up."""


@dataclass(frozen=True, slots=True, eq=False)
class DurableInterest(Whole):
    """The durable subscriptions at `origin`. Its versions go on over all lives of the broker: they are counted in its log.

    The version GONE is told by others: the broker is gone for ever, and nothing is kept for it.
    """

    topic: ClassVar[str] = "durable interests"
    origin: str
    incarnation: int
    version: int
    subscriptions: tuple[SubscriptionBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class InForce(Message):
    """The sender filters by this version of the receiver's interests. 0: by none.

    `base` is its last position before the first version; `last` is its last position.
    """

    version: int
    base: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class Custody(Message):
    """The events of a position for one home: (after, position) is silence. `version` was in force there.

    `missed`: the subscriptions of pairs whose events a limit of the origin took, once for each event.
    """

    base: int
    after: int
    position: int
    version: int
    rows: Ints
    ids: Ints
    publish: Publish | None = None
    missed: Ints = field(default_factory=lambda: NONE)


@dataclass(frozen=True, slots=True)
class Have(Message):
    """To an origin (subscription 0): all positions up to this one are on my disk; `asks` for an InForce.

    As a record: the client of this subscription has all numbers up to this one.
    """

    subscription: int
    upto: int
    asks: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What one home wants of a batch, by the version in force: pairs of rows and ids of subscriptions."""

    home: str
    version: int
    rows: Ints
    ids: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Kept(Message):
    """Batch `number` of a publisher was accepted at this position."""

    position: int
    publisher: str
    number: int
    wanted: tuple[Wanted, ...] = ()
    publish: Publish | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Taken(Message):
    """What a home took of a position of an origin. `missed` as in the `Custody`."""

    origin: str
    position: int
    rows: Ints
    ids: Ints
    publish: Publish | None = None
    missed: Ints = field(default_factory=lambda: NONE)


# --- bytes


def _encode_interest(message: DurableInterest) -> bytes:
    batches = message.subscriptions
    head = packed(WHOLE, "a DurableInterest", message.incarnation, message.version, len(batches))
    return b"".join([head, name_field(message.origin, "the origin"), *map(encode_subscriptions, batches)])


def _decode_interest(reader: Reader) -> DurableInterest:
    incarnation, version, count = reader.unpack(WHOLE, "a DurableInterest")
    origin = reader.name("the origin")
    reader.need(count, f"{count} batches of durable subscriptions")
    return DurableInterest(origin, incarnation, version, tuple([decode_subscriptions(reader) for _ in range(count)]))


def _pairs(rows: Ints, ids: Ints) -> bytes:
    return numbers_field(rows) + numbers_field(ids)


def _read_pairs(reader: Reader, count: int) -> tuple[Ints, Ints]:
    return reader.within(count, 2**32, "the rows of pairs"), reader.numbers(count, "the subscriptions of pairs")


def _encode_custody(message: Custody) -> bytes:
    numbers = (message.base, message.after, message.position, message.version, len(message.rows), len(message.missed))
    return packed(CUSTODY, "a Custody", *numbers) + _pairs(message.rows, message.ids) + numbers_field(message.missed)


def _decode_custody(reader: Reader) -> Custody:
    base, after, position, version, count, missed = reader.unpack(CUSTODY, "a Custody")
    if not 0 <= base <= after < position:
        raise WireError(f"a Custody of position {position} after {after} with base {base} cannot be")
    rows, ids = _read_pairs(reader, count)
    return Custody(base, after, position, version, rows, ids, missed=reader.numbers(missed, "what was missed"))


def _decode_have(reader: Reader) -> Have:
    subscription, upto, asks = reader.unpack(HAVE, "a Have")
    return Have(subscription, upto, bool(asks))


def _encode_kept(message: Kept) -> bytes:
    wanted = message.wanted
    rows = np.concatenate([np.empty(0, np.int64), *(each.rows for each in wanted)])
    ids = np.concatenate([np.empty(0, np.int64), *(each.ids for each in wanted)])
    return b"".join(
        (
            packed(KEPT, "a Kept", message.position, message.number, len(wanted), len(rows)),
            name_field(message.publisher, "the publisher"),
            texts_field([utf8(each.home, "a home") for each in wanted]),
            numbers_field(np.array([each.version for each in wanted], np.int64)),
            numbers_field(np.array([len(each.rows) for each in wanted], np.int64)),
            _pairs(rows, ids),
        )
    )


def _decode_kept(reader: Reader) -> Kept:
    position, number, homes, pairs = reader.unpack(KEPT, "a Kept")
    publisher = reader.name("the publisher")
    names = reader.names(homes, "the homes")
    versions = reader.numbers(homes, "the versions of homes").tolist()
    counts = reader.within(homes, pairs + 1, "the pairs of homes")
    if int(counts.sum()) != pairs:
        raise WireError(f"a Kept has {pairs} pairs and its homes {int(counts.sum())}")
    rows, ids = _read_pairs(reader, pairs)
    ends = np.cumsum(counts).tolist()
    wanted = [
        Wanted(name, version, rows[end - count : end], ids[end - count : end])
        for name, version, count, end in zip(names, versions, counts.tolist(), ends, strict=True)
    ]
    return Kept(position, publisher, number, tuple(wanted))


def _encode_taken(message: Taken) -> bytes:
    head = packed(TAKEN, "a Taken", message.position, len(message.rows), len(message.missed))
    pairs = _pairs(message.rows, message.ids) + numbers_field(message.missed)
    return head + name_field(message.origin, "the origin") + pairs


def _decode_taken(reader: Reader) -> Taken:
    position, count, missed = reader.unpack(TAKEN, "a Taken")
    origin = reader.name("the origin")
    rows, ids = _read_pairs(reader, count)
    return Taken(origin, position, rows, ids, missed=reader.numbers(missed, "what was missed"))


def rows_of(message: Custody | Kept | Taken) -> tuple[Ints, ...]:
    """The arrays of rows in it."""
    return tuple(each.rows for each in message.wanted) if isinstance(message, Kept) else (message.rows,)


def check_rows(message: Custody | Kept | Taken) -> None:
    """Raises a `WireError` if it names rows that its events do not have. The events follow the fields, so who opens it asks."""
    name = type(message).__name__
    if not isinstance(message.publish, Publish):  # what a message carries may be of any type
        raise WireError(f"a {name} without its events")
    count = len(message.publish.events)
    for rows in rows_of(message):
        if len(rows) and int(rows.max()) >= count:
            raise WireError(f"a {name} names row {int(rows.max())} of {count} events")


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(
        60,
        DurableInterest,
        _encode_interest,
        _decode_interest,
        lambda told: (
            f"DurableInterest {told.origin}.{told.incarnation}/{told.version} "
            f"{[each for batch in told.subscriptions for each in batch.ids.tolist()]}"
        ),
        spaces=lambda told: [batch.space for batch in told.subscriptions],
    ),
    Form(
        61,
        InForce,
        lambda told: packed(IN_FORCE, "an InForce", told.version, told.base, told.last),
        lambda reader: InForce(*reader.unpack(IN_FORCE, "an InForce")),
        lambda told: f"InForce {told.version} from {told.base} to {told.last}",
        nbytes=lambda _: IN_FORCE.size,
    ),
    Form(
        62,
        Custody,
        _encode_custody,
        _decode_custody,
        lambda told: f"Custody ({told.after}, {told.position}] version {told.version} {len(told.rows)} pairs",
        carries="publish",
    ),
    Form(
        63,
        Have,
        lambda told: packed(HAVE, "a Have", told.subscription, told.upto, told.asks),
        _decode_have,
        lambda told: f"Have {told.subscription}: {told.upto}{' asks' if told.asks else ''}",
        nbytes=lambda _: HAVE.size,
    ),
    Form(
        64,
        Kept,
        _encode_kept,
        _decode_kept,
        lambda told: f"Kept {told.position} {told.publisher}/{told.number} for {[each.home for each in told.wanted]}",
        carries="publish",
    ),
    Form(
        65,
        Taken,
        _encode_taken,
        _decode_taken,
        lambda told: f"Taken {told.origin}/{told.position} {len(told.rows)} pairs",
        carries="publish",
    ),
)
