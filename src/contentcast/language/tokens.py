"""The tokens of a predicate: a text is cut into words, names, numbers, strings and signs, from left to right.

Rule: one token is looked at at a time, and each character is read once, also where a quote is never closed.
"""

from __future__ import annotations

import re
from typing import Final

from contentcast.language.operands import NotRead
from contentcast.model.space import Space

# Each alternative is possessive or has one way to match, so a text is read in one pass, also where a quote is never closed.
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*+(?:--[^\r\n]*+[ \t\r\n]*+)*+(?:
      (?P<number>(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?P<suffix>[LlDd]?+)(?![\w.'"`]))
    | (?P<hex>[xX]'[0-9a-fA-F]*+')(?!['"])
    | (?P<string>'(?:[^'\\]++|\\.|'')*+'(?!['"])|"(?:[^"\\]++|\\.|"")*+"(?!['"]))
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*+(?![\w'"`.\\$@])|(?i:and|between|date|escape|from|i?like|rlike|regexp|timestamp)(?=['"]))
    | (?P<quoted>`[^`]++`)(?![\w`.'"])
    | (?P<op><=>|<>|<=|>=|!=|==|=|<|>)(?![<>=!|&*%^~@?:\#])
    | (?P<sign>[(),]|->|-(?![->]))
    | (?P<comment>/\*(?!\+)(?:[^*/]++|\*(?!/)|/(?!\*))*+\*/)
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_CALLED: Final = re.compile(r"[ \t\r\n]*+\(")


class Tokens:
    """One text and the token that is looked at: its sort, its words and where it starts."""

    def __init__(self, space: Space, text: str) -> None:
        self.space, self.text = space, text
        self.kinds = space.kinds
        self.at = self.start = 0
        self.sort, self.word = "", ""
        self.step()

    def step(self) -> None:
        """To the next token. Words that are no names are lower case; a sign or operator is its own word."""
        while True:
            found = _TOKEN.match(self.text, self.at)
            if found is None:
                raise self._unknown_sign()
            self.at = found.end()
            sort = found.lastgroup or ""
            if sort != "comment":
                break
        if sort == "suffix":
            sort = "number"
        self.sort = sort
        word = found[sort]
        self.start = self.at - len(word)
        self.word = word.lower() if sort == "word" else word

    def _unknown_sign(self) -> NotRead:
        at = self.at
        while self.text[at : at + 1] in (" ", "\t", "\r", "\n"):
            at += 1
        sign = self.text[at : at + 1]
        if sign and sign in "'\"`":
            return NotRead(at, f"the text after {sign} has no closing {sign}, or something stands close to it")
        return NotRead(at, f"unexpected {self.text[at : at + 20]!r}")

    def expected(self, what: str) -> NotRead:
        return NotRead(self.start, f"expected {what}")

    def take(self, *words: str) -> bool:
        """Go past these words or signs if they come next."""
        if self.word != words[0] or self.sort in ("string", "quoted"):
            return False
        self.step()
        for word in words[1:]:
            self.want(word)
        return True

    def want(self, word: str) -> None:
        if self.word != word or self.sort in ("string", "quoted"):
            raise self.expected(repr(word.upper()))
        self.step()

    def is_call(self) -> bool:
        """Does a parenthesis follow the word?"""
        return _CALLED.match(self.text, self.at) is not None
