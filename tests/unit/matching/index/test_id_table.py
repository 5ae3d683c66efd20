"""The table of ids: ids come and go, the table grows and shrinks, and nobody loses a cell."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from contentcast.matching.index.cells import id_table
from contentcast.matching.index.cells.id_table import IdTable

MOST = 2**62


def cells_of(table: IdTable, subscription: int) -> list[int]:
    at = id_table.first_of(table, id_table.find_id(table, subscription))
    found = []
    while at >= 0:
        found.append(int(table.cell[at]))
        at = table.next[at]
    return found


def added(table: IdTable, ids: list[int], cells: list[int]) -> IdTable:
    table = id_table.with_room_for(table, len(set(ids)), len(ids))
    id_table.add_references(table, np.array(ids, np.int64), np.array(cells, np.int64))
    return table


@pytest.mark.parametrize("seed", range(6))
def test_ids_that_come_and_go_are_known_with_their_cells(seed: int) -> None:
    print("seed", seed)
    dice = Random(seed)
    table, there = id_table.empty_id_table(), dict[int, list[int]]()
    sizes = set()
    for _ in range(600):
        if dice.random() < 0.6 or not there:
            new = [each for each in {dice.randrange(3_000) for _ in range(dice.choice([1, 3, 40]))} if each not in there]
            ids = [each for each in new for _ in range(dice.choice([1, 1, 3]))]
            cells = [dice.randrange(-1, 50) for _ in ids]
            table = added(table, ids, cells)
            for each, cell in zip(ids, cells, strict=True):
                there.setdefault(each, []).insert(0, cell)
        else:
            for each in dice.sample(sorted(there), min(len(there), dice.choice([1, 20, 200]))):
                id_table.forget(table, id_table.find_id(table, each))
                del there[each]
        sizes.add(len(table.id))
        asked = np.array(sorted({*list(there)[:50], *(dice.randrange(3_000) for _ in range(50))}))
        assert id_table.which_are_known(table, asked).tolist() == [each in there for each in asked.tolist()]
        assert table.state[id_table.KNOWN] == len(there)
        assert 2 * np.count_nonzero(table.head) <= len(table.head)
    assert len(sizes) > 3
    assert sorted(id_table.all_ids(table).tolist()) == sorted(there)
    assert {each: cells_of(table, each) for each in there} == there


def test_after_nearly_all_have_gone_the_table_becomes_small_again() -> None:
    table = added(id_table.empty_id_table(), list(range(50_000)), [1] * 50_000)
    large = len(table.id)
    for each in range(10, 50_000):
        id_table.forget(table, id_table.find_id(table, each))
    at = 50_000
    while len(table.id) == large:
        table = added(table, [at, at + 1], [2, 3])
        id_table.forget(table, id_table.find_id(table, at))
        id_table.forget(table, id_table.find_id(table, at + 1))
        at += 2
    assert len(table.id) < large
    assert sorted(id_table.all_ids(table).tolist()) == list(range(10))
    assert cells_of(table, 3) == [1]


def test_ids_that_cannot_be_added_are_named() -> None:
    table = added(id_table.empty_id_table(), [*range(33), 100], [1] * 34)
    assert id_table.first_unfit(table, np.array([200, 201]), MOST) == (-1, id_table.FIT)
    assert id_table.first_unfit(table, np.array([200, 32]), MOST) == (1, id_table.KNOWN_ALREADY)
    assert id_table.first_unfit(table, np.array([200, 201, 200]), MOST) == (2, id_table.TWICE)
    assert id_table.first_unfit(table, np.array([MOST]), MOST) == (0, id_table.TOO_LARGE)
    assert id_table.count_references(table, np.array([0, 100])) == 2
    assert id_table.count_references(table, np.array([0, 101])) == -2


def test_counting_again_finds_what_there_is() -> None:
    table = added(id_table.empty_id_table(), [*range(40), 5, 5], [1] * 42)
    id_table.forget(table, id_table.find_id(table, 7))
    state = table.state.copy()
    table.state[[id_table.KNOWN, id_table.SLOTS, id_table.CHAINED]] = 0
    id_table.recount(table)
    assert table.state.tolist() == state.tolist()
