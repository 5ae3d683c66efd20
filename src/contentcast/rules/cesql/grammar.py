"""The grammar of CloudEvents SQL 1.0: text to a small tree with places.

Source: "CloudEvents SQL Expression Language", version 1.0, section 2, and the order of its reference grammar: NOT and minus
hold tightest, then LIKE, IN and EXISTS, then * / %, + -, comparisons, and AND, OR, XOR.
Departs from it in two points, both towards refusing. AND, OR and XOR mixed without parentheses are refused where that grammar,
which reads all three from the right, and the usual precedence disagree. And `NOT a = 1`, which is `(NOT a) = 1` there, is
refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from contentcast.rules.tokens import RuleTokens

DEEPEST: Final = 40

_TOKEN: Final = re.compile(
    r"""\s*+(?:
      (?P<word>[A-Za-z0-9_][A-Za-z0-9_.]*+)
    | (?P<string>'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+")
    | (?P<op>!=|<>|>=|<=|=|<|>)
    | (?P<sign>[(),+*/%-])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = frozenset({"and", "or", "xor", "not", "like", "in", "exists", "true", "false"})
_LOGIC: Final = ("and", "or", "xor")
_ESCAPED: Final = re.compile(r"\\(['\"])|''|\"\"")


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | int | bool
    at: int


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Unary:
    op: str  # not -
    part: Node
    at: int


@dataclass(frozen=True, slots=True)
class Binary:
    op: str  # and or xor = != < <= > >= + - * / %
    left: Node
    right: Node
    at: int


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: tuple[Node, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Like:
    part: Node
    pattern: str
    negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class In:
    part: Node
    items: tuple[Node, ...]
    negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Exists:
    name: str
    at: int


Node = Literal | Name | Unary | Binary | Call | Like | In | Exists


def read_expression(text: str) -> Node:
    return _Reading(text).whole()


class _Reading(RuleTokens):
    def __init__(self, text: str) -> None:
        super().__init__(text, _TOKEN, _WORDS, "'\"")

    def _want(self, sign: str) -> None:
        if not self.take("sign", sign):
            self.refuse(self.start, f"expected {sign!r}")

    def whole(self) -> Node:
        if self.sort == "end":
            self.refuse(0, "the expression is empty; TRUE asks for every event")
        node = self._logic()
        if self.sort != "end":
            self.refuse(self.start, f"unexpected {self.text[self.start : self.at]!r} after the expression")
        return node

    def _logic(self) -> Node:
        parts, ops = [self._comparison()], list[tuple[str, int]]()
        while self.comes("keyword", *_LOGIC):
            ops.append((self.word, self.start))
            self.step()
            parts.append(self._comparison())
        self._check_mixed(ops)
        node = parts.pop()
        for op, at in reversed(ops):
            node = Binary(op, parts.pop(), node, at)
        return node

    def _check_mixed(self, ops: list[tuple[str, int]]) -> None:
        """From the right and by precedence is the same for ORs that are followed by ANDs, and for one operator alone."""
        for (before, _), (op, at) in pairwise(ops):
            if op != before and (before, op) != ("or", "and"):
                self.refuse(at, f"{op.upper()} after {before.upper()} without parentheses is read in two ways; write them")

    def _comparison(self) -> Node:
        node = self._sum()
        while self.sort == "op":
            op, at = self.word, self.start
            self.step()
            node = Binary("!=" if op == "<>" else op, node, self._sum(), at)
        return node

    def _sum(self) -> Node:
        node = self._product()
        while self.comes("sign", "+", "-"):
            op, at = self.word, self.start
            self.step()
            node = Binary(op, node, self._product(), at)
        return node

    def _product(self) -> Node:
        node = self._tested()
        while self.comes("sign", "*", "/", "%"):
            op, at = self.word, self.start
            self.step()
            node = Binary(op, node, self._tested(), at)
        return node

    def _tested(self) -> Node:
        node = self._unary()
        while self.comes("keyword", "like", "in", "not"):
            at = self.start
            without = self.take("keyword", "not")
            if self.take("keyword", "like"):
                if self.sort != "string":
                    self.refuse(self.start, "LIKE takes a pattern in quotes")
                node = Like(node, _unquoted(self.word), without, at)
                self.step()
            elif self.take("keyword", "in"):
                node = In(node, self._list(), without, at)
            else:
                self.refuse(self.start, "expected LIKE or IN after NOT")
        return node

    def _list(self) -> tuple[Node, ...]:
        self._want("(")
        if self.comes("sign", ")"):
            self.refuse(self.start, "IN needs at least one value")
        return self._arguments()

    def _arguments(self) -> tuple[Node, ...]:
        found = [self._nested()]
        while self.take("sign", ","):
            found.append(self._nested())
        self._want(")")
        return tuple(found)

    def _nested(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(self.start, f"nested too deeply; parentheses go {DEEPEST} deep")
        node = self._logic()
        self.depth -= 1
        return node

    def _unary(self) -> Node:
        start = self.start
        if self.take("keyword", "not"):
            self.depth += 1
            if self.depth > DEEPEST:
                self.refuse(start, f"nested too deeply; at most {DEEPEST} NOTs stand in a row")
            part = self._unary()
            self.depth -= 1
            if self.sort == "op" or self.comes("sign", "+", "-", "*", "/", "%") or self.comes("keyword", "like", "in", "not"):
                self.refuse(
                    start, f"NOT holds tighter than {self.word.upper()} in CloudEvents SQL; write NOT (...) around the test"
                )
            return Unary("not", part, start)
        if self.comes("sign", "-", "+"):
            op = self.word
            self.step()
            if self.sort == "word" and self.word.isdigit():
                return self._integer(start, -1 if op == "-" else 1)
            if op == "+":
                self.refuse(start, "a plus sign stands before digits only")
            self.depth += 1
            if self.depth > DEEPEST:
                self.refuse(start, f"nested too deeply; at most {DEEPEST} minus signs stand in a row")
            part = self._unary()
            self.depth -= 1
            return Unary("-", part, start)
        return self._primary()

    def _integer(self, start: int, sign: int) -> Node:
        value = sign * int(self.word[:20])
        if not -(2**31) <= value < 2**31:
            self.refuse(start, f"{value} is no 32-bit integer, which is what CloudEvents SQL has")
        self.step()
        return Literal(value, start)

    def _primary(self) -> Node:
        start, word = self.start, self.word
        if self.take("sign", "("):
            node = self._nested()
            self._want(")")
            return node
        if self.take("keyword", "true", "false"):
            return Literal(word == "true", start)
        if self.take("keyword", "exists"):
            name = self.word
            if self.sort != "word" or name.isdigit():
                self.refuse(self.start, "EXISTS takes the name of an attribute")
            at = self.start
            self.step()
            return Exists(name, at)
        if self.sort == "string":
            self.step()
            return Literal(_unquoted(word), start)
        if self.sort == "word":
            if word.isdigit():
                return self._integer(start, 1)
            self.step()
            if self.take("sign", "("):
                return Call(word.upper(), () if self.take("sign", ")") else self._arguments(), start)
            return Name(word, start)
        self.refuse(start, "expected an attribute or a value")


def _unquoted(word: str) -> str:
    """A backslash before a quote is dropped; every other one stays, as LIKE may read it."""
    quote = word[0]

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        return quote if found[0] == quote * 2 else found[0]

    return _ESCAPED.sub(replaced, word[1:-1])
