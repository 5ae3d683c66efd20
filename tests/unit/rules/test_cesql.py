"""CloudEvents SQL: casts, functions, and that an error (a missing attribute is one) lets no event pass.

The rules follow the specification, version 1.0; the expressions and events are our own.
"""

from __future__ import annotations

from datetime import datetime

import pytest

import contentcast as cc
from contentcast.rules import RuleError, translate
from tests.unit.rules.judge import Row, judge

SPACE = cc.Space(
    "cloudevents",
    {
        "id": "string",
        "type": "string",
        "subject": "string",
        "hop": "int",
        "ttl": "int",
        "delta": "int",
        "urgent": "bool",
        "sampled": "bool",
        "time": "timestamp",
        "price": "float",
    },
)


def hop(*given: int | None) -> list[dict[str, object]]:
    return [{"hop": each} if each is not None else {} for each in given]


def ident(*given: str | None) -> list[dict[str, object]]:
    return [{"id": each} if each is not None else {} for each in given]


def urgent(*given: bool | None) -> list[dict[str, object]]:
    return [{"urgent": each} if each is not None else {} for each in given]


LITERALS: list[Row] = [
    ("TRUE", [{}], []),
    ("false", [], [{}]),
    ("1 = 1", [{}], []),
    ("'a' = \"a\"", [{}], []),
    ("'it\\'s' = \"it's\"", [{}], []),
    ("1 < 2 AND NOT (2 < 1)", [{}], []),
    ("'5' = 5", [{}], []),
    ("5 = '5'", [{}], []),
    ("5 = '05'", [], [{}]),
    ("'TRUE' = true", [{}], []),
    ("true = 'TRUE'", [], [{}]),
    ("1 = true", [{}], []),
    ("true = 1", [{}], []),
    ("'abc' = 1", [], [{}]),
    ("NOT ('abc' = 1)", [], [{}]),
    ("1 / 0 = 0", [], [{}]),
    ("7 / -2 = -3", [{}], []),
    ("7 % -2 = 1", [{}], []),
    ("-7 % 2 = -1", [{}], []),
    ("2 + 3 * 4 = 14", [{}], []),
    ("2147483647 + 1 = 0", [], [{}]),
    ("TRUE OR 1 / 0 = 0", [{}], []),
    ("1 / 0 = 0 OR TRUE", [], [{}]),
    ("FALSE AND 1 / 0 = 0", [], [{}]),
    ("TRUE XOR FALSE", [{}], []),
    ("TRUE XOR TRUE", [], [{}]),
    ("'abc' LIKE 'a%'", [{}], []),
    ("5 LIKE '5'", [{}], []),
    ("'a' IN ('b', 'a')", [{}], []),
    ("5 IN ('5', 6)", [{}], []),
    ("5 NOT IN (6)", [{}], []),
]

COMPARED: list[Row] = [
    ("id = 'a'", ident("a"), ident("b", "A", "", None)),
    ("'a' = id", ident("a"), ident("b", None)),
    ("id != 'a'", ident("b", ""), ident("a", None)),
    ("id <> 'a'", ident("b"), ident("a", None)),
    ("id = ''", ident(""), ident("a", None)),
    ("NOT (id = 'a')", ident("b"), ident("a", None)),
    ("hop = 5", hop(5), hop(6, None)),
    ("hop != 5", hop(6), hop(5, None)),
    ("hop < 5", hop(4), hop(5, None)),
    ("hop <= 5", hop(5), hop(6)),
    ("hop > -5", hop(-4), hop(-5)),
    ("5 >= hop", hop(5), hop(6)),
    ("hop < 2 * 3", hop(5), hop(6)),
    ("hop = '5'", hop(5), hop(6, None)),
    ("hop = '05'", [], hop(5, None)),
    ("hop != '05'", hop(5), hop(None)),
    ("'5' = hop", hop(5), hop(6)),
    ("'abc' = hop", [], hop(5, None)),
    ("urgent", urgent(True), urgent(False, None)),
    ("NOT urgent", urgent(False), urgent(True, None)),
    ("urgent = true", urgent(True), urgent(False, None)),
    ("urgent != true", urgent(False), urgent(True, None)),
    ("urgent = 'true'", urgent(True), urgent(False, None)),
    ("urgent = 'TRUE'", [], urgent(True, False)),
    ("urgent != 'TRUE'", urgent(True, False), urgent(None)),
    ("urgent = 1", urgent(True), urgent(False, None)),
    ("urgent < 1", urgent(False), urgent(True, None)),
    ("urgent >= 0", urgent(True, False), urgent(None)),
    (
        "urgent = sampled",
        [{"urgent": True, "sampled": True}, {"urgent": False, "sampled": False}],
        [{"urgent": True, "sampled": False}, {"urgent": True}],
    ),
    ("hop = true", hop(1, 7, -1), hop(0, None)),
    ("hop AND urgent", [{"hop": 2, "urgent": True}], [{"hop": 0, "urgent": True}, {"hop": 2}]),
    ("(hop = 5) = true", hop(5), hop(6, None)),
    ("(hop = 5) = false", hop(6), hop(5, None)),
    ("(hop = 5) = 'true'", hop(5), hop(6)),
    ("(hop = 5) = 'no'", [], hop(5, 6)),
    ("(hop = 5) != 'no'", hop(5, 6), hop(None)),
    ("(hop = 5) < 1", hop(6), hop(5, None)),
]

IN_LIKE_EXISTS: list[Row] = [
    ("id IN ('a', 'b')", ident("a", "b"), ident("c", None)),
    ("id NOT IN ('a', 'b')", ident("c"), ident("a", None)),
    ("hop IN (1, '2', 3)", hop(1, 2, 3), hop(4, None)),
    ("hop IN ('abc', 1)", [], hop(1, 2)),
    ("urgent IN (true)", urgent(True), urgent(False, None)),
    ("urgent NOT IN ('true')", urgent(False), urgent(True, None)),
    ("LENGTH(id) IN (1, 3)", ident("a", "abc"), ident("ab", "", None)),
    ("id LIKE 'a%'", ident("a", "abc"), ident("ba", None)),
    ("id LIKE '_b'", ident("ab"), ident("b", "abc")),
    ("id LIKE 'a\\%'", ident("a%"), ident("ab")),
    ("id LIKE 'a\\_b'", ident("a_b"), ident("axb")),
    ("id LIKE 'a\\b'", ident("a\\b"), ident("ab")),
    ("id NOT LIKE 'a%'", ident("b", ""), ident("a", None)),
    ("EXISTS subject", [{"subject": ""}], [{}]),
    ("NOT EXISTS subject", [{}], [{"subject": "a"}]),
    ("EXISTS subject AND subject = 'a'", [{"subject": "a"}], [{"subject": "b"}, {}]),
    ("NOT (EXISTS subject) OR subject = 'a'", [{}, {"subject": "a"}], [{"subject": "b"}]),
    ("EXISTS time", [{"time": datetime.fromisoformat("2026-01-01T00:00:00Z")}], [{}]),
]

ERRORS: list[Row] = [
    ("hop = 1 OR ttl = 2", [{"hop": 1}, {"hop": 9, "ttl": 2}], [{"ttl": 2}, {"hop": 9}, {"hop": 9, "ttl": 9}]),
    ("ttl = 2 OR hop = 1", [{"ttl": 2}], [{"hop": 1}]),
    ("hop = 1 AND ttl = 2", [{"hop": 1, "ttl": 2}], [{"hop": 1}, {"ttl": 2}]),
    ("NOT (hop = 1 AND ttl = 2)", [{"hop": 9}, {"hop": 1, "ttl": 9}], [{"hop": 1}, {"ttl": 9}, {"hop": 1, "ttl": 2}]),
    ("NOT (hop = 1 OR ttl = 2)", [{"hop": 9, "ttl": 9}], [{"hop": 9}, {"ttl": 9}, {}]),
    ("hop = 1 XOR ttl = 2", [{"hop": 1, "ttl": 9}, {"hop": 9, "ttl": 2}], [{"hop": 1}, {"ttl": 2}, {"hop": 1, "ttl": 2}]),
    (
        "hop = 1 OR ttl = 2 OR delta = 3",
        [{"hop": 1}, {"hop": 9, "ttl": 2}, {"hop": 9, "ttl": 9, "delta": 3}],
        [{"delta": 3}, {"hop": 9, "delta": 3}, {"ttl": 2}],
    ),
    ("hop = 1 OR hop = 2 OR hop = 3", hop(1, 2, 3), hop(4, None)),
    ("hop = 1 OR ttl = 2 AND delta = 3", [{"hop": 1}, {"hop": 9, "ttl": 2, "delta": 3}], [{"ttl": 2, "delta": 3}]),
    (
        "(hop = 1 AND ttl = 2) OR delta = 3",
        [{"hop": 9, "delta": 3}, {"hop": 1, "ttl": 9, "delta": 3}, {"hop": 1, "ttl": 2}],
        [{"hop": 1, "delta": 3}, {"delta": 3}],
    ),
    ("(hop = 1 OR ttl = 2) AND delta = 3", [{"hop": 1, "delta": 3}], [{"ttl": 2, "delta": 3}]),
    ("EXISTS ttl OR hop = 1", [{"ttl": 5}, {"hop": 1}], [{"hop": 2}, {}]),
    ("hop = 1 OR TRUE", hop(1, 2), hop(None)),
    ("TRUE OR hop = 1", hop(1, 2, None), []),
    ("FALSE OR hop = 1", hop(1), hop(2, None)),
    ("urgent OR NOT urgent", urgent(True, False), urgent(None)),
]

FUNCTIONS: list[Row] = [
    ("LENGTH(id) = 3", ident("abc", "äöü"), ident("ab", "abcd", None)),
    ("LENGTH(id) > 3", ident("abcd"), ident("abc", None)),
    ("LENGTH(id) >= 0", ident("", "a"), ident(None)),
    ("LENGTH(id) < 1", ident(""), ident("a", None)),
    ("LENGTH(id) <= 1", ident("", "a"), ident("ab")),
    ("LENGTH(id) != 2", ident("a"), ident("ab", None)),
    ("LENGTH(id) = -1", [], ident("", "a")),
    ("3 < LENGTH(id)", ident("abcd"), ident("abc")),
    ("LENGTH('abc') = 3", [{}], []),
    ("LEFT(id, 2) = 'ab'", ident("ab", "abc"), ident("a", "b", None)),
    ("LEFT(id, 3) = 'ab'", ident("ab"), ident("abc", "a")),
    ("LEFT(id, 1) = 'ab'", [], ident("ab", "a")),
    ("LEFT(id, 0) = ''", ident("", "x"), ident(None)),
    ("LEFT(id, -1) = 'a'", [], ident("a", "b", None)),
    ("LEFT(id, 2) != 'ab'", ident("x"), ident("abc", None)),
    ("RIGHT(id, 2) = 'ab'", ident("xab", "ab"), ident("abx", "b", None)),
    ("RIGHT(id, 3) = 'ab'", ident("ab"), ident("xab")),
    ("SUBSTRING(id, 3) = 'c'", ident("abc"), ident("ab", "abcd", None)),
    ("SUBSTRING(id, 3) != 'c'", ident("abx", "abcd"), ident("abc", "ab", None)),
    ("SUBSTRING(id, 2, 2) = 'bc'", ident("abc", "abcd"), ident("axc", "ab", "a")),
    ("SUBSTRING(id, 2, 2) = 'b'", ident("ab"), ident("abc")),
    ("SUBSTRING(id, 2, 2) != 'bc'", ident("ab", "axx"), ident("abc", "a", "")),
    ("SUBSTRING(id, -2) = 'bc'", ident("abc", "bc"), ident("c", "bcd", None)),
    ("SUBSTRING(id, -3, 2) = 'ab'", ident("abc", "xabc"), ident("ab", "abcd")),
    ("SUBSTRING(id, 0) = ''", ident("", "a"), ident(None)),
    ("SUBSTRING(id, 2, 0) = ''", ident("ab", "abc"), ident("a", "", None)),
    ("SUBSTRING(id, 2, -1) = ''", [], ident("abc")),
    ("CONCAT('x-', id) = 'x-7'", ident("7"), ident("8", "x-7", None)),
    ("CONCAT(id, '.de') = 'sap.de'", ident("sap"), ident("sap.de")),
    ("CONCAT(id, '.de') = 'sap.com'", [], ident("sap", "sap.com")),
    ("CONCAT_WS('-', 'a', id, 'b') = 'a-7-b'", ident("7"), ident("-7-", None)),
    ("ABS(delta) = 5", [{"delta": 5}, {"delta": -5}], [{"delta": 4}, {}]),
    ("ABS(delta) < 5", [{"delta": -4}, {"delta": 0}], [{"delta": 5}, {"delta": -5}, {}]),
    ("ABS(delta) >= 5", [{"delta": -5}, {"delta": 7}], [{"delta": 4}, {}]),
    ("ABS(delta) > -1", [{"delta": 0}], [{}]),
    ("ABS(delta) = -1", [], [{"delta": 1}]),
    ("INT(hop) = 5", hop(5), hop(6, None)),
    ("INT(urgent) = 1", urgent(True), urgent(False, None)),
    ("STRING(hop) = '5'", hop(5), hop(6)),
    ("STRING(urgent) = 'false'", urgent(False), urgent(True, None)),
    ("BOOL(urgent)", urgent(True), urgent(False, None)),
    ("BOOL(hop)", hop(3), hop(0, None)),
    ("UPPER('ab') = 'AB' AND LOWER('AB') = 'ab' AND TRIM(' a ') = 'a'", [{}], []),
    ("STRING(5) = '5' AND INT('5') = 5 AND BOOL('true')", [{}], []),
    ("ABS(-2147483648) = 2147483647", [], [{}]),
    ("concat('a', 'b') = 'ab' AND Length(id) = 1", ident("x"), ident("xy")),
]

IGNORING_CASE: list[Row] = [
    ("LOWER(id) = 'abc'", ident("abc", "ABC"), ident("ab", None)),
    ("LOWER(id) = 'ABC'", [], ident("abc", "ABC", None)),
    ("LOWER(id) != 'ABC'", ident("abc", "ABC"), ident(None)),
    ("UPPER(id) = 'ABC'", ident("abc", "ABC"), ident("ab", None)),
    ("UPPER(id) = 'abc'", [], ident("abc", "ABC")),
    ("LOWER(id) LIKE 'a%'", ident("abc", "Abc"), ident("b", None)),
    ("LOWER(id) LIKE 'A%'", [], ident("abc", "Abc")),
    ("UPPER(id) NOT LIKE 'A%'", ident("b"), ident("a", "A", None)),
    ("LOWER(id) IN ('a', 'b')", ident("A", "b"), ident("c", None)),
    # Text as a boolean: only true and false are known, everything else is an error.
    ("id = true", ident("true", "TRUE"), ident("false", "yes", "1", None)),
    ("id != true", ident("false", "False"), ident("true", "yes", None)),
    ("id AND urgent", [{"id": "True", "urgent": True}], [{"id": "yes", "urgent": True}, {"urgent": True}]),
    ("id OR urgent", [{"id": "true"}, {"id": "false", "urgent": True}], [{"id": "yes", "urgent": True}, {"urgent": True}]),
    ("NOT BOOL(id)", ident("false"), ident("true", "no", None)),
]

ALL = LITERALS + COMPARED + IN_LIKE_EXISTS + ERRORS + FUNCTIONS + IGNORING_CASE


def test_expressions_pass_the_events_that_they_pass_in_cloudevents_sql() -> None:
    assert judge(SPACE, "cesql", ALL) >= 150


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("hop = 1 OR hop = 2", "hop = 1 OR hop = 2"),
        ("hop = 1 OR ttl = 2", "hop = 1 OR hop IS NOT NULL AND ttl = 2"),
        ("LENGTH(id) > 3 AND LEFT(id, 2) = 'ab'", "id LIKE '____%' AND startswith(id, 'ab')"),
        ("EXISTS subject AND NOT (type = 'a')", "subject IS NOT NULL AND NOT type = 'a'"),
    ],
)
def test_the_text_says_no_more_than_it_must(expression: str, text: str) -> None:
    assert translate(SPACE, "cesql", expression).text == text


def test_a_long_chain_stays_small() -> None:
    space = cc.Space("wide", {f"a{n}": "int" for n in range(40)})
    text = translate(space, "cesql", " OR ".join(f"a{n} = {n}" for n in range(40))).text
    assert text.count(" OR ") == 39
    same = translate(SPACE, "cesql", " OR ".join(f"hop = {n}" for n in range(900)))
    assert " IS NOT NULL" not in same.text
    assert same.predicate.accepts({"hop": 899})


def test_ands_within_ors_within_ands_grow_and_are_refused_in_time() -> None:
    expression = "ttl = 0"
    for _ in range(18):
        expression = f"(({expression}) OR hop = 1) AND delta = 2"
    with pytest.raises(RuleError) as refused:
        translate(SPACE, "cesql", expression)
    assert "split it into several" in refused.value.reason


@pytest.mark.parametrize(
    ("expression", "place", "reason"),
    [
        ("", "line 1, column 1", "the expression is empty"),
        ("hopp = 5", "line 1, column 1", "did you mean 'hop'?"),
        ("EXISTS hopp", "line 1, column 8", "did you mean 'hop'?"),
        ("EXISTS 5", "line 1, column 8", "the name of an attribute"),
        ("id", "line 1, column 1", "the expression gives a string"),
        ("hop", "line 1, column 1", "the expression gives an integer"),
        ("5", "line 1, column 1", "the expression gives an integer"),
        ("LENGTH(id)", "line 1, column 1", "the expression gives an integer"),
        ("hop < ttl", "line 1, column 5", "two attributes are compared"),
        ("id = type", "line 1, column 4", "two attributes are compared"),
        ("hop + 1 < 5", "line 1, column 5", "arithmetic over attributes"),
        ("-hop < 5", "line 1, column 1", "arithmetic over attributes"),
        ("id = 5", "line 1, column 4", "declare id as an int"),
        ("id < 5", "line 1, column 4", "declare id as an int"),
        ("INT(id) = 5", "line 1, column 1", "declare id as an int"),
        ("time = 'x'", "line 1, column 1", "time is a timestamp"),
        ("price = 5", "line 1, column 1", "price is a float"),
        ("TRIM(id) = 'a'", "line 1, column 1", "TRIM of an attribute"),
        ("LENGTH(LOWER(id)) = 5", "line 1, column 1", "LENGTH of LOWER(id) cannot be looked up"),
        ("LEFT(id, hop) = 'a'", "line 1, column 1", "one attribute here"),
        ("CONCAT(id, type) = 'ab'", "line 1, column 1", "one attribute here"),
        ("LENGTH(hop) = 5", "line 1, column 1", "declare it as a string"),
        ("LEFT(id, 2) LIKE 'a%'", "line 1, column 13", "LIKE of LEFT(id)"),
        ("hop LIKE '1%'", "line 1, column 5", "LIKE of hop"),
        ("id IN (type)", "line 1, column 4", "IN takes literals"),
        ("id IN ()", "line 1, column 8", "at least one value"),
        ("id LIKE type", "line 1, column 9", "a pattern in quotes"),
        ("MYFUNCTION(id) = 'a'", "line 1, column 1", "there is no function MYFUNCTION"),
        ("LENGTH(id, 5) = 5", "line 1, column 1", "LENGTH does not take 2 arguments"),
        ("NOT hop = 5", "line 1, column 1", "write NOT (...) around the test"),
        ("NOT id LIKE 'a%'", "line 1, column 1", "write NOT (...)"),
        ("hop = 1 AND ttl = 2 OR urgent", "line 1, column 21", "read in two ways"),
        ("hop = 1 XOR ttl = 2 AND urgent", "line 1, column 21", "read in two ways"),
        ("hop = 2147483648", "line 1, column 7", "no 32-bit integer"),
        ("hop = 5 ttl", "line 1, column 9", "unexpected 'ttl'"),
        ("(hop = 5", "line 1, column 9", "expected ')'"),
        ("hop = ", "line 1, column 7", "expected an attribute or a value"),
        ("id = 'a", "line 1, column 6", "no closing '"),
        ("hop == 5", "line 1, column 6", "expected an attribute or a value"),
        ("hop & 5", "line 1, column 5", "unexpected '& 5'"),
        ("id NOT 5", "line 1, column 8", "expected LIKE or IN after NOT"),
        (" XOR ".join(["urgent"] * 40), "line 1, column 8", "split it into several rules"),
        ("LENGTH(id) > 5000", "line 1, column 12", "send the length as an attribute"),
        ("(" * 200 + "urgent" + ")" * 200, "line 1, column 42", "nested too deeply"),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_place(expression: str, place: str, reason: str) -> None:
    with pytest.raises(RuleError) as refused:
        translate(SPACE, "cesql", expression)
    assert (refused.value.place, reason in refused.value.reason) == (place, True), str(refused.value)
