"""What a refused text is told: the line, the column, the place under a caret, and the way out."""

import copy
import pickle

import pytest

from contentcast.language import PredicateError, parse_many, parse_predicate
from contentcast.model import ContentcastError, Space

TRADES = Space(
    "trades",
    {
        "issue": "string",
        "price": "float",
        "volume": "int",
        "halted": "bool",
        "traded": "timestamp",
        "raw": "bytes",
        "größe": "float",
    },
)


def refused(text: str, space: Space = TRADES) -> PredicateError:
    with pytest.raises(PredicateError) as caught:
        parse_predicate(space, text)
    return caught.value


BEFORE = [
    "",
    "volume = 1 AND ",
    "volume = 1 AND\n",
    "volume = 1\r\n  AND\r\n\t",
    "\n\n\t\t",
    "volume = 1 AND\r",
    "`größe` > 0 AND ",
    "issue = '😀 é \t' AND\n\t",
    "issue = 'two\nlines' AND ",
    "/* a comment\nof two lines */ ",
    "-- a comment\n",
    "issue = 'it''s; --' AND ",
]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(
    ("rest", "place"),
    [
        ("prise < 5", "prise"),
        ("price < volume", "volume"),
        ("price = 'x'", "'x'"),
        ("volume BETWEEN 1 AND 'x'", "'x'"),
        ("volume IN (1, 2, 'x')", "'x'"),
        ("issue LIKE 5", "5"),
        (r"issue LIKE 'a\\b'", r"'a\\b'"),
        ("price + 1 < 5", "price"),
        ("upper(issue) = 'IBM'", "upper"),
        ("price < 5 )", ")"),
        ("price < 5 foo", "foo"),
        ("traded > TIMESTAMP 'soon'", "'soon'"),
        ("price", "price"),
        ("issue = 'open", "'open"),
    ],
)
def test_the_place_is_where_the_fault_begins(before: str, rest: str, place: str) -> None:
    text = before + rest
    error = refused(text)
    assert error.offset == len(before) + rest.index(place)
    assert error.line == text[: error.offset].count("\n") + 1
    assert text.split("\n")[error.line - 1][error.column - 1 :].startswith(place)
    head, shown, caret = str(error).split("\n")
    assert head == f"line {error.line}, column {error.column}: {error.reason}"
    assert shown[len(caret) - 1 :].startswith(place)
    assert caret.strip() == "^"


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("rest", ["price <", "(price < 5", "price < 5 AND", "volume BETWEEN 1"])
def test_what_is_missing_is_missing_at_the_end(before: str, rest: str) -> None:
    error = refused(before + rest)
    assert error.offset == len(before + rest)
    assert error.reason.startswith("expected ")


def test_the_examples_of_the_house() -> None:
    assert str(refused("price <")) == "line 1, column 8: expected a value after '<'\n    price <\n           ^"
    assert refused("prise < 5").reason == "trades has no attribute 'prise'; did you mean 'price'?"


def test_a_tab_is_one_blank_so_that_the_caret_stands_right() -> None:
    assert str(refused("\tprice <\t'x'")).split("\n")[1:] == ["     price < 'x'", "             ^"]


def test_what_does_not_print_is_one_blank_each() -> None:
    shown = str(refused("price \0\x1b[31m < 'x\ud800'")).split("\n")[1]
    assert shown.isprintable()
    str(refused("price \0\x1b[31m < 'x\ud800'")).encode()  # can be written to any screen or log


def test_of_a_long_line_the_part_around_the_place_is_shown() -> None:
    text = " OR ".join(f"volume = {number}" for number in range(500)) + " OR prise = 1"
    text += " OR " + " OR ".join(f"volume = {number}" for number in range(500))
    error = refused(text)
    _, shown, caret = str(error).split("\n")
    assert error.column == text.index("prise") + 1
    assert shown[len(caret) - 1 :].startswith("prise")
    assert len(shown) < 120
    assert shown.strip().startswith("...")
    assert shown.endswith("...")


def test_errors_survive_pickling_and_copying_with_all_their_parts() -> None:
    error = refused("issue = 'é'\n  AND prise < 5")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(again) == str(error)
        assert (again.text, again.offset, again.reason) == (error.text, error.offset, error.reason)
        assert (again.line, again.column) == (2, 7)
    assert isinstance(error, ContentcastError)


def test_an_offset_outside_of_the_text_stays_inside() -> None:
    assert PredicateError("price", 99, "no").column == 6
    assert PredicateError("price", -1, "no").column == 1
    assert str(PredicateError("", 0, "no")) == "line 1, column 1: no\n    \n    ^"


@pytest.mark.parametrize("text", ["", " ", "\n\t", ";", "--", "-- nothing", "/* nothing */", "/**/;"])
def test_nothing_is_no_predicate(text: str) -> None:
    assert refused(text).reason == "the predicate is empty; TRUE asks for every event"


def test_two_predicates_are_told_at_the_semicolon_that_parts_them() -> None:
    error = refused("issue = ';' ; volume = 3")
    assert error.reason == "one predicate, and nothing after it"
    assert error.column == 13
    for end in (";", " ; ", ";;", "; -- done", ";/* done */"):
        assert parse_predicate(TRADES, "issue = ';'" + end) == parse_predicate(TRADES, "issue = ';'")


@pytest.mark.parametrize("text", [None, 5, b"price < 5", ["price < 5"]])
def test_something_that_is_no_text(text: object) -> None:
    assert refused(text).reason == f"a predicate is a text, not {text!r}"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("case", "case = 5"),
        ("select", "volume = 1 AND select > 3"),
        ("current_date", "current_date = 5"),
        ("list", "list < -2"),
        ("xor", "xor IN (1, 2)"),
        ("an odd name", "an odd name = 5"),
        ("detail-state", "detail-state = 5"),
    ],
)
def test_a_keyword_as_a_name_is_answered_with_its_back_ticks(name: str, text: str) -> None:
    space = Space("words", {name: "int", "volume": "int"})
    if name == "detail-state":  # reads as a subtraction, and is told so
        assert "detail" in str(refused(text, space))
        return
    assert f"the attribute {name} goes in back-ticks: `{name}`" in refused(text, space).reason
    parse_predicate(space, text.replace(name, f"`{name}`"))


@pytest.mark.parametrize("word", ["load", "comment", "show", "cache", "copy", "use", "call", "kill", "set", "refresh", "begin"])
def test_a_word_that_begins_a_statement_is_a_plain_name_here(word: str, caplog: pytest.LogCaptureFixture) -> None:
    space = Space("words", {word: "int"})
    assert parse_predicate(space, f"{word} > 5").accepts({word: 6})
    assert not caplog.records  # sqlglot warns of commands that it does not know


def test_a_bad_row_of_a_table_is_named_with_its_place() -> None:
    with pytest.raises(PredicateError, match="did you mean 'price'") as caught:
        parse_many(TRADES, ["price < 1"] * 5 + ["prise < 2"] * 5)
    assert caught.value.__notes__ == ["in predicate 5 of the table"]
