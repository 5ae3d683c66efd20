"""All systems side by side: how subscriptions become topics, and the sentence at the top."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
from rich.console import Console

from contentcast.commands.run import _side_by_side
from contentcast.model import Space
from contentcast.network.named import topology
from contentcast.pipeline.side_by_side import HEADINGS, NARROW_HEADINGS, SideBySide, as_topics, shown
from contentcast.spark.route_facts import Totals

TRADES = Space("trades", symbol="string", exchange="string", price="float")


def asked(*predicates: str) -> pa.Table:
    count = len(predicates)
    return pa.table({"subscription": range(count), "predicate": list(predicates), "subscriber": ["s"] * count})


def test_a_topic_is_what_most_name_and_the_rest_of_a_wish_is_dropped() -> None:
    attribute, topics = as_topics(
        TRADES,
        asked("symbol = 'IBM' AND price < 10", "symbol IN ('SAP', 'IBM') AND exchange = 'LSE'", "price > 3"),
    )
    assert attribute == "symbol"
    assert topics["predicate"].to_pylist() == ["symbol = 'IBM'", "symbol IN ('IBM', 'SAP')", "TRUE"]
    assert topics.column_names == ["subscription", "predicate", "subscriber"]


def test_where_nobody_names_a_value_there_are_no_topics() -> None:
    table = asked("price < 10", "price > 3 OR symbol = 'IBM'")
    assert as_topics(TRADES, table) == ("", table)


def cost(name: str, messages: int, deliveries: int) -> Totals:
    network = topology("line:2")
    links = np.array([[0, messages], [0, 0]])
    each = np.array([deliveries, 0])
    none = np.zeros(2, np.int64)
    return Totals(name, network, links, 100 * links, none, None, each, np.zeros(2), np.array([deliveries]), none, none, none)


def test_one_sentence_says_what_each_system_of_the_papers_saves() -> None:
    messages = {"flooding": 1000, "link-matching": 50, "covering": 60, "summaries": 200, "overlay": 1500, "multicast": 40}
    totals = {name: cost(name, count, 40) for name, count in messages.items()}
    found = SideBySide({**totals, "topics": cost("topics", 200, 80)}, "symbol", 10, 100)
    assert found.sentence() == (
        "Against broadcast, link-matching saves 95 % of the messages, summaries saves 80 %, overlay sends 1.5 times as many "
        "and multicast saves 96 %; against one topic for each symbol, where 50 % of what subscribers get is not what they "
        "asked for, link-matching saves 75 % of the messages, summaries sends as many, overlay sends 7.5 times as many and "
        "multicast saves 80 %."
    )
    rows = {row["system"]: row for row in found.rows()}
    assert rows["topics"]["unwanted"] == 40
    assert rows["link-matching"]["bytes"] == 5_000
    assert all(len(each) == len(HEADINGS) for each in shown(found.rows()))
    assert shown(found.rows())[1][-1] == "5,000 B"
    assert [each.replace("-\n", "").replace("\n", " ") for each in NARROW_HEADINGS] == list(HEADINGS[: len(NARROW_HEADINGS)])
    alone = SideBySide({name: totals[name] for name in ("flooding", "link-matching")}, "", 10, 100)
    assert alone.sentence() == "Against broadcast, link-matching saves 95 % of the messages."


def test_the_table_fits_a_terminal_of_eighty_columns() -> None:
    """With the longest name of a system, and numbers as wide as they get."""
    totals = {name: cost(name, 76_123, 999) for name in ("flooding", "summaries-side-by-side")}
    told = io.StringIO()
    Console(file=told, width=80).print(_side_by_side(SideBySide(totals, "", 2_000, 500)))
    assert "…" not in told.getvalue()
    for heading in ("messages", "broad-", "topics", "wanted", "event", "broker", "p99"):
        assert f" {heading} " in told.getvalue()
