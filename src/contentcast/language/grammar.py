"""The grammar of predicates, read from left to right without recursion: what nearly every text needs, in linear time.

    either := both (OR both)*          both := negated (AND negated)*        negated := NOT* (test | '(' either ')')
    test   := attribute op value | value op attribute | attribute [NOT] IN (value, ...)
            | attribute [NOT] BETWEEN value AND value | attribute [NOT] LIKE value [ESCAPE string]
            | attribute IS [NOT] NULL, TRUE, FALSE or DISTINCT FROM value
            | attribute [NOT] ILIKE value [ESCAPE string] | attribute [NOT] RLIKE value | in_cidr | rlike (attribute, value)
            | startswith | endswith | contains (attribute, value) | attribute | TRUE | FALSE | NULL
            | array_contains(list, value) | arrays_overlap(list, array(value, ...)) | exists | forall (list, name -> either)

`tokens` cuts the text into tokens, `value_reader` reads an attribute or a value.
An open parenthesis puts what is half read on a stack of its own, so the Python stack stays as it is and threads do not meet.
What is not for certain one of these raises `NotRead` with the place; `parser` then asks sqlglot about a short text, which knows
the odd corners of Spark's SQL and finds the best words for what is wrong, and refuses a long one.
Forms that are not read elsewhere (see `operands`) raise `Wrong`: no one else is asked.
Rule: what is read here is what the parser makes of it with sqlglot, where sqlglot is asked (tests/properties/test_grammar.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from contentcast.language.operands import NotRead, Operand, TooDeep, Wrong, check_network, check_regex, lowered
from contentcast.language.printer import quote_name
from contentcast.language.value_reader import (
    CONSTANTS,
    DEEPEST,
    MOST_AROUND,
    ReadLiteral,
    ValueReader,
    checked_constant,
    read_plain,
)
from contentcast.model.errors import TooManyConjunctions
from contentcast.model.predicates import tree as nodes
from contentcast.model.predicates.normalise import space_of_elements
from contentcast.model.predicates.spelling import ELEMENT
from contentcast.model.space import Space
from contentcast.model.values.effort import MOST_STEPS, Effort
from contentcast.model.values.kinds import Kind, Value
from contentcast.model.values.patterns import tokens_of

MOST_TESTS: Final = 8_192
"""Tests of one predicate: each takes 10 to 50 microseconds on its way to the normal form. A list after IN is one test."""
MOST_OF_ELEMENTS: Final = 1_000
"""Different `exists` and `forall` of one predicate, as many as it may have alternatives."""

_OPS: Final = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_TEXT_TESTS: Final = frozenset({"startswith", "endswith", "contains"})
_LIST_TESTS: Final = frozenset({"array_contains", "arrays_overlap", "exists", "forall"})
_REGEX_WORDS: Final = ("rlike", "regexp", "regexp_like")
_AFTER_ATTRIBUTE: Final = frozenset({"not", "in", "between", "like", "ilike", "rlike", "regexp", "is"})


def read_tree(
    space: Space, text: str, read_literal: ReadLiteral | None = None, most_tests: int | None = MOST_TESTS
) -> nodes.Tree:
    """The tree of a text, or `NotRead`."""
    return _Text(space, text, read_literal or read_plain, most_tests).tree()


class _Text(ValueReader):
    """One text on its way to a tree."""

    inside = False
    """Is it a predicate of elements, which a parenthesis ends?"""

    def __init__(self, space: Space, text: str, read_literal: ReadLiteral, most_tests: int | None) -> None:
        super().__init__(space, text, read_literal)
        self.most_tests, self.tests = most_tests, 0
        self.around = (0, -1)
        """Up to where a run of parentheses is known, and where the one stands that is around an attribute or a literal."""
        self.effort = Effort(MOST_STEPS)
        self.regexes: set[Value | None] = set()
        """Those that are counted: one that stands again costs nothing, so that canonical forms read back."""
        self.of_elements: set[nodes.Tree] = set()
        """Tests of elements, counted likewise."""

    # --- either, both, negated

    def tree(self) -> nodes.Tree:
        waiting: list[tuple[list[nodes.Tree], list[nodes.Tree], bool]] = []
        either: list[nodes.Tree] = []
        both: list[nodes.Tree] = []
        while True:
            negated = self._nots()
            if self._opens():
                if len(waiting) == DEEPEST:
                    raise TooDeep(self.start, f"nested too deeply; parentheses go {DEEPEST} deep")
                self.step()
                waiting.append((either, both, negated))
                either, both = [], []
                continue
            self.tests += 1
            if self.most_tests is not None and self.tests > self.most_tests:
                raise Wrong(
                    self.start,
                    f"more than {self.most_tests:,} tests; write values of one attribute as a list after IN, split the "
                    "predicate, or allow any number with most_chars=None",
                )
            operand = self._test()
            while True:
                both.append(_not(operand) if negated else operand)
                if self.take("and"):
                    break
                either.append(both[0] if len(both) == 1 else nodes.And(tuple(both)))
                both = []
                if self.take("or"):
                    break
                operand = either[0] if len(either) == 1 else nodes.Or(tuple(either))
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
        if self.start >= self.around[0]:
            before = self.at, self.start, self.sort, self.word
            self.around = self._look_around()
            self.at, self.start, self.sort, self.word = before
        return self.start != self.around[1]

    def _look_around(self) -> tuple[int, int]:
        """The run of parentheses that begins here is looked at once: to look again at each would be quadratic."""
        starts: list[int] = []
        try:
            while self.word == "(" and self.sort == "sign" and len(starts) <= DEEPEST:
                starts.append(self.start)
                self.step()
            if self.sort not in ("number", "string", "hex", "word", "quoted"):
                return starts[-1] + 1, -1
            self.step()
            closed = 0
            while self.word == ")" and self.sort == "sign" and closed <= MOST_AROUND:
                closed += 1
                self.step()
        except NotRead:
            return starts[-1] + 1, -1
        compared = self.sort == "op" or (self.sort == "word" and self.word in _AFTER_ATTRIBUTE)
        around = compared and 0 < closed <= min(MOST_AROUND, len(starts))
        return starts[-1] + 1, starts[-closed] if around else -1

    # --- tests

    def _test(self) -> nodes.Tree:
        if self.sort == "word":
            if self.word in _TEXT_TESTS:
                return self._text_test(self.word)
            if self.word in _REGEX_WORDS and self.is_call():
                return self._text_test("rlike")
            if self.word == "in_cidr" and self.is_call():
                return self._text_test("in_cidr")
            if self.word in _LIST_TESTS and self.is_call():
                return self._list_test(self.word)
            if self.word in CONSTANTS:
                return self._constant()
        if self.is_literal():
            return self._mirrored(self.value_source())
        operand = self.operand()
        return self._of_operand(operand, self._of_one(operand.name, operand.kind))

    def _of_one(self, name: str, kind: Kind) -> nodes.Tree:
        if kind.element is not None and not (self.sort == "word" and self.word == "is"):
            raise Wrong(self.start, f"{name} is {kind.article}; {_how_to_ask(name, kind, self.word)}")
        if self.sort == "op":
            op = _OPS[self.word]
            self.step()
            return nodes.Compare(name, op, self.value(name, kind))
        if self.sort != "word":
            return self._bare(name, kind)
        negated = self.take("not")
        found = self._tested(name, kind)
        if found is None:
            if negated:
                raise self.expected("IN, BETWEEN, LIKE, ILIKE or RLIKE")
            return self._bare(name, kind)
        return _not(found) if negated else found

    def _tested(self, name: str, kind: Kind) -> nodes.Tree | None:
        if self.take("in"):
            return nodes.In(name, self.values(name, kind))
        if self.take("between"):
            low = self.value(name, kind)
            self.want("and")
            return nodes.Between(name, low, self.value(name, kind))
        if self.take("like"):
            return self._like(name, kind)
        if self.take("ilike"):
            return self._ilike(name, kind)
        if self.take("rlike") or self.take("regexp"):
            return self._rlike(name, kind)
        return self._is(name, kind) if self.take("is") else None

    def _bare(self, name: str, kind: Kind) -> nodes.Tree:
        if kind.name != "bool":
            raise NotRead(self.start, f"{name} is {kind.article}, not a condition; compare it with a value")
        return nodes.Compare(name, "=", True)

    def _constant(self) -> nodes.Tree:
        truth = CONSTANTS[self.word]
        start = self.start
        self.step()
        if self.sort == "op":
            return self._mirrored(lambda name, kind: checked_constant(truth, kind, start))
        return nodes.Constant(truth)

    def _mirrored(self, value: Callable[[str, Kind], Value]) -> nodes.Tree:
        if self.sort != "op":
            raise self.expected("a comparison; a literal alone is not a test")
        op = nodes.MIRRORED[_OPS[self.word]]
        self.step()
        operand = self.operand()
        if operand.kind.element is not None:
            raise Wrong(
                operand.start, f"{operand.name} is {operand.kind.article}; {_how_to_ask(operand.name, operand.kind, '=')}"
            )
        return self._of_operand(operand, nodes.Compare(operand.name, op, value(operand.name, operand.kind)))

    def _is(self, name: str, kind: Kind) -> nodes.Tree:
        negated = self.take("not")
        found: nodes.Tree
        if self.take("null"):
            found = nodes.IsNull(name)
        elif self.take("distinct", "from"):
            found, negated = nodes.Compare(name, "<=>", self.value(name, kind)), not negated
        elif self.word in ("true", "false") and self.sort == "word" and kind.name == "bool":
            found = nodes.IsTruth(name, self.word == "true")
            self.step()
        else:
            raise self.expected("[NOT] NULL, or TRUE or FALSE of a bool")
        return _not(found) if negated else found

    def _like(self, name: str, kind: Kind) -> nodes.Tree:
        if kind.name != "string":
            raise NotRead(self.start, f"LIKE asks of a string; {name} is {kind.article}")
        start = self.start
        pattern: Value | None = self.value(name, kind)
        escape = "\\"
        if self.take("escape"):
            if self.sort != "string":
                raise self.expected("one character in quotes")
            given = self.value(name, kind)
            if not isinstance(given, str) or len(given) != 1:
                raise self.expected("one character as ESCAPE")
            escape = given
        if isinstance(pattern, str):
            try:
                tokens_of(pattern, escape)
            except ValueError as reason:
                raise NotRead(start, str(reason)) from None
        return nodes.Like(name, pattern, escape)

    def _ilike(self, name: str, kind: Kind) -> nodes.Tree:
        """`lower(name) LIKE` the small letters of the pattern, which is what Spark makes of it."""
        start = self.start
        like = self._like(name, kind)
        assert isinstance(like, nodes.Like)
        if like.pattern is not None and not isinstance(like.pattern, str):
            raise NotRead(start, "the pattern of ILIKE is read on its own")
        if like.escape.lower() != like.escape:
            raise Wrong(start, f"ILIKE reads small letters only, so {like.escape!r} cannot be its escape character")
        return lowered(nodes.Like(name, None if like.pattern is None else like.pattern.lower(), like.escape), start)

    def _rlike(self, name: str, kind: Kind) -> nodes.Tree:
        if kind.name != "string":
            raise Wrong(self.start, f"RLIKE asks of a string; {name} is {kind.article}")
        start, raw = self.start, self.word
        expression = self.value(name, kind)
        steps = check_regex(expression, start, raw)
        if expression not in self.regexes:
            self.regexes.add(expression)
            self._spend(steps, start, "regular expressions")
        return nodes.Rlike(name, expression)

    def _spend(self, steps: int, start: int, what: str) -> None:
        try:
            self.effort.spend(steps)
        except TooManyConjunctions:
            reason = f"the predicate has too many {what}: more than {MOST_STEPS:,} steps; split it into several subscriptions"
            raise Wrong(start, reason) from None

    def _of_operand(self, operand: Operand, test: nodes.Tree) -> nodes.Tree:
        self._spend(operand.steps(test), operand.start, "tests of coalesce, or too long lists after it")
        return operand.tested(test)

    def _list_test(self, how: str) -> nodes.Tree:
        self.step()
        self.want("(")
        start = self.start
        name, kind = self.attribute()
        if kind.element is None:
            raise Wrong(start, f"{how} asks of a list; {name} is {kind.article}")
        self.want(",")
        element = kind.element
        if how == "array_contains":
            start = self.start
            value = self.value(name, element)
            if value is None:
                raise Wrong(start, f"no list is known to contain NULL; write exists({quote_name(name)}, t -> t IS NULL)")
            found: nodes.Tree = nodes.Exists(name, ELEMENT, nodes.Compare(ELEMENT, "=", value))
        elif how == "arrays_overlap":
            if not self.take("array"):
                raise Wrong(
                    self.start, f"arrays_overlap takes a list of literals; write arrays_overlap({quote_name(name)}, array(...))"
                )
            found = nodes.Exists(name, ELEMENT, nodes.In(ELEMENT, self.values(name, element)))
        else:
            found = self._of_elements(how, name, element)
        self.want(")")
        return found

    def _of_elements(self, how: str, name: str, element: Kind) -> nodes.Tree:
        """`t -> predicate of t`, read by a reader of its own that knows t alone."""
        if self.sort not in ("word", "quoted"):
            raise Wrong(self.start, f"expected a name for the elements; write {how}({quote_name(name)}, t -> t = ...)")
        called = self.word[1:-1] if self.sort == "quoted" else self.text[self.start : self.at]
        self.step()
        self.want("->")
        inner = _Text.__new__(_Text)
        inner.__dict__.update(self.__dict__)
        inner.space, inner.inside = space_of_elements((name, called, element.name)), True
        inner.kinds = inner.space.kinds
        predicate = inner.tree()
        self.at, self.start, self.sort, self.word, self.tests = inner.at, inner.start, inner.sort, inner.word, inner.tests
        found = (nodes.Exists if how == "exists" else nodes.ForAll)(name, called, predicate)
        self.of_elements.add(found)
        if len(self.of_elements) > MOST_OF_ELEMENTS:
            raise Wrong(self.start, f"more than {MOST_OF_ELEMENTS:,} different tests of elements; split the predicate")
        return found

    def _text_test(self, how: str) -> nodes.Tree:
        self.step()
        self.want("(")
        operand = self.operand()
        name, kind = operand.name, operand.kind
        if kind.name != "string":
            raise NotRead(self.start, f"{how} asks of a string; {name} is {kind.article}")
        self.want(",")
        if how == "rlike":
            found = self._rlike(name, kind)
        elif how == "in_cidr":
            start = self.start
            network = self.value(name, kind)
            check_network(network, start)
            found = nodes.InCidr(name, network)
        else:
            found = nodes.TextTest(name, how, self.value(name, kind))
        self.want(")")
        return self._of_operand(operand, found)


def _how_to_ask(name: str, kind: Kind, word: str) -> str:
    shown = quote_name(name)
    if word in ("=", "==", "in"):
        return f"write array_contains({shown}, ...) or arrays_overlap({shown}, array(...))"
    return f"write exists({shown}, t -> ...), forall({shown}, t -> ...) or size({shown}) > ..., with a test of t"


def _not(part: nodes.Tree) -> nodes.Tree:
    return part.part if isinstance(part, nodes.Not) else nodes.Not(part)
