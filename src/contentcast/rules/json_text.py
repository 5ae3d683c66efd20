"""JSON of a rule: its numbers exact, no member twice, what is wrong with it shown with a caret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, DecimalException
from typing import Any, NoReturn

from contentcast.model.plain_files import once
from contentcast.rules.errors import RuleError


def read_json(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_number, parse_constant=_no_constant, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise RuleError.in_text(text, error.pos, f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise RuleError.in_text(text, 0, "nested too deeply") from None
    except ValueError as error:
        raise RuleError.in_text(text, 0, f"not JSON of a rule: {error}") from None


def read_object(rule: object, what: str) -> Mapping[str, Any]:
    """A rule that is a JSON object, given as such or as text."""
    given = read_json(rule) if isinstance(rule, str) else rule
    if not isinstance(given, Mapping):
        raise RuleError.in_json("", f"{what} come as a JSON object, not as {described(given)}")
    check_names(given, "")
    return given


def check_names(given: Mapping[Any, Any], path: str) -> None:
    """In JSON names are strings; in Python they need not be."""
    for name in given:
        if not isinstance(name, str):
            raise RuleError.in_json(path, f"the name {name!r} is {described(name)}, not a string")


def described(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a bool"
        case str():
            return "a string"
        case int() | float() | Decimal():
            return "a number"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "an array"
    return type(value).__name__


def _number(word: str) -> Decimal:
    try:
        return Decimal(word)
    except DecimalException:  # an exponent of twenty digits
        raise ValueError(f"{word} is beyond what a number can hold") from None


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")
