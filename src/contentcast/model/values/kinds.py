"""The kinds of value an attribute can have: six scalar ones, each as an ordered set, and lists of them (but not of bytes).

A kind knows its Arrow type, how to check a plain Python value, its least value and the successor of a value. Every kind is
treated as discrete (after the float 120.0 comes the next double, after the string 'a' comes 'a\\0'), so that a half-open
interval [low, high) says all there is to say and two equal sets of values have one representation (see `ranges`). A list has
no order that a predicate could ask for. Its set of values is everything or nothing, narrowed by tests of its elements and its
size; where an engine needs one value for a whole list, it takes the bytes that `list_bytes` makes of it.
Rule: nothing is coerced silently. A check returns the value as its kind stores it or raises with the reason. A NumPy number,
bool or string is taken for the Python value that it equals.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

Value = Any
"""A str, int, float, bool, aware datetime in UTC, or bytes: what one attribute of one event holds."""

INT_LEAST: Final = -(2**63)
INT_GREATEST: Final = 2**63 - 1
TIMESTAMP_LEAST: Final = datetime.min.replace(tzinfo=UTC)
TIMESTAMP_GREATEST: Final = datetime.max.replace(tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Top:
    """The cut above every value of every kind; compares greater than all of them."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "TOP"

    def __reduce__(self) -> str:
        return "TOP"  # one object, also after pickling: identity tests stay valid on Spark's workers


TOP: Final = Top()


@dataclass(frozen=True)
class Kind:
    """One kind: `check` takes a Python value, `read` takes the text or JSON form that files use."""

    name: str
    arrow: pa.DataType
    least: Value
    successor: Callable[[Value], Value]
    check: Callable[[Value], Value]
    read: Callable[[Value], Value]
    article: str
    element: Kind | None = None
    """Of a list the kind of its elements."""

    @property
    def stored(self) -> pa.DataType:
        """The type of a column that engines look values up in: of a list the bytes that stand for it."""
        return self.arrow if self.element is None else pa.binary()

    def __repr__(self) -> str:
        return f"Kind({self.name!r})"

    def __reduce__(self) -> tuple[Callable[[str], Kind], tuple[str]]:
        return kind_of, (self.name,)


class WrongKind(ValueError):
    """A value of another kind than is wanted. `why` says it, `shown` being the value."""

    def __init__(self, value: Value, wanted: str) -> None:
        self.value, self._wanted = value, wanted
        try:
            super().__init__(self.why(repr(value)))
        except (ValueError, RecursionError):  # an int of thousands of digits, a list without end
            super().__init__(self.why("the value"))

    def why(self, shown: str) -> str:
        return f"{shown} is {_describe(self.value)}, not {self._wanted}"


def _wrong(value: Value, wanted: str) -> ValueError:
    return WrongKind(value, wanted)


def _describe(value: Value) -> str:
    for type_, name in _PYTHON_NAMES:
        if isinstance(value, type_):
            return name
    return f"a Python {type(value).__name__}"


_PYTHON_NAMES: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    ((bool, np.bool_), "a bool"),
    (np.timedelta64, "a duration"),
    ((int, np.integer), "an int"),
    ((float, np.floating), "a float"),
    (str, "a string"),
    (datetime, "a timestamp"),
    (bytes, "bytes"),
    (dict, "a nested object"),
    (list, "a list"),
)


# np.timedelta64 is an np.integer by inheritance only, and bool an int.
_NO_NUMBER: Final = (bool, np.bool_, np.timedelta64)


def _check_string(value: Value) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "a string")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"{value!r} holds a lone surrogate, which is not Unicode text")
    return value if type(value) is str else str.__str__(value)  # of an enum the text, whatever its own __str__ says


def _check_int(value: Value) -> int:
    if type(value) is not int and (isinstance(value, _NO_NUMBER) or not isinstance(value, (int, np.integer))):
        raise _wrong(value, "an int")
    if not INT_LEAST <= value <= INT_GREATEST:
        raise ValueError(f"{_digits(value)} is beyond 64 bits")
    return int(value)


def _digits(value: Any) -> str:
    """Python does not write out an int of more than 4,300 digits."""
    return str(value) if abs(int(value)) < 10**100 else f"an int of {int(value).bit_length():,} bits"


def _check_float(value: Value) -> float:
    if type(value) is not float:
        if isinstance(value, _NO_NUMBER) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise _wrong(value, "a float")
        # JSON writes 120 for 120.0; what a double holds exactly is that double, anything else would change silently.
        try:
            exact = float(value)
        except OverflowError:
            raise ValueError(f"{_digits(value)} is beyond the range of a float") from None
        whole = isinstance(value, (int, np.integer))  # compared as an int: 2**53 + 1 == float(2**53 + 1) for NumPy
        if not math.isnan(exact) and (int(exact) != int(value) if whole else exact != value):
            raise ValueError(f"{_digits(value) if whole else value} has no exact float; send {exact!r} if that is meant")
        value = exact
    if math.isnan(value):
        raise ValueError("NaN is not a value; leave the attribute out if it is unknown")
    return float(value)


def _check_bool(value: Value) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong(value, "a bool")
    return bool(value)


def _check_timestamp(value: Value) -> datetime:
    if not isinstance(value, datetime):
        raise _wrong(value, "a timestamp")
    plain = value if type(value) is datetime else _plain_datetime(value)
    try:
        return plain.replace(tzinfo=UTC) if plain.tzinfo is None else plain.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{value} is outside the years 1 to 9999 in UTC") from None


def _plain_datetime(value: datetime) -> datetime:
    """pandas' Timestamp is a datetime with nanoseconds, and its NaT is one that equals nothing."""
    if value != value:
        raise ValueError("NaT is not a value; leave the attribute out if it is unknown")
    if getattr(value, "nanosecond", 0):
        raise ValueError(f"{value} is finer than a microsecond")
    parts = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    return datetime(*parts, tzinfo=value.tzinfo, fold=value.fold)


def _check_bytes(value: Value) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _wrong(value, "bytes")
    return bytes(value)


_TOO_FINE: Final = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


def _read_timestamp(value: Value) -> datetime:
    """ISO 8601; no zone means UTC. More than six digits of a second would be lost, so they are refused."""
    if isinstance(value, datetime):
        return _check_timestamp(value)
    if not isinstance(value, str):
        raise _wrong(value, "a timestamp; write it as '2026-03-01T12:00:00Z'")
    if _TOO_FINE.search(value):
        raise ValueError(f"{value!r} is finer than a microsecond")
    try:
        read = datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError(f"{value!r} is not a timestamp; write it as '2026-03-01T12:00:00Z'") from None
    return _check_timestamp(read)


def _read_bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise _wrong(value, "bytes; write them in base64")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:  # binascii's own error is one, and so is that of text beyond ASCII
        raise ValueError(f"{value!r} is not base64") from None


def _after_float(value: float) -> Value:
    return TOP if value == math.inf else math.nextafter(value, math.inf) or 0.0  # never -0.0


STRING: Final = Kind("string", pa.string(), "", lambda v: v + "\0", _check_string, _check_string, "a string")
INT: Final = Kind("int", pa.int64(), INT_LEAST, lambda v: v + 1 if v < INT_GREATEST else TOP, _check_int, _check_int, "an int")
FLOAT: Final = Kind("float", pa.float64(), -math.inf, _after_float, _check_float, _check_float, "a float")
BOOL: Final = Kind("bool", pa.bool_(), False, lambda v: TOP if v else True, _check_bool, _check_bool, "a bool")
TIMESTAMP: Final = Kind(
    "timestamp",
    pa.timestamp("us", tz="UTC"),
    TIMESTAMP_LEAST,
    lambda v: v + _MICROSECOND if v < TIMESTAMP_GREATEST else TOP,
    _check_timestamp,
    _read_timestamp,
    "a timestamp",
)
BYTES: Final = Kind("bytes", pa.binary(), b"", lambda v: v + b"\0", _check_bytes, _read_bytes, "bytes")


def check_elements(element: Kind, value: Value, each: Callable[[Value], Value]) -> list[Value | None]:
    """The elements of a list as `each` takes them; None stays."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise _wrong(value, f"a list of {element.name}")
    found: list[Value | None] = []
    for at, one in enumerate(value):
        try:
            found.append(None if one is None else each(one))
        except ValueError as reason:
            raise ValueError(f"element {at}: {reason}") from None
    return found


def _list_of(element: Kind) -> Kind:
    return Kind(
        f"list of {element.name}",
        pa.list_(element.arrow),
        b"",
        BYTES.successor,
        lambda value: check_elements(element, value, element.check),
        lambda value: check_elements(element, value, element.read),
        f"a list of {element.name}",
        element,
    )


SCALARS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in (STRING, INT, FLOAT, BOOL, TIMESTAMP, BYTES)}
LISTS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in map(_list_of, (STRING, INT, FLOAT, BOOL, TIMESTAMP))}
KINDS: Final[Mapping[str, Kind]] = {**SCALARS, **LISTS}
KINDS_SAID: Final = f"an attribute is one of {', '.join(SCALARS)}, or a list of such"
"""For errors about what is none of them."""


def kind_of(name: str) -> Kind:
    return KINDS[name]
