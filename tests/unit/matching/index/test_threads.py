"""Threads that match while another changes the index: every answer is the one before or after a change, never another.

Five readers and one writer, for a fixed number of changes. Each change adds, removes or replaces a subscription; what a reader
sees must have been true at one moment between the beginning and the end of its call.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

import contentcast as cc

TRADES = cc.Space("trades", issue="string", price="float")
EVENT = {"issue": "IBM", "price": 5.0}
CHANGES = 300


@pytest.mark.parametrize("texts", [False, True], ids=["ints", "texts"])
def test_readers_see_one_moment(texts: bool) -> None:
    name: Any = (lambda number: f"id-{number}") if texts else (lambda number: number)
    index = cc.MatchIndex(TRADES)
    # Of each pair exactly one wants the event at any time, and "always" is always there.
    index.add_many([name(number) for number in range(10)], ["price < 9" if number % 2 else "price > 9" for number in range(10)])
    index.add(name(1000), "issue = 'IBM'")
    wrong: list[str] = []
    done = threading.Event()
    table = pa.table({"issue": ["IBM", "SAP"], "price": [5.0, 5.0]})

    def read(how: str) -> None:
        while not done.is_set() and not wrong:
            if how == "match":
                found = set(index.match(EVENT))
            elif how == "nested":
                found = set(index.match({**EVENT, "price": 5, "x": {"y": 1}}, unknown="ignore"))
            elif how == "batch":
                pairs = index.match_batch(table)
                found = {id for event, id in zip(*pairs.to_pydict().values(), strict=True) if event == 0}
            elif how == "lists":
                found = set(index.match_lists(table).to_pylist()[0])
            else:
                try:
                    pieces = [piece.to_pydict() for piece in index.match_stream(table, most_pairs=5)]
                except cc.ContentcastError as reason:
                    if "was changed while its matches were read" not in str(reason):
                        wrong.append(str(reason))
                    continue
                pairs = [pair for piece in pieces for pair in zip(piece["event"], piece["subscription"], strict=True)]
                found = {id for event, id in pairs if event == 0}
            extra = {each for each in found if each not in fixed}
            if name(1000) not in found or not odd <= found or extra - churn:
                wrong.append(f"{how}: {found}")

    fixed = {name(number) for number in (*range(10), 1000)}
    odd = {name(number) for number in (1, 3, 5, 7)}  # 9 is replaced
    churn = {name(2000 + number) for number in range(CHANGES)}
    readers = [threading.Thread(target=read, args=(how,)) for how in ("match", "nested", "batch", "lists", "stream")]
    for each in readers:
        each.start()
    try:
        for number in range(CHANGES):
            index.add(name(2000 + number), "price < 100")
            if number >= 5:
                index.remove(name(1995 + number))
            index.replace(name(9), "price < 9" if number % 2 else "price > 9")
    finally:
        done.set()
        for each in readers:
            each.join()
    assert wrong == []
    assert index.match(EVENT) == sorted([*odd, name(9), name(1000), *(name(2000 + CHANGES - back) for back in range(1, 6))])


def test_an_id_never_answers_for_another() -> None:
    """Numbers inside are used again; a reader must not call the old one by the new name."""
    index = cc.MatchIndex(TRADES)
    index.add("wanted-0", "price < 9")
    wrong: list[Any] = []
    done = threading.Event()
    table = pa.table({"price": [5.0]})

    def read() -> None:
        while not done.is_set() and not wrong:
            for found in (index.match({"price": 5.0}), index.match_batch(table)["subscription"].to_pylist()):
                if any(not each.startswith("wanted") for each in found):
                    wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    try:
        for number in range(CHANGES):
            index.remove(f"wanted-{number}")
            index.add(f"other-{number}", "price > 9")  # takes the number that is free
            index.add(f"wanted-{number + 1}", "price < 9")
            index.remove(f"other-{number}")
    finally:
        done.set()
        for each in readers:
            each.join()
    assert wrong == []


def test_a_snapshot_does_not_change() -> None:
    index = cc.MatchIndex(TRADES)
    index.add("a", "price < 9")
    before = index.snapshot()
    index.add("b", "price < 9")
    index.remove("a")
    assert before.match(EVENT) == ["a"]
    assert index.match(EVENT) == ["b"]
    before.add("c", "price < 9")
    assert (before.match(EVENT), index.match(EVENT)) == (["a", "c"], ["b"])
    assert cc.MatchIndex(TRADES).snapshot().match(EVENT) == []
