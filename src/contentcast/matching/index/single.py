"""One event at a time, in a few microseconds.

A kernel call costs Python about as much for each array it is given as matching one event does, so here the arrays are handed
over once: their addresses and shapes stand in one array, the header, and a call takes that, the event's numbers and room for
the ids.
Rule: a header is good until the index changes; `SingleMatcher` keeps the arrays alive whose addresses it holds.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from contentcast.matching.index.codes import ABSENT, ABSENT_KEY, UNKNOWN
from contentcast.matching.index.single_kernel import match_one
from contentcast.model.errors import EventError, nearest
from contentcast.model.keys import KEYED, key_of

if TYPE_CHECKING:
    from contentcast.matching.index.engine import CellIndex

FIRST_ROOM = 512


class SingleMatcher:
    """For an index without text tests."""

    def __init__(self, index: CellIndex) -> None:
        groups, cells, key_column, _, largest = index._all_views()
        kinds = index.space.kinds
        grids = [index.filing.grids.get(name) for name in key_column]
        self._alive = (groups, cells, grids)
        arrays = [*groups, *cells, *(np.zeros(0, np.int64) if grid is None else grid for grid in grids)]
        numbers = [largest, index.filing.words, len(key_column)]
        numbers += [int(kinds[name].name == "float") + 2 * (name in index.filing.grids) for name in key_column]
        for array in arrays:
            numbers += [array.ctypes.data, array.shape[0], array.shape[1] if array.ndim > 1 else 1]
        self._header = np.array(numbers, np.int64)
        self._words = index.filing.words
        self._room = FIRST_ROOM
        self._space = index.space
        self._several = index.store.several_count > 0
        # name -> (type, check, (word, shift, codes) or None, key column or -1)
        self._attributes: dict[str, tuple[type, Any, Any, int, bool]] = {}
        for name, kind in kinds.items():
            dictionary = index.attributes.dictionaries.get(name)
            coded = (
                (dictionary.word, dictionary.shift, dictionary.codes) if dictionary is not None and dictionary.bits else None
            )
            exact = type(kind.least)
            self._attributes[name] = exact, kind, coded, key_column.get(name, -1), kind.name in KEYED
        codes = "q" * index.filing.words
        self._pack = struct.Struct(
            "<" + codes + "".join("d" if kinds[name].name == "float" else "q" for name in key_column)
        ).pack
        self._blank = [0] * index.filing.words + [
            float("nan") if kinds[name].name == "float" else ABSENT_KEY for name in key_column
        ]

    def match(self, event: Mapping[str, Any]) -> list[int]:
        """The ids of one event, ascending."""
        numbers = self._blank.copy()
        attributes, words = self._attributes, self._words
        for name, value in event.items():
            if value is None:
                continue
            try:
                exact, kind, coded, column, keyed = attributes[name]
            except KeyError:
                raise EventError(
                    f"{self._space.name} has no attribute {name!r}{nearest(str(name), self._space.names)}"
                ) from None
            if type(value) is not exact or exact is not str:
                try:
                    value = kind.check(value)
                except ValueError as reason:
                    raise EventError(f"event 0, attribute {name}: {reason}") from None
            if coded is not None:
                word, shift, codes = coded
                numbers[word] |= codes.get(key_of(kind, value) if keyed else value, UNKNOWN) << shift
            if column >= 0:
                numbers[words + column] = value if kind.name == "float" else max(key_of(kind, value), ABSENT_KEY + 1)
        packed = np.frombuffer(self._pack(*numbers), np.int64)
        while True:
            out = np.empty(self._room, np.int64)
            found = match_one(self._header, packed, out)
            if found >= 0:
                ids: list[int] = out[:found].tolist()
                return sorted(set(ids)) if self._several else sorted(ids)
            self._room *= 2


assert ABSENT == 0  # a blank word says that every attribute is absent
