"""Results are given room that is used again, but never while somebody holds them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.matching.index import Limits
from contentcast.matching.index.machine import result_buffers

WRITTEN = 77_007_700_770


def test_what_is_given_back_is_used_again() -> None:
    first = result_buffers.result_buffer(100_000)
    address = first.ctypes.data
    first[:] = 7
    part = first[10:20]
    del first
    assert result_buffers.result_buffer(100_000).ctypes.data != address  # a part of it is still in use
    assert part.tolist() == [7] * 10
    del part
    assert result_buffers.result_buffer(99_000).ctypes.data == address


def test_no_more_is_kept_than_allowed() -> None:
    """A kept buffer still has what was written into it; memory from the system is zero."""
    arrays = [result_buffers.result_buffer(40_000) for _ in range(2 * result_buffers.MOST_BUFFERS)]
    assert len({each.ctypes.data for each in arrays}) == len(arrays)
    for each in arrays:
        each[0] = WRITTEN
    del each, arrays
    again = [result_buffers.result_buffer(40_000) for _ in range(2 * result_buffers.MOST_BUFFERS)]
    assert [int(each[0]) for each in again].count(WRITTEN) == result_buffers.MOST_BUFFERS


def test_a_buffer_that_is_too_large_to_keep_goes_back_to_the_system() -> None:
    too_many = result_buffers.MOST_KEPT // 8 + 1
    huge = result_buffers.result_buffer(too_many)
    huge[0] = WRITTEN
    del huge
    assert result_buffers.result_buffer(too_many)[0] == 0


def test_results_stay_what_they_are_while_others_are_made() -> None:
    space = cc.Space("numbers", a="int")
    index = cc.MatchIndex(space)
    index.add_many(range(300), ["a >= 0"] * 300)
    events = pa.table({"a": np.arange(1_000)})
    results = [index.match_batch(events) for _ in range(4)]
    copies = [pa.Table.from_batches([each]).to_pydict() for each in results]
    for _ in range(4):
        index.match_batch(pa.table({"a": np.full(2_000, 5)}))
    assert [pa.Table.from_batches([each]).to_pydict() for each in results] == copies
    assert results[0]["event"].to_numpy().tolist() == np.repeat(np.arange(1_000), 300).tolist()


def test_results_that_go_past_the_caches_are_the_same() -> None:
    space = cc.Space("numbers", a="int", b="string")
    index = cc.MatchIndex(space, limits=Limits(streamed_from=1 << 20))
    texts = [f"a >= {number % 97}" if number % 3 else f"b = 'x{number % 5}' AND a < {number}" for number in range(1_000)]
    index.add_many(range(1_000), texts)
    events = pa.table({"a": np.arange(4_000) % 100, "b": [f"x{number % 7}" for number in range(4_000)]})
    index.match_batch(events)  # now it knows how much room to expect
    whole = index.match_batch(events)
    assert len(whole) > 1 << 20
    pieces = [index.match_batch(events.slice(begin, 100)) for begin in range(0, 4_000, 100)]  # each fits into the caches
    assert whole["subscription"].to_numpy().tolist() == [
        number for piece in pieces for number in piece["subscription"].to_numpy().tolist()
    ]
    expected = np.concatenate([piece["event"].to_numpy() + 100 * at for at, piece in enumerate(pieces)])
    assert whole["event"].to_numpy().tolist() == expected.tolist()


def test_all_begin_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [result_buffers.result_buffer(count) for count in (1, 9, 1_000, 33_000, 100_000)]
    monkeypatch.delattr("mmap.MAP_PRIVATE")
    held += [result_buffers.result_buffer(count) for count in (1, 9, 1_000, 33_000, 100_000)]
    assert {each.ctypes.data % 64 for each in held} == {0}
    assert [len(each) >= count for each, count in zip(held, (1, 9, 1_000, 33_000, 100_000) * 2, strict=True)] == [True] * 10
