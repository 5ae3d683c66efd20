"""Subscriptions by columns: put together, taken apart and put in order, they stay what they are."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from contentcast.language import parse_predicate
from contentcast.model import ContentcastError, Predicate, Space, Subscription, SubscriptionBatch
from contentcast.model.predicates.table import PredicateTable
from tests.properties.generate import Generator

TRADES = Space("trades", issue="string", price="float")


def some(random: Random, space: Space, count: int) -> list[Predicate]:
    generate = Generator(random)
    found: list[Predicate] = []
    while len(found) < count:
        try:
            found.append(parse_predicate(space, generate.text(space)))
        except ContentcastError:
            continue
    return found


@pytest.mark.parametrize("seed", range(30))
def test_tables_put_together_and_in_another_order(seed: int) -> None:
    random = Random(seed)
    space = Generator(random).space()
    parts = [some(random, space, random.randint(0, 6)) for _ in range(3)]
    whole = PredicateTable.concat([PredicateTable.of(space, part) for part in parts])
    every = [each for part in parts for each in part]
    assert list(whole) == every, f"seed {seed}"
    order = list(range(len(every)))
    random.shuffle(order)
    assert list(whole.reordered(np.array(order, np.int64))) == [every[at] for at in order], f"seed {seed}"


def test_a_batch_stands_in_the_order_of_its_ids() -> None:
    first, second = (parse_predicate(TRADES, text) for text in ("price < 120", "issue = 'SAP'"))
    batch = SubscriptionBatch.of([Subscription(9, second, "desk-1"), Subscription(7, first, "desk-7")])
    assert list(batch) == [Subscription(7, first, "desk-7"), Subscription(9, second, "desk-1")]
    assert list(batch.without(np.array([7, 8]))) == [Subscription(9, second, "desk-1")]
    assert batch.without(np.array([1])) is batch
    other = SubscriptionBatch.of(Subscription(8, first, "desk-2"))
    assert SubscriptionBatch.concat([batch, other]).ids.tolist() == [7, 8, 9]


def test_what_makes_no_batch() -> None:
    predicate = parse_predicate(TRADES, "price < 120")
    with pytest.raises(ContentcastError, match="subscription 7 stands twice"):
        SubscriptionBatch.of([Subscription(7, predicate), Subscription(7, predicate)])
    with pytest.raises(ContentcastError, match="all of one space"):
        SubscriptionBatch.of([Subscription(7, predicate), Subscription(8, parse_predicate(Space("other", x="int"), "x = 1"))])
    with pytest.raises(ContentcastError, match="2 ids for 1 predicates of 1 subscribers"):
        SubscriptionBatch.columns([1, 2], PredicateTable.of(TRADES, [predicate]), ["desk-1"])
