"""Summaries with subsumption: an entry that another entry of the same broker covers is left out.

Source: Triantafillou & Economides 2004, section 6 (announced there as further work). Whatever event matches the covered entry
matches the covering one as well, so the broker gets it, and serves both.

An interval holds another one exactly when it holds its two ends. So the entries that may cover an entry are found by Algorithm
1 itself: those that pass at the lower ends of all its intervals and also at the upper ends. Entries with several intervals,
patterns or IS NULL are then compared constraint by constraint.
Rule: of entries that cover each other the first one stays; so every entry that is left out is covered by one that is not.
"""

from __future__ import annotations

import numpy as np

from contentcast.matching.summaries.codes import Codes
from contentcast.matching.summaries.columns import Columns, Ints, Truths
from contentcast.matching.summaries.kernels import ANY, FREE
from contentcast.matching.summaries.matcher import Matcher
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.space import Space
from contentcast.model.values.kinds import Kind
from contentcast.model.values.ranges import Ranges


def uncovered(columns: Columns, space: Space) -> Truths:
    """Which entries stay, of one broker's exact columns."""
    count = len(columns)
    if count < 2:
        return np.ones(count, bool)
    matcher = Matcher(columns, space)
    asked = _Asked(columns, matcher.names)
    lower, upper = _corners(columns, matcher, asked)
    pairs = np.intersect1d(_passing(matcher, lower), _passing(matcher, upper), assume_unique=True)
    narrow, wide = pairs // count, pairs % count
    other = narrow != wide
    narrow, wide = narrow[other], wide[other]
    sure = asked.simple[narrow] & asked.simple[wide]
    for at in np.flatnonzero(~sure).tolist():
        sure[at] = asked.covers(int(wide[at]), int(narrow[at]))
    narrow, wide = narrow[sure], wide[sure]
    both = np.isin(narrow * count + wide, wide * count + narrow)
    kept = np.ones(count, bool)
    kept[narrow[~both | (wide < narrow)]] = False
    return kept


def _passing(matcher: Matcher, codes: Codes) -> Ints:
    """(entry asked about) * count + (entry that passes), ascending."""
    count = len(matcher.place)
    nothing, nowhere = np.full_like(codes, -1), np.zeros(1, np.int64)
    found = matcher.run(codes, nothing, nowhere, np.empty(0, np.int64), matcher.entry.astype(np.int32), count)
    return found.events * count + found.numbers


def _corners(columns: Columns, matcher: Matcher, asked: _Asked) -> tuple[Codes, Codes]:
    """The codes of the lower and of the upper ends of every entry. FREE where it names nothing, ANY where it asks for more."""
    lower = np.full((len(matcher.names), len(columns)), FREE, np.int32)
    upper = lower.copy()
    for at, name in enumerate(matcher.names):
        rows, coder = columns.rows[name], matcher.coders[name]
        row = np.repeat(np.arange(rows.intervals), rows.weights[: rows.intervals])
        entry = rows.members[: len(row)]
        lower[at, entry], upper[at, entry] = coder.first[row], coder.last[row]
        lower[at, asked.several[at]] = upper[at, asked.several[at]] = ANY
    return lower, upper


class _Asked:
    """What each entry asks for, constraint by constraint.

    `simple`: entries with one interval for each attribute that they name, and nothing else. `several`: for each attribute the
    entries with more than one row, a pattern, or absent.
    """

    def __init__(self, columns: Columns, names: list[str]) -> None:
        self._columns, self._names = columns, list(columns.rows)
        self.simple = np.ones(len(columns), bool)
        self.several: list[Ints] = []
        for name in names:
            rows = columns.rows[name]
            times = np.bincount(rows.members, minlength=len(columns))
            special = times > 1
            special[rows.members[rows.offsets[rows.intervals] :]] = True
            self.several.append(np.flatnonzero(special))
            self.simple &= ~special
        for name in set(self._names) - set(names):  # unknown here, so nothing is said of it without looking
            self.simple[columns.rows[name].members] = False
        self._known: dict[int, dict[str, tuple[Constraint, ...]]] = {}
        self._rows_of: dict[str, tuple[Ints, Ints]] = {}

    def covers(self, wide: int, narrow: int) -> bool:
        mine, theirs = self._of(wide), self._of(narrow)
        return all(name in theirs and _holds(mine[name], theirs[name]) for name in mine)

    def _of(self, entry: int) -> dict[str, tuple[Constraint, ...]]:
        if entry not in self._known:
            found = {name: self._constraints(name, entry) for name in self._names}
            self._known[entry] = {name: each for name, each in found.items() if each}
        return self._known[entry]

    def _constraints(self, name: str, entry: int) -> tuple[Constraint, ...]:
        rows = self._columns.rows[name]
        if name not in self._rows_of:
            order = np.argsort(rows.members, kind="stable")
            row = np.repeat(np.arange(len(rows.offsets) - 1), rows.weights)
            self._rows_of[name] = rows.members[order], row[order]
        members, row = self._rows_of[name]
        begin, end = np.searchsorted(members, [entry, entry + 1])
        plain = [rows.constraint(int(each)) for each in row[begin:end]]
        return tuple(_together(rows.kind, plain))


def _together(kind: Kind, plain: list[Constraint]) -> list[Constraint]:
    """Intervals and absent as one constraint, patterns for themselves."""
    if not plain:
        return []
    patterns = [each for each in plain if not each.only_ranges]
    others = [each for each in plain if each.only_ranges]
    absent = any(each.absent for each in others)
    if patterns:  # an entry has one pattern at most, and may be absent besides
        return [Constraint(each.ranges, absent, each.like, each.unlike) for each in patterns]
    return [Constraint(Ranges.union_all(kind, [each.ranges for each in others]), absent)]


def _holds(wide: tuple[Constraint, ...], narrow: tuple[Constraint, ...]) -> bool:
    return all(any(mine.covers(theirs) for mine in wide) for theirs in narrow)
