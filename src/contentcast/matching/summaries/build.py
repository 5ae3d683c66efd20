"""From predicates to columns: each conjunction is dissolved into its constraints, one for each attribute.

Source: Triantafillou & Economides 2004, section 3.1. Two constraints on one attribute (price > 8.3 AND price < 8.7) are one
already, since the model's canonical form has one constraint for each attribute: so they count once in Algorithm 1.
Rule: nothing is widened here; `precision` does that.
"""

from __future__ import annotations

import numpy as np

from contentcast.matching.summaries.columns import NONE, POINT, UNBOUNDED, Columns, Flat, Ints, Rows
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.values.keys import KEYED, key_of, last_key
from contentcast.model.values.kinds import TOP, Kind, Value


def build(broker: str, ids: Ints, table: PredicateTable) -> Columns:
    """The exact summary of subscription `ids[i]` asking for `table[i]`."""
    owner = ids[table.predicate_of]
    order = np.argsort(owner, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    rows: dict[str, Rows] = {}
    for name, column in sorted(table.columns.items()):
        made = _flat(column, place).rows()
        if made is not None:
            rows[name] = made
    return Columns(table.space.name, (broker,), (0,), np.array([0, len(order)]), owner[order], rows)


def _flat(column: ConstraintColumn, place: Ints) -> Flat:
    entry = place[column.conjunction]
    plain = column.other < 0
    found = Flat(column.kind)
    if column.kind.name in KEYED:
        low, high = column.first[plain], column.last[plain]
    else:
        found.cuts = column.values.to_pylist()
        low = column.code[plain]
        high = np.full(len(low), POINT, np.int64)
    special = np.flatnonzero(~plain)
    asked = _Asked(column.kind, found.cuts, found.patterns)
    # Each distinct constraint is taken apart once; the rows that ask for it repeat what came out.
    offsets, lows, highs, patterns, absent = asked.take_apart(column, np.unique(column.other[special]))
    which, who = column.other[special], entry[special]
    each_has = offsets[which + 1] - offsets[which]
    at = np.repeat(offsets[which], each_has) + _counted(each_has)
    found.low, found.high = np.concatenate([low, lows[at]]), np.concatenate([high, highs[at]])
    found.entry = np.concatenate([entry[plain], np.repeat(who, each_has)])
    patterned = patterns[which] >= 0
    found.pattern, found.pattern_entry = patterns[which][patterned], who[patterned]
    found.absent_entry = who[absent[which]]
    return found


def _counted(lengths: Ints) -> Ints:
    """0, 1, ... within each of the lengths."""
    total = int(lengths.sum())
    return np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths) if total else NONE


class _Asked:
    """The distinct constraints of a column as intervals, patterns and absent."""

    def __init__(self, kind: Kind, cuts: list[Value], patterns: list[Constraint]) -> None:
        self.kind, self.cuts, self.patterns = kind, cuts, patterns
        self.lows: list[int] = []
        self.highs: list[int] = []

    def take_apart(self, column: ConstraintColumn, used: Ints) -> tuple[Ints, Ints, Ints, Ints, np.ndarray]:
        count = len(column.others)
        lengths, pattern, absent = np.zeros(count + 1, np.int64), np.full(count, -1, np.int64), np.zeros(count, bool)
        for at in used.tolist():
            asked = column.others[at]
            absent[at] = asked.absent
            if asked.only_ranges:
                before = len(self.lows)
                self._intervals(asked)
                lengths[at + 1] = len(self.lows) - before
            else:
                pattern[at] = len(self.patterns)
                self.patterns.append(Constraint(asked.ranges, False, asked.like, asked.unlike))
        lows, highs = np.array(self.lows, np.int64), np.array(self.highs, np.int64)
        return np.cumsum(lengths), lows, highs, pattern, absent

    def _intervals(self, asked: Constraint) -> None:
        kind = self.kind
        for low, high in asked.ranges.pairs():
            if kind.name in KEYED:
                self.lows.append(key_of(kind, low))
                self.highs.append(last_key(kind, high))
                continue
            self.lows.append(len(self.cuts))
            self.cuts.append(low)
            if high is TOP:
                self.highs.append(UNBOUNDED)
            elif kind.successor(low) == high:
                self.highs.append(POINT)
            else:
                self.highs.append(len(self.cuts))
                self.cuts.append(high)
