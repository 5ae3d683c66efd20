"""Messages of publish/subscribe on the structured overlay: going to keys, storing subscriptions, and what was matched.

    Posted         number i64 | another message                  to be acknowledged
    Acknowledged   number i64, flags u8
    Cast           targets u32, hops u16, flags u8 | lows | highs | rows | another message (Publish or Stored)
    Stored         incarnation i64, lifetime f64, subscriptions u8, versions u32, removed u32, flags u8 | broker | versions |
                   removed | their versions | subscriptions
    ArcDigest      low, high, digest u64, lifetime f64, flags u8 these subscriptions touch the arc (low, high]
    Held           low, high u64, count u32, flags u8 | brokers | incarnations | ids | versions
    Notices        notices u32 | brokers | middles | for each: length u32, Publish
    Mapping        version i64, flags u8 | proposer | the specification as JSON
    Between        sender | receiver | another message           from one place on the ring to another, of brokers with several

Those that keep the ring itself are in `chord`. Keys are unsigned and stand as the int64 of the same bits.
Rule: nodes go by their names; where a node stands on the ring follows from its name, so no message carries it.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.model import SubscriptionBatch
from contentcast.wire import publishing
from contentcast.wire.encodings.subscriptions import decode_subscriptions, encode_subscriptions
from contentcast.wire.fields import Ints, Reader, WireError, name_field, names_field, numbers_field, packed, texts_field, utf8
from contentcast.wire.form import Form, Message
from contentcast.wire.publishing import Publish

Keys = npt.NDArray[np.uint64]

NUMBER: Final = struct.Struct("<q")
ACKNOWLEDGED: Final = struct.Struct("<qB")
CAST: Final = struct.Struct("<IHB")
STORED: Final = struct.Struct("<qdBIIB")
ARC_DIGEST: Final = struct.Struct("<QQQdB")
HELD: Final = struct.Struct("<QQIB")
COUNT: Final = struct.Struct("<I")
MAPPING: Final = struct.Struct("<qB")
MOST_HOPS: Final = 65_535
LONGEST_LIFE_S: Final = 86_400.0
"""No subscription is kept for longer than a day without being renewed, whatever a message says."""
MOST_MAPPING_BYTES: Final = 1 << 20
LAST_MAPPING: Final = 2**62
_BACKGROUND, _FIRST, _DIRECT = 1, 2, 4


@dataclass(frozen=True, slots=True, eq=False)
class Posted(Message):
    """A message that is sent again until it is acknowledged, or given up."""

    number: int
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged(Message):
    """The sender has it. `done`: and all that it caused is where it should be."""

    number: int
    done: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Message):
    """For the nodes that cover the keys lows[i]..highs[i]: row `rows[i]` of what the message brings.

    `first`: the receiver is the sender's first successor, so all keys between them are its own. `direct`: the receiver stands
    in for somebody who has not got its subscriptions yet. `background`: it only renews what should be there.
    """

    lows: Keys
    highs: Keys
    rows: Ints
    hops: int = 0
    background: bool = False
    first: bool = False
    direct: bool = False
    message: Message | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Stored(Message):
    """Subscriptions of the clients of `broker`, in one of its lives; each with the number of its version. Removed ones too.

    They are to be kept for `lifetime_s`, unless renewed. `renewal`: nothing in it should be news.
    """

    broker: str
    incarnation: int
    lifetime_s: float
    batch: SubscriptionBatch | None
    versions: Ints
    removed: Ints
    removed_versions: Ints
    renewal: bool = False

    def __len__(self) -> int:
        return len(self.versions) + len(self.removed)

    def take(self, rows: Ints) -> Stored:
        """The subscriptions of these rows, ascending and each once; rows behind the subscriptions are removed ones."""
        count = len(self.versions)
        kept, gone = rows[rows < count], rows[rows >= count] - count
        batch = None if self.batch is None or not len(kept) else self.batch.take(kept)
        return Stored(
            self.broker,
            self.incarnation,
            self.lifetime_s,
            batch,
            self.versions[kept],
            self.removed[gone],
            self.removed_versions[gone],
            self.renewal,
        )


@dataclass(frozen=True, slots=True)
class ArcDigest(Message):
    """What the sender holds on the arc, as one number. `same`: an answer, the receiver holds the same.

    All that the sender holds there lives for at least `lifetime_s` more.
    """

    low: int
    high: int
    digest: int
    lifetime_s: float = 0.0
    same: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Held(Message):
    """Entry i: subscription ids[i] of brokers[i] in that life and version. `wanted`: send me these; else: I hold these."""

    low: int
    high: int
    wanted: bool
    brokers: tuple[str, ...]
    incarnations: Ints
    ids: Ints
    versions: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Notices(Message):
    """Events i were matched for broker i; they are gathered at the node that covers key middles[i]."""

    brokers: tuple[str, ...]
    middles: Keys
    publishes: tuple[Publish, ...]


@dataclass(frozen=True, slots=True)
class Mapping(Message):
    """A version of the mapping on its way round the ring, from its proposer back to it; `commit`: everybody has prepared it.

    `asked`: not on its way round, but the answer to somebody who has an older one.
    """

    version: int
    proposer: str
    specification: str
    commit: bool = False
    asked: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Between(Message):
    """A message from one place on the ring to another, where their brokers have several."""

    sender: str
    receiver: str
    message: Message | None = None


# --- bytes


def _keys_field(keys: Keys) -> bytes:
    return numbers_field(keys.view(np.int64))


def _decode_acknowledged(reader: Reader) -> Acknowledged:
    number, done = reader.unpack(ACKNOWLEDGED, "an Acknowledged")
    return Acknowledged(number, bool(done))


def _encode_cast(message: Cast) -> bytes:
    flags = _BACKGROUND * message.background | _FIRST * message.first | _DIRECT * message.direct
    head = packed(CAST, "a Cast", len(message.lows), message.hops, flags)
    return head + _keys_field(message.lows) + _keys_field(message.highs) + numbers_field(message.rows)


def _decode_cast(reader: Reader) -> Cast:
    count, hops, flags = reader.unpack(CAST, "a Cast")
    lows = reader.numbers(count, "the first keys").view(np.uint64)
    highs = reader.numbers(count, "the last keys").view(np.uint64)
    if (highs < lows).any():
        raise WireError("a Cast: a range of keys ends before it begins")
    rows = reader.within(count, 1 << 32, "the rows of a Cast")
    return Cast(lows, highs, rows, hops, bool(flags & _BACKGROUND), bool(flags & _FIRST), bool(flags & _DIRECT))


def _encode_stored(message: Stored) -> bytes:
    batch = message.batch
    head = packed(
        STORED,
        "a Stored",
        message.incarnation,
        message.lifetime_s,
        batch is not None,
        len(message.versions),
        len(message.removed),
        message.renewal,
    )
    return b"".join(
        (
            head,
            name_field(message.broker, "the broker"),
            numbers_field(message.versions),
            numbers_field(message.removed),
            numbers_field(message.removed_versions),
            b"" if batch is None else encode_subscriptions(batch),
        )
    )


def _decode_stored(reader: Reader) -> Stored:
    incarnation, lifetime_s, has_batch, count, gone, renewal = reader.unpack(STORED, "a Stored")
    broker = reader.name("the broker")
    versions = reader.numbers(count, "the versions")
    removed = reader.numbers(gone, "the removed")
    removed_versions = reader.numbers(gone, "the versions of the removed")
    batch = decode_subscriptions(reader) if has_batch else None
    if (0 if batch is None else len(batch)) != count:
        raise WireError(f"a Stored: {count} versions for {0 if batch is None else len(batch)} subscriptions")
    _check_lifetime("a Stored", lifetime_s)
    return Stored(broker, incarnation, lifetime_s, batch, versions, removed, removed_versions, bool(renewal))


def _decode_digest(reader: Reader) -> ArcDigest:
    low, high, digest, lifetime_s, same = reader.unpack(ARC_DIGEST, "an ArcDigest")
    _check_lifetime("an ArcDigest", lifetime_s)
    return ArcDigest(low, high, digest, lifetime_s, bool(same))


def _check_lifetime(what: str, lifetime_s: float) -> None:
    if not 0 <= lifetime_s <= LONGEST_LIFE_S:
        raise WireError(f"{what}: subscriptions live for 0 to {LONGEST_LIFE_S:,.0f} s unless renewed, not for {lifetime_s} s")


def _encode_held(message: Held) -> bytes:
    head = packed(HELD, "a Held", message.low, message.high, len(message.ids), message.wanted)
    columns = (numbers_field(each) for each in (message.incarnations, message.ids, message.versions))
    return head + names_field(message.brokers, "a broker") + b"".join(columns)


def _decode_held(reader: Reader) -> Held:
    low, high, count, wanted = reader.unpack(HELD, "a Held")
    brokers = tuple(reader.names(count, "the brokers"))
    incarnations, ids, versions = (reader.numbers(count, what) for what in ("the lives", "the ids", "the versions"))
    return Held(low, high, bool(wanted), brokers, incarnations, ids, versions)


def _encode_notices(message: Notices) -> bytes:
    parts = [
        packed(COUNT, "a Notices", len(message.publishes)),
        names_field(message.brokers, "a broker"),
        _keys_field(message.middles),
    ]
    for each in message.publishes:
        raw = publishing.FORMS[0].encode(each)
        parts += (packed(COUNT, "a notice", len(raw)), raw)
    return b"".join(parts)


def _decode_notices(reader: Reader) -> Notices:
    (count,) = reader.unpack(COUNT, "a Notices")
    brokers = tuple(reader.names(count, "the brokers"))
    middles = reader.numbers(count, "the middles").view(np.uint64)
    found = []
    for _ in range(count):
        (length,) = reader.unpack(COUNT, "the length of a notice")
        inside = Reader(reader.take(length, "a notice"), reader.spaces)
        found.append(publishing.FORMS[0].decode(inside))
        inside.end("a notice")
    return Notices(brokers, middles, tuple(found))


def _encode_mapping(message: Mapping) -> bytes:
    raw = utf8(message.specification, "a specification")
    if len(raw) > MOST_MAPPING_BYTES:
        raise WireError(f"a mapping of {len(raw):,} bytes; at most {MOST_MAPPING_BYTES:,} fit: learn fewer cuts")
    head = packed(MAPPING, "a Mapping", message.version, 1 * message.commit | 2 * message.asked)
    return head + name_field(message.proposer, "the proposer") + texts_field([raw])


def _decode_mapping(reader: Reader) -> Mapping:
    version, flags = reader.unpack(MAPPING, "a Mapping")
    if version > LAST_MAPPING:
        raise WireError(f"a Mapping of version {version}: there are at most {LAST_MAPPING}")
    proposer = reader.name("the proposer")
    (text,) = reader.names(1, "the specification")
    _check_specification(text)
    return Mapping(version, proposer, text, bool(flags & 1), bool(flags & 2))


def _check_specification(text: str) -> None:
    """Space -> attribute -> cuts; whether these are of the attribute's kind is known where the space is."""
    if len(text) > MOST_MAPPING_BYTES:
        raise WireError(f"a mapping of {len(text):,} characters; at most {MOST_MAPPING_BYTES:,} are accepted")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise WireError(f"a Mapping: its specification is not JSON: {reason}") from None
    spaces = found.values() if isinstance(found, dict) else [None]
    if not all(isinstance(mine, dict) and all(isinstance(cuts, list) for cuts in mine.values()) for mine in spaces):
        raise WireError("a Mapping: its specification has lists of cuts by attribute by space")


def _describe_cast(message: Cast) -> str:
    pairs = [f"{low:x}..{high:x}" for low, high in zip(message.lows.tolist()[:3], message.highs.tolist()[:3], strict=True)]
    more = f" and {len(message.lows) - 3} more" if len(message.lows) > 3 else ""
    flags = "".join(f" {name}" for name in ("background", "first", "direct") if getattr(message, name))
    return f"Cast{flags} {message.hops} {' '.join(pairs)}{more}:"


def _describe_stored(message: Stored) -> str:
    ids = [] if message.batch is None else message.batch.ids.tolist()
    gone = f" without {message.removed.tolist()}" if len(message.removed) else ""
    return f"Stored {message.broker}.{message.incarnation} {ids}{gone}{' renewal' if message.renewal else ''}"


def _encode_between(message: Between) -> bytes:
    return name_field(message.sender, "the sender") + name_field(message.receiver, "the receiver")


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(
        34,
        Posted,
        lambda message: packed(NUMBER, "a Posted", message.number),
        lambda reader: Posted(*reader.unpack(NUMBER, "a Posted")),
        lambda message: f"Posted {message.number}",
        nbytes=lambda _: NUMBER.size,
        carries="message",
    ),
    Form(
        35,
        Acknowledged,
        lambda message: packed(ACKNOWLEDGED, "an Acknowledged", message.number, message.done),
        _decode_acknowledged,
        lambda message: f"Acknowledged {message.number}{' done' if message.done else ''}",
        nbytes=lambda _: ACKNOWLEDGED.size,
    ),
    Form(36, Cast, _encode_cast, _decode_cast, _describe_cast, carries="message"),
    Form(
        37,
        Stored,
        _encode_stored,
        _decode_stored,
        _describe_stored,
        spaces=lambda message: [] if message.batch is None else [message.batch.space],
    ),
    Form(
        38,
        ArcDigest,
        lambda m: packed(ARC_DIGEST, "an ArcDigest", m.low, m.high, m.digest, m.lifetime_s, m.same),
        _decode_digest,
        lambda m: f"ArcDigest {m.low:x}..{m.high:x} {m.digest:x}{' same' if m.same else ''}",
        nbytes=lambda _: ARC_DIGEST.size,
    ),
    Form(
        39,
        Held,
        _encode_held,
        _decode_held,
        lambda m: f"Held {m.low:x}..{m.high:x} {'wants ' if m.wanted else ''}{m.ids.tolist()}",
    ),
    Form(
        40,
        Notices,
        _encode_notices,
        _decode_notices,
        lambda m: f"Notices {[(who, each.events.ids.tolist()) for who, each in zip(m.brokers, m.publishes, strict=True)]}",
        spaces=lambda message: [each.events.space for each in message.publishes],
    ),
    Form(
        41,
        Mapping,
        _encode_mapping,
        _decode_mapping,
        lambda m: f"Mapping {m.version} of {m.proposer}{' commit' if m.commit else ''}",
    ),
    Form(
        42,
        Between,
        _encode_between,
        lambda reader: Between(reader.name("the sender"), reader.name("the receiver")),
        lambda message: f"Between {message.sender} {message.receiver}",
        carries="message",
    ),
)
