"""The two sides of a test, read from tokens: an attribute, and the literals that it is compared with.

    attribute := name | lower(attribute) | coalesce(attribute, ..., value) | size(list)
    value     := number | string | X'1F00' | TIMESTAMP string | DATE string | TRUE | FALSE | NULL

Rule: a literal is read as a value of its attribute's kind, so one that stands before its attribute waits for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from contentcast.language import literals
from contentcast.language.operands import FUNCTIONS, NotRead, Operand, TooDeep
from contentcast.language.printer import quote_name
from contentcast.language.tokens import Tokens
from contentcast.model.errors import nearest
from contentcast.model.space import Space
from contentcast.model.values.kinds import Kind, Value

DEEPEST: Final = 100
"""How deep parentheses may be nested, and how many NOTs may stand in a row."""
ReadLiteral = Callable[[int, str, str, bool], Value]
"""Takes where a string or number literal starts, its text, the kind's name (or "date") and whether it is negated.

Bulk loading puts slots here.
"""

_BEFORE_STRING: Final = re.compile(r"(timestamp|date)[ \t\r\n]*+(?=['\"])", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"(?:[ ]*+-?[0-9]++(?:\.[0-9]++)?+[ ]*+,)*+[ ]*+-?[0-9]++(?:\.[0-9]++)?+[ ]*+(?=\))")
CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
MOST_AROUND: Final = 3
"""How many parentheses around one attribute or literal are seen through; to look further at each one would be quadratic."""


def read_plain(start: int, raw: str, kind: str, negative: bool) -> Value:
    if kind == "string":
        return literals.read_string(raw)
    if kind in ("timestamp", "date"):
        return literals.read_timestamp(literals.read_string(raw), date_only=kind == "date")
    return literals.read_float(raw, negative) if kind == "float" else literals.read_number(raw, negative)


class ValueReader(Tokens):
    def __init__(self, space: Space, text: str, read_literal: ReadLiteral) -> None:
        self.read_literal = read_literal
        self.depth = 0
        """Of functions in each other."""
        super().__init__(space, text)

    def operand(self) -> Operand:
        """An attribute, or what `lower` and `coalesce` make of some."""
        if self.sort != "word" or self.word not in FUNCTIONS or not self.is_call():
            start = self.start
            name, kind = self.attribute()
            return Operand(start, kind, ((name, False),))
        start, function, word = self.start, FUNCTIONS[self.word], self.word
        if function == "coalesce" and self.read_literal is not read_plain:
            raise NotRead(start, "coalesce is read text by text")
        if self.depth == DEEPEST:
            raise TooDeep(start, f"nested too deeply; functions go {DEEPEST} deep")
        self.depth += 1
        self.step()
        self.want("(")
        found = self.operand()
        self.depth -= 1
        if function == "size":
            self.want(")")
            return found.sized(start, word)
        if function == "lower":
            self.want(")")
            return found.lowered(start)
        while self.take(","):
            if self.is_literal() or (self.sort == "word" and self.word in CONSTANTS):
                found = found.otherwise(self.value(found.name, found.kind))
                break
            found = found.joined(self.operand())
        self.want(")")
        return found

    def attribute(self) -> tuple[str, Kind]:
        depth = self.parentheses()
        if self.sort == "quoted":
            name = self.word[1:-1]
        elif self.sort == "word":
            name = self.text[self.start : self.at]
            if quote_name(name) != name:
                raise NotRead(self.start, f"{name} is a word of the grammar; an attribute of that name goes in back-ticks")
        else:
            raise self.expected("an attribute")
        kind = self.kinds.get(name)
        if kind is None:
            raise NotRead(self.start, f"{self.space.name} has no attribute {name[:40]!r}{nearest(name[:100], self.kinds)}")
        self.step()
        self._close(depth)
        return name, kind

    def parentheses(self, most: int = DEEPEST) -> int:
        depth = 0
        while self.word == "(" and self.sort == "sign" and depth < most:
            depth += 1
            self.step()
        return depth

    def _close(self, depth: int) -> None:
        for _ in range(depth):
            self.want(")")

    def is_literal(self) -> bool:
        """Does a literal come next, perhaps in parentheses?"""
        before = self.at, self.start, self.sort, self.word
        if self.parentheses(MOST_AROUND) and self.sort == "word" and self.word in CONSTANTS:
            found = True
        else:
            found = (
                self.sort in ("number", "string", "hex") or (self.sort == "sign" and self.word == "-") or self._is_timestamp()
            )
        self.at, self.start, self.sort, self.word = before
        return found

    def _is_timestamp(self) -> bool:
        return self.word in ("timestamp", "date") and self.sort == "word"

    def value(self, name: str, kind: Kind) -> Value | None:
        return self.value_source()(name, kind)

    def value_source(self) -> Callable[[str, Kind], Value | None]:
        """The literal that comes next, to be read once its attribute is known."""
        depth = self.parentheses()
        negative = self.word == "-" and self.sort == "sign"
        if negative:
            self.step()
            depth += self.parentheses()
        start, sort, word = self.start, self.sort, self.word
        if sort == "word" and not negative and word in CONSTANTS:
            truth = CONSTANTS[word]
            found: Callable[[str, Kind], Value | None] = lambda name, kind: checked_constant(truth, kind, start)  # noqa: E731
        elif sort == "word" and not negative and self._is_timestamp():
            if not _BEFORE_STRING.match(self.text, start):
                raise self.expected(f"a string after {word.upper()}")
            self.step()
            raw, inside = self.word, self.start
            found = lambda name, kind: self._timestamp(inside, raw, kind, start, word)  # noqa: E731
        elif sort in ("number", "string", "hex") and not (negative and sort != "number"):
            found = lambda name, kind: self._literal(start, sort, word, kind, negative)  # noqa: E731
        else:
            raise self.expected("a value")
        self.step()
        self._close(depth)
        return found

    def _timestamp(self, inside: int, raw: str, kind: Kind, start: int, word: str) -> Value:
        if kind.name != "timestamp":
            raise NotRead(start, f"the attribute is {kind.article}, not a timestamp")
        try:
            return self.read_literal(inside, raw, word, False)
        except ValueError as reason:
            raise NotRead(start, str(reason)) from None

    def _literal(self, start: int, sort: str, word: str, kind: Kind, negative: bool) -> Value:
        try:
            if sort == "string" and kind.name == "string":
                return self.read_literal(start, word, "string", False)
            if sort == "number" and kind.name in ("int", "float"):
                if word[-1] in "lL" and not word[:-1].isdigit():
                    raise NotRead(start, f"{word[:40]} is not a whole number")
                if word[-1].isalpha():
                    return read_plain(start, word[:-1], kind.name, negative)
                return self.read_literal(start, word, kind.name, negative)
            if sort == "hex" and kind.name == "bytes":
                return literals.read_hex(word[2:-1])
        except ValueError as reason:
            raise NotRead(start, str(reason)) from None
        raise NotRead(start, f"the attribute is {kind.article}; {word[:40]} is not")

    def values(self, name: str, kind: Kind) -> tuple[Value | None, ...]:
        if self.word != "(" or self.sort != "sign":
            raise self.expected("a list of values in parentheses")
        plain = _NUMBERS.match(self.text, self.at) if kind.name in ("int", "float") else None
        if plain is not None and self.read_literal is read_plain:
            return self._numbers(plain, kind)
        self.step()
        found = [self.value(name, kind)]
        while self.take(","):
            found.append(self.value(name, kind))
        self.want(")")
        return tuple(found)

    def _numbers(self, plain: re.Match[str], kind: Kind) -> tuple[Value, ...]:
        """A list of nothing but short numbers, in one go: 30,000 of them one by one took 0.2 s."""
        read = literals.read_float if kind.name == "float" else literals.read_number
        known: dict[str, Value] = {}
        start = self.start
        try:
            for raw in dict.fromkeys(plain[0].split(",")):
                bare = raw.strip(" ")
                known[raw] = read(bare.removeprefix("-"), bare[0] == "-")
        except ValueError as reason:
            raise NotRead(start, str(reason)) from None
        self.at = plain.end()
        self.step()
        self.want(")")
        return tuple(known[raw] for raw in plain[0].split(","))


def checked_constant(truth: bool | None, kind: Kind, start: int) -> Value | None:
    if truth is not None and kind.name != "bool":
        raise NotRead(start, f"the attribute is {kind.article}; {str(truth).upper()} is a bool")
    return truth
