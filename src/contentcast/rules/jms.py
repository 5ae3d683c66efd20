"""JMS message selectors to our language.

    JMSPriority > 5 AND type IN ('a', 'b') AND name LIKE 'roof!_%' ESCAPE '!'

Source: Jakarta Messaging 3.1, section 3.8 (message selectors): a subset of SQL-92 conditions, with SQL's unknown for
properties that are not there, as here. Strings and bools have = and <> alone, IN and LIKE ask of strings, BETWEEN of numbers.
Departs from it where properties have no type: an attribute has one kind, and a test that could never be true is refused.
A timestamp compared with a number is milliseconds since 1970, as in JMSTimestamp. Arithmetic between literals is computed, with
Java's whole division; over attributes it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, NoReturn

from contentcast.model.predicates.tree import MIRRORED
from contentcast.model.space import Space
from contentcast.model.values.kinds import Kind, Value
from contentcast.rules.attributes import COMPUTED, NUMBERS, OtherKind, WrongAttribute, find_attribute, fitting
from contentcast.rules.clauses import (
    FALSE,
    ONE,
    RUN,
    TRUE,
    Clause,
    Pattern,
    Plain,
    all_of,
    any_of,
    compare,
    is_absent,
    is_in,
    is_present,
    joined,
    like,
    negated,
    not_in,
    quoted,
)
from contentcast.rules.errors import RuleError
from contentcast.rules.jms_numbers import NoNumber, computed, read_number
from contentcast.rules.tokens import RuleTokens

DEEPEST: Final = 50

_TOKEN: Final = re.compile(
    r"""\s*+(?:
      (?P<number>0[xX][0-9a-fA-F]+[lL]?|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[lLfFdD]?)(?![\w$.])
    | (?P<string>'(?:[^']|'')*+')
    | (?P<word>[^\W\d][\w$.]*+|\$[\w$.]*+)
    | (?P<op><>|<=|>=|=|<|>)
    | (?P<sign>[(),+*/-])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS: Final = frozenset({"and", "or", "not", "between", "in", "like", "escape", "is", "null", "true", "false"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Attribute:
    name: str
    kind: Kind
    at: int

    @property
    def subject(self) -> str:
        return quoted(self.name)


@dataclass(frozen=True, slots=True)
class _Literal:
    value: str | bool | int | Decimal
    at: int


@dataclass(frozen=True, slots=True)
class _Condition:
    clause: Clause
    at: int


_Node = _Attribute | _Literal | _Condition


def jms_clause(space: Space, selector: str) -> Clause:
    if not isinstance(selector, str):
        raise RuleError.in_json("", f"a selector is a text, not {type(selector).__name__}")
    if not selector.strip():
        return TRUE  # JMS: an empty selector selects every message
    return _Selector(space, selector).clause()


class _Selector(RuleTokens):
    def __init__(self, space: Space, text: str) -> None:
        self.space = space
        super().__init__(text, _TOKEN, _KEYWORDS, "'")

    def clause(self) -> Clause:
        node = self._either()
        if self.sort != "end":
            self.refuse(self.start, f"unexpected {self.text[self.start : self.at]!r} after the selector")
        return self._condition(node)

    # --- tokens

    def refuse_sign(self, start: int) -> NoReturn:
        if self.text[start] == '"':
            self.refuse(start, "JMS writes strings in single quotes")
        super().refuse_sign(start)

    def _want(self, sort: str, word: str) -> None:
        if not self.take(sort, word):
            self.refuse(self.start, f"expected {word.upper()}")

    # --- conditions

    def _either(self) -> _Node:
        return self._chain("or", self._both, any_of)

    def _both(self) -> _Node:
        return self._chain("and", self._maybe_not, all_of)

    def _chain(self, word: str, part: Callable[[], _Node], join: Callable[[list[Clause]], Clause]) -> _Node:
        start = self.start
        first = part()
        if self.sort != "keyword" or self.word != word:
            return first
        parts = [self._condition(first)]
        while self.take("keyword", word):
            parts.append(self._condition(part()))
        return _Condition(join(parts), start)

    def _maybe_not(self) -> _Node:
        start, count = self.start, 0
        while self.take("keyword", "not"):
            count += 1
        node = self._test()
        if not count:
            return node
        clause = self._condition(node)
        return _Condition(negated(clause) if count % 2 else clause, start)

    def _condition(self, node: _Node) -> Clause:
        match node:
            case _Condition(clause, _):
                return clause
            case _Literal(bool(value), _):
                return TRUE if value else FALSE
            case _Attribute(name, kind, at):
                if kind.name != "bool":
                    self.refuse(at, f"{name} is {kind.article}, not a condition; compare it with a value")
                return compare(node.subject, "=", True)
        self.refuse(node.at, "a literal alone is no condition; compare a property with it")

    # --- tests

    def _test(self) -> _Node:
        left = self._sum()
        if self.sort == "op":
            op, at = self.word, self.start
            self.step()
            return _Condition(self._compared(left, op, self._sum(), at), left.at)
        if self.sort != "keyword" or self.word not in ("not", "between", "in", "like", "is"):
            return left
        if self.take("keyword", "is"):
            without = self.take("keyword", "not")
            self._want("keyword", "null")
            subject = self._attribute(left, "IS NULL").subject
            return _Condition(is_present(subject) if without else is_absent(subject), left.at)
        without = self.take("keyword", "not")
        if self.take("keyword", "between"):
            found = self._between(left)
            return _Condition(negated(found) if without else found, left.at)
        if self.take("keyword", "in"):
            return _Condition(self._in(left, without), left.at)
        if self.take("keyword", "like"):
            found = self._like(left)
            return _Condition(negated(found) if without else found, left.at)
        self.refuse(self.start, "expected BETWEEN, IN or LIKE after NOT")

    def _compared(self, left: _Node, op: str, right: _Node, at: int) -> Clause:
        match left, right:
            case _Attribute(), _Literal():
                return self._against(left, op, right)
            case _Literal(), _Attribute():
                return self._against(right, MIRRORED[op], left)
            case _Literal(), _Literal():
                return self._constants(left, op, right)
            case _Attribute(), _Attribute():
                self.refuse(right.at, f"two properties are compared; {COMPUTED}")
        self.refuse(at, f"{op} compares a property with a literal, not conditions")

    def _against(self, attribute: _Attribute, op: str, literal: _Literal) -> Clause:
        value = self._value(attribute, literal)
        if op not in ("=", "<>") and not (attribute.kind.name in NUMBERS or attribute.kind.name == "timestamp"):
            self.refuse(attribute.at, f"JMS compares strings and bools with = and <> alone, not with {op}")
        return compare(attribute.subject, op, value)

    def _value(self, attribute: _Attribute, literal: _Literal) -> Value:
        value = literal.value
        if attribute.kind.name == "timestamp" and isinstance(value, int) and not isinstance(value, bool):
            try:
                return _EPOCH + timedelta(milliseconds=value)
            except OverflowError:
                self.refuse(literal.at, f"{value} milliseconds since 1970 are outside the years 1 to 9999")
        try:
            return fitting(attribute.name, attribute.kind, value)
        except OtherKind as reason:
            self.refuse(literal.at, str(reason))

    def _constants(self, left: _Literal, op: str, right: _Literal) -> Clause:
        one, other = left.value, right.value
        sort, other_sort = (_sort_of(each) for each in (one, other))
        if sort != other_sort:
            return FALSE  # JMS: values of different types compare as false
        if sort != "number" and op not in ("=", "<>"):
            self.refuse(left.at, f"JMS compares strings and bools with = and <> alone, not with {op}")
        return TRUE if _COMPARED[op](one, other) else FALSE

    def _between(self, left: _Node) -> Clause:
        low = self._sum()
        self._want("keyword", "and")
        high = self._sum()
        return all_of([self._bound(left, ">=", low), self._bound(left, "<=", high)])

    def _bound(self, left: _Node, op: str, bound: _Node) -> Clause:
        return self._compared(left, op, bound, bound.at)

    def _in(self, left: _Node, without: bool) -> Clause:
        attribute = self._attribute(left, "IN")
        self._of_strings(attribute, "IN")
        self._want("sign", "(")
        values: list[Value] = []
        while True:
            if self.sort != "string":
                self.refuse(self.start, "IN of JMS lists strings in single quotes")
            values.append(self._value(attribute, _Literal(_unquoted(self.word), self.start)))
            self.step()
            if not self.take("sign", ","):
                break
        self._want("sign", ")")
        return not_in(attribute.subject, values) if without else is_in(attribute.subject, values)

    def _like(self, left: _Node) -> Clause:
        attribute = self._attribute(left, "LIKE")
        self._of_strings(attribute, "LIKE")
        if self.sort != "string":
            self.refuse(self.start, "LIKE takes a pattern in single quotes")
        pattern, at = _unquoted(self.word), self.start
        self.step()
        escape = None
        if self.take("keyword", "escape"):
            escape = _unquoted(self.word) if self.sort == "string" else ""
            if len(escape) != 1:
                self.refuse(self.start, "ESCAPE takes one character in single quotes")
            self.step()
        return like(attribute.subject, self._pattern(pattern, escape, at))

    def _pattern(self, text: str, escape: str | None, at: int) -> Pattern:
        parts: list[Plain | str] = []
        letters = iter(text)
        for letter in letters:
            if letter == escape:
                following = next(letters, None)
                if following not in ("%", "_", escape):
                    self.refuse(at, f"in the pattern {escape!r} stands before %, _ or itself only")
                parts.append(Plain(following))
            else:
                parts.append(RUN if letter == "%" else ONE if letter == "_" else Plain(letter))
        return joined(parts)

    def _attribute(self, node: _Node, word: str) -> _Attribute:
        if not isinstance(node, _Attribute):
            self.refuse(node.at, f"{word} asks of a property")
        return node

    def _of_strings(self, attribute: _Attribute, word: str) -> None:
        if attribute.kind.name != "string":
            instead = f"; write {attribute.name} = 1 OR {attribute.name} = 2" if word == "IN" else ""
            self.refuse(
                attribute.at, f"{word} of JMS asks of a string, and {attribute.name} is {attribute.kind.article}{instead}"
            )

    # --- values

    def _sum(self) -> _Node:
        node = self._product()
        while self.sort == "sign" and self.word in "+-":
            node = self._computed(node, self._product)
        return node

    def _product(self) -> _Node:
        node = self._signed()
        while self.sort == "sign" and self.word in "*/":
            node = self._computed(node, self._signed)
        return node

    def _computed(self, left: _Node, operand: Callable[[], _Node]) -> _Node:
        op, at = self.word, self.start
        self.step()
        right = operand()
        return _Literal(self._exact(lambda: computed(op, self._number(left, at), self._number(right, at)), at), left.at)

    def _number(self, node: _Node, at: int) -> int | Decimal:
        match node:
            case _Literal(int() | Decimal() as value, _) if not isinstance(value, bool):
                return value
            case _Attribute():
                self.refuse(at, f"arithmetic over the property {node.name}; {COMPUTED}")
        self.refuse(node.at, "arithmetic takes numbers")

    def _signed(self) -> _Node:
        start, negative = self.start, False
        signed = False
        while self.sort == "sign" and self.word in "+-":
            negative ^= self.word == "-"
            signed = True
            self.step()
        node = self._value_or_condition()
        if not signed:
            return node
        number = self._number(node, start)
        return _Literal(-number if negative else number, start)

    def _value_or_condition(self) -> _Node:
        start, word = self.start, self.word
        if self.take("sign", "("):
            self.depth += 1
            if self.depth > DEEPEST:
                self.refuse(start, f"nested too deeply; parentheses go {DEEPEST} deep")
            node = self._either()
            self._want("sign", ")")
            self.depth -= 1
            return node
        if self.sort == "keyword" and word in ("true", "false"):
            self.step()
            return _Literal(word == "true", start)
        if self.sort == "keyword" and word == "null":
            self.refuse(start, "JMS has no NULL literal; write IS NULL")
        if self.sort == "string":
            self.step()
            return _Literal(_unquoted(word), start)
        if self.sort == "number":
            self.step()
            return _Literal(self._exact(lambda: read_number(word), start), start)
        if self.sort == "word":
            self.step()
            return self._named(word, start)
        self.refuse(start, "expected a property or a value")

    def _named(self, name: str, start: int) -> _Attribute:
        if self.sort == "sign" and self.word == "(":
            self.refuse(start, f"JMS has no functions, and {name} is one")
        try:
            return _Attribute(name, find_attribute(self.space, name), start)
        except WrongAttribute as reason:
            self.refuse(start, str(reason))

    def _exact(self, number: Callable[[], int | Decimal], at: int) -> int | Decimal:
        try:
            return number()
        except NoNumber as reason:
            self.refuse(at, str(reason))


_COMPARED: Final[dict[str, Callable[..., bool]]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def _sort_of(value: object) -> str:
    return "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"


def _unquoted(word: str) -> str:
    return word[1:-1].replace("''", "'")
