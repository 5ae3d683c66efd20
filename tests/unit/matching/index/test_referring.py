"""The table of ids: it grows a little with every id that comes, and nobody must notice."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from contentcast.matching.index import referring, room
from contentcast.matching.index.referring import References

MOST = 2**62


def cells_of(references: References, subscription: int) -> list[int]:
    at = referring.first_of(references, referring.find_id(references, subscription))
    found = []
    while at >= 0:
        found.append(int(references.cell[at]))
        at = references.next[at]
    return found


def added(references: References, ids: list[int], cells: list[int]) -> References:
    references = referring.fitted(references, len(set(ids)), len(ids))
    referring.add_references(references, np.array(ids, np.int64), np.array(cells, np.int64))
    return references


def is_moving(references: References) -> bool:
    return len(references.old_id) > 0


@pytest.mark.parametrize("seed", range(6))
def test_ids_that_come_and_go_are_known_with_their_cells(seed: int) -> None:
    print("seed", seed)
    dice = Random(seed)
    references, there = referring.no_references(), dict[int, list[int]]()
    moved = 0
    for _ in range(600):
        if dice.random() < 0.6 or not there:
            new = [each for each in {dice.randrange(3_000) for _ in range(dice.choice([1, 3, 40]))} if each not in there]
            ids = [each for each in new for _ in range(dice.choice([1, 1, 3]))]
            cells = [dice.randrange(-1, 50) for _ in ids]
            references = added(references, ids, cells)
            for each, cell in zip(ids, cells, strict=True):
                there.setdefault(each, []).insert(0, cell)
        else:
            for each in dice.sample(sorted(there), min(len(there), dice.choice([1, 20, 200]))):
                referring.forget(references, referring.find_id(references, each))
                del there[each]
        moved += is_moving(references)
        asked = np.array(sorted({*list(there)[:50], *(dice.randrange(3_000) for _ in range(50))}))
        assert referring.known_among(references, asked).tolist() == [each in there for each in asked.tolist()]
        assert references.state[referring.KNOWN] == len(there)
    assert moved > 5
    assert sorted(referring.ids_of(references).tolist()) == sorted(there)
    assert {each: cells_of(references, each) for each in there} == there


def test_half_of_the_slots_stay_free_and_no_step_moves_many() -> None:
    references, sizes = referring.no_references(), set()
    for each in range(0, 200_000, 100):
        before = int(references.state[referring.MOVED])
        references = added(references, list(range(each, each + 100)), [1] * 100)
        assert 2 * np.count_nonzero(references.head) <= len(references.head)
        size = len(references.id)
        steps = int(references.state[referring.MOVED]) - (before if size in sizes else 0)
        sizes.add(size)
        assert steps <= 100 * referring.LEAST_EACH
    assert len(sizes) > 8
    assert len(referring.ids_of(references)) == 200_000


def test_while_the_table_grows_its_memory_is_used_from_the_beginning_on() -> None:
    """What comes must not go anywhere in a table whose pages nobody has touched yet."""
    references, reached = referring.no_references(), []
    for each in range(0, 60_000, 20):
        references = added(references, list(range(each, each + 20)), [1] * 20)
        if is_moving(references):
            share = int(references.state[referring.MOVED]) / len(references.old_id)
            beyond = references.head[int(share * len(references.id)) + 64 :]
            reached.append(np.count_nonzero(beyond))
    assert len(reached) > 100
    assert max(reached) <= 1  # one that would have come round to the beginning of the old table
    assert sorted(referring.ids_of(references).tolist()) == list(range(60_000))


def test_after_nearly_all_have_gone_the_table_becomes_small_again() -> None:
    references = added(referring.no_references(), list(range(50_000)), [1] * 50_000)
    large = len(references.id)
    for each in range(10, 50_000):
        referring.forget(references, referring.find_id(references, each))
    at = 50_000
    while len(references.id) == large:
        references = added(references, [at, at + 1], [2, 3])
        referring.forget(references, referring.find_id(references, at))
        referring.forget(references, referring.find_id(references, at + 1))
        at += 2
    while is_moving(references):
        references = added(references, [at], [7])
        at += 1
    assert len(references.id) < large
    assert set(range(10)) <= set(referring.ids_of(references).tolist())
    assert cells_of(references, 3) == [1]


def test_ids_that_cannot_be_added_are_named_while_others_move() -> None:
    references = added(added(referring.no_references(), list(range(32)), [1] * 32), [32], [1])
    references = added(references, [100], [2])
    assert is_moving(references)
    assert referring.first_unfit(references, np.array([200, 201]), MOST) == (-1, referring.FIT)
    assert referring.first_unfit(references, np.array([200, 32]), MOST) == (1, referring.KNOWN_ALREADY)
    assert referring.first_unfit(references, np.array([200, 0]), MOST) == (1, referring.KNOWN_ALREADY)
    assert referring.first_unfit(references, np.array([200, 201, 200]), MOST) == (2, referring.TWICE)
    assert referring.first_unfit(references, np.array([MOST]), MOST) == (0, referring.TOO_LARGE)
    assert referring.count_references(references, np.array([0, 100])) == 2
    assert referring.count_references(references, np.array([0, 101])) == -2


def test_counting_again_finds_what_there_is() -> None:
    references = added(referring.no_references(), [*range(40), 5, 5], [1] * 42)
    referring.forget(references, referring.find_id(references, 7))
    state = references.state.copy()
    references.state[[referring.KNOWN, referring.SLOTS, referring.CHAINED]] = 0
    referring.count_again(references)
    assert references.state.tolist() == state.tolist()


@pytest.mark.parametrize("after", range(5))
def test_without_memory_all_stays_as_it_was(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Table and chains have to grow, and the memory for one of them cannot be had."""
    monkeypatch.setattr(room, "ROOM", 2)
    references, ids = referring.no_references(), np.arange(130)
    for each in range(130):
        references = added(references, [each], [each])
    assert is_moving(references)
    left = iter(range(after))

    def scarce(shape: tuple[int, ...], dtype: Any, **_: Any) -> Any:
        if next(left, None) is None:
            raise MemoryError
        return np.zeros(shape, dtype)

    with monkeypatch.context() as patched:
        patched.setattr(referring, "zeros", scarce)
        patched.setattr(room, "zeros", scarce)
        if after < 4:
            with pytest.raises(MemoryError):
                referring.fitted(references, 1_000, 1_000)
        else:
            references = referring.fitted(references, 1_000, 1_000)
    assert referring.known_among(references, np.arange(300)).tolist() == [True] * 130 + [False] * 170
    assert [cells_of(references, each) for each in ids.tolist()] == [[each] for each in ids.tolist()]
    references = added(references, list(range(130, 1_200)), list(range(130, 1_200)))
    assert sorted(referring.ids_of(references).tolist()) == list(range(1_200))
    assert cells_of(references, 700) == [700]


def test_where_memory_is_scarce_one_chain_may_have_more_room_than_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    generous: list[int] = []

    def scarce(shape: tuple[int, ...], dtype: Any, **_: Any) -> Any:
        if shape[0] % (10 * room.ROOM) == 0:  # so much as a chain would like to have
            generous.append(shape[0])
            if len(generous) % 2 == 0:
                raise MemoryError
        return np.zeros(shape, dtype)

    monkeypatch.setattr(room, "zeros", scarce)
    references = referring.no_references()
    for each in range(0, 3_000, 10):
        references = added(references, list(range(each, each + 10)), list(range(each, each + 10)))
        chained = references.state[referring.CHAINED]
        assert len(references.cell) >= chained
        assert len(references.next) >= chained
    assert len(generous) > 4
    assert [cells_of(references, each) for each in range(3_000)] == [[each] for each in range(3_000)]
