"""JMS message selectors: SQL's unknown for what is not there, JMS's own limits, and what is refused with its place."""

from __future__ import annotations

from datetime import datetime

import pytest

import contentcast as cc
from contentcast.rules import RuleError, translate
from tests.unit.rules.judge import Row, judge

SPACE = cc.Space(
    "messages",
    {
        "JMSPriority": "int",
        "JMSType": "string",
        "JMSTimestamp": "timestamp",
        "name": "string",
        "phone": "string",
        "age": "int",
        "weight": "float",
        "urgent": "bool",
        "_x$1": "int",
        "order.total": "float",
        "raw": "bytes",
    },
)


def age(*given: int | None) -> list[dict[str, object]]:
    return [{"age": each} if each is not None else {} for each in given]


def name(*given: str | None) -> list[dict[str, object]]:
    return [{"name": each} if each is not None else {} for each in given]


TABLE: list[Row] = [
    ("", [{}, {"age": 5}], []),
    ("age = 5", age(5), age(6, None)),
    ("age <> 5", age(6), age(5, None)),
    ("age > 5", age(6), age(5, None)),
    ("age >= 5", age(5), age(4)),
    ("age < 5", age(4), age(5)),
    ("age <= 5", age(5), age(6)),
    ("5 < age", age(6), age(5)),
    ("5 >= age", age(5), age(6)),
    ("age = -5", age(-5), age(5)),
    ("age = +5", age(5), age(-5)),
    ("age > 1.5", age(2), age(1)),
    ("age = 5L", age(5), age(6)),
    ("age = 0x1F", age(31), age(30)),
    ("age = 010", age(8), age(10)),
    ("weight > 7E3", [{"weight": 7000.5}], [{"weight": 7000.0}, {}]),
    ("weight = 95.7", [{"weight": 95.7}], [{"weight": 95.8}]),
    ("weight < .5", [{"weight": 0.25}], [{"weight": 0.5}]),
    ("weight > 7.", [{"weight": 7.5}], [{"weight": 7.0}]),
    ("weight > 2.5f", [{"weight": 3.0}], [{"weight": 2.5}]),
    ("name = 'literal'", name("literal"), name("Literal", "", None)),
    ("name = 'literal''s'", name("literal's"), name("literals")),
    ("name <> 'a'", name("b", ""), name("a", None)),
    ("name = 'back\\slash'", name("back\\slash"), name("backslash")),
    ("urgent", [{"urgent": True}], [{"urgent": False}, {}]),
    ("NOT urgent", [{"urgent": False}], [{"urgent": True}, {}]),
    ("urgent = TRUE", [{"urgent": True}], [{"urgent": False}]),
    ("urgent <> true", [{"urgent": False}], [{"urgent": True}, {}]),
    ("false = urgent", [{"urgent": False}], [{}]),
    ("age BETWEEN 15 AND 19", age(15, 17, 19), age(14, 20, None)),
    ("age NOT BETWEEN 15 AND 19", age(14, 20), age(15, 19, None)),
    ("age BETWEEN 19 AND 15", [], age(17)),
    (
        "JMSTimestamp BETWEEN 0 AND 1000",
        [{"JMSTimestamp": datetime.fromisoformat("1970-01-01T00:00:00.5Z")}],
        [{"JMSTimestamp": datetime.fromisoformat("1970-01-01T00:00:02Z")}],
    ),
    (
        "JMSTimestamp > 1700000000000",
        [{"JMSTimestamp": datetime.fromisoformat("2023-11-14T22:13:20.001Z")}],
        [{"JMSTimestamp": datetime.fromisoformat("2023-11-14T22:13:20Z")}],
    ),
    ("name IN ('UK', 'US', 'France')", name("UK", "France"), name("Peru", None)),
    ("name NOT IN ('UK', 'US')", name("Peru", ""), name("UK", None)),
    ("name IN ('UK')", name("UK"), name("US")),
    ("phone LIKE '12%3'", [{"phone": "123"}, {"phone": "12993"}], [{"phone": "1234"}, {}]),
    ("name LIKE 'l_se'", name("lose"), name("loose", None)),
    ("name LIKE '\\_%' ESCAPE '\\'", name("_foo"), name("bar")),
    ("name LIKE 'a!%!_!!%' ESCAPE '!'", name("a%_!x"), name("ax_!x")),
    ("name LIKE '\\%'", name("\\x", "\\"), name("%")),
    ("phone NOT LIKE '12%3'", [{"phone": "1234"}], [{"phone": "123"}, {}]),
    ("name IS NULL", name(None), name("", "a")),
    ("name IS NOT NULL", name("", "a"), name(None)),
    (
        "JMSType = 'car' AND name = 'blue' AND weight > 2500",
        [{"JMSType": "car", "name": "blue", "weight": 2600.0}],
        [{"JMSType": "car", "name": "blue"}, {"JMSType": "bus", "name": "blue", "weight": 2600.0}],
    ),
    ("age = 1 OR name = 'a'", [{"age": 1}, {"name": "a"}, {"age": 2, "name": "a"}], [{"age": 2}, {}]),
    ("age = 1 OR name = 'a' AND urgent", [{"age": 1}], [{"name": "a"}]),
    ("(age = 1 OR name = 'a') AND urgent", [{"name": "a", "urgent": True}], [{"age": 1}]),
    ("NOT (age = 1 AND name = 'a')", [{"age": 2}, {"age": 1, "name": "b"}], [{"age": 1}, {}]),
    ("NOT age = 1", age(2), age(1, None)),
    ("NOT NOT age = 1", age(1), age(2)),
    ("NOT (age > 5 OR age IS NULL)", age(5), age(6, None)),
    ("age > 2 * 3", age(7), age(6)),
    ("age > (2 + 3) * 4 - 1", age(20), age(19)),
    ("age = 7 / 2", age(3), age(4)),
    ("age = -7 / 2", age(-3), age(-4)),
    ("weight = 7.0 / 2", [{"weight": 3.5}], [{"weight": 3.0}]),
    ("age = - - 5", age(5), age(-5)),
    ("(age) = (5)", age(5), age(6)),
    ("2 > 1", [{}], []),
    ("1 = 2 OR age = 5", age(5), age(6, None)),
    ("'a' = 'a' AND TRUE", [{}], []),
    ("'a' = 5", [], [{}]),
    ("TRUE", [{}], []),
    ("FALSE", [], [{}]),
    ("_x$1 = 5", [{"_x$1": 5}], [{}]),
    ("order.total > 5", [{"order": {"total": 6.0}}], [{}]),
    ("age\n>\t5 aNd NOT\n urgent", [{"age": 6, "urgent": False}], [{"age": 6}]),
]


def test_selectors_match_what_they_match_in_jms() -> None:
    assert judge(SPACE, "jms", TABLE) >= 100


@pytest.mark.parametrize(
    ("selector", "place", "reason"),
    [
        ("agee = 5", "line 1, column 1", "did you mean 'age'?"),
        ("Age = 5", "line 1, column 1", "did you mean 'age'?"),
        ("age = 5 AND\n  nam = 'a'", "line 2, column 3", "did you mean 'name'?"),
        ("age = '5'", "line 1, column 7", "age is an int in this space and never equals the string '5'"),
        ("name = 5", "line 1, column 8", "never equals 5"),
        ("urgent = 1", "line 1, column 10", "never equals 1"),
        ("raw = 'a'", "line 1, column 7", "raw is bytes"),
        ("name > 'a'", "line 1, column 1", "strings and bools with = and <> alone"),
        ("name BETWEEN 'a' AND 'b'", "line 1, column 1", "strings and bools with = and <> alone"),
        ("age IN (1, 2)", "line 1, column 1", "write age = 1 OR age = 2"),
        ("name IN ('a', 5)", "line 1, column 15", "lists strings"),
        ("name IN ()", "line 1, column 10", "lists strings"),
        ("age LIKE '1%'", "line 1, column 1", "LIKE of JMS asks of a string"),
        ("name LIKE name", "line 1, column 11", "a pattern in single quotes"),
        ("name LIKE 'a!b' ESCAPE '!'", "line 1, column 11", "stands before %, _ or itself only"),
        ("name LIKE 'a' ESCAPE '!!'", "line 1, column 22", "one character"),
        ("age + 1 > 5", "line 1, column 5", "arithmetic over the property age"),
        ("-age > 5", "line 1, column 1", "arithmetic over the property age"),
        ("age * weight > 100", "line 1, column 5", "a transform compute it"),
        ("age = weight", "line 1, column 7", "two properties are compared"),
        ("age > 1 / 0", "line 1, column 9", "division by zero"),
        ("age = NULL", "line 1, column 7", "write IS NULL"),
        ("age", "line 1, column 1", "age is an int, not a condition"),
        ("5", "line 1, column 1", "a literal alone"),
        ("age = 5 AND", "line 1, column 12", "expected a property or a value"),
        ("(age = 5", "line 1, column 9", "expected )"),
        ("age = 5)", "line 1, column 8", "unexpected ')'"),
        ("age = 5 name", "line 1, column 9", "unexpected 'name'"),
        ("name = 'a", "line 1, column 8", "no closing '"),
        ('name = "a"', "line 1, column 8", "single quotes"),
        ("age == 5", "line 1, column 6", "expected a property or a value"),
        ("age != 5", "line 1, column 5", "unexpected '!= 5'"),
        ("upper(name) = 'A'", "line 1, column 1", "JMS has no functions"),
        ("name IS 5", "line 1, column 9", "expected NULL"),
        ("name NOT 5", "line 1, column 10", "expected BETWEEN, IN or LIKE"),
        ("(age = 5) = TRUE", "line 1, column 11", "not conditions"),
        ("age = 1e999999", "line 1, column 7", "beyond"),
        ("JMSTimestamp > 99999999999999999999", "line 1, column 16", "outside the years"),
        ("(" * 200 + "urgent" + ")" * 200, "line 1, column 51", "nested too deeply"),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_place(selector: str, place: str, reason: str) -> None:
    with pytest.raises(RuleError) as refused:
        translate(SPACE, "jms", selector)
    assert (refused.value.place, reason in refused.value.reason) == (place, True), str(refused.value)


def test_the_error_shows_the_place() -> None:
    with pytest.raises(RuleError) as refused:
        cc.from_jms(SPACE, "age > 5 AND nam = 'a'")
    assert str(refused.value).endswith("\n    age > 5 AND nam = 'a'\n                ^")
