"""Numbers in JMS selectors: literals as Java writes them, and arithmetic between them."""

from __future__ import annotations

import re
from decimal import Decimal, DecimalException
from typing import Final

MOST_DIGITS: Final = 40
GREATEST_EXPONENT: Final = 400
GREATEST: Final = 10**GREATEST_EXPONENT
LONGER: Final = "the number is longer than any that an event carries"
BEYOND: Final = "the result is beyond what a number can hold"


class NoNumber(ValueError):
    """The message says why."""


def read_number(word: str) -> int | Decimal:
    """57, 0x1F, 010 (which is 8), 57L, 7E3, 2.5f; exact."""
    if word[:2] in ("0x", "0X"):
        if len(word) > MOST_DIGITS:
            raise NoNumber(LONGER)
        return int(word.rstrip("lL"), 16)
    plain = word.rstrip("lLfFdD")
    if not plain.isdigit():
        try:
            value = Decimal(plain)
        except DecimalException:  # an exponent of twenty digits
            raise NoNumber(f"{plain} is beyond what a number can hold") from None
        if value and abs(value.adjusted()) > GREATEST_EXPONENT:
            raise NoNumber(f"{plain} is beyond what a number can hold")
        return value
    if word[-1] in "fFdD":
        return Decimal(plain)
    if len(plain) > MOST_DIGITS:
        raise NoNumber(LONGER)
    return int(plain, 8) if re.fullmatch("0[0-7]+", plain) else int(plain)


def computed(op: str, one: int | Decimal, other: int | Decimal) -> int | Decimal:
    """Two whole numbers divide towards zero, as in Java."""
    if op == "/" and not other:
        raise NoNumber("division by zero")
    try:
        found = _of_two(op, one, other)
    except DecimalException:
        raise NoNumber(BEYOND) from None
    if isinstance(found, int) and abs(found) > GREATEST:  # thousands of factors multiplied take long, and cannot be printed
        raise NoNumber(BEYOND)
    return found


def _of_two(op: str, one: int | Decimal, other: int | Decimal) -> int | Decimal:
    match op:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
    if isinstance(one, int) and isinstance(other, int):
        return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    return Decimal(one) / Decimal(other)
