"""Threads that read while another one changes the index: each answer is that of one state of it, or an error."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.matching.index import Limits

SPACE = cc.Space("trades", issue="string", price="float", note="string")
STEADY = 1_000
"""Subscriptions that stay; those above come and go."""


def text(number: int) -> str:
    kinds = (f"issue = 'i{number % 20}'", f"price > {number % 50}", f"issue = 'i{number % 20}' AND note LIKE '%{number % 7}%'")
    return kinds[number % 3]


@pytest.mark.parametrize("how", ["batch", "one", "stream"])
def test_readers_see_the_index_before_a_change_or_after_it(how: str) -> None:
    """The changes are large and frequent, and the index moves from plan to plan meanwhile."""
    index = cc.MatchIndex(SPACE, limits=Limits(replan_least=500, piece=32))
    index.add_many(range(STEADY), [text(number) for number in range(STEADY)])
    rows = [{"issue": f"i{at % 20}", "price": float(at % 60), "note": f"{at % 10}"} for at in range(60)]
    batch = pa.RecordBatch.from_pylist(rows, schema=SPACE.arrow_schema)
    steady = [index.match(row) for row in rows]
    done, wrong, asked = Event(), list[Any](), [0]

    def read() -> None:
        while not done.is_set():
            asked[0] += 1
            try:
                if how == "batch":
                    found = index.match_lists(batch).to_pylist()
                elif how == "one":
                    found = [index.match(row) for row in rows]
                else:
                    found = [[] for _ in rows]
                    for piece in index.match_stream(batch, most_pairs=500):
                        for event, each in zip(*piece.to_pydict().values(), strict=True):
                            found[event].append(each)
            except cc.ContentcastError:
                if how != "stream":
                    raise
                continue
            except BaseException as error:
                wrong.append(error)
                raise
            for row, ids in zip(steady, found, strict=True):
                if sorted(each for each in ids if each < STEADY) != row or any(each >= 3 * STEADY for each in ids):
                    wrong.append((row, ids))

    readers = [Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    dice = Random(3)
    for _ in range(40):
        some = np.array(dice.sample(range(STEADY, 3 * STEADY), dice.choice([1, 50, 800])))
        index.add_many(some, [text(number) for number in some.tolist()])
        index.remove_many(some)
    done.set()
    for each in readers:
        each.join()
    assert asked[0] > 2
    assert wrong == []
    assert [index.match(row) for row in rows] == steady


def test_a_stream_is_refused_after_a_removal_too() -> None:
    index = cc.MatchIndex(cc.Space("s", a="int"))
    index.add_many(range(600), ["a > 1"] * 600)
    pieces = index.match_stream(pa.table({"a": [5] * 20}), most_pairs=700)
    next(pieces)
    index.remove(3)
    with pytest.raises(cc.ContentcastError, match="was changed while its matches were read"):
        next(pieces)


class Changing(dict[str, Any]):
    """An event whose reading changes the index."""

    def __init__(self, index: cc.MatchIndex) -> None:
        self.index = index

    def items(self) -> Any:
        self.index.add(99, "price > 1")
        return {"price": 5.0}.items()


def test_a_change_in_the_midst_of_reading_is_refused_and_does_not_wait_for_ever(index: cc.MatchIndex) -> None:
    with pytest.raises(cc.ContentcastError, match="finish that first"):
        index.match(Changing(index))
    index.add(99, "price > 1")
    assert 99 in index.match({"price": 5.0})


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the timer that presses Ctrl-C is POSIX's")
@pytest.mark.parametrize("loaded", [False, True])
def test_ctrl_c_inside_a_removal_leaves_no_ghosts(loaded: bool, tmp_path: Path) -> None:
    """A subscription is there and matches, or it is gone and does not, whenever Ctrl-C comes; from a file as well."""
    dice, count = Random(5), 3_000
    texts = [text(number) for number in range(count)]
    events = pa.RecordBatch.from_pylist([{"issue": f"i{at}", "price": 49.5, "note": "0123456"} for at in range(20)])
    built = cc.MatchIndex(SPACE)
    built.add_many(range(count), texts)
    built.save(tmp_path / "index")
    hits, pressed = 0, Event()

    def press(*_: object) -> None:
        pressed.set()
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGALRM, press)
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background programs without it
    for turn in range(60):
        if loaded or turn == 0:
            index = cc.MatchIndex.load(tmp_path / "index")
        index.match(events.to_pylist()[0])
        index.match_batch(events)
        gone = dice.sample(range(count), 500)
        try:
            signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-5, 2e-3))
            index.remove_many(gone)
            while signal.getitimer(signal.ITIMER_REAL)[0]:  # the timer presses Ctrl-C in here at the latest
                pass
            pressed.wait(1.0)
        except KeyboardInterrupt:
            hits += 1
        pressed.clear()
        there = set(index)
        assert len(there) == len(index)
        assert there in ({*range(count)}, {*range(count)} - {*gone})
        found = set(index.match_batch(events)["subscription"].to_pylist())
        assert found <= there
        assert set(index.match(events.to_pylist()[0])) <= there
        again = sorted({*range(count)} - there)
        index.add_many(again, [texts[number] for number in again])
    signal.signal(signal.SIGALRM, before)
    signal.signal(signal.SIGINT, ignored)
    assert hits > 5
