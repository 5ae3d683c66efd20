"""Everybody who wants something of a space: rows are reused, earlier audiences stay as they were, equal ones are shared."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from contentcast.language import parse_predicate
from contentcast.model import EventBatch, Space, Subscription, SubscriptionBatch
from contentcast.routing.audience import Audience, Change, Forest

SPACE = Space("numbers", x="int", y="int")


def batch(*subscriptions: tuple[int, str, str]) -> SubscriptionBatch:
    return SubscriptionBatch.of(
        [Subscription(number, parse_predicate(SPACE, text), who) for number, text, who in subscriptions]
    )


def who_wants(audience: Audience, x: int) -> set[tuple[str, int]]:
    """(broker, subscription) of those who want an event with this x."""
    (rows,) = [audience.tree.match_batch(EventBatch.from_dicts(SPACE, [{"x": x}])).ids.tolist()]
    return {(audience.origins[audience.origin[row]], int(audience.ids[row])) for row in rows}


def test_changes_make_another_audience_and_leave_the_first() -> None:
    first = Audience.empty(SPACE).changed([Change("a", (), batch((1, "x = 1", "p"), (2, "x = 2", "q")))])
    second = first.changed([Change("a", (1,), None), Change("b", (), batch((2, "x > 0", "r")))])
    assert who_wants(first, 1) == {("a", 1)}
    assert who_wants(second, 1) == {("b", 2)}
    assert who_wants(second, 2) == {("a", 2), ("b", 2)}, "one id at two brokers, while a client moves"
    assert len(second.ids) == 2, "the row of subscription 1 was free"
    assert len(second.changed([Change("a", None, None)])) == 1, "all of a went"


def test_what_comes_and_goes_in_one_go_was_never_there() -> None:
    changes = [Change("a", (), batch((1, "x = 1", "p"), (3, "x = 1", "p"))), Change("a", (1,), None)]
    assert who_wants(Audience.empty(SPACE).changed(changes), 1) == {("a", 3)}


def test_ids_are_looked_up() -> None:
    audience = Audience.empty(SPACE).changed([Change("a", (), batch((5, "x = 1", "p"), (9, "x = 2", "q")))])
    rows = audience.rows_of_ids(np.array([9, 7, 5]))
    assert rows.tolist() == [audience.ids.tolist().index(9), -1, audience.ids.tolist().index(5)]
    names, who = audience.subscribers
    assert [names[who[row]] for row in (rows[0], rows[2])] == ["q", "p"]
    assert Audience.empty(SPACE).rows_of_ids(np.array([1])).tolist() == [-1]


def test_brokers_that_have_heard_the_same_share_a_tree() -> None:
    forest = Forest(delay_branching=False)
    changes = [Change("a", (), batch((1, "x = 1", "p")))]
    assert forest.audience("key", None, SPACE, changes) is forest.audience("key", None, SPACE, changes)
    assert forest.audience("other", None, SPACE, changes) is not forest.audience("key", None, SPACE, changes)


@pytest.mark.parametrize("seed", range(20))
def test_any_row_of_changes(seed: int) -> None:
    random = Random(seed)
    audience = Audience.empty(SPACE)
    wanted: dict[tuple[str, int], int] = {}
    for _ in range(12):
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
        assert len(audience) == len(wanted)
        for x in range(4):
            assert who_wants(audience, x) == {key for key, value in wanted.items() if value == x}, f"seed {seed}"
