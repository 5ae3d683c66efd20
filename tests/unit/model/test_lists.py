"""Lists: what an attribute of such a kind takes, its bytes, lists of objects, and what list tests say about each other."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from contentcast.language import parse_predicate
from contentcast.language.relations import covers, overlaps
from contentcast.model import Attribute, EventBatch, EventError, Space, SpaceError, from_json_lines
from contentcast.model.predicates.test_texts import checked_test
from contentcast.model.values.kinds import KINDS, LISTS
from contentcast.model.values.list_bytes import elements_of, list_column, list_value, read_column, size_of

ORDERS = Space("orders", {"customer": "string", "tags": "list of string", "codes": "list of int", "amounts": "list of float"})


def test_a_space_has_lists_from_text_arrow_and_itself() -> None:
    assert Attribute("list of string").kind == "list of string"
    schema = pa.schema(
        [("tags", pa.list_(pa.string())), ("codes", pa.large_list(pa.int32())), ("on", pa.list_(pa.bool_())), ("n", pa.int8())]
    )
    space = Space.from_arrow("orders", schema)
    assert {name: each.kind for name, each in space.items()} == {
        "tags": "list of string",
        "codes": "list of int",
        "on": "list of bool",
        "n": "int",
    }
    assert Space.from_dict(ORDERS.to_dict()) == ORDERS
    with pytest.raises(SpaceError, match="no kind"):
        Space("orders", raw="list of bytes")
    with pytest.raises(SpaceError, match="a list has no domain"):
        Attribute("list of int", values=(1, 2))
    with pytest.raises(SpaceError, match="but an attribute is one of"):
        Space.from_arrow("orders", pa.schema([("raw", pa.list_(pa.binary()))]))


def test_events_carry_lists() -> None:
    events = [{"tags": ["a", None], "codes": []}, {"customer": "ada"}, {"tags": [], "amounts": [1, 2.5]}]
    batch = EventBatch.from_dicts(ORDERS, events)
    assert batch.to_dicts() == [{"tags": ["a", None], "codes": []}, {"customer": "ada"}, {"tags": [], "amounts": [1.0, 2.5]}]
    assert EventBatch.from_dicts(ORDERS, [{"codes": (1, 2)}, {"codes": np.array([3])}]).to_dicts() == [
        {"codes": [1, 2]},
        {"codes": [3]},
    ]


def test_what_is_wrong_in_a_list_names_the_element() -> None:
    with pytest.raises(EventError, match="event 0, attribute codes: element 1: 'x' is a string, not an int"):
        EventBatch.from_dicts(ORDERS, [{"codes": [1, "x"]}])
    with pytest.raises(EventError, match="'a' is a string, not a list of string"):
        EventBatch.from_dicts(ORDERS, [{"tags": "a"}])


def test_arrow_lists_are_checked_and_cast_by_columns() -> None:
    table = pa.table(
        {"codes": pa.array([[1, None], None, [], [3]], pa.large_list(pa.int16())), "amounts": [[1.0], [], None, [2.0]]}
    )
    batch = EventBatch.from_arrow(ORDERS, table.slice(1))
    assert batch.to_dicts() == [{"amounts": []}, {"codes": []}, {"codes": [3], "amounts": [2.0]}]
    with pytest.raises(EventError, match="event 1, attribute amounts: NaN"):
        EventBatch.from_arrow(ORDERS, pa.table({"amounts": [[1.0], [2.0, float("nan")]]}))
    with pytest.raises(EventError, match="the attribute is a list of int"):
        EventBatch.from_arrow(ORDERS, pa.table({"codes": [1, 2]}))


def test_lists_of_objects_become_lists_of_their_fields() -> None:
    space = Space("carts", {"items.sku": "list of string", "items.n": "list of int", "items.of.name": "list of string"})
    (event,) = from_json_lines(space, ['{"items": [{"sku": "a", "n": 1}, null, {"sku": "b", "of": {"name": "x"}}]}']).to_dicts()
    assert event == {"items.sku": ["a", None, "b"], "items.n": [1, None, None], "items.of.name": [None, None, "x"]}
    table = pa.table({"items": [[{"sku": "a", "n": 1}, {"sku": "b", "n": None}], None, []]})
    assert EventBatch.from_arrow(space, table).to_dicts() == [
        {"items.sku": ["a", "b"], "items.n": [1, None]},
        {},
        {"items.sku": [], "items.n": []},
    ]
    with pytest.raises(EventError, match="event 0, attribute items: a list holds objects and 5"):
        EventBatch.from_dicts(space, [{"items": [{"sku": "a"}, 5]}])
    kept = EventBatch.from_dicts(space, [{"items": [{"sku": "a"}, 5]}], on_error="absent")
    assert (kept.to_dicts(), [each.attribute for each in kept.left_out]) == ([{}], ["items"])


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], {"cart.items.sku": [], "cart.items.n": []}),
        ([None], {"cart.items.sku": [None], "cart.items.n": [None]}),
        ([{"sku": "a"}, {}], {"cart.items.sku": ["a", None], "cart.items.n": [None, None]}),
        ([{"n": 1}, None], {"cart.items.sku": [None, None], "cart.items.n": [1, None]}),
        (None, {}),
    ],
)
def test_each_object_of_a_list_gives_one_element_to_every_list(items: object, expected: dict[str, object]) -> None:
    """Dicts, JSON and Arrow say the same, also where there is no object, or none that has the field."""
    space = Space("carts", {"cart.items.sku": "list of string", "cart.items.n": "list of int"})
    event = {"cart": {"items": items}}
    assert EventBatch.from_dicts(space, [event]).to_dicts() == [expected]
    assert from_json_lines(space, [json.dumps(event)] * 40).to_dicts() == [expected] * 40
    objects = pa.struct({"items": pa.list_(pa.struct({"sku": pa.string(), "n": pa.int64()}))})
    assert EventBatch.from_arrow(space, pa.table({"cart": pa.array([event["cart"]], objects)})).to_dicts() == [expected]


VALUES = {
    "list of string": [[], ["a", None, ""], ["é\U0001f600"], None],
    "list of int": [[], [1, None, -(2**63)], [2**63 - 1], None],
    "list of float": [[], [0.5, None, -0.0], [float("inf")], None],
    "list of bool": [[True, None, False], [], None, [False]],
    "list of timestamp": [[datetime(1, 1, 1, tzinfo=UTC), None], [], None, [datetime(2026, 3, 1, 12, tzinfo=UTC)]],
}


@pytest.mark.parametrize("name", LISTS)
def test_the_bytes_of_a_list_say_all_of_it(name: str) -> None:
    kind, values = KINDS[name], VALUES[name]
    assert kind.element is not None
    column = pa.array(values, kind.arrow)
    raw = list_column(kind, column)
    assert raw.to_pylist() == [list_value(kind, each) for each in values]
    assert read_column(kind, raw).equals(column)
    assert list_column(kind, column.slice(1, 2)).to_pylist() == raw.to_pylist()[1:3]
    for value, each in zip(values, raw.to_pylist(), strict=True):
        if value is not None:
            assert size_of(each) == len(value)
            assert list(elements_of(kind.element, each)) == value
    for damaged in [b"", b"\1\0\0\0", raw.to_pylist()[0] + b"x"]:
        with pytest.raises(ValueError, match=r"bytes of a list|something follows"):
            read_column(kind, pa.array([damaged], pa.binary()))


@pytest.mark.parametrize(
    ("wide", "narrow", "covered", "overlap"),
    [
        ("array_contains(tags, 'a')", "array_contains(tags, 'a') AND array_contains(tags, 'b')", True, True),
        ("array_contains(tags, 'a') AND array_contains(tags, 'b')", "array_contains(tags, 'a')", False, True),
        ("arrays_overlap(tags, array('a', 'b'))", "array_contains(tags, 'a')", True, True),
        ("array_contains(tags, 'a')", "arrays_overlap(tags, array('a', 'b'))", False, True),
        ("exists(tags, t -> startswith(t, 'a'))", "array_contains(tags, 'ab')", True, True),
        ("exists(tags, t -> t LIKE '%x%')", "exists(tags, t -> t LIKE '%xy%')", True, True),
        ("size(tags) > 0", "array_contains(tags, 'a')", True, True),
        ("size(tags) = 0", "array_contains(tags, 'a')", False, False),
        ("forall(codes, c -> c > 1)", "forall(codes, c -> c > 2)", True, True),
        ("forall(codes, c -> c > 1)", "size(codes) = 0", True, True),
        ("exists(codes, c -> c > 1)", "forall(codes, c -> c > 2) AND size(codes) > 3", True, True),
        ("exists(codes, c -> c > 1)", "forall(codes, c -> c > 2)", False, True),
        ("forall(codes, c -> c > 1)", "exists(codes, c -> c < 1)", False, False),
        ("forall(codes, c -> c > 1)", "exists(codes, c -> c IS NULL)", False, False),
        ("tags IS NOT NULL", "array_contains(tags, 'a')", True, True),
        ("tags IS NULL", "array_contains(tags, 'a')", False, False),
        ("array_contains(tags, 'a')", "NOT array_contains(tags, 'a')", False, False),
        ("tags IS NULL OR array_contains(tags, 'a')", "tags IS NULL", True, True),
    ],
)
def test_which_covers_which(wide: str, narrow: str, covered: bool, overlap: bool) -> None:
    assert covers(ORDERS, wide, narrow) is covered
    assert overlaps(ORDERS, wide, narrow) is overlap


def test_predicates_that_mean_the_same_are_equal() -> None:
    for one, other in [
        ("array_contains(tags, 'a') OR array_contains(tags, 'b')", "arrays_overlap(tags, array('b', 'a'))"),
        ("NOT forall(codes, c -> c <= 5)", "exists(codes, c -> c > 5)"),
        ("size(tags) < 1", "size(tags) = 0"),
        ("exists(tags, t -> t IS NULL OR t IS NOT NULL)", "size(tags) > 0"),
        ("forall(tags, t -> FALSE)", "size(tags) = 0"),
        ("array_contains(tags, 'a') AND size(tags) >= 0", "array_contains(tags, 'a')"),
        ("array_contains(tags, 'a') AND size(tags) < 1", "FALSE"),
    ]:
        assert parse_predicate(ORDERS, one) == parse_predicate(ORDERS, other), (one, other)


@pytest.mark.parametrize(
    "text",
    [
        "%x",
        "\\e",
        "\\e[]",
        '\\e["int",[1,2],0,[],[]]',
        '\\e["string",["b","a"],0,[],[]]',
        '\\e["string",["a"],0,[],[]]',
        '\\e["string",[1,2],0,[],[]]',
        '\\e["string",["",null],0,["\\\\e[]"],[]]',
        "\\#[-1,3]",
        "\\#[0,0.5]",
        "\\#[",
        "\\e" + "[" * 5000,
    ],
)
def test_a_test_of_strangers_is_checked(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        checked_test(KINDS["list of string"], text)
