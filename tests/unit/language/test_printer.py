"""Predicates back to text: whatever is printed parses to an equal predicate, odd names and extreme values included."""

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlglot.dialects.spark import Spark

from contentcast.language import parse_many, parse_predicate, parse_tree, print_predicate, print_tree
from contentcast.language.printer import print_value, quote_name
from contentcast.model import Conjunction, Constraint, Predicate, Ranges, Space
from contentcast.model.predicates.normalise import normalise
from contentcast.model.predicates.spelling import spell
from contentcast.model.values.kinds import KINDS

THINGS = Space(
    "things", string="string", int="int", float="float", bool="bool", timestamp="timestamp", bytes="bytes", other="int"
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

VALUES: dict[str, list[Any]] = {
    "string": [
        "",
        "it's",
        '"',
        "\\",
        "\\%",
        "%_",
        "\0",
        "\x1a\b\n\r\t\f\v\x7f",
        "\ud7ff",
        "\ue000",
        "\U0010ffff",
        "a\U0010ffff",
        "😀",
        "-- ;",
        "\x01\x02",
        "`",
        "\u2028",
    ],
    "int": [0, -1, 2**63 - 1, -(2**63), 2**53 + 1],
    "float": [0.0, -0.0, 5e-324, -5e-324, 0.1, 1 / 3, 1e16, 1e22, 123456789012345680.0, 1.7976931348623157e308, -1e-300],
    "bool": [True, False],
    "timestamp": [
        datetime.min.replace(tzinfo=UTC),
        datetime(999, 1, 1, tzinfo=UTC),
        NOON,
        NOON + timedelta(microseconds=1),
        datetime.max.replace(tzinfo=UTC),
    ],
    "bytes": [b"", b"\0", b"\xff" * 3, b"a'b"],
}
EVERY_VALUE = [(kind, value) for kind, values in VALUES.items() for value in values]


def goes_round(predicate: Predicate) -> str:
    text = print_predicate(predicate)
    assert parse_predicate(predicate.space, text) == predicate, text
    assert normalise(predicate.space, spell(predicate)) == predicate, text
    assert list(parse_many(predicate.space, [text] * 5)) == [predicate] * 5, text
    return text


# --- values


@pytest.mark.parametrize(("kind", "value"), EVERY_VALUE, ids=repr)
def test_a_value_is_read_back_as_itself(kind: str, value: Any) -> None:
    predicate = parse_predicate(THINGS, f"`{kind}` = {print_value(value)}")
    assert predicate.accepts({kind: value})
    assert predicate == Predicate.of(THINGS, [Conjunction.of(THINGS, {kind: Constraint(Ranges.points(KINDS[kind], [value]))})])
    goes_round(predicate)


@pytest.mark.parametrize(("kind", "value"), EVERY_VALUE, ids=repr)
@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "<>", "<=>"])
def test_comparisons_with_it_go_round(kind: str, value: Any, op: str) -> None:
    predicate = parse_predicate(THINGS, f"`{kind}` {op} {print_value(value)} OR other = 1")
    goes_round(predicate)
    outside = Constraint(Ranges.points(KINDS[kind], [value]).complement(), absent=True)
    goes_round(Predicate.of(THINGS, [Conjunction.of(THINGS, {kind: outside})]))


@pytest.mark.parametrize(
    ("value", "text"), [(None, "NULL"), (Decimal("1.50"), "1.50"), (-5, "-5"), (True, "TRUE"), (1e300, "1e+300")]
)
def test_how_values_look(value: Any, text: str) -> None:
    assert print_value(value) == text


def test_the_first_years_keep_their_four_digits() -> None:
    assert print_value(datetime(1, 1, 1, tzinfo=UTC)) == "TIMESTAMP '0001-01-01 00:00:00.000000Z'"


def test_infinities_have_no_literal_and_are_said_by_a_bound() -> None:
    for value, text in ((math.inf, "`float` > 1.7976931348623157e+308"), (-math.inf, "`float` < -1.7976931348623157e+308")):
        point = Constraint(Ranges.points(KINDS["float"], [value]))
        assert goes_round(Predicate.of(THINGS, [Conjunction.of(THINGS, {"float": point})])) == text
        without = Constraint(point.ranges.complement())
        goes_round(Predicate.of(THINGS, [Conjunction.of(THINGS, {"float": without})]))


# --- names

WORDS = sorted(
    {
        word.lower()
        for table in (
            Spark.Tokenizer.KEYWORDS,
            Spark.Parser.FUNCTIONS,
            Spark.Parser.FUNCTION_PARSERS,
            Spark.Parser.NO_PAREN_FUNCTION_PARSERS,
            [each.name for each in Spark.Parser.NO_PAREN_FUNCTIONS],
        )
        for words in table
        for word in words.split()
        if word.isidentifier() and word.isascii()
    }
    | {"while", "x", "r", "n", "e", "b", "u"}
)
"""Every word that means something to sqlglot; a new version may bring more."""


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "{} = 5"),
        ("float", "{} < -2.5"),
        ("string", "startswith({}, 'a')"),
        ("timestamp", "{} > TIMESTAMP '2026-03-01'"),
        ("int", "{} IS NULL OR {} IN (1, 3)"),
        ("bool", "other = 1 AND {}"),
    ],
)
def test_no_keyword_is_lost_as_a_name(kind: str, text: str) -> None:
    assert len(WORDS) > 800
    for word in WORDS:
        space = Space("words", {word: kind, "other": "int"} if word != "other" else {"other": kind})
        predicate = parse_predicate(space, text.replace("{}", f"`{word}`"))
        assert parse_predicate(space, print_predicate(predicate)) == predicate, word


@pytest.mark.parametrize(
    "name",
    [
        "detail.state",
        "an odd name",
        "größe",
        "日本",
        "1st",
        "a-b",
        "a'b",
        'a"b',
        "a\\b",
        "a;b",
        "--",
        "/*",
        "a\nb",
        "\0",
        "😀",
        " x",
    ],
)
def test_odd_names_go_in_back_ticks(name: str) -> None:
    space = Space("odd", {name: "string", "other": "int"})
    assert quote_name(name) == f"`{name}`"
    for text in (f"`{name}` = 'a'", f"`{name}` LIKE '%a_' AND other > 1", f"`{name}` IS NULL OR contains(`{name}`, 'x')"):
        goes_round(parse_predicate(space, text))


@pytest.mark.parametrize("name", ["issue", "_x", "a1", "Price", "load", "comment"])
def test_plain_names_stay_plain(name: str) -> None:
    assert quote_name(name) == name


# --- shapes


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("NOT (int < 5 AND other > 3)", "`int` >= 5 OR other <= 3"),
        ("int = 1 AND (other = 2 OR other = 4)", "`int` = 1 AND other IN (2, 4)"),
        ("int IS NULL AND other = 1 OR int = 1", "`int` = 1 OR `int` IS NULL AND other = 1"),
        ("(int IS NULL OR int = 1) AND other = 2", "(`int` IS NULL OR `int` = 1) AND other = 2"),
        ("bool = FALSE", "bool = FALSE"),
        ("NOT bool", "bool = FALSE"),
        ("bool IS NOT TRUE", "bool IS NULL OR bool = FALSE"),
        ("string NOT LIKE '%a' AND string <> 'b'", "string <> 'b' AND NOT endswith(string, 'a')"),
        ("string LIKE 'a%b' AND string > 'ab'", "string > 'ab' AND string < 'b' AND string LIKE 'a%b'"),
        ("string >= 'OT' AND string < 'OU'", "startswith(string, 'OT')"),
        ("string LIKE '100\\\\%%' ESCAPE '!'", "startswith(string, '100\\\\')"),
        ("float > 1 AND float < 2", "`float` > 1.0 AND `float` < 2.0"),
        ("float BETWEEN 1 AND 2 AND float <> 1.5", "`float` >= 1.0 AND `float` < 1.5 OR `float` > 1.5 AND `float` <= 2.0"),
        ("int = 1 OR int = 3 OR int > 7", "`int` IN (1, 3) OR `int` >= 8"),
        ("TRUE", "TRUE"),
        ("int = 1 AND int = 2", "FALSE"),
    ],
)
def test_how_predicates_look(text: str, printed: str) -> None:
    text = text.replace("int", "`int`").replace("float", "`float`")
    assert goes_round(parse_predicate(THINGS, text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "NOT (other = 1 OR bool)",
        "NOT other = 1 AND (bool OR other IN (1, NULL))",
        "(other = 1 OR bool) AND (other = 2 OR NOT bool)",
        "other NOT BETWEEN 1 AND NULL",
        "string LIKE 'a!%' ESCAPE '!'",
        "NOT string LIKE NULL",
        "bool IS TRUE OR bool IS FALSE",
        "NULL OR TRUE AND FALSE",
        "NOT (NOT bool)",
        "other <=> NULL",
    ],
)
def test_a_tree_prints_as_the_text_that_it_came_from_means(text: str) -> None:
    tree = parse_tree(THINGS, text)
    assert parse_tree(THINGS, print_tree(tree)) == tree
