"""Text to transform: `SELECT price * volume AS amount FROM trades WHERE price > 100`, in Spark's dialect.

sqlglot knows the grammar; this file walks its tree and keeps what a transform has: one SELECT from one space, an expression for
each attribute of the target that is to be there. The WHERE and the conditions of CASE are predicates: `parser` reads their part
of the text, so that they have all of the language. The same text is a query in Spark SQL; docs/guide/transforms.md has the
table of what there is.
Rule: whatever text comes in, a `TransformError` or a transform comes out; kinds are settled here, not when events come.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from sqlglot import exp

from contentcast.language import literals
from contentcast.language.errors import PredicateError, TransformError
from contentcast.language.parser import check_length, parse_tree, too_deep
from contentcast.language.printer import quote_name
from contentcast.language.sqlglot_reader import Reader
from contentcast.model.errors import TooManyConjunctions, nearest
from contentcast.model.predicates.normalise import normalise
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.space import Space
from contentcast.model.transforms.expression import (
    CASTS,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Expression,
    Joined,
    Lettered,
    Literal,
    Read,
    Size,
    of_kind,
    same_kind,
)
from contentcast.model.transforms.transform import Transform, TransformsError, fits
from contentcast.model.values.kinds import BOOL, BYTES, FLOAT, INT, INT_GREATEST, INT_LEAST, STRING, TIMESTAMP, Kind

DEEPEST: Final = 100
"""How deep operations may stand inside each other; a sum of 100 parts is as deep."""

DEEPEST_BRACKETS: Final = 20
"""sqlglot recurses, some 30 frames for a level; the process's recursion limit is not ours to change."""

MOST_CHARS_OF_TRANSFORM: Final = 8_192
"""Longer ones are refused unless the caller allows them: sqlglot takes some 5 us for a character."""

WHAT_IS_POSSIBLE: Final = (
    "a transform is SELECT expression AS attribute, ... FROM space [WHERE predicate]; an expression has attributes, literals, "
    "+ - * / %, ||, concat, upper, lower, size, coalesce, CAST and CASE WHEN"
)
_OPERATIONS: Final[dict[type[exp.Expr], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_TYPES: Final = {"STRING": STRING, "BIGINT": INT, "DOUBLE": FLOAT, "BOOLEAN": BOOL, "TIMESTAMP": TIMESTAMP, "BINARY": BYTES}
_TYPE_OF: Final = {kind.name: name for name, kind in _TYPES.items()}
_SQLGLOT_TYPES: Final = {"TEXT": "STRING", "TIMESTAMPTZ": "TIMESTAMP"}
_NARROWER: Final = {
    **dict.fromkeys(("INT", "SMALLINT", "TINYINT"), "an int has 64 bits: write BIGINT"),
    **dict.fromkeys(("FLOAT", "DECIMAL"), "a float is a double: write DOUBLE"),
}
_SIZES: Final = ("size", "cardinality", "array_size")
_TEST_NAMES: Final = ("in_cidr", "arrays_overlap", "exists", "forall")
_WORDS: Final = re.compile(r"\b(?:when|then|where)\b", re.IGNORECASE)
_TESTS: Final = (exp.Predicate, exp.Connector, exp.Not, exp.Between, exp.In, exp.Is)


def parse_transform(
    source: Space, target: Space, text: str, *, name: str | None = None, most_chars: int | None = MOST_CHARS_OF_TRANSFORM
) -> Transform:
    """The transform that the text says; `name` is `source-to-target` unless given. `most_chars=None` takes any length."""
    if not isinstance(text, str):
        raise TransformError("", 0, f"a transform is a text, not {text!r}")
    reader = _SelectReader(source, target, text)
    try:
        deep = too_deep(text, DEEPEST_BRACKETS)
        if deep is not None:
            raise TransformError(text, deep, f"nested too deeply; brackets go {DEEPEST_BRACKETS} deep")
        check_length(text, "transform", most_chars)
        return reader.transform(name or f"{source.name}-to-{target.name}")
    except RecursionError:
        raise TransformError(text, 0, "nested too deeply") from None
    except PredicateError as error:
        raise TransformError(text, error.offset, error.reason) from None
    except TransformsError as error:
        raise TransformError(text, 0, str(error)) from None


class _SelectReader(Reader):
    WHAT = "transform"
    IF_EMPTY = f"the transform is empty; {WHAT_IS_POSSIBLE}"
    POSSIBLE = f"; {WHAT_IS_POSSIBLE}"

    def __init__(self, source: Space, target: Space, text: str) -> None:
        super().__init__(source, text)
        self.target = target
        self._places: dict[int, tuple[int, int]] = {}
        """Where in the text a condition stands, by its node."""

    def transform(self, name: str) -> Transform:
        select = self.expression()
        if not isinstance(select, exp.Select):
            self._refuse(0, WHAT_IS_POSSIBLE)
        for key, value in select.args.items():
            if value and key not in ("expressions", "from_", "where"):
                word = key.strip("_").upper().rstrip("S") if key == "joins" else key.strip("_").upper()
                self._refuse(
                    self._word(word.lower()), f"{word} is not part of a transform, which sees one event; {WHAT_IS_POSSIBLE}"
                )
        self._check_source(select)
        self._find_conditions(select)
        if not select.expressions:
            self._refuse(self._word("select") + len("select"), "expected an expression after SELECT")
        assignments: dict[str, Expression] = {}
        for each in select.expressions:
            attribute, expression = self._assignment(each)
            if attribute in assignments:
                self._refuse_at(each, f"{attribute} is given twice; keep one")
            assignments[attribute] = expression
        where = select.args.get("where")
        return Transform.of(name, self.space, self.target, assignments, where and self._predicate(where.this), self.text)

    def _check_source(self, select: exp.Select) -> None:
        said = select.args.get("from_")
        source = quote_name(self.space.name)
        if said is None:
            self._refuse(len(self.text), f"expected FROM {source}")
        table = said.this
        if not isinstance(table, exp.Table) or any(value for key, value in table.args.items() if key != "this"):
            self._refuse(self._word("from"), f"events come from one space: FROM {source}")
        if table.name != self.space.name:
            self._refuse_at(table, f"the events are those of {self.space.name}, not {table.name}: FROM {source}")

    def _assignment(self, node: exp.Expr) -> tuple[str, Expression]:
        if isinstance(node, exp.Star):
            self._refuse(self.text.find("*"), "a transform names each attribute: SELECT price, issue AS symbol, ...")
        if isinstance(node, exp.Aliases) or not isinstance(node, exp.Alias | exp.Column):
            expression = self.value(node)
            self._refuse_at(
                node, f"say which attribute of {self.target.name} this is: {_shown(node)} AS {self._free(expression)}"
            )
        inner, named = (node.this, node.args["alias"]) if isinstance(node, exp.Alias) else (node, node)
        expression = self.value(inner)
        attribute = named.name
        if attribute not in self.target:
            near = nearest(attribute, self.target.names)
            self._refuse_at(named, f"{self.target.name} has no attribute {attribute!r}{near}")
        wanted = self.target.kinds[attribute]
        if not fits(expression, self.target, attribute):
            assert expression.kind is not None
            self._refuse_at(
                inner, f"{attribute} is {wanted.article}, and this is {expression.kind.article}{_cast(expression, wanted)}"
            )
        return attribute, of_kind(expression, wanted) if expression.kind is None else expression

    def _free(self, expression: Expression) -> str:
        """An attribute of the target to show in an example."""
        fitting = [name for name in self.target.names if fits(expression, self.target, name)]
        return quote_name((fitting or list(self.target.names))[0])

    def _find_conditions(self, select: exp.Select) -> None:
        """sqlglot says of few nodes where they stand, but its tree has them in the order of the text, as the words WHEN are."""
        words = [(each[0].lower(), each.span()) for each in _WORDS.finditer(self.unquoted())]
        whens = [
            (start, following)
            for (word, (_, start)), (ending, (following, _)) in pairwise(words)
            if (word, ending) == ("when", "then")
        ]
        branches = [each.this for each in select.dfs() if isinstance(each, exp.If) and isinstance(each.parent, exp.Case)]
        if len(branches) == len(whens) and all(map(_stands_in, branches, whens)):
            self._places = {id(node): place for node, place in zip(branches, whens, strict=True)}
        where = select.args.get("where")
        if where is not None and words and words[-1][0] == "where":
            self._places[id(where.this)] = (words[-1][1][1], len(self.text))

    def _predicate(self, node: exp.Expr) -> Predicate:
        place = self._places.get(id(node))
        try:
            if place is None:
                return normalise(self.space, self.tree(node))
            return normalise(self.space, parse_tree(self.space, self.text[slice(*place)], most_chars=None))
        except TooManyConjunctions as reason:
            self._refuse_at(node, str(reason))
        except PredicateError as error:
            if place is None:
                raise
            raise PredicateError(self.text, place[0] + error.offset, error.reason) from None

    # --- expressions

    def value(self, node: exp.Expr, depth: int = 0) -> Expression:
        if depth > DEEPEST:
            self._refuse_at(node, f"nested too deeply; operations go {DEEPEST} deep")
        below = depth + 1
        match node:
            case exp.Paren():
                return self.value(node.this, depth)
            case exp.Column():
                return Read(*self._attribute(node))
            case exp.Null():
                return Literal(None, None)
            case exp.Boolean():
                return Literal(bool(node.this), BOOL)
            case exp.Literal() | exp.HexString():
                return self._literal_value(node)
            case exp.Neg(this=exp.Literal(is_string=False)):
                return self._number(node.this, negative=True)
            case exp.Neg():
                return self._arithmetic(node, "-", Literal(0, INT), self.value(node.this, below))
            case exp.Cast() if self._timestamp_word(node):
                return self._literal_value(node)
            case exp.TryCast(this=exp.Literal(is_string=False)) if self._is_suffixed(node):
                number = self._number(node.this, negative=False)
                return number if node.to.this.name == "BIGINT" else Cast(number, FLOAT)  # 5L, 5D
            case exp.Cast():
                return self._cast(node, self.value(node.this, below))
            case exp.DPipe() | exp.Concat():
                parts = list(node.flatten()) if isinstance(node, exp.DPipe) else node.expressions
                return Joined(tuple(self._text(part, "|| and concat join", below) for part in parts))
            case exp.Upper() | exp.Lower():
                word = "upper" if isinstance(node, exp.Upper) else "lower"
                return Lettered(word, self._text(node.this, f"{word} is of", below))
            case exp.Coalesce():
                return Coalesce(self._alike(node, [self.value(each, below) for each in (node.this, *node.expressions)]))
            case exp.Case():
                return self._case(node, below)
            case exp.ArraySize():
                return self._size(node, node.this)
            case exp.Anonymous() if node.name.lower() in _SIZES and len(node.expressions) == 1:
                return self._size(node, node.expressions[0])
        if type(node) in _OPERATIONS:
            left, right = self.value(node.this, below), self.value(node.expression, below)
            return self._arithmetic(node, _OPERATIONS[type(node)], left, right)
        if isinstance(node, _TESTS) or (isinstance(node, exp.Func) and _called(node).lower() in _TEST_NAMES):
            self._refuse_at(node, "a test is not a value; write CASE WHEN ... THEN TRUE ELSE FALSE END")
        if isinstance(node, exp.Func):
            self._refuse_at(node, f"the function {_called(node)} is not part of a transform{self._hint()}")
        self._refuse_at(node, f"{node.key.upper()} is not part of a transform{self._hint()}")

    def _arithmetic(self, node: exp.Expr, op: str, left: Expression, right: Expression) -> Expression:
        for side in (left, right):
            if side.kind not in (INT, FLOAT, None):
                how = f"; join strings with || or concat{_cast(side, FLOAT, ', or ')}" if side.kind == STRING else ""
                self._refuse_at(node, f"{op} takes numbers; one side is {side.kind.article}{how}")
        if left.kind is None and right.kind is None:
            self._refuse_at(node, f"{op} takes numbers; both sides are NULL")
        sides = self._alike(node, [left, right])
        if op == "/":  # of ints too it is a float, as in Spark
            sides = tuple(of_kind(side, FLOAT) for side in sides)
        return Arithmetic(op, *sides)

    def _alike(self, node: exp.Expr, parts: list[Expression]) -> tuple[Expression, ...]:
        alike = same_kind(parts)
        if alike is None:
            kinds = " and ".join(dict.fromkeys(part.kind.article for part in parts if part.kind is not None))
            self._refuse_at(node, f"all parts are of one kind; here are {kinds}; cast some of them")
        return alike

    def _text(self, node: exp.Expr, what: str, depth: int) -> Expression:
        part = self.value(node, depth)
        if part.kind not in (STRING, None):
            self._refuse_at(node, f"{what} strings; this is {part.kind.article}{_cast(part, STRING)}")
        return of_kind(part, STRING)

    def _size(self, node: exp.Expr, inside: exp.Expr) -> Expression:
        part = self.value(inside)
        if part.kind is None or part.kind.element is None:
            self._refuse_at(node, f"size is of lists; this is {part.kind.article if part.kind else 'NULL'}")
        return Size(part)

    def _case(self, node: exp.Expr, depth: int) -> Expression:
        if node.this is not None:
            self._refuse_at(node, "CASE goes with conditions: CASE WHEN attribute = value THEN ...")
        conditions = [self._predicate(each.this) for each in node.args["ifs"]]
        values = [self.value(each.args["true"], depth) for each in node.args["ifs"]]
        default = node.args.get("default")
        *branches, otherwise = self._alike(
            node, [*values, Literal(None, None) if default is None else self.value(default, depth)]
        )
        return Case(tuple(zip(conditions, branches, strict=True)), otherwise)

    def _cast(self, node: exp.Cast, part: Expression) -> Expression:
        if node.args.get("safe"):
            self._refuse_at(node, "TRY_CAST is not here; an event that CAST cannot change is set aside, with the reason")
        said = node.to.this.name
        said = _SQLGLOT_TYPES.get(said, said)
        if said not in _TYPES or node.to.expressions:
            self._refuse_at(node, f"CAST to {said} is not here; {_NARROWER.get(said, 'there are ' + ', '.join(_TYPES))}")
        kind = _TYPES[said]
        if part.kind is None or part.kind == kind:
            return of_kind(part, kind)
        if (part.kind.name, kind.name) not in CASTS:
            known = [_TYPE_OF[wanted] for given, wanted in CASTS if given == part.kind.name]
            if not known:
                self._refuse_at(node, f"there is no cast of {part.kind.article}")
            self._refuse_at(node, f"{part.kind.article} casts to {', '.join(known)}, not to {said}")
        return Cast(part, kind)

    # --- literals

    def _literal_value(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Literal):
            return Literal(self._string(node), STRING) if node.is_string else self._number(node, negative=False)
        if isinstance(node, exp.HexString):
            return Literal(self._value(node, "it", BYTES), BYTES)
        return Literal(self._value(node, "it", TIMESTAMP), TIMESTAMP)

    def _number(self, node: exp.Expr, negative: bool) -> Literal:
        try:
            if not node.name.isdigit():
                return Literal(literals.read_float(node.name, negative), FLOAT)
            value = literals.read_number(node.name, negative)
        except ValueError as reason:
            self._refuse_at(node, str(reason))
        if not INT_LEAST <= value <= INT_GREATEST:
            self._refuse_at(node, f"{'-' if negative else ''}{node.name} is beyond 64 bits")
        return Literal(int(value), INT)


def _stands_in(node: exp.Expr, place: tuple[int, int]) -> bool:
    """Do those parts of it stand there that say where they stand?"""
    return all(place[0] <= each.meta["start"] < place[1] for each in node.walk() if "start" in each.meta)


def _called(node: exp.Func) -> str:
    return str(node.name if isinstance(node, exp.Anonymous) else node.sql_name())


def _cast(expression: Expression, wanted: Kind, before: str = "; write ") -> str:
    """How to make it the wanted kind, if there is a way."""
    given = expression.kind
    if given is None or (given.name, wanted.name) not in CASTS:
        return ""
    return f"{before}CAST(... AS {_TYPE_OF[wanted.name]})"


def _shown(node: exp.Expr) -> str:
    text = node.sql(dialect="spark")
    return text if len(text) <= 40 else "..."
