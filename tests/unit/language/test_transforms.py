"""Transforms as stories: trades become totals; what cannot be is set aside; bad texts are refused where they are wrong."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from contentcast.language.errors import TransformError
from contentcast.language.transforms import parse_transform
from contentcast.model import Attribute, EventBatch, EventError, Space
from contentcast.model.transforms.expression import Read
from contentcast.model.transforms.transform import FEW_EVENTS, Transform, Transforms, TransformsError
from contentcast.model.values.kinds import FLOAT, STRING

TRADES = Space(
    "trades", {"issue": "string", "price": "float", "volume": "int", "halted": "bool", "traded": "timestamp", "raw": "bytes"}
)
TOTALS = Space(
    "totals",
    symbol="string",
    amount=Attribute("float", high=1e6),
    exchange=Attribute("string", values=("NYSE", "LSE")),
    size="int",
    big="bool",
    at="timestamp",
    raw="bytes",
)
TOTAL = parse_transform(
    TRADES, TOTALS, "SELECT issue AS symbol, price * volume AS amount, 'NYSE' AS exchange FROM trades WHERE price > 100"
)


def batch(*events: dict[str, Any]) -> EventBatch:
    return EventBatch.from_dicts(TRADES, events, ids=range(10, 10 + len(events)))


def made(expression: str, attribute: str, event: dict[str, Any]) -> Any:
    """The expression's value, by columns and by its meaning, which agree."""
    transform = parse_transform(TRADES, TOTALS, f"SELECT {expression} AS {attribute} FROM trades")
    derived = transform.by_columns(batch(event))
    assert transform.derive(batch(event)).to_dicts() == derived.to_dicts()
    if derived.rejected:
        with pytest.raises(EventError) as refused:
            transform.apply(event)
        assert str(refused.value) == f"attribute {attribute}: {derived.rejected[0].reason}"
        raise refused.value
    value = transform.apply(event)
    assert derived.to_dicts() == [value]
    assert value is not None
    return value.get(attribute)


# --- the story


def test_trades_become_totals_under_the_same_ids():
    derived = TOTAL.derive(
        batch(
            {"issue": "IBM", "price": 120.0, "volume": 50},
            {"issue": "SAP", "price": 90.0, "volume": 10},
            {"price": 200.0, "volume": 2},
            {"issue": "T", "price": 300.0},
        )
    )
    assert derived.space == TOTALS
    assert derived.ids.to_pylist() == [10, 12, 13]
    assert derived.to_dicts() == [
        {"symbol": "IBM", "amount": 6000.0, "exchange": "NYSE"},
        {"amount": 400.0, "exchange": "NYSE"},
        {"symbol": "T", "exchange": "NYSE"},
    ]
    assert derived.rejected == ()


def test_what_the_target_does_not_hold_is_set_aside_and_the_others_go_on():
    derived = TOTAL.derive(
        batch(
            {"issue": "A", "price": 101.0, "volume": 1},
            {"issue": "B", "price": 90.0, "volume": 1},
            {"issue": "C", "price": 200.0, "volume": 1_000_000},
            {"issue": "D", "price": float("inf"), "volume": 0},
        )
    )
    assert derived.ids.to_pylist() == [10]
    assert [str(each) for each in derived.rejected] == [
        "event 2, attribute amount: 200000000.0 is outside the domain to 1000000.0",
        "event 3, attribute amount: inf * 0.0 is NaN, which is not a value",
    ]
    with pytest.raises(EventError, match=r"attribute amount: 200000000\.0 is outside the domain"):
        TOTAL.apply({"price": 200.0, "volume": 1_000_000})
    assert TOTAL.apply({"price": 100.0}) is None


def test_no_events_and_sliced_events():
    assert TOTAL.derive(batch()).to_dicts() == []
    some = batch(*({"issue": f"i{n}", "price": 101.0 + n, "volume": n} for n in range(6))).slice(2, 3)
    assert TOTAL.derive(some).to_dicts() == [TOTAL.apply(event) for event in some.to_dicts()]
    assert TOTAL.by_columns(some) == TOTAL.by_rows(some)


def test_few_events_and_many_are_transformed_alike():
    events = [{"issue": f"i{n}", "price": 95.0 + n, "volume": n % 7 * 1000} for n in range(200)]
    for count in (0, 1, FEW_EVENTS, FEW_EVENTS + 1, 200):
        derived = TOTAL.derive(batch(*events[:count]))
        assert derived == TOTAL.by_rows(batch(*events[:count]))
        assert derived == TOTAL.by_columns(batch(*events[:count]))


# --- expressions


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "attribute", "event", "value"),
    [
        ("volume + 1", "size", {"volume": 41}, 42),
        ("volume + 1", "size", {}, None),
        ("-volume", "size", {"volume": 5}, -5),
        ("volume * 2 - 3", "size", {"volume": 5}, 7),
        ("volume % 3", "size", {"volume": -7}, -1),
        ("volume % -3", "size", {"volume": 7}, 1),
        ("volume % -1", "size", {"volume": -(2**63)}, 0),
        ("price % 1", "amount", {"price": -2.5}, -0.5),
        ("volume / 2", "amount", {"volume": 7}, 3.5),
        ("volume", "amount", {"volume": 7}, 7.0),
        ("price + volume", "amount", {"price": 0.5, "volume": 1}, 1.5),
        ("5L", "size", {}, 5),
        ("5D", "amount", {}, 5.0),
        ("-9223372036854775808", "size", {}, -(2**63)),
        ("issue || '-' || issue", "symbol", {"issue": "a"}, "a-a"),
        ("concat(issue, NULL)", "symbol", {"issue": "a"}, None),
        ("upper(issue)", "symbol", {"issue": "straße"}, "STRASSE"),
        ("lower(issue)", "symbol", {"issue": "IBM"}, "ibm"),
        ("coalesce(issue, 'none')", "symbol", {}, "none"),
        ("coalesce(price, volume)", "amount", {"volume": 3}, 3.0),
        ("coalesce(price, 1 / volume)", "amount", {"price": 2.0, "volume": 0}, 2.0),
        ("CASE WHEN volume > 0 THEN 1 / volume END", "amount", {"volume": 0}, None),
        ("CASE WHEN price > 1 THEN 'high' WHEN price > 0 THEN 'low' ELSE 'none' END", "symbol", {"price": 0.5}, "low"),
        ("CASE WHEN NOT price > 1 THEN 'low' ELSE 'unknown' END", "symbol", {}, "unknown"),
        ("CASE WHEN halted THEN NULL END", "size", {"halted": True}, None),
        ("CASE WHEN halted THEN NULL END + volume", "size", {"halted": True, "volume": 1}, None),
        ("CAST(NULL AS STRING) || issue", "symbol", {"issue": "a"}, None),
        ("CASE WHEN price > 100 THEN TRUE ELSE FALSE END", "big", {"price": 101.0}, True),
        ("CAST(volume AS STRING)", "symbol", {"volume": -5}, "-5"),
        ("CAST(halted AS STRING)", "symbol", {"halted": True}, "true"),
        ("CAST(issue AS BIGINT)", "size", {"issue": " +7 "}, 7),
        ("CAST(issue AS DOUBLE)", "amount", {"issue": "-1.5e3"}, -1500.0),
        ("CAST(issue AS BOOLEAN)", "big", {"issue": "Yes"}, True),
        ("CAST(issue AS TIMESTAMP)", "at", {"issue": "2026-03-01T13:00:00+01:00"}, NOON),
        ("CAST(issue AS BINARY)", "raw", {"issue": "ä"}, b"\xc3\xa4"),
        ("CAST(raw AS STRING)", "symbol", {"raw": b"\xc3\xa4"}, "ä"),
        ("CAST(price AS BIGINT)", "size", {"price": -2.9}, -2),
        ("CAST(price AS BOOLEAN)", "big", {"price": -0.0}, False),
        ("CAST(halted AS DOUBLE)", "amount", {"halted": True}, 1.0),
        ("price::BIGINT", "size", {"price": 2.0}, 2),
        ("TIMESTAMP '2026-03-01 12:00:00'", "at", {}, NOON),
        ("X'1F'", "raw", {}, b"\x1f"),
        ("NULL", "size", {"volume": 1}, None),
    ],
)
def test_expressions(expression, attribute, event, value):
    found = made(expression, attribute, event)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("expression", "attribute", "event", "reason"),
    [
        ("volume + 1", "size", {"volume": 2**63 - 1}, "9223372036854775807 + 1 is beyond 64 bits"),
        ("volume - 1", "size", {"volume": -(2**63)}, "is beyond 64 bits"),
        ("-volume", "size", {"volume": -(2**63)}, "is beyond 64 bits"),
        ("volume * -1", "size", {"volume": -(2**63)}, "is beyond 64 bits"),
        ("-1 * volume", "size", {"volume": -(2**63)}, "is beyond 64 bits"),
        ("volume * volume", "size", {"volume": 2**32}, "is beyond 64 bits"),
        ("volume % 0", "size", {"volume": 5}, "5 % 0 divides by zero"),
        ("1 / volume", "amount", {"volume": 0}, "1.0 / 0.0 divides by zero"),
        ("price - price", "amount", {"price": float("inf")}, "is NaN"),
        ("CAST(issue AS BIGINT)", "size", {"issue": "7.5"}, "'7.5' is not an int"),
        ("CAST(issue AS BIGINT)", "size", {"issue": "9" * 5000}, "is not an int"),
        ("CAST(issue AS BIGINT)", "size", {"issue": "9" * 20}, "is beyond 64 bits"),
        ("CAST(issue AS DOUBLE)", "amount", {"issue": "NaN"}, "'NaN' is not a float"),
        ("CAST(issue AS DOUBLE)", "amount", {"issue": "1e999"}, "is beyond the range of a float"),
        ("CAST(issue AS BOOLEAN)", "big", {"issue": "maybe"}, "'maybe' is not a bool"),
        ("CAST(issue AS TIMESTAMP)", "at", {"issue": "noon"}, "'noon' is not a timestamp"),
        ("CAST(price AS BIGINT)", "size", {"price": 9.3e18}, "is beyond 64 bits"),
        ("CAST(raw AS STRING)", "symbol", {"raw": b"\xff"}, "is not UTF-8 text"),
        ("volume", "amount", {"volume": 2**53 + 1}, "has no exact float"),
        ("issue", "exchange", {"issue": "TSE"}, "'TSE' is not one of 'NYSE', 'LSE'"),
    ],
)
def test_what_has_no_value_sets_the_event_aside(expression, attribute, event, reason):
    with pytest.raises(EventError) as refused:
        made(expression, attribute, event)
    assert reason in str(refused.value)


# --- other engines


PORTABLE = [
    ("price * volume", "amount"),
    ("price + 1", "amount"),
    ("volume - 10", "size"),
    ("volume % 7", "size"),
    ("-volume % 7", "size"),
    ("volume / 4", "amount"),
    ("issue || '!'", "symbol"),
    ("upper(issue)", "symbol"),
    ("lower(issue)", "symbol"),
    ("coalesce(issue, 'none')", "symbol"),
    ("coalesce(price, volume, 0)", "amount"),
    ("CASE WHEN price > 100 THEN 'high' WHEN price > 0 THEN 'low' END", "symbol"),
    ("CASE WHEN NOT price > 100 AND halted THEN 1 ELSE 2 END", "size"),
    ("CAST(volume AS STRING)", "symbol"),
    ("CAST(halted AS BIGINT)", "size"),
    ("CAST(volume AS DOUBLE) / 3", "amount"),
]
EVENTS = [
    {"issue": "Ibm", "price": 120.5, "volume": 50, "halted": True},
    {"issue": "sap", "price": 90.25, "volume": -9},
    {"price": 0.1, "volume": 3, "halted": False},
    {"issue": "", "halted": True},
    {},
]


def test_duckdb_computes_the_same():
    connection = duckdb.connect()
    connection.register("trades", pa.Table.from_batches([batch(*EVENTS).records.drop_columns(["traded"])]))
    for expression, attribute in PORTABLE:
        text = f"SELECT {expression} AS {attribute} FROM trades"
        derived = parse_transform(TRADES, TOTALS, text).by_columns(batch(*EVENTS))
        assert [value for (value,) in connection.execute(text).fetchall()] == derived.records.column(attribute).to_pylist(), (
            text
        )


CARTS = Space("carts", {"s": "string", "ip": "string", "n": "int", "tags": "list of string", "codes": "list of int"})
MADE = Space("made", s="string", n="int", kept="list of string")
CART = {"s": "Abc", "ip": "10.1.2.3", "n": 5, "tags": ["x", None], "codes": [1, 2]}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("s ILIKE 'aB%'", True),
        ("lower(s) = 'abc'", True),
        ("s RLIKE '^A.c$' AND NOT regexp_like(s, 'x')", True),
        ("in_cidr(ip, '10.0.0.0/8')", True),
        ("coalesce(n, 0) > 5", False),
        ("array_contains(tags, 'x')", True),
        ("NOT array_contains(tags, 'y')", False),
        ("arrays_overlap(codes, array(2L, 7L))", True),
        ("exists(tags, t -> t LIKE 'x%' OR t = 'where')", True),
        ("forall(codes, c -> c > 1)", False),
        ("size(tags) = 2 AND cardinality(codes) < 3", True),
    ],
)
def test_conditions_have_all_of_the_language(condition: str, holds: bool) -> None:
    """After WHERE and after WHEN, also of a CASE inside of a CASE, by events and by columns."""
    where = f"SELECT s FROM carts WHERE {condition}"
    inner = f"CASE WHEN n = 7 THEN 0 WHEN {condition} THEN 1 ELSE 2 END"
    case = f"SELECT CASE WHEN n = 5 THEN {inner} WHEN {condition} THEN 3 END + {inner} AS n FROM carts"
    events = EventBatch.from_dicts(CARTS, [CART, {}])
    for text, expected in (
        (where, [{"s": "Abc"}] if holds else []),
        (case, [{"n": 2} if holds else {"n": 4}, {}]),
    ):
        made = parse_transform(CARTS, MADE, text)
        assert made.by_rows(events).to_dicts() == made.by_columns(events).to_dicts() == expected, text


def test_lists_are_carried_over_and_counted() -> None:
    made = parse_transform(CARTS, MADE, "SELECT coalesce(tags, tags) AS kept, size(tags) * 10 AS n FROM carts")
    events = EventBatch.from_dicts(CARTS, [CART, {"tags": []}, {}])
    expected = [{"n": 20, "kept": ["x", None]}, {"n": 0, "kept": []}, {}]
    assert made.by_rows(events).to_dicts() == made.by_columns(events).to_dicts() == expected


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("SELECT s FROM carts WHERE array_contains(tag, 'x')", 42, "carts has no attribute 'tag'; did you mean 'tags'?"),
        ("SELECT CASE WHEN exists(tags, t -> t > 5) THEN 1 END AS n FROM carts", 40, "5 is not"),
        ("SELECT in_cidr(ip, '10.0.0.0/8') AS n FROM carts", 8, "a test is not a value; write CASE WHEN"),
        ("SELECT size(s) AS n FROM carts", 8, "size is of lists; this is a string"),
        ("SELECT tags AS s FROM carts", 8, "s is a string, and this is a list of string"),
    ],
)
def test_what_is_wrong_with_lists_is_said_at_its_place(text: str, column: int, reason: str) -> None:
    with pytest.raises(TransformError) as caught:
        parse_transform(CARTS, MADE, text)
    assert (caught.value.column, reason in caught.value.reason) == (column, True), str(caught.value)


# --- refused texts


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, "the transform is empty; a transform is SELECT"),
        ("price > 5", 1, "a transform is SELECT expression AS attribute"),
        ("SELECT FROM trades", 7, "expected an expression after SELECT"),
        ("SELECT issue AS symbol", 23, "expected FROM trades"),
        ("SELECT issue AS symbol FROM quotes", 29, "the events are those of trades, not quotes: FROM trades"),
        ("SELECT issue AS symbol FROM trades, quotes", 1, "JOIN is not part of a transform"),
        ("SELECT issue AS symbol FROM trades t", 24, "events come from one space: FROM trades"),
        ("SELECT issue AS symbol FROM trades LIMIT 3", 36, "LIMIT is not part of a transform, which sees one event"),
        ("SELECT DISTINCT issue AS symbol FROM trades", 8, "DISTINCT is not part of a transform"),
        ("SELECT issue AS symbol FROM trades; SELECT 1", 35, "one transform, and nothing after it"),
        ("SELECT * FROM trades", 8, "a transform names each attribute"),
        ("SELECT issue AS symbl FROM trades", 17, "totals has no attribute 'symbl'; did you mean 'symbol'?"),
        ("SELECT prise AS amount FROM trades", 8, "trades has no attribute 'prise'; did you mean 'price'?"),
        ("SELECT issue FROM trades", 8, "totals has no attribute 'issue'"),
        ("SELECT price * volume FROM trades", 8, "say which attribute of totals this is: price * volume AS amount"),
        ("SELECT issue AS symbol, 'x' AS symbol FROM trades", 25, "symbol is given twice; keep one"),
        ("SELECT price AS symbol FROM trades", 8, "symbol is a string, and this is a float"),
        ("SELECT price AS size FROM trades", 8, "size is an int, and this is a float; write CAST(... AS BIGINT)"),
        ("SELECT issue + 1 AS amount FROM trades", 8, "+ takes numbers; one side is a string; join strings with ||"),
        ("SELECT halted * 2 AS amount FROM trades", 8, "* takes numbers; one side is a bool"),
        ("SELECT NULL + NULL AS amount FROM trades", 8, "both sides are NULL"),
        ("SELECT issue || volume AS symbol FROM trades", 17, "join strings; this is an int; write CAST(... AS STRING)"),
        ("SELECT upper(price) AS symbol FROM trades", 14, "upper is of strings; this is a float"),
        ("SELECT coalesce(issue, 1) AS symbol FROM trades", 8, "all parts are of one kind; here are a string and an int"),
        ("SELECT CASE WHEN halted THEN 1 ELSE 'x' END AS size FROM trades", 18, "all parts are of one kind"),
        ("SELECT CASE volume WHEN 1 THEN 2 END AS size FROM trades", 13, "CASE goes with conditions"),
        ("SELECT CASE WHEN volume THEN 2 END AS size FROM trades", 18, "volume is an int, not a condition"),
        ("SELECT price > 100 AS big FROM trades", 8, "a test is not a value; write CASE WHEN"),
        ("SELECT CAST(price AS STRING) AS symbol FROM trades", 13, "a float casts to BIGINT, BOOLEAN, not to STRING"),
        ("SELECT CAST(traded AS BIGINT) AS size FROM trades", 13, "there is no cast of a timestamp"),
        ("SELECT CAST(price AS INT) AS size FROM trades", 13, "CAST to INT is not here; an int has 64 bits: write BIGINT"),
        ("SELECT CAST(price AS FLOAT) AS amount FROM trades", 13, "a float is a double: write DOUBLE"),
        ("SELECT TRY_CAST(issue AS BIGINT) AS size FROM trades", 17, "TRY_CAST is not here"),
        ("SELECT substr(issue, 2) AS symbol FROM trades", 15, "the function SUBSTRING is not part of a transform"),
        ("SELECT nonsense(issue) AS symbol FROM trades", 8, "the function nonsense is not part of a transform"),
        ("SELECT 9223372036854775808 AS size FROM trades", 8, "9223372036854775808 is beyond 64 bits"),
        ("SELECT issue AS symbol FROM trades WHERE prise > 1", 42, "trades has no attribute 'prise'"),
        ("SELECT issue AS symbol FROM trades WHERE", 41, "expected a value after 'WHERE'"),
        ("SELECT issue AS symbol FROM trades WHERE price > 'x'", 50, "price is a float; 'x' is a string"),
        ("SELECT 'issue AS symbol FROM trades", 8, "the text after ' has no closing '"),
        (f"SELECT {'1 + ' * 150}volume AS size FROM trades", 8, "nested too deeply; operations go 100 deep"),
        (f"SELECT {'(' * 5000}1{')' * 5000} AS size FROM trades", 28, "nested too deeply; brackets go 20 deep"),
    ],
)
def test_a_text_that_is_no_transform_is_refused_where_it_is_wrong(text, column, reason):
    with pytest.raises(TransformError) as refused:
        parse_transform(TRADES, TOTALS, text)
    assert reason in refused.value.reason
    assert (refused.value.line, refused.value.column) == (1, column)


def test_the_place_is_shown_under_a_caret():
    with pytest.raises(TransformError) as refused:
        parse_transform(TRADES, TOTALS, "SELECT issue AS symbol,\n       prise * volume AS amount\nFROM trades")
    assert str(refused.value) == (
        "line 2, column 8: trades has no attribute 'prise'; did you mean 'price'?\n"
        "           prise * volume AS amount\n"
        "           ^"
    )


@pytest.mark.parametrize(
    "text", [None, 7, b"SELECT", "\0", "SELECT ((", "))", "SELECT SELECT", "SELECT , FROM trades", "🙂", "WITH", "--"]
)
def test_whatever_comes_in_a_transform_error_comes_out(text):
    with pytest.raises(TransformError):
        parse_transform(TRADES, TOTALS, text)


# --- as values, and together


def between(source: Space, target: Space, name: str | None = None) -> Transform:
    return parse_transform(source, target, f"SELECT x FROM {source.name}", name=name)


A, B, C, D = (Space(name, x="int", y="float") for name in "abcd")


def test_a_transform_is_a_value():
    again = parse_transform(TRADES, TOTALS, TOTAL.text or "")
    assert again == TOTAL
    assert hash(again) == hash(TOTAL)
    assert pickle.loads(pickle.dumps(again)) == TOTAL
    assert again.name == "trades-to-totals"
    assert parse_transform(TRADES, TOTALS, "SELECT issue AS symbol FROM trades") != TOTAL


def test_one_made_by_hand_is_checked_as_well():
    hand = Transform.of("hand", TRADES, TOTALS, {"amount": Read("price", FLOAT), "symbol": Read("issue", STRING)})
    assert [name for name, _ in hand.assignments] == ["symbol", "amount"]
    with pytest.raises(TransformsError, match="hand: totals has no attribute 'symbl'; did you mean 'symbol'"):
        Transform.of("hand", TRADES, TOTALS, {"symbl": Read("issue", STRING)})
    with pytest.raises(TransformsError, match="hand: amount is a float, not a string; cast it"):
        Transform.of("hand", TRADES, TOTALS, {"amount": Read("issue", STRING)})
    with pytest.raises(TransformsError, match="says nothing of totals"):
        Transform.of("hand", TRADES, TOTALS, {})
    with pytest.raises(TransformsError, match="an event of trades is one of trades already"):
        Transform.of("hand", TRADES, TRADES, {"price": Read("price", FLOAT)})
    with pytest.raises(TransformsError, match="takes events of trades, not of totals"):
        TOTAL.derive(EventBatch.from_dicts(TOTALS, []))


def test_events_reach_every_space_behind_theirs_in_a_fixed_order():
    transforms = Transforms([between(A, C), between(A, B), parse_transform(B, D, "SELECT x * 2 AS x FROM b WHERE x > 1")])
    assert transforms.reachable("a") == ("c", "b", "d")
    assert transforms.reachable("b") == ("d",)
    assert transforms.reachable("d") == transforms.reachable("elsewhere") == ()
    found = transforms.derive(EventBatch.from_dicts(A, [{"x": 1}, {"x": 2, "y": 0.5}], ids=[7, 8]))
    assert [(each.space.name, each.ids.to_pylist(), each.to_dicts()) for each in found] == [
        ("c", [7, 8], [{"x": 1}, {"x": 2}]),
        ("b", [7, 8], [{"x": 1}, {"x": 2}]),
        ("d", [8], [{"x": 4}]),
    ]
    assert transforms == Transforms(transforms.transforms)
    assert len(transforms) == 3
    assert set(transforms.spaces) == set("abcd")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([between(A, B), between(B, C), between(C, A)], "in a circle, and an event would travel for ever: a -> b -> c -> a"),
        ([between(D, A), between(A, B), between(B, A)], "for ever: a -> b -> a"),
        ([between(A, B, "one"), between(A, C, "one")], "there are two transforms 'one'"),
        ([between(A, B, "one"), between(A, B, "two")], "one and two both lead from a to b, and an event would arrive twice"),
        (
            [between(A, B), between(A, C), between(C, B)],
            "two ways from a to b, and an event would arrive twice: a -> b and a -> c -> b",
        ),
        ([between(A, B), between(Space("b", x="int"), C)], "transform b-to-c: there is another space 'b' already"),
    ],
)
def test_transforms_that_cannot_stand_together_are_refused(given, message):
    with pytest.raises(TransformsError) as refused:
        Transforms(given)
    assert message in str(refused.value)
