"""Whatever is encoded comes back as it was, takes as many bytes as was said, and no bytes at all bring down the decoder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contentcast.language import parse_predicate
from contentcast.model import Advertisement, Constraint, EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.wire import (
    NO_HEADER,
    Advertisements,
    DeclaredSpaces,
    Frame,
    Header,
    Interest,
    Known,
    Mark,
    Message,
    Neighbours,
    Publish,
    Unframer,
    WireError,
    bytes_alone,
    decode,
    encode,
    frame,
    message_bytes,
)
from contentcast.wire.encodings.columns import COLUMNS_FROM
from contentcast.wire.encodings.header import FIELDS
from contentcast.wire.fields import Reader, numbers_field
from contentcast.wire.multicast import Ask, Last, Pass, Proposal, Repair, Sequenced, Wants
from tests.properties.generate import Generator

NAMES = ["a", "desk-7", "", "Zürich", "\U0001f600", "a" * 300]
INT_ENDS = [0, 1, -1, 127, 128, -129, 2**15, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)]
seeds = st.randoms(use_true_random=False)


class Messages:
    """Random messages over one random space."""

    def __init__(self, random: Random) -> None:
        self.random, self.generate = random, Generator(random)
        self.space = self.generate.space(domains=self.generate.chance(0.3))

    @property
    def spaces(self) -> dict[str, Space]:
        return {self.space.name: self.space}

    def number(self) -> int:
        return self.random.choice([*INT_ENDS, self.random.randrange(1000)])

    def name(self) -> str:
        return self.random.choice(NAMES)

    def events(self, most: int = 5) -> EventBatch:
        """Also as a part of a larger batch, whose Arrow buffers begin before it and go on behind it."""
        count = self.random.randint(0, most)
        if self.generate.chance(0.1):
            count = COLUMNS_FROM + count
        ids = self.random.sample(range(-(10**6), 10**6), count + 3)
        whole = EventBatch.from_dicts(self.space, [self.generate.event(self.space) for _ in ids], ids=ids)
        return whole.slice(self.random.randint(0, 3), count)

    def header(self, events: int) -> Header:
        if self.generate.chance(0.4):
            return NO_HEADER
        lists = {
            field: self.lists(events, *((self.name, pa.string()) if field == "brokers" else (self.number, pa.int64())))
            for field in FIELDS
            if self.generate.chance(0.4)
        }
        checked = tuple(self.name() for _ in range(self.random.randint(0, 3))) if self.generate.chance(0.4) else ()
        return Header(**lists, checked=checked)

    def lists(self, events: int, draw: Callable[[], Any], kind: pa.DataType) -> pa.ListArray:
        """A part of a longer array."""
        drawn = [[draw() for _ in range(self.random.randint(0, 3))] for _ in range(events + 2)]
        return pa.array(drawn, pa.list_(kind)).slice(1, events)

    def advertisement(self) -> Advertisement:
        allowed = {}
        for name, kind in self.space.kinds.items():
            if self.generate.chance(0.5):
                drawn = parse_predicate(self.space, self.generate.text(self.space, 1))
                chosen = [found for each in drawn.conjunctions if (found := each.get(name)) is not None]
                allowed[name] = tuple(dict.fromkeys([*chosen, Constraint.present(kind)][: self.random.randint(1, 3)]))
        return Advertisement(self.number(), self.space, allowed, self.name())

    def subscriptions(self) -> SubscriptionBatch:
        """Sometimes taken from a larger batch, whose table then still has the values of all."""
        ids = sorted(self.random.sample(range(-(2**40), 2**40), self.random.randint(1, 6)))
        texts = [self.generate.text(self.space, 2) for _ in ids]
        batch = SubscriptionBatch.of(
            Subscription(number, parse_predicate(self.space, text), self.name())
            for number, text in zip(ids, texts, strict=True)
        )
        if self.generate.chance(0.5):
            return batch
        return batch.take(np.flatnonzero([self.generate.chance(0.5) for _ in ids]))

    def publish(self) -> Publish:
        events = self.events()
        return Publish(self.name(), self.number(), self.number(), events, self.header(len(events)))

    def keys(self) -> tuple[tuple[int, str], ...]:
        return tuple((self.number(), self.name()) for _ in range(self.random.randint(0, 3)))

    def spans(self) -> tuple[tuple[int, int], ...]:
        ends = sorted(self.random.sample(range(1, 10**6), 2 * self.random.randint(0, 3)))
        return tuple(zip(ends[::2], ends[1::2], strict=True))

    def lan(self) -> Message:
        number, name = self.number, self.name
        match self.random.choice(["wants", "ask", "proposal", "last", "repair", "pass"]):
            case "wants":
                added = tuple(self.subscriptions() for _ in range(self.random.randint(0, 2)))
                removed = tuple(number() for _ in range(self.random.randint(0, 3)))
                uses, leaving = (number(), name()), self.generate.chance(0.5)
                return Wants(number(), number(), number(), added, removed, uses, self.keys(), leaving)
            case "ask":
                return Ask(name(), (number(), name()) if self.generate.chance(0.5) else None)
            case "proposal":
                filters = tuple(self.advertisement() for _ in range(self.random.randint(0, 3)))
                reliable = tuple(self.generate.chance(0.5) for _ in filters)
                return Proposal(number(), name(), name(), (name(),), tuple(name() for _ in filters), reliable, filters)
            case "last":
                return Last(number(), number())
            case "repair":
                return Repair(number(), name(), name(), self.spans())
            case _:
                return Pass(number(), name(), name(), self.spans(), number())

    def plain(self) -> Message:
        match self.random.choice(["publish", "interest", "neighbours", "spaces", "advertisements", "known", "lan"]):
            case "lan":
                return self.lan()
            case "publish":
                return self.publish()
            case "interest":
                added = tuple(self.subscriptions() for _ in range(self.random.randint(0, 2)))
                removed = tuple(self.number() for _ in range(self.random.randint(0, 3)))
                return Interest(self.name(), self.number(), self.number(), self.number(), added, removed)
            case "neighbours":
                links = tuple((self.name(), self.random.choice([0.0, 0.01, 1e300])) for _ in range(self.random.randint(0, 3)))
                return Neighbours(self.name(), self.number(), self.number(), links)
            case "spaces":
                return DeclaredSpaces(self.name(), self.number(), self.number(), (self.space,) * self.random.randint(0, 1))
            case "advertisements":
                drawn = tuple(self.advertisement() for _ in range(self.random.randint(0, 2)))
                return Advertisements(self.name(), self.number(), self.number(), drawn)
            case _:
                chosen = self.random.sample(NAMES, self.random.randint(0, 4))
                topics = self.random.sample(["links", "interests", "Zürich"], self.random.randint(0, 3))
                return Known({name: Mark(self.number(), {each: self.number() or 1 for each in topics}) for name in chosen})

    def any(self) -> Message:
        if self.generate.chance(0.7):
            return self.plain()
        inside = self.plain() if self.generate.chance(0.7) else None
        if self.generate.chance(0.3):
            return Sequenced(self.number(), self.number(), inside)
        return Frame(self.number(), self.number(), self.number(), self.number(), inside)


def told(message: Message | None) -> Any:
    """All that a message says, as values that can be compared."""
    match message:
        case Publish(origin, incarnation, serial, events, header):
            there = [(name, getattr(header, name)) for name in FIELDS if getattr(header, name) is not None]
            lists = [(name, values.type, values.to_pylist()) for name, values in there], header.checked
            said = (events.space, events.ids.to_pylist(), events.records.to_pylist(), events.records.schema)
            return "publish", origin, incarnation, serial, said, lists
        case Interest(origin, incarnation, since, version, added, removed):
            batches = [(each.space, list(each)) for each in added]
            return "interest", origin, incarnation, since, version, batches, removed
        case Frame(session, number, of, acknowledged, inside):
            return "frame", session, number, of, acknowledged, told(inside)
        case Sequenced(stream, number, inside):
            return "sequenced", stream, number, told(inside)
        case Wants():
            batches = [(each.space, list(each)) for each in message.added]
            said = (message.incarnation, message.since, message.version, message.removed, message.uses, message.hears)
            return "wants", said, batches, message.leaving
        case Proposal():
            names = (message.number, message.proposer, message.control, message.otherwise, message.groups, message.reliable)
            return "proposal", names, message.filters
        case _:
            return message


@given(seeds)
def test_what_goes_in_comes_out(random: Random) -> None:
    messages = Messages(random)
    sent = messages.any()
    came = decode(encode(sent), messages.spaces)
    assert told(came) == told(sent)
    if isinstance(came, Publish):
        came.events.records.validate(full=True)


@given(seeds)
def test_the_size_that_is_said_is_the_size_that_is_sent(random: Random) -> None:
    messages = Messages(random)
    sent = messages.any()
    assert message_bytes(sent) == len(frame(encode(sent)))
    again = messages.publish()
    assert message_bytes(again) == message_bytes(again) == len(frame(encode(again)))


@given(seeds)
def test_sizes_by_columns_are_those_of_messages_of_one_event(random: Random) -> None:
    """What a columnar route step adds up for each event is what each would take as a message of its own."""
    messages = Messages(random)
    whole = messages.events(most=8)
    sent: Message = Publish(messages.name(), 1, 2, whole, messages.header(len(whole)))
    if messages.generate.chance(0.5):
        sent = Frame(1, 2, 3, 4, sent)
    for row, said in enumerate(bytes_alone(sent).tolist()):
        publish = sent.message if isinstance(sent, Frame) else sent
        assert isinstance(publish, Publish)
        alone = publish.take(np.array([row]))
        assert said == len(frame(encode(Frame(1, 2, 3, 4, alone) if isinstance(sent, Frame) else alone)))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300), max_size=40), st.booleans(), st.integers(1, 2**40))
def test_numbers_in_every_width(values: list[int], ascending: bool, step: int) -> None:
    chosen = [at * step - 2**62 for at in range(len(values))] if ascending else values
    array = np.array(chosen, np.int64)
    written = numbers_field(array)
    reader = Reader(written, {})
    assert reader.numbers(len(array), "numbers").tolist() == chosen
    reader.end("numbers")
    assert len(written) <= 1 + 8 * len(array)


@given(seeds)
def test_every_prefix_is_refused_with_the_reason(random: Random) -> None:
    """A Frame may end after its own numbers, where it says that it holds nothing; every other message has one end."""
    messages = Messages(random)
    whole = encode(messages.plain())
    for length in random.sample(range(len(whole)), min(len(whole), 40)):
        with pytest.raises(WireError, match=r"needs \d+ bytes"):
            decode(whole[:length], messages.spaces)


def decoded_or_refused(data: bytes, spaces: dict[str, Space]) -> None:
    """Whatever is accepted is sound: it can be written again, and read again as the same."""
    try:
        came = decode(data, spaces)
    except WireError:
        return
    if isinstance(came, Publish):
        came.events.records.validate(full=True)
    assert repr(told(decode(encode(came), spaces))) == repr(told(came))


@settings(max_examples=150)
@given(seeds)
def test_damaged_messages(random: Random) -> None:
    messages = Messages(random)
    whole = encode(messages.any())
    for _ in range(30):
        data = bytearray(whole)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(data))
            match random.choice(["bit", "byte", "end", "word", "cut", "more"]):
                case "bit":
                    data[at] ^= 1 << random.randrange(8)
                case "byte":
                    data[at] = random.randrange(256)
                case "end":
                    data[at] = random.choice([0, 1, 127, 128, 255])
                case "word":
                    data[at : at + 4] = random.choice([b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", bytes(4)])
                case "cut":
                    del data[at : at + random.randint(1, 8)]
                case "more":
                    data[at:at] = random.randbytes(random.randint(1, 8))
            if not data:
                break
        decoded_or_refused(bytes(data), messages.spaces)


@given(seeds, st.binary(max_size=200))
def test_random_bytes(random: Random, data: bytes) -> None:
    messages = Messages(random)
    decoded_or_refused(data, messages.spaces)
    decoded_or_refused(bytes([random.choice([*range(1, 8), *range(50, 57)])]) + data, messages.spaces)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=6), st.data())
def test_frames_come_out_whole_however_the_stream_is_cut(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, payloads))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    unframer = Unframer()
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += unframer.feed(stream[begin:end])
    unframer.end()
    assert found == payloads


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=4), st.data())
def test_one_changed_bit_never_passes_for_a_frame(payloads: list[bytes], data: st.DataObject) -> None:
    """A length that grew makes the stream wait; everything else is refused, and what came before it is not lost."""
    stream = bytearray(b"".join(map(frame, payloads)))
    bit = data.draw(st.integers(0, 8 * len(stream) - 1))
    stream[bit // 8] ^= 1 << bit % 8
    unframer = Unframer(most_bytes=2000)
    try:
        found = unframer.feed(stream)
        assert unframer.waiting
    except WireError as error:
        found = list(error.before)
    assert len(found) < len(payloads)
    assert found == payloads[: len(found)]


@given(st.binary(max_size=100))
def test_a_stream_of_anything(data: bytes) -> None:
    unframer = Unframer(most_bytes=1000)
    with suppress(WireError):
        assert unframer.feed(data) == []
        assert unframer.waiting == len(data)
