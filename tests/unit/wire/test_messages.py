"""One of each message there and back, with the bytes spelled out where somebody else may want to read them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from contentcast.language import parse_many, parse_predicate
from contentcast.model import EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.wire import (
    Frame,
    Header,
    Interest,
    Known,
    Mark,
    Neighbours,
    Publish,
    WireError,
    decode,
    encode,
    frame,
    message_bytes,
)
from contentcast.wire.encodings.columns import COLUMNS_FROM
from contentcast.wire.encodings.sizes import event_bytes
from contentcast.workload import scenario

TRADES = Space("trades", issue="string", price="float", volume="int")
EVERY = Space("every", s="string", i="int", f="float", b="bool", t="timestamp", r="bytes")
SPACES = {"trades": TRADES, "every": EVERY}
TRADE = {"issue": "IBM", "price": 119.5}


def batch(*predicates: str, first: int = 1) -> SubscriptionBatch:
    return SubscriptionBatch.of(
        Subscription(first + at, parse_predicate(TRADES, text), f"desk-{at % 2}") for at, text in enumerate(predicates)
    )


def test_a_trade_byte_by_byte() -> None:
    """The row of the docstring of `rows`: id, one byte of presence, a length and three letters, a double."""
    events = EventBatch.from_dicts(TRADES, [TRADE], ids=[7])
    row = bytes.fromhex("07000000000000000303000000") + b"IBM" + bytes.fromhex("0000000000e05d40")
    assert len(row) == 24 == event_bytes(events)[0]
    sent = encode(Publish("a", 1, 2, events))
    head = bytes.fromhex("01010000000000000002000000000000000100000000") + b"\1\0a" + b"\6\0trades"
    assert sent.startswith(head)
    assert sent.endswith(row)
    assert len(sent) == len(head) + 4 + len(row)  # 4: the print of the space


def test_every_kind_of_value_and_none_at_all() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows = [{"s": "Zürich", "i": -1, "f": -0.0, "b": True, "t": noon, "r": b"\0\xff"}, {}, {"b": False, "s": ""}]
    for times in (1, COLUMNS_FROM):
        events = EventBatch.from_dicts(EVERY, rows * times)
        came = decode(encode(Publish("a", 1, 2, events)), SPACES)
        assert isinstance(came, Publish)
        assert came.events.to_dicts() == rows * times
        assert came.events.ids == events.ids
        assert came.events.records.schema == EVERY.arrow_schema


def test_what_comes_by_columns_is_aligned() -> None:
    """Else Numba would compile the kernels a second time for it. The name of the origin moves the rest about."""
    events = EventBatch.from_dicts(TRADES, [TRADE] * COLUMNS_FROM)
    for origin in ("", "a", "ab", "abc", "abcd"):
        came = decode(encode(Publish(origin, 1, 2, events)), SPACES)
        assert isinstance(came, Publish)
        for column in (came.events.ids, came.events.records.column("price")):
            assert column.to_numpy().flags.aligned


def test_what_lies_under_an_absent_value_stays_at_home() -> None:
    secret = np.full(COLUMNS_FROM, 0x5EC5E7, np.int64)
    hidden = pa.Array.from_buffers(pa.int64(), COLUMNS_FROM, [pa.py_buffer(b"\1" + bytes(15)), pa.py_buffer(secret)])
    events = EventBatch.from_arrow(TRADES, pa.record_batch({"volume": hidden}))
    sent = encode(Publish("a", 1, 2, events))
    assert sent.count(b"\xe7\xc5\x5e") == 1


@pytest.mark.parametrize("lists", [[[4, 5, 6], []], [["b", "c"], ["Zürich"]], [[], []]])
def test_lists_in_the_header(lists: list[list[object]]) -> None:
    field, kind = ("brokers", pa.list_(pa.string())) if "b" in lists[0] else ("subscriptions", pa.list_(pa.int64()))
    sent = Publish("a", 1, 2, EventBatch.from_dicts(TRADES, [TRADE, TRADE]), Header(**{field: pa.array(lists, kind)}))
    came = decode(encode(sent), SPACES)
    assert isinstance(came, Publish)
    assert getattr(came.header, field).to_pylist() == lists
    assert getattr(came.header, field).type == kind


def test_interest_brings_equal_predicates() -> None:
    texts = [
        "issue = 'IBM' AND price < 120 AND volume > 1000",
        "price BETWEEN 5 AND 9 OR issue = 'SAP'",
        "issue LIKE '%X' AND issue NOT LIKE 'A%B'",
        "volume IS NULL OR price <> 3",
        "issue IN ('A', 'C') AND volume IN (1, 3, 5)",
        "TRUE",
        "FALSE",
        "issue IS NOT NULL",
    ]
    added = batch(*texts)
    came = decode(encode(Interest("b", 3, 4, 9, (added, batch("price < 1")), (-5, 2**60))), SPACES)
    assert isinstance(came, Interest)
    assert (came.origin, came.incarnation, came.since, came.version, came.removed) == ("b", 3, 4, 9, (-5, 2**60))
    assert list(came.added[0]) == list(added)
    assert [each.predicate for each in came.added[0]] == [parse_predicate(TRADES, text) for text in texts]
    assert list(came.added[1]) == list(batch("price < 1"))


def test_a_part_of_a_table_does_not_bring_the_values_of_the_whole() -> None:
    whole = batch(*(f"issue = 'issue-{at:04}' OR price IN ({at}, {at + 2})" for at in range(500)))
    part = whole.take(np.array([17]))
    sent = encode(Interest("b", 1, 0, 1, (part,)))
    assert len(sent) < 160
    assert b"issue-0017" in sent
    assert b"issue-0018" not in sent


@pytest.mark.parametrize("name", ["market", "gryphon", "summaries"])
def test_a_scenario_takes_fewer_bytes_than_its_texts(name: str) -> None:
    drawn = scenario(name, seed=3)
    texts = drawn.subscriptions(1000).column("predicate").to_pylist()
    table = parse_many(drawn.space, texts)
    added = SubscriptionBatch.columns(list(range(1000)), table, ["desk"] * 1000)
    sent = encode(Interest("b", 1, 0, 1, (added,)))
    assert len(sent) < 0.6 * sum(map(len, texts))
    came = decode(sent, {drawn.space.name: drawn.space})
    assert isinstance(came, Interest)
    assert list(came.added[0].table) == list(table)


def test_neighbours_known_and_frames() -> None:
    neighbours = Neighbours("a", 1, 7, (("b", 0.01), ("Zürich", 0.0)))
    known = Known({"a": Mark(1, {"interests": 2, "links": 3}), "b": Mark(2**60, {})})
    for message in (neighbours, known, Neighbours("a", 1, 1, ()), Known({})):
        assert decode(encode(message), SPACES) == message
        framed = decode(encode(Frame(9, 1, 8, 0, message)), SPACES)
        assert isinstance(framed, Frame)
        assert framed.message == message
    bare = decode(encode(Frame(9, 0, 8, 41)), SPACES)
    assert isinstance(bare, Frame)
    assert (bare.session, bare.number, bare.of, bare.acknowledged, bare.message) == (9, 0, 8, 41, None)


def test_a_resolver_may_find_the_space() -> None:
    sent = encode(Publish("a", 1, 2, EventBatch.from_dicts(TRADES, [TRADE])))
    asked: list[str] = []

    def find(name: str) -> Space:
        asked.append(name)
        return TRADES

    assert isinstance(decode(sent, find), Publish)
    assert asked == ["trades"]


def test_sizes_are_remembered_only_as_long_as_the_records_live() -> None:
    """Batches that come after each other often get the address of the one before; none gets its size."""
    for length in range(200):
        events = EventBatch.from_dicts(TRADES, [{"issue": "x" * (length % 7)}])
        sent = Publish("a", 1, length, events)
        assert message_bytes(sent) == message_bytes(sent) == len(frame(encode(sent)))
        del events, sent


def with_ids(lists: pa.Array) -> Publish:
    return Publish("a", 1, 2, EventBatch.from_dicts(TRADES, [TRADE]), Header(subscriptions=lists))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Publish("a", 2**63, 2, EventBatch.from_dicts(TRADES, [])), "a Publish does not fit the wire"),
        (
            Publish("a" * 70_000, 1, 2, EventBatch.from_dicts(TRADES, [])),
            "the name of the origin takes 70000 bytes; at most 65535",
        ),
        (Publish("\ud800", 1, 2, EventBatch.from_dicts(TRADES, [])), "is not text that UTF-8 can hold"),
        (with_ids(pa.array([[1], [2]])), "2 lists of subscriptions for 1 events"),
        (with_ids(pa.array([[1.5]])), "not list<item: double>|not list"),
        (with_ids(pa.array([[1, None]])), "neither it nor anything in it may be"),
        (Interest("a", 1, 0, 1, (), (2**63,)), "does not fit 64 bits"),
        (Known({"a": Mark(2**64, {})}), "a mark does not fit 64 bits"),
        (Neighbours("a", 1, 1, (("b", -1.0),)), "a delay of -1.0 s; it cannot be below 0"),
        (Frame(1, 1, 1, 1, Frame(1, 1, 1, 1)), "a Frame holds a message of another type"),
        ("hello", "expected Publish, Interest, Neighbours, Known, .* or .*, got str"),
    ],
)
def test_what_no_bytes_can_hold_is_refused(message: object, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        encode(message)  # type: ignore[arg-type]
