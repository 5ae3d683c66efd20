"""What the servers of a LAN tell each other: who wants what, the mapping specification, and repairs of what was lost.

    50  Wants       what the clients of one server want, and which mappings it honours     on the control group
    51  Ask         tell me again: your wants, your spaces, a mapping specification        on the control group
    52  Proposal    a mapping specification                                                on the control group
    53  Sequenced   a message with its number in the stream of its sender to this group
    54  Last        the number of the last message of a stream whose sender is idle
    55  Repair      these numbers of a stream did not come                                 on the control group
    56  Pass        these numbers of a stream are not for you, or are gone                 on the control group

    Wants      incarnation, since, version i64, flags u8, batches, removed, hears u32 | uses | hears | removed | wishes
    Proposal   number i64, rows, otherwise u32 | proposer | control | otherwise | qualities | groups | filters
    Sequenced  stream i64, number i64 | the message
    Repair     stream i64, ranges u32 | of | group | first numbers | last numbers

Source: Eide et al. 2003, sections 4.3.2, 4.5 and 5.3 for Wants; the others are ours.
Rule: a stream is named by its sender's incarnation, so numbers of an earlier life never fill gaps of a later one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from contentcast.model import Advertisement, SubscriptionBatch
from contentcast.wire.encodings.advertisements import decode_advertisements, encode_advertisements
from contentcast.wire.encodings.subscriptions import decode_subscriptions, encode_subscriptions
from contentcast.wire.fields import Reader, WireError, name_field, numbers_field, packed, texts_field, utf8
from contentcast.wire.form import Form, Message

WANTS: Final = struct.Struct("<qqqBIII")
ASK: Final = struct.Struct("<B")
PROPOSAL: Final = struct.Struct("<qII")
STREAM: Final = struct.Struct("<qq")
RANGES: Final = struct.Struct("<qI")
ID: Final = struct.Struct("<q")
LEAVING: Final = 1
PROMISES: Final = 2

MappingKey = tuple[int, str]
"""A mapping's number and its proposer."""
Spans = tuple[tuple[int, int], ...]
"""Numbers from the first to the last of each pair, both included; ascending."""


@dataclass(frozen=True, slots=True, eq=False)
class Wants(Message):
    """Takes what is known of the sender's wants from version `since` to `version`; `since` 0 is the whole.

    `since` equal to `version` says nothing new and refreshes. A subscriber of a batch is the quality of service asked for.
    `hears`: mappings whose groups the sender has joined; `uses`: the one by which it sends. `promises`: its clients advertise
    reliably, so nobody holds back what it wants.
    """

    incarnation: int
    since: int
    version: int
    added: tuple[SubscriptionBatch, ...] = ()
    removed: tuple[int, ...] = ()
    uses: MappingKey = (0, "")
    hears: tuple[MappingKey, ...] = ()
    leaving: bool = False
    promises: bool = False


@dataclass(frozen=True, slots=True)
class Ask(Message):
    """Asks one server (`of`), or all (""): to tell its wants and spaces, or the mapping with this key."""

    of: str = ""
    mapping: MappingKey | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Proposal(Message):
    """A mapping specification. Row i has the filter `filters[i]` and the group `groups[i]`, and may be reliable."""

    number: int
    proposer: str
    control: str
    otherwise: tuple[str, ...]
    groups: tuple[str, ...]
    reliable: tuple[bool, ...]
    filters: tuple[Advertisement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sequenced(Message):
    """Message `number` (from 1) of its sender's stream to the group on which it comes."""

    stream: int
    number: int
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class Last(Message):
    """The sender's stream to this group ends with `number` so far."""

    stream: int
    number: int


@dataclass(frozen=True, slots=True)
class Repair(Message):
    """Messages of these numbers of the stream of `of` to `group` have not come."""

    stream: int
    of: str
    group: str
    spans: Spans


@dataclass(frozen=True, slots=True)
class Pass(Message):
    """`to` need not wait for these numbers: they were not for it. `gone`: some were, and the sender no longer has them."""

    stream: int
    to: str
    group: str
    spans: Spans
    gone: int = 0


# --- Wants and Ask


def _key(key: MappingKey) -> bytes:
    return packed(ID, "the number of a mapping", key[0]) + name_field(key[1], "a proposer")


def _read_key(reader: Reader) -> MappingKey:
    (number,) = reader.unpack(ID, "the number of a mapping")
    return number, reader.name("a proposer")


def _encode_wants(message: Wants) -> bytes:
    try:
        removed = np.array(message.removed, np.int64)
    except OverflowError:
        raise WireError("the id of a removed subscription does not fit 64 bits") from None
    counts = (len(message.added), len(message.removed), len(message.hears))
    flags = LEAVING * message.leaving | PROMISES * message.promises
    head = packed(WANTS, "a Wants", message.incarnation, message.since, message.version, flags, *counts)
    keys = [_key(each) for each in (message.uses, *message.hears)]
    return b"".join([head, *keys, numbers_field(removed), *map(encode_subscriptions, message.added)])


def _decode_wants(reader: Reader) -> Wants:
    incarnation, since, version, flags, batches, count, heard = reader.unpack(WANTS, "a Wants")
    if flags & ~(LEAVING | PROMISES):
        raise WireError(f"a Wants has no flag {flags}")
    uses = _read_key(reader)
    reader.need(heard, f"{heard} mappings")
    hears = tuple([_read_key(reader) for _ in range(heard)])
    removed = tuple(reader.numbers(count, "the removed subscriptions").tolist())
    reader.need(batches, f"{batches} batches of subscriptions")
    added = tuple([decode_subscriptions(reader) for _ in range(batches)])
    leaving, promises = bool(flags & LEAVING), bool(flags & PROMISES)
    return Wants(incarnation, since, version, added, removed, uses, hears, leaving, promises)


def _describe_wants(message: Wants) -> str:
    more = " ".join(f"{batch.space.name}{batch.ids.tolist()}" for batch in message.added)
    said = f"Wants .{message.incarnation} {message.since}>{message.version} +({more}) -{list(message.removed)}"
    flags = f"{' leaving' if message.leaving else ''}{' promises' if message.promises else ''}"
    return f"{said} uses {message.uses[0]} hears {[key[0] for key in message.hears]}{flags}"


def _encode_ask(message: Ask) -> bytes:
    asked = b"" if message.mapping is None else _key(message.mapping)
    return packed(ASK, "an Ask", message.mapping is not None) + name_field(message.of, "who is asked") + asked


def _decode_ask(reader: Reader) -> Ask:
    (has_mapping,) = reader.unpack(ASK, "an Ask")
    return Ask(reader.name("who is asked"), _read_key(reader) if has_mapping else None)


# --- Proposal


def _encode_proposal(message: Proposal) -> bytes:
    if not len(message.groups) == len(message.filters) == len(message.reliable):
        raise WireError("a Proposal has a group, a filter and a quality for each row")
    head = packed(PROPOSAL, "a Proposal", message.number, len(message.filters), len(message.otherwise))
    names = name_field(message.proposer, "the proposer") + name_field(message.control, "the control group")
    groups = texts_field([utf8(each, "a group") for each in (*message.otherwise, *message.groups)])
    return b"".join((head, names, groups, bytes(message.reliable), encode_advertisements(message.filters)))


def _decode_proposal(reader: Reader) -> Proposal:
    number, rows, others = reader.unpack(PROPOSAL, "a Proposal")
    proposer, control = reader.name("the proposer"), reader.name("the control group")
    reader.need(rows + others, f"{rows + others} groups")
    groups = tuple(reader.names(others + rows, "the groups"))
    flags = reader.take(rows, "the qualities").tobytes()
    if any(each > 1 for each in flags):
        raise WireError("the quality of a row is 0 or 1")
    filters = decode_advertisements(reader, rows)
    return Proposal(number, proposer, control, groups[:others], groups[others:], tuple(map(bool, flags)), filters)


# --- streams


def _encode_sequenced(message: Sequenced | Last) -> bytes:
    return packed(STREAM, f"a {type(message).__name__}", message.stream, message.number)


def _decode_sequenced(reader: Reader) -> Sequenced:
    return Sequenced(*reader.unpack(STREAM, "a Sequenced"))


def _decode_last(reader: Reader) -> Last:
    return Last(*reader.unpack(STREAM, "a Last"))


def _spans(spans: Spans) -> bytes:
    try:
        ends = np.array(spans, np.int64).reshape(-1, 2)
    except OverflowError:
        raise WireError("the numbers of a stream do not fit 64 bits") from None
    return numbers_field(np.ascontiguousarray(ends[:, 0])) + numbers_field(np.ascontiguousarray(ends[:, 1]))


def _read_spans(reader: Reader, count: int) -> Spans:
    first = reader.numbers(count, "the first numbers")
    last = reader.numbers(count, "the last numbers")
    if (first > last).any() or (first[1:] <= last[:-1]).any():
        raise WireError("the numbers asked for stand in order")
    return tuple(zip(first.tolist(), last.tolist(), strict=True))


def _encode_repair(message: Repair) -> bytes:
    head = packed(RANGES, "a Repair", message.stream, len(message.spans))
    return head + name_field(message.of, "a sender") + name_field(message.group, "a group") + _spans(message.spans)


def _decode_repair(reader: Reader) -> Repair:
    stream, count = reader.unpack(RANGES, "a Repair")
    return Repair(stream, reader.name("a sender"), reader.name("a group"), _read_spans(reader, count))


def _encode_pass(message: Pass) -> bytes:
    head = packed(RANGES, "a Pass", message.stream, len(message.spans)) + packed(ID, "a Pass", message.gone)
    return head + name_field(message.to, "a receiver") + name_field(message.group, "a group") + _spans(message.spans)


def _decode_pass(reader: Reader) -> Pass:
    stream, count = reader.unpack(RANGES, "a Pass")
    (gone,) = reader.unpack(ID, "a Pass")
    return Pass(stream, reader.name("a receiver"), reader.name("a group"), _read_spans(reader, count), gone)


def _describe(message: Any) -> str:
    match message:
        case Ask(of, mapping):
            return f"Ask {of or 'all'}{f' mapping {mapping}' if mapping else ''}"
        case Proposal(number, proposer):
            return f"Proposal {number} by {proposer} {list(message.groups)}"
        case Sequenced(stream, number) | Last(stream, number):
            return f"{type(message).__name__} {stream}/{number}"
        case Repair(stream, of, group, spans):
            return f"Repair {of}.{stream} {group} {list(spans)}"
        case _:
            return f"Pass .{message.stream} {message.group} to {message.to} {list(message.spans)} gone {message.gone}"


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(
        50,
        Wants,
        _encode_wants,
        _decode_wants,
        _describe_wants,
        spaces=lambda message: [batch.space for batch in message.added],
    ),
    Form(51, Ask, _encode_ask, _decode_ask, _describe),
    Form(
        52,
        Proposal,
        _encode_proposal,
        _decode_proposal,
        _describe,
        spaces=lambda message: [each.space for each in message.filters],
    ),
    Form(53, Sequenced, _encode_sequenced, _decode_sequenced, _describe, nbytes=lambda _: STREAM.size, carries="message"),
    Form(54, Last, _encode_sequenced, _decode_last, _describe, nbytes=lambda _: STREAM.size),
    Form(55, Repair, _encode_repair, _decode_repair, _describe),
    Form(56, Pass, _encode_pass, _decode_pass, _describe),
)
