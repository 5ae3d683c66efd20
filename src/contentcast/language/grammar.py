"""The grammar of predicates, read from left to right without recursion: what nearly every text needs, in linear time.

    either := both (OR both)*          both := negated (AND negated)*        negated := NOT* (test | '(' either ')')
    test   := attribute op value | value op attribute | attribute [NOT] IN (value, ...)
            | attribute [NOT] BETWEEN value AND value | attribute [NOT] LIKE value [ESCAPE string]
            | attribute IS [NOT] NULL, TRUE, FALSE or DISTINCT FROM value
            | attribute [NOT] ILIKE value [ESCAPE string] | attribute [NOT] RLIKE value | in_cidr | rlike (attribute, value)
            | startswith | endswith | contains (attribute, value) | attribute | TRUE | FALSE | NULL
            | array_contains(list, value) | arrays_overlap(list, array(value, ...)) | exists | forall (list, name -> either)
    attribute := name | lower(attribute) | coalesce(attribute, ..., value) | size(list)

An open parenthesis puts what is half read on a stack of its own, so the Python stack stays as it is and threads do not meet.
What is not for certain one of these raises `NotRead` with the place; `parser` then asks sqlglot about a short text, which knows
the odd corners of Spark's SQL and finds the best words for what is wrong, and refuses a long one.
Forms that are not read elsewhere (see `operands`) raise `Wrong`: no one else is asked.
Rule: what is read here is what the parser makes of it with sqlglot, where sqlglot is asked (tests/properties/test_grammar.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from contentcast.language import literals
from contentcast.language.operands import FUNCTIONS, NotRead, Operand, TooDeep, Wrong, check_network, check_regex, lowered
from contentcast.language.printer import quote_name
from contentcast.model.errors import nearest
from contentcast.model.predicates.spelling import ELEMENT
from contentcast.model.predicates.tree import (
    And,
    Between,
    Compare,
    Constant,
    Exists,
    ForAll,
    In,
    InCidr,
    IsNull,
    IsTruth,
    Like,
    Not,
    Or,
    Rlike,
    TextTest,
    Tree,
)
from contentcast.model.space import Space
from contentcast.model.values.kinds import Kind, Value
from contentcast.model.values.patterns import tokens_of

DEEPEST: Final = 100
"""How deep parentheses may be nested, and how many NOTs may stand in a row."""
MOST_TESTS: Final = 8_192
"""Tests of one predicate: each takes 10 to 50 microseconds on its way to the normal form. A list after IN is one test."""

ReadLiteral = Callable[[int, str, str, bool], Value]
"""Takes where a string or number literal starts, its text, the kind's name (or "date") and whether it is negated.

Bulk loading puts slots here.
"""

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
_BEFORE_STRING: Final = re.compile(r"(timestamp|date)[ \t\r\n]*+(?=['\"])", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"(?:[ ]*+-?[0-9]++(?:\.[0-9]++)?+[ ]*+,)*+[ ]*+-?[0-9]++(?:\.[0-9]++)?+[ ]*+(?=\))")
_OPS: Final = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_MIRRORED: Final = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEXT_TESTS: Final = frozenset({"startswith", "endswith", "contains"})
_LIST_TESTS: Final = frozenset({"array_contains", "arrays_overlap", "exists", "forall"})
_CALLED: Final = re.compile(r"[ \t\r\n]*+\(")
_CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_REGEX_WORDS: Final = ("rlike", "regexp", "regexp_like")
_AFTER_ATTRIBUTE: Final = frozenset({"not", "in", "between", "like", "ilike", "rlike", "regexp", "is"})
_FEW: Final = 3
"""How many parentheses around one attribute or literal are seen through; to look further at each one would be quadratic."""


def read_tree(space: Space, text: str, read_literal: ReadLiteral | None = None, most_tests: int | None = MOST_TESTS) -> Tree:
    """The tree of a text, or `NotRead`."""
    return _Text(space, text, read_literal or read_plain).tree(most_tests)


def read_plain(start: int, raw: str, kind: str, negative: bool) -> Value:
    if kind == "string":
        return literals.read_string(raw)
    if kind in ("timestamp", "date"):
        return literals.read_timestamp(literals.read_string(raw), date_only=kind == "date")
    return literals.read_float(raw, negative) if kind == "float" else literals.read_number(raw, negative)


class _Text:
    """One text and the token that is looked at: its sort, its words and where it starts."""

    def __init__(self, space: Space, text: str, read_literal: ReadLiteral) -> None:
        self.space, self.text, self.read_literal = space, text, read_literal
        self.kinds = space.kinds
        self.inside = False
        """Is it a predicate of elements, which a parenthesis ends?"""
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
        self.start = found.end() - len(word)
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

    # --- either, both, negated

    def tree(self, most_tests: int | None) -> Tree:
        waiting: list[tuple[list[Tree], list[Tree], bool]] = []
        tests = 0
        either: list[Tree] = []
        both: list[Tree] = []
        while True:
            negated = self._nots()
            if self._opens():
                if len(waiting) == DEEPEST:
                    raise TooDeep(self.start, f"nested too deeply; parentheses go {DEEPEST} deep")
                self.step()
                waiting.append((either, both, negated))
                either, both = [], []
                continue
            tests += 1
            if most_tests is not None and tests > most_tests:
                reason = (
                    f"more than {most_tests:,} tests; write values of one attribute as a list after IN, or split the predicate"
                )
                raise Wrong(self.start, reason)
            operand = self._test()
            while True:
                both.append(_not(operand) if negated else operand)
                if self.take("and"):
                    break
                either.append(both[0] if len(both) == 1 else And(tuple(both)))
                both = []
                if self.take("or"):
                    break
                operand = either[0] if len(either) == 1 else Or(tuple(either))
                if not waiting:
                    if self.inside and self.sort == "sign" and self.word == ")":
                        return operand
                    if self.sort != "end":
                        raise NotRead(self.start, f"unexpected {self.word[:40]!r}")
                    return operand
                self.want(")")
                either, both, negated = waiting.pop()

    def _nots(self) -> bool:
        count = 0
        while self.word == "not" and self.sort == "word":
            count += 1
            if count > DEEPEST:
                raise TooDeep(self.start, f"nested too deeply; at most {DEEPEST} NOTs stand in a row")
            self.step()
        return count % 2 == 1

    def _opens(self) -> bool:
        """Is this parenthesis one around tests, and not `(attribute) = 5` or `(5) = attribute`?"""
        if self.sort != "sign" or self.word != "(":
            return False
        before = self.at, self.start, self.sort, self.word
        try:
            opened = self._parentheses(_FEW)
            value = self.sort in ("number", "string", "hex", "word", "quoted")
            self.step()
            closed = 0
            while self.word == ")" and self.sort == "sign" and closed < opened:
                closed += 1
                self.step()
            compared = self.sort == "op" or (self.sort == "word" and self.word in _AFTER_ATTRIBUTE)
            return not (value and closed == opened and compared)
        except NotRead:
            return True
        finally:
            self.at, self.start, self.sort, self.word = before

    # --- tests

    def _test(self) -> Tree:
        if self.sort == "word":
            if self.word in _TEXT_TESTS:
                return self._text_test(self.word)
            if self.word in _REGEX_WORDS and self._is_call():
                return self._text_test("rlike")
            if self.word == "in_cidr" and self._is_call():
                return self._text_test("in_cidr")
            if self.word in _LIST_TESTS and self._is_call():
                return self._list_test(self.word)
            if self.word in _CONSTANTS:
                return self._constant()
        if self._is_literal():
            return self._mirrored(self._value_source())
        operand = self._operand()
        return operand.tested(self._of_one(operand.name, operand.kind))

    def _of_one(self, name: str, kind: Kind) -> Tree:
        if kind.element is not None and not (self.sort == "word" and self.word == "is"):
            raise Wrong(self.start, f"{name} is {kind.article}; {_how_to_ask(name, kind, self.word)}")
        if self.sort == "op":
            op = _OPS[self.word]
            self.step()
            return Compare(name, op, self._value(name, kind))
        if self.sort != "word":
            return self._bare(name, kind)
        negated = self.take("not")
        found = self._tested(name, kind)
        if found is None:
            if negated:
                raise self.expected("IN, BETWEEN, LIKE, ILIKE or RLIKE")
            return self._bare(name, kind)
        return _not(found) if negated else found

    def _tested(self, name: str, kind: Kind) -> Tree | None:
        if self.take("in"):
            return In(name, self._values(name, kind))
        if self.take("between"):
            low = self._value(name, kind)
            self.want("and")
            return Between(name, low, self._value(name, kind))
        if self.take("like"):
            return self._like(name, kind)
        if self.take("ilike"):
            return self._ilike(name, kind)
        if self.take("rlike") or self.take("regexp"):
            return self._rlike(name, kind)
        return self._is(name, kind) if self.take("is") else None

    def _bare(self, name: str, kind: Kind) -> Tree:
        if kind.name != "bool":
            raise NotRead(self.start, f"{name} is {kind.article}, not a condition; compare it with a value")
        return Compare(name, "=", True)

    def _constant(self) -> Tree:
        truth = _CONSTANTS[self.word]
        start = self.start
        self.step()
        if self.sort == "op":
            return self._mirrored(lambda name, kind: _checked_constant(truth, kind, start))
        return Constant(truth)

    def _mirrored(self, value: Callable[[str, Kind], Value]) -> Tree:
        if self.sort != "op":
            raise self.expected("a comparison; a literal alone is not a test")
        op = _MIRRORED[_OPS[self.word]]
        self.step()
        operand = self._operand()
        if operand.kind.element is not None:
            raise Wrong(
                operand.start, f"{operand.name} is {operand.kind.article}; {_how_to_ask(operand.name, operand.kind, '=')}"
            )
        return operand.tested(Compare(operand.name, op, value(operand.name, operand.kind)))

    def _is(self, name: str, kind: Kind) -> Tree:
        negated = self.take("not")
        found: Tree
        if self.take("null"):
            found = IsNull(name)
        elif self.take("distinct", "from"):
            found, negated = Compare(name, "<=>", self._value(name, kind)), not negated
        elif self.word in ("true", "false") and self.sort == "word" and kind.name == "bool":
            found = IsTruth(name, self.word == "true")
            self.step()
        else:
            raise self.expected("[NOT] NULL, or TRUE or FALSE of a bool")
        return _not(found) if negated else found

    def _like(self, name: str, kind: Kind) -> Tree:
        if kind.name != "string":
            raise NotRead(self.start, f"LIKE asks of a string; {name} is {kind.article}")
        start = self.start
        pattern: Value | None = self._value(name, kind)
        escape = "\\"
        if self.take("escape"):
            if self.sort != "string":
                raise self.expected("one character in quotes")
            given = self._value(name, kind)
            if not isinstance(given, str) or len(given) != 1:
                raise self.expected("one character as ESCAPE")
            escape = given
        if isinstance(pattern, str):
            try:
                tokens_of(pattern, escape)
            except ValueError as reason:
                raise NotRead(start, str(reason)) from None
        return Like(name, pattern, escape)

    def _ilike(self, name: str, kind: Kind) -> Tree:
        """`lower(name) LIKE` the small letters of the pattern, which is what Spark makes of it."""
        start = self.start
        like = self._like(name, kind)
        assert isinstance(like, Like)
        if like.pattern is not None and not isinstance(like.pattern, str):
            raise NotRead(start, "the pattern of ILIKE is read on its own")
        if like.escape.lower() != like.escape:
            raise Wrong(start, f"ILIKE reads small letters only, so {like.escape!r} cannot be its escape character")
        return lowered(Like(name, None if like.pattern is None else like.pattern.lower(), like.escape), start)

    def _rlike(self, name: str, kind: Kind) -> Tree:
        if kind.name != "string":
            raise Wrong(self.start, f"RLIKE asks of a string; {name} is {kind.article}")
        start, raw = self.start, self.word
        expression = self._value(name, kind)
        check_regex(expression, start, raw)
        return Rlike(name, expression)

    def _list_test(self, how: str) -> Tree:
        self.step()
        self.want("(")
        start = self.start
        name, kind = self._attribute()
        if kind.element is None:
            raise Wrong(start, f"{how} asks of a list; {name} is {kind.article}")
        self.want(",")
        element = kind.element
        if how == "array_contains":
            start = self.start
            value = self._value(name, element)
            if value is None:
                raise Wrong(start, f"no list is known to contain NULL; write exists({quote_name(name)}, t -> t IS NULL)")
            found: Tree = Exists(name, ELEMENT, Compare(ELEMENT, "=", value))
        elif how == "arrays_overlap":
            if not self.take("array"):
                raise Wrong(
                    self.start, f"arrays_overlap takes a list of literals; write arrays_overlap({quote_name(name)}, array(...))"
                )
            found = Exists(name, ELEMENT, In(ELEMENT, self._values(name, element)))
        else:
            found = self._of_elements(how, name, element)
        self.want(")")
        return found

    def _of_elements(self, how: str, name: str, element: Kind) -> Tree:
        """`t -> predicate of t`, read by a reader of its own that knows t alone."""
        if self.sort not in ("word", "quoted"):
            raise Wrong(self.start, f"expected a name for the elements; write {how}({quote_name(name)}, t -> t = ...)")
        called = self.word[1:-1] if self.sort == "quoted" else self.text[self.start : self.at]
        self.step()
        self.want("->")
        inner = _Text.__new__(_Text)
        inner.__dict__.update(self.__dict__)
        inner.space, inner.inside = Space(f"the elements of {name}", {called: element.name}), True
        inner.kinds = inner.space.kinds
        predicate = inner.tree(MOST_TESTS)
        self.at, self.start, self.sort, self.word = inner.at, inner.start, inner.sort, inner.word
        return (Exists if how == "exists" else ForAll)(name, called, predicate)

    def _text_test(self, how: str) -> Tree:
        self.step()
        self.want("(")
        operand = self._operand()
        name, kind = operand.name, operand.kind
        if kind.name != "string":
            raise NotRead(self.start, f"{how} asks of a string; {name} is {kind.article}")
        self.want(",")
        if how == "rlike":
            found = self._rlike(name, kind)
        elif how == "in_cidr":
            start = self.start
            network = self._value(name, kind)
            check_network(network, start)
            found = InCidr(name, network)
        else:
            found = TextTest(name, how, self._value(name, kind))
        self.want(")")
        return operand.tested(found)

    # --- attributes and values

    def _is_call(self) -> bool:
        """Does a parenthesis follow the word?"""
        return _CALLED.match(self.text, self.at) is not None

    def _operand(self) -> Operand:
        """An attribute, or what `lower` and `coalesce` make of some."""
        if self.sort != "word" or self.word not in FUNCTIONS or not self._is_call():
            start = self.start
            name, kind = self._attribute()
            return Operand(start, kind, ((name, False),))
        start, function, word = self.start, FUNCTIONS[self.word], self.word
        if function == "coalesce" and self.read_literal is not read_plain:
            raise NotRead(start, "coalesce is read text by text")
        self.step()
        self.want("(")
        found = self._operand()
        if function == "size":
            self.want(")")
            return found.sized(start, word)
        if function == "lower":
            self.want(")")
            return found.lowered(start)
        while self.take(","):
            if self._is_literal() or (self.sort == "word" and self.word in _CONSTANTS):
                found = found.otherwise(self._value(found.name, found.kind))
                break
            found = found.joined(self._operand())
        self.want(")")
        return found

    def _attribute(self) -> tuple[str, Kind]:
        depth = self._parentheses()
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

    def _parentheses(self, most: int = DEEPEST) -> int:
        depth = 0
        while self.word == "(" and self.sort == "sign" and depth < most:
            depth += 1
            self.step()
        return depth

    def _close(self, depth: int) -> None:
        for _ in range(depth):
            self.want(")")

    def _is_literal(self) -> bool:
        """Does a literal come next, perhaps in parentheses?"""
        before = self.at, self.start, self.sort, self.word
        if self._parentheses(_FEW) and self.sort == "word" and self.word in _CONSTANTS:
            found = True
        else:
            found = (
                self.sort in ("number", "string", "hex") or (self.sort == "sign" and self.word == "-") or self._is_timestamp()
            )
        self.at, self.start, self.sort, self.word = before
        return found

    def _is_timestamp(self) -> bool:
        return self.word in ("timestamp", "date") and self.sort == "word"

    def _value(self, name: str, kind: Kind) -> Value | None:
        return self._value_source()(name, kind)

    def _value_source(self) -> Callable[[str, Kind], Value | None]:
        """The literal that comes next, to be read once its attribute is known."""
        depth = self._parentheses()
        negative = self.word == "-" and self.sort == "sign"
        if negative:
            self.step()
            depth += self._parentheses()
        start, sort, word = self.start, self.sort, self.word
        if sort == "word" and not negative and word in _CONSTANTS:
            truth = _CONSTANTS[word]
            found: Callable[[str, Kind], Value | None] = lambda name, kind: _checked_constant(truth, kind, start)  # noqa: E731
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

    def _values(self, name: str, kind: Kind) -> tuple[Value | None, ...]:
        if self.word != "(" or self.sort != "sign":
            raise self.expected("a list of values in parentheses")
        plain = _NUMBERS.match(self.text, self.at) if kind.name in ("int", "float") else None
        if plain is not None and self.read_literal is read_plain:
            return self._numbers(plain, kind)
        self.step()
        found = [self._value(name, kind)]
        while self.take(","):
            found.append(self._value(name, kind))
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


def _how_to_ask(name: str, kind: Kind, word: str) -> str:
    shown = quote_name(name)
    if word in ("=", "==", "in"):
        return f"write array_contains({shown}, ...) or arrays_overlap({shown}, array(...))"
    return f"write exists({shown}, t -> ...), forall({shown}, t -> ...) or size({shown}) > ..., with a test of t"


def _not(part: Tree) -> Tree:
    return part.part if isinstance(part, Not) else Not(part)


def _checked_constant(truth: bool | None, kind: Kind, start: int) -> Value | None:
    if truth is not None and kind.name != "bool":
        raise NotRead(start, f"the attribute is {kind.article}; {str(truth).upper()} is a bool")
    return truth
