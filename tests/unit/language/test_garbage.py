"""Whatever text comes in, a predicate or a PredicateError comes out: garbage, huge texts, deep texts, from any stack."""

import re
import sys
from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contentcast.language import PredicateError, parse_many, parse_predicate, print_predicate
from contentcast.language.grammar import DEEPEST
from contentcast.model import Predicate, Space
from contentcast.model.predicates.normalise import MOST_CONJUNCTIONS

THINGS = Space(
    "things", {"s": "string", "i": "int", "f": "float", "b": "bool", "t": "timestamp", "y": "bytes", "d.s": "string"}
)

WORDS = re.findall(
    r"\S+",
    r"""
s i f b t y `d.s` q 5 -3 1.5 1e3 .5 3e 'a' 'b%' "c" '' TRUE FALSE NULL = == <> != < <= > >= <=> ! && || AND OR NOT IN
LIKE ILIKE RLIKE ESCAPE BETWEEN IS ( ) ( ) , . ; : :: [ ] { } ? @ # $ % ^ & * + - / | ~ \ -> => := startswith endswith
contains TIMESTAMP DATE '2026-01-01' X'1F' 0x1F INTERVAL CASE WHEN THEN ELSE END SELECT FROM WHERE WITH AS UNION VALUES
CAST TRY_CAST ARRAY MAP STRUCT DISTINCT ALL ANY EXISTS CURRENT_DATE LATERAL CREATE DROP SET SHOW DESCRIBE EXPLAIN IF
CACHE REFRESH COMMENT PIVOT WINDOW OVER BY ORDER GROUP LIMIT COLLATE AT EXTRACT TRIM DECIMAL DIV XOR ISNULL UNKNOWN
SYMMETRIC r'x' N'x' /*x*/ -- /*+ 5L 1D 1.5BD 2F '\UFFFFFFFF' '\ud800' ' " ` JSON_OBJECT CONVERT DECODE MATCH_RECOGNIZE
NATURAL JOIN UNNEST x.y.z a.b.c.d.e @@x {{x}} <-> ** // << >>
""",
)
SIGNS = [*WORDS, "\n", "\t", "\r", "\0", "\x01", "\x02", "é", "😀", "\u2028", "\ud800", "\u00a0"]
LETTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 30)))
PREDICATES = [
    "i = 5 AND s LIKE 'a%b' ESCAPE '/'",
    "t BETWEEN TIMESTAMP '2020-01-01' AND TIMESTAMP '2021-01-01 00:00:00+02:00'",
    "f IN (1, -2.5, 1e3, NULL) OR NOT b",
    "startswith(s, 'x') AND y <> X'00FF'",
    "`d.s` IS NOT NULL AND b IS TRUE",
    "s = 'it''s \\u0041\\n' OR i <=> 3L",
]


def judged(text: str) -> Predicate | str:
    """The predicate or the error; anything else that is raised fails the test."""
    try:
        return parse_predicate(THINGS, text, most_chars=None)
    except PredicateError as error:
        return str(error)


def word_salad(random: Random) -> str:
    """Half of it words that a predicate may have, so that some of the salad is one."""
    joint = random.choice([" ", " ", ""])
    return joint.join(random.choice(random.choice([SIGNS, WORDS[:42]])) for _ in range(random.randint(1, 7)))


def mutilated(random: Random) -> str:
    text = random.choice(PREDICATES)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice(["", random.choice(SIGNS), random.choice(SIGNS)]) + text[at + random.randint(0, 3) :]
    return text


@pytest.mark.parametrize("garbage", [word_salad, mutilated])
def test_garbage_is_a_predicate_or_refused(garbage: Callable[[Random], str]) -> None:
    random = Random(2026)
    texts = [garbage(random) for _ in range(400)]
    found = [judged(text) for text in texts]
    for text, each in zip(texts, found, strict=True):
        if isinstance(each, Predicate):
            assert parse_predicate(THINGS, print_predicate(each)) == each, text
    # The same through a table, where four texts of a kind are read by their shape.
    table = parse_many(THINGS, texts * 4, on_error="reject")
    again = [str(table.refused[at]) if at in table.refused else table[at] for at in range(len(table))]
    assert again == found * 4
    assert any(isinstance(each, Predicate) for each in found)


@given(st.text())
@settings(max_examples=100)
@example("i = 1 \0 AND i = 2")
@example("\0")
@example("\ud800")
@example("\x01😀i\t{:}i")
@example("😀 ILIKE ! MAP ( SOUNDS EXECUTE \x01 WITH")
@example(". 1.5BD")
@example("i <=> 3eL")
@example("i = ²")
def test_any_text_at_all(text: str) -> None:
    judged(text)
    assert len(parse_many(THINGS, [text] * 5, on_error="reject")) == 5


def test_a_null_byte_does_not_end_a_text() -> None:
    assert "unexpected" in str(judged("i < 5 \0 AND i > 3"))
    assert "unexpected" in str(judged("i < 5\0"))
    assert parse_predicate(THINGS, "s = 'a\0b'").accepts({"s": "a\0b"})


@pytest.mark.parametrize(
    "texts",
    [
        ["i = 1", None, 5, True, b"i = 1", float("nan"), "s = '\ud800'", "i = 2"],
        pa.array([True, False]),
        pa.array([1, 2]),
        pa.array([b"i = 1"]),
        pa.nulls(2),
        pa.Array.from_buffers(pa.string(), 2, pa.array([b"i = 1", b"s = '\xff'"]).buffers()),
    ],
    ids=["a mixed list", "bools", "ints", "bytes", "nulls", "broken UTF-8"],
)
def test_what_is_no_text_is_refused_row_by_row_and_never_made_one(texts: object) -> None:
    table = parse_many(THINGS, texts, on_error="reject")  # type: ignore[arg-type]
    good = {at for at in range(len(table)) if at not in table.refused}
    assert all(table[at] in (parse_predicate(THINGS, "i = 1"), parse_predicate(THINGS, "i = 2")) for at in good)
    assert len(good) == (2 if isinstance(texts, list) else len([1 for each in table.predicate_of]))
    assert all("a predicate is a text, not" in str(error) or "surrogate" in str(error) for error in table.refused.values())


# --- deep


@pytest.mark.parametrize("nested", ["({})", "NOT ({})", "i = 1 AND ({})", "b OR ({})"])
def test_parentheses_go_so_deep_and_no_deeper(nested: str) -> None:
    text = "i = 1"
    for _ in range(DEEPEST):
        text = nested.format(text)
    assert isinstance(judged(text), Predicate)
    with pytest.raises(PredicateError, match=f"nested too deeply; parentheses go {DEEPEST} deep") as caught:
        parse_predicate(THINGS, f"({text})")
    assert caught.value.text[: caught.value.offset].count("(") == DEEPEST


@pytest.mark.parametrize("count", [5_000, 20_000])
def test_thousands_of_parentheses_are_refused_at_once(count: int) -> None:
    assert "nested too deeply" in str(judged("(" * count + "i = 1" + ")" * count))
    assert "nested too deeply" in str(judged("NOT " * count + "b"))
    judged("(" * count)
    judged("i IN (" * 50 + "1" + ")" * 50)


def test_parentheses_in_quotes_nest_nothing() -> None:
    assert parse_predicate(THINGS, f"s = '{'(' * 500}'").accepts({"s": "(" * 500})


def test_how_deep_one_may_nest_does_not_depend_on_who_calls() -> None:
    text = "i = 1 AND (b OR (" * 40 + "i = 2" + "))" * 40
    expected = parse_predicate(THINGS, text)

    def deep_down(levels: int) -> tuple[Predicate, Predicate]:
        if levels:
            return deep_down(levels - 1)
        return parse_predicate(THINGS, text), parse_many(THINGS, [text] * 5)[4]

    limit = sys.getrecursionlimit()
    assert deep_down(limit - 250) == (expected, expected)
    assert sys.getrecursionlimit() == limit


# --- large


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (" OR ".join(f"i = {2 * number}" for number in range(20_000)), 20_000),
        (" AND ".join(f"i <> {2 * number}" for number in range(5_000)), 5_000),
        ("i IN (" + ", ".join(str(2 * number) for number in range(20_000)) + ")", 20_000),
        ("s NOT IN (" + ", ".join(f"'{number}'" for number in range(20_000)) + ")", 20_000),
    ],
    ids=["OR", "AND", "IN", "NOT IN"],
)
def test_twenty_thousand_values_are_one_constraint(text: str, values: int) -> None:
    """One after the other they would take minutes: the work grows with the number of values, not with its square."""
    predicate = parse_predicate(THINGS, text, most_chars=None)
    ((_, constraint),) = predicate.conjunctions[0].items
    assert min(len(constraint.ranges.cuts), len(constraint.ranges.complement().cuts)) == 2 * values


def test_too_many_alternatives_are_refused_with_the_number_and_soon() -> None:
    text = " OR ".join(f"i = {2 * number} AND f = {number}" for number in range(2_100))
    assert f"more than {MOST_CONJUNCTIONS} alternatives" in str(judged(text))


def test_as_many_alternatives_as_are_allowed() -> None:
    predicate = parse_predicate(THINGS, " OR ".join(f"i > {number} AND f < {number}" for number in range(MOST_CONJUNCTIONS)))
    assert len(predicate.conjunctions) == MOST_CONJUNCTIONS


def test_sixty_patterns_at_once() -> None:
    text = " AND ".join(f"s LIKE '%{letter}%' AND s NOT LIKE '%{letter}!%'" for letter in LETTERS)
    predicate = parse_predicate(THINGS, text)
    assert predicate.accepts({"s": LETTERS})
    assert not predicate.accepts({"s": LETTERS[1:]})
    assert not predicate.accepts({"s": LETTERS + "!"})


def test_a_text_of_hundreds_of_kilobytes() -> None:
    assert parse_predicate(THINGS, "s = '" + "x" * 300_000 + "'", most_chars=None).accepts({"s": "x" * 300_000})
    assert parse_predicate(THINGS, " " * 300_000 + "i = 1", most_chars=300_005) == parse_predicate(THINGS, "i = 1")
    assert len(str(judged("i = 1 " * 50_000))) < 1000
