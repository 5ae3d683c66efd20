"""Spark's filters as a predicate of ours, which the source evaluates before a row leaves Python.

    price > 5.0, symbol LIKE 'A%', NOT (volume IN (1, 2))   ->   price > 5 AND startswith(symbol, 'A') AND volume NOT IN (1, 2)

Rule: a filter is taken only if the predicate means exactly what Spark means by it; any other is handed back to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark

from contentcast.match_index import MatchIndex
from contentcast.model import Predicate, Space
from contentcast.model.errors import ContentcastError, TooManyConjunctions
from contentcast.model.predicates import tree as ours
from contentcast.model.predicates.normalise import normalise
from contentcast.model.predicates.spelling import tree_of

COMPARISONS = {
    spark.EqualTo: "=",
    spark.EqualNullSafe: "<=>",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
}
TEXT_TESTS = {spark.StringStartsWith: "startswith", spark.StringEndsWith: "endswith", spark.StringContains: "contains"}


def predicate_of(wanted: Predicate, filters: Sequence[spark.Filter]) -> tuple[Predicate, list[spark.Filter]]:
    """What is wanted already and the filters that can be said, all at once; and the filters that cannot."""
    taken: list[ours.Tree] = [tree_of(wanted)]
    left: list[spark.Filter] = []
    for each in filters:
        try:
            together = [*taken, filter_tree(wanted.space, each)]
            wanted = normalise(wanted.space, ours.And(tuple(together)))
            taken = together
        except (Untranslatable, TooManyConjunctions):
            left.append(each)
    return wanted, left


class Untranslatable(ContentcastError):
    """Left to Spark."""


def filter_tree(space: Space, filter_: spark.Filter) -> ours.Tree:
    match filter_:
        case spark.Not(child):
            return ours.Not(filter_tree(space, child))
        case spark.IsNull(path):
            return ours.IsNull(_name(space, path))
        case spark.IsNotNull(path):
            return ours.Not(ours.IsNull(_name(space, path)))
        case spark.In(path, values):
            name = _name(space, path)
            return ours.In(name, tuple(_value(space, name, value) for value in values))
        case _ if type(filter_) in COMPARISONS:
            told: Any = filter_
            name = _name(space, told.attribute)
            return ours.Compare(name, COMPARISONS[type(filter_)], _value(space, name, told.value))
        case _ if type(filter_) in TEXT_TESTS:
            told = filter_
            name = _name(space, told.attribute)
            if space.kinds[name].name != "string":
                raise Untranslatable(f"{name} is no string")
            return ours.TextTest(name, TEXT_TESTS[type(filter_)], _value(space, name, told.value))
    raise Untranslatable(f"a filter that we do not know: {filter_!r}")


def _name(space: Space, path: tuple[str, ...]) -> str:
    """A column; a path into a struct is none of ours."""
    if len(path) != 1 or path[0] not in space:
        raise Untranslatable(f"no attribute: {'.'.join(path)}")
    return path[0]


def _value(space: Space, name: str, value: Any) -> Any:
    """As the attribute's kind stores it. Never coerced: what does not fit as it is (a NaN, a date) is Spark's to compare."""
    if value is None:
        return None
    try:
        checked = space.kinds[name].check(value)
    except ValueError as reason:
        raise Untranslatable(str(reason)) from None
    return 0.0 if checked == 0.0 and isinstance(checked, float) else checked  # -0.0 equals 0.0 and is not below it


class Sieve:
    """Batches through a predicate."""

    def __init__(self, predicate: Predicate) -> None:
        self._index = MatchIndex(predicate.space)
        self._index.add(0, predicate)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            chosen = self._index.match_batch(batch, unknown="ignore").column("event")
            if len(chosen):
                yield batch if len(chosen) == batch.num_rows else batch.take(chosen)


def row_range(predicate: Predicate, column: str, start: int, stop: int) -> tuple[int, int]:
    """The least stretch of rows that can satisfy the predicate, `column` being the row's number."""
    if predicate.is_nothing:
        return start, start
    lows, highs = [], []
    for conjunction in predicate.conjunctions:
        constraint = conjunction.get(column)
        if constraint is None or constraint.absent:
            return start, stop
        intervals = list(constraint.ranges.intervals())
        lows.append(start if intervals[0].low is None else intervals[0].low)
        highs.append(stop if intervals[-1].high is None else intervals[-1].high + 1)
    first, last = max(start, min(lows)), min(stop, max(highs))
    return first, max(first, last)
