"""Adding and removing: what is refused, what is visible when, and how many trees stand side by side."""

from __future__ import annotations

import numpy as np
import pytest

from contentcast.language import parse_many, parse_predicate
from contentcast.matching.search_tree import SearchTree, tree
from contentcast.model import ContentcastError, EventBatch, EventError, Predicate, Space, SpaceError

TRADES = Space("trades", issue="string", price="float", volume="int")
IBM = {"issue": "IBM", "price": 119.5, "volume": 5000}


def asked(text: str) -> Predicate:
    return parse_predicate(TRADES, text)


def with_three() -> SearchTree:
    searched = SearchTree(TRADES)
    searched.add(1, asked("issue = 'IBM' AND price < 120"))
    searched.add(2, asked("price < 100 OR volume > 1000"))
    searched.add(3, asked("issue LIKE '%M'"))
    return searched


def test_a_change_is_visible_at_the_next_match() -> None:
    searched = with_three()
    assert searched.match(IBM) == [1, 2, 3]
    searched.remove(2)
    assert searched.match(IBM) == [1, 3]
    searched.add(2, asked("TRUE"))
    searched.remove(3)
    assert searched.match(IBM) == [1, 2]
    assert 2 in searched
    assert 3 not in searched
    assert len(searched) == 2


def test_an_id_that_is_there_is_refused_and_nothing_changes() -> None:
    searched = with_three()
    searched.prepared()
    searched.add(4, asked("TRUE"))
    for taken in (1, 4):
        with pytest.raises(ContentcastError, match=f"subscription {taken} is already there"):
            searched.add(taken, asked("FALSE"))
        with pytest.raises(ContentcastError, match=f"subscription {taken} is already there"):
            searched.add_many([7, taken, 8], parse_many(TRADES, ["TRUE"] * 3))
    assert searched.match(IBM) == [1, 2, 3, 4]
    assert len(searched) == 4


def test_an_id_that_is_not_there_cannot_be_removed() -> None:
    searched = with_three()
    searched.remove(2)
    for missing in (2, 99):
        with pytest.raises(ContentcastError, match=f"there is no subscription {missing}"):
            searched.remove(missing)
    searched.prepared()
    searched.remove(1)
    with pytest.raises(ContentcastError, match="there is no subscription 1"):
        searched.remove(1)
    assert searched.match(IBM) == [3]


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [([5, 6, 5], "subscription 5 stands twice"), ([5, 6], "2 ids for 3 predicates"), ([1.5, 2.5, 3.5], "64-bit ints")],
)
def test_ids_that_do_not_fit(ids: list[int], complaint: str) -> None:
    searched = with_three()
    with pytest.raises(ContentcastError, match=complaint):
        searched.add_many(ids, parse_many(TRADES, ["TRUE"] * 3))
    assert len(searched) == 3


def test_things_of_another_space_are_refused() -> None:
    searched, other = with_three(), Space("others", issue="string")
    with pytest.raises(ContentcastError, match="subscription 9 is of space others, the tree of trades"):
        searched.add(9, parse_predicate(other, "TRUE"))
    with pytest.raises(ContentcastError, match="table is of space others"):
        searched.add_many([9], parse_many(other, ["TRUE"]))
    with pytest.raises(EventError, match="batch is of space others"):
        searched.match_batch(EventBatch.from_dicts(other, [{}]))
    with pytest.raises(ContentcastError, match="64-bit int"):
        searched.add(2**63, asked("TRUE"))
    with pytest.raises(EventError, match="prise"):
        searched.match({"prise": 5.0})


def test_a_table_with_a_refused_predicate_is_not_taken() -> None:
    searched = with_three()
    table = parse_many(TRADES, ["TRUE", "prise < 1"], on_error="reject")
    with pytest.raises(ContentcastError, match="did you mean 'price'"):
        searched.add_many([8, 9], table)
    assert len(searched) == 3


@pytest.mark.parametrize("option", ["order", "factored"])
def test_attributes_must_be_those_of_the_space(option: str) -> None:
    with pytest.raises(SpaceError, match=f"{option}: trades has no attribute 'prise'; did you mean 'price'"):
        SearchTree(TRADES, **{option: ["prise"]})
    with pytest.raises(SpaceError, match=f"{option}: an attribute stands twice"):
        SearchTree(TRADES, **{option: ["price", "price"]})


def test_attributes_that_the_order_leaves_out_follow() -> None:
    searched = SearchTree(TRADES, order=["volume"])
    for each, text in enumerate(["price < 5 AND issue = 'A'", "price < 7"]):
        searched.add(each, asked(text))
    assert [level.name for level in searched.prepared()[0].levels] == ["volume", "price", "issue"]
    assert searched.match({"price": 4.0}) == [1]


def test_an_empty_tree_and_an_empty_batch() -> None:
    searched = SearchTree(TRADES)
    assert searched.search(IBM) == ([], 0)
    found = searched.match_batch(EventBatch.from_dicts(TRADES, []))
    assert (len(found), found.offsets.tolist()) == (0, [0])
    searched.add(1, asked("FALSE"))
    assert searched.match(IBM) == []
    searched.remove(1)
    searched.prepare()
    assert searched.shape.parts == 0


def test_small_trees_are_merged_and_large_ones_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MERGED_AT_MOST", 8)
    searched = SearchTree(TRADES)
    sizes = []
    for each in range(12):
        searched.add(each, asked(f"volume > {each}"))
        searched.match(IBM)
        sizes.append([len(part) for part in searched.prepared()])
    assert sizes[:4] == [[1], [2], [3], [3, 1]]
    assert all(max(each) <= 8 for each in sizes)
    assert searched.match(IBM) == list(range(12))
    searched.prepare()
    assert [len(part) for part in searched.prepared()] == [12]


def test_a_large_tree_that_is_half_gone_is_emptied_by_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MERGED_AT_MOST", 8)
    searched = SearchTree(TRADES)
    searched.add_many(np.arange(100), parse_many(TRADES, [f"volume > {each}" for each in range(100)]))
    for each in range(60):
        searched.remove(99 - each)
        assert searched.match(IBM) == list(range(99 - each))
    assert len(searched) == 40
    assert all(len(part.ids) <= 100 and 2 * part.dead <= len(part.ids) for part in searched.prepared()[1:])


def test_order_of_parts_does_not_show_in_the_ids() -> None:
    searched = SearchTree(TRADES)
    searched.add_many([50, 10, 30], parse_many(TRADES, ["TRUE"] * 3))
    searched.add(20, asked("TRUE"))
    searched.match(IBM)
    searched.add(-5, asked("TRUE"))
    assert searched.match(IBM) == [-5, 10, 20, 30, 50]


def test_links_must_be_known_for_every_subscription() -> None:
    searched = with_three()
    with pytest.raises(ContentcastError, match="subscription 3 has no links"):
        searched.annotate({1: [0], 2: [1]}, 2)
    with pytest.raises(ContentcastError, match="there is no link 2; the links are 0 to 1"):
        searched.annotate({1: [0], 2: [1], 3: [2]}, 2)


def test_an_annotation_for_events_that_carry_an_attribute_refuses_others() -> None:
    searched = with_three()
    annotation = searched.annotate({1: [0], 2: [0], 3: [0]}, 1, carried=["price"])
    with pytest.raises(EventError, match="carry price"):
        annotation.match_links(EventBatch.from_dicts(TRADES, [{"issue": "IBM"}]), np.ones(1, np.uint64))
