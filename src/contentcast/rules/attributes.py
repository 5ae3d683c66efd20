"""Which attribute of the space a rule means, and whether a literal of the rule can be one of its values."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

from contentcast.model.errors import nearest
from contentcast.model.space import Space
from contentcast.model.values.kinds import STRING, Kind, Value

COMPUTED: Final = (
    "an index cannot look up what is computed from attributes; let the publisher send the result as an attribute, or "
    "a transform compute it (docs/guide/transforms.md)"
)
"""What to do about arithmetic, and about two attributes that are compared."""

MOST_BITS: Final = 1_000
"""Longer numbers are beyond every int and nearly every float, and Python does not even write out the longest."""

NUMBERS: Final = frozenset({"int", "float"})


class WrongAttribute(ValueError):
    """The space has no such attribute; the message says what it has."""


class OtherKind(ValueError):
    """The attribute never carries a value of the literal's kind."""


def find_attribute(space: Space, name: str) -> Kind:
    kind = space.kinds.get(name)
    if kind is not None:
        return kind
    below = [each for each in space.names if each.startswith(f"{name}.")]
    if below:
        raise WrongAttribute(
            f"{name} is no attribute of {space.name} but holds some; ask of one of them: {', '.join(below[:8])}"
        )
    raise WrongAttribute(f"{space.name} has no attribute {name[:80]!r}{nearest(name[:80], space.names)}")


def fitting(name: str, kind: Kind, value: object) -> Value:
    """The literal as a value of the attribute's kind; numbers stay exact."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise OtherKind(f"a number of {value.bit_length():,} bits is beyond all that an event carries")
    match value:
        case bool() if kind.name == "bool":
            return value
        case bool():
            pass
        case str() if kind.name == "string":
            return _text(value)
        case int() | Decimal() if kind.name in NUMBERS:
            return _number(value, kind)
        case float() if kind.name in NUMBERS and math.isfinite(value):
            return value if kind.name == "float" else Decimal(repr(value))
        case float() if kind.name in NUMBERS:
            raise OtherKind(f"{value} is no number that an event carries")
    raise OtherKind(f"{name} is {kind.article} in this space and never equals {said(value)}{_advice(name, kind, value)}")


def _text(value: str) -> str:
    try:
        return str(STRING.check(value))
    except ValueError as reason:
        raise OtherKind(str(reason)) from None


def _number(value: int | Decimal, kind: Kind) -> Value:
    if kind.name == "int":
        return value
    nearest_double = float(value)
    if math.isinf(nearest_double):
        raise OtherKind(f"{value} is beyond the range of a float")
    return nearest_double + 0.0


def said(value: object) -> str:
    return "null" if value is None else f"the string {value[:80]!r}" if isinstance(value, str) else f"{value}".lower()


def _advice(name: str, kind: Kind, value: object) -> str:
    if kind.name == "timestamp":
        return f"; declare {name} as a string to compare its text, or write the rule in our language: {name} > TIMESTAMP '...'"
    if kind.name == "bytes":
        return f"; declare {name} as a string if it is text"
    wanted = "string" if isinstance(value, str) else "bool" if isinstance(value, bool) else "float"
    return f"; declare {name} as {wanted} if its events carry that, or correct the rule"
