"""Text constraints: found by the pieces of a value, remembered by value, right when constraints and values come and go."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pickle import dumps
from random import Random
from typing import Any

import pytest

import contentcast as cc
from contentcast.matching import Scan
from contentcast.matching.index import Limits
from contentcast.matching.index.values.text_pieces import CONTAINS, EXACT, PREFIX, SUFFIX, Pieces
from contentcast.model import EventBatch

SPACE = cc.Space("notes", a="string", b="string", n="int")


def test_pieces_are_found_where_they_stand() -> None:
    pieces = Pieces()
    for number, (how, piece) in enumerate(
        [
            (EXACT, b"dark"),
            (PREFIX, b"da"),
            (SUFFIX, b"rk"),
            (CONTAINS, b"ar"),
            (CONTAINS, b"r"),
            (PREFIX, b""),
            (CONTAINS, b"ar"),
        ]
    ):
        pieces.link(how, piece, number)
    asked = [b"dark", b"bark", b"da", b"", b"r\x00", "är".encode()]
    found: list[list[int]] = [[] for _ in asked]
    for place, number in zip(*(each.tolist() for each in pieces.find(asked, 7)), strict=True):
        found[place].append(number)
    assert [sorted(each) for each in found] == [[0, 1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6], [1, 5], [5], [4, 5], [4, 5]]
    pieces.unlink(CONTAINS, b"ar", 3)
    pieces.unlink(EXACT, b"dark", 0)
    assert sorted(pieces.find([b"dark"], 7)[1].tolist()) == [1, 2, 4, 5, 6]


def test_pieces_that_lead_nowhere_are_given_up() -> None:
    """What has forgotten nine tenths of its pieces holds no more bytes than what never had them."""

    def linked(numbers: range) -> Pieces:
        made = Pieces()
        for number in numbers:
            made.link(CONTAINS, b"w%d." % number, number)
        return made

    pieces, few = linked(range(100)), linked(range(90, 100))
    for number in range(90):
        pieces.unlink(CONTAINS, b"w%d." % number, number)
    all_bytes = len(dumps(pieces))
    pieces.tidy()
    assert [each.find([b"w5. w95."], 100)[1].tolist() for each in (pieces, few)] == [[95], [95]]
    assert len(dumps(pieces)) == len(dumps(few)) < all_bytes


@pytest.mark.parametrize("seed", range(6))
def test_constraints_and_values_that_come_and_go(seed: int) -> None:
    print("seed", seed)
    dice = Random(seed)
    limits = Limits(
        most_tried=dice.choice([0, 5, 10_000]), replan_least=10, piece=2, filed_at_once=2, least_sample=4, step_work=1
    )
    index, oracle = cc.MatchIndex(SPACE, limits=limits), Scan(SPACE)
    there: list[int] = []

    def text() -> str:
        name, piece = dice.choice("ab"), "".join(dice.choice("xyé") for _ in range(dice.randint(1, 3)))
        return dice.choice(
            [
                f"contains({name}, '{piece}')",
                f"{name} NOT LIKE '%{piece}'",
                f"{name} LIKE '{piece}_%x'",
                f"{name} > '{piece}'",
                f"{name} < 'x' OR {name} >= '{piece}y'",
                f"{name} <> '{piece}' AND n = {dice.randrange(3)}",
                f"{name} LIKE '_%'",
                f"{name} LIKE '%{'x' * 70}%' OR {name} LIKE '%{'x' * 70}y%'",
            ]
        )

    for turn in range(120):
        if dice.random() < 0.6 or not there:
            predicate = cc.parse_predicate(SPACE, text())
            index.add(turn, predicate)
            oracle.add(turn, predicate)
            there.append(turn)
        else:
            gone = there.pop(dice.randrange(len(there)))
            index.remove(gone)
            oracle.remove(gone)
        words = ["", "x", "xy", "éx", "yyx", "xéyx", "x" * 70, "x" * 71 + "y", None]
        batch = EventBatch.from_dicts(SPACE, [{"a": dice.choice(words), "b": dice.choice(words), "n": 1} for _ in range(3)])
        expected = oracle.match_batch(batch)
        assert [sorted(each) for each in index.match_lists(batch).to_pylist()] == expected
        assert [index.match(event) for event in batch.to_dicts()] == expected


def test_what_one_attribute_forgets_the_others_do_not_use() -> None:
    index = cc.MatchIndex(SPACE, limits=Limits(most_tried=-1))
    for number, text in enumerate(["a LIKE '%x%'", "a LIKE '%y%'", "b LIKE '%q%'"]):
        index.add(number, text)
    batch = EventBatch.from_dicts(SPACE, [{"a": "x", "b": "p"}, {"a": "y", "b": "q"}])
    index.match_lists(batch)
    for number, letter in enumerate("mnop", start=3):
        index.add(number, f"b LIKE '%{letter}%'")
    assert [sorted(each) for each in index.match_lists(batch).to_pylist()] == [[0, 6], [1, 2]]


def test_constraints_that_nobody_asks_for_are_given_up_a_few_at_a_time() -> None:
    limits = Limits(replan_least=10, piece=4, filed_at_once=4, least_sample=4, step_work=1)
    index = cc.MatchIndex(SPACE, limits=limits)
    index.add_many(range(200), [f"a LIKE '%x{number}.%'" for number in range(200)])
    batch = EventBatch.from_dicts(SPACE, [{"a": f"-x{number}.-"} for number in range(200)])
    assert index.match_lists(batch).to_pylist() == [[each] for each in range(200)]
    for number in range(190):
        index.remove(number)
    again, held = 0, [index.statistics()["text_tests"]["a"]]
    while index.statistics()["migrating"] or again < 30:  # who comes asks for what is being given up
        index.add(1_000 + again, f"a LIKE '%x{again % 150}.%'")
        again += 1
        held.append(index.statistics()["text_tests"]["a"])
    asked = {number: [number] if number >= 190 else [] for number in range(200)}
    for number in range(again):
        asked[number % 150].append(1_000 + number)
    assert [sorted(each) for each in index.match_lists(batch).to_pylist()] == [sorted(asked[each]) for each in range(200)]
    assert max(before - after for before, after in pairwise(held)) <= 12
    assert held[-1] < 10 + again + 4


class Interrupted(dict[str, Any]):
    """An event during whose reading another thread has its turn."""

    def __init__(self, index: cc.MatchIndex) -> None:
        self.index = index

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        yield "n", 6
        for number in range(2_000):
            self.index.match({"a": f"xyz{number}"})
        yield "a", "xyz1999"


def test_what_another_thread_has_just_learnt_is_not_looked_up_in_what_was_known_before() -> None:
    index = cc.MatchIndex(SPACE)
    for number, letter in enumerate("xyz"):
        index.add(number, f"a LIKE '%{letter}%'")
    assert index.match(Interrupted(index)) == [0, 1, 2]


def test_ever_new_texts_take_no_more_numbers_than_there_are_at_a_time() -> None:
    index = cc.MatchIndex(SPACE, limits=Limits(replan_least=100, piece=32))
    for number in range(3_000):
        index.add(number, f"a LIKE '%w{number}.%'")
        if number >= 50:
            index.remove(number - 50)
        if number % 10 == 0:
            assert index.match({"a": f"a w{number}. b"}) == [number]
    assert index.statistics()["text_tests"]["a"] < 1_200
