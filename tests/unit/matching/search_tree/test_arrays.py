"""The flat arrays are those that the docstrings draw, and codes stand for what the tests ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contentcast.language import parse_many, parse_predicate
from contentcast.matching.search_tree import SearchTree
from contentcast.matching.search_tree.codes import KeyCoder, OrderCoder, PointCoder, coder_of
from contentcast.matching.search_tree.grow import grow
from contentcast.matching.search_tree.layout import DENSE, KIND, SET, SORTED, TREE
from contentcast.matching.search_tree.part import FACTORED_TREES_AT_MOST, Part
from contentcast.matching.search_tree.pattern_sets import PatternTests
from contentcast.matching.search_tree.rows import Rows
from contentcast.model import Attribute, EventBatch, Space
from contentcast.model.values.patterns import Pattern

TRADES = Space("trades", issue="string", price="float")


def rows_of(space: Space, texts: list[str]) -> Rows:
    return Rows.of(np.arange(len(texts)), parse_many(space, texts))


def one_part(space: Space, texts: list[str], **options: Any) -> Part:
    tree = SearchTree(space, **options)
    tree.add_many(range(len(texts)), parse_many(space, texts))
    (part,) = tree.prepared()
    return part


def test_rows_are_those_of_the_docstring() -> None:
    table = parse_many(TRADES, ["issue = 'IBM' AND price < 120", "price < 120 OR issue = 'SAP'", "TRUE"])
    rows = Rows.of(np.array([7, 8, 9]), table)
    assert rows.ids.tolist() == [7, 8, 9]
    assert rows.owner.tolist() == [0, 1, 1, 2]
    assert sorted(zip(rows.numbers["issue"].tolist(), rows.numbers["price"].tolist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (1, 1),
        (2, 0),
    ]
    assert rows.tests["issue"].values == ("IBM", "SAP")
    assert len(rows.tests["price"]) == 1


def test_the_grown_tree_is_that_of_the_docstring() -> None:
    rows = np.array([[0, 1], [1, 1], [1, 2]], np.int32)
    grown = grow(rows, np.array([2, 0, 1]), np.array([0, 3]), eliminate_trivial_tests=True, share=True)
    assert grown.level.tolist() == [2, 1, 2, 2, 1, 0]
    assert grown.begin.tolist() == [0, 1, 2, 3, 4, 6]
    assert grown.end.tolist() == [1, 2, 3, 4, 6, 8]
    assert grown.test.tolist() == [2, 1, 0, 1, 1, 2, 0, 1]
    assert [child for child in grown.child.tolist() if child >= 0] == [0, 2, 3, 1, 4]
    assert grown.roots.tolist() == [5]


def test_the_layout_is_that_of_the_docstring() -> None:
    part = one_part(TRADES, ["issue = 'IBM' AND price < 120", "issue = 'SAP'", "price >= 100"], order=["issue", "price"])
    assert part.layout.entries.tolist() == [[0, 1, 1, 1], [0, 2, 2, -3], [1, 1, 2, -4], [1, 0, 1, -2]]
    assert part.layout.nodes[:, :7].tolist() == [[0, 3, 0, 0, -1, 0, 0], [3, 4, 0, 0, -1, 0, 0]]
    assert (part.layout.roots.tolist(), part.layout.node_count) == ([0], 5)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ([f"price = {each}" for each in range(20)], DENSE),
        (
            [f"price = {each}" for each in range(0, 2000, 100)] + [f"issue = 'A' AND price = {each}" for each in range(2000)],
            SORTED,
        ),
        ([f"price > {each}" for each in range(20)], TREE),
        ([f"price = {each % 20}" for each in range(20)] + [f"price IN ({each}, {each + 2})" for each in range(20)], TREE),
        ([f"issue LIKE '%{each}'" for each in range(20)], SET),
    ],
)
def test_a_large_node_has_the_run_that_suits_it(texts: list[str], kind: int) -> None:
    part = one_part(TRADES, texts, order=["issue", "price"])
    assert kind in part.layout.runs[:, KIND].tolist()


def test_codes_are_those_of_the_docstring() -> None:
    rows = rows_of(TRADES, ["price < 120", "price >= 100", "price IS NULL", "issue = 'IBM'", "issue <> 'SAP'"])
    price, issue = coder_of(rows.tests["price"]), coder_of(rows.tests["issue"])
    assert isinstance(price, KeyCoder)
    assert isinstance(issue, PointCoder)
    assert price.encode(pa.array([-1.0, 100.0, 119.5, 120.0, None])).tolist() == [0, 1, 1, 2, 3]
    assert issue.encode(pa.array(["A", "IBM", "SAP", None])).tolist() == [0, 1, 2, 3]
    spans = list(zip(issue.ranges.first.tolist(), issue.ranges.last.tolist(), strict=True))
    assert spans == [(1, 1), (0, 1)]


def test_strings_by_order_are_searched_among_their_cuts() -> None:
    coder = coder_of(rows_of(TRADES, ["issue < 'M'", "startswith(issue, 'OT')", "issue = 'P'"]).tests["issue"])
    assert isinstance(coder, OrderCoder)
    assert coder.cuts == ["M", "OT", "OU", "P", "P\0"]
    assert coder.encode(pa.array(["L", "M", "OTE", "OU", "P", "PA", None])).tolist() == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("attribute", "text", "possible"),
    [
        (Attribute("int", low=1, high=3), "x = 2", [True, True, True, True]),
        (Attribute("int", low=1, high=3), "x = 1", [False, True, True, True]),
        (Attribute("int", low=1, high=3), "x >= 1", [False, True, True]),
        (Attribute("string", values=("a", "b")), "x IN ('a', 'b')", [False, True, True, True]),
        (Attribute("string", values=("a", "b")), "x = 'a'", [True, True, True]),
        (Attribute("string", low="b", high="c"), "x < 'd'", [True, False, True]),
        (Attribute("bool"), "x", [True, True, True]),
    ],
)
def test_codes_outside_a_declared_domain_are_impossible(attribute: Attribute, text: str, possible: list[bool]) -> None:
    space = Space("one", x=attribute)
    coder = coder_of(rows_of(space, [text]).tests["x"])
    assert coder.possible(attribute).tolist() == possible


def test_a_string_passes_a_set_of_pattern_tests() -> None:
    texts = [
        "issue LIKE '%X'",
        "issue LIKE '%an%' AND issue NOT LIKE '%X'",
        "issue NOT LIKE '_'",
        "issue LIKE '%X' OR issue IS NULL",
    ]
    constraints = [dict(parse_predicate(TRADES, text).conjunctions[0].items)["issue"] for text in texts]
    tests, numbers = PatternTests.of(constraints)
    assert numbers == [1, 2, 3, 4]
    where, sets = tests.sets(pa.array(["banX", "ban", "b", None, "ban"]))
    assert [sets[each] for each in where] == [(1, 3, 4), (2, 3), (), (4,), (2, 3)]


@pytest.mark.parametrize(("pattern", "expected"), [("%abc", "abc"), ("a%bcd_e", "bcd"), ("%_", ""), ("x", "x")])
def test_the_anchor_is_the_longest_plain_text(pattern: str, expected: str) -> None:
    assert Pattern.of(pattern).anchor == expected


def test_a_leaf_lists_a_subscription_once_though_several_of_its_conjunctions_match() -> None:
    part = one_part(TRADES, ["price < 5 OR issue = 'A'", "issue = 'A' OR price > 1"])
    offsets, ids, _ = part.match(EventBatch.from_dicts(TRADES, [{"price": 2.0, "issue": "A"}]))
    assert (offsets.tolist(), ids.tolist()) == ([0, 2], [0, 1])


def test_factoring_takes_only_what_it_can_afford() -> None:
    space = Space("two", x="int", y="int")
    texts = [f"x = {each} AND y = {each}" for each in range(0, 1200, 2)]
    part = one_part(space, texts, factored=["x", "y"])
    assert part.factored == ("x",)
    assert len(part.layout.roots) <= FACTORED_TREES_AT_MOST
