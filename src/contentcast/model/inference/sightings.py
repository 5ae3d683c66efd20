"""What was seen of each field in a sample of events: which kinds of value, how often, and a few examples.

    {"id": 7, "user": {"tags": ["a"]}}      id: 1 int        user: 1 object        user.tags: 1 list, of 1 string

Rule: nothing is decided here; `infer` does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np

from contentcast.model.events.intake import DEFAULT, Intake, read_instant
from contentcast.model.events.rows import DEEPEST
from contentcast.model.values.kinds import INT_GREATEST, INT_LEAST

EXAMPLES: Final = 3
LONGEST_EXAMPLE: Final = 24
MOST_FIELDS: Final = 2_000
"""Beyond so many different fields nothing new is looked at: names that are data, as in a map from users to counts."""
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d{8}T\d{4}", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_ROUND: Final = Intake(finer="round")


@dataclass
class Sighting:
    """One field: `kinds` counts its values, `elements` those inside of its lists, `inside_lists` those in lists of objects."""

    kinds: Counter[str] = field(default_factory=Counter)
    elements: Counter[str] = field(default_factory=Counter)
    examples: list[Any] = field(default_factory=list)
    inside_lists: int = 0
    finer: int = 0
    """Timestamps that are finer than a microsecond."""
    declared: str | None = None
    """The kind that a schema says."""
    why_not: str | None = None
    """Why a schema's type is none of ours."""

    def show(self, value: Any) -> None:
        if len(self.examples) < EXAMPLES and value not in self.examples:
            self.examples.append(value)


@dataclass
class Sightings:
    fields: dict[str, Sighting] = field(default_factory=dict)
    events: int = 0
    no_events: int = 0
    overflowed: bool = False

    def of(self, name: str) -> Sighting | None:
        found = self.fields.get(name)
        if found is None:
            if len(self.fields) >= MOST_FIELDS:
                self.overflowed = True
                return None
            found = self.fields[name] = Sighting()
        return found

    def see(self, event: Any) -> None:
        if not isinstance(event, Mapping):
            self.no_events += 1
            return
        self.events += 1
        self._members(event, "", 1)

    def _members(self, members: Mapping[Any, Any], above: str, depth: int, in_list: bool = False) -> None:
        for key, value in members.items():
            name = f"{above}{key}"
            sighting = self.of(name)
            if sighting is None:
                continue
            if isinstance(value, Mapping):
                sighting.kinds["object"] += 1
                if depth < DEEPEST:
                    self._members(value, f"{name}.", depth + 1, in_list)
            elif isinstance(value, (list, tuple, np.ndarray)):
                self._list(sighting, name, value, depth, in_list)
            elif in_list:
                sighting.inside_lists += 1
                sighting.elements[_kind(value, sighting)] += 1
            else:
                sighting.kinds[_kind(value, sighting)] += 1

    def _list(self, sighting: Sighting, name: str, values: Iterable[Any], depth: int, in_list: bool) -> None:
        sighting.kinds["list of lists" if in_list else "list"] += 1
        for each in values:
            if isinstance(each, Mapping):
                sighting.elements["object"] += 1
                if depth < DEEPEST:
                    self._members(each, f"{name}.", depth + 1, in_list=True)
            elif isinstance(each, (list, tuple, np.ndarray)):
                sighting.elements["list"] += 1
            else:
                sighting.elements[_kind(each, sighting)] += 1


def _kind(value: Any, sighting: Sighting) -> str:
    if value is None or value != value:  # NaN and NaT
        return "null"
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, np.integer)):
        sighting.show(int(value))
        return "int" if INT_LEAST <= value <= INT_GREATEST else "int beyond 64 bits"
    if isinstance(value, (float, np.floating)):
        sighting.show(float(value))
        return "whole float" if float(value).is_integer() else "float"
    if isinstance(value, str):
        if len(value) <= LONGEST_EXAMPLE:
            sighting.show(value)
        return _text_kind(value, sighting)
    if isinstance(value, datetime):
        return "timestamp"
    return "bytes" if isinstance(value, (bytes, bytearray)) else f"Python {type(value).__name__}"


def _text_kind(value: str, sighting: Sighting) -> str:
    """A text that begins with a date and a time is a timestamp if it can be read as one."""
    if not _STAMP.match(value):
        return "date" if _DATE.fullmatch(value) else "string"
    try:
        read_instant(value, _ROUND)
    except ValueError:
        return "string"
    try:
        read_instant(value, DEFAULT)
    except ValueError:
        sighting.finer += 1
    return "timestamp"


def read_text(text: str) -> Any:
    """A field of CSV as the value that it may be."""
    if text == "":
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int, float):
        try:
            if "_" not in text:
                return read(text)
        except (ValueError, OverflowError):
            continue
    return text
