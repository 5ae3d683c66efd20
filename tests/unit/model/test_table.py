"""Many predicates by columns: what comes out of a table is what went in."""

import pytest

from contentcast.language import PredicateError, parse_many, parse_predicate
from contentcast.model import Space
from contentcast.model.predicates.table import PredicateTable

TRADES = Space("trades", issue="string", price="float", volume="int", halted="bool", traded="timestamp", raw="bytes")
TEXTS = [
    "issue = 'IBM' AND price < 120",
    "price BETWEEN 5 AND 9 OR issue = 'SAP'",
    "issue LIKE '%X'",
    "FALSE",
    "TRUE",
    "halted AND traded > TIMESTAMP '2026-03-01' AND raw = X'00FF'",
    "price IS NULL OR price > 1.7976931348623157e308",
    "volume NOT IN (1, 3) AND price < 0",
    "price > -5e-324 AND volume >= 9223372036854775807",
    "traded <= TIMESTAMP '0001-01-01 00:00:00' OR traded = TIMESTAMP '9999-12-31 23:59:59.999999'",
    "issue = '' OR raw = X''",
]


def test_predicates_come_back_in_their_order() -> None:
    parsed = [parse_predicate(TRADES, text) for text in TEXTS]
    table = PredicateTable.of(TRADES, parsed)
    assert list(table) == parsed
    assert [table[at] for at in range(-len(table), 0)] == parsed
    assert len(table) == len(TEXTS)
    assert table.conjunction_count == sum(len(each.conjunctions) for each in parsed)


def test_a_table_of_none() -> None:
    assert list(PredicateTable.of(TRADES, [])) == []
    assert list(parse_many(TRADES, [])) == []


def test_a_place_outside_of_the_table() -> None:
    table = PredicateTable.of(TRADES, [parse_predicate(TRADES, text) for text in TEXTS])
    for place in (len(TEXTS), -len(TEXTS) - 1):
        with pytest.raises(IndexError, match=f"predicate {place} of {len(TEXTS)}"):
            table[place]


def test_the_refused_ask_for_nothing_and_say_why_when_asked() -> None:
    table = parse_many(TRADES, ["price < 5", "prise < 5", "price < 7"], on_error="reject")
    assert set(table.refused) == {1}
    assert table.predicate_of.tolist() == [0, 2]
    with pytest.raises(PredicateError, match="did you mean 'price'"):
        table[1]
    assert table[2] == parse_predicate(TRADES, "price < 7")


def test_the_smallest_float_below_zero_and_zero_itself() -> None:
    """Between them lies the key of -0.0, which is no value: nothing may begin or end there."""
    texts = [
        "price > -5e-324 AND price < 0",
        "price <= -5e-324",
        "price < 0",
        "price > -5e-324",
        "price >= -0.0 AND price <= 0",
    ]
    for text in texts:
        assert list(parse_many(TRADES, [text] * 5)) == [parse_predicate(TRADES, text)] * 5
    assert parse_many(TRADES, texts[:1] * 5).conjunction_count == 0
