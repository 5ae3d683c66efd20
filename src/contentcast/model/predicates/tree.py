"""The syntax of a predicate as a small tree of tests, AND, OR and NOT.

`normalise` turns a tree into its canonical `Predicate`; `test_constraints` says what each test asks of its attribute.
Rule: values in a tree are already of the attribute's kind; only an int attribute may meet a Decimal, compared exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contentcast.model.values.kinds import Value

MIRRORED: Final = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Each comparison with its sides exchanged: `5 < price` is `price > 5`."""


@dataclass(frozen=True, slots=True)
class Compare:
    """`attribute op value`; a value of None is SQL's NULL."""

    attribute: str
    op: str  # = <> < <= > >= <=>
    value: Value | None


@dataclass(frozen=True, slots=True)
class Between:
    attribute: str
    low: Value | None
    high: Value | None


@dataclass(frozen=True, slots=True)
class In:
    attribute: str
    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`pattern` is None for LIKE NULL."""

    attribute: str
    pattern: str | None
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class TextTest:
    """startswith, endswith or contains."""

    attribute: str
    how: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Rlike:
    """A regular expression that matches somewhere in the string."""

    attribute: str
    expression: str | None


@dataclass(frozen=True, slots=True)
class InCidr:
    attribute: str
    network: str | None


@dataclass(frozen=True, slots=True)
class Lowered:
    """A test of the small letters of a string: an equality, LIKE, startswith, endswith or contains."""

    test: Compare | Like | TextTest

    @property
    def attribute(self) -> str:
        return self.test.attribute


@dataclass(frozen=True, slots=True)
class Exists:
    """Some element of a list, named `element`, satisfies a predicate. Unknown if none does and the predicate is for one of
    them.

    `array_contains` and `arrays_overlap` are this with an equality and an IN.
    """

    attribute: str
    element: str
    predicate: Tree


@dataclass(frozen=True, slots=True)
class ForAll:
    """Every element does. FALSE if it is FALSE for one; else unknown if it is for one."""

    attribute: str
    element: str
    predicate: Tree


@dataclass(frozen=True, slots=True)
class Sized:
    """A test of the size of a list, as if that were the attribute's value."""

    test: Compare | Between | In

    @property
    def attribute(self) -> str:
        return self.test.attribute


@dataclass(frozen=True, slots=True)
class IsNull:
    attribute: str


@dataclass(frozen=True, slots=True)
class IsTruth:
    """`attribute IS TRUE` or `IS FALSE`: never unknown."""

    attribute: str
    truth: bool


@dataclass(frozen=True, slots=True)
class Constant:
    truth: bool | None


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Tree


Test = Compare | Between | In | Like | TextTest | Rlike | InCidr | Lowered | Exists | ForAll | Sized | IsNull | IsTruth
Tree = Test | Constant | And | Or | Not
