"""One event at a time, in a few microseconds: from a dict to the numbers that the kernel compares, without Arrow."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from contentcast.matching.index.by_address import ONE_NUMBERS, match_one
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
        self._room = FIRST_ROOM
        self._idle: list[_Scratch] = []
        self._space = index.space
        self._several = index.store.several_count > 0
        words = index.filing.words
        self._texts: dict[str, tuple[dict[Any, int], int, int] | None] = {}
        """Of each text attribute codes, word and shift, or None if no subscription compares it."""
        self._floats: dict[str, int] = {}
        self._ints: dict[str, int] = {}
        """Of each float and int attribute that is not compared for equality its place."""
        self._others: dict[str, tuple[Any, Any, int, int, dict[Any, int] | None, list[int]]] = {}
        """Of all: the values' own type, the kind, word, shift and codes to compare, places of the value as a number."""
        for name, kind in kinds.items():
            dictionary = index.attributes.dictionaries.get(name)
            used = dictionary if dictionary is not None and dictionary.bits else None
            word, shift = (used.word, used.shift) if used is not None else (0, 0)
            codes = used.codes if used is not None else None
            if kind.name == "string":
                self._texts[name] = None if codes is None else (codes, word, shift)
            places = [words + coded.index(name)] if name in coded else []
            places += [words + len(coded) + keyed.index(name)] if name in keyed else []
            if kind.name in ("float", "int") and codes is None and len(places) == 1:
                (self._floats if kind.name == "float" else self._ints)[name] = places[0]
            self._others[name] = type(kind.least), kind, word, shift, codes, places
        floats = [kinds[name].name == "float" for name in (*coded, *keyed)]
        self._pack_into = struct.Struct("<" + "q" * words + "".join("d" if each else "q" for each in floats)).pack_into
        self._blank = [0] * words + [float("nan") if each else ABSENT_KEY for each in floats]

    def match(self, event: Mapping[str, Any]) -> list[int]:
        """The ids of one event, ascending."""
        numbers: list[Any] = self._blank.copy()
        texts, floats, ints = self._texts, self._floats, self._ints
        for name, value in event.items():
            sort = type(value)
            if sort is str:
                compared = texts.get(name, _NO_TEXT)
                if compared is None:
                    continue
                codes, word, shift = compared
                if codes is not None:
                    numbers[word] |= codes.get(value, UNKNOWN) << shift
                    continue
            elif sort is float:
                place = floats.get(name)
                if place is not None and value == value:
                    numbers[place] = value
                    continue
            elif sort is int:
                place = ints.get(name)
                if place is not None and ABSENT_KEY < value <= INT_GREATEST:
                    numbers[place] = value
                    continue
            if value is None:
                continue
            found = self._others.get(name)
            if found is None:
                raise EventError(f"{self._space.name} has no attribute {name!r}{nearest(str(name), self._space.names)}")
            exact, kind, word, shift, coded, places = found
            if type(value) is not exact or not (
                value == value if exact is float else exact is int and ABSENT_KEY < value <= INT_GREATEST
            ):
                try:
                    value = kind.check(value)
                except ValueError as reason:
                    raise EventError(f"event 0, attribute {name}: {reason}") from None
            if coded is not None:
                numbers[word] |= coded.get(key_of(kind, value) if kind.name in KEYED else value, UNKNOWN) << shift
            for place in places:
                numbers[place] = value if exact is float else max(key_of(kind, value), ABSENT_KEY + 1)
        while True:
            try:
                scratch = self._idle.pop()
            except IndexError:
                scratch = _Scratch(self._views.header, len(numbers), self._room)
            self._pack_into(scratch.bytes, 8 * ONE_NUMBERS, *numbers)
            count = match_one(scratch.address)
            if count >= 0:
                ids: list[int] = scratch.out[:count].tolist()
                self._idle.append(scratch)
                return sorted(set(ids)) if self._several else ids
            self._room = 2 * len(scratch.out)


_NO_TEXT: tuple[None, int, int] = None, 0, 0
"""Of an attribute that is no text."""


class _Scratch:
    """What one call writes to; a thread takes one and puts it back."""

    __slots__ = ("address", "bytes", "out")

    def __init__(self, header: Any, count: int, room: int) -> None:
        self.bytes, self.out = bytearray(8 * (ONE_NUMBERS + count)), np.empty(room, np.int64)
        given = np.frombuffer(self.bytes, np.int64)
        given[:ONE_NUMBERS] = _address(header), _address(self.out), room
        self.address = _address(given)


def _address(array: Any) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


assert ABSENT == 0  # a blank word says that every attribute is absent
