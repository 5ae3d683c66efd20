"""One event at a time, in a few microseconds: from a dict to the numbers that the kernel compares, without Arrow."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Final, Literal, overload

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.limits import Limits
from contentcast.matching.index.matching.kernel_call import ONE_NUMBERS, Texts, match_one, struct_addresses
from contentcast.matching.index.matching.views import Views
from contentcast.matching.index.values.dictionaries import ABSENT, ABSENT_KEY, UNKNOWN
from contentcast.matching.index.values.text_answers import Answers
from contentcast.model.errors import EventError, nearest
from contentcast.model.space import Attribute
from contentcast.model.values.keys import KEYED, key_of
from contentcast.model.values.kinds import INT_GREATEST, Value
from contentcast.model.values.list_bytes import list_value

FIRST_CAPACITY: Final = 512
"""Ids that a call has room for at first."""


class Places:
    """Where each value of an event goes among the numbers that the kernel gets, and what it must be like.

    It stays while subscriptions come and go, as long as they compare the same attributes (`signature`).
    """

    def __init__(self, views: Views, signature: tuple[Any, ...]) -> None:
        attributes, kinds = views.filing.attributes, views.filing.attributes.space.kinds
        coded, keyed, texts = (list(each) for each in views.columns)
        words = views.filing.plan.words
        self.signature = signature
        self.texts: dict[str, tuple[dict[Any, int] | None, int, int, Any]] = {}
        """Texts without text tests: codes (None if no subscription compares it), word, shift, and the values that are allowed
        (None if all are).
        """
        self.floats: dict[str, tuple[int, float, float]] = {}
        self.ints: dict[str, tuple[int, int, int]] = {}
        """Numbers that are not compared for equality: their place, and the bounds of their domain."""
        self.others: dict[str, tuple[Any, Any, int, int, dict[Any, int] | None, list[int], int, Any, Any, Any]] = {}
        """All attributes: the values' own type, the kind, word, shift and codes to compare, places of the value as a number,
        the column of its text tests or -1, the bounds of its domain or None, and the values that are allowed or None.
        """
        for name, kind in kinds.items():
            dictionary = attributes.dictionaries.get(name)
            used = dictionary if dictionary is not None and dictionary.bits else None
            word, shift = (used.word, used.shift) if used is not None else (0, 0)
            codes = used.codes if used is not None else None
            column = views.columns.texts.get(name, -1)
            low, high, allowed = _domain(attributes.space[name])
            if kind.name == "string" and column < 0:
                self.texts[name] = codes, word, shift, allowed
            places = [words + coded.index(name)] if name in coded else []
            places += [words + len(coded) + keyed.index(name)] if name in keyed else []
            if codes is None and len(places) == 1 and allowed is None:
                if kind.name == "float":
                    self.floats[name] = places[0], -inf if low is None else low, inf if high is None else high
                elif kind.name == "int":
                    least = ABSENT_KEY + 1 if low is None else max(low, ABSENT_KEY + 1)
                    self.ints[name] = places[0], least, INT_GREATEST if high is None else high
            self.others[name] = type(kind.least), kind, word, shift, codes, places, column, low, high, allowed
        floats = [kinds[name].name == "float" for name in (*coded, *keyed)]
        formats = "q" * words + "".join("d" if each else "q" for each in floats) + "q" * len(texts)
        self.pack_into = struct.Struct("<" + formats).pack_into
        self.blank = [0] * words + [float("nan") if each else ABSENT_KEY for each in floats] + [-1] * len(texts)
        self.text_place = words + len(floats)

    @classmethod
    def of(cls, views: Views, before: Places | None) -> Places:
        dictionaries = views.filing.attributes.dictionaries
        bits = [(each.word, each.shift, each.bits) for each in dictionaries.values()]
        signature = views.filing, bits, views.columns
        return before if before is not None and before.signature == signature else cls(views, signature)


class SingleMatcher:
    """Good until the index changes. `before`: the one that was, from which it takes what has not changed."""

    def __init__(
        self, views: Views, guard: AbstractContextManager[Any], limits: Limits, before: SingleMatcher | None = None
    ) -> None:
        attributes = views.filing.attributes
        self._views = views
        self._capacity = FIRST_CAPACITY
        self._limits = limits
        self._idle: list[_Scratch] = []
        self._space = attributes.space
        self._guard = guard
        self._text_indexes = attributes.texts
        self._answers = attributes.answers
        self._several = views.filing.store.several_count > 0
        places = Places.of(views, None if before is None else before._places)
        self._places: Places = places
        self._texts, self._floats, self._ints, self._others = places.texts, places.floats, places.ints, places.others
        self._pack_into, self._blank, self._text_place = places.pack_into, places.blank, places.text_place
        with guard:
            for each in attributes.texts.values():
                each.catch_up()
            same = before is not None and before._places is places and before._known.age == self._answers.age
            rows = before._known.rows if before is not None and same else [{} for _ in views.columns.texts]
            self._known: _Known = _Known(self._answers, rows)
        if before is not None and before._places is places:
            self._idle = before._idle
            for scratch in self._idle:
                scratch.given[0] = views.header_at

    @overload
    def match(self, event: Mapping[str, Any]) -> list[int]: ...
    @overload
    def match(self, event: Mapping[str, Any], *, as_array: Literal[True]) -> npt.NDArray[np.int64]: ...

    def match(self, event: Mapping[str, Any], *, as_array: bool = False) -> Any:
        """The ids of one event, ascending, as a list or as an array."""
        numbers: list[Any] = self._blank.copy()
        known = self._known
        texts, floats, ints = self._texts, self._floats, self._ints
        for name, value in event.items():
            sort = type(value)
            if sort is str:
                compared = texts.get(name)
                if compared is not None:
                    codes, word, shift, allowed = compared
                    if allowed is None or value in allowed:
                        if codes is not None:
                            numbers[word] |= codes.get(value, UNKNOWN) << shift
                        continue
            elif sort is float:
                bounds = floats.get(name)
                if bounds is not None and bounds[1] <= value <= bounds[2]:  # not NaN
                    numbers[bounds[0]] = value
                    continue
            elif sort is int:
                bounds = ints.get(name)
                if bounds is not None and bounds[1] <= value <= bounds[2]:
                    numbers[bounds[0]] = value
                    continue
            if value is None:
                continue
            found = self._others.get(name)
            if found is None:
                raise EventError(f"{self._space.name} has no attribute {name!r}{nearest(str(name), self._space.names)}")
            exact, kind, word, shift, coded, places, column, low, high, allowed = found
            if type(value) is not exact or not (
                value == value if exact is float else exact is int and ABSENT_KEY < value <= INT_GREATEST
            ):
                try:
                    value = kind.check(value)
                except ValueError as reason:
                    raise EventError(f"event 0, attribute {name}: {reason}") from None
                if kind.element is not None:
                    value = list_value(kind, value)
            if (low is not None and not low <= value <= high) or (allowed is not None and value not in allowed):
                raise EventError(f"event 0, attribute {name}: {value!r} is outside its domain")
            if coded is not None:
                numbers[word] |= coded.get(key_of(kind, value) if kind.name in KEYED else value, UNKNOWN) << shift
            for place in places:
                numbers[place] = value if exact is float else max(key_of(kind, value), ABSENT_KEY + 1)
            if column >= 0:
                row = known.rows[column].get(value)
                if row is None or row >= known.count:
                    self._learn(name, column, value)
                    return self.match(event, as_array=True) if as_array else self.match(event)
                numbers[self._text_place + column] = row
        while True:
            try:
                scratch = self._idle.pop()
            except IndexError:
                scratch = _Scratch(self._views.header_at, len(numbers), self._capacity)
            if scratch.known is not known:
                scratch.known, scratch.given[3] = known, known.address
            self._pack_into(scratch.bytes, 8 * ONE_NUMBERS, *numbers)
            count = match_one(scratch.address)
            if count >= 0:
                if as_array:
                    copied = scratch.out[:count].copy()
                    self._idle.append(scratch)
                    return np.unique(copied) if self._several else copied
                ids: list[int] = scratch.out[:count].tolist()
                self._idle.append(scratch)
                return sorted(set(ids)) if self._several else ids
            self._capacity = 2 * len(scratch.out)

    def _learn(self, name: str, column: int, value: Value) -> None:
        """Which text constraints a value satisfies that was not asked for before."""
        with self._guard:
            answers, known = self._answers, self._known
            if answers.count > self._limits.most_remembered:
                answers.forget()
            for each in self._text_indexes.values():
                each.catch_up()
            row = self._text_indexes[name].row_of(value)
            rows = known.rows if known.age == answers.age else [{} for _ in known.rows]
            rows[column][value] = row
            self._known = _Known(answers, rows)


class _Known:
    """The answers to text constraints as they stand now, by address, and their rows by value.

    The rows are shared with those of the same age that follow, so there may be some that these answers do not have: from
    `count` on.
    """

    def __init__(self, answers: Answers, rows: list[dict[Value, int]]) -> None:
        self.age, self.count, self.rows = answers.age, answers.count, rows
        most = np.array([answers.most], np.int64)
        self._texts = Texts(answers.holds_start, answers.fails_start, answers.holds, answers.fails, most)
        self._header = np.array([*struct_addresses(self._texts), len(rows)], np.int64)
        self.address = _address(self._header)


def _domain(attribute: Attribute) -> tuple[Any, Any, Any]:
    """The bounds of a domain, or None, and what holds the values that are allowed, or None."""
    if attribute.values is not None:
        return None, None, frozenset(attribute.values)
    if attribute.has_domain and attribute.kind in ("int", "float"):
        low, high = (-(2**63), INT_GREATEST) if attribute.kind == "int" else (-inf, inf)
        return low if attribute.low is None else attribute.low, high if attribute.high is None else attribute.high, None
    return None, None, attribute.domain if attribute.has_domain else None


class _Scratch:
    """What one call writes to; a thread takes one and puts it back."""

    __slots__ = ("address", "bytes", "given", "known", "out")

    def __init__(self, header_at: int, count: int, room: int) -> None:
        self.bytes, self.out = bytearray(8 * (ONE_NUMBERS + count)), np.empty(room, np.int64)
        self.known: _Known | None = None
        self.given = memoryview(self.bytes).cast("q")
        self.address = _address(np.frombuffer(self.bytes, np.int64))
        self.given[0], self.given[1], self.given[2] = header_at, _address(self.out), room


def _address(array: Any) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


assert ABSENT == 0  # a blank word says that every attribute is absent
