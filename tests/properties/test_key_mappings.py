"""The mapping intersection rule (Baldoni et al. 2005, section 3.2) for the whole language: who matches shares a key."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from contentcast.language import parse_predicate
from contentcast.matching import Scan
from contentcast.model import Attribute, ContentcastError, EventBatch, Space
from contentcast.model.predicates.table import PredicateTable
from contentcast.routing.overlay.mappings import MAPPINGS, KeyMapping, fewer, multiplied, together
from contentcast.routing.overlay.scales import Scale
from tests.properties.generate import Generator


@pytest.mark.parametrize("kind", MAPPINGS)
@given(st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_an_event_and_a_subscription_that_it_matches_share_a_key(kind: str, random: Random) -> None:
    generate = Generator(random)
    space = generate.space(domains=random.random() < 0.5)
    bits, cells = random.randint(1, 64), random.choice([0, 0, 1, 7, 1000, 2**53, 2**64])
    learnt = {
        name: tuple(generate.value(attribute.kind) for _ in range(random.randint(1, 4)))
        for name, attribute in space.items()
        if random.random() < 0.3 and space.kinds[name].element is None  # lists have no order to cut
    }
    mapping = KeyMapping(kind, bits, cells, {space.name: learnt}, random.choice(["", *space.names])).in_space(space)
    texts, predicates = [], []
    while len(texts) < 6:
        text = generate.text(space, depth=2)
        try:
            predicates.append(parse_predicate(space, text))
            texts.append(text)
        except ContentcastError:
            continue
    events = EventBatch.from_dicts(space, [generate.event(space) for _ in range(12)])
    note(f"{space.to_dict()} {bits} bits, {cells} cells, learnt {learnt}\n{texts}\n{events.to_dicts()}")
    scan = Scan(space)
    for number, predicate in enumerate(predicates):
        scan.add(number, predicate)
    targets = mapping.subscription_keys(PredicateTable.of(space, predicates))
    rows, keys = mapping.event_keys(events)
    assert (targets.lows <= targets.highs).all()
    assert int(max(keys.max(initial=0), targets.highs.max(initial=0))) < 1 << bits
    for event, matching in enumerate(scan.match_batch(events)):
        mine = keys[rows == event]
        for subscription in matching:
            low, high = targets.lows[targets.rows == subscription], targets.highs[targets.rows == subscription]
            assert any(((low <= key) & (key <= high)).any() for key in mine), (texts[subscription], events.to_dicts()[event])


@given(st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_a_scale_never_decreases(random: Random) -> None:
    """By columns and value by value the same, and in the order of the values."""
    generate = Generator(random, lists=False)  # lists have no order
    space = generate.space(domains=True)
    name = random.choice(space.names)
    attribute = space[name]
    values = sorted({generate.value(attribute.kind) for _ in range(8)})
    cuts = tuple(random.sample(values, min(3, len(values))))
    cells = random.choice([0, 3, 100])
    scale = random.choice([Scale.of(attribute, cells=cells), Scale.learnt(attribute, cuts, cells=cells)])
    import pyarrow as pa

    places = scale.of_column(pa.array(values, scale.kind.arrow))
    assert places.tolist() == sorted(places.tolist())
    assert places.tolist() == [scale.of_value(each) for each in values]


def test_ranges_are_joined_and_never_lost() -> None:
    ranges = [(5, 6), (0, 1), (2, 3), (9, 9), (20, 30)]
    assert together(ranges) == [(0, 3), (5, 6), (9, 9), (20, 30)]
    assert fewer(together(ranges), 2) == [(0, 9), (20, 30)]
    assert multiplied([[(0, 1)], [(1, 1), (3, 3)]], 2, 0) == [(1, 1), (3, 3), (5, 5), (7, 7)]
    assert multiplied([[(0, 1)], [(1, 1)]], 2, 1) == [(2, 2), (10, 10)]


def test_too_many_ranges_become_fewer_that_hold_them() -> None:
    wide = multiplied([[(0, 65_535)], [(7, 7)]], 16, 0)
    assert wide == [(0, 2**32 - 1)]
    assert len(multiplied([[(0, 20)], [(1, 1), (3, 3), (5, 5), (7, 7)]], 16, 0)) <= 128


def test_keys_by_columns_are_keys_one_by_one() -> None:
    random = Random(7)
    generate = Generator(random)
    space = generate.space()
    predicates = [parse_predicate(space, "TRUE"), *(_predicate(generate, space) for _ in range(20))]
    for kind in MAPPINGS:
        mapping = KeyMapping(kind, 13).in_space(space)
        all_of_them = mapping.subscription_keys(PredicateTable.of(space, predicates))
        for number, predicate in enumerate(predicates):
            mine = np.flatnonzero(all_of_them.rows == number)
            pairs = zip(all_of_them.lows[mine].tolist(), all_of_them.highs[mine].tolist(), strict=True)
            assert together(pairs) == mapping.sk(predicate)


@pytest.mark.parametrize("bits", [13, 32, 64])
def test_key_space_split_by_columns_has_the_keys_multiplied_by_hand(bits: int) -> None:
    space = Space("ints", {name: Attribute("int", low=0, high=1_000_000) for name in ("a1", "a2", "a3")})
    mapping = KeyMapping("key-space-split", bits).in_space(space)
    length = bits // 3
    random = Random(bits)
    for _ in range(60):
        named = random.sample(space.names, random.randint(1, 3))
        lows = {name: random.randrange(900_000) for name in named}
        highs = {name: low + random.choice([0, 1, 40, 3_000, 100_000]) for name, low in lows.items()}
        predicate = parse_predicate(space, " AND ".join(f"{each} BETWEEN {lows[each]} AND {highs[each]}" for each in named))
        places = [
            mapping.scales[at].of_keys(np.array([lows.get(each, 0), highs.get(each, 1_000_000)])) >> np.uint64(64 - length)
            for at, each in enumerate(space.names)
        ]
        whole = (0, (1 << length) - 1)
        parts = [
            [(int(low), int(high))] if each in named else [whole] for each, (low, high) in zip(space.names, places, strict=True)
        ]
        assert mapping.sk(predicate) == multiplied(parts, length, bits - 3 * length)


def _predicate(generate: Generator, space: object) -> object:
    while True:
        try:
            return parse_predicate(space, generate.text(space, depth=2))  # type: ignore[arg-type]
        except ContentcastError:
            continue
