"""Coding a few events: one by one, in plain Python, which for one event is five times as fast as by columns.

In a simulated network every event travels alone through dozens of trees. Its values are read from Arrow once, whatever the
number of trees (`keys_of` remembers), and each tree finds its codes by bisection in a list.
Rule: the codes are those that `encode` finds by columns; tests/properties/test_search_tree.py compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from contentcast.matching.search_tree.walk import Coded
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.values.keys import KEYED, key_of
from contentcast.model.values.list_bytes import list_column

if TYPE_CHECKING:
    from contentcast.matching.search_tree.part import Part

FEW: Final = 4
REMEMBERED_BATCHES: Final = 4096

Keys = list[list[Any]]
_remembered: dict[int, tuple[EventBatch, Keys]] = {}


def keys_of(batch: EventBatch) -> Keys:
    """For each event what is looked up of each attribute: its order key or its value; None where it is absent."""
    known = _remembered.get(id(batch))
    if known is not None:
        return known[1]
    columns = []
    for kind, column in zip(batch.space.kinds.values(), batch.records.columns, strict=True):
        values = list_column(kind, column).to_pylist()
        if kind.name in KEYED and kind.name != "int":
            values = [None if each is None else key_of(kind, each) for each in values]
        columns.append(values)
    keys = [list(row) for row in zip(*columns, strict=True)]
    if len(_remembered) >= REMEMBERED_BATCHES:
        del _remembered[next(iter(_remembered))]
    _remembered[id(batch)] = (batch, keys)  # the batch is kept, so that its id stays its own
    return keys


def code_few(part: Part, batch: EventBatch) -> Coded:
    places = {name: at for at, name in enumerate(batch.space.names)}
    rows, roots = [], []
    offsets, items = [0], list[int]()
    for keys in keys_of(batch):
        codes = []
        for name, patterns in part.levels:
            key = keys[places[name]]
            if patterns is None:
                codes.append(part.coders[name].code_of(key))
            else:
                codes.append(len(offsets) - 1)
                items.extend(patterns.passed_by(key))
                offsets.append(len(items))
        rows.append(codes)
        tree = 0
        for name in part.factored:
            tree = tree * (part.coders[name].count + 1) + part.coders[name].code_of(keys[places[name]])
        roots.append(part.layout.roots[tree])
    shape = (len(rows), len(part.levels))
    return Coded(
        np.array(roots, part.layout.roots.dtype),
        np.array(rows, np.int32).reshape(shape),
        np.array(offsets),
        np.array(items, np.int32),
    )
