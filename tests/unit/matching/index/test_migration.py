"""The index moves to a new plan while subscriptions come and go: nobody must notice, but for the speed."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.language import parse_many
from contentcast.matching import Scan
from contentcast.matching.index import Limits
from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.cells.groups import Group, group_columns
from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.machine import layout
from contentcast.matching.index.planning.gates import Gate
from contentcast.matching.index.values.entries import Attributes, entries_of
from contentcast.matching.index.values.entry_rows import EntryRows
from contentcast.model import EventBatch
from contentcast.workload import scenario

ORDERS = cc.Space("orders", order="string", state="int", price="float", note="string")


RESTLESS = Limits(replan_least=16, least_sample=8, piece=4, filed_at_once=4, step_work=1)
"""An index of a few dozen moves, a few subscriptions at a time."""


def is_moving(index: cc.MatchIndex) -> bool:
    return bool(index.statistics()["migrating"])


def text(dice: Random) -> str:
    return dice.choice(
        [
            f"`order` = 'o{dice.randrange(400)}' AND state = {dice.randrange(4)}",
            f"price BETWEEN {dice.randrange(100)} AND {100 + dice.randrange(100)}",
            f"price > {dice.randrange(200)} OR note LIKE '%{dice.choice('abc')}%'",
            f"note NOT LIKE '%{dice.choice('abc')}%{dice.choice('abc')}' AND price < {dice.randrange(200)}",
            f"state IN ({', '.join(str(dice.randrange(200)) for _ in range(40))})",
            f"state = {dice.randrange(4)}",
            f"state = {dice.randrange(4)} AND note LIKE '%{dice.choice('abc')}_{dice.choice('abc')}%'",
        ]
    )


def events(dice: Random, count: int) -> EventBatch:
    rows = [
        {
            "order": f"o{dice.randrange(400)}",
            "state": dice.randrange(6),
            "price": float(dice.randrange(220)),
            "note": "".join(dice.choice("abcd") for _ in range(3)),
        }
        for _ in range(count)
    ]
    return EventBatch.from_dicts(ORDERS, rows)


@pytest.mark.parametrize("seed", range(12))
def test_what_comes_and_goes_during_a_move_is_matched_as_ever(seed: int) -> None:
    print("seed", seed)
    dice = Random(seed)
    index, oracle = cc.MatchIndex(ORDERS, limits=RESTLESS), Scan(ORDERS)
    there: list[int] = []
    moves = 0
    for turn in range(250):
        if dice.random() < 0.7 or not there:
            # Ids come again with another predicate, also those that have just gone or have already moved.
            new = dice.choice([each for each in range(turn + 2) if each not in there])
            predicate = cc.parse_predicate(ORDERS, text(dice))
            index.add(new, predicate)
            oracle.add(new, predicate)
            there.append(new)
        else:
            gone = there.pop(dice.randrange(len(there)))
            index.remove(gone)
            oracle.remove(gone)
        moves += is_moving(index)
        batch = events(dice, 3)
        assert [sorted(each) for each in index.match_lists(batch).to_pylist()] == oracle.match_batch(batch)
    assert moves > 20
    assert list(index) == sorted(there)


def test_growing_a_little_at_a_time_ends_with_a_plan_as_good_as_one_made_at_once() -> None:
    drawn = scenario("market", seed=3)
    texts, batch = drawn.subscriptions(16_000)["predicate"], drawn.events(2_000)
    grown, built = cc.MatchIndex(drawn.space), cc.MatchIndex(drawn.space)
    built.add_many(np.arange(16_000), texts)
    for begin in range(0, 16_000, 500):
        grown.add_many(np.arange(begin, begin + 500), texts.slice(begin, 500))
    while is_moving(grown):
        grown.add(16_000, "price < 1")
        grown.remove(16_000)
    assert grown.match_counts(batch) == built.match_counts(batch)
    assert {each["gate"] for each in grown.statistics()["groups"]} == {each["gate"] for each in built.statistics()["groups"]}
    assert grown.statistics()["entries"] < 1.5 * built.statistics()["entries"]
    assert grown.statistics()["bytes"] < 1.5 * built.statistics()["bytes"]


def test_what_has_gone_takes_no_memory_for_ever() -> None:
    """Ever new subscriptions with ever new values, as many coming as going."""
    index = cc.MatchIndex(ORDERS)
    sizes = []
    for begin in range(0, 60_000, 500):
        texts = [f"`order` = 'o{number}' OR price BETWEEN {number} AND {number}.5" for number in range(begin, begin + 500)]
        index.add_many(range(begin, begin + 500), texts)
        if begin >= 2_000:
            index.remove_many(range(begin - 2_000, begin - 1_500))
        sizes.append(index.statistics()["bytes"])
    assert len(index) == 2_000
    assert max(sizes[60:]) <= 1.5 * max(sizes[:60])
    assert index.statistics()["values"]["order"] < 20_000
    assert index.statistics()["range_ends"]["price"] < 40_000
    assert index.match({"order": "o59999", "price": 58_500.25}) == [58_500, 59_999]


def test_an_index_that_has_shrunk_gives_its_memory_back() -> None:
    index = cc.MatchIndex(ORDERS)
    index.add_many(range(40_000), [f"`order` = 'o{number}' AND price < {number}" for number in range(40_000)])
    before = index.statistics()["bytes"]
    for begin in range(0, 39_500, 500):
        index.remove_many(range(begin, begin + 500))
    for turn in range(100):  # a little of the move with every change
        index.add(40_000 + turn, "price < 1")
        index.remove_many([39_500 + turn])
    assert index.statistics()["bytes"] < before / 4
    assert index.match({"order": "o39999", "price": 5.0}) == [39_999]
    index.remove_many(list(index))
    assert len(index) == 0
    assert index.match({"order": "o39999", "price": 5.0}) == []
    index.add(1, "price < 6")
    assert index.match({"price": 5.0}) == [1]


def test_a_text_that_others_still_ask_for_stays() -> None:
    """An entry behind a grid lies in several cells: taking it out of each of them is still one less that uses its texts."""
    index = cc.MatchIndex(ORDERS)
    texts = [f"price BETWEEN {0.01 * each:.2f} AND {0.01 * each + 0.3:.2f} AND note NOT LIKE '%a%c'" for each in range(5_000)]
    index.add_many(range(5_000), texts)
    assert {each["gate"] for each in index.statistics()["groups"]} == {"cells"}
    index.remove_many(range(3_000))
    price = 40.001
    assert index.match({"price": price, "note": "xaxc"}) == []
    assert index.match({"price": price, "note": "xaxb"}) == list(range(3_971, 4_001))


@pytest.mark.parametrize("size", [2_000, 4_000, 9_000])
def test_ever_new_values_are_never_planned_for_at_once(size: int) -> None:
    """Only a migration comes to a new plan: one that is made at once would be made for all there are, at once."""
    index = cc.MatchIndex(ORDERS)
    index.add_many(range(size), [f"`order` = 'o{number}'" for number in range(size)])
    moving, plans = False, [size]
    for begin in range(size, 5 * size, 100):
        index.add_many(range(begin, begin + 100), [f"`order` = 'o{number}'" for number in range(begin, begin + 100)])
        found = index.statistics()
        if found["planned_for"] != plans[-1]:
            assert moving, "all at once"
            plans.append(found["planned_for"])
        moving = found["migrating"]
    assert len(plans) > 1 or moving
    last = 5 * size
    index.add(last, "state = 1")  # nobody had compared a state before
    assert index.match({"order": f"o{last - 1}", "state": 1}) == [last - 1, last]


@pytest.mark.parametrize("turns", range(0, 60, 4))
def test_ranges_that_have_all_gone_before_they_moved(turns: int) -> None:
    """They go at some time of the migration, also after it has planned a grid for them: the grid has no codes then."""
    space = cc.Space("quotes", name="string", price="float")
    index = cc.MatchIndex(space, limits=Limits(replan_least=100, least_sample=50, piece=4, filed_at_once=4, step_work=8))

    def quote(number: int) -> str:
        return f"price BETWEEN {number * 0.37:.3f} AND {number * 0.37 + 0.2:.3f}"

    index.add_many(range(100), [quote(number) for number in range(100)])
    first, last = 0, 100
    while not is_moving(index):
        index.remove(first)
        index.add(last, quote(last))
        first, last = first + 1, last + 1
    for _ in range(turns):
        index.remove(first)
        index.add(last, quote(last))
        first, last = first + 1, last + 1
    index.add_many(range(10**6, 10**6 + 10), [f"name = 'n{number}'" for number in range(10)])
    index.remove_many([each for each in index if each < 10**6])
    assert index.match({"name": "n3", "price": 5.0}) == [10**6 + 3]
    for _ in range(400):
        if not is_moving(index):
            break
        index.add(1, "name = 'x'")
        index.remove(1)
    assert not is_moving(index)
    assert index.match({"name": "n3", "price": 5.0}) == [10**6 + 3]
    index.add(1, "price > 3")
    assert index.match({"name": "n3", "price": 5.0}) == [1, 10**6 + 3]


def test_a_new_cell_for_more_than_the_arena_has_left() -> None:
    """Another cell of the same addition takes of what was left, after it was found to be enough."""
    store = Store(groups=[Group(Gate("equal", 0, 255), 0, (("range", "x"),))])
    columns = group_columns(store.groups, {"x": 0})
    for keys in ([1] * 256, [7] * 470, [1] + [5] * 200):
        count = len(keys)
        words, start = np.array([keys], np.int64), np.arange(count + 1)
        asked = np.array([(0, layout.T_RANGE, number, number, number, number) for number in range(count)], np.int64)
        routes = np.array([(0, key, key, number) for number, key in enumerate(keys)], np.int64)
        rows, cells = store.open_cells(columns, routes, np.zeros(count, np.int64), {})
        entry_rows = EntryRows(words, np.full_like(words, 255), start, asked)
        store.append(columns, entry_rows, rows, cells, routes[:, layout.MIXED], np.arange(count, dtype=np.int32))
    assert store.count[: store.cell_count].tolist() == [257, 470, 200]


def test_ranges_wider_than_all_that_were_planned_for_open_few_levels() -> None:
    def levels(index: cc.MatchIndex) -> set[int]:
        return {group["level"] for group in index.statistics()["groups"] if group["gate"] == "cells"}

    market = scenario("market", seed=5)
    index = cc.MatchIndex(market.space)
    index.add_many(range(5_000), market.subscriptions(5_000)["predicate"])
    planned = levels(index)
    prices = np.sort(market.events(3_000)["price"].to_numpy())
    widths = np.geomspace(10, 1_400, 200).astype(int)
    for number, width in enumerate(widths.tolist()):
        low, high = float(prices[1_500 - width]), float(prices[1_500 + width])
        index.add(10_000 + number, f"price BETWEEN {low} AND {high}")
    assert planned
    assert len(levels(index)) <= len(planned) + 5  # of 200 widths: each level is of ranges four times as wide
    found = index.match({"price": float(prices[1_500])})
    assert set(range(10_000, 10_200)) <= set(found)


def test_a_group_for_ranges_that_have_all_gone_before_they_moved() -> None:
    """It was planned to hold others too, which then are the only ones: what it compares needs a scale all the same."""
    texts = [f"`order` = 'o{each % 3}' AND state > {each}" + f" AND price > {each}" * (each % 2) for each in range(60)]
    tables = [parse_many(ORDERS, pa.array(some)) for some in (texts, texts[::2])]
    filing = Filing(Attributes(ORDERS), Store())
    filing.make_plan(entries_of(tables[0], filing.attributes))
    filing.insert(np.arange(30), entries_of(tables[1], filing.attributes))
    tested = {name for group in filing.store.groups for kind, name in group.tests if kind in ("range", "low", "high")}
    assert tested == {"state", "price"}
    assert set(filing.order_codes) == tested
