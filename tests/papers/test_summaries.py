"""Worked examples of Triantafillou & Economides 2004 (papers/3): figures 2 to 6 and Example 1."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from contentcast.language import parse_many
from contentcast.matching.summaries import PAPER, IdLayout, PartedId, Summary, aacs_bytes, examine, sacs_bytes
from contentcast.model import EventBatch, Ranges, Space
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.values.kinds import FLOAT, STRING

TRADES = Space(
    "trades",
    exchange="string",
    symbol="string",
    when="timestamp",
    price="float",
    volume="int",
    high="float",
    low="float",
)
FIGURE_2 = {
    "exchange": "NYSE",
    "symbol": "OTE",
    "when": datetime(2003, 7, 1, 9, 5, 25, tzinfo=UTC),
    "price": 8.40,
    "volume": 132700,
    "high": 8.80,
    "low": 8.22,
}
FIGURE_3 = {
    1: "exchange LIKE 'N%SE' AND symbol = 'OTE' AND price < 8.70 AND price > 8.30",
    2: "symbol LIKE 'OT%' AND price = 8.20 AND volume > 130000 AND low < 8.05",
}


@pytest.fixture
def broker_a() -> Summary:
    summary = Summary(TRADES, precision=PAPER)
    summary.add("A", list(FIGURE_3), parse_many(TRADES, list(FIGURE_3.values())))
    return summary


def rows(summary: Summary, name: str) -> list[tuple[Constraint, list[int]]]:
    columns = summary.columns()
    found = columns.rows[name]
    listed = [(found.constraint(row), columns.ids[found.of_row(row)].tolist()) for row in range(len(found.offsets) - 1)]
    return [(constraint, ids) for constraint, ids in listed if ids]


def test_figure_4_the_aacs_of_price(broker_a: Summary) -> None:
    """Figure 4: the range from 8.30 to 8.70 has S1, the value 8.20 has S2."""
    between = Ranges.between(FLOAT, 8.30, 8.70, low_closed=False, high_closed=False)
    assert rows(broker_a, "price") == [
        (Constraint(Ranges.points(FLOAT, [8.20])), [2]),
        (Constraint(between), [1]),
    ]
    size = broker_a.sizes().attributes["price"]
    assert (size.ranges, size.values, size.ids) == (1, 1, 2)


def test_figure_5_the_sacs_of_symbol(broker_a: Summary) -> None:
    """Figure 5: the prefix OT is more general than = OTE and takes its place, with S1 and S2 in one row."""
    assert rows(broker_a, "symbol") == [(Constraint(Ranges.prefix("OT")), [1, 2])]
    assert broker_a.sizes().attributes["symbol"].texts == 1
    assert [ranges.kind for (ranges, _) in [(each.ranges, ids) for each, ids in rows(broker_a, "symbol")]] == [STRING]


def test_example_1_counters_and_c3(broker_a: Summary) -> None:
    """Section 3.3, Example 1: S1 is counted 3 times of 3, S2 twice of 4; S1's two constraints on price count once."""
    columns = broker_a.columns()
    found = examine(columns, FIGURE_2)
    by_id = {name: columns.ids[list(entries)].tolist() for name, entries in found.lists.items()}
    assert by_id == {"exchange": [1], "symbol": [1, 2], "price": [1], "volume": [2]}
    assert [(found.counters[entry], found.wanted[entry]) for entry in (0, 1)] == [(3, 3), (2, 4)]
    assert columns.ids[list(found.kept)].tolist() == [1]


def test_example_1_by_columns(broker_a: Summary) -> None:
    matches = broker_a.match(EventBatch.from_dicts(TRADES, [FIGURE_2]))
    assert (matches.events.tolist(), matches.ids.tolist()) == ([0], [1])
    assert [matches.names[each] for each in matches.brokers] == ["A"]


def test_a_summary_may_say_yes_wrongly(broker_a: Summary) -> None:
    """papers/README, section 3: S1's = OTE lives in the row OT*, so OTX passes; the broker that owns S1 tests exactly."""
    wrong = EventBatch.from_dicts(TRADES, [{**FIGURE_2, "symbol": "OTX"}])
    assert broker_a.match(wrong).ids.tolist() == [1]
    exact = Summary(TRADES)
    exact.add("A", list(FIGURE_3), parse_many(TRADES, list(FIGURE_3.values())))
    assert exact.match(wrong).ids.tolist() == []
    assert exact.match(EventBatch.from_dicts(TRADES, [FIGURE_2])).ids.tolist() == [1]


def test_figure_6_an_id_in_three_parts() -> None:
    """Section 3.2: 4 brokers, 8 subscriptions each, 7 attributes; subscription 1 of broker 2 on the attributes 3, 5 and 6.

    The paper counts attributes from 1, right to left.
    """
    layout = IdLayout(brokers=4, subscriptions=8, attributes=7)
    assert layout.bits == (2, 3, 7)
    figure = PartedId.of(2, 1, [each - 1 for each in (3, 5, 6)])
    assert figure.c3 == 0b0110100
    assert figure.attribute_count == 3
    assert layout.pack(figure) == 0b10_001_0110100
    assert layout.unpack(0b10_001_0110100) == figure
    assert layout.id_bytes == 2


@pytest.mark.parametrize(("count", "bits"), [(1000, 10), (1_000_000, 20), (1, 0), (2, 1), (1024, 10), (1025, 11)])
def test_the_paper_s_bit_counts(count: int, bits: int) -> None:
    """Section 3.2: 1000 brokers take 10 bits, a million subscriptions 20: the logarithm, rounded up."""
    assert IdLayout(count, count, 0).bits == (bits, bits, 0)


def test_equations_1_and_2() -> None:
    """Section 5.1 with table 2's sizes: two ranges and 5 values of 4 bytes, 100 ids of 4; 7 texts of 10 bytes, 100 ids."""
    assert aacs_bytes(2, 5, 100) == (2 * 2 + 5) * 4 + 100 * 4
    assert sacs_bytes(7, 100) == 7 * 10 + 100 * 4


def test_the_equations_for_figures_4_and_5(broker_a: Summary) -> None:
    """exchange N*SE and symbol OT* are a text each; price a range and a value; volume and low a range each; 7 ids in lists."""
    sizes = broker_a.sizes()
    assert (sizes.rows, sizes.ids) == (6, 7)
    assert sizes.equation_bytes(sst=4, ssv=10, sid=4) == 2 * 10 + (2 * 1 + 1) * 4 + 2 * 4 + 2 * 4 + 7 * 4
