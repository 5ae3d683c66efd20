"""The messages of subscription summaries: what a period propagates, what is missing, and events handed to any broker.

    Propagated   brokers, summaries, differences u32 | names | incarnations | which are whole | summaries | differences
    Lacking      brokers u32 | names
    Handed       number i64 | a Publish
    Arrived      number i64

Source: Triantafillou & Economides 2004, sections 4.2 and 4.3. `Propagated` is the message of Algorithm 2: the merged summary
and the set Merged_Brokers. Departs from it in two points: a period sends only what is new or gone, and says of each broker in
which of its lives it was; `Lacking`, `Handed` and `Arrived` repair what was lost, which the paper leaves out.
Rule: a broker that is `whole` has all its summaries in the message; the others have differences or whole spaces.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from contentcast.wire.fields import Reader, WireError, numbers_field, packed, texts_field, utf8
from contentcast.wire.form import Form, Message
from contentcast.wire.summaries.encoding import SummaryLike, decode_delta, decode_summary, encode_delta, encode_summary

PROPAGATED: Final = struct.Struct("<III")
LACKING: Final = struct.Struct("<I")
NUMBER: Final = struct.Struct("<q")


class MergedBroker(NamedTuple):
    """A broker of whose summary the message tells. `whole`: what was known of it before is dropped."""

    name: str
    incarnation: int
    whole: bool


@dataclass(frozen=True, slots=True, eq=False)
class Propagated(Message):
    """What the sender has merged and the receiver does not know yet."""

    brokers: tuple[MergedBroker, ...]
    summaries: tuple[SummaryLike, ...] = ()
    """One of a space, of all brokers whose summary of it is told whole."""
    differences: tuple[Any, ...] = ()
    """One of a broker and space: see `matching.summaries.Delta`."""


@dataclass(frozen=True, slots=True)
class Lacking(Message):
    """The receiver sent differences from what the sender does not have: it shall send these brokers' summaries whole."""

    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Handed(Message):
    """Events for a broker that may be no neighbour. `number` is the sender's; it is sent again until `Arrived` comes."""

    number: int
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class Arrived(Message):
    """What was handed under this number has come."""

    number: int


def _encode_propagated(message: Propagated) -> bytes:
    counts = (len(message.brokers), len(message.summaries), len(message.differences))
    try:
        incarnations = np.array([each.incarnation for each in message.brokers], np.int64)
    except OverflowError:
        raise WireError("an incarnation does not fit 64 bits") from None
    parts = [
        packed(PROPAGATED, "a Propagated", *counts),
        texts_field([utf8(each.name, "a broker") for each in message.brokers]),
        numbers_field(incarnations),
        np.packbits([each.whole for each in message.brokers], bitorder="little").tobytes(),
    ]
    return b"".join([*parts, *map(encode_summary, message.summaries), *map(encode_delta, message.differences)])


def _decode_propagated(reader: Reader) -> Propagated:
    brokers, summaries, differences = reader.unpack(PROPAGATED, "a Propagated")
    names = reader.names(brokers, "the brokers merged")
    if len(set(names)) != len(names):
        raise WireError("a broker stands twice among those merged")
    incarnations = reader.numbers(brokers, "the incarnations").tolist()
    flags = np.frombuffer(reader.take(-(-brokers // 8), "which brokers are whole"), np.uint8)
    bits = np.unpackbits(flags, bitorder="little")
    if bits[brokers:].any():
        raise WireError("more brokers are said to be whole than there are")
    reader.need(summaries + differences, f"{summaries} summaries and {differences} differences")
    merged = map(MergedBroker, names, incarnations, bits[:brokers].astype(bool).tolist())
    return Propagated(
        tuple(merged),
        tuple([decode_summary(reader) for _ in range(summaries)]),
        tuple([decode_delta(reader) for _ in range(differences)]),
    )


def _describe_propagated(message: Propagated) -> str:
    merged = ", ".join(f"{name}.{life}{'' if whole else ' new'}" for name, life, whole in message.brokers)
    told = [f"{each.space} {len(each.ids)} entries" for each in message.summaries]
    told += [f"{each.space} {each.broker} {each.since}>{each.version}" for each in message.differences]
    return f"Propagated {{{merged}}} {'; '.join(told)}".rstrip()


def _encode_lacking(message: Lacking) -> bytes:
    names = texts_field([utf8(each, "a broker") for each in message.brokers])
    return packed(LACKING, "a Lacking", len(message.brokers)) + names


def _decode_lacking(reader: Reader) -> Lacking:
    (count,) = reader.unpack(LACKING, "a Lacking")
    return Lacking(tuple(reader.names(count, "the brokers lacking")))


def _encode_number(message: Handed | Arrived) -> bytes:
    return packed(NUMBER, f"the number of what was {type(message).__name__.lower()}", message.number)


FORMS: Final[tuple[Form[Any], ...]] = (
    Form(10, Propagated, _encode_propagated, _decode_propagated, _describe_propagated),
    Form(11, Lacking, _encode_lacking, _decode_lacking, lambda message: f"Lacking {list(message.brokers)}"),
    Form(
        12,
        Handed,
        _encode_number,
        lambda reader: Handed(*reader.unpack(NUMBER, "a Handed")),
        lambda message: f"Handed {message.number}",
        nbytes=lambda _: NUMBER.size,
        carries="message",
    ),
    Form(
        13,
        Arrived,
        _encode_number,
        lambda reader: Arrived(*reader.unpack(NUMBER, "an Arrived")),
        lambda message: f"Arrived {message.number}",
        nbytes=lambda _: NUMBER.size,
    ),
)
