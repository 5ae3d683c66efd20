"""A few events of a job, for people: what each was, who gets it and why, which way it goes, and who only just does not get it.

Rule: examples are the same for the same events and subscriptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from contentcast.model import EventBatch, Space
from contentcast.network.topology import Topology
from contentcast.spark.delivery.one_pass import EVENT
from contentcast.spark.subscriptions.indexes import Prepared
from contentcast.spark.subscriptions.mapped import Mapped
from contentcast.spark.subscriptions.tables import ID, TEXT

LOOKED_AT: Final = 400
QUANTILES: Final = (0.02, 0.5, 0.98)
GETTERS: Final = 4
TRIED_FOR_A_MISS: Final = 200


@dataclass(frozen=True)
class Getter:
    subscription: int | str
    subscriber: str
    broker: str
    predicate: str
    way: list[str]
    """The brokers from where the event enters to where the subscriber is."""


@dataclass(frozen=True)
class Miss:
    subscriber: str
    predicate: str
    failed: str
    value: Any


@dataclass(frozen=True)
class Example:
    number: int
    event: dict[str, Any]
    publisher: str | None
    matches: int
    getters: list[Getter]
    miss: Miss | None


def examples(
    events: DataFrame,
    prepared: Prepared,
    subscriptions: pa.Table,
    space: Space,
    publisher: str | None,
    topology: Topology | None,
) -> list[Example]:
    """Events that few, some and many want, among the first ones."""
    table = events.limit(LOOKED_AT).toArrow()
    mapped = prepared.open()
    rows, which = mapped.found_at_once(table)
    wanted, counts = np.unique(rows, return_counts=True)
    if not len(wanted):
        return []
    order = wanted[np.lexsort((wanted, counts))]
    chosen = dict.fromkeys(order[int(share * (len(order) - 1))] for share in QUANTILES)
    texts = _Texts(prepared, subscriptions)
    dicts = EventBatch.from_arrow(space, table.take(pa.array(list(chosen))), unknown="ignore").to_dicts()
    made = []
    for row, event in zip(chosen, dicts, strict=True):
        entered = table[publisher][int(row)].as_py() if publisher is not None else None
        mine = np.sort(which[rows == row])
        getters = [texts.getter(each, entered, topology) for each in mine[:: max(1, len(mine) // GETTERS)][:GETTERS].tolist()]
        made.append(
            Example(
                table[EVENT][int(row)].as_py(),
                event,
                entered,
                len(mine),
                getters,
                _miss(mapped, event, set(mine.tolist()), texts),
            )
        )
    return made


class _Texts:
    """What stands behind a row of the index."""

    def __init__(self, prepared: Prepared, subscriptions: pa.Table) -> None:
        self._mapped = prepared.open()
        self._names = prepared.added.names
        ids = subscriptions[ID].to_pylist()
        self._predicates = dict(zip(ids, subscriptions[TEXT].to_pylist(), strict=True))

    def _column(self, name: str, row: int) -> Any:
        return self._mapped.column(name, pa.array([row]))[0].as_py() if name in self._names else ""

    def subscriber(self, row: int) -> str:
        return str(self._column("subscriber", row) or f"subscription {self._column(ID, row)}")

    def predicate(self, row: int) -> str:
        return str(self._predicates[self._column(ID, row)])

    def naming(self, values: list[str]) -> list[int]:
        """Rows of subscriptions, those first whose predicates name the most of these values: they come nearest to a match."""
        rows = range(self._mapped.rows)
        quoted = [f"'{value}'" for value in values]
        ids = self._mapped.column(ID, pa.array(rows)).to_pylist()
        named = [sum(value in self._predicates[each] for value in quoted) for each in ids]
        return sorted(rows, key=lambda row: -named[row])[:TRIED_FOR_A_MISS]

    def getter(self, row: int, entered: str | None, topology: Topology | None) -> Getter:
        broker = str(self._column("broker", row) or "")
        way = topology.path(entered, broker) if topology is not None and entered is not None else []
        return Getter(self._column(ID, row), self.subscriber(row), broker, self.predicate(row), way)


def _miss(mapped: Mapped, event: dict[str, Any], getters: set[int], texts: _Texts) -> Miss | None:
    """Somebody for whom one test fails, of as many as possible that hold."""
    best: tuple[int, Miss] | None = None
    for row in texts.naming([value for value in event.values() if isinstance(value, str)]):
        index = mapped.holding(row) if row not in getters else None
        if index is None:
            continue
        why = index.explain(event, row)
        if len(why["failed"]) != 1:
            continue
        tests = str(why["predicate"]).count(" AND ")
        if best is None or tests > best[0]:
            failed = why["failed"][0]
            best = tests, Miss(texts.subscriber(row), texts.predicate(row), failed["test"], failed["value"])
    return best[1] if best else None
