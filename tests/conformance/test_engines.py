"""Every engine, given the same subscriptions and events, finds what the oracle finds. A new one joins ENGINES with one line."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import contentcast as cc
from contentcast.matching import Engine, Scan
from contentcast.matching.search_tree import SearchTree
from contentcast.model import EventBatch, Space
from tests.case_files import Case, cases
from tests.properties.generate import Generator


class PlainEngine(cc.MatchIndex):
    """The index as it is until its kernels are compiled."""

    def use_kernels(self) -> None:
        pass


ENGINES: dict[str, Callable[[Space], Engine]] = {
    "scan": Scan,
    "index": cc.MatchIndex,
    "plain index": PlainEngine,
    "search tree": SearchTree,
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Callable[[Space], Engine]:
    return ENGINES[request.param]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_who_gets_the_event(engine: Callable[[Space], Engine], case: Case) -> None:
    made = engine(case.space)
    for each, text in case.subscriptions.items():
        made.add(each, cc.parse_predicate(case.space, text))
    assert made.match(case.event) == case.expected


@given(st.randoms(use_true_random=False))
@settings(max_examples=60)
@pytest.mark.parametrize("name", ENGINES)
def test_with_subscriptions_coming_and_going(name: str, random: Random) -> None:
    generate = Generator(random)
    space = generate.space()
    oracle, made = Scan(space), ENGINES[name](space)
    there: list[int] = []
    for number in range(24):
        if there and generate.chance(0.3):
            gone = there.pop(random.randrange(len(there)))
            oracle.remove(gone)
            made.remove(gone)
        predicate = cc.parse_predicate(space, generate.text(space, 2))
        oracle.add(number, predicate)
        made.add(number, predicate)
        there.append(number)
        if generate.chance(0.4):
            event = generate.event(space)
            assert made.match(event) == oracle.match(event), (event, there)


@given(st.randoms(use_true_random=False), st.sampled_from([0, 1, 2, 24]))
@settings(max_examples=60)
@pytest.mark.parametrize("name", ENGINES)
def test_pairs_of_batches(name: str, random: Random, count: int) -> None:
    generate = Generator(random)
    space = generate.space()
    table = cc.parse_many(space, [generate.text(space, 2) for _ in range(20)])
    ids = np.arange(0, 60, 3)
    oracle, made = Scan(space), ENGINES[name](space)
    oracle.add_many(ids, table)
    made.add_many(ids, table)
    events = [generate.event(space) for _ in range(count)]
    rows, found = made.match_pairs(EventBatch.from_dicts(space, events))
    assert rows.tolist() == sorted(rows.tolist())
    assert sorted(zip(rows.tolist(), found.tolist(), strict=True)) == expected_pairs(oracle, events)
    assert made.sizes()["subscriptions"] == len(made) == 20


def expected_pairs(oracle: Scan, events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row, each) for row, event in enumerate(events) for each in oracle.match(event)]


def found_pairs(found: pa.RecordBatch) -> list[tuple[int, int]]:
    return sorted(zip(found.column("event").to_pylist(), found.column("subscription").to_pylist(), strict=True))


INDEXES: dict[str, Callable[[Space], cc.MatchIndex]] = {"compiled": cc.MatchIndex, "plain": PlainEngine}


def workload(name: str, random: Random, subscriptions: int, events: int) -> tuple[cc.MatchIndex, Scan, list[dict[str, Any]]]:
    generate = Generator(random)
    space = generate.space()
    texts = [generate.text(space, 2) for _ in range(subscriptions)]
    index, oracle = INDEXES[name](space), Scan(space)
    assert index.statistics()["engine"] == name
    index.add_many(list(range(0, 3 * subscriptions, 3)), texts)
    for at, text in enumerate(texts):
        oracle.add(3 * at, cc.parse_predicate(space, text))
    return index, oracle, [generate.event(space) for _ in range(events)]


@given(st.randoms(use_true_random=False), st.sampled_from([0, 1, 40]))
@settings(max_examples=60)
@pytest.mark.parametrize("name", INDEXES)
def test_batches_of_none_one_and_many(name: str, random: Random, count: int) -> None:
    index, oracle, events = workload(name, random, 30, count)
    batch = EventBatch.from_dicts(index.space, events)
    expected = expected_pairs(oracle, events)
    assert found_pairs(index.match_batch(batch)) == expected
    assert found_pairs(index.match_batch(batch, threads=2)) == expected
    counts = [sum(1 for row, _ in expected if row == event) for event in range(count)]
    assert index.match_counts(batch).to_pylist() == counts
    assert [sorted(each) for each in index.match_lists(batch).to_pylist()] == [
        [each for row, each in expected if row == event] for event in range(count)
    ]
    pieces = list(index.match_stream(batch, most_pairs=5))
    assert sorted(pair for piece in pieces for pair in found_pairs(piece)) == expected


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", INDEXES)
def test_a_thousand_subscriptions_planned_at_once_then_changed(name: str, seed: int) -> None:
    """Enough for gates, grids and runs; then a third goes, others come, some under ids that were there before."""
    random = Random(seed)
    index, oracle, events = workload(name, random, 1000, 60)
    generate = Generator(random)
    batch = EventBatch.from_dicts(index.space, events)
    assert found_pairs(index.match_batch(batch)) == expected_pairs(oracle, events)
    gone = random.sample(list(index), 333)
    index.remove_many(gone)
    for each in gone:
        oracle.remove(each)
    new = [*gone[:100], *range(1, 600, 3)]
    texts = [generate.text(index.space, 2) for _ in new]
    index.add_many(new, texts)
    for each, text in zip(new, texts, strict=True):
        oracle.add(each, cc.parse_predicate(index.space, text))
    assert found_pairs(index.match_batch(batch)) == expected_pairs(oracle, events), f"seed {seed}"
    assert len(index) == len(oracle)
    for each, text in zip(new[:50], texts[:50], strict=True):
        predicate = cc.parse_predicate(index.space, text)
        read_back = index.predicate(each)
        for event in events:
            assert read_back.accepts(event) is predicate.accepts(event), (text, event)


@pytest.mark.parametrize("name", ["market", "market-hot", "w1", "w1b", "summaries", "overlay", "video"])
@pytest.mark.parametrize("engine_name", INDEXES)
def test_the_scenarios(engine_name: str, name: str) -> None:
    from contentcast.workload import scenario

    drawn = scenario(name, seed=5)
    subscriptions = drawn.subscriptions(1500)
    index, oracle = INDEXES[engine_name](drawn.space), Scan(drawn.space)
    index.add_many(subscriptions.column("subscription"), subscriptions.column("predicate"))
    for each, text in zip(*(subscriptions.column(name).to_pylist() for name in ("subscription", "predicate")), strict=True):
        oracle.add(each, cc.parse_predicate(drawn.space, text))
    records = drawn.events(40)
    assert found_pairs(index.match_batch(records)) == expected_pairs(oracle, records.to_pylist())
