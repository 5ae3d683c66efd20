"""Subscriptions over small domains live in bitmaps: they must match, come and go as all others do."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.matching import Scan
from contentcast.workload import scenario


def agree(index: cc.MatchIndex, scan: Scan, events: pa.RecordBatch) -> None:
    found = index.match_lists(events).to_pylist()
    for at, event in enumerate(events.to_pylist()):
        expected = scan.match(event)
        assert sorted(found[at]) == expected
        assert index.match(event) == expected


@pytest.fixture(params=["w1", "w1b"])
def filled(request: pytest.FixtureRequest) -> tuple[cc.MatchIndex, Scan, pa.RecordBatch, list[str]]:
    chosen = scenario(request.param, seed=3)
    texts = chosen.subscriptions(3_000)["predicate"].to_pylist()
    index, scan = cc.MatchIndex(chosen.space), Scan(chosen.space)
    index.add_many(range(2_000), texts[:2_000])
    for number, text in enumerate(texts[:2_000]):
        scan.add(number, cc.parse_predicate(chosen.space, text))
    return index, scan, chosen.events(40, 0), texts


def test_they_are_found_there(filled: tuple[cc.MatchIndex, Scan, pa.RecordBatch, list[str]]) -> None:
    index, scan, events, _ = filled
    assert index.statistics()["in_bitmaps"] >= 1_990
    agree(index, scan, events)


def test_they_come_and_go(filled: tuple[cc.MatchIndex, Scan, pa.RecordBatch, list[str]]) -> None:
    index, scan, events, texts = filled
    dice = Random(5)
    gone = dice.sample(range(2_000), 900)
    index.remove_many(gone)
    for each in gone:
        scan.remove(each)
    agree(index, scan, events)
    index.add_many(range(2_000, 3_000), texts[2_000:])
    for number in range(2_000, 3_000):
        scan.add(number, cc.parse_predicate(index.space, texts[number]))
    agree(index, scan, events)
    assert index.statistics()["in_bitmaps"] >= 2_090
    for number in dice.sample(range(2_000, 3_000), 20):
        assert index.predicate(number) == cc.parse_predicate(index.space, texts[number])


def test_they_survive_a_file(filled: tuple[cc.MatchIndex, Scan, pa.RecordBatch, list[str]], tmp_path: Path) -> None:
    index, scan, events, texts = filled
    index.save(tmp_path / "index")
    loaded = cc.MatchIndex.load(tmp_path / "index")
    agree(loaded, scan, events)
    loaded.remove(7)
    scan.remove(7)
    loaded.add(7, texts[2_500])
    scan.add(7, cc.parse_predicate(index.space, texts[2_500]))
    agree(loaded, scan, events)


def test_new_values_and_absent_attributes() -> None:
    space = cc.Space("lights", room="string", colour="string", lit="bool")
    index, scan = cc.MatchIndex(space), Scan(space)
    colours = ["red", "green"]
    texts = [f"room = 'r{number % 3}' AND colour = '{colours[number % 2]}'" for number in range(150)]
    texts += ["colour IS NULL AND lit", "room = 'r1' OR colour = 'green' AND lit = FALSE", "NOT lit"] * 5
    index.add_many(range(len(texts)), texts)
    assert index.statistics()["in_bitmaps"] > 150
    more = [f"room = 'r{number}' AND colour = 'c{number % 50}'" for number in range(120)]
    numbers = [2**40 + number for number in range(120)]  # too long for an entry, and more values than there were rows for
    for number, text in zip(numbers, more, strict=True):
        index.add(number, text)
    for number, text in [*enumerate(texts), *zip(numbers, more, strict=True)]:
        scan.add(number, cc.parse_predicate(space, text))
    events = pa.RecordBatch.from_pylist(
        [
            {"room": "r1", "colour": "red", "lit": True},
            {"room": "r77", "colour": "c27", "lit": False},
            {"room": None, "colour": "green", "lit": False},
            {"room": "r2", "colour": None, "lit": True},
            {"room": "cellar", "colour": "mauve", "lit": None},
        ],
        schema=space.arrow_schema,
    )
    agree(index, scan, events)


def test_an_entry_in_several_alternatives_comes_once() -> None:
    space = cc.Space("three", a="int", b="int", c="int")
    index = cc.MatchIndex(space)
    texts = [f"a = {number % 3} OR b = {number % 2} OR c = {number % 4}" for number in range(400)]
    index.add_many(range(400), texts)
    assert index.statistics()["in_bitmaps"] == 1_200
    found = index.match_batch(pa.table({"a": [1, 2], "b": [1, 9], "c": [3, 9]}))
    expected = [[n for n in range(400) if n % 3 == 1 or n % 2 == 1 or n % 4 == 3], [n for n in range(400) if n % 3 == 2]]
    pairs = sorted(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))
    assert pairs == [(event, number) for event in (0, 1) for number in expected[event]]


def test_a_value_that_only_others_ask_for() -> None:
    """The bitmaps were laid out without it; its events must not be taken for those of a value that they know."""
    space = cc.Space("lamps", colour="string", watt="int", room="string")
    index, scan = cc.MatchIndex(space), Scan(space)
    texts = [f"colour = '{('red', 'green', 'blue')[number % 3]}' AND room = 'r{number % 4}'" for number in range(600)]
    texts += ["colour = 'red'", "colour = 'green'", "colour = 'blue'"]
    index.add_many(range(len(texts)), texts)
    assert index.statistics()["in_bitmaps"] > 600
    later = [f"colour = '{each}' AND watt > {at}" for at, each in enumerate(("mauve", "pink", "white"))]
    index.add_many([1_000, 1_001, 1_002], later)
    for number, text in [*enumerate(texts), *enumerate(later, 1_000)]:
        scan.add(number, cc.parse_predicate(space, text))
    colours = ["red", "green", "blue", "mauve", "pink", "white", "none of them", None]
    agree(index, scan, pa.RecordBatch.from_pylist([{"colour": each, "watt": 60, "room": "r1"} for each in colours]))


@pytest.mark.parametrize("values", [2, 7, 8, 30, 62])
def test_few_values_and_more(values: int) -> None:
    """Up to seven values have rows of their own, more share them."""
    dice = Random(values)
    space = cc.Space("dice", **{f"d{number}": "int" for number in range(6)})

    def one() -> str:
        asked = dice.sample(sorted(space.names), dice.randint(1, 4))
        return " AND ".join(f"{name} = {dice.randint(1, values)}" for name in asked)

    texts = [one() for _ in range(1_500)]
    index, scan = cc.MatchIndex(space), Scan(space)
    index.add_many(range(1_500), texts)
    assert index.statistics()["in_bitmaps"] > 1_400
    gone = dice.sample(range(1_500), 200)
    index.remove_many(gone)
    more = [one() for _ in range(300)]
    index.add_many(range(2_000, 2_300), more)
    for number, text in [*enumerate(texts), *enumerate(more, 2_000)]:
        if number not in gone:
            scan.add(number, cc.parse_predicate(space, text))
    for number in (2_000, 2_299, min(set(range(1_500)) - set(gone))):
        assert index.predicate(number) == cc.parse_predicate(space, [*texts, *[""] * 500, *more][number])
    rows = [{name: dice.choice([None, *range(values + 2)]) for name in space.names} for _ in range(60)]
    agree(index, scan, pa.RecordBatch.from_pylist(rows, schema=space.arrow_schema))


def test_a_migration_makes_room_for_what_goes_to_the_bitmaps_alone() -> None:
    """A tenth of the subscriptions live there; the memory is for them, not for all."""
    dice, space = Random(2), cc.Space("mixed", name="string", **dict.fromkeys("abcd", "int"))
    small = [" AND ".join(f"{each} = {dice.randrange(4)}" for each in dice.sample("abcd", 2)) for _ in range(30_000)]
    texts = [f"name = 'n{number}'" if number % 10 else each for number, each in enumerate(small)]
    index = cc.MatchIndex(space)
    index.add_many(range(4_000), texts[:4_000])
    at, first = 4_000, index.statistics()["planned_for"]
    while index.statistics()["planned_for"] == first and at < 30_000:
        index.add_many(range(at, at + 100), texts[at : at + 100])
        at += 100
    found = index.statistics()
    assert found["planned_for"] > first
    assert found["in_bitmaps"] == at // 10
    assert found["bytes"] < 8_000_000
