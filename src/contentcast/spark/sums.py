"""What learning counts, by columns: partial sums of a task's events, and how two of them become one.

    task 1   events 9,000    symbol: IBM 40, SAP 12, ...            sample of 2,000
    task 2   events 8,500    symbol: IBM 35, XKT 20, ...            sample of 2,000
    joined   events 17,500   symbol: IBM 75, XKT 20, SAP 12, ...    sample of 2,000

Rule: a sum stays small whatever the number of events: at most VALUES_COUNTED values of an attribute, one sample, and one number
for each subscription and each pair of brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model import EventBatch, Space

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

VALUES_COUNTED: Final = 4_096
"""Beyond so many the rarest are dropped; the count of one that grows frequent later lacks what it had before."""
CELLS_AT_MOST: Final = 1 << 21
FAN_OUT_BOUNDS: Final = (0, *(1 << power for power in range(31)))


@dataclass
class ValueCounts:
    """How often each value of one attribute came."""

    present: int = 0
    counts: dict[Any, int] = field(default_factory=dict)
    complete: bool = True

    def add(self, column: pa.Array) -> None:
        self.present += len(column) - column.null_count
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            self.complete = False  # whole lists seldom come again; nothing is learnt of their values
            return
        counted = column.drop_null().value_counts()
        for value, count in zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True):
            self.counts[value] = self.counts.get(value, 0) + count
        self._drop_rare(2 * VALUES_COUNTED)

    def join(self, other: ValueCounts) -> None:
        self.present += other.present
        self.complete &= other.complete
        for value, count in other.counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        self._drop_rare(VALUES_COUNTED)

    def _drop_rare(self, most: int) -> None:
        if len(self.counts) > most:
            self.counts = dict(self.most_frequent(VALUES_COUNTED))
            self.complete = False

    def most_frequent(self, most: int) -> list[tuple[Any, int]]:
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:most]


class EventSums:
    """The first look at events: how many, which values, and a sample of them.

    The sample has the rows with the least of evenly drawn numbers, so samples of tasks join to a sample of all.
    """

    def __init__(self, space: Space, rows: int, seed: int) -> None:
        self.space, self.rows = space, rows
        self.events = 0
        self.values = {name: ValueCounts() for name in space.names}
        self.sample = pa.RecordBatch.from_pylist([], schema=space.arrow_schema)
        self.drawn: Floats = np.empty(0)
        self._dice = np.random.default_rng(seed)

    def add(self, batch: EventBatch) -> None:
        self.events += len(batch)
        for name, counts in self.values.items():
            counts.add(batch.records.column(name))
        self._take(batch.records, self._dice.random(len(batch)))

    def join(self, other: EventSums) -> EventSums:
        self.events += other.events
        for name, counts in self.values.items():
            counts.join(other.values[name])
        self._take(other.sample, other.drawn)
        return self

    def _take(self, records: pa.RecordBatch, drawn: Floats) -> None:
        if len(self.drawn) >= self.rows:
            kept = np.flatnonzero(drawn < self.drawn.max())
            records, drawn = records.take(pa.array(kept)), drawn[kept]
        both = pa.concat_batches([self.sample, records])
        numbers = np.concatenate([self.drawn, drawn])
        chosen = np.sort(np.argsort(numbers, kind="stable")[: self.rows])
        self.sample, self.drawn = both.take(pa.array(chosen)), numbers[chosen]


class MatchSums:
    """The second look: who wanted the events. `broker_of[subscription]` is a number below `brokers`, or nothing is told."""

    def __init__(self, subscriptions: int, brokers: int, values: Sequence[Any]) -> None:
        self.events = 0
        self.matched: Ints = np.zeros(subscriptions, np.int64)
        self.fan_out: Ints = np.zeros(len(FAN_OUT_BOUNDS) + 1, np.int64)
        self.wanted: Ints = np.zeros(brokers, np.int64)
        self.by_value: Ints = np.zeros((len(values) + 1, brokers), np.int64)
        self.of_value: Ints = np.zeros(len(values) + 1, np.int64)
        self.by_publisher: dict[str, Ints] = {}
        self.of_publisher: dict[str, int] = {}

    def add(
        self, count: int, pairs: tuple[Ints, Ints], broker_of: Ints | None, codes: Ints, publishers: pa.Array | None
    ) -> None:
        """`pairs`: events, ascending, and subscriptions. `codes`: which of the values an event has; the last for any other."""
        events, subscriptions = pairs
        self.events += count
        self.matched += np.bincount(subscriptions, minlength=len(self.matched))
        counts = np.bincount(events, minlength=count)
        self.fan_out += np.bincount(np.searchsorted(FAN_OUT_BOUNDS, counts), minlength=len(self.fan_out))
        if broker_of is None:
            return
        self.of_value += np.bincount(codes, minlength=len(self.of_value))
        names, numbers = _numbered(publishers)
        for number, name in enumerate(names):
            self.of_publisher[name] = self.of_publisher.get(name, 0) + int(np.count_nonzero(numbers == number))
        for first, wanted in _wanted(events, broker_of[subscriptions], count, len(self.wanted)):
            stretch = slice(first, first + len(wanted))
            self.wanted += wanted.sum(axis=0)
            np.add.at(self.by_value, codes[stretch], wanted)
            for number, name in enumerate(names):
                found = wanted[numbers[stretch] == number].sum(axis=0)
                self.by_publisher[name] = self.by_publisher.get(name, 0) + found

    def join(self, other: MatchSums) -> MatchSums:
        self.events += other.events
        for name in ("matched", "fan_out", "wanted", "by_value", "of_value"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for publisher, found in other.by_publisher.items():
            self.by_publisher[publisher] = self.by_publisher.get(publisher, 0) + found
        for publisher, count in other.of_publisher.items():
            self.of_publisher[publisher] = self.of_publisher.get(publisher, 0) + count
        return self


def _numbered(names: pa.Array | None) -> tuple[list[str], Ints]:
    """The different names, and which of them each row has; -1 for none."""
    if names is None:
        return [], np.empty(0, np.int64)
    encoded = names.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _wanted(events: Ints, brokers: Ints, count: int, width: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """For a stretch of events at a time, 1 where somebody at the broker wants the event; `events` ascend."""
    rows = max(1, CELLS_AT_MOST // max(width, 1))
    for first in range(0, count, rows):
        begin, end = np.searchsorted(events, [first, first + rows])
        wanted = np.zeros((min(rows, count - first), width), np.int64)
        wanted[events[begin:end] - first, brokers[begin:end]] = 1
        yield first, wanted


def value_codes(column: pa.Array, values: Sequence[Any]) -> Ints:
    """Which of the values each row has; one more than there are for any other, and for none."""
    found = pc.index_in(column, value_set=pa.array(values, column.type), skip_nulls=True)
    codes: Ints = found.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
