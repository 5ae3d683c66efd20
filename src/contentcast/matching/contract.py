"""What every matching engine answers: the oracle (`scan`), the search tree, and the index behind `MatchIndex`.

    engine.add_many(ids, table)      engine.remove(7)      len(engine)
    engine.match(event)              [1, 4]                            one event, a dict: ids ascending
    engine.match_pairs(events)       rows [0, 0, 1]  ids [1, 4, 4]     a batch: event rows[i] satisfies subscription ids[i]

Rule: rows ascend. The ids of one event stand in any order, each once. What else an engine can say (the steps of a search, the
links behind which somebody wants an event) is its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from contentcast.model.events.event_batch import EventBatch
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space

Ints = npt.NDArray[np.int64]


class Pairs(NamedTuple):
    """Event `rows[i]` of the batch satisfies subscription `ids[i]`."""

    rows: Ints
    ids: Ints


class Engine(Protocol):
    """Subscriptions of one space, by id. Ids are 0 or more and below 2^62."""

    space: Space

    def add(self, subscription: int, predicate: Predicate, /) -> None: ...

    def add_many(self, ids: Ints, table: PredicateTable, /) -> Any: ...

    def remove(self, subscription: int, /) -> None: ...

    def __len__(self) -> int: ...

    def match(self, event: Mapping[str, Any], /) -> list[int]: ...

    def match_pairs(self, events: EventBatch, /) -> Pairs: ...

    def sizes(self) -> dict[str, int]:
        """How much it keeps, by name: "subscriptions", "bytes", and what it has besides."""
        ...
