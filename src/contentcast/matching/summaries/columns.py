"""What a summary holds, by columns: for each attribute its rows, and for each row the entries whose constraint it satisfies.

Source: Triantafillou & Economides 2004, section 3.1 (AACS, SACS). An *entry* is one conjunction of one subscription, so a
subscription with OR has several. Two subscriptions over (symbol string, price float) of one broker

    7: symbol = 'OTE' AND price > 8.3 AND price < 8.7        9: symbol LIKE 'OT%' AND price IS NULL

    ids      [7, 9]                                             entry -> subscription
    symbol   cuts ('OT', 'OTE', 'OU')   low [0, 1]   high [2, POINT]            members, absent last: [1] [0] []
    price    low, high = the keys of 8.300000000000002 and 8.699999999999998   members: [0] [1]

Departs from the paper in three points. A row is stored as the interval that entries ask for, each interval once; the paper's
AACS rows, which do not overlap, are what its ends cut the values into (`precision.elementary`). An entry of a wide range then
stands once and not once in every row. An attribute may be asked to be absent: that is the last row of every column.
Rule: columns are canonical and never change: intervals ascend and are unique, members ascend, no row except absent is empty,
every cut is used. Two summaries of the same content have equal columns, whatever way they were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.values.keys import KEYED, cut_after, value_of
from contentcast.model.values.kinds import TOP, Kind, Value
from contentcast.model.values.ranges import Ranges

Ints = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]

POINT: Final = -1
"""As a text row's `high`: the row is the one value `cuts[low]`."""

UNBOUNDED: Final = 2**62
"""As a text row's `high`: the row has no upper end."""

NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One attribute's rows: intervals, then patterns, then absent; row r has the entries members[offsets[r]:offsets[r + 1]].

    Kinds with order keys: `low` and `high` are the first and the last key. Texts: both are positions in `cuts`, the row holds
    what is not below the one and below the other.
    """

    kind: Kind
    low: Ints
    high: Ints
    cuts: tuple[Value, ...]
    patterns: tuple[Constraint, ...]
    offsets: Ints
    members: Ints

    @classmethod
    def of(cls, plain: Any) -> Rows:
        """From a value with the same fields, such as `wire.summaries` decodes; it has been checked there."""
        return cls(plain.kind, plain.low, plain.high, plain.cuts, plain.patterns, plain.offsets, plain.members)

    @property
    def intervals(self) -> int:
        return len(self.low)

    @property
    def count(self) -> int:
        """Rows that some entry asks for."""
        return self.intervals + len(self.patterns) + int(self.offsets[-1] > self.offsets[-2])

    @property
    def weights(self) -> Ints:
        """How many entries each row has, absent last."""
        return np.diff(self.offsets)

    def of_row(self, row: int) -> Ints:
        return self.members[self.offsets[row] : self.offsets[row + 1]]

    def constraint(self, row: int) -> Constraint:
        """The values that the row stands for."""
        if row >= self.intervals:
            at = row - self.intervals
            return self.patterns[at] if at < len(self.patterns) else Constraint.missing(self.kind)
        low, high = int(self.low[row]), int(self.high[row])
        if self.kind.name in KEYED:
            return Constraint(Ranges(self.kind, (value_of(self.kind, low), cut_after(self.kind, high))))
        start = self.cuts[low]
        end = TOP if high == UNBOUNDED else self.kind.successor(start) if high == POINT else self.cuts[high]
        return Constraint(Ranges(self.kind, (start, end)))

    def flat(self) -> Flat:
        row = np.repeat(np.arange(len(self.offsets) - 1), self.weights)
        in_interval = row < self.intervals
        in_pattern = ~in_interval & (row < self.intervals + len(self.patterns))
        return Flat(
            self.kind,
            list(self.cuts),
            self.low[row[in_interval]],
            self.high[row[in_interval]],
            self.members[in_interval],
            list(self.patterns),
            row[in_pattern] - self.intervals,
            self.members[in_pattern],
            self.of_row(len(self.offsets) - 2),
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Rows)
            and self.kind is other.kind
            and self.cuts == other.cuts
            and self.patterns == other.patterns
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("low", "high", "offsets", "members"))
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class Flat:
    """One attribute's rows as single (row, entry) pairs in any order: what is easy to join and to filter."""

    kind: Kind
    cuts: list[Value] = field(default_factory=list)
    low: Ints = field(default_factory=lambda: NONE)
    high: Ints = field(default_factory=lambda: NONE)
    entry: Ints = field(default_factory=lambda: NONE)
    patterns: list[Constraint] = field(default_factory=list)
    pattern: Ints = field(default_factory=lambda: NONE)
    pattern_entry: Ints = field(default_factory=lambda: NONE)
    absent_entry: Ints = field(default_factory=lambda: NONE)

    def kept(self, place: Ints) -> Flat:
        """Only entries whose new number `place[entry]` is not negative, under that number."""
        entry, pattern, absent = place[self.entry], place[self.pattern_entry], place[self.absent_entry]
        mine, patterned = entry >= 0, pattern >= 0
        return replace(
            self,
            low=self.low[mine],
            high=self.high[mine],
            entry=entry[mine],
            pattern=self.pattern[patterned],
            pattern_entry=pattern[patterned],
            absent_entry=absent[absent >= 0],
        )

    @classmethod
    def joined(cls, parts: Sequence[Flat]) -> Flat:
        """Pairs of one attribute from several places; entries keep their numbers."""
        if len(parts) == 1:
            return parts[0]
        found = cls(parts[0].kind)
        lows, highs, patterns = [], [], []
        for part in parts:
            shift, more = len(found.cuts), len(found.patterns)
            lows.append(part.low + shift if part.cuts else part.low)
            highs.append(np.where((part.high == POINT) | (part.high == UNBOUNDED), part.high, part.high + shift))
            patterns.append(part.pattern + more)
            found.cuts += part.cuts
            found.patterns += part.patterns
        keyed = found.kind.name in KEYED
        found.low = np.concatenate(lows)
        found.high = np.concatenate([part.high for part in parts] if keyed else highs)
        found.pattern = np.concatenate(patterns)
        found.entry = np.concatenate([part.entry for part in parts])
        found.pattern_entry = np.concatenate([part.pattern_entry for part in parts])
        found.absent_entry = np.concatenate([part.absent_entry for part in parts])
        return found

    def rows(self) -> Rows | None:
        """The canonical rows, or None when no entry is left."""
        if not len(self.entry) + len(self.pattern_entry) + len(self.absent_entry):
            return None
        low, high, cuts = self.low, self.high, ()
        if self.kind.name not in KEYED:
            low, high, cuts = sorted_cuts(self.cuts, low, high)
        low, high, offsets, members = _grouped(low, high, self.entry)
        patterns, pattern_offsets, pattern_members = self._pattern_rows()
        absent = np.unique(self.absent_entry)
        ends = (offsets, offsets[-1] + pattern_offsets[1:], [offsets[-1] + pattern_offsets[-1] + len(absent)])
        everyone = np.concatenate([members, pattern_members, absent])
        return Rows(self.kind, low, high, cuts, patterns, np.concatenate(ends), everyone)

    def _pattern_rows(self) -> tuple[tuple[Constraint, ...], Ints, Ints]:
        used = np.unique(self.pattern)
        wanted = sorted({self.patterns[each] for each in used.tolist()}, key=Constraint.sort_key)
        number = {each: at for at, each in enumerate(wanted)}
        place = np.zeros(len(self.patterns), np.int64)
        place[used] = [number[self.patterns[each]] for each in used.tolist()]
        which = place[self.pattern]
        _, _, offsets, members = _grouped(which, which, self.pattern_entry)
        return tuple(wanted), offsets, members


def sorted_cuts(cuts: Sequence[Value], low: Ints, high: Ints) -> tuple[Ints, Ints, tuple[Value, ...]]:
    ended = (high != POINT) & (high != UNBOUNDED)
    used = np.unique(np.concatenate([low, high[ended]]))
    texts = [cuts[each] for each in used.tolist()]
    wanted = sorted(set(texts))
    number = {text: at for at, text in enumerate(wanted)}
    place = np.zeros(len(cuts), np.int64)
    place[used] = [number[text] for text in texts]
    moved = high.copy()
    moved[ended] = place[high[ended]]
    return place[low], moved, tuple(wanted)


def _grouped(low: Ints, high: Ints, entry: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Each (low, high) once, ascending, with where its entries begin; each entry once."""
    if not len(entry):
        return NONE, NONE, np.zeros(1, np.int64), NONE
    order = np.lexsort((entry, high, low))
    low, high, entry = low[order], high[order], entry[order]
    begins = np.ones(len(low), bool)
    begins[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    fresh = begins.copy()
    fresh[1:] |= entry[1:] != entry[:-1]
    low, high, entry, begins = low[fresh], high[fresh], entry[fresh], begins[fresh]
    starts = np.flatnonzero(begins)
    return low[starts], high[starts], np.append(starts, len(entry)).astype(np.int64), entry


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The summary of some brokers: entries stand broker by broker, and by subscription id within one."""

    space: str
    brokers: tuple[str, ...]
    versions: tuple[int, ...]
    starts: Ints
    ids: Ints
    rows: Mapping[str, Rows]

    @classmethod
    def empty(cls, space: str, broker: str, version: int = 0) -> Columns:
        return cls(space, (broker,), (version,), np.zeros(2, np.int64), NONE, {})

    @classmethod
    def of(cls, plain: Any) -> Columns:
        """From a value with the same fields, such as `wire.summaries` decodes; it has been checked there."""
        rows = {name: Rows.of(each) for name, each in plain.rows.items()}
        return cls(plain.space, plain.brokers, plain.versions, plain.starts, plain.ids, rows)

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Equal content; versions only count changes."""
        return (
            isinstance(other, Columns)
            and (self.space, self.brokers) == (other.space, other.brokers)
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.ids, other.ids)
            and dict(self.rows) == dict(other.rows)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def broker_of(self) -> Ints:
        """entry -> position in `brokers`."""
        return np.repeat(np.arange(len(self.brokers)), np.diff(self.starts))

    def constrained(self, names: Sequence[str]) -> Truths:
        """[entry, attribute]: c3 of every entry, over these attributes."""
        found = np.zeros((len(self), len(names)), bool)
        for at, name in enumerate(names):
            if name in self.rows:
                found[self.rows[name].members, at] = True
        return found

    def selected(self, kept: Truths) -> Columns:
        """Only these entries."""
        if kept.all():
            return self
        place = np.where(kept, np.cumsum(kept) - 1, -1)
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        rows = {name: each.flat().kept(place).rows() for name, each in self.rows.items()}
        return replace(self, starts=starts, ids=self.ids[kept], rows=_filled(rows))

    def parts(self) -> list[Columns]:
        """One for each broker."""
        if len(self.brokers) == 1:
            return [self]
        found = []
        owner = self.broker_of
        for at, (broker, version) in enumerate(zip(self.brokers, self.versions, strict=True)):
            mine = self.selected(owner == at)
            found.append(replace(mine, brokers=(broker,), versions=(version,), starts=np.array([0, len(mine)])))
        return found

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """Summaries of different brokers as one, brokers in the order of their names (the paper's merging, section 4.1)."""
        every = sorted((part for whole in parts for part in whole.parts()), key=lambda part: part.brokers)
        names = [part.brokers[0] for part in every]
        if len(set(names)) != len(names):
            raise ContentcastError("a broker stands twice among the summaries to join; keep its newer one")
        if len({part.space for part in every}) > 1:
            raise ContentcastError("summaries of different spaces cannot be joined; keep one for each space")
        starts = np.cumsum([0, *map(len, every)])
        flats: dict[str, list[Flat]] = {}
        for part, start in zip(every, starts.tolist(), strict=False):
            for name, each in part.rows.items():
                flats.setdefault(name, []).append(each.flat().kept(np.arange(len(part)) + start))
        for name, listed in flats.items():
            if len({each.kind.name for each in listed}) > 1:
                raise ContentcastError(f"the attribute {name} has two kinds among the brokers; declare it alike at all of them")
        rows = {name: Flat.joined(listed).rows() for name, listed in sorted(flats.items())}
        ids = np.concatenate([NONE, *(part.ids for part in every)])
        versions = tuple(part.versions[0] for part in every)
        return cls(every[0].space if every else "", tuple(names), versions, starts, ids, _filled(rows))

    def merged(self, others: Sequence[Columns], leaving: Ints = NONE) -> Columns:
        """Pieces of the same broker with other subscriptions added, and the subscriptions `leaving` taken out of this one."""
        parts = [self, *others]
        ids = np.concatenate([part.ids for part in parts])
        stays = np.ones(len(ids), bool)
        stays[: len(self)] = ~np.isin(self.ids, leaving)
        order = np.argsort(ids, kind="stable")
        order = order[stays[order]]
        place = np.full(len(ids), -1, np.int64)
        place[order] = np.arange(len(order))
        starts = np.cumsum([0, *map(len, parts)]).tolist()
        flats: dict[str, list[Flat]] = {}
        for part, begin in zip(parts, starts, strict=False):
            for name, each in part.rows.items():
                flats.setdefault(name, []).append(each.flat().kept(place[begin : begin + len(part)]))
        rows = {name: Flat.joined(listed).rows() for name, listed in sorted(flats.items())}
        return replace(self, starts=np.array([0, len(order)]), ids=ids[order], rows=_filled(rows))


def _filled(rows: Mapping[str, Rows | None]) -> dict[str, Rows]:
    return {name: each for name, each in rows.items() if each is not None}


def with_rows(columns: Columns, rows: Iterable[tuple[str, Rows | None]]) -> Columns:
    """The same entries with other rows."""
    return replace(columns, rows=_filled(dict(rows)))
