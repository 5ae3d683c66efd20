"""A rule's text, token by token, as the readers of JMS selectors and of CloudEvents SQL take it.

Rule: one token is looked at at a time; keywords are lower case whatever the text has, all other words are as written.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import NoReturn

from contentcast.rules.errors import RuleError


class RuleTokens:
    """`token` has a group for each sort of token: word, string, op, sign, end, ...

    A word out of `keywords` is of the sort keyword. `quotes` are the signs that begin a string.
    """

    def __init__(self, text: str, token: re.Pattern[str], keywords: Set[str], quotes: str) -> None:
        self.text = text
        self._token, self._keywords, self._quotes = token, keywords, quotes
        self.at = self.start = self.depth = 0
        self.sort = self.word = ""
        self.step()

    def step(self) -> None:
        found = self._token.match(self.text, self.at)
        if found is None:
            start = self.at + len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
            sign = self.text[start]
            if sign in self._quotes:
                self.refuse(start, f"the text after {sign} has no closing {sign}")
            self.refuse_sign(start)
        self.sort = found.lastgroup or ""
        self.start, self.at, self.word = found.start(self.sort), found.end(), found[self.sort]
        if self.sort == "word" and self.word.lower() in self._keywords:
            self.sort, self.word = "keyword", self.word.lower()

    def refuse_sign(self, start: int) -> NoReturn:
        """No token begins here."""
        self.refuse(start, f"unexpected {self.text[start : start + 10]!r}")

    def refuse(self, at: int, reason: str) -> NoReturn:
        raise RuleError.in_text(self.text, at, reason)

    def comes(self, sort: str, *words: str) -> bool:
        return self.sort == sort and self.word in words

    def take(self, sort: str, *words: str) -> bool:
        """Go past one of these words if it comes next."""
        if not self.comes(sort, *words):
            return False
        self.step()
        return True
