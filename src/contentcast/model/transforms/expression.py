"""What a transform computes from one event: attributes, literals, arithmetic, text, sizes of lists, casts, coalesce and CASE.

`Expression.of(event)` is the meaning, on plain Python values; `expression_columns` computes the same by columns and must agree.
Rules: absent in, absent out (but for coalesce and CASE). What has no value (an overflow, a division by zero, a text that is no
number) raises `Unfit` with the reason; only what is evaluated can: the branch that CASE takes, the parts coalesce comes to.
Floats follow IEEE 754, infinities included; NaN is no value. Both sides of arithmetic have one kind (see `same_kind`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from contentcast.model.predicates.predicate import Predicate
from contentcast.model.values.kinds import FLOAT, INT, INT_GREATEST, INT_LEAST, STRING, TIMESTAMP, Kind, Value

Event = Mapping[str, Value]


class Unfit(ValueError):
    """An expression without a value for this event."""


class Expression(Protocol):
    """Frozen and comparable by value; `kind` is None only for a NULL whose kind nothing tells."""

    @property
    def kind(self) -> Kind | None: ...

    def of(self, event: Event) -> Value | None: ...


@dataclass(frozen=True, slots=True)
class Read:
    """An attribute of the source."""

    name: str
    kind: Kind

    def of(self, event: Event) -> Value | None:
        return event.get(self.name)


@dataclass(frozen=True, slots=True)
class Literal:
    """`value` None is NULL."""

    value: Value | None
    kind: Kind | None

    def of(self, event: Event) -> Value | None:
        return self.value


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`op` is one of + - * / %; both sides are ints, or both floats (always for /). The remainder has the left side's sign."""

    op: str
    left: Expression
    right: Expression

    @property
    def kind(self) -> Kind | None:
        return self.left.kind

    def of(self, event: Event) -> Value | None:
        left, right = self.left.of(event), self.right.of(event)
        if left is None or right is None:
            return None
        if self.op in ("/", "%") and right == 0:
            raise Unfit(f"{left!r} {self.op} {right!r} divides by zero")
        value = _COMPUTED[self.op](left, right)
        if isinstance(value, int) and not INT_LEAST <= value <= INT_GREATEST:
            raise Unfit(f"{left!r} {self.op} {right!r} is beyond 64 bits")
        if value != value:
            raise Unfit(f"{left!r} {self.op} {right!r} is NaN, which is not a value")
        return value


def _remainder(left: Value, right: Value) -> Value:
    if isinstance(left, float):
        return math.nan if math.isinf(left) else math.fmod(left, right)
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


_COMPUTED: Final[Mapping[str, Callable[[Value, Value], Value]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "%": _remainder,
}


@dataclass(frozen=True, slots=True)
class Joined:
    """Strings one after the other; absent if any part is."""

    parts: tuple[Expression, ...]

    @property
    def kind(self) -> Kind:
        return STRING

    def of(self, event: Event) -> Value | None:
        texts: list[Value] = [part.of(event) for part in self.parts]
        return None if None in texts else "".join(texts)


@dataclass(frozen=True, slots=True)
class Lettered:
    """All letters `upper` or `lower`, by Unicode's full rules ('ß' becomes 'SS')."""

    how: str
    part: Expression

    @property
    def kind(self) -> Kind:
        return STRING

    def of(self, event: Event) -> Value | None:
        text = self.part.of(event)
        return None if text is None else lettered(self.how, text)


def lettered(how: str, text: str) -> str:
    return text.upper() if how == "upper" else text.lower()


@dataclass(frozen=True, slots=True)
class Size:
    """How many elements a list has."""

    part: Expression

    @property
    def kind(self) -> Kind:
        return INT

    def of(self, event: Event) -> Value | None:
        elements = self.part.of(event)
        return None if elements is None else len(elements)


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first part that is not absent."""

    parts: tuple[Expression, ...]

    @property
    def kind(self) -> Kind | None:
        return self.parts[0].kind

    def of(self, event: Event) -> Value | None:
        return next((value for part in self.parts if (value := part.of(event)) is not None), None)


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose predicate is TRUE, else `otherwise`."""

    branches: tuple[tuple[Predicate, Expression], ...]
    otherwise: Expression

    @property
    def kind(self) -> Kind | None:
        return self.otherwise.kind

    def of(self, event: Event) -> Value | None:
        for predicate, value in self.branches:
            if predicate.accepts(event):
                return value.of(event)
        return self.otherwise.of(event)


# --- casts


@dataclass(frozen=True, slots=True)
class Cast:
    """Another kind; `CASTS` says from which to which."""

    part: Expression
    kind: Kind

    def of(self, event: Event) -> Value | None:
        value = self.part.of(event)
        if value is None or self.part.kind is None or self.part.kind == self.kind:
            return value
        return CASTS[self.part.kind.name, self.kind.name](value)


_BLANKS: Final = " \t\n\r\f\v"
_INT: Final = re.compile(r"[+-]?[0-9]{1,4000}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUTHS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}


def _int_of_text(text: str) -> int:
    if not _INT.fullmatch(text.strip(_BLANKS)):
        raise Unfit(f"{text!r} is not an int")
    return _in_64_bits(int(text), repr(text))


def _in_64_bits(value: int, shown: str) -> int:
    if not INT_LEAST <= value <= INT_GREATEST:
        raise Unfit(f"{shown} is beyond 64 bits")
    return value


def _float_of_text(text: str) -> float:
    if not _FLOAT.fullmatch(text.strip(_BLANKS)):
        raise Unfit(f"{text!r} is not a float")
    value = float(text)
    if math.isinf(value):
        raise Unfit(f"{text!r} is beyond the range of a float")
    return value


def _bool_of_text(text: str) -> bool:
    truth = _TRUTHS.get(text.strip(_BLANKS).lower())
    if truth is None:
        raise Unfit(f"{text!r} is not a bool; true and false are")
    return truth


def _timestamp_of_text(text: str) -> Value:
    try:
        return TIMESTAMP.read(text)
    except ValueError as reason:
        raise Unfit(str(reason)) from None


def _int_of_float(value: float) -> int:
    """Towards zero."""
    if math.isinf(value):
        raise Unfit(f"{value!r} is beyond 64 bits")
    return _in_64_bits(int(value), repr(value))


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unfit(f"{value!r} is not UTF-8 text") from None


CASTS: Final[Mapping[tuple[str, str], Callable[[Value], Value]]] = {
    ("int", "float"): float,
    ("int", "bool"): bool,
    ("int", "string"): str,
    ("float", "int"): _int_of_float,
    ("float", "bool"): bool,
    ("bool", "int"): int,
    ("bool", "float"): float,
    ("bool", "string"): lambda value: "true" if value else "false",
    ("string", "int"): _int_of_text,
    ("string", "float"): _float_of_text,
    ("string", "bool"): _bool_of_text,
    ("string", "timestamp"): _timestamp_of_text,
    ("string", "bytes"): lambda value: value.encode(),
    ("bytes", "string"): _text_of_bytes,
}
"""No cast writes a float or a timestamp as text: every engine writes them differently."""


def same_kind(parts: Sequence[Expression]) -> tuple[Expression, ...] | None:
    """The parts with one kind: ints beside floats become floats, NULLs what the others are. None if that cannot be."""
    kinds = {part.kind for part in parts if part.kind is not None}
    if kinds == {INT, FLOAT}:
        kinds = {FLOAT}
    if len(kinds) > 1:
        return None
    return tuple(of_kind(part, kind) for part in parts) if (kind := next(iter(kinds), None)) else tuple(parts)


def of_kind(part: Expression, kind: Kind) -> Expression:
    """An int as a float, a NULL as a NULL of the kind; anything else as it is."""
    if part.kind is None:  # a NULL, or a CASE with nothing but NULLs
        return Literal(None, kind)
    return Cast(part, FLOAT) if part.kind == INT and kind == FLOAT else part
