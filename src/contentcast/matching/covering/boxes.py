"""Boxes: for each predicate of a table and each attribute, the least and the greatest value it accepts, as 64-bit keys.

A predicate that covers another one has a box that contains the other's box, so boxes find candidates by comparing arrays. For
three subscriptions over (issue string, price float, 0 to 1000), with keys written as the values that they stand for:

    0: issue = 'IBM' AND price < 120      1: price BETWEEN 5 AND 9 OR issue = 'SAP'      2: issue LIKE 'I%'

    low    IBM  0        high    IBM  119.99..      absent   -  -       exact   yes
           ''   0                TOP  1000                   x  x               no, it is more than one conjunction
           I    0                Hzz  1000                   -  x               yes                (Hzz: right below J)

Numbers, bools and timestamps have the keys of `model.values.keys`. A string's key is its first eight bytes, so long strings
share keys. `exact` says that the box is the predicate itself, as far as containment is asked: whatever lies inside is covered.
Rule: every box is cut to the declared domains. A box never leaves out what its predicate accepts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.space import Space
from contentcast.model.values.keys import KEYED, key_ends, key_of, last_key
from contentcast.model.values.kinds import TOP, Kind, Value

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEAST: Final = -(2**63)
GREATEST: Final = 2**63 - 1
LETTERS_HELD, BYTES_HELD = 8, 7
"""How many bytes the key of a string, and of a value of kind bytes, holds."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """[predicate, attribute]: the first and last key accepted (last below first: no value), and whether absent is accepted."""

    low: Ints
    high: Ints
    absent: Bools
    exact: Bools
    nothing: Bools
    """Predicates that no event of the space satisfies."""


def boxes_of(table: PredicateTable) -> Boxes:
    space, count = table.space, table.conjunction_count
    ends = [_domain(space, name) for name in space.names]
    low = np.tile(np.array([first for first, _ in ends], np.int64), (count, 1))
    high = np.tile(np.array([last for _, last in ends], np.int64), (count, 1))
    absent = np.ones((count, len(ends)), bool)
    exact = np.ones(count, bool)
    for name, column in table.columns.items():
        at = space.position(name)
        rows = column.conjunction
        first, last, may_lack, whole = _column(column)
        low[rows, at] = np.maximum(first, ends[at][0])
        high[rows, at] = np.minimum(last, ends[at][1])
        absent[rows, at] = may_lack
        exact[rows] &= whole
    empty = low > high
    low[empty], high[empty] = GREATEST, LEAST
    void = np.flatnonzero((empty & ~absent).any(axis=1))
    return _by_predicate(table, Boxes(low, high, absent, exact, np.isin(np.arange(count), void)))


def _by_predicate(table: PredicateTable, parts: Boxes) -> Boxes:
    """The box around the conjunctions of each predicate; conjunctions that nothing satisfies do not count."""
    count, width = table.count, parts.low.shape[1]
    low, high = np.full((count, width), GREATEST, np.int64), np.full((count, width), LEAST, np.int64)
    absent = np.zeros((count, width), bool)
    exact, nothing = np.ones(count, bool), np.ones(count, bool)
    kept = np.flatnonzero(~parts.nothing)
    if len(kept):
        owner = table.predicate_of[kept]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        mine = owner[starts]
        low[mine] = np.minimum.reduceat(parts.low[kept], starts, axis=0)
        high[mine] = np.maximum.reduceat(parts.high[kept], starts, axis=0)
        absent[mine] = np.logical_or.reduceat(parts.absent[kept], starts, axis=0)
        exact[mine] = parts.exact[kept][starts] & (np.diff(np.append(starts, len(kept))) == 1)
        nothing[mine] = False
    return Boxes(low, high, absent, exact, nothing)


def _domain(space: Space, name: str) -> tuple[int, int]:
    kind = space.kinds[name]
    if space[name].has_domain:
        first, last, _ = _hull(kind, space[name].domain.cuts)
        return first, last
    return key_ends(kind) if kind.name in KEYED else (LEAST, GREATEST)


def _column(column: ConstraintColumn) -> tuple[Ints, Ints, Bools, Bools]:
    """For each row: first and last key, whether absent is accepted, and whether that is all there is to say."""
    count = len(column.conjunction)
    absent, exact = np.zeros(count, bool), np.ones(count, bool)
    first, last = column.first.copy(), column.last.copy()
    if column.kind.name not in KEYED:
        plain = np.flatnonzero(column.code >= 0)
        used, which = np.unique(column.code[plain], return_inverse=True)
        values = [column.values[int(each)].as_py() for each in used]
        first[plain] = last[plain] = np.array([text_key(each) for each in values], np.int64)[which]
        exact[plain] = np.array([is_short(each) for each in values], bool)[which]
    special = np.flatnonzero(column.other >= 0)
    if len(special):
        used, which = np.unique(column.other[special], return_inverse=True)
        found = [_constraint(column.kind, column.others[int(each)]) for each in used]
        first[special] = np.array([each[0] for each in found], np.int64)[which]
        last[special] = np.array([each[1] for each in found], np.int64)[which]
        absent[special] = np.array([each[2] for each in found], bool)[which]
        exact[special] = np.array([each[3] for each in found], bool)[which]
    return first, last, absent, exact


def _constraint(kind: Kind, constraint: Constraint) -> tuple[int, int, bool, bool]:
    cuts = constraint.ranges.cuts
    if not cuts:
        return GREATEST, LEAST, constraint.absent, True
    first, last, sharp = _hull(kind, cuts)
    return first, last, constraint.absent, sharp and len(cuts) == 2 and constraint.only_ranges


def _hull(kind: Kind, cuts: tuple[Value, ...]) -> tuple[int, int, bool]:
    """The first and last key of the cuts, and whether no value outside them has a key between the two."""
    low, high = cuts[0], cuts[-1]
    if kind.name in KEYED:
        return key_of(kind, low), last_key(kind, high), True
    first = text_key(low)
    if kind.successor(low) == high:
        return first, first, is_short(low)
    if high is TOP:
        return first, GREATEST, is_short(low)
    # Strings right below a long cut share its key.
    return first, text_key(high) - is_short(high), is_short(low) and is_short(high)


def text_key(text: str | bytes) -> int:
    """The first bytes of a string as a number in digits that sorts as the strings do, up to strings that begin alike.

    Digit 0 is the end of the string, so that 'a' and 'a\\0' differ. Bytes of UTF-8 are below 245, so eight of them fit.
    """
    data, base, digits = (text, 257, BYTES_HELD) if isinstance(text, bytes) else (text.encode(), 246, LETTERS_HELD)
    key = 0
    for each in data[:digits]:
        key = key * base + each + 1
    return key * int(base ** max(0, digits - len(data))) + LEAST


def is_short(text: str | bytes) -> bool:
    """Does no other string have this one's key?"""
    return len(text) < BYTES_HELD if isinstance(text, bytes) else len(text.encode()) < LETTERS_HELD
