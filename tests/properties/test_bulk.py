"""A table read by shapes holds the predicates, and the errors, that the plain parser finds one by one."""

from __future__ import annotations

import re
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contentcast.language import PredicateError, parse_many, parse_predicate
from contentcast.model import Predicate, Space
from contentcast.workload import SCENARIOS, scenario
from tests.properties.generate import Generator

TRADES = Space("trades", issue="string", price="float", volume="int", active="bool")


def plainly(space: Space, text: str) -> Predicate | str:
    try:
        return parse_predicate(space, text)
    except PredicateError as error:
        return str(error)


def from_table(space: Space, texts: list[str]) -> list[Predicate | str]:
    table = parse_many(space, texts, on_error="reject")
    return [str(table.refused[at]) if at in table.refused else table[at] for at in range(len(table))]


@given(st.randoms(use_true_random=False))
def test_tables_of_few_shapes(random: Random) -> None:
    """Each text comes back a few times with other literals, some of which are refused (1e999, a lone escape)."""
    generate = Generator(random)
    space = generate.space()
    texts = []
    for _ in range(3):
        text = generate.text(space, 2)
        for _ in range(6):
            numbers = re.sub(r"\b\d+(\.\d+)?\b", lambda _: random.choice(["7", "0.25", "1e999", "9" * 30, "3."]), text)
            texts.append(random.choice([text, numbers, re.sub(r"'[ab]+'", r"'it''s\\u0041%'", text)]))
    random.shuffle(texts)
    assert from_table(space, texts) == [plainly(space, text) for text in texts]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario(name: str) -> None:
    drawn = scenario(name, seed=3)
    texts = drawn.subscriptions(300).column("predicate").to_pylist()
    assert from_table(drawn.space, texts) == [plainly(drawn.space, text) for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        "price < 5 -- 7",
        "price < 5 /* 'x' */ AND volume > 3",
        "volume = 12L",
        "price = 1.AND volume = 2",
        "volume = 1_000",
        "price = 1.2.3",
        "issue = 'a' 'b'",
        "issue = r'a'",
        "issue = 'open",
        "issue = \x01",
        "issue = '\x01'",
        "`price` < -5",
        "price > - 5 AND price < 5",
        "price > 5 AND price < 5",
        "volume < -9223372036854775808",
        "volume BETWEEN -9223372036854775808 AND 9223372036854775807",
        "price BETWEEN 3 AND 1",
        "price < 1e999",
        "issue = 'it''s'",
        'issue = "it\'s"',
        'issue = ""',
        "issue = ''''",
        "issue = '\\''",
        "issue = 'a' AND issue = 'b'",
        "active AND NOT active",
        "TRUE",
        "",
        "price <",
        "issue LIKE '50\\\\%' OR issue LIKE 'x%'",
        "5 < price",
        "price <> 5",
        "price <=> 5",
        "volume < 1.5",
        "price = -0.0",
    ],
)
def test_texts_in_which_a_literal_is_hard_to_tell(text: str) -> None:
    texts = [text] * 5 + ["price < 5"]
    assert from_table(TRADES, texts) == [plainly(TRADES, each) for each in texts]


def test_a_bad_text_stops_the_table_and_is_named() -> None:
    with pytest.raises(PredicateError, match="did you mean 'price'") as caught:
        parse_many(TRADES, ["price < 1", "prise < 2"])
    assert caught.value.__notes__ == ["in predicate 1 of the table"]


def test_a_missing_text_is_refused_as_such() -> None:
    table = parse_many(TRADES, pa.array(["price < 1", None]), on_error="reject")
    assert "a predicate is a text, not None" in str(table.refused[1])


def test_arrow_in_every_guise() -> None:
    texts = ["issue = 'A' AND price < 1", "issue = 'B' AND price < 2", "volume > 3"] * 3
    expected = [parse_predicate(TRADES, text) for text in texts]
    plain = pa.array(texts)
    guises = [plain, plain.dictionary_encode(), plain.cast(pa.large_string()), pa.chunked_array([plain[:4], plain[4:]])]
    for guise in [*guises, pa.concat_arrays([pa.array(["x"]), plain])[1:], pa.chunked_array([], pa.string())]:
        assert list(parse_many(TRADES, guise)) == (expected if len(guise) else [])
