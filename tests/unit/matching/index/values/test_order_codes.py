"""Order codes must compare as their keys do, whatever comes later in between."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.matching import Scan
from contentcast.matching.index.values.dictionaries import ABSENT_KEY
from contentcast.matching.index.values.order_codes import ABSENT_CODE, Codes, OrderCodes

GREATEST = 2**63 - 1


def codes_of(scale: OrderCodes, keys: list[int]) -> list[int]:
    codes, ranks = np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
    scale.look_up(np.array(keys, np.int64), codes, ranks, None)
    return codes.tolist()


def unnoticed(old: Codes, new: Codes) -> None:
    """Nobody has any of the codes."""


def test_codes_are_ordered_as_keys() -> None:
    dice = Random(1)
    scale = OrderCodes()
    points: set[int] = set()
    for size in (1, 2, 3, 50, 1, 400, 7):
        spread = dice.choice([10, 10**4, 2**62])
        new = {dice.randint(-spread, spread) for _ in range(size)} | {ABSENT_KEY + 1, GREATEST}
        scale.add(np.array(sorted(new), np.int64), unnoticed)
        points |= new
        asked = sorted({ABSENT_KEY, *points, *(max(each - 1, ABSENT_KEY) for each in points), dice.randint(-spread, spread)})
        codes = codes_of(scale, asked)
        for one, other, code, following in zip(asked, asked[1:], codes, codes[1:], strict=False):
            assert code <= following
            assert code < following or not ({one, other} & points), (one, other)
        assert codes[0] == ABSENT_CODE
        known = [code for key, code in zip(asked, codes, strict=True) if key in points]
        assert scale.points[np.searchsorted(scale.codes, known)].tolist() == sorted(points)


def test_a_gap_that_is_used_up_gives_all_codes_anew() -> None:
    scale = OrderCodes()
    changed = 0

    def note(old: Codes, new: Codes) -> None:
        nonlocal changed
        changed += 1
        assert old.tolist() == scale.codes.tolist()  # those that are still in use
        assert sorted(new.tolist()) == new.tolist()

    scale.add(np.array([0, 2**62]), note)
    assert not changed  # nobody can have had one of its codes
    known = [0, 2**62]
    for step in range(1, 60):  # always in the middle of the same gap
        scale.add(np.array([2**62 >> step]), note)
        known.append(2**62 >> step)
    assert changed
    ordered = codes_of(scale, sorted(set(known)))
    assert ordered == sorted(set(ordered))


@pytest.mark.parametrize("direction", [1, -1])
def test_rising_and_falling_bounds_leave_the_codes_of_others_alone(direction: int) -> None:
    """`price < 101`, `price < 102`, ...: each takes little of what is left beyond the last one."""
    scale, points = OrderCodes(), np.arange(0, 10_000, 10)
    scale.add(points, unnoticed)

    def never(old: Codes, new: Codes) -> None:
        pytest.fail("the codes were given anew")

    before = codes_of(scale, points.tolist())
    edge = 10_000 if direction > 0 else -10
    for step in range(2_000):
        scale.add(np.array([edge + 10 * direction * step]), never)
    assert codes_of(scale, points.tolist()) == before
    assert not scale.is_crowded
    asked = sorted(scale.points[1:].tolist())
    assert codes_of(scale, asked) == sorted(set(codes_of(scale, asked)))


def test_rising_bounds_leave_the_plan_and_the_answers_alone() -> None:
    space = cc.Space("trades", price="float", volume="int")
    index, scan = cc.MatchIndex(space), Scan(space)
    texts = [f"volume BETWEEN {10 * number} AND {10 * number + 15}" for number in range(1_000)]
    texts += [f"volume < {10_000 + 3 * step}" for step in range(900)]
    index.add_many(range(1_000), texts[:1_000])
    for number in range(1_000, 1_900):
        index.add(number, texts[number])
        assert not index.statistics()["migrating"], number
    for number, text in enumerate(texts):
        scan.add(number, cc.parse_predicate(space, text))
    for volume in [*range(-5, 12_800, 501), 10_002, 10_003, 10_004, 12_696, 12_697, 12_698]:
        assert index.match({"volume": volume}) == scan.match({"volume": volume})


def test_codes_that_could_not_be_given_anew_stay_as_they_were() -> None:
    scale, failed = OrderCodes(), 0

    def scarce(old: Codes, new: Codes) -> None:
        raise MemoryError

    scale.add(np.array([0, 2**62]), scarce)
    for step in range(1, 62):  # always in the middle of the same gap
        points, codes = scale.points.tolist(), scale.codes.tolist()
        try:
            scale.add(np.array([2**62 >> step]), scarce)
        except MemoryError:
            failed += 1
            assert (scale.points.tolist(), scale.codes.tolist()) == (points, codes)
    assert failed
    known = scale.points[1:].tolist()
    assert codes_of(scale, known) == scale.codes[1:].tolist()
    assert codes_of(scale, known) == sorted(set(codes_of(scale, known)))


def test_subscriptions_stay_right_when_their_codes_change() -> None:
    space = cc.Space("trades", price="float", volume="int")
    index, scan = cc.MatchIndex(space), Scan(space)
    texts = ["price < 1 AND volume > 3", "price BETWEEN 0 AND 1", "price > 0.25 OR volume IN (1, 5)", "price >= 0"] * 50
    texts += [f"price < {2.0**-step!r} AND price > 0 AND volume >= {step}" for step in range(80)]
    for number, text in enumerate(texts):
        index.add(number, text)
        scan.add(number, cc.parse_predicate(space, text))
    events = [{"price": 2.0**-step * factor, "volume": step} for step in range(0, 80, 7) for factor in (0.9, 1.0, 1.1)]
    events += [{"price": 0.0}, {"price": -1.0, "volume": 4}, {"volume": 5}, {}]
    found = index.match_lists(pa.RecordBatch.from_pylist(events, schema=space.arrow_schema)).to_pylist()
    for event, ids in zip(events, found, strict=True):
        assert sorted(ids) == scan.match(event) == index.match(event)
    assert index.predicate(210) == cc.parse_predicate(space, texts[210])


def test_what_has_no_range_goes_behind_a_plan_with_a_grid() -> None:
    space = cc.Space("trades", symbol="string", price="float")
    index = cc.MatchIndex(space)
    index.add_many(range(3_000), [f"price BETWEEN {number} AND {number + 2}" for number in range(3_000)])
    assert any(group["gate"] == "cells" for group in index.statistics()["groups"])
    index.add(9_000, "symbol = 'IBM'")
    assert index.match({"symbol": "IBM", "price": 10.5}) == [9, 10, 9_000]


def test_points_that_come_later_are_looked_up_as_if_they_had_been_there() -> None:
    dice = Random(4)
    scale = OrderCodes()
    grid = np.array([-50, 0, 7, 120])
    scale.add(np.array([-(10**6), 10**6]), unnoticed)
    for size in (1, 1, 30, 2, 500, 1, 3_000):
        codes, ranks = np.empty(5, np.int32), np.empty(5, np.int32)
        scale.look_up(np.array([0, 1, 2, ABSENT_KEY, GREATEST]), codes, ranks, grid)  # makes what the next points are put into
        scale.add(np.array([dice.randint(-(10**6), 10**6) for _ in range(size)]), unnoticed)
        anew = OrderCodes(scale.points, scale.codes)
        assert (scale.marks(grid) == anew.marks(grid)).all()
        heads, shift_and_steps = scale.heads()
        bounds = scale.points[1] + (np.arange(len(heads)) << (shift_and_steps & 63))
        assert (heads == np.searchsorted(scale.points, np.minimum(bounds, scale.points[-1]), "right")).all()
