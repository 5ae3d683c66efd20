"""What of somebody's rule cannot be said here: the place in their rule, the reason, and what to do instead.

A rule in JSON has its place as a path (`detail.state[1].numeric`), a rule in text as line and column with a caret.
"""

from __future__ import annotations

from contentcast.language.errors import TextError
from contentcast.model.errors import ContentcastError


class RuleError(ContentcastError):
    """`place` says where in the rule, `reason` is the message without the place."""

    def __init__(self, message: str, place: str, reason: str) -> None:
        super().__init__(message)
        self.place, self.reason = place, reason

    def __reduce__(self) -> tuple[type[RuleError], tuple[str, str, str]]:
        return type(self), (str(self), self.place, self.reason)

    @classmethod
    def in_json(cls, path: str, reason: str) -> RuleError:
        place = path or "the whole rule"
        return cls(f"{place}: {reason}", place, reason)

    @classmethod
    def in_text(cls, text: str, offset: int, reason: str) -> RuleError:
        shown = TextError(text, offset, reason)
        return cls(str(shown), f"line {shown.line}, column {shown.column}", reason)
