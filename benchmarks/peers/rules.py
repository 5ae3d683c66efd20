"""What peers are given: subscriptions as plain columns of equalities, ranges and text tests; and what they give back.

rules 0: symbol = 'IBM' AND price < 120      1: price BETWEEN 5 AND 9      2: endswith(name, 'X')

equal['symbol']    rule [0]       value ['IBM']
between['price']   rule [0, 1]    low [-inf, 5.0]    high [119.99999999999999, 9.0]     both ends included
texts['name']      rule [2]       how ['endswith']   text ['X']
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.language import parse_many
from contentcast.model import Space
from contentcast.model.predicates.spelling import spell_constraint
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.predicates.tree import TextTest
from contentcast.model.values.keys import KEYED

Ints = npt.NDArray[np.int64]


class Unsuitable(Exception):
    """The peer cannot do this; the message is shown in its place."""


class Equal(NamedTuple):
    rule: Ints
    value: pa.Array


class Between(NamedTuple):
    rule: Ints
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]


class Texts(NamedTuple):
    rule: Ints
    how: list[str]
    text: list[str]


@dataclass(frozen=True)
class Rules:
    """Conjunctions; rule r is subscription r. An attribute is in one of the three at most."""

    space: Space
    count: int
    equal: dict[str, Equal]
    between: dict[str, Between]
    texts: dict[str, Texts]

    @classmethod
    def of(cls, space: Space, predicates: PredicateTable | pa.Array) -> Rules:
        table = predicates if isinstance(predicates, PredicateTable) else parse_many(space, predicates)
        if not np.array_equal(table.predicate_of, np.arange(len(table))):
            raise Unsuitable("the peers take plain conjunctions")
        rules = cls(space, len(table), {}, {}, {})
        for name, column in table.columns.items():
            rules._add(name, column)
        return rules

    def _add(self, name: str, column: ConstraintColumn) -> None:
        if column.others:
            if (column.other < 0).any():
                raise Unsuitable(f"{name} has text tests and other tests")
            tests = [spell_constraint(name, each) for each in column.others]
            if not all(isinstance(each, TextTest) for each in tests):
                raise Unsuitable(f"{name} has tests that are neither equality, range nor text tests")
            chosen = [tests[at] for at in column.other]
            self.texts[name] = Texts(column.conjunction, [each.how for each in chosen], [each.text for each in chosen])
        elif column.kind.name not in KEYED:
            self.equal[name] = Equal(column.conjunction, column.values.take(pa.array(column.code)))
        elif np.array_equal(column.first, column.last):
            self.equal[name] = Equal(column.conjunction, pa.array(_values(column, column.first)))
        else:
            self.between[name] = Between(column.conjunction, _values(column, column.first), _values(column, column.last))

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """Those that some rule tests, the most tested first."""
        tested: dict[str, int] = {}
        for kind in (self.equal, self.between, self.texts):
            tested |= {name: len(tests.rule) for name, tests in kind.items()}
        return tuple(sorted(tested, key=lambda name: -tested[name]))


def _values(column: ConstraintColumn, keys: Ints) -> npt.NDArray[Any]:
    if column.kind.name == "float":  # the way back from contentcast.model.values.keys.float_keys
        return np.where(keys >= 0, keys, keys ^ np.int64(0x7FFF_FFFF_FFFF_FFFF)).view(np.float64)
    return keys


@dataclass(frozen=True)
class Matches:
    """The pairs: event rows (or how many subscriptions each event has, in the events' order) and subscriptions."""

    subscription: npt.NDArray[Any]
    event: npt.NDArray[Any] | None = None
    counts: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.subscription)

    def pairs(self) -> tuple[Ints, Ints]:
        """Event rows and subscriptions as two arrays, sorted, for checking."""
        event = self.event
        if event is None:
            assert self.counts is not None
            event = np.repeat(np.arange(len(self.counts)), self.counts)
        event, subscription = event.astype(np.int64), self.subscription.astype(np.int64)
        order = np.lexsort((subscription, event))
        return event[order], subscription[order]


class Index(Protocol):
    def match(self, events: pa.RecordBatch) -> Matches: ...
