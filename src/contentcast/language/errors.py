"""What is wrong with the text of a predicate or a transform: the line, the column, the place under a caret, and the way out."""

from __future__ import annotations

from typing import Self

from contentcast.model.errors import ContentcastError

WHAT_IS_POSSIBLE = (
    "a predicate compares attributes with literals (= <> < <= > >= <=>, BETWEEN, IN, LIKE, ILIKE, RLIKE, IS NULL, "
    "startswith, endswith, contains, in_cidr; lower and coalesce of an attribute) and joins the tests with AND, OR, NOT"
)


class TextError(ContentcastError):
    """`offset` counts characters from the text's start; `reason` is the message without the place."""

    def __init__(self, text: str, offset: int, reason: str) -> None:
        self.text, self.reason = text, reason
        self.offset = max(0, min(offset, len(text)))
        before = text[: self.offset]
        self.line = before.count("\n") + 1
        self.column = self.offset - (before.rfind("\n") + 1) + 1
        shown = text.split("\n")[self.line - 1]
        left, caret = _window(shown, self.column - 1)
        super().__init__(f"line {self.line}, column {self.column}: {reason}\n    {left}\n    {' ' * caret}^")

    def at(self, place: str) -> Self:
        """The same error with the place of the text among others before it."""
        found = type(self)(self.text, self.offset, self.reason)
        found.args = (f"{place}: {found}",)
        return found

    def __reduce__(self) -> tuple[type[TextError], tuple[str, int, str]]:
        return type(self), (self.text, self.offset, self.reason)


class PredicateError(TextError):
    """A text that is not a predicate of its space."""


class TransformError(TextError):
    """A text that is not a transform between its two spaces."""


def _window(line: str, at: int, width: int = 100) -> tuple[str, int]:
    """The part of a long line around the place, so that the caret stays on the screen. What does not print is one space."""
    start = max(0, at - width // 2)
    left = "..." if start else ""
    right = "..." if len(line) > start + width else ""
    shown = "".join(each if each.isprintable() else " " for each in line[start : start + width])
    return left + shown + right, at - start + len(left)
