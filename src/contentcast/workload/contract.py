"""What a scenario gives: a space, endless rows of events and of subscriptions, and where each event is published.

Rule: row r is the same whatever stretch it is asked in: `events(10, start=5)` equals rows 5 to 15 of `events(15)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model import Space
from contentcast.workload.columns import Column, column
from contentcast.workload.parameters import WorkloadError

STRETCH_ROWS: Final = 65_536
"""Rows made at a time, so that temporaries stay small whatever is asked for. It costs nothing: a million market events
took 0.14 s in stretches and 0.16 s in one piece."""

COLUMN_BYTES: Final = 2**31 - 1
"""Arrow's string and binary arrays count their bytes in 32 bits."""

_TEXT: Final[pa.DataType] = pa.string()
SUBSCRIPTION_SCHEMA: Final = pa.schema(
    [("subscription", pa.int64()), ("predicate", _TEXT), ("subscriber", _TEXT), ("broker", _TEXT)]
)


class Interests(NamedTuple):
    """Subscriptions as columns, without their row numbers."""

    predicate: Column
    subscriber: Column
    broker: Column


class Recipe(Protocol):
    """One kind of scenario, told its parameters: makes any stretch of rows."""

    @property
    def space(self) -> Space: ...

    @property
    def brokers(self) -> Sequence[str]: ...

    def events(self, rows: range) -> Sequence[Column]:
        """A column for each attribute of the space, in its order."""

    def interests(self, rows: range) -> Interests: ...

    def publishers(self, rows: range) -> Column:
        """The broker at which each event of these rows enters."""


class Placed:
    """A recipe whose subscribers hang on, and whose publishers publish at, brokers with other names."""

    def __init__(self, recipe: Recipe, brokers: Sequence[str]) -> None:
        if not brokers:
            raise WorkloadError("a scenario is placed at one broker or more, got none")
        self.recipe = recipe
        self.space = recipe.space
        self.events = recipe.events
        self._before = pa.array(recipe.brokers, _TEXT)
        count = len(recipe.brokers)
        self._now = pa.array([brokers[at * len(brokers) // count] for at in range(count)], _TEXT)
        self.brokers = tuple(dict.fromkeys(self._now.to_pylist()))

    def _moved(self, brokers: Column) -> Column:
        return self._now.take(pc.index_in(brokers, self._before))

    def interests(self, rows: range) -> Interests:
        interests = self.recipe.interests(rows)
        return interests._replace(broker=self._moved(interests.broker))

    def publishers(self, rows: range) -> Column:
        return self._moved(self.recipe.publishers(rows))


@dataclass(frozen=True)
class Scenario:
    """A named, seeded workload. Made by `scenario(name, seed=...)`."""

    name: str
    seed: int
    parameters: Mapping[str, Any]
    recipe: Recipe

    @property
    def space(self) -> Space:
        return self.recipe.space

    @property
    def brokers(self) -> tuple[str, ...]:
        """The names of all brokers that subscribers hang on and publishers publish at."""
        return tuple(self.recipe.brokers)

    def placed_at(self, brokers: Sequence[str]) -> Scenario:
        """The same rows at other brokers: the k-th of n sits at `brokers[k * len(brokers) // n]`, so evenly spread."""
        return replace(self, recipe=Placed(self.recipe, tuple(brokers)))

    def events(self, count: int, start: int = 0) -> pa.RecordBatch:
        """Events `start` to `start + count`, one column for each attribute of the space."""
        schema = self.space.arrow_schema
        return pa.RecordBatch.from_arrays(_gathered(self.recipe.events, _rows(count, start)), schema=schema)

    def subscriptions(self, count: int, start: int = 0) -> pa.RecordBatch:
        """Subscriptions `start` to `start + count`: subscription (row number), predicate, subscriber, broker."""
        rows = _rows(count, start)
        numbers = column(np.arange(rows.start, rows.stop, dtype=np.int64))
        columns = [numbers, *_gathered(self.recipe.interests, rows)]
        return pa.RecordBatch.from_arrays(columns, schema=SUBSCRIPTION_SCHEMA)

    def publishers(self, count: int, start: int = 0) -> Column:
        """The broker at which each of the events `start` to `start + count` is published."""
        return _gathered(lambda rows: [self.recipe.publishers(rows)], _rows(count, start))[0]


def _rows(count: int, start: int) -> range:
    for name, value in (("count", count), ("start", start)):
        if value < 0:
            raise WorkloadError(f"{name} counts rows from 0, got {value}")
    return range(start, start + count)


def _stretches(rows: range) -> Iterator[range]:
    """At least one, so that no rows still make columns."""
    for at in range(rows.start, max(rows.stop, rows.start + 1), STRETCH_ROWS):
        yield range(at, min(at + STRETCH_ROWS, rows.stop))


def _gathered(make: Callable[[range], Sequence[Column]], rows: range) -> list[Column]:
    pieces = [make(stretch) for stretch in _stretches(rows)]
    columns = []
    for parts in zip(*pieces, strict=True):
        if not pa.types.is_primitive(parts[0].type) and sum(part.nbytes for part in parts) > COLUMN_BYTES:
            raise WorkloadError(
                f"{len(rows):,} rows at once make a column of more than 2 GiB; ask for fewer and go on with start="
            )
        columns.append(pa.concat_arrays(parts))
    return columns
