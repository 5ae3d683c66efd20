"""What stands where an attribute may stand: `lower(name)`, `coalesce(x, y, 0)`; and the checks of texts in texts.

The model knows neither. `lower` becomes a test of the small letters (`tree.Lowered`), and `coalesce` the cases that it stands
for:

    coalesce(x, y, 0) > 5      x IS NOT NULL AND x > 5
                               OR x IS NULL AND y IS NOT NULL AND y > 5
                               OR x IS NULL AND y IS NULL AND FALSE

In each case the other parts are FALSE, not unknown, so that the whole is what SQL says, under NOT too.
Rule: what is wrong here raises `Wrong` with its place; sqlglot is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from contentcast.model.predicates import tree as nodes
from contentcast.model.predicates.test_constraints import test_constraint
from contentcast.model.values.kinds import INT, Kind, Value
from contentcast.model.values.networks import InNetwork, NetworkError
from contentcast.model.values.regular import Regex
from contentcast.model.values.regular_syntax import RegexError

FUNCTIONS: Final = {
    "lower": "lower",
    "lcase": "lower",
    "coalesce": "coalesce",
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "size": "size",
    "cardinality": "size",
    "array_size": "size",
}


MOST_COALESCED: Final = 32
"""Attributes in one `coalesce`: its cases together are half the square of this."""

MOST_LOWERED: Final = 2_000
"""Values that `lower(...) IN` takes, since each is a test of its own."""


class NotRead(Exception):
    """The text is not for certain what the grammar knows; `offset` is how far it was, `reason` what was wanted there."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset, self.reason = offset, reason


class Wrong(NotRead):
    """No other reader is asked."""


class TooDeep(Wrong):
    """The limit is that of the language."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The attributes that are looked at, the first that is there; each with whether its small letters are meant."""

    start: int
    kind: Kind
    names: tuple[tuple[str, bool], ...]
    default: Value | None = None
    size: bool = False
    """Is it the size of a list?"""

    @property
    def name(self) -> str:
        """Under which a test is written down first."""
        return self.names[0][0]

    def lowered(self, start: int) -> Operand:
        if self.kind.name != "string":
            raise Wrong(start, f"lower asks of a string; {self.name} is {self.kind.article}")
        default = self.default.lower() if isinstance(self.default, str) else self.default
        return replace(self, start=start, names=tuple((name, True) for name, _ in self.names), default=default)

    def sized(self, start: int, word: str) -> Operand:
        if self.kind.element is None or self.default is not None or len(self.names) > 1:
            raise Wrong(start, f"{word} asks of a list; {self.name} is {self.kind.article}")
        return Operand(start, INT, self.names, size=True)

    def joined(self, other: Operand) -> Operand:
        if self.kind.element is not None or self.size or other.size:
            raise Wrong(self.start, "coalesce takes no lists; write the cases with IS NULL, AND and OR")
        if other.kind != self.kind:
            raise Wrong(
                other.start, f"coalesce takes attributes of one kind; {self.name} is {self.kind.article}, {other.name} is not"
            )
        if len(self.names) + len(other.names) > MOST_COALESCED:
            raise Wrong(other.start, f"coalesce takes up to {MOST_COALESCED} attributes")
        return replace(self, names=(*self.names, *other.names), default=other.default)

    def otherwise(self, value: Value | None) -> Operand:
        if self.size:
            raise Wrong(self.start, "coalesce takes no sizes; write the cases with IS NULL, AND and OR")
        return replace(self, default=value)

    def steps(self, test: nodes.Tree) -> int:
        """What the cases take on their way to the normal form, as `effort` counts work. A list after IN is made for each."""
        if len(self.names) == 1 and self.default is None:
            return 0
        while isinstance(test, nodes.Not):
            test = test.part
        return len(self.names) * (140 + (2 * len(test.values) if isinstance(test, nodes.In) else 0))

    def tested(self, test: nodes.Tree) -> nodes.Tree:
        """The test, which is written for the first name, of the operand."""
        if self.size:
            return _sized(test, self.start)
        if self.names == ((self.name, False),) and self.default is None:
            return test
        cases: list[nodes.Tree] = []
        absent: list[nodes.Tree] = []
        for name, small in self.names:
            mine = _renamed(test, self.name, name)
            mine = lowered(mine, self.start) if small else mine
            if len(self.names) == 1 and self.default is None:
                return mine
            cases.append(nodes.And((*absent, nodes.Not(nodes.IsNull(name)), mine)))
            absent.append(nodes.IsNull(name))
        cases.append(nodes.And((*absent, nodes.Constant(_truth(test, self.kind, self.default)))))
        return nodes.Or(tuple(cases))


def _renamed(tree: nodes.Tree, before: str, after: str) -> nodes.Tree:
    match tree:
        case nodes.Not(part):
            return nodes.Not(_renamed(part, before, after))
        case nodes.Lowered(test):
            return nodes.Lowered(replace(test, attribute=after))
        case nodes.And(parts) | nodes.Or(parts):
            return type(tree)(tuple(_renamed(part, before, after) for part in parts))
        case nodes.Constant() | nodes.Sized():
            return tree
    return replace(tree, attribute=after)


def _truth(tree: nodes.Tree, kind: Kind, value: Value | None) -> bool | None:
    """What a test of one attribute says of a value."""
    match tree:
        case nodes.Not(part):
            found = _truth(part, kind, value)
            return None if found is None else not found
        case nodes.Constant(truth):
            return truth
        case nodes.And(parts) | nodes.Or(parts):
            truths = [_truth(part, kind, value) for part in parts]
            decisive = isinstance(tree, nodes.Or)
            return decisive if decisive in truths else None if None in truths else not decisive
    return True if test_constraint(kind, tree, True).accepts(value) else False if _is_false(tree, kind, value) else None


def _is_false(tree: nodes.Tree, kind: Kind, value: Value | None) -> bool:
    assert not isinstance(tree, (nodes.Not, nodes.And, nodes.Or, nodes.Constant))
    return test_constraint(kind, tree, False).accepts(value)


def lowered(tree: nodes.Tree, start: int) -> nodes.Tree:
    """The test, of the small letters of its attribute."""
    match tree:
        case nodes.Not(part):
            return nodes.Not(lowered(part, start))
        case nodes.Compare(_, op, _) if op in ("=", "<>", "<=>"):
            return nodes.Lowered(tree)
        case nodes.Like() | nodes.TextTest():
            return nodes.Lowered(tree)
        case nodes.Lowered() | nodes.IsNull():
            return tree
        case nodes.In(name, values):
            if len(values) > MOST_LOWERED:
                raise Wrong(start, f"lower(...) IN takes up to {MOST_LOWERED:,} values; split the list")
            each = tuple(nodes.Lowered(nodes.Compare(name, "=", value)) for value in values)
            return each[0] if len(each) == 1 else nodes.Or(each)
    raise Wrong(start, "lower(...) is compared by = <> <=> IN LIKE startswith endswith contains; RLIKE ignores case with (?i)")


def _sized(tree: nodes.Tree, start: int) -> nodes.Tree:
    match tree:
        case nodes.Not(part):
            return nodes.Not(_sized(part, start))
        case nodes.Compare() | nodes.Between() | nodes.In():
            return nodes.Sized(tree)
        case nodes.IsNull():
            return tree
    raise Wrong(start, "a size is compared with ints by = <> < <= > >= <=> BETWEEN and IN")


def check_regex(expression: Value | None, start: int, raw: str) -> int:
    """The steps that it takes. Raises `Wrong` at the place in the literal, where it is written there as it is."""
    if not isinstance(expression, str):
        return 0
    try:
        return Regex.of(expression).steps
    except RegexError as reason:
        inside = reason.at + 1 if raw[1:-1] == expression else 0
        raise Wrong(start + inside, str(reason)) from None


def check_network(network: Value | None, start: int) -> None:
    if not isinstance(network, str):
        return
    try:
        InNetwork.of(network)
    except NetworkError as reason:
        raise Wrong(start, str(reason)) from None
