"""A walk meets everyone who was there when it began and still is at its end, whoever comes and goes meanwhile."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.language import parse_many
from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.replanning.cell_cursor import PASSING, CellCursor
from contentcast.matching.index.values.entries import Attributes, entries_of
from contentcast.workload import scenario

TRADES = cc.Space("trades", issue="string", price="float", volume="int")


def many_ask_the_same(count: int) -> list[str]:
    return [f"price BETWEEN {each % 40} AND {each % 40}.5 AND volume > {each % 3}" for each in range(count)]


def some_ask_several_things(count: int) -> list[str]:
    return [
        f"issue IN ('i{each % 50}', 'j{each % 70}') OR price BETWEEN {each % 90} AND {each % 90 + 3}" for each in range(count)
    ]


def some_ask_for_nothing(count: int) -> list[str]:
    return [f"price > {each} AND price < {each % 7}" if each % 2 else f"price > {each}" for each in range(count)]


TEXTS = {"same": many_ask_the_same, "several": some_ask_several_things, "nothing": some_ask_for_nothing}


def drawn(name: str, count: int) -> tuple[cc.Space, list[str]]:
    if name in TEXTS:
        return TRADES, TEXTS[name](count)
    found = scenario(name, seed=3)
    return found.space, found.subscriptions(count)["predicate"].to_pylist()


def filed(space: cc.Space, texts: list[str]) -> Filing:
    """The texts, filed by a plan made for them; the ids are their places."""
    filing = Filing(Attributes(space), Store())
    entries = entries_of(parse_many(space, pa.array(texts)), filing.attributes)
    filing.insert(np.arange(len(texts)), entries, filing.make_plan(entries))
    return filing


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["same", "several", "nothing", "market", "w1"])
def test_who_stays_is_met(name: str, seed: int) -> None:
    print("seed", seed)
    dice, (space, texts) = Random(seed), drawn(name, 1_600)
    filing = filed(space, texts[:1_000])
    store = filing.store
    assert (store.run_count > 0) == (name == "same")
    assert (store.bitmaps.count > 500) == (name == "w1")
    assert (len(store.barren) > 400) == (name == "nothing")
    walk, met, staying = CellCursor(store, Store()), set[int](), set(range(1_000))
    for new in range(1_000, 1_600):
        if walk.done:
            break
        met.update(walk.next_ids(dice.choice([1, 3, 20]))[0].tolist())
        coming = entries_of(parse_many(space, pa.array([texts[new]])), filing.attributes)
        if filing.plan.fits(coming):
            filing.insert(np.array([new]), coming)
        gone = dice.choice([*staying])
        staying.remove(gone)
        store.remove(np.array([gone]))
    while not walk.done:
        met.update(walk.next_ids(100)[0].tolist())
    assert len(staying) < 950
    assert store.known > len(staying)
    assert staying <= met


def test_who_was_seen_is_passed_over_but_not_too_many_at_a_time() -> None:
    store = filed(TRADES, some_ask_several_things(1_000)).store
    walk, looked = CellCursor(store, store), []
    while not walk.done:
        ids, looks = walk.next_ids(10)
        assert not len(ids)
        looked.append(looks)
    assert max(looked) <= 10 * PASSING
    assert sum(looked) >= int(np.sum(store.count[: store.cell_count]))
