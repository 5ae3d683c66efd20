"""Regular expressions that say no more than LIKE: a few alternatives of plain text and wildcards.

    prod|staging      ->  prod, staging                api-.*       ->  api-%
    (api|web)-[12]    ->  api-1, api-2, web-1, web-2   .+           ->  _%

Most expressions that people write in matchers are of this sort, and equality and prefixes are found faster than expressions.
The syntax is that of RE2, the expression holds for the whole value, and `.` is any character, as in Prometheus 3.
Rule: `alternatives` gives exactly the strings of the expression, or None when it cannot say them.
"""

from __future__ import annotations

import re
from typing import Final

from contentcast.rules.clauses import ONE, RUN, Pattern, Plain, joined

MOST_ALTERNATIVES: Final = 64
_DEEPEST: Final = 20
_SPECIAL: Final = frozenset("\\.+*?()[]{}|^$")
_SIGNS: Final = re.compile(r"([\\.+*?()\[\]{}|^$])")
_CLASS: Final = re.compile(r"\[((?:[\w .:@/_-]|\\[.\-\]\\])+)\]")
_GROUP: Final = re.compile(r"\((?:\?:|\?P?<\w+>)?")

Parts = tuple[Plain | str, ...]


class _Beyond(Exception):
    """More than LIKE says."""


def escape_regular(text: str) -> str:
    return _SIGNS.sub(r"\\\1", text)


def alternatives(expression: str) -> list[Pattern] | None:
    """The patterns of which a whole value must match one."""
    try:
        reading = _Reading(expression)
        found = reading.either(0)
        if reading.at < len(expression):
            return None
    except _Beyond:
        return None
    return list(dict.fromkeys(joined(each) for each in found))


class _Reading:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def either(self, depth: int) -> list[Parts]:
        if depth > _DEEPEST:
            raise _Beyond
        found = self.sequence(depth)
        while self._next() == "|":
            self.at += 1
            found = _few([*found, *self.sequence(depth)])
        return found

    def sequence(self, depth: int) -> list[Parts]:
        found: list[Parts] = [()]
        while (sign := self._next()) not in ("", "|", ")"):
            if (sign == "^" and self.at == 0) or (sign == "$" and self.at == len(self.text) - 1):
                self.at += 1
            else:
                more = self._repeated(self._atom(sign, depth))
                found = _few([(*one, *other) for one in found for other in more])
        return found

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _atom(self, sign: str, depth: int) -> list[Parts]:
        if sign == "(":
            opened = _GROUP.match(self.text, self.at)
            if opened is None or self.text[opened.end() : opened.end() + 1] == "?":
                raise _Beyond
            self.at = opened.end()
            found = self.either(depth + 1)
            if self._next() != ")":
                raise _Beyond
            self.at += 1
            return found
        if sign == "[":
            return self._class()
        if sign == ".":
            self.at += 1
            return [(ONE,)]
        if sign == "\\":
            letter = self.text[self.at + 1 : self.at + 2]
            if not letter or (letter.isalnum() and letter.isascii()) or letter == "_":
                raise _Beyond
            self.at += 2
            return [(Plain(letter),)]
        if sign in _SPECIAL:
            raise _Beyond
        self.at += 1
        return [(Plain(sign),)]

    def _class(self) -> list[Parts]:
        """A few characters in brackets, ranges of them included."""
        found = _CLASS.match(self.text, self.at)
        if found is None:
            raise _Beyond
        self.at = found.end()
        letters: list[str] = []
        inside = re.findall(r"\\(.)|(.)", found[1])
        at = 0
        while at < len(inside):
            first = inside[at][0] or inside[at][1]
            if at + 2 < len(inside) and inside[at + 1][1] == "-":
                last = inside[at + 2][0] or inside[at + 2][1]
                if not first <= last or ord(last) - ord(first) >= MOST_ALTERNATIVES:
                    raise _Beyond
                letters += map(chr, range(ord(first), ord(last) + 1))
                at += 3
            else:
                letters.append(first)
                at += 1
        return _few([(Plain(each),) for each in dict.fromkeys(letters)])

    def _repeated(self, atom: list[Parts]) -> list[Parts]:
        sign = self._next()
        if sign not in ("*", "+", "?", "{") or sign == "":
            return atom
        self.at += 1
        if self._next() in ("*", "+", "?", "{") and self._next() != "":
            # Lazy or not, a whole value matches or does not; anything else repeated twice is left alone.
            if self._next() != "?":
                raise _Beyond
            self.at += 1
        if sign == "?":
            return _few([*atom, ()])
        if sign == "{" or atom != [(ONE,)]:
            raise _Beyond
        return [(RUN,)] if sign == "*" else [(ONE, RUN)]


def _few(found: list[Parts]) -> list[Parts]:
    if len(found) > MOST_ALTERNATIVES:
        raise _Beyond
    return found
