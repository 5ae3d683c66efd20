"""One event at a time, in a few microseconds: from a dict to the numbers that the kernel compares, without Arrow."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from contentcast.matching.index.by_address import match_one
from contentcast.matching.index.codes import ABSENT, ABSENT_KEY, UNKNOWN
from contentcast.model.errors import EventError, nearest
from contentcast.model.keys import KEYED, key_of
from contentcast.model.kinds import INT_GREATEST

if TYPE_CHECKING:
    from contentcast.matching.index.engine import CellIndex

FIRST_ROOM = 512


class SingleMatcher:
    """For an index without text tests."""

    def __init__(self, index: CellIndex) -> None:
        views = index.views()
        kinds = index.space.kinds
        coded, keyed = list(views.code_column), list(views.key_column)
        self._views = views
        self._header = views.header
        self._room = FIRST_ROOM
        self._space = index.space
        self._several = index.store.several_count > 0
        words = index.filing.words
        self._attributes: dict[str, tuple[Any, Any, int, int, dict[Any, int] | None, list[int]]] = {}
        """name -> the values' own type, the kind, word, shift and codes to compare, places of the value as a number."""
        for name, kind in kinds.items():
            dictionary = index.attributes.dictionaries.get(name)
            used = dictionary if dictionary is not None and dictionary.bits else None
            places = [words + coded.index(name)] if name in coded else []
            places += [words + len(coded) + keyed.index(name)] if name in keyed else []
            self._attributes[name] = (
                type(kind.least),
                kind,
                used.word if used is not None else 0,
                used.shift if used is not None else 0,
                used.codes if used is not None else None,
                places,
            )
        floats = [kinds[name].name == "float" for name in (*coded, *keyed)]
        self._pack = struct.Struct("<" + "q" * words + "".join("d" if each else "q" for each in floats)).pack
        self._blank = [0] * words + [float("nan") if each else ABSENT_KEY for each in floats]

    def match(self, event: Mapping[str, Any]) -> list[int]:
        """The ids of one event, ascending."""
        numbers: list[Any] = self._blank.copy()
        attributes = self._attributes
        for name, value in event.items():
            if value is None:
                continue
            found = attributes.get(name)
            if found is None:
                raise EventError(f"{self._space.name} has no attribute {name!r}{nearest(str(name), self._space.names)}")
            exact, kind, word, shift, codes, places = found
            if type(value) is str and exact is str:
                if codes is not None:
                    numbers[word] |= codes.get(value, UNKNOWN) << shift
                continue
            if type(value) is not exact or not (
                value == value if exact is float else exact is int and ABSENT_KEY < value <= INT_GREATEST
            ):
                try:
                    value = kind.check(value)
                except ValueError as reason:
                    raise EventError(f"event 0, attribute {name}: {reason}") from None
            if codes is not None:
                numbers[word] |= codes.get(key_of(kind, value) if kind.name in KEYED else value, UNKNOWN) << shift
            for place in places:
                numbers[place] = value if exact is float else max(key_of(kind, value), ABSENT_KEY + 1)
        packed = np.frombuffer(self._pack(*numbers), np.int64)
        while True:
            out = np.empty(self._room, np.int64)
            count = match_one(self._header, packed, out)
            if count >= 0:
                ids: list[int] = out[:count].tolist()
                if self._several:
                    return sorted(set(ids))
                ids.sort()
                return ids
            self._room *= 2


assert ABSENT == 0  # a blank word says that every attribute is absent
