"""From sqlglot's tree to a predicate's: what the language has, which is a fraction of SQL, is kept; all else is refused.

sqlglot is asked about texts that `grammar` does not read, see `parser`. `transforms` reads its expressions with this too.
Rule: what is refused is refused with its place, and with words that say how to write it.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from sqlglot import exp

from contentcast.language import literals
from contentcast.language.errors import WHAT_IS_POSSIBLE, PredicateError
from contentcast.language.printer import quote_name
from contentcast.language.sqlglot_text import Dialect, SqlText
from contentcast.model.errors import nearest
from contentcast.model.predicates import tree as nodes
from contentcast.model.values.kinds import Kind, Value
from contentcast.model.values.patterns import PatternError, tokens_of

_COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_COMPARISONS_ALL: Final[dict[type[exp.Expr], str]] = {**_COMPARISONS, exp.NullSafeEQ: "<=>", exp.NullSafeNEQ: "<=>"}
_TEXT_TESTS: Final[dict[type[exp.Expr], str]] = {
    exp.StartsWith: "startswith",
    exp.EndsWith: "endswith",
    exp.Contains: "contains",
}
_ARITHMETIC: Final[tuple[type[exp.Expr], ...]] = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_BEFORE_TIMESTAMP: Final = re.compile(r"\b(timestamp|date)\s*$", re.IGNORECASE)
_NO_CLOCK: Final = (
    "the function {} is not part of the language: a predicate has no clock; write the instant, "
    "TIMESTAMP '2026-03-01 12:00:00', or let the event carry its age"
)
_HOW_TO_WRITE: Final = {
    "timestamp": "; write TIMESTAMP '2026-03-01 12:00:00'",
    "bytes": "; write X'1F00'",
    "bool": "; write TRUE or FALSE",
}


class Reader(SqlText):
    """One text on its way to a tree."""

    def tree(self, node: exp.Expr) -> nodes.Tree:
        match node:
            case exp.Paren():
                return self.tree(node.this)
            case exp.And():
                return nodes.And(tuple(self.tree(each) for each in node.flatten(unnest=False)))
            case exp.Or():
                return nodes.Or(tuple(self.tree(each) for each in node.flatten(unnest=False)))
            case exp.Not():
                part = self.tree(node.this)
                return part.part if isinstance(part, nodes.Not) else nodes.Not(part)
            case exp.Boolean():
                return nodes.Constant(bool(node.this))
            case exp.Null():
                return nodes.Constant(None)
            case exp.Column():
                return self._bare(node)
            case exp.Between():
                return self._between(node)
            case exp.In():
                return self._in(node)
            case exp.Is():
                return self._is(node)
            case exp.Escape(this=exp.Like()) | exp.Like():
                return self._like(node)
        if type(node) in _COMPARISONS_ALL:
            return self._comparison(node)
        if type(node) in _TEXT_TESTS:
            return self._text_test(node)
        self._refuse_node(node)

    def _refuse_node(self, node: exp.Expr) -> NoReturn:
        match node:
            case exp.Alias():
                alias = node.args["alias"]
                self._refuse_at(alias, f"unexpected {alias.name!r} after the predicate")
            case exp.Cast() if not self._timestamp_word(node):
                self._refuse(self._word("try_cast|cast"), f"CAST is not part of the language; {WHAT_IS_POSSIBLE}")
            case exp.Literal() | exp.Cast() | exp.HexString():
                self._refuse_at(node, "a literal alone is not a test; compare an attribute with it")
            case exp.Query() | exp.Subquery():
                self._refuse(self._word("select|with|from"), f"a condition is wanted, not a query; {WHAT_IS_POSSIBLE}")
            case exp.Case():
                self._refuse(self._word("case"), f"CASE is not part of the language; {WHAT_IS_POSSIBLE}")
            case _ if isinstance(node, _ARITHMETIC):
                line = f"SELECT {node.sql(dialect=Dialect, comments=False)} AS computed FROM {quote_name(self.space.name)}"
                self._refuse_at(
                    node, f"arithmetic is not part of the language; compute it as an attribute by a transform: {line}"
                )
            case exp.RegexpILike() | exp.SimilarTo():
                self._refuse_at(
                    node, f"of the pattern tests LIKE, ILIKE and RLIKE are part of the language; {WHAT_IS_POSSIBLE}"
                )
            case exp.CurrentTimestamp() | exp.CurrentDate() | exp.CurrentTime():
                self._refuse_at(node, _NO_CLOCK.format(_name(node)) + self._hint(""))
            case exp.Func() if _name(node).lower() in ("now", "current_timestamp", "localtimestamp"):
                self._refuse_at(node, _NO_CLOCK.format(_name(node)) + self._hint(""))
            case exp.Upper():
                self._refuse_at(node, "the function UPPER is not part of the language; write lower(...) and small letters")
            case exp.Func():
                self._refuse_at(node, f"the function {_name(node)} is not part of the language{self._hint()}")
            case exp.Placeholder() | exp.Parameter():
                self._refuse_at(node, "parameters are not filled in here; write the value")
            case _:
                self._refuse_at(node, f"{_name(node)} is not part of the language{self._hint()}")

    def _bare(self, node: exp.Expr) -> nodes.Tree:
        name, kind = self._attribute(node)
        if kind.name != "bool":
            self._refuse_at(node, f"{name} is {kind.article}, not a condition; compare it with a value")
        return nodes.Compare(name, "=", True)

    def _comparison(self, node: exp.Expr) -> nodes.Tree:
        self._only(node, "this", "expression")
        op = _COMPARISONS_ALL[type(node)]
        left, right = _unwrapped(node.this), _unwrapped(node.expression)
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            self._attribute(left)
            self._attribute(right)
            self._refuse_at(
                right, f"an attribute is compared with a literal, not with another attribute{self._difference(left, right)}"
            )
        if isinstance(right, exp.Column):
            left, right, op = right, left, nodes.MIRRORED[op]
        name, kind = self._attribute(left)
        test = nodes.Compare(name, op, self._value(right, name, kind))
        return nodes.Not(test) if isinstance(node, exp.NullSafeNEQ) else test

    def _difference(self, left: exp.Expr, right: exp.Expr) -> str:
        """How to compare two numbers all the same."""
        kinds = [self.space.kinds[each.name].name for each in (left, right)]
        if not set(kinds) <= {"int", "float"}:
            return "; let the publisher compare them and the event carry the answer"
        names = " - ".join(quote_name(each.name) for each in (left, right))
        line = f"SELECT {names} AS difference FROM {quote_name(self.space.name)}"
        return f"; compute their difference by a transform and compare it with 0: {line}"

    def _between(self, node: exp.Expr) -> nodes.Tree:
        self._only(node, "this", "low", "high")
        name, kind = self._attribute(node.this)
        return nodes.Between(name, self._value(node.args["low"], name, kind), self._value(node.args["high"], name, kind))

    def _in(self, node: exp.Expr) -> nodes.Tree:
        if node.args.get("query") or any(isinstance(each, exp.Query) for each in node.expressions):
            self._refuse_at(node, "IN takes a list of literals, not a query")
        self._only(node, "this", "expressions")
        name, kind = self._attribute(node.this)
        if not node.expressions:
            self._refuse_at(node, "IN needs at least one value")
        return nodes.In(name, tuple(self._value(each, name, kind) for each in node.expressions))

    def _is(self, node: exp.Expr) -> nodes.Tree:
        self._only(node, "this", "expression")
        name, kind = self._attribute(node.this)
        match node.expression:
            case exp.Null():
                return nodes.IsNull(name)
            case exp.Boolean():
                if kind.name != "bool":
                    self._refuse_at(node, f"{name} is {kind.article}; IS TRUE and IS FALSE ask of a bool")
                return nodes.IsTruth(name, bool(node.expression.this))
        self._refuse_at(node, "IS goes with [NOT] NULL, TRUE or FALSE")

    def _like(self, node: exp.Expr) -> nodes.Tree:
        escape_node = node.expression if isinstance(node, exp.Escape) else None
        like = node.this if isinstance(node, exp.Escape) else node
        self._only(like, "this", "expression", "negate")
        name, kind = self._string_attribute(like.this, "LIKE")
        escape = "\\" if escape_node is None else self._value(escape_node, name, kind)
        if not isinstance(escape, str) or len(escape) != 1:
            self._refuse_at(escape_node or node, f"ESCAPE takes one character, not {escape!r}")
        pattern = self._value(like.expression, name, kind)
        if isinstance(pattern, str):
            self.check_pattern(pattern, escape, self._start(like.expression))
        test = nodes.Like(name, pattern, escape)
        return nodes.Not(test) if like.args.get("negate") else test

    def check_pattern(self, pattern: str, escape: str, offset: int) -> None:
        try:
            tokens_of(pattern, escape)
        except PatternError as reason:
            self._refuse(offset, str(reason))

    def _text_test(self, node: exp.Expr) -> nodes.Tree:
        self._only(node, "this", "expression")
        how = _TEXT_TESTS[type(node)]
        name, kind = self._string_attribute(node.this, how)
        return nodes.TextTest(name, how, self._value(node.expression, name, kind))

    def _only(self, node: exp.Expr, *known: str) -> None:
        """Refuse whatever else sqlglot hung on a node: options that the language does not have."""
        for key, value in node.args.items():
            if value and key not in known:
                self._refuse_at(node, f"{key} is not part of the language here; {WHAT_IS_POSSIBLE}")

    # --- attributes and values

    def _attribute(self, node: exp.Expr) -> tuple[str, Kind]:
        node = _unwrapped(node)
        if not isinstance(node, exp.Column):
            if isinstance(node, exp.Literal) and node.is_string and node.name in self.space:
                self._refuse_at(node, f"quotes make a string of it; the attribute is written {quote_name(node.name)}")
            if isinstance(node, (exp.Literal, exp.Boolean, exp.Null, exp.HexString)):
                self._refuse_at(node, "a test needs an attribute on one side")
            self._refuse_node(node)
        dotted = ".".join(part.name for part in node.parts)
        if len(node.parts) > 1:
            hint = f"; write `{dotted}`" if dotted in self.space else nearest(dotted, self.space.names)
            self._refuse_at(node, f"a dotted name goes in back-ticks{hint}")
        if dotted not in self.space:
            self._refuse_at(node, f"{self.space.name} has no attribute {dotted!r}{nearest(dotted, self.space.names)}")
        return dotted, self.space.kinds[dotted]

    def _string_attribute(self, node: exp.Expr, test: str) -> tuple[str, Kind]:
        name, kind = self._attribute(node)
        if kind.name != "string":
            self._refuse_at(node, f"{test} asks of a string; {name} is {kind.article}")
        return name, kind

    def _value(self, node: exp.Expr, name: str, kind: Kind) -> Value | None:
        """The literal as a value of the kind; None for NULL."""
        node = _unwrapped(node)
        negative = isinstance(node, exp.Neg)
        inner = _unwrapped(node.this) if negative else node
        try:
            match inner:
                case exp.Null() if not negative:
                    return None
                case exp.Boolean() if kind.name == "bool" and not negative:
                    return bool(inner.this)
                case exp.Literal() if inner.is_string and kind.name == "string" and not negative:
                    return self._literal(inner, kind.name, False)
                case exp.Literal() if not inner.is_string and kind.name in ("int", "float"):
                    return self._literal(inner, kind.name, negative)
                case exp.TryCast() if self._is_suffixed(inner) and kind.name in ("int", "float"):
                    return self._literal(inner.this, kind.name, negative)
                case exp.Cast() if kind.name == "timestamp" and not negative and (word := self._timestamp_word(inner)):
                    return literals.read_timestamp(self._string(inner.this), date_only=word == "date")
                case exp.HexString() if kind.name == "bytes" and not negative and self._is_hex(inner):
                    return literals.read_hex(inner.name)
        except PredicateError:
            raise
        except ValueError as reason:
            self._refuse_at(node, str(reason))
        self._refuse_value(node, inner, name, kind)

    def _refuse_value(self, node: exp.Expr, inner: exp.Expr, name: str, kind: Kind) -> NoReturn:
        if isinstance(inner, exp.Column):
            self._attribute(inner)
            self._refuse_at(inner, "an attribute is compared with a literal, not with another attribute")
        if isinstance(inner, exp.Literal) and inner.is_string:
            given = f"{self._string(inner)!r} is a string"
        elif isinstance(inner, exp.Literal):
            given = f"{inner.name} is a number"
        elif isinstance(inner, exp.Boolean):
            given = f"{inner.sql()} is a bool"
        elif isinstance(inner, exp.HexString):
            given = f"X'{inner.name}' is bytes"
        elif isinstance(inner, exp.Cast) and self._timestamp_word(inner):
            given = f"{self._string(inner.this)!r} is a timestamp"
        else:
            self._refuse_node(inner)
        how = _HOW_TO_WRITE.get(kind.name, "")
        self._refuse_at(node, f"{name} is {kind.article}; {given}{how}")

    def _literal(self, node: exp.Expr, kind: str, negative: bool) -> Value:
        if kind == "string":
            return self._string(node)
        return literals.read_float(node.name, negative) if kind == "float" else literals.read_number(node.name, negative)

    def _string(self, node: exp.Expr) -> str:
        try:
            return literals.read_string(self.text[node.meta["start"] : node.meta["end"] + 1])
        except ValueError as reason:
            self._refuse_at(node, str(reason))

    def _timestamp_word(self, node: exp.Cast) -> str | None:
        """'timestamp' or 'date' for TIMESTAMP '...' and DATE '...'; None for CAST(...), which looks alike."""
        if not isinstance(node.this, exp.Literal) or "start" not in node.this.meta:
            return None
        word = _BEFORE_TIMESTAMP.search(self.text[: node.this.meta["start"]])
        return word[1].lower() if word else None

    def _is_suffixed(self, node: exp.TryCast) -> bool:
        """Is it 12L or 1.5D, and not TRY_CAST(...)?"""
        meta = node.this.meta
        return "start" in meta and self.text[meta["start"] : meta["end"] + 1][-1:].isalpha()

    def _is_hex(self, node: exp.HexString) -> bool:
        start = node.meta["start"]
        return self.text[start : start + 2] in ("X'", "x'", 'X"', 'x"')


def _unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this)
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
