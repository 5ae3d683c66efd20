"""A second reading of the predicates, independent of the generators: split at AND, test one column at a time.

Rule: understands exactly the forms that scenarios write, and fails on any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

Test = tuple[str, str, tuple[object, ...]]
Columns = dict[str, NDArray[np.generic]]

_TEST = re.compile(
    r"(?P<attribute>\w+) (?:BETWEEN (?P<low>[\d.]+) AND (?P<high>[\d.]+)"
    r"|(?P<sign>=|>=|<|>) (?P<number>[\d.]+)|= '(?P<text>[^']*)'|LIKE '(?P<prefix>[^'%]*)%')"
)


def tests_of(predicate: str) -> Iterator[Test]:
    """(attribute, operator, values) of each test of a conjunction."""
    at = 0
    if predicate == "TRUE":
        return
    while at < len(predicate):
        found = _TEST.match(predicate, at)
        assert found, f"no test at {predicate[at:]!r} in {predicate!r}"
        attribute = found["attribute"]
        if found["low"] is not None:
            yield attribute, "between", (float(found["low"]), float(found["high"]))
        elif found["number"] is not None:
            yield attribute, found["sign"], (float(found["number"]),)
        elif found["text"] is not None:
            yield attribute, "=", (found["text"],)
        else:
            yield attribute, "like", (found["prefix"],)
        at = found.end()
        if at < len(predicate):
            assert predicate.startswith(" AND ", at), predicate
            at += len(" AND ")


def columns_of(events: pa.RecordBatch) -> Columns:
    """Nulls become NaN or the empty string, which no scenario publishes and no predicate asks for."""
    columns = {}
    for name, column in zip(events.schema.names, events.columns, strict=True):
        if pa.types.is_string(column.type):
            columns[name] = np.array(column.fill_null("").to_pylist(), dtype=np.str_)
        elif not pa.types.is_binary(column.type):
            columns[name] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return columns


def matching(predicate: str, columns: Columns) -> NDArray[np.bool_]:
    rows = len(next(iter(columns.values())))
    matched = np.ones(rows, dtype=np.bool_)
    for attribute, operator, values in tests_of(predicate):
        column = columns[attribute]
        match operator, values:
            case "between", (low, high):
                matched &= (column >= low) & (column <= high)
            case "like", (prefix,):
                matched &= np.char.startswith(column, prefix)
            case "=", (value,):
                matched &= column == value
            case ">=", (value,):
                matched &= column >= value
            case "<", (value,):
                matched &= column < value
            case ">", (value,):
                matched &= column > value
    return matched


@pytest.fixture(scope="session")
def read() -> Callable[[str], list[Test]]:
    """The tests of a predicate's text."""
    return lambda predicate: list(tests_of(predicate))


@pytest.fixture(scope="session")
def match_table() -> Callable[[pa.RecordBatch, pa.RecordBatch], NDArray[np.bool_]]:
    """[subscription, event]: who matches what."""

    def table(subscriptions: pa.RecordBatch, events: pa.RecordBatch) -> NDArray[np.bool_]:
        columns = columns_of(events)
        return np.array([matching(each, columns) for each in subscriptions["predicate"].to_pylist()])

    return table
