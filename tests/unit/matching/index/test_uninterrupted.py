"""A change of the index is made whole or not at all, whatever breaks it off."""

from __future__ import annotations

import signal
from random import Random
from threading import Thread
from typing import Any

import numpy as np
import pytest

import contentcast as cc
from contentcast.matching import Scan
from contentcast.matching.index import index as index_module
from contentcast.matching.index.cells import appending, bitmaps, cell_changes, id_table
from contentcast.matching.index.cells.bitmaps import Bitmaps
from contentcast.matching.index.cells.cell_changes import remove_ids
from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.values import order_codes
from contentcast.matching.index.values import text_tests as texts
from contentcast.workload import scenario


@pytest.mark.parametrize("where", ["_fit_table", "open", "fit_id_table", "_fit_slots", "half", "all"])
def test_an_addition_that_breaks_off_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """No memory: what was filed until then is taken out again."""
    space = cc.Space("trades", issue="string", price="float", volume="int", note="string", a="int", b="int", c="int")
    dice, index, rows = Random(7), cc.MatchIndex(space), range(3_000, 3_100)
    small = [" AND ".join(f"{name} = {dice.randrange(4)}" for name in dice.sample("abc", 2)) for _ in range(3_000)]
    index.add_many(
        range(3_000), [f"issue = 'i{at % 7}' AND price < {at}" if at % 9 == 0 else each for at, each in enumerate(small)]
    )
    assert index.statistics()["in_bitmaps"]
    texts = [f"issue = 'i{at % 7}' AND price > {at} OR a = {at % 5} AND b = 1 OR note LIKE '%{at % 3}'" for at in rows]
    events = [
        {"issue": f"i{at % 7}", "price": float(at), "volume": 1, "note": f"{at % 4}", "a": at % 5, "b": at % 3, "c": 1}
        for at in range(0, 4_000, 9)
    ]
    before = [index.match(event) for event in events]
    append, open_cells = appending.append_entries, appending.open_cells

    def breaks_off(*given: Any) -> Any:
        if where == "open":
            open_cells(*given)
        if where in ("half", "all"):
            order = given[6] if where == "all" else given[6][: len(given[6]) // 2]
            append(*given[:6], order, *given[7:])
        raise MemoryError

    owner = Bitmaps if where == "_fit_slots" else Store if "fit" in where else appending
    with monkeypatch.context() as broken:
        broken.setattr(
            owner, {"open": "open_cells", "half": "append_entries", "all": "append_entries"}.get(where, where), breaks_off
        )
        with pytest.raises(MemoryError):
            index.add_many(rows, texts)
    assert len(index) == 3_000
    assert [index.match(event) for event in events] == before
    index.add_many(rows, [f"price > {at}" for at in rows])  # now of one conjunction each
    index.remove_many(rows)
    assert [index.match(event) for event in events] == before
    index.add_many(rows, texts)
    scan = Scan(space)
    for number in index:
        scan.add(number, index.predicate(number))
    assert [index.match(event) for event in events] == [scan.match(event) for event in events]
    assert index.predicate(3_050) == cc.parse_predicate(space, texts[50])


@pytest.mark.parametrize("kernel", [(appending, "open_cells"), (appending, "append_entries"), (id_table, "add_references")])
def test_ctrl_c_waits_until_a_change_is_whole(monkeypatch: pytest.MonkeyPatch, kernel: tuple[Any, str]) -> None:
    index = cc.MatchIndex(cc.Space("trades", issue="string", price="float", volume="int"))
    index.add_many(range(100), [f"issue = 'i{number}' AND price < {number}" for number in range(100)])
    module, name = kernel
    work = getattr(module, name)

    def interrupted(*given: Any) -> Any:
        found = work(*given)
        signal.raise_signal(signal.SIGINT)  # before the caller has taken note of it
        return found

    with monkeypatch.context() as pressed:
        pressed.setattr(module, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.add(100, "issue = 'new' AND price < 5")
        pressed.setattr(cell_changes, "remove_ids", lambda *given: (remove_ids(*given), signal.raise_signal(signal.SIGINT))[0])
        with pytest.raises(KeyboardInterrupt):
            index.remove(7)
    assert index.match({"issue": "new", "price": 1.0}) == [100]
    assert list(index) == [*range(7), *range(8, 101)]
    index.add(7, "issue = 'other'")
    assert index.match({"issue": "other"}) == [7]
    assert index.match({"issue": "i7", "price": 1.0}) == []


def test_a_thread_of_its_own_may_change_it(index: cc.MatchIndex) -> None:
    worker = Thread(target=index.add, args=(9, "volume > 1"))
    worker.start()
    worker.join()
    assert index.match({"issue": "IBM", "price": 119.5, "volume": 5000}) == [1, 3, 4, 9]


def failing_once(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, error: type[BaseException]) -> None:
    real = getattr(where, name)

    def fail(*_: Any) -> Any:
        monkeypatch.setattr(where, name, real)
        raise error

    monkeypatch.setattr(where, name, fail)


NOTES = cc.Space("notes", note="string", x="int")


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("where", [(texts, "filing_keys"), (texts.Pieces, "link")])
def test_a_text_whose_filing_broke_off_is_filed_by_the_next_who_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str], error: type[BaseException]
) -> None:
    index = cc.MatchIndex(NOTES)
    index.add_many(range(3), ["note LIKE 'zz%'", "x = 1", "x = 2"])
    failing_once(monkeypatch, *where, error)
    with pytest.raises(error):
        index.add(10, "note LIKE '%abc%'")
    index.add(11, "note LIKE '%abc%'")
    assert index.match({"note": "xabcx"}) == [11]
    index.remove(11)
    index.add_many(range(100, 5_000), [f"x = {number}" for number in range(4_900)])  # a new plan gives up both
    index.add(12, "note LIKE '%abc%'")
    assert index.match({"note": "xabcx"}) == [12]
    assert index.statistics()["text_tests"]["note"] == 2


def test_pieces_that_could_not_be_put_into_their_table_wait_on(monkeypatch: pytest.MonkeyPatch) -> None:
    index = cc.MatchIndex(NOTES)
    index.add_many(range(3), ["note LIKE 'zz%'", "x = 1", "x = 2"])
    index.add(5, "note LIKE '%abc%'")
    failing_once(monkeypatch, texts.Pieces, "_put", MemoryError)
    with pytest.raises(MemoryError):
        index.match({"note": "xabcx"})
    assert index.match({"note": "xabcx"}) == [5]


def test_a_table_of_pieces_that_could_not_be_tidied_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    index = cc.MatchIndex(NOTES)
    index.add_many(range(400), [f"note LIKE '%w{number}q%'" for number in range(400)])
    assert index.match({"note": "w399q"}) == [399]
    index.remove_many(range(300))
    failing_once(monkeypatch, texts.Pieces, "_put", MemoryError)
    index.add_many(range(1_000, 4_000), [f"x = {number}" for number in range(3_000)])
    assert index.match({"note": "-w399q", "x": 7}) == [399, 1_007]
    assert index.match({"note": "-w299q"}) == []


def test_an_interruption_that_waited_for_a_new_plan_leaves_it_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    index = cc.MatchIndex(NOTES)
    index.add_many(range(3), ["x = 1", "x = 2", "x = 3"])
    used = index_module.CellIndex._use

    def use(cells: Any, filing: Any) -> None:
        used(cells, filing)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(index_module.CellIndex, "_use", use)
    with pytest.raises(KeyboardInterrupt):
        index.add_many(range(10, 3_010), [f"x = {number}" for number in range(3_000)])
    assert index.match({"x": 2_500}) == [2_510]
    assert len(index) == 3_003


def test_points_that_could_not_be_put_in_leave_the_others_to_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    index = cc.MatchIndex(NOTES)
    index.add_many(range(3_000), [f"x BETWEEN {10 * number} AND {10 * number + 15}" for number in range(3_000)])
    assert index.match({"x": 10_001}) == [999, 1_000]
    failing_once(monkeypatch, order_codes, "_put_in", MemoryError)
    more = [f"x BETWEEN {10 * number + 3} AND {10 * number + 4}" for number in range(0, 3_000, 50)]
    with pytest.raises(MemoryError):
        index.add_many(range(5_000, 5_060), more)
    assert [index.match({"x": 10 * number + 3}) for number in range(1, 3_000)] == [[each - 1, each] for each in range(1, 3_000)]
    index.add_many(range(5_000, 5_060), more)
    assert index.match({"x": 10_003}) == [999, 1_000, 5_020]


def test_codes_that_could_not_be_given_anew_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    index, oracle = cc.MatchIndex(NOTES), Scan(NOTES)
    first = [f"x BETWEEN {10 * number} AND {10 * number + 15}" for number in range(300)]
    index.add_many(range(300), first)
    monkeypatch.setattr(Filing, "is_crowded", lambda _: False)  # else it would move before a gap is used up
    real, failed = Store.recode, []

    def recode(self: Store, *given: Any) -> None:
        failing_once(monkeypatch, np, "flatnonzero", MemoryError)
        real(self, *given)

    monkeypatch.setattr(Store, "recode", recode)
    later = [f"x < {1_000_000 + (2**40 >> step)}" for step in range(40)]
    for number, text in enumerate(later):
        try:
            index.add(1_000 + number, text)
        except MemoryError:
            failed.append(text)
            assert 1_000 + number not in index
    assert failed
    for number, text in [*enumerate(first), *enumerate(later, start=1_000)]:
        if text not in failed:
            oracle.add(number, cc.parse_predicate(NOTES, text))
    for value in [*range(5, 3_100, 7), *(1_000_000 + (2**40 >> step) + side for step in range(40) for side in (-1, 0))]:
        assert index.match({"x": value}) == oracle.match({"x": value})


def test_who_goes_last_goes_also_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    index = cc.MatchIndex(NOTES)
    index.add_many(range(3), ["x = 1", "x = 2", "x = 3"])
    failing_once(monkeypatch, index_module, "Store", MemoryError)
    index.remove_many(range(3))
    assert len(index) == 0
    assert index.match({"x": 1}) == []
    index.add(1, "x = 1")
    assert index.match({"x": 1}) == [1]


def test_bitmaps_that_could_not_grow_hold_what_they_held(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = scenario("w1", seed=3)
    predicates = drawn.subscriptions(3_000)["predicate"]
    index, oracle = cc.MatchIndex(drawn.space), Scan(drawn.space)
    index.add_many(range(2_000), predicates.slice(0, 2_000))
    for name, after in (
        ("_widened", 0),
        ("_widened", 1),
        ("with_capacity", 0),
        ("with_capacity", 1),
        ("reserved_zeros", 0),
        ("_set_bits", 0),
    ):
        real, left = getattr(bitmaps, name), iter(range(after))

        def scarce(*given: Any, real: Any = real, left: Any = left, **named: Any) -> Any:
            if next(left, None) is None:
                raise MemoryError
            return real(*given, **named)

        with monkeypatch.context() as patched:
            patched.setattr(bitmaps, name, scarce)
            with pytest.raises(MemoryError):
                index.add_many(range(2_000, 3_000), predicates.slice(2_000, 1_000))
        assert len(index) == 2_000
    index.add_many(range(2_000, 3_000), predicates.slice(2_000, 1_000))
    for number in range(3_000):
        oracle.add(number, cc.parse_predicate(drawn.space, predicates[number].as_py()))
    events = drawn.events(30, 0)
    expected = [oracle.match(each) for each in events.to_pylist()]
    assert [sorted(each) for each in index.match_lists(events).to_pylist()] == expected
