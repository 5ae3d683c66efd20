"""Summaries as bytes: what they take, what is refused with which reason, and that no length can lie."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import numpy as np
import pytest

from contentcast.language import parse_many
from contentcast.matching.summaries import PAPER, Columns, Delta, Precision, Summary
from contentcast.model import ContentcastError, Space, SubscriptionBatch
from contentcast.wire.encodings.subscriptions import encode_subscriptions
from contentcast.wire.encodings.varints import (
    ascending_lists,
    read_lists,
    read_sorted_texts,
    read_varints,
    sorted_texts,
    varints,
)
from contentcast.wire.fields import Reader, WireError
from contentcast.wire.summaries import decode_delta, decode_summary, encode_delta, encode_summary
from contentcast.workload import scenario

TRADES = Space("trades", symbol="string", price="float", volume="int")


def summary_of(*texts: str, **options: object) -> Summary:
    made = Summary(TRADES, **options)  # type: ignore[arg-type]
    made.add("a", range(len(texts)), parse_many(TRADES, list(texts)))
    return made


def refused(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        decode_summary(Reader(data, {}))


# --- numbers, lists, texts


@pytest.mark.parametrize("values", [[0], [127, 128, 16383, 16384], [2**63 - 2, 0, 1], list(range(300)), []])
def test_varints_come_back(values: list[int]) -> None:
    data = varints(np.array(values, np.int64))
    assert read_varints(Reader(data, {}), len(values), "numbers").tolist() == values
    assert len(data) == sum(max(1, -(-each.bit_length() // 7)) for each in values)


@pytest.mark.parametrize(
    ("members", "most_bytes"),
    [
        (list(range(1000)), 2 + 1 + 1 + 2 + 125),  # a full list is one bit each
        (list(range(0, 1000, 200)), 1 + 1 + 10),  # a thin one is steps
        ([], 2),
    ],
)
def test_each_list_is_written_in_the_shorter_way(members: list[int], most_bytes: int) -> None:
    numbers = np.array(members, np.int64)
    data = ascending_lists(np.array([0, len(members)]), numbers)
    assert len(data) <= most_bytes
    offsets, found = read_lists(Reader(data, {}), 1, 1000, "entries")
    assert (offsets.tolist(), found.tolist()) == ([0, len(members)], members)


def test_sorted_texts_share_their_beginnings() -> None:
    texts = [b"", b"bada", b"badabo", b"badabu", b"x" * 40, b"x" * 41]
    data = sorted_texts(texts)
    assert len(data) == 2 * len(texts) + 0 + 4 + 2 + 1 + 40 + (41 - 15)
    assert read_sorted_texts(Reader(data, {}), len(texts), "texts") == texts


# --- what they take


@pytest.mark.parametrize(("precision", "most"), [(PAPER, 0.6), (Precision(rows=16), 0.3)], ids=str)
def test_a_summary_takes_fewer_bytes_than_its_subscriptions(precision: Precision, most: float) -> None:
    drawn = scenario("summaries")
    wanted = drawn.subscriptions(24_000).take(np.arange(0, 24_000, 24))  # all of one broker
    table = parse_many(drawn.space, wanted["predicate"])
    ids = wanted["subscription"].to_numpy()
    summary = Summary(drawn.space, precision=precision)
    summary.add("a", ids, table)
    whole = encode_subscriptions(SubscriptionBatch.columns(ids, table, [""] * len(ids)))
    assert len(encode_summary(summary.columns())) < most * len(whole)


def test_a_difference_takes_far_fewer_bytes_than_the_whole() -> None:
    drawn = scenario("summaries")
    table = parse_many(drawn.space, drawn.subscriptions(1_010)["predicate"])
    summary = Summary(drawn.space)
    summary.add("a", range(1_000), table.take(np.arange(1_000)))
    summary.part("a")
    summary.add("a", range(1_000, 1_010), table.take(np.arange(1_000, 1_010)))
    assert len(encode_delta(summary.delta("a", since=1))) < len(encode_summary(summary.columns())) / 20


def test_a_space_that_is_not_declared_here_is_no_obstacle() -> None:
    """Columns travel with the names and kinds of their attributes; what the own space does not have is not counted."""
    summary = summary_of("price < 5 AND volume = 3")
    small = Summary(Space("trades", symbol="string", price="float"))
    small.merge(Columns.of(decode_summary(Reader(encode_summary(summary.columns()), {}))))
    assert small.columns() == summary.columns()


# --- what is refused


def test_what_is_no_summary() -> None:
    whole = encode_summary(summary_of("price < 5", "symbol LIKE '%x'", "symbol = 'IBM'").columns())
    for length in range(len(whole)):
        with pytest.raises(WireError):
            decode_summary(Reader(whole[:length], {}))
    refused(whole.replace(b"price\x02", b"price\x29"), "the attribute price is of kind 41")
    refused(whole.replace(b"IBM", b"\xff\xfeM"), "a cut is not UTF-8")
    refused(whole.replace(b"symbol", b"aaaaaa"), "the attribute aaaaaa does not come in the order of names")
    refused(whole.replace(b"%x", b"%%"), "is written '%'")


def test_lengths_that_lie_allocate_nothing() -> None:
    """Every byte of a summary and of a difference replaced by large numbers: at most a WireError, and never much memory."""
    summary = summary_of("price < 5", "symbol LIKE '%x' OR volume IN (1, 2, 3)", "symbol LIKE 'IB%'", *["volume > 7"] * 30)
    for whole, decode in (
        (encode_summary(summary.columns()), decode_summary),
        (encode_delta(summary.delta("a")), decode_delta),
    ):
        tracemalloc.start()
        for at in range(len(whole)):
            for large in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f", b"\xff" * 8 + b"\x7f"):
                with suppress(WireError):
                    decode(Reader(whole[:at] + large + whole[at + 1 :], {}))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2_000_000, f"{peak} bytes for a message of {len(whole)}"


def test_a_difference_that_names_what_is_not_there_is_refused() -> None:
    summary = summary_of("price < 5", "price < 6")
    summary.part("a")
    summary.remove("a", [1])
    delta = summary.delta("a", since=1)
    follower = Summary(TRADES)
    follower.merge(summary_of("price < 5"))
    with pytest.raises(ContentcastError, match="names what its old version does not have"):
        follower.apply(Delta.of(decode_delta(Reader(encode_delta(delta), {}))))
