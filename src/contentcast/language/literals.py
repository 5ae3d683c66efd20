"""Literals as Spark reads them: quoted strings and their escapes, numbers, timestamps, hex bytes.

Read from the source text itself, not from the parser's copy, so that an escape means here what it means in Spark.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

STRING: Final = r"""(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
NUMBER: Final = r"(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"

_ESCAPE: Final = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))|''|"" """.rstrip(), re.DOTALL)
_NAMED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_HUGE: Final = Decimal(10) ** 40
"""Beyond every 64-bit int; larger literals compare alike, and Decimal must not be asked to write out 1e999999999."""


def read_string(raw: str) -> str:
    r"""'it''s', 'it\'s', "it's", '\u0041'. `\%` and `\_` keep their backslash, which is for LIKE to read."""
    quote = raw[0]
    inside = raw[1:-1]
    if "\\" not in inside and quote * 2 not in inside:
        return _as_text(inside)

    def replaced(found: re.Match[str]) -> str:
        four, eight, octal, other = found.groups()
        if found[0] in ("''", '""'):
            return quote if found[0] == quote * 2 else found[0]
        if four or eight:
            code = int(four or eight, 16)
            if code > 0x10FFFF:
                raise ValueError(f"{found[0]} is beyond U+10FFFF, the last character")
            return chr(code)
        return chr(int(octal, 8)) if octal else _NAMED.get(other, other)

    return _as_text(_ESCAPE.sub(replaced, inside))


def _as_text(text: str) -> str:
    """A pair of surrogates, as two \\uXXXX may write it, is one character; one alone is none."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError(f"{text!r} holds a lone surrogate, which is not Unicode text") from None


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NUMBER: Final = re.compile(NUMBER)
_EXPONENT: Final = re.compile("[eE][+-]?0*([1-9][0-9]{15,})")
"""One that a Decimal may not hold."""


def read_number(text: str, negative: bool = False) -> int | Decimal:
    """Exact: an int where it is written as one, else a Decimal."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text} is not a number")
    if text.isdigit():
        if len(text) > 40:
            text = "1" + "0" * 40
        return -int(text) if negative else int(text)
    value = Decimal(_EXPONENT.sub(lambda found: found[0].replace(found[1], "9" * 15), text))
    if value and value.adjusted() > 40:
        value = _HUGE
    return -value if negative else value


def read_float(text: str, negative: bool = False) -> float:
    """The nearest double; raises if there is none."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text} is not a number")
    value = float(text)
    if value == float("inf"):
        raise ValueError(f"{text} is beyond the range of a float")
    return (-value if negative else value) + 0.0  # no -0.0: it equals 0.0


_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(?:(Z|UTC|[+-]\d{1,2}(?::?\d{2})?|[A-Za-z]+/[A-Za-z0-9_/+-]+))?",
    re.ASCII,
)


def read_timestamp(text: str, *, date_only: bool = False) -> datetime:
    """An instant in UTC; without a zone the text means UTC. A date is its midnight."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if not found or (date_only and (found[4] or found[8])):
        wanted = "DATE '2026-03-01'" if date_only else "TIMESTAMP '2026-03-01 12:00:00' or '2026-03-01T12:00:00+02:00'"
        raise ValueError(f"{text!r} is not a {'date' if date_only else 'timestamp'}; write {wanted}")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction = (found[7] or "").ljust(6, "0")
    if fraction[6:].strip("0"):
        raise ValueError(f"{text!r} is finer than a microsecond")
    try:
        local = datetime(year, month, day, hour, minute, second, int(fraction[:6]), tzinfo=_zone(found[8]))
        return local.astimezone(UTC)
    except ZoneInfoNotFoundError:
        raise ValueError(f"{text!r} is not a timestamp: there is no time zone {found[8]}") from None
    except (ValueError, OverflowError) as reason:
        raise ValueError(f"{text!r} is not a timestamp: {reason}") from None


def _zone(text: str | None) -> timezone | ZoneInfo:
    if text in (None, "Z", "UTC"):
        return UTC
    assert text is not None
    if text[0] not in "+-":
        try:
            return ZoneInfo(text)
        except (OSError, ValueError):  # America/Argentina is a folder of zones
            raise ZoneInfoNotFoundError(text) from None
    hours, _, minutes = text[1:].partition(":")
    if not minutes and len(hours) == 4:
        hours, minutes = hours[:2], hours[2:]
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if offset > timedelta(hours=18) or int(minutes or 0) > 59:
        raise ValueError(f"no zone is at {text} from UTC")
    return timezone(-offset if text[0] == "-" else offset)


def read_hex(digits: str) -> bytes:
    """X'1F'; an odd number of digits begins with half a byte, as in Spark."""
    if not re.fullmatch(r"[0-9a-fA-F]*", digits):
        raise ValueError(f"X'{digits}' holds something else than hex digits")
    return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
