"""Values of CloudEvents SQL that are known when the rule is read: casts, arithmetic and functions of literals.

Source: CloudEvents SQL 1.0, sections 3.4 to 3.7. Everything gives a value; what goes wrong gives the type's zero and an error,
and a filter passes no event for which an error came up, so a failed constant is remembered as such.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Scalar = str | int | bool
ZERO: Final[dict[str, Scalar]] = {"String": "", "Integer": 0, "Boolean": False}
INT_LEAST, INT_GREATEST = -(2**31), 2**31 - 1


@dataclass(frozen=True, slots=True)
class Const:
    value: Scalar
    failed: bool = False

    @property
    def type(self) -> str:
        return type_of(self.value)


def type_of(value: Scalar) -> str:
    return "Boolean" if isinstance(value, bool) else "Integer" if isinstance(value, int) else "String"


def cast(given: Const, wanted: str) -> Const:
    value = given.value
    if given.type == wanted:
        return given
    if wanted == "String":
        return Const(str(value).lower() if isinstance(value, bool) else str(value), given.failed)
    if isinstance(value, str):
        read = _as_int(value) if wanted == "Integer" else {"true": True, "false": False}.get(value.lower())
        return Const(ZERO[wanted], True) if read is None else Const(read, given.failed)
    return Const(int(value) if wanted == "Integer" else bool(value), given.failed)


def _as_int(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
        return None
    value = int(text)
    return value if INT_LEAST <= value <= INT_GREATEST else None


def arithmetic(op: str, left: Const, right: Const) -> Const:
    left, right = cast(left, "Integer"), cast(right, "Integer")
    one, other = int(left.value), int(right.value)
    failed = left.failed or right.failed
    if op in "/%" and other == 0:
        return Const(0, True)
    value = {
        "+": lambda: one + other,
        "-": lambda: one - other,
        "*": lambda: one * other,
        "/": lambda: _divided(one, other),
    }.get(op, lambda: one - other * _divided(one, other))()
    within = INT_LEAST <= value <= INT_GREATEST
    return Const(value if within else 0, failed or not within)


def _divided(one: int, other: int) -> int:
    """Towards zero."""
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)


def call(name: str, arguments: list[Const]) -> Const:
    """A function of constants; `arguments` fit the function (see `PARAMETERS`)."""
    types = PARAMETERS[name](len(arguments))
    assert types is not None
    given = [cast(each, wanted) for each, wanted in zip(arguments, types, strict=True)]
    value, failed = _FUNCTIONS[name](*(each.value for each in given))
    return Const(value, failed or any(each.failed for each in given))


def _exactly(*types: str) -> Callable[[int], tuple[str, ...] | None]:
    return lambda count: types if count == len(types) else None


PARAMETERS: Final[dict[str, Callable[[int], tuple[str, ...] | None]]] = {
    "LENGTH": _exactly("String"),
    "CONCAT": lambda count: ("String",) * count,
    "CONCAT_WS": lambda count: ("String",) * count if count else None,
    "LOWER": _exactly("String"),
    "UPPER": _exactly("String"),
    "TRIM": _exactly("String"),
    "LEFT": _exactly("String", "Integer"),
    "RIGHT": _exactly("String", "Integer"),
    "SUBSTRING": lambda count: {2: ("String", "Integer"), 3: ("String", "Integer", "Integer")}.get(count),
    "ABS": _exactly("Integer"),
    "INT": _exactly("Integer"),
    "BOOL": _exactly("Boolean"),
    "STRING": _exactly("String"),
}
"""The types of a function's parameters for a number of arguments, or None. INT, BOOL and STRING cast, no more."""


def substring(text: str, position: int, length: int | None = None) -> tuple[str, bool]:
    if position == 0:
        return "", length is not None and length < 0
    if abs(position) > len(text) or (length is not None and length < 0):
        return "", True
    start = position - 1 if position > 0 else len(text) + position
    return text[start:] if length is None else text[start : start + length], False


_FUNCTIONS: Final[dict[str, Callable[..., tuple[Scalar, bool]]]] = {
    "LENGTH": lambda text: (len(text), False),
    "CONCAT": lambda *texts: ("".join(texts), False),
    "CONCAT_WS": lambda delimiter, *texts: (delimiter.join(texts), False),
    "LOWER": lambda text: (text.lower(), False),
    "UPPER": lambda text: (text.upper(), False),
    "TRIM": lambda text: (text.strip(" \t\n\r\f\v"), False),
    "LEFT": lambda text, count: (text if count < 0 else text[:count], count < 0),
    "RIGHT": lambda text, count: (text if count < 0 else text[max(0, len(text) - count) :], count < 0),
    "SUBSTRING": substring,
    "ABS": lambda value: (min(abs(value), INT_GREATEST), value == INT_LEAST),
    "INT": lambda value: (value, False),
    "BOOL": lambda value: (value, False),
    "STRING": lambda value: (value, False),
}
