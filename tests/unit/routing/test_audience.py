"""Everybody who wants something of a space: rows are reused, earlier audiences stay as they were, equal ones are shared."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from contentcast.language import parse_predicate
from contentcast.model import EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.routing.audience import Audience, Change, Forest, IndexAudience, TreeAudience

SPACE = Space("numbers", x="int", y="int")


@pytest.fixture(params=[True, False], ids=["tree", "index"])
def nobody(request: pytest.FixtureRequest) -> Audience:
    return Forest().empty(SPACE, count_steps=request.param)


def batch(*subscriptions: tuple[int, str, str]) -> SubscriptionBatch:
    return SubscriptionBatch.of(
        [Subscription(number, parse_predicate(SPACE, text), who) for number, text, who in subscriptions]
    )


def who_wants(audience: Audience, x: int) -> set[tuple[str, int]]:
    """(broker, subscription) of those who want an event with this x."""
    found = audience.match(EventBatch.from_dicts(SPACE, [{"x": x}]))
    rows = found.rows[found.rows < len(audience.ids)]
    rows = rows[audience.living[rows]]
    assert len(np.unique(rows)) == len(rows)
    return {(audience.origins[audience.origin[row]], int(audience.ids[row])) for row in rows.tolist()}


def test_changes_make_another_audience_and_leave_the_first(nobody: Audience) -> None:
    first = nobody.changed([Change("a", (), batch((1, "x = 1", "p"), (2, "x = 2", "q")))])
    second = first.changed([Change("a", (1,), None), Change("b", (), batch((2, "x > 0", "r")))])
    assert who_wants(first, 1) == {("a", 1)}
    assert who_wants(second, 1) == {("b", 2)}
    assert who_wants(second, 2) == {("a", 2), ("b", 2)}, "one id at two brokers, while a client moves"
    if isinstance(second, TreeAudience):
        assert len(second.ids) == 2, "the row of subscription 1 was free"
    assert len(second.changed([Change("a", None, None)])) == 1, "all of a went"


def test_what_comes_and_goes_in_one_go_was_never_there(nobody: Audience) -> None:
    changes = [Change("a", (), batch((1, "x = 1", "p"), (3, "x = 1", "p"))), Change("a", (1,), None)]
    assert who_wants(nobody.changed(changes), 1) == {("a", 3)}


def test_ids_are_looked_up(nobody: Audience) -> None:
    audience = nobody.changed([Change("a", (), batch((5, "x = 1", "p"), (9, "x = 2", "q")))])
    rows = audience.rows_of_ids(np.array([9, 7, 5]))
    assert rows.tolist() == [audience.ids.tolist().index(9), -1, audience.ids.tolist().index(5)]
    names, who = audience.subscribers
    assert [names[who[row]] for row in (rows[0], rows[2])] == ["q", "p"]
    assert nobody.rows_of_ids(np.array([1])).tolist() == [-1]


def test_brokers_that_have_heard_the_same_share_an_audience(nobody: Audience) -> None:
    forest = Forest()
    changes = [Change("a", (), batch((1, "x = 1", "p")))]
    assert forest.audience("key", nobody, changes) is forest.audience("key", nobody, changes)
    assert forest.audience("other", nobody, changes) is not forest.audience("key", nobody, changes)


def test_a_forest_keeps_trees_and_indexes_apart() -> None:
    """Two protocols of one process that have heard the same: one by the tree, one by the index."""
    forest = Forest(delay_branching=False)
    changes = [Change("a", (), batch((1, "x = 1", "p")))]
    made = [forest.audience("key", forest.empty(SPACE, count_steps=each), changes) for each in (True, False)]
    assert [type(each) for each in made] == [TreeAudience, IndexAudience]
    assert who_wants(made[0], 1) == who_wants(made[1], 1) == {("a", 1)}


def test_an_index_forgets_what_no_audience_holds() -> None:
    """One comes, one goes, for long; the first audience is held all the time, those between by nobody."""
    first = IndexAudience.empty(SPACE).changed([Change("a", (), batch(*((each, "x = 1", "p") for each in range(10))))])
    audience = first
    for number in range(10, 1000):
        audience = audience.changed([Change("a", (number - 10,), batch((number, "x = 1", "p")))])
    assert who_wants(first, 1) == {("a", each) for each in range(10)}
    assert who_wants(audience, 1) == {("a", each) for each in range(990, 1000)}
    assert audience.shared is first.shared
    assert len(audience.shared.index) < 200, "of a thousand that were there"


@pytest.mark.parametrize("seed", range(20))
def test_any_row_of_changes(seed: int, nobody: Audience) -> None:
    """Also the audiences before stay as they were, whichever of them the next one is made from."""
    random = Random(seed)
    audience = nobody
    known: list[tuple[Audience, dict[tuple[str, int], int]]] = []
    wanted: dict[tuple[str, int], int] = {}
    for _ in range(24):
        if known and random.random() < 0.3:
            audience, wanted = random.choice(known)
            wanted = dict(wanted)
        changes = []
        for _ in range(random.randint(1, 4)):
            origin = random.choice("abc")
            mine = [each for name, each in wanted if name == origin]
            gone = None if random.random() < 0.1 else tuple(random.sample(mine, random.randint(0, len(mine))))
            for each in mine if gone is None else gone:
                del wanted[origin, each]
            coming = {number: random.randint(0, 3) for number in random.sample(range(30), random.randint(0, 6))}
            coming = {number: x for number, x in coming.items() if (origin, number) not in wanted}
            wanted.update({(origin, number): x for number, x in coming.items()})
            added = batch(*((number, f"x = {x}", "p") for number, x in coming.items())) if coming else None
            changes.append(Change(origin, gone, added))
        audience = audience.changed(changes)
        known = [*known[-5:], (audience, dict(wanted))]
        for each, expected in known:
            assert len(each) == len(expected)
            for x in range(4):
                assert who_wants(each, x) == {key for key, value in expected.items() if value == x}, f"seed {seed}"
