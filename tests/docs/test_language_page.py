"""docs/reference/language.md is the specification: every row of its tables is run, here and in Spark SQL.

A table's columns say what its rows claim; the space is that of the last `toml` block above it. A table with other columns is
an error, so that no row stands on the page unread.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from contentcast.language import (
    PredicateError,
    advertisement,
    covers,
    overlaps,
    parse_many,
    parse_predicate,
    parse_tree,
    print_predicate,
)
from contentcast.matching import Scan
from contentcast.matching.scan import truth
from contentcast.model import EventBatch, EventError, Space, from_json_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "language.md"

# What the rows of a table claim, by the columns that it must have; other columns are for the reader.
CLAIMS = {
    "matches": ("predicate", "event", "matches"),
    "refused": ("refused", "because"),
    "refused event": ("event", "refused because"),
    "canonical": ("text", "canonical form"),
    "covers": ("wide", "narrow", "covers", "overlaps"),
    "advertised": ("advertised", "event", "allowed"),
    "departs": ("predicate", "event", "here", "Spark"),
    "and": ("AND", "TRUE", "FALSE", "NULL"),
    "or": ("OR", "TRUE", "FALSE", "NULL"),
    "not": ("p", "NOT p"),
}
TRUTHS = {"TRUE": True, "FALSE": False, "NULL": None}


@dataclass(frozen=True)
class Row:
    line: int
    claim: str
    space: Space
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def says(self, column: str) -> bool:
        """yes or no, and nothing else: a slip of the pen must not read as no."""
        return {"yes": True, "no": False}[self.cells[column]]

    @property
    def batch(self) -> EventBatch:
        return from_json_lines(self.space, [self["event"]])

    def __str__(self) -> str:
        return f"line {self.line}: {next(iter(self.cells.values()))}"


@cache
def read_rows(text: str) -> tuple[Row, ...]:
    return tuple(_read(text))


def _read(text: str) -> Iterator[Row]:
    space: Space | None = None
    headers: list[str] = []
    cells: list[str] = []
    line = 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        match token.type:
            case "fence" if token.info == "toml":
                space = Space.from_dict(tomllib.loads(token.content))
            case "table_open":
                headers = []
            case "tr_open":
                assert token.map is not None
                cells, line = [], token.map[0] + 1
            case "inline" if token.level >= 4:  # inside a cell
                cells.append(_cell(token))
            case "tr_close" if not headers:
                headers = cells
            case "tr_close":
                assert space is not None, f"line {line}: a table before any space"
                yield Row(line, _claim(headers, line), space, dict(zip(headers, cells, strict=True)))


def _cell(token: Token) -> str:
    """What a cell holds: its code if it is code, else its text."""
    parts = token.children or []
    return parts[0].content if len(parts) == 1 and parts[0].type == "code_inline" else token.content


def _claim(headers: list[str], line: int) -> str:
    for claim, columns in CLAIMS.items():
        if set(columns) <= set(headers):
            return claim
    raise AssertionError(f"line {line}: no test reads a table of {', '.join(headers)}")


def rows(claim: str) -> list[Any]:
    return [pytest.param(row, id=str(row)) for row in read_rows(PAGE.read_text(encoding="utf-8")) if row.claim == claim]


def test_the_page_has_rows_of_every_claim() -> None:
    counts = {claim: len(rows(claim)) for claim in CLAIMS}
    assert all(counts.values()), counts
    assert counts["matches"] + counts["refused"] >= 200, counts


@pytest.mark.parametrize("row", rows("matches"))
def test_who_matches(row: Row) -> None:
    predicate = parse_predicate(row.space, row["predicate"])
    (event,) = row.batch.to_dicts()
    scan = Scan(row.space)
    scan.add(1, predicate)
    assert scan.match(event) == ([1] if row.says("matches") else [])
    assert predicate.accepts(event) is row.says("matches")
    assert parse_predicate(row.space, print_predicate(predicate)) == predicate
    assert list(parse_many(row.space, [row["predicate"]] * 5)) == [predicate] * 5


@pytest.mark.parametrize("row", rows("refused"))
def test_what_is_refused(row: Row) -> None:
    with pytest.raises(PredicateError) as caught:
        parse_predicate(row.space, row["refused"])
    assert row["because"].strip()
    assert row["because"].strip() in str(caught.value)


@pytest.mark.parametrize("row", rows("refused event"))
def test_which_event_is_refused(row: Row) -> None:
    with pytest.raises(EventError) as caught:
        row.batch
    assert row["refused because"].strip()
    assert row["refused because"] in str(caught.value)


@pytest.mark.parametrize("row", rows("canonical"))
def test_how_the_canonical_form_prints(row: Row) -> None:
    predicate = parse_predicate(row.space, row["text"])
    assert print_predicate(predicate) == row["canonical form"]
    assert parse_predicate(row.space, row["canonical form"]) == predicate


@pytest.mark.parametrize("row", rows("covers"))
def test_which_covers_which(row: Row) -> None:
    assert covers(row.space, row["wide"], row["narrow"]) is row.says("covers")
    assert overlaps(row.space, row["wide"], row["narrow"]) is row.says("overlaps")
    assert overlaps(row.space, row["narrow"], row["wide"]) is row.says("overlaps")


@pytest.mark.parametrize("row", rows("advertised"))
def test_what_an_advertisement_allows(row: Row) -> None:
    advertised = advertisement(row.space, 1, json.loads(row["advertised"]))
    (event,) = row.batch.to_dicts()
    assert advertised.allows(event) is row.says("allowed")
    assert advertised.predicate.accepts(event) is row.says("allowed")


@pytest.mark.parametrize("row", [*rows("and"), *rows("or"), *rows("not")])
def test_the_truth_tables(row: Row) -> None:
    (head, left), *others = row.cells.items()
    for column, shown in others:
        text = f"NOT {left}" if head == "p" else f"{left} {head} {column}"
        assert truth(parse_tree(row.space, text), {}) is TRUTHS[shown]
        assert parse_predicate(row.space, text).accepts({}) is (TRUTHS[shown] is True)
        assert parse_predicate(row.space, f"NOT ({text})").accepts({}) is (TRUTHS[shown] is False)


@pytest.mark.parametrize("row", rows("departs"))
def test_where_it_departs_from_spark(row: Row) -> None:
    if row["here"] == "refused":
        with pytest.raises(PredicateError):
            parse_predicate(row.space, row["predicate"])
        return
    (event,) = row.batch.to_dicts()
    predicate = parse_predicate(row.space, row["predicate"])
    assert (truth(parse_tree(row.space, row["predicate"]), event) is True) is row.says("here")
    assert predicate.accepts(event) is row.says("here")


# --- and in Spark


def test_spark_agrees_with_every_row(spark: SparkSession) -> None:
    """One job for each space: all its predicates as columns over all its events."""
    by_space: dict[Space, list[Row]] = {}
    for (row,) in (each.values for each in rows("matches")):
        by_space.setdefault(row.space, []).append(row)
    wrong = []
    for some in by_space.values():
        frame = spark.createDataFrame(pa.Table.from_batches([row.batch.records for row in some]))
        # The line break ends a predicate that ends in a comment.
        found = frame.selectExpr(*[f"({row['predicate']}\n) AS p{at}" for at, row in enumerate(some)]).collect()
        wrong += [str(row) for at, row in enumerate(some) if (found[at][at] is True) is not row.says("matches")]
    assert not wrong


def test_spark_departs_where_the_page_says(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    for (row,) in (each.values for each in rows("departs")):
        frame = spark.createDataFrame(pa.Table.from_batches([row.batch.records]))
        try:
            (found,) = frame.selectExpr(f"({row['predicate']}\n) AS p").collect()
            says = "yes" if found[0] is True else "no"
        except PySparkException:
            says = "error"
        assert says == row["Spark"], str(row)
        assert says != row["here"], f"{row} is no departure"


# --- that the above can fail

SPACE = '~~~toml\nname = "t"\nattributes = {price = "float"}\n~~~\n\n'


def test_rows_are_read_as_they_are_shown() -> None:
    page = "| predicate | event | matches | why |\n| --- | --- | --- | --- |\n| `` `price` < 5 `` | `{}` | no | *so* |\n"
    (row,) = read_rows((SPACE + page).replace("~~~", "```"))
    assert (row.line, row.claim, row.space.name) == (8, "matches", "t")
    assert row.cells == {"predicate": "`price` < 5", "event": "{}", "matches": "no", "why": "*so*"}


def test_a_table_that_nobody_reads_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no test reads a table of predicate, evnet, matches"):
        read_rows((SPACE + "| predicate | evnet | matches |\n| --- | --- | --- |\n| a | b | c |\n").replace("~~~", "```"))


def test_a_cell_that_is_neither_yes_nor_no_is_an_error() -> None:
    with pytest.raises(KeyError):
        Row(1, "matches", Space("t", price="float"), {"matches": "nope"}).says("matches")
