"""A change of the index is made whole or not at all, wherever it breaks off.

Every story tries the places one after the other: each array that there is no memory for, and each call in which Ctrl-C is
pressed, or every third one where there are hundreds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from itertools import count
from random import Random
from threading import Thread

import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.language import parse_many
from contentcast.matching import Scan
from contentcast.matching.index import Limits
from contentcast.workload import scenario
from tests.unit.matching.index.breaking import PACKAGE, Broken, ctrl_c, no_memory

Break = Callable[[int], AbstractContextManager[Broken]]
BREAKS = pytest.mark.parametrize(
    ("breaks", "error"), [(no_memory, MemoryError), (ctrl_c, KeyboardInterrupt)], ids=["memory", "ctrl-c"]
)
NOTES = cc.Space("notes", note="string", x="int")
TRADES = cc.Space("trades", issue="string", price="float", volume="int", note="string", a="int", b="int", c="int")
FIRST = parse_many(NOTES, pa.array(["note LIKE 'zz%'", "x = 1", "x BETWEEN 2 AND 5"]))
LATER = parse_many(NOTES, pa.array(["note LIKE '%abc%' AND x < 9", "note NOT LIKE '%abc%' AND x < 9"]))
RESTLESS = Limits(replan_least=16, least_sample=8, piece=4, filed_at_once=4, step_work=1)
"""An index of a few dozen moves to a new plan, a few subscriptions at a time."""


def oracle_of(space: cc.Space, texts: dict[int, str]) -> Scan:
    scan = Scan(space)
    for number, text in texts.items():
        scan.add(number, cc.parse_predicate(space, text))
    return scan


def trades() -> tuple[cc.MatchIndex, dict[int, str], list[dict[str, object]]]:
    """An index with cells, grids and bitmaps, what it holds, and events that many of them want."""
    dice, index = Random(7), cc.MatchIndex(TRADES)
    texts = {number: " AND ".join(f"{name} = {dice.randrange(4)}" for name in dice.sample("abc", 2)) for number in range(600)}
    texts |= {number: f"issue = 'i{number % 7}' AND price < {number}" for number in range(0, 600, 9)}
    index.add_many(list(texts), list(texts.values()))
    assert index.statistics()["in_bitmaps"]
    events: list[dict[str, object]] = [
        {"issue": f"i{at % 7}", "price": float(at), "volume": 1, "note": f"{at % 4}", "a": at % 5, "b": at % 3, "c": 1}
        for at in range(0, 900, 41)
    ]
    return index, texts, events


@BREAKS
def test_an_addition_that_breaks_off_leaves_nothing_behind(breaks: Break, error: type[BaseException]) -> None:
    index, texts, events = trades()
    more = {
        number: f"issue = 'i{number % 7}' AND price > {number} OR a = {number % 5} AND b = 1 OR note LIKE '%{number % 3}'"
        for number in range(1_000, 1_040)
    }
    before = [oracle_of(TRADES, texts).match(event) for event in events]
    after = [oracle_of(TRADES, texts | more).match(event) for event in events]
    table = parse_many(TRADES, pa.array(list(more.values())))
    index.add_many(list(more), table)  # once, so that all kernels are loaded
    index.remove_many(list(more))
    for number in count(1, 1 if error is MemoryError else 3):
        came = False
        with breaks(number) as broken, suppress(error):
            index.add_many(list(more), table)
            came = True
        came = came or 1_000 in index  # Ctrl-C waits until the change is whole
        assert len(index) == len(texts) + came * len(more), number
        assert [index.match(event) for event in events] == (after if came else before), number
        if not broken.happened:
            break
        if came:
            assert index.predicate(1_007) == cc.parse_predicate(TRADES, more[1_007])
            index.remove_many(list(more))
    assert number > 50
    assert came


@BREAKS
def test_a_removal_that_breaks_off_leaves_no_ghosts(breaks: Break, error: type[BaseException]) -> None:
    index, texts, events = trades()
    gone = [*range(0, 600, 9), *range(1, 600, 5)]
    gone = sorted(set(gone))
    left = {number: text for number, text in texts.items() if number not in gone}
    before, after = ([oracle_of(TRADES, each).match(event) for event in events] for each in (texts, left))
    index.remove_many(gone)
    for number in count(1):
        if len(index) == len(left):
            index.add_many(gone, [texts[each] for each in gone])
        with breaks(number) as broken, suppress(error):
            index.remove_many(gone)
        assert list(index) in (list(texts), list(left)), number
        assert [index.match(event) for event in events] == (before if gone[0] in index else after), number
        if not broken.happened:
            break
    assert len(index) == len(left)


REMOVED = ("a-1", "a-4")
CHANGES: dict[str, Callable[[cc.MatchIndex], object]] = {
    "remove": lambda index: index.remove_many(REMOVED),
    "add": lambda index: index.add_many(["b-1", "b-2"], LATER),
    "replace": lambda index: index.replace("a-1", cc.parse_predicate(NOTES, "x = 9")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_ids_predicates_and_turns_change_together(change: Callable[[cc.MatchIndex], object]) -> None:
    """Ctrl-C anywhere in the package: the index said for ever that it was in the midst of a change, or knew ids of nobody."""
    events = [{"x": value, "note": "abc"} for value in range(10)]

    def an_index() -> cc.MatchIndex:
        index = cc.MatchIndex(NOTES)
        index.add_many([f"a-{number}" for number in range(8)], [f"x = {number}" for number in range(8)])
        return index

    def told(index: cc.MatchIndex) -> object:
        return list(index), [index.match(event) for event in events], [str(index.predicate(each)) for each in index]

    before, changed = an_index(), an_index()
    change(changed)
    possible = [told(before), told(changed)]
    for number in count(1):
        index = an_index()
        with ctrl_c(number, PACKAGE) as broken, suppress(KeyboardInterrupt):
            change(index)
        assert told(index) in possible, number
        if not broken.happened:
            break
        index.add("c", "x = 0")
        index.remove("c")
        assert told(index) in possible, number
    assert number > 20


@BREAKS
def test_a_new_plan_that_breaks_off_leaves_the_old_one_serving(breaks: Break, error: type[BaseException]) -> None:
    """So many come at once that all is planned anew."""
    few = {number: f"x = {number}" for number in range(3)} | {3: "note LIKE '%a%'"}
    many = {number: f"x BETWEEN {number} AND {number + 3}" if number % 2 else f"x = {number}" for number in range(10, 60)}
    limits = Limits(replan_least=16)
    before, after = (
        [oracle_of(NOTES, each).match({"x": value, "note": "ab"}) for value in range(70)] for each in (few, few | many)
    )
    table = parse_many(NOTES, pa.array(list(many.values())))
    for number in count(1, 1 if error is MemoryError else 3):
        index = cc.MatchIndex(NOTES, limits=limits)
        index.add_many(list(few), list(few.values()))
        with breaks(number) as broken, suppress(error):
            index.add_many(list(many), table)
        came = 10 in index
        assert [index.match({"x": value, "note": "ab"}) for value in range(70)] == (after if came else before), number
        if not broken.happened:
            break
        if not came:
            assert index.statistics()["planned_for"] == len(few), number
            index.add_many(list(many), table)  # there is memory again
            assert [index.match({"x": value, "note": "ab"}) for value in range(70)] == after
    assert came
    assert index.statistics()["planned_for"] == len(few) + len(many)


def change(dice: Random, there: dict[int, str], number: int) -> tuple[str, int, str]:
    if there and dice.random() < 0.3:
        gone = dice.choice(list(there))
        return "remove", gone, there[gone]
    low, piece = dice.randrange(40), dice.choice("abcd")
    kinds = [
        f"x = {low}",
        f"x BETWEEN {low} AND {low + 15}",
        f"note LIKE '%{piece}%' OR x > {low}",
        f"note = '{piece}' AND x < {low}",
    ]
    return "add", number, dice.choice(kinds)


@BREAKS
@pytest.mark.parametrize("seed", range(3))
def test_a_migration_that_breaks_off_leaves_the_index_answering_rightly(
    seed: int, breaks: Break, error: type[BaseException]
) -> None:
    """Most changes are broken off somewhere, and each carries a little of a migration with it."""
    print("seed", seed)
    dice, index, there = Random(seed), cc.MatchIndex(NOTES, limits=RESTLESS), {1_000 + x: f"x = {x}" for x in range(12)}
    index.add_many(list(there), list(there.values()))
    events = [{"x": dice.randrange(60), "note": dice.choice("abcd")} for _ in range(8)]
    plans, migrating, broken_off = set(), 0, 0
    for number in range(400):
        how, subscription, text = change(dice, there, number)
        with breaks(dice.randrange(1, 120 if error is MemoryError else 1_500)) as broken, suppress(error):
            index.add(subscription, text) if how == "add" else index.remove(subscription)
        broken_off += broken.happened
        if subscription in index:
            there[subscription] = text
        else:
            there.pop(subscription, None)
        assert list(index) == sorted(there), number
        scan = oracle_of(NOTES, there)
        assert [index.match(event) for event in events] == [scan.match(event) for event in events], number
        migrating += bool(index.statistics()["migrating"])
        plans.add(index.statistics()["planned_for"])
    assert broken_off > 50
    assert migrating > 20
    assert len(plans) > 1


@BREAKS
def test_a_text_whose_filing_broke_off_is_filed_by_the_next_who_asks_for_it(breaks: Break, error: type[BaseException]) -> None:
    index = cc.MatchIndex(NOTES)
    index.add_many(range(3), ["note LIKE 'zz%'", "x = 1", "x = 2"])
    for number in count(1):
        text = f"note LIKE '%abc{number}%'"
        with breaks(number) as broken, suppress(error):
            index.add(10, text)
        if not broken.happened:
            break
        there = [10] if 10 in index else []
        index.add(11, text)
        assert index.match({"note": f"xabc{number}x"}) == [*there, 11], number
        index.remove_many([*there, 11])
    assert index.match({"note": f"xabc{number}x"}) == [10]


@BREAKS
def test_a_match_that_breaks_off_does_no_harm(breaks: Break, error: type[BaseException]) -> None:
    """The first match after an addition finds out what the next ones remember: which texts hold for which values."""
    event = {"note": "xabcx", "x": 1}
    for number in count(1, 1 if error is MemoryError else 2):
        index = cc.MatchIndex(NOTES)
        index.add_many(range(3), FIRST)
        assert index.match(event) == [1]
        index.add_many([5, 6], LATER)
        with breaks(number) as broken, suppress(error):
            index.match({"note": "zzz", "x": 7})
        assert index.match(event) == [1, 5], number
        assert index.match({"note": "zzz", "x": 7}) == [0, 6], number
        if not broken.happened:
            break
    assert number > 10


@BREAKS
def test_a_batch_that_breaks_off_does_no_harm(breaks: Break, error: type[BaseException]) -> None:
    first = cc.EventBatch.from_dicts(NOTES, [{"note": "xabcx", "x": 1}, {"note": "b"}])
    second = cc.EventBatch.from_dicts(NOTES, [{"note": "zzabc", "x": 3}, {"note": "xabcx", "x": 1}, {"note": "c", "x": 4}])
    for number in count(1, 1 if error is MemoryError else 2):
        index = cc.MatchIndex(NOTES)
        index.add_many(range(3), FIRST)
        assert index.match_lists(first).to_pylist() == [[1], []]
        index.add_many([5, 6], LATER)
        with breaks(number) as broken, suppress(error):
            index.match_lists(second)
        found = index.match_lists(second).to_pylist()
        assert [sorted(each) for each in found] == [[0, 2, 5], [1, 5], [2, 6]], number
        if not broken.happened:
            break
    assert number > 10


def test_text_pieces_that_could_not_be_tidied_are_as_they_were() -> None:
    """Most texts have gone; a new plan gives their pieces up, if there is memory for the smaller table."""
    table = parse_many(NOTES, pa.array([f"x = {each}" for each in range(2_000)]))
    for number in count(1, 11):
        index = cc.MatchIndex(NOTES)
        index.add_many(range(60), [f"note LIKE '%w{each}q%'" for each in range(60)])
        assert index.match({"note": "w59q"}) == [59]
        index.remove_many(range(45))
        with no_memory(number) as broken, suppress(MemoryError):
            index.add_many(range(1_000, 3_000), table)
        x = [1_007] if 1_007 in index else []
        assert index.match({"note": "-w59q", "x": 7}) == [59, *x], number
        assert index.match({"note": "-w29q"}) == []
        if not broken.happened:
            break
    assert x


def test_bitmaps_that_could_not_grow_hold_what_they_held() -> None:
    drawn = scenario("w1", seed=3)
    predicates = drawn.subscriptions(3_000)["predicate"]
    index, oracle = cc.MatchIndex(drawn.space), Scan(drawn.space)
    index.add_many(range(2_000), predicates.slice(0, 2_000))
    assert index.statistics()["in_bitmaps"]
    table = parse_many(drawn.space, predicates.slice(2_000, 1_000))
    for number in count(1):
        with no_memory(number) as broken, suppress(MemoryError):
            index.add_many(range(2_000, 3_000), table)
        if not broken.happened:
            break
        assert len(index) == 2_000, number
    for each in range(3_000):
        oracle.add(each, cc.parse_predicate(drawn.space, predicates[each].as_py()))
    events = drawn.events(30, 0)
    expected = [oracle.match(each) for each in events.to_pylist()]
    assert [sorted(each) for each in index.match_lists(events).to_pylist()] == expected


@BREAKS
def test_who_goes_last_goes_also_without_memory(breaks: Break, error: type[BaseException]) -> None:
    for number in count(1):
        index = cc.MatchIndex(NOTES)
        index.add_many(range(3), ["x = 1", "x = 2", "x = 3"])
        with breaks(number) as broken, suppress(error):
            index.remove_many(range(3))
        assert list(index) in ([], [0, 1, 2])
        assert index.match({"x": 1}) == list(index)[:1], number
        if not broken.happened:
            break
        index.add(9, "x = 1")
        assert index.match({"x": 1}) == [*list(index)[:-1][:1], 9]
    assert not len(index)


def test_a_thread_of_its_own_may_change_it(index: cc.MatchIndex) -> None:
    worker = Thread(target=index.add, args=(9, "volume > 1"))
    worker.start()
    worker.join()
    assert index.match({"issue": "IBM", "price": 119.5, "volume": 5000}) == [1, 3, 4, 9]
