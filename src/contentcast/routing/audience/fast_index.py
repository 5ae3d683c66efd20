"""The index as routers use it: matches as plain arrays, and the fastest way for batches of every size.

    match_rows(events)     offsets [0, 2, 3]   ids [1, 4, 4]     event 0 satisfies 1 and 4, event 1 satisfies 4

Rule: this file alone says how a router calls the index.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.match_index import MatchIndex
from contentcast.matching.contract import Pairs
from contentcast.model import EventBatch
from contentcast.model.errors import EventError

Ints = npt.NDArray[np.int64]

FEW: Final = 24
"""Up to so many events go one by one as dicts: a batch by columns costs as much as about thirty of them."""
_NOBODY: Final = np.empty(0, np.int64)


class FastIndex(MatchIndex):
    """A `matching.contract.Engine`."""

    def match_rows(self, events: EventBatch) -> tuple[Ints, Ints]:
        """The ids of event e stand from offsets[e] to offsets[e + 1]."""
        if not len(self):
            return np.zeros(len(events) + 1, np.int64), _NOBODY
        if events.space is not self.space and events.space != self.space:
            raise EventError(f"a batch of the space {events.space.name} does not fit an index over {self.space.name}")
        count = len(events)
        if count > FEW:
            lists = self.match_lists(events)
            return lists.offsets.to_numpy(), lists.values.to_numpy()
        names, columns = self.space.names, [each.to_pylist() for each in events.records.columns]
        offsets = np.zeros(count + 1, np.int64)
        if count == 1:
            ids = self.match_ids({name: values[0] for name, values in zip(names, columns, strict=True)})
            offsets[1] = len(ids)
            return offsets, ids
        found = [self.match_ids(dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
        np.cumsum([len(each) for each in found], out=offsets[1:])
        return offsets, np.concatenate(found) if found else _NOBODY

    def match_pairs(self, events: EventBatch) -> Pairs:
        offsets, ids = self.match_rows(events)
        return Pairs(np.repeat(np.arange(len(events)), np.diff(offsets)), ids)

    def sizes(self) -> dict[str, int]:
        found = self.statistics()
        return {"subscriptions": len(self), "cells": int(found["cells"]), "bytes": int(found["bytes"])}
