"""Bytes that are no message: each is refused with the reason, and none makes the decoder take more memory than it brought."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from time import process_time
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from contentcast.language import parse_predicate
from contentcast.model import Attribute, EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.wire import (
    Advertisements,
    Frame,
    Header,
    Interest,
    Known,
    Mark,
    Neighbours,
    Publish,
    Unframer,
    WireError,
    decode,
    encode,
    frame,
)
from contentcast.wire.encodings.columns import COLUMNS_FROM
from contentcast.wire.framing import FRAME_HEADER_BYTES
from contentcast.wire.overlay import ArcDigest, Stored
from tests.hostile_advertisements import PAIRS, of_pairs

TRADES = Space("trades", issue="string", price="float", volume="int")
TIMES = Space("times", at="timestamp", done="bool")
SPACES = {"trades": TRADES, "times": TIMES}
TRADE = {"issue": "IBM", "price": 119.5}


def published(*rows: dict[str, object], space: Space = TRADES, times: int = 1) -> bytes:
    return encode(Publish("a", 1, 2, EventBatch.from_dicts(space, list(rows) * times)))


def interest(text: str) -> bytes:
    batch = SubscriptionBatch.of([Subscription(1, parse_predicate(TRADES, text), "desk")])
    return encode(Interest("a", 1, 0, 1, (batch,)))


def refused(data: bytes, reason: str, spaces: dict[str, Space] | None = None) -> None:
    with pytest.raises(WireError, match=reason):
        decode(data, SPACES if spaces is None else spaces)


def test_an_unknown_type() -> None:
    refused(b"\x11abc", "expected Publish, Interest, Neighbours, Known, .*, got message type 17")
    refused(b"", "the type of a message needs 1 bytes and 0 are left")


@pytest.mark.parametrize("lifetime_s", [-1.0, float("nan"), 86_401.0, float("inf")])
def test_nobody_keeps_a_subscription_for_as_long_as_a_message_likes(lifetime_s: float) -> None:
    none = np.empty(0, np.int64)
    for forged in (Stored("a", 1, lifetime_s, None, none, none, none), ArcDigest(0, 1, 2, lifetime_s)):
        refused(encode(forged), f"subscriptions live for 0 to 86,400 s unless renewed, not for {lifetime_s} s")


def test_an_unknown_space_is_named() -> None:
    refused(published(TRADE), "no space 'trades' is declared here; did you mean 'trade'", {"trade": TRADES})
    with pytest.raises(WireError, match=r"no space 'trades' is declared here$"):
        decode(published(TRADE), lambda name: None)


def test_a_space_that_the_sender_declared_otherwise() -> None:
    """The same bytes would mean other values; a wider domain would not, and is left to the values."""
    other = Space("trades", issue="string", price="int", volume="int")
    refused(published(TRADE), "the space 'trades' has other attributes at the sender", {"trades": other})
    wider = Space("trades", issue="string", price=Attribute("float", low=0.0), volume="int")
    assert isinstance(decode(published(TRADE), {"trades": wider}), Publish)


@pytest.mark.parametrize("times", [1, COLUMNS_FROM])
def test_values_that_no_event_may_have(times: int) -> None:
    """In rows and by columns, with the event and the attribute named."""
    narrow = Space("trades", issue=Attribute("string", values=("SAP",)), price="float", volume="int")
    refused(published(TRADE, times=times), "event 0, attribute issue: 'IBM' is not one of 'SAP'", {"trades": narrow})
    nan = published(TRADE, times=times).replace(struct.pack("<d", 119.5), struct.pack("<d", float("nan")))
    refused(nan, "event 0, attribute price: NaN is not a value")
    refused(published(TRADE, times=times).replace(b"IBM", b"\xff\xfeM"), "UTF-?8")


def test_a_timestamp_beyond_the_years_and_a_bool_that_is_none() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    whole = published({"at": noon, "done": True}, space=TIMES)
    refused(
        whole[:-9] + struct.pack("<q", 2**62) + b"\1", "attribute at: 4611686018427387904 us since 1970 is outside the years"
    )
    refused(whole[:-1] + b"\2", "attribute done: a bool is 0 or 1, not 2")
    refused(published({}, space=TIMES)[:-1] + b"\x04", "event 0 carries more attributes than the 2 of times")


def test_lengths_that_lie() -> None:
    whole = published(TRADE)
    refused(whole.replace(b"\3\0\0\0IBM", b"\xff\xff\xff\xffIBM"), "event 0 needs 42949672.. bytes more than are left")
    refused(whole + b"x", "1 bytes are left over after a Publish")
    offsets = published(TRADE, times=COLUMNS_FROM)
    at = offsets.index(struct.pack("<iii", 0, 3, 6))
    for wrong in (-1, 2**31 - 1, 10**6):
        refused(offsets[: at + 4] + struct.pack("<i", wrong) + offsets[at + 8 :], "column issue")
        last = at + 4 * COLUMNS_FROM
        refused(offsets[:last] + struct.pack("<i", wrong) + offsets[last + 4 :], "column issue")


def test_a_frame_in_a_frame_is_refused_before_the_stack_ends() -> None:
    one = encode(Frame(1, 1, 1, 1))
    refused(one * 5000, "a Frame holds a message of another type")


def test_predicates_that_are_none() -> None:
    refused(interest("issue LIKE '%X%'").replace(b"%X%", b"%%X"), "pattern '%%X': it is written '%X'")
    refused(interest("issue LIKE '%X%'").replace(b"%X%", b"%X\\"), "the pattern ends in its escape character")
    cuts = interest("issue IN ('A', 'C')")
    refused(cuts.replace(b"AA\0CC\0", b"CA\0CC\0"), "the cuts of a set of values come in pairs and ascend")
    refused(cuts.replace(b"AA\0CC\0", b"AA\0C\xff\0"), "not UTF-8")
    refused(
        interest("volume = 77").replace(b"\x01\x4d\x00\x01\x4d", b"\x01\x4d\x00\x01\x4c"),
        "the keys from 77 to 76 are no interval of an int",
    )


def test_two_columns_of_one_attribute() -> None:
    """The second would silently take the place of the first."""
    pairs = Space("pairs", x="int", y="int")
    predicate = parse_predicate(pairs, "x = 5 AND y = 6")
    whole = encode(Interest("a", 1, 0, 1, (SubscriptionBatch.of([Subscription(1, predicate, "desk")]),)))
    column = b"\x01\x01\x01\0\0\0"  # as single bytes: attribute 1, one row, no others, no values
    assert whole.count(column) == 1
    refused(whole.replace(column, b"\x01\0\x01\0\0\0"), "the column of attribute 0 comes after that of 0", {"pairs": pairs})


@pytest.mark.parametrize(
    "whole",
    [
        published(TRADE, {}),
        published(TRADE, times=COLUMNS_FROM),
        encode(Publish("a", 1, 2, EventBatch.from_dicts(TRADES, [TRADE]), Header(subscriptions=pa.array([[1, 2]])))),
        encode(
            Publish("a", 1, 2, EventBatch.from_dicts(TRADES, [TRADE]), Header(brokers=pa.array([["b", "c"]]), checked=("a",)))
        ),
        interest("issue = 'IBM' AND price < 5 OR issue LIKE '%X' OR volume IN (1, 3)"),
        encode(Neighbours("a", 1, 7, (("b", 0.01),))),
        encode(Known({"a": Mark(1, {"links": 3})})),
    ],
    ids=["rows", "columns", "ids", "names", "interest", "neighbours", "known"],
)
def test_no_count_however_large_takes_memory(whole: bytes) -> None:
    """Four bytes at every place in turn say that there are billions of what follows."""
    decode(whole, SPACES)
    pool = pa.default_memory_pool()
    before = pool.max_memory()
    tracemalloc.start()
    try:
        for at in range(len(whole)):
            for huge in (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x40"):
                with suppress(WireError):  # some are only another number
                    decode(whole[:at] + huge + whole[at + 4 :], SPACES)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert pool.max_memory() - before < 2_000_000


# --- frames


def test_a_stranger_on_the_port_is_found_out_at_once() -> None:
    with pytest.raises(WireError, match=r"a frame begins with b'CC', got b'G'; is the other side contentcast\?"):
        Unframer().feed(b"G")


def test_a_version_of_the_future() -> None:
    later = bytearray(frame(b"x"))
    later[2] = 9
    with pytest.raises(WireError, match="speaks version 9 of the wire format, this one 1; upgrade this side"):
        Unframer().feed(later[:3])


def test_a_damaged_frame_and_those_before_it() -> None:
    damaged = bytearray(frame(b"third"))
    damaged[-1] ^= 1
    unframer = Unframer()
    with pytest.raises(WireError, match=r"has the checksum .* and says .*; it was damaged") as caught:
        unframer.feed(frame(b"first") + frame(b"second") + damaged + frame(b"fourth"))
    assert caught.value.before == (b"first", b"second")
    assert unframer.waiting == 0
    with pytest.raises(WireError, match="this stream was given up: a frame of 5 bytes has the checksum"):
        unframer.feed(frame(b"fifth"))


def huge_frame(length: int) -> bytes:
    start = b"CC\1" + struct.pack("<I", length)
    return start + struct.pack("<I", crc32(start[2:]))


@pytest.mark.parametrize("length", [0, 1001, 2**32 - 1])
def test_a_frame_that_is_too_large_is_refused_before_it_comes(length: int) -> None:
    unframer = Unframer(most_bytes=1000)
    with pytest.raises(WireError, match=f"a frame of {length} bytes; from 1 to 1000 are accepted here"):
        unframer.feed(huge_frame(length))
    assert unframer.waiting == 0


@pytest.mark.parametrize("build", [lambda: frame(b""), lambda: frame(b"x" * 11, most_bytes=10)])
def test_a_frame_that_nobody_would_accept_is_not_made(build: Callable[[], bytes]) -> None:
    with pytest.raises(WireError, match="fit into a frame, so send it in parts"):
        build()


def test_a_stream_that_ends_within_a_frame() -> None:
    unframer = Unframer()
    assert unframer.feed(frame(b"whole") + frame(b"half")[:-2]) == [b"whole"]
    assert unframer.waiting == FRAME_HEADER_BYTES + 2
    with pytest.raises(WireError, match="the stream ends within a frame, 13 bytes after its beginning"):
        unframer.end()
    assert unframer.feed(frame(b"half")[-2:]) == [b"half"]
    unframer.end()


def test_events_by_rows_take_linear_memory_and_no_number_of_many_bits() -> None:
    """A sender may write any number of events by rows. A bitmap made as one large number took quadratic time."""
    from contentcast.wire.encodings.rows import _bitmap

    flags = [at % 3 == 0 for at in range(200_000)]
    tracemalloc.start()
    made = _bitmap(flags)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made) == 25_000
    assert most < 2_000_000
    assert bytes(_bitmap(flags[:64])) == bytes(_bitmap(flags[:65]))[:8], "both ways make the same bits"


def test_columns_that_nobody_fills_do_not_multiply_a_message() -> None:
    """800 kB of ids with 100 attributes that are absent everywhere became 80 MB."""
    wide = Space("wide", {f"a{at}": ["int", "string", "bool", "float", "timestamp", "bytes"][at % 6] for at in range(100)})
    count = 100_000
    empty = EventBatch.from_arrow(wide, pa.record_batch({"a0": pa.nulls(count, pa.int64())}))
    sent = encode(Publish("a", 1, 2, empty))
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    came = decode(sent, {"wide": wide})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(came, Publish)
    assert came.events.records.num_rows == count
    assert all(column.null_count == count for column in came.events.records.columns)
    assert most + pa.total_allocated_bytes() - before < 8 * len(sent)


def test_advertisements_of_one_message_share_their_steps() -> None:
    """Each of 300 bytes multiplies out into 512 alternatives; 20 of them took 40 s, and any number was taken."""
    begun = process_time()
    few, many = (encode(Advertisements("a", 1, 1, (of_pairs(),) * times)) for times in (4, 400))
    assert len(decode(few, {"pairs": PAIRS}).advertisements) == 4  # type: ignore[attr-defined]
    refused(many, "an advertisement of pairs: .* takes too long", {"pairs": PAIRS})
    assert process_time() - begun < 10
