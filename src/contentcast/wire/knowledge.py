"""What brokers tell each other about themselves: numbered records over named topics, and how much each has heard.

    topic            message           what one version is
    links            Neighbours        all links of the broker
    spaces           DeclaredSpaces    all spaces that were declared at the broker
    interests        Interest          how the subscriptions of its clients have changed since a version
    advertisements   Advertisements    all advertisements of its clients

    Interest         incarnation, since, version i64, batches u32, removed u32 | origin | removed | subscriptions ...
    Neighbours       incarnation, version i64, links u32 | origin | names | delays f64 ...
    DeclaredSpaces   incarnation, version i64, spaces u32 | origin | each as JSON
    Advertisements   incarnation, version i64, advertisements u32 | origin | each (see `advertisements`)
    Known            brokers u32, topics u32 | topics | names | incarnations | a column of versions for each topic

A broker that starts again has forgotten what it told before, so what it tells is numbered within its *incarnation*.
Rule: only a broker itself makes versions of what it has, so equal versions are equal contents. Version 0 is "nothing heard".
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from contentcast.model import Advertisement, ContentcastError, Space, SubscriptionBatch
from contentcast.wire.encodings.advertisements import decode_advertisements, encode_advertisements
from contentcast.wire.encodings.subscriptions import decode_subscriptions, encode_subscriptions
from contentcast.wire.fields import Reader, WireError, name_field, numbers_field, packed, texts_field, utf8
from contentcast.wire.form import Form, Message

INTEREST: Final = struct.Struct("<qqqII")
WHOLE: Final = struct.Struct("<qqI")
KNOWN: Final = struct.Struct("<II")
MOST_SPACE_BYTES: Final = 1 << 20


class Told(Message):
    """A version of what one broker tells about a topic. `since` 0: the whole, and what was known before is dropped."""

    __slots__ = ()
    topic: ClassVar[str]
    origin: str
    incarnation: int
    version: int
    since: int


class Whole(Told):
    """A topic whose versions are told whole."""

    __slots__ = ()

    @property
    def since(self) -> int:  # type: ignore[override]  # a field of the topics that tell differences
        return 0


@dataclass(frozen=True, slots=True, eq=False)
class Interest(Told):
    """Takes what is known of `origin` from version `since` to `version`: `removed` goes, then `added` comes."""

    topic: ClassVar[str] = "interests"
    origin: str
    incarnation: int
    since: int
    version: int
    added: tuple[SubscriptionBatch, ...] = ()
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbours(Whole):
    """The links of `origin` in this version: neighbour and one-way delay in seconds. A link is there if both ends say so."""

    topic: ClassVar[str] = "links"
    origin: str
    incarnation: int
    version: int
    links: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class DeclaredSpaces(Whole):
    """The spaces declared at `origin` in this version, whole: who hears of them needs to know none of them before."""

    topic: ClassVar[str] = "spaces"
    origin: str
    incarnation: int
    version: int
    spaces: tuple[Space, ...]


@dataclass(frozen=True, slots=True)
class Advertisements(Whole):
    """What the clients of `origin` say in this version that they may publish."""

    topic: ClassVar[str] = "advertisements"
    origin: str
    incarnation: int
    version: int
    advertisements: tuple[Advertisement, ...]


class Mark(NamedTuple):
    """How far somebody has heard of a broker: in which of its lives, and up to which version of each topic."""

    incarnation: int
    versions: Mapping[str, int]

    def of(self, topic: str) -> int:
        return self.versions.get(topic, 0)


@dataclass(frozen=True, slots=True)
class Known(Message):
    """How much the sender has heard of each broker; the answer is what it lacks."""

    marks: Mapping[str, Mark] = field(default_factory=dict)


# --- Interest


def _encode_interest(message: Interest) -> bytes:
    counts = (len(message.added), len(message.removed))
    head = packed(INTEREST, "an Interest", message.incarnation, message.since, message.version, *counts)
    try:
        removed = np.array(message.removed, np.int64)
    except OverflowError:
        raise WireError("the id of a removed subscription does not fit 64 bits") from None
    parts = [head, name_field(message.origin, "the origin"), numbers_field(removed)]
    return b"".join([*parts, *map(encode_subscriptions, message.added)])


def _decode_interest(reader: Reader) -> Interest:
    incarnation, since, version, batches, count = reader.unpack(INTEREST, "an Interest")
    origin = reader.name("the origin")
    removed = tuple(reader.numbers(count, "the removed subscriptions").tolist())
    reader.need(batches, f"{batches} batches of subscriptions")
    added = tuple([decode_subscriptions(reader) for _ in range(batches)])
    return Interest(origin, incarnation, since, version, added, removed)


@lru_cache(maxsize=32)
def _interest_bytes(message: Interest) -> int:
    """Written once to see; a broker tells all its neighbours the same."""
    return len(_encode_interest(message))


def _describe_interest(message: Interest) -> str:
    more = " ".join(f"{batch.space.name}{batch.ids.tolist()}" for batch in message.added)
    versions = f"{message.since}>{message.version}"
    return f"Interest {message.origin}.{message.incarnation} {versions} +({more}) -{list(message.removed)}"


# --- the whole ones


def _head(message: Neighbours | DeclaredSpaces | Advertisements, count: int) -> bytes:
    head = packed(WHOLE, f"a {type(message).__name__}", message.incarnation, message.version, count)
    return head + name_field(message.origin, "the origin")


def _read_head(reader: Reader, what: str) -> tuple[str, int, int, int]:
    incarnation, version, count = reader.unpack(WHOLE, what)
    return reader.name("the origin"), incarnation, version, count


def _encode_neighbours(message: Neighbours) -> bytes:
    links = message.links
    delays = np.array([delay for _, delay in links], "<f8")
    _check_delays(message.origin, delays)
    names = texts_field([utf8(name, "a neighbour") for name, _ in links])
    return b"".join((_head(message, len(links)), names, delays.tobytes()))


def _decode_neighbours(reader: Reader) -> Neighbours:
    origin, incarnation, version, count = _read_head(reader, "a Neighbours")
    names = reader.names(count, "the neighbours")
    delays = reader.array("<f8", count, "the delays")
    _check_delays(origin, delays)
    return Neighbours(origin, incarnation, version, tuple(zip(names, delays.tolist(), strict=True)))


def _check_delays(origin: str, delays: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    if not (delays >= 0).all():
        raise WireError(f"a link of {origin!r} has a delay of {delays[~(delays >= 0)][0]} s; it cannot be below 0")


def _encode_spaces(message: DeclaredSpaces) -> bytes:
    texts = [json.dumps(each.to_dict(), separators=(",", ":")).encode() for each in message.spaces]
    for space, text in zip(message.spaces, texts, strict=True):
        if len(text) > MOST_SPACE_BYTES:
            raise WireError(f"the space {space.name!r} takes {len(text):,} bytes; at most {MOST_SPACE_BYTES:,} fit")
    return _head(message, len(texts)) + texts_field(texts)


def _decode_spaces(reader: Reader) -> DeclaredSpaces:
    origin, incarnation, version, count = _read_head(reader, "a DeclaredSpaces")
    found = []
    for text in reader.texts(count, "the spaces"):
        if len(text) > MOST_SPACE_BYTES:
            raise WireError(f"a space of {len(text):,} bytes; at most {MOST_SPACE_BYTES:,} are accepted")
        try:
            found.append(Space.from_dict(json.loads(text)))
        except (ValueError, RecursionError, TypeError, AttributeError, ContentcastError) as reason:
            raise WireError(f"a space that {origin!r} declares: {reason}") from None
    return DeclaredSpaces(origin, incarnation, version, tuple(found))


def _encode_advertisements(message: Advertisements) -> bytes:
    return _head(message, len(message.advertisements)) + encode_advertisements(message.advertisements)


def _decode_advertisements(reader: Reader) -> Advertisements:
    origin, incarnation, version, count = _read_head(reader, "an Advertisements")
    return Advertisements(origin, incarnation, version, decode_advertisements(reader, count))


def _describe_whole(message: Neighbours | DeclaredSpaces | Advertisements) -> str:
    match message:
        case Neighbours(links=links):
            told: list[Any] = list(links)
        case DeclaredSpaces(spaces=spaces):
            told = [each.name for each in spaces]
        case Advertisements(advertisements=advertisements):
            told = [each.id for each in advertisements]
    return f"{type(message).__name__} {message.origin}.{message.incarnation}/{message.version} {told}"


# --- Known


def _encode_known(message: Known) -> bytes:
    topics = sorted({topic for mark in message.marks.values() for topic in mark.versions})
    try:
        rows = [(mark.incarnation, *(mark.of(topic) for topic in topics)) for mark in message.marks.values()]
        marks = np.array(rows, np.int64).reshape(-1, 1 + len(topics))
    except OverflowError:
        raise WireError("a mark does not fit 64 bits") from None
    names = texts_field([utf8(name, "a broker") for name in message.marks])
    columns = [numbers_field(np.ascontiguousarray(marks[:, each])) for each in range(1 + len(topics))]
    heard = texts_field([utf8(each, "a topic") for each in topics])
    return b"".join((packed(KNOWN, "a Known", len(message.marks), len(topics)), heard, names, *columns))


def _decode_known(reader: Reader) -> Known:
    count, topic_count = reader.unpack(KNOWN, "a Known")
    topics = reader.names(topic_count, "the topics")
    if topics != sorted(set(topics)):
        raise WireError("the topics stand in order, each once")
    names = reader.names(count, "the brokers known")
    incarnations = reader.numbers(count, "the incarnations").tolist()
    columns = [reader.numbers(count, f"the versions of {topic}").tolist() for topic in topics]
    versions = zip(*columns, strict=True) if columns else [()] * count
    marks = {
        name: Mark(incarnation, {topic: each for topic, each in zip(topics, heard, strict=True) if each})
        for name, incarnation, heard in zip(names, incarnations, versions, strict=True)
    }
    if len(marks) != count:
        raise WireError("a broker stands twice among those known")
    return Known(marks)


def _describe_known(message: Known) -> str:
    shown = (
        f"{origin}: {mark.incarnation} {', '.join(f'{topic} {version}' for topic, version in sorted(mark.versions.items()))}"
        for origin, mark in sorted(message.marks.items())
    )
    return f"Known {{{'; '.join(shown)}}}"


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(
        2,
        Interest,
        _encode_interest,
        _decode_interest,
        _describe_interest,
        nbytes=_interest_bytes,
        spaces=lambda message: [batch.space for batch in message.added],
    ),
    Form(3, Neighbours, _encode_neighbours, _decode_neighbours, _describe_whole),
    Form(4, Known, _encode_known, _decode_known, _describe_known),
    Form(6, DeclaredSpaces, _encode_spaces, _decode_spaces, _describe_whole),
    Form(
        7,
        Advertisements,
        _encode_advertisements,
        _decode_advertisements,
        _describe_whole,
        spaces=lambda message: [each.space for each in message.advertisements],
    ),
)
