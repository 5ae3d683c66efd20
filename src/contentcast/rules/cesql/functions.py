"""Columns: an attribute, or a function of one whose comparison with a literal is a test of the attribute.

    LENGTH(id) > 3              id LIKE '____%'                    LEFT(id, 2) = 'ab'        startswith(id, 'ab')
    ABS(delta) <= 5             delta BETWEEN -5 AND 5             RIGHT(id, 2) = 'ab'       endswith(id, 'ab')
    LOWER(type) = 'order'       lower(type) = 'order'              SUBSTRING(id, 3) = 'x'    id LIKE '__x'
    CONCAT('a-', id) = 'a-7'    id = '7'                           STRING(count) = '5'       count = 5

Rule: where a function has an error (SUBSTRING beyond the end), neither the test nor its opposite is true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from contentcast.rules.cesql.constants import Const, Scalar
from contentcast.rules.cesql.truth import ERROR, Truth, known, opposite, partial, test
from contentcast.rules.clauses import (
    FALSE,
    ONE,
    RUN,
    Clause,
    Pattern,
    Plain,
    all_of,
    compare,
    ends,
    is_in,
    joined,
    like,
    like_test,
    negated,
    starts,
)

MOST_LETTERS: Final = 2_000
"""A length is asked for by so many `_` at most."""


class Unsayable(ValueError):
    """The function has no test of ours; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Column:
    """`function` is empty for the attribute itself; `arguments` are the literals beside it."""

    name: str
    subject: str
    type: str
    function: str = ""
    arguments: tuple[Scalar, ...] = ()

    @property
    def said(self) -> str:
        return f"{self.function}({self.name})" if self.function else self.name


def apply(name: str, arguments: list[Column | Const]) -> Column | Const:
    """The function of one column and literals."""
    at = next(at for at, each in enumerate(arguments) if isinstance(each, Column))
    column = arguments[at]
    assert isinstance(column, Column)
    if name in ("INT", "STRING") and column.type == {"INT": "Integer", "STRING": "String"}[name]:
        return column
    if column.function:
        raise Unsayable(f"{name} of {column.said} cannot be looked up; let a transform compute it as an attribute")
    if name == "TRIM":
        raise Unsayable("TRIM of an attribute cannot be looked up; let the publisher or a transform trim it")
    literals = tuple(each.value for each in arguments if isinstance(each, Const))
    if name in ("INT", "ABS"):
        number = _as_integer(column)
        return number if name == "INT" else replace(number, function="ABS") if not number.function else _beyond(name, column)
    text = _as_string(column)
    if name == "STRING":
        return text
    if text.function or (at and name not in ("CONCAT", "CONCAT_WS")):
        raise Unsayable(f"{name} asks of text, and {column.name} is {_a(column.type)}; declare it as a string")
    if name in ("CONCAT", "CONCAT_WS"):
        between = str(literals[0]) if name == "CONCAT_WS" else ""
        first = 1 if name == "CONCAT_WS" else 0
        before = [str(each) for each in literals[first:at]]
        after = [str(each) for each in literals[at:]]
        if name == "CONCAT_WS" and at == 0:
            raise Unsayable("CONCAT_WS with an attribute as delimiter cannot be looked up")
        return replace(text, function="CONCAT", arguments=(between.join([*before, ""]), between.join(["", *after])))
    type_ = "Integer" if name == "LENGTH" else "String"
    return replace(text, function=name, arguments=literals, type=type_)


def _beyond(name: str, column: Column) -> Column:
    raise Unsayable(f"{name} asks of a number, and {column.name} is {_a(column.type)}; declare it as an int")


def _as_string(column: Column) -> Column:
    return column if column.type == "String" else replace(column, type="String", function="STRING", arguments=(column.type,))


def _as_integer(column: Column) -> Column:
    if column.type == "String":
        raise Unsayable(
            f"{column.name} is a string, and which texts are numbers cannot be looked up; declare {column.name} as an int"
        )
    return column if column.type == "Integer" else replace(column, type="Integer", function="INT")


def _cast(column: Column, wanted: str) -> Column:
    if column.type == wanted:
        return column
    if column.function:
        raise Unsayable(
            f"{column.said} is {_a(column.type)} and is compared with {_a(wanted)}; write a literal of its own type"
        )
    return _as_string(column) if wanted == "String" else _as_integer(column)


# --- truth


def as_truth(column: Column) -> Truth:
    """Cast to Boolean: an integer is true unless it is 0; of texts only 'true' and 'false' are known, in any case."""
    if column.function:
        raise Unsayable(f"{column.said} is {_a(column.type)}, not a condition; compare it with a literal")
    match column.type:
        case "Boolean":
            return test(column.subject, compare(column.subject, "=", True))
        case "Integer":
            return test(column.subject, compare(column.subject, "<>", 0))
    lower = f"lower({column.subject})"
    return partial(column.subject, compare(lower, "=", "true"), compare(lower, "=", "false"))


def one_of(column: Column, values: list[Scalar]) -> Truth:
    return test(column.subject, is_in(column.subject, values))


def compared(column: Column, op: str, value: Scalar, wanted: str) -> Truth:
    column = _cast(column, wanted)
    if op == "!=":
        return opposite(compared(column, "=", value, wanted))
    if not column.function:
        return test(column.subject, compare(column.subject, op, value))
    return _COMPARED[column.function](column, op, value)


def _string(column: Column, op: str, value: Scalar) -> Truth:
    """A number or a bool as text: a whole number without signs and zeros that are not needed, or true and false."""
    text = str(value)
    if column.arguments[0] == "Boolean":
        return test(column.subject, compare(column.subject, "=", text == "true")) if text in ("true", "false") else _no(column)
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) < 20 and str(int(text)) == text:
        return test(column.subject, compare(column.subject, "=", int(text)))
    return _no(column)


def _int(column: Column, op: str, value: Scalar) -> Truth:
    """A bool as 1 and 0."""
    number = int(value)
    true, false = (
        {"=": n == number, "<": n < number, "<=": n <= number, ">": n > number, ">=": n >= number}[op] for n in (1, 0)
    )
    return known(column.subject, true) if true == false else test(column.subject, compare(column.subject, "=", true))


def _abs(column: Column, op: str, value: Scalar) -> Truth:
    number = int(value)
    match op:
        case "=":
            return _no(column) if number < 0 else test(column.subject, is_in(column.subject, [-number, number]))
        case ">":
            return opposite(_abs(column, "<=", number))
        case ">=":
            return opposite(_abs(column, "<=", number - 1))
        case "<":
            return _abs(column, "<=", number - 1)
    if number < 0:
        return _no(column)
    within = all_of([compare(column.subject, ">=", -number), compare(column.subject, "<=", number)])
    return test(column.subject, within)


def _length(column: Column, op: str, value: Scalar) -> Truth:
    number = int(value)
    match op:
        case "=":
            return _no(column) if number < 0 else test(column.subject, _letters(column.subject, number))
        case ">=":
            return known(column.subject, True) if number <= 0 else test(column.subject, _letters(column.subject, number, RUN))
        case ">":
            return _length(column, ">=", number + 1)
        case "<":
            return opposite(_length(column, ">=", number))
    return opposite(_length(column, ">=", number + 1))


def _letters(subject: str, count: int, *after: Plain | str) -> Clause:
    if count > MOST_LETTERS:
        raise Unsayable(
            f"a length of {count:,} is more than the {MOST_LETTERS:,} that a pattern counts; send the length as an attribute"
        )
    return like(subject, joined([*([ONE] * count), *after]))


def _lower(column: Column, op: str, value: Scalar) -> Truth:
    text = str(value)
    if text != (text.lower() if column.function == "LOWER" else text.upper()):
        return _no(column)
    return test(column.subject, compare(f"lower({column.subject})", "=", text.lower()))


def _end(column: Column, op: str, value: Scalar) -> Truth:
    """LEFT and RIGHT give so many characters, or all of a shorter text."""
    count, text = int(column.arguments[0]), str(value)
    if count < 0:
        return ERROR
    if len(text) > count:
        return _no(column)
    if len(text) < count:
        return test(column.subject, compare(column.subject, "=", text))
    if not text:
        return known(column.subject, True)
    return test(column.subject, (starts if column.function == "LEFT" else ends)(column.subject, text))


def _substring(column: Column, op: str, value: Scalar) -> Truth:
    """Beyond the end of the text is an error, whatever is compared."""
    position, text, subject = int(column.arguments[0]), str(value), column.subject
    length = int(column.arguments[1]) if len(column.arguments) > 1 else None
    if length is not None and length < 0:
        return ERROR
    if position == 0:
        return known(subject, not text)
    long_enough = _letters(subject, abs(position), RUN)
    if length == 0:
        return partial(subject, *((long_enough, FALSE) if not text else (FALSE, long_enough)))
    found = _from_left(text, position, length) if position > 0 else _from_right(text, -position, length)
    if not text or found is None:
        return partial(subject, FALSE, long_enough)
    return partial(subject, like(subject, found), all_of([long_enough, negated(like(subject, found))]))


def _from_left(text: str, position: int, length: int | None) -> Pattern | None:
    """The text stands after `position - 1` characters; a text shorter than `length` ends the value."""
    if length is not None and len(text) > length:
        return None
    return joined([*([ONE] * (position - 1)), Plain(text), *([RUN] if len(text) == length else [])])


def _from_right(text: str, left: int, length: int | None) -> Pattern | None:
    """The text begins `left` characters before the end."""
    if len(text) != (left if length is None else min(length, left)):
        return None
    return joined([RUN, Plain(text), *([ONE] * (left - len(text)))])


def _concat(column: Column, op: str, value: Scalar) -> Truth:
    before, after, text = str(column.arguments[0]), str(column.arguments[1]), str(value)
    if not (text.startswith(before) and text.endswith(after) and len(text) >= len(before) + len(after)):
        return _no(column)
    return test(column.subject, compare(column.subject, "=", text[len(before) : len(text) - len(after)]))


def _no(column: Column) -> Truth:
    return known(column.subject, False)


_COMPARED: Final[dict[str, Callable[[Column, str, Scalar], Truth]]] = {
    "STRING": _string,
    "INT": _int,
    "ABS": _abs,
    "LENGTH": _length,
    "LOWER": _lower,
    "UPPER": _lower,
    "LEFT": _end,
    "RIGHT": _end,
    "SUBSTRING": _substring,
    "CONCAT": _concat,
}


def like_column(column: Column, pattern: Pattern) -> Truth:
    if column.type != "String" or column.function not in ("", "LOWER", "UPPER"):
        raise Unsayable(
            f"LIKE of {column.said} cannot be looked up; declare the attribute as a string, or let a transform compute it"
        )
    if not column.function:
        return test(column.subject, like(column.subject, pattern))
    folded = tuple(Plain(_fold(column, each.text)) if isinstance(each, Plain) else each for each in pattern)
    if folded != pattern:
        return _no(column)
    lower = tuple(Plain(each.text.lower()) if isinstance(each, Plain) else each for each in pattern)
    return test(column.subject, like_test(f"lower({column.subject})", lower))


def _fold(column: Column, text: str) -> str:
    return text.lower() if column.function == "LOWER" else text.upper()


def _a(type_: str) -> str:
    return "an integer" if type_ == "Integer" else f"a {type_.lower()}"
