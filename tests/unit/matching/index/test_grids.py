"""Grids: which levels of a grid ranges are filed at."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import contentcast as cc
from contentcast.matching.index.planning import grids
from contentcast.workload import scenario

CELLS = 64
EVEN = np.arange(CELLS + 1) / CELLS
CUTS = np.arange(1, CELLS, dtype=np.int64)


def ranges(seed: int, count: int, widest: int) -> tuple[grids.Ints, grids.Ints]:
    print("seed", seed)
    dice = np.random.default_rng(seed)
    first = dice.integers(0, CELLS, count)
    return first, np.minimum(first + dice.integers(0, widest, count), CELLS - 1)


@pytest.mark.parametrize("most", [1, 3, 24])
def test_the_level_of_a_range_is_the_finest_at_which_it_lies_in_few_cells(most: int) -> None:
    first, last = ranges(1, 200, CELLS)
    level = grids.level_of(first, last, most)
    assert ((last >> level) - (first >> level) < most).all()
    finer = level[level > 0] - 1
    assert (((last[level > 0] >> finer) - (first[level > 0] >> finer)) >= most).all()


def test_the_share_of_a_range_is_what_its_cells_hold() -> None:
    first, last = np.array([5, 62]), np.array([6, 63])
    assert grids.share(EVEN, first, last, 0).tolist() == [2 / 64, 2 / 64]
    assert grids.share(EVEN, first, last, 2).tolist() == [4 / 64, 4 / 64]
    assert grids.share(EVEN, first, last, 7).tolist() == [1, 1]


def price(first: grids.Ints, last: grids.Ints, own: grids.Ints, levels: tuple[int, ...], times: float) -> float:
    """What these levels cost, each range by itself."""
    total = 0.0
    goes = np.array([min(level for level in levels if level >= mine) for mine in own.tolist()])
    for level in levels:
        tested = sum(grids.share(EVEN, first[goes == level], last[goes == level], level).tolist()) * times
        copies = ((last[goes == level] >> level) - (first[goes == level] >> level) + 1).sum() * times
        total += grids.level_ns(tested, float(copies))
    return total


@pytest.mark.parametrize(("widest", "times"), [(2, 1.0), (9, 10.0), (64, 1.0), (64, 30.0), (64, 1000.0)])
def test_the_cheapest_levels_are_found(widest: int, times: float) -> None:
    first, last = ranges(2, 80, widest)
    own = grids.level_of(first, last, 3)
    needed, top = int(own.max()), min(int(own.max()) + grids.COARSER, 7)
    every = [levels for size in range(1, top + 2) for levels in combinations(range(top + 1), size) if levels[-1] >= needed]
    ns, copies, bits = grids.cheapest(EVEN, first, last, 3, times)
    found = tuple(level for level in range(8) if bits >> level & 1)
    assert ns == pytest.approx(min(price(first, last, own, levels, times) for levels in every))
    assert ns == pytest.approx(price(first, last, own, found, times))
    goes = np.array(found)[np.searchsorted(found, own)]
    assert copies == pytest.approx(((last >> goes) - (first >> goes) + 1).sum() * times)


def test_few_ranges_share_one_level_and_many_wide_ones_do_not_fill_the_memory() -> None:
    first, last = ranges(3, 500, 20)
    assert len(grids.with_levels(CUTS, EVEN, first, last, 0.1).levels) == 1
    many = grids.with_levels(CUTS, EVEN, first, last, 10_000.0)
    assert many.most == grids.MOST_CELLS[0]


def test_no_ranges_at_all() -> None:
    nothing = np.zeros(0, np.int64)
    assert grids.with_levels(nothing, np.array([0.0, 1.0]), nothing, nothing, 1.0).levels.tolist() == [0]


def test_a_range_wider_than_all_that_were_planned_for_is_found() -> None:
    drawn = scenario("market", seed=4)
    index = cc.MatchIndex(drawn.space)
    index.add_many(np.arange(5_000), drawn.subscriptions(5_000)["predicate"])
    prices = np.sort(drawn.events(2_000)["price"].to_numpy())
    index.add(5_000, f"price BETWEEN {float(prices[10])} AND {float(prices[-10])} AND volume > -1")
    found = index.match_batch(drawn.events(2_000))
    assert (found["subscription"].to_numpy() == 5_000).sum() == ((prices >= prices[10]) & (prices <= prices[-10])).sum()
