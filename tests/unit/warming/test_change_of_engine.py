"""An index goes on with its kernels when they are ready, and nobody can tell from its answers."""

from __future__ import annotations

from random import Random
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.matching import Scan
from contentcast.model import EventBatch
from contentcast.warming import background
from tests.properties.generate import Generator

TRADES = cc.Space("trades", issue="string", price="float", volume="int")
RECORDS = pa.record_batch({"issue": ["IBM", "SAP"] * 20, "price": [5.0, 7.0] * 20, "volume": [1, 2] * 20})


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Kernels that are not ready until the test says so."""
    made = background._Kernels()
    monkeypatch.setattr("contentcast.match_index.subscriptions.kernels", made)
    monkeypatch.setattr(made, "ask", lambda *arguments: None)
    return made


def engine(index: cc.MatchIndex) -> str:
    return str(index.statistics()["engine"])


@pytest.mark.parametrize("seed", range(20))
def test_answers_are_the_same_before_and_after(seed: int, kernels: Any) -> None:
    generate = Generator(Random(seed))
    space = generate.space()
    index, oracle = cc.MatchIndex(space), Scan(space)
    events = [generate.event(space) for _ in range(20)]
    batch = EventBatch.from_dicts(space, events)
    for number in range(60):
        predicate = cc.parse_predicate(space, generate.text(space, 2))
        index.add(number, predicate)
        oracle.add(number, predicate)
        if number % 5 == 4:
            index.remove(number - 3)
            oracle.remove(number - 3)
        if number == 30:
            assert engine(index) == "plain"
            kernels._use()
            assert engine(index) == "compiled"
        expected = oracle.match_batch(batch)
        assert [sorted(each) for each in index.match_lists(batch).to_pylist()] == expected, f"seed {seed}, after {number}"
        assert index.match(events[number % 20]) == expected[number % 20], f"seed {seed}, after {number}"
    assert list(index) == sorted(oracle._trees)


def test_while_others_match_and_change(kernels: Any) -> None:
    """Subscription 0 is always there, and 1 comes and goes: every answer has 0, may have 1, and has nothing else."""
    index = cc.MatchIndex(TRADES)
    index.add(0, "price > 0")
    over, troubles = Event(), []

    def match() -> None:
        while not over.is_set():
            for found in (index.match({"price": 5.0}), index.match_batch(RECORDS.slice(0, 1))["subscription"].to_pylist()):
                if sorted(found) not in ([0], [0, 1]):
                    troubles.append(found)

    def change() -> None:
        while not over.is_set():
            index.add(1, "price < 6")
            index.remove(1)

    workers = [Thread(target=match), Thread(target=match), Thread(target=change)]
    for each in workers:
        each.start()
    kernels._use()
    for _ in range(50):
        index.match({"price": 5.0})
    over.set()
    for each in workers:
        each.join()
    assert (troubles, engine(index)) == ([], "compiled")


def test_a_stream_goes_on_and_a_change_in_its_midst_is_told(kernels: Any) -> None:
    index = cc.MatchIndex(TRADES)
    index.add_many([0, 1], ["price > 0", "issue = 'IBM'"])
    stream = index.match_stream(RECORDS, most_pairs=3)
    pieces = [next(stream)]
    kernels._use()
    assert engine(index) == "compiled"
    pieces += stream
    assert pa.Table.from_batches(pieces).num_rows == 60
    broken = index.match_stream(RECORDS, most_pairs=3)
    next(broken)
    index.add(2, "volume = 1")
    with pytest.raises(cc.ContentcastError, match="changed while its matches were read"):
        list(broken)


def test_much_work_and_many_subscriptions_ask_for_kernels(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(kernels, "ask", lambda: asked.append("asked"))
    monkeypatch.setattr(kernels, "at_hand", lambda: False)
    monkeypatch.setattr("contentcast.matching.plain_index.MUCH_WORK", 100)
    busy = cc.MatchIndex(TRADES)
    busy.add_many([0, 1], ["price > 0", "issue = 'IBM'"])
    busy.match_batch(RECORDS)
    assert asked == []
    busy.match_batch(RECORDS)
    assert asked == ["asked"]
    large = cc.MatchIndex(TRADES)
    large.add_many(range(999), ["price > 0"] * 999)
    assert asked == ["asked"]
    large.add(999, "price > 0")
    assert asked == ["asked", "asked"]


def test_what_needs_kernels_waits_for_them(kernels: Any, tmp_path: Any) -> None:
    index = cc.MatchIndex(TRADES)
    index.add(7, "price > 6")
    index.save(tmp_path / "index")
    assert engine(index) == "compiled"
    assert cc.MatchIndex.load(tmp_path / "index").match({"price": 7.0}) == [7]
