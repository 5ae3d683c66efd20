"""Results are given room that is used again, but never while somebody holds them."""

from __future__ import annotations

import mmap
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.matching.index import room


def test_what_is_given_back_is_used_again() -> None:
    first = room.room_for(100_000)
    address = first.ctypes.data
    first[:] = 7
    part = first[10:20]
    del first
    assert room.room_for(100_000).ctypes.data != address  # a part of it is still in use
    assert part.tolist() == [7] * 10
    del part
    assert room.room_for(99_000).ctypes.data == address


def test_no_more_is_kept_than_allowed() -> None:
    arrays = [room.room_for(40_000) for _ in range(2 * room.MOST_PIECES)]
    assert len({each.ctypes.data for each in arrays}) == len(arrays)
    del arrays
    assert len(room._free) <= room.MOST_PIECES
    huge = room.room_for(room.MOST_KEPT // 8 + 1)
    del huge
    assert sum(used for _, used, _ in room._free) <= room.MOST_KEPT


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


def test_results_that_go_past_the_caches_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("engine", "matches"):
        monkeypatch.setattr(f"contentcast.matching.index.{module}.STREAMED_FROM", 1 << 20)
    space = cc.Space("numbers", a="int", b="string")
    index = cc.MatchIndex(space)
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
    held = [room.room_for(count) for count in (1, 9, 1_000, 33_000, 100_000)]
    monkeypatch.delattr("mmap.MAP_PRIVATE")
    held += [room.room_for(count) for count in (1, 9, 1_000, 33_000, 100_000)]
    assert {each.ctypes.data % 64 for each in held} == {0}
    assert [len(each) >= count for each, count in zip(held, (1, 9, 1_000, 33_000, 100_000) * 2, strict=True)] == [True] * 10


def test_a_system_that_takes_no_pages_back_is_not_asked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_DONTNEED", 9_999, raising=False)
    leaving = room.Leaving()
    leaving.add([room.zeros((1 << 20,), np.int64)])
    for _ in range(10):
        leaving.give_back_some(1_000)
    assert not len(leaving)


def resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux says how much memory is in use")
def test_what_is_left_is_given_back_a_little_at_a_time() -> None:
    leaving, arrays = room.Leaving(), [room.zeros((size,), np.int64) for size in (1 << 20, 4 << 20)]
    for each in arrays:
        each[:] = 1
    before = resident_kb()
    leaving.add([*(each[: len(each) - 5] for each in arrays), np.ones(10)])
    del arrays, each
    steps, used = 0, [before]
    while len(leaving):
        leaving.give_back_some(256)
        steps += 1
        used.append(resident_kb())
    assert steps == 3 + 8 + 32
    assert max(one - other for one, other in pairwise(used)) < 3 << 10
    assert used[-1] < before - (36 << 10)
