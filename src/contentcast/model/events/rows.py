"""One event after the other, as dicts: flattened, checked against the space, and named if it does not fit.

Rule: an event comes out as a flat dict of checked values or as a `Rejection`; whether that is an error is decided by who asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contentcast.model.errors import nearest
from contentcast.model.events.intake import DEFAULT, Intake, Take, Unreadable, take_of
from contentcast.model.space import Space
from contentcast.model.values.kinds import Value, WrongKind
from contentcast.model.values.ranges import Ranges

DEEPEST: Final = 32
"""How deep objects may stand in an event; each level is one more dot in the attribute's name."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """One event that was set aside, or one attribute of it that was left out, with the reason.

    `event`: its number. Events are numbered from 0 in the order in which they came, those included that do not fit.
    """

    event: int
    attribute: str | None
    value: Any
    reason: str
    line: int | None = None
    """Where it stands in a text file; the first line is 1."""
    file: str | None = None
    """Which of several files."""

    def __str__(self) -> str:
        places = [*([self.file] if self.file else []), *([f"line {self.line}"] if self.line is not None else [])]
        where = f"event {self.event}" + (f" ({', '.join(places)})" if places else "")
        where += f", attribute {short(self.attribute)}" if self.attribute else ""
        return f"{where}: {short(self.reason)}"


def short(text: str, most: int = 400) -> str:
    """A value of a megabyte stays in `value`; nobody wants it on the screen."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


ONE_A_LINE: Final = "JSON lines are wanted, one object a line (`jq -c '.[]'` makes them of an array, `jq -c .` of objects)"
PLAIN: Final = frozenset({str, int, float, bool, bytes, type(None), Unreadable})
"""Types of values that hold no others. An event of these alone is not searched for objects: a quarter of its check."""


class RowChecker:
    """Checks events of one space. With `on_error="absent"` it keeps in `left_out` which attributes it left out."""

    def __init__(self, space: Space, intake: Intake = DEFAULT, *, from_text: bool = False) -> None:
        self.space, self.intake = space, intake
        self.left_out: list[Rejection] = []
        self._rules: dict[str, tuple[Take, Ranges | None]] = {
            name: (take_of(kind, intake, from_text), space[name].domain if space[name].has_domain else None)
            for name, kind in space.kinds.items()
        }
        self._objects = {name[:at] for name in space.names for at, letter in enumerate(name) if letter == "."}
        self._lists = {each: names for each in self._objects if (names := _lists_below(space, each))}
        self._from_text = from_text
        self._forgives = intake.on_error == "absent"

    def check(self, number: int, event: Any) -> dict[str, Value] | Rejection:
        if type(event) is not dict and not isinstance(event, Mapping):
            return Rejection(
                number, None, event, f"{_shown(event, self._from_text)} is not an object with attributes{self._hint(event)}"
            )
        values: dict[str, Value] = {}
        try:
            if self._lists or (not PLAIN.issuperset(map(type, event.values())) and _is_nested(event)):
                event = flat(event, self._lists)
        except (ValueError, RecursionError) as reason:
            why = "nested too deeply" if isinstance(reason, RecursionError) else str(reason)
            return Rejection(number, None, event, why)
        for attribute, value in event.items():
            try:
                rule = self._rules.get(attribute)
                if rule is None:
                    self._check_unknown(attribute, value)
                    continue
                if value is None:
                    continue
                if type(value) is Unreadable:
                    raise ValueError(value.reason)
                taken = rule[0](value)
                if taken is None:
                    continue
                if rule[1] is not None and taken not in rule[1]:
                    raise ValueError(outside(self.space, attribute, value))
                values[attribute] = taken
            except (ValueError, RecursionError) as reason:
                why = "nested too deeply" if isinstance(reason, RecursionError) else str(reason)
                if self._from_text and isinstance(reason, WrongKind) and isinstance(reason.value, (list, dict)):
                    why = reason.why(_shown(reason.value, True))
                given = value.value if type(value) is Unreadable else value
                found = Rejection(number, str(attribute), given, why)
                if not self._forgives:
                    return found
                self.left_out.append(found)
        return values

    def _hint(self, event: Any) -> str:
        """For a file that is one JSON array, as many programs write it."""
        return f"; {ONE_A_LINE}" if self._from_text and isinstance(event, list) else ""

    def _check_unknown(self, attribute: Any, value: Any) -> None:
        if attribute in self._objects:
            if not value and (value is None or isinstance(value, Mapping)):
                return  # `"detail": null` and `"detail": {}` carry no detail.state
            if type(value) is Unreadable:
                raise ValueError(value.reason)
        if self.intake.unknown == "error":
            raise ValueError(no_such(self.space, attribute))


def no_such(space: Space, name: Any) -> str:
    return f"{space.name} has no attribute {name!r}{nearest(str(name), space.names)} (or pass over it: unknown='ignore')"


def flat(event: Mapping[str, Any], lists: Mapping[str, Sequence[str]] = {}) -> dict[str, Any]:
    """`{"detail": {"state": "up"}}` as `{"detail.state": "up"}`, `{"items": [{"n": 1}, {}]}` as `{"items.n": [1, None]}`.

    `lists` has the list attributes below a name. Each of them gets one element for each object, also where no object has it.
    """
    found: dict[str, Any] = {}
    waiting = [("", iter(event.items()))]
    while waiting:
        above, items = waiting[-1]
        for name, value in items:
            path = f"{above}{name}"
            inside: Mapping[str, Any] | None = None
            if isinstance(value, Mapping) and value:
                inside = value
            elif _are_objects(value) or (path in lists and _is_empty(value)):
                odd = next((each for each in value if each is not None and not isinstance(each, Mapping)), None)
                if odd is None:
                    missing = {each.removeprefix(f"{path}."): [None] * len(value) for each in lists.get(path, ())}
                    inside = missing | _members(value)
                else:
                    value = Unreadable(f"a list holds objects and {_shown(odd)}", value)
            if inside is not None:
                if len(waiting) == DEEPEST:
                    raise ValueError(f"nested too deeply; objects go {DEEPEST} deep")
                waiting.append((f"{path}.", iter(inside.items())))
                break
            if path in found:
                value = Unreadable(f"{path} is given twice, nested and dotted", value)
            found[path] = value
        else:
            waiting.pop()
    return found


def _lists_below(space: Space, name: str) -> list[str]:
    """The list attributes that a list of objects of this name would carry."""
    return [each for each, kind in space.kinds.items() if kind.element is not None and each.startswith(f"{name}.")]


def _is_nested(event: Mapping[str, Any]) -> bool:
    return any(isinstance(each, Mapping) or _are_objects(each) for each in event.values())


def _are_objects(value: Any) -> bool:
    """Is it a list of objects? Some may be null."""
    return isinstance(value, (list, tuple)) and any(isinstance(each, Mapping) for each in value)


def _is_empty(value: Any) -> bool:
    """Is it a list without any object: of nothing, or of nulls?"""
    return isinstance(value, (list, tuple)) and all(each is None for each in value)


def _members(objects: Sequence[Mapping[str, Any] | None]) -> dict[str, list[Any]]:
    """Of each member what each object has there, or None."""
    inside = [{} if each is None else flat(each) for each in objects]
    return {name: [each.get(name) for each in inside] for name in dict.fromkeys(name for each in inside for name in each)}


def _shown(value: Any, as_json: bool = False) -> str:
    """For a message: neither nested lists without end nor ints of thousands of digits can be written out."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr) if as_json else repr(value)
        return short(text.encode("utf-8", "backslashreplace").decode())
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that cannot be written out"


def outside(space: Space, name: str, value: Any) -> str:
    """Why a value is not of the attribute's domain."""
    attribute = space[name]
    if attribute.values is not None:
        return f"{value!r} is not one of {', '.join(map(repr, attribute.values[:12]))}"
    low = "" if attribute.low is None else f" from {attribute.low!r}"
    high = "" if attribute.high is None else f" to {attribute.high!r}"
    return f"{value!r} is outside the domain{low}{high}"
