"""Messages of live connections: how two ends greet each other, and what clients and brokers say to each other.

    number  message     from, to             says
    66      Hello       whoever dialled      who I am, in which role, what I speak
    67      Welcome     the answer           who I am, and the limits that hold for you
    68      Failed      broker to anybody    what was wrong, with the request that it answers (0: the connection itself)
    69      Beat        both                 I live; the time of the sender, and the last time it heard
    70      Direct      broker to broker     another message that was sent to this broker, not over the link (`SendTo`)
    71      Addresses   broker to broker     where brokers listen, as far as known
    72      Subscribe   client to broker     subscriptions, by the client's own numbers; a number that is there is changed
    73      Withdraw    client to broker     these subscriptions or advertisements have ended
    74      Advertise   client to broker     what it may publish
    75      Spaces      both                 spaces by value: a client declares them, a sender names them before it uses them
    76      Post        client to broker     events, numbered by their publisher
    77      Done        broker to client     the answer to a request
    78      Delivery    broker to client     events, and for each the numbers of the subscriptions that it satisfies
    79      Ask         client to broker     look inside: spaces, state, why
    80      DurableDelivery   broker to client     events of one durable subscription, by their numbers there
    81      Acknowledge       client to broker     all events of durable subscriptions up to these numbers are done with

All but the three with events are msgpack maps of their fields, so that a later version may add one. The three with events:

    Post              number i64, events u32, form u8 (0x40: the events keep their ids) | publisher | space | events
    Delivery          missed i64, events u32, pairs u32, form u8 | space | events | pairs of each event | numbers
    DurableDelivery   number, first, missed i64, events u32, form u8 | space | events

Rule: as for every message, whatever the bytes are, `decode` gives a message or raises a `WireError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from contentcast.model import EventBatch, Space
from contentcast.wire.document import document
from contentcast.wire.encodings.columns import COLUMNS_FROM, decode_columns, encode_columns
from contentcast.wire.encodings.rows import decode_rows, encode_rows
from contentcast.wire.fields import Ints, Reader, WireError, name_field, numbers_field, packed, space_field
from contentcast.wire.form import Form, Message

PROTOCOL_VERSION: Final = 1
"""The version of these messages. A `Hello` says up to which version, and from which, its sender speaks."""

PASSING: Final = "~"
"""The name of a publisher that begins so belongs to one life of one client, which gives its numbers by itself."""

DURABLY: Final = ", durably"
"""A broker that keeps what it accepts says so behind its protocol: "link-matching, durably"."""

TOKEN_EXPIRED: Final = "token-expired"
"""`Failed.code` for a client whose token has expired since it connected: it may come back with another one."""

POST: Final = struct.Struct("<qIB")
DELIVERY: Final = struct.Struct("<qIIB")
DURABLE_DELIVERY: Final = struct.Struct("<qqqIB")
_COLUMNS: Final = 0x80
_KEEP_IDS: Final = 0x40


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """`role`: "link" and "direct" are brokers, "client" is a client. `key` proves that a client was there before."""

    role: str
    name: str
    version: int = PROTOCOL_VERSION
    least_version: int = PROTOCOL_VERSION
    incarnation: int = 0
    protocol: str = ""
    addresses: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Welcome(Message):
    """`window_events` and `window_bytes`: how much a client may publish before it has heard that it was accepted."""

    name: str
    version: int = PROTOCOL_VERSION
    incarnation: int = 0
    protocol: str = ""
    addresses: tuple[str, ...] = ()
    client: str = ""
    window_events: int = 0
    window_bytes: int = 0
    most_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Failed(Message):
    """`code` is a word for programs. For a predicate, `text` is what was asked and `offset` where it is wrong.

    `post`: the request is the number of a `Post`.
    """

    request: int
    code: str
    reason: str
    text: str = ""
    offset: int = 0
    post: bool = False


@dataclass(frozen=True, slots=True)
class Beat(Message):
    sent: float = 0.0
    heard: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Direct(Message):
    """What a router sent with `SendTo`: it did not come over the link, even if the link's connection brought it."""

    message: Message | None = None


@dataclass(frozen=True, slots=True)
class Addresses(Message):
    """Broker -> its incarnation and where it listens."""

    known: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Subscribe(Message):
    """`numbers[i]` asks for the text `predicates[i]`. `on_slow`: what becomes of a client that does not read fast enough.

    `durable`: the name of a durable subscription, which is one alone. The client has its events up to the number `after`; -1:
    up to the last that was acknowledged.
    """

    request: int
    space: str
    numbers: tuple[int, ...]
    predicates: tuple[str, ...]
    on_slow: str = ""
    durable: str = ""
    after: int = -1


@dataclass(frozen=True, slots=True)
class Withdraw(Message):
    """`what`: "subscriptions" or "advertisements"; "presence": the client goes, and its durable subscriptions stay.

    `names`: durable subscriptions that end by their names.
    """

    request: int
    what: str
    numbers: tuple[int, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advertise(Message):
    request: int
    space: str
    number: int
    predicate: str


@dataclass(frozen=True, slots=True)
class Spaces(Message):
    """Each as `Space.to_dict` describes it. `request` 0: they are only named, because what follows uses them."""

    request: int
    spaces: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, spaces: Iterable[Space], request: int = 0) -> Spaces:
        return cls(request, tuple(each.to_dict() for each in spaces))

    def read(self) -> list[Space]:
        """Raises a `SpaceError` for what is no space."""
        return [Space.from_dict(each) for each in self.spaces]


@dataclass(frozen=True, slots=True, eq=False)
class Post(Message):
    """Events as batch `number` of this publisher; a number that was accepted before is not published again.

    `keep_ids`: the events have ids from elsewhere, which they keep (a gateway's). The broker gives ids to all others.
    """

    number: int
    events: EventBatch
    publisher: str = ""
    keep_ids: bool = False


@dataclass(frozen=True, slots=True)
class Done(Message):
    """`post`: the request is the number of a `Post`, and all before it that did not fail were accepted as well."""

    request: int
    document: dict[str, Any] = field(default_factory=dict)
    post: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Delivery(Message):
    """Event i satisfies the subscriptions `numbers[ends[i - 1]:ends[i]]`. `missed`: events that were left out before these."""

    events: EventBatch
    ends: Ints
    numbers: Ints
    missed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DurableDelivery(Message):
    """Events `first`, `first` + 1, ... of the client's subscription `number`. `missed`: a limit took so many before them."""

    number: int
    first: int
    events: EventBatch
    missed: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledge(Message):
    """The client's subscription `numbers[i]` is done with all events up to `upto[i]`."""

    numbers: tuple[int, ...]
    upto: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ask(Message):
    request: int
    what: str
    document: dict[str, Any] = field(default_factory=dict)


# --- events


def encode_events(events: EventBatch) -> tuple[int, bytes]:
    """The form, and the space with the events: the same bytes for everybody who gets them."""
    if len(events) >= COLUMNS_FROM:
        return _COLUMNS, space_field(events.space) + encode_columns(events)
    return 0, space_field(events.space) + encode_rows(events)


def _decode_events(reader: Reader, count: int, form: int) -> EventBatch:
    if form not in (0, _COLUMNS):
        raise WireError(f"there is no form {form} of events")
    space = reader.space()
    return decode_columns(reader, space, count) if form else decode_rows(reader, space, count)


def _encode_post(message: Post) -> bytes:
    form, written = encode_events(message.events)
    kept = _KEEP_IDS if message.keep_ids else 0
    head = packed(POST, "a Post", message.number, len(message.events), form | kept)
    return b"".join((head, name_field(message.publisher, "a publisher"), written))


def _decode_post(reader: Reader) -> Post:
    number, count, form = reader.unpack(POST, "a Post")
    publisher = reader.name("a publisher")
    return Post(number, _decode_events(reader, count, form & ~_KEEP_IDS), publisher, bool(form & _KEEP_IDS))


def encode_delivery(count: int, form: int, written: bytes, pairs: Ints, numbers: Ints, missed: int) -> bytes:
    """The payload behind the type, for events that were written before. `pairs[i]`: how many numbers are event i's."""
    head = packed(DELIVERY, "a Delivery", missed, count, len(numbers), form)
    return b"".join((head, written, numbers_field(pairs), numbers_field(numbers)))


def _encode_delivery(message: Delivery) -> bytes:
    form, written = encode_events(message.events)
    pairs = np.diff(message.ends, prepend=0)
    return encode_delivery(len(message.events), form, written, pairs, message.numbers, message.missed)


def _decode_delivery(reader: Reader) -> Delivery:
    missed, count, pairs, form = reader.unpack(DELIVERY, "a Delivery")
    events = _decode_events(reader, count, form)
    each = reader.within(count, pairs + 1, "how many subscriptions each event satisfies")
    ends = np.cumsum(each)
    if (int(ends[-1]) if count else 0) != pairs:
        raise WireError(f"{pairs} pairs of events and subscriptions, and the events say {int(ends[-1]) if count else 0}")
    return Delivery(events, ends, reader.numbers(pairs, "the subscriptions"), missed)


def encode_durable_delivery(number: int, first: int, missed: int, events: EventBatch) -> bytes:
    form, written = encode_events(events)
    return packed(DURABLE_DELIVERY, "a DurableDelivery", number, first, missed, len(events), form) + written


def _decode_durable_delivery(reader: Reader) -> DurableDelivery:
    number, first, missed, count, form = reader.unpack(DURABLE_DELIVERY, "a DurableDelivery")
    return DurableDelivery(number, first, _decode_events(reader, count, form), missed)


FORMS: Final[tuple[Form[Any], ...]] = (
    document(66, Hello),
    document(67, Welcome),
    document(68, Failed),
    document(69, Beat),
    Form(70, Direct, lambda _: b"", lambda _: Direct(), lambda _: "Direct", nbytes=lambda _: 0, carries="message"),
    document(71, Addresses),
    document(72, Subscribe),
    document(73, Withdraw),
    document(74, Advertise),
    document(75, Spaces),
    Form(
        76,
        Post,
        _encode_post,
        _decode_post,
        lambda message: f"Post {message.publisher}/{message.number} {message.events.ids.to_pylist()}",
        spaces=lambda message: (message.events.space,),
    ),
    document(77, Done),
    Form(
        78,
        Delivery,
        _encode_delivery,
        _decode_delivery,
        lambda message: f"Delivery {message.events.ids.to_pylist()} missed={message.missed}",
        spaces=lambda message: (message.events.space,),
    ),
    document(79, Ask),
    Form(
        80,
        DurableDelivery,
        lambda message: encode_durable_delivery(message.number, message.first, message.missed, message.events),
        _decode_durable_delivery,
        lambda message: f"DurableDelivery {message.number}: {message.first} {len(message.events)} missed={message.missed}",
        spaces=lambda message: (message.events.space,),
    ),
    document(81, Acknowledge),
)
