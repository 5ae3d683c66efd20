"""How events are taken in: which fields and values are accepted, and what becomes of the others. The same words everywhere.

    on_error   "raise"  the first event that does not fit is an error
               "reject" it is set aside, with the reason
               "absent" only the attribute that does not fit is left out; what is no event at all is set aside
    unknown    "error"  a field that the space does not have does not fit
               "ignore" it is passed over
    nan        "error" or "absent": what NaN is
    finer      "error" or "round": what becomes of a timestamp that is finer than a microsecond
    epoch      "guess", "s", "ms", "us", "ns" or "error": what a number means where the attribute is a timestamp

Beyond that, values are taken where nothing is lost: an ISO 8601 text for a timestamp, a whole float for an int, an int for a
float that equals it. JSON's null is absent.
Rule: what one value becomes is decided here for a single value, and in `arrow_columns` for a column of them; both agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, TypedDict, get_args

import numpy as np

from contentcast.model.errors import ContentcastError, EventError, nearest
from contentcast.model.values.kinds import Kind, Value, check_elements

OnError = Literal["raise", "reject", "absent"]
Unknown = Literal["error", "ignore"]
Nan = Literal["error", "absent"]
Finer = Literal["error", "round"]
Epoch = Literal["guess", "s", "ms", "us", "ns", "error"]

UNITS: Final = ("s", "ms", "us", "ns")
PER_UNIT_US: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
BOUNDS: Final = ((10**11, "s"), (10**14, "ms"), (10**17, "us"))
"""A guess by size: below 10^11 are seconds, below 10^14 milliseconds ... That is right for all times from 1973 to 5138."""
ROUND_HINT: Final = "finer='round' takes the nearest"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class How(TypedDict, total=False):
    """The words of `Intake`, as functions take them."""

    on_error: OnError
    unknown: Unknown
    nan: Nan
    finer: Finer
    epoch: Epoch


_ALLOWED: Final = {"on_error": OnError, "unknown": Unknown, "nan": Nan, "finer": Finer, "epoch": Epoch}


@dataclass(frozen=True, slots=True)
class Intake:
    on_error: OnError = "raise"
    unknown: Unknown = "error"
    nan: Nan = "error"
    finer: Finer = "error"
    epoch: Epoch = "guess"

    def __post_init__(self) -> None:
        for each in fields(self):
            allowed = get_args(_ALLOWED[each.name])
            if getattr(self, each.name) not in allowed:
                words = " or ".join(map(repr, allowed))
                raise EventError(f"{each.name} is {words}, not {getattr(self, each.name)!r}")

    @classmethod
    def of(cls, how: How) -> Intake:
        """From the words that a caller gave."""
        if not how:
            return DEFAULT
        for name in how:
            if name not in _ALLOWED:
                raise ContentcastError(f"there is no option {name!r}{nearest(name, _ALLOWED, 'there are')}")
        try:
            return _intake(tuple(how.items()))
        except TypeError:  # a list, say, where a word belongs
            return cls(**how)


@lru_cache(maxsize=256)
def _intake(words: tuple[tuple[str, Any], ...]) -> Intake:
    return Intake(**dict(words))


DEFAULT: Final = Intake()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands where a reader found something that is no value: the reason is told if the field is one of the space."""

    reason: str
    value: Any


Take = Callable[[Any], Value | None]


def take_of(kind: Kind, intake: Intake, from_text: bool = False) -> Take:
    """What makes a value of the kind from one that came in, or None if it is absent; raises ValueError with the reason.

    `from_text`: it came from a text format, where bytes are written in base64.
    """
    if kind.element is not None:
        element, each = kind.element, take_of(kind.element, intake, from_text)
        return lambda value: check_elements(element, value, each)
    plain = kind.read if from_text and kind.name == "bytes" else kind.check
    take: Take = plain
    if kind.name == "int":
        take = lambda value: plain(_whole(value))  # noqa: E731
    elif kind.name == "timestamp":
        take = lambda value: plain(_instant(value, intake))  # noqa: E731
    if intake.nan == "absent":
        return lambda value: None if isinstance(value, (float, np.floating)) and value != value else take(value)
    return take


def _whole(value: Any) -> Any:
    """A float that is an int is that int; any other value is left to the check."""
    if isinstance(value, (float, np.floating)):
        exact = float(value)
        return int(exact) if exact.is_integer() and abs(exact) < 2.0**63 else value
    return value


# --- timestamps

_FRACTION: Final = re.compile(r"[.,]([0-9]{6})([0-9]+)")
_DIGITS: Final = re.compile(r"\s*[+-]?[0-9]+(?:\.[0-9]+)?\s*")
_DATE_DIGITS: Final = 8
"""20260301 is a date."""


def _instant(value: Any, intake: Intake) -> Any:
    """A text or a number as a datetime; anything else is left to the check."""
    if isinstance(value, str):
        return read_instant(value, intake)
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.timedelta64)):
        return from_epoch(value, intake)
    if intake.finer == "round" and hasattr(value, "nanosecond"):  # pandas' Timestamp
        return value.round("us")
    return value


def read_instant(text: str, intake: Intake) -> datetime:
    """ISO 8601, without a zone in UTC; or digits, which are a number since 1970."""
    if _DIGITS.fullmatch(text) and len(text.strip()) != _DATE_DIGITS:
        return from_epoch(float(text) if "." in text else int(text), intake, text)
    more = 0
    if (fraction := _FRACTION.search(text)) and (rest := fraction[2].rstrip("0")):
        if intake.finer == "error":
            raise ValueError(f"{text!r} is finer than a microsecond; {ROUND_HINT}")
        more = 1 if rest[0] >= "5" else 0
    try:
        read = datetime.fromisoformat(text.strip().upper())
    except ValueError:
        raise ValueError(f"{text!r} is not a timestamp; write it as '2026-03-01T12:00:00Z'") from None
    try:
        return read + timedelta(microseconds=more)
    except OverflowError:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC") from None


def from_epoch(value: Any, intake: Intake, text: str | None = None) -> datetime:
    """A number since 1970 as an instant."""
    shown = repr(text) if text is not None else repr(value)
    if intake.epoch == "error":
        raise ValueError(
            f"{shown} is a number, not a timestamp; epoch='s' or 'ms' takes it as seconds or milliseconds since 1970"
        )
    if value != value:
        raise ValueError("NaN is not a value; leave the attribute out if it is unknown")
    unit = intake.epoch if intake.epoch != "guess" else guess_unit(abs(value))
    try:
        if unit == "ns":
            whole = int(value)
            if intake.finer == "error" and whole % 1000:
                raise ValueError(f"{shown} is finer than a microsecond (ns since 1970); {ROUND_HINT}")
            return _EPOCH + timedelta(microseconds=(whole + 500) // 1000)
        if isinstance(value, (int, np.integer)):
            return _EPOCH + timedelta(microseconds=int(value) * PER_UNIT_US[unit])
        return _EPOCH + timedelta(microseconds=round(float(value) * PER_UNIT_US[unit]))
    except OverflowError:
        raise ValueError(f"{shown} is outside the years 1 to 9999 ({unit} since 1970)") from None


def guess_unit(size: Any) -> str:
    return next((unit for bound, unit in BOUNDS if size < bound), "ns")
