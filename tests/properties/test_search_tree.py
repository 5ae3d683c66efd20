"""The search tree agrees with the oracle: random spaces, predicates and events, changes in between, every way to prepare it."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contentcast.language import parse_many, parse_predicate
from contentcast.matching import Scan
from contentcast.matching.search_tree import SearchTree, links_of, tree, words_of
from contentcast.model import EventBatch, Space
from contentcast.workload import SCENARIOS, scenario
from tests.case_files import Case, cases
from tests.properties.generate import Generator

SWITCHES = ("eliminate_trivial_tests", "delay_branching", "share")
MANY = settings.default.max_examples if settings.default else 100  # few by default, many in a fuzz run
COMBINATIONS = [dict(zip(SWITCHES, each, strict=True)) for each in product((True, False), repeat=3)]


def random_tree(random: Random, space: Space) -> SearchTree:
    order = random.choice([None, random.sample(space.names, len(space))])
    factored = random.sample(space.names, random.randint(0, min(2, len(space))))
    return SearchTree(space, order=order, factored=factored, **random.choice(COMBINATIONS))


def matched(found: Any) -> list[list[int]]:
    return [found.of(event).tolist() for event in range(len(found))]


@given(st.randoms(use_true_random=False))
@settings(max_examples=MANY // 2)
def test_subscriptions_come_and_go(random: Random) -> None:
    generate = Generator(random)
    space = generate.space(domains=generate.chance(0.5))
    oracle, searched = Scan(space), random_tree(random, space)
    there: list[int] = []
    unused = random.sample(range(-50, 1000), 200)
    # Small bounds, so that a few subscriptions already wait, are merged and are moved out of large parts.
    with patch.multiple(tree, MERGED_AT_MOST=random.choice([3, 10, 8192]), WAITING_AT_MOST=random.choice([2, 5, 1024])):
        for _ in range(6):
            for _ in range(random.randint(0, 4)):
                there.append(unused.pop())
                predicate = parse_predicate(space, generate.text(space))
                oracle.add(there[-1], predicate)
                searched.add(there[-1], predicate)
            if generate.chance(0.4):
                ids = [unused.pop() for _ in range(random.randint(0, 12))]
                table = parse_many(space, [generate.text(space) for _ in ids])
                searched.add_many(ids, table)
                for each, predicate in zip(ids, table, strict=True):
                    oracle.add(each, predicate)
                there += ids
            for _ in range(random.randint(0, len(there))):
                gone = there.pop(random.randrange(len(there)))
                oracle.remove(gone)
                searched.remove(gone)
            if generate.chance(0.1):
                searched.prepare()
            assert len(searched) == len(oracle) == len(there)
            batch = EventBatch.from_dicts(space, [generate.event(space) for _ in range(random.choice([0, 1, 7]))])
            assert matched(searched.match_batch(batch)) == oracle.match_batch(batch)
            event = generate.event(space)
            assert searched.match(event) == oracle.match(event)


@given(st.randoms(use_true_random=False), st.sampled_from(COMBINATIONS))
@settings(max_examples=MANY // 2)
def test_large_nodes(random: Random, combination: dict[str, bool]) -> None:
    """Enough subscriptions on one attribute for tables, sorted lists, interval trees and pattern sets within a node."""
    generate = Generator(random)
    kind = random.choice(["string", "int", "float", "timestamp", "bytes"])
    space = Space("wide", x=kind, y=random.choice(["string", "int", "bool"]))
    numbers = [str(random.randint(-200, 200)) for _ in range(120)]

    def test() -> str:
        if kind != "int":
            return generate.test(space) if generate.chance(0.3) else generate.test(Space("wide", x=kind))
        low, high = random.choice(numbers), random.choice(numbers)
        return random.choice(
            [f"x = {low}", f"x BETWEEN {low} AND {high}", f"x IN ({low}, {high})", f"x > {low}", f"x <> {low}"]
        )

    texts = [" AND ".join(test() for _ in range(random.randint(1, 2))) for _ in range(random.choice([30, 120]))]
    oracle, searched = Scan(space), SearchTree(space, **combination)
    searched.add_many(range(len(texts)), parse_many(space, texts))
    for each, text in enumerate(texts):
        oracle.add(each, parse_predicate(space, text))
    events = [generate.event(space) for _ in range(10)]
    if kind == "int":
        events += [{"x": random.randint(-210, 210)} for _ in range(10)]
    batch = EventBatch.from_dicts(space, events)
    assert matched(searched.match_batch(batch)) == oracle.match_batch(batch)


@given(st.randoms(use_true_random=False))
@settings(max_examples=MANY)
def test_the_final_mask_is_the_links_of_the_matching_subscriptions(random: Random) -> None:
    generate = Generator(random)
    space = generate.space(domains=generate.chance(0.7))
    oracle, searched = Scan(space), random_tree(random, space)
    count = random.choice([1, 3, 64, 65, 130])
    links: dict[int, list[int]] = {}
    for each in range(random.randint(0, 30)):
        predicate = parse_predicate(space, generate.text(space, 2))
        oracle.add(each, predicate)
        searched.add(each, predicate)
        links[each] = random.sample(range(count), random.randint(0, min(3, count)))
        if generate.chance(0.2):
            searched.prepared()
    for gone in random.sample(range(len(links)), random.randint(0, len(links) // 2)):
        oracle.remove(gone)
        searched.remove(gone)
    carried = [name for name in space.names if generate.chance(0.3)]
    drawn = [generate.event(space) for _ in range(12)]
    batch = EventBatch.from_dicts(space, [event for event in drawn if all(name in event for name in carried)])
    annotation = searched.annotate(links, count, carried=carried)
    starts = [random.sample(range(count), random.randint(0, count)) for _ in range(len(batch))]
    masks = np.array([words_of(each, count) for each in starts]) if starts else words_of([], count)
    found = annotation.match_links(batch, masks)
    ahead = annotation.match_links(batch, masks, look_ahead=True)
    assert (ahead.yes == found.yes).all()
    assert (ahead.steps <= found.steps).all()
    one_by_one = [annotation.match_links(batch.slice(event, 1), masks[event]) for event in range(len(batch))]
    assert [each.steps[0] for each in one_by_one] == found.steps.tolist(), "few events are coded in another way"
    plain = searched.match_batch(batch)
    for event, (ids, start) in enumerate(zip(oracle.match_batch(batch), starts, strict=True)):
        assert found.of(event) == sorted({link for each in ids for link in links[each]} & set(start))
        assert found.steps[event] <= plain.steps[event]


@given(st.lists(st.integers(0, 129)))
@example([])
def test_links_survive_as_words(links: list[int]) -> None:
    assert links_of(words_of(links, 130)) == sorted(set(links))


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario(name: str) -> None:
    drawn = scenario(name, seed=5)
    table = parse_many(drawn.space, drawn.subscriptions(200)["predicate"])
    batch = EventBatch.from_arrow(drawn.space, drawn.events(20))
    oracle = Scan(drawn.space)
    for each, predicate in enumerate(table):
        oracle.add(each, predicate)
    for combination, factored in product(COMBINATIONS, ((), drawn.space.names[:2])):
        searched = SearchTree(drawn.space, factored=factored, **combination)
        searched.add_many(range(200), table)
        assert matched(searched.match_batch(batch)) == oracle.match_batch(batch)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_case(case: Case) -> None:
    table = parse_many(case.space, list(case.subscriptions.values()))
    ids = list(case.subscriptions)
    for combination in COMBINATIONS:
        searched = SearchTree(case.space, **combination)
        searched.add_many(ids, table)
        assert matched(searched.match_batch(case.batch)) == [case.expected]
    searched = SearchTree(case.space, factored=case.space.names[:2])
    for each, predicate in zip(ids, table, strict=True):
        searched.add(each, predicate)
    assert searched.match(case.event) == case.expected
