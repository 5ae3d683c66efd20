"""The three mappings of the fourth paper: SK(subscription) and EK(event), by columns, over ranges of keys.

Source: Baldoni et al. 2005, section 4.2 and figure 3. For m-bit keys and d attributes:

    attribute-split        SK: the places of every constraint, m bits each, together      EK: the place of one attribute
    key-space-split        SK: all concatenations of floor(m/d)-bit places                 EK: the concatenation
    selective-attribute    SK: the places of the most selective constraint, m bits         EK: the place of every attribute

The paper has integer ranges on every attribute. Here a value may also be absent, and "absent" has a key of its own for each
attribute, which is in SK wherever a constraint allows it. A conjunction stands for itself: SK of a disjunction is the union.
Rule (the mapping intersection rule): if an event matches a subscription, they share a key. SK may be larger than it must be:
many small ranges are joined into MOST_RANGES, never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.model import Constraint, ContentcastError, EventBatch, Space
from contentcast.model.errors import nearest
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.values.keys import KEYED
from contentcast.model.values.list_bytes import list_column
from contentcast.routing.chord.keys import BITS, Keys, key_of
from contentcast.routing.chord.mcast import Targets
from contentcast.routing.overlay.scales import LAST_PLACE, Scale, scales_of

Ints = npt.NDArray[np.int64]

MAPPINGS: Final = ("attribute-split", "key-space-split", "selective-attribute")
MOST_RANGES: Final = 128
"""Ranges of keys of one conjunction. A network has fewer nodes than a subscription would have further ranges."""
EVERYWHERE: Final = ((0, int(LAST_PLACE)),)


@dataclass(frozen=True)
class KeyMapping:
    """`cells`: discretization, 0 for none. `learnt`: space -> attribute -> cuts. `by`: what attribute-split goes by."""

    kind: str = "selective-attribute"
    bits: int = BITS
    cells: int = 0
    learnt: Mapping[str, Mapping[str, tuple[object, ...]]] = field(default_factory=dict)
    by: str = ""
    scales: Mapping[str, Scale] = field(default_factory=dict)
    """Scales of attributes that are given by hand, by name."""

    def __post_init__(self) -> None:
        if self.kind not in MAPPINGS:
            raise ContentcastError(f"there is no mapping {self.kind!r}{nearest(self.kind, MAPPINGS, 'there are')}")
        if not 1 <= self.bits <= BITS:
            raise ContentcastError(f"keys have 1 to {BITS} bits, got {self.bits}")

    def on_ring(self, keys: Keys) -> Keys:
        """Nodes always stand at keys of 64 bits, so that no two stand at one place."""
        return keys << np.uint64(BITS - self.bits)

    def in_space(self, space: Space) -> SpaceMapping:
        learnt = {name: tuple(cuts) for name, cuts in self.learnt.get(space.name, {}).items() if name in space}
        scales = scales_of(space, cells=self.cells, learnt=learnt)
        chosen = tuple(self.scales.get(name, scale) for name, scale in zip(space.names, scales, strict=True))
        return _IN_SPACE[self.kind](self, space, chosen)


class SpaceMapping:
    """A mapping for the attributes of one space."""

    def __init__(self, mapping: KeyMapping, space: Space, scales: tuple[Scale, ...]) -> None:
        self.mapping = mapping
        self.space = space
        self.scales = scales
        self.bits = mapping.bits
        self.absent = tuple(key_of(f"{space.name}\0{name}", self.bits) for name in space.names)
        """The key of "absent", for each attribute: spread over the ring."""

    @property
    def length(self) -> int:
        """l, the bits of one attribute."""
        return self.bits

    # --- to be said by each mapping

    def subscription_keys(self, table: PredicateTable) -> Targets:
        """SK: closed ranges of keys, each with the row of its subscription."""
        raise NotImplementedError

    def event_keys(self, events: EventBatch) -> tuple[Ints, Keys]:
        """EK: rows of events and keys."""
        raise NotImplementedError

    # --- shared

    def sk(self, predicate: Predicate) -> list[tuple[int, int]]:
        """SK of one subscription: closed ranges, ascending, none touching another."""
        return together(self.subscription_keys(PredicateTable.of(self.space, [predicate])).pairs())

    def _column_keys(self, column: ConstraintColumn, at: int, length: int) -> tuple[Ints, Keys, Keys]:
        """For the conjunctions that constrain attribute `at`: ranges of its l-bit keys; several rows where it has several."""
        scale = self.scales[at]
        plain = np.flatnonzero(column.other < 0)
        if column.kind.name in KEYED:
            lows, highs = scale.of_keys(column.first[plain]), scale.of_keys(column.last[plain])
        else:
            places = scale.of_column(column.values) if len(column.values) else np.empty(0, np.uint64)
            lows = highs = places[column.code[plain]]
        shift = np.uint64(64 - length)
        parts = [(column.conjunction[plain], lows >> shift, np.maximum(lows, highs) >> shift)]
        others = [self._constraint_keys(each, at, length) for each in column.others]
        counts = np.array([len(each) for each in others], np.int64)
        special = np.flatnonzero(column.other >= 0)
        if len(special):
            codes = column.other[special]
            starts = np.concatenate([[0], np.cumsum(counts)])
            flat_low = np.array([low for each in others for low, _ in each], np.uint64)
            flat_high = np.array([high for each in others for _, high in each], np.uint64)
            repeats = counts[codes]
            which = np.repeat(starts[codes], repeats) + _within(repeats)
            parts.append((np.repeat(column.conjunction[special], repeats), flat_low[which], flat_high[which]))
        conjunctions = np.concatenate([each[0] for each in parts])
        return conjunctions, np.concatenate([each[1] for each in parts]), np.concatenate([each[2] for each in parts])

    def _constraint_keys(self, constraint: Constraint, at: int, length: int) -> list[tuple[int, int]]:
        shift = 64 - length
        found = [(low >> shift, high >> shift) for low, high in self.scales[at].of_constraint(constraint)]
        if constraint.absent:
            key = self.absent_key(at, length)
            found.append((key, key))
        return fewer(together(found), MOST_RANGES)

    def absent_key(self, at: int, length: int) -> int:
        return self.absent[at] >> (self.bits - length)

    def _event_column(self, events: EventBatch, at: int, length: int) -> Keys:
        column = list_column(self.scales[at].kind, events.records.column(at))
        keys = self.scales[at].of_column(column) >> np.uint64(64 - length)
        if column.null_count:
            null = column.is_null().to_numpy(zero_copy_only=False)
            keys = np.where(null, np.uint64(self.absent_key(at, length)), keys)
        return keys

    def _unconstrained(self, table: PredicateTable, name: str) -> Ints:
        """The conjunctions that ask nothing of this attribute."""
        column = table.columns.get(name)
        everything = np.ones(table.conjunction_count, bool)
        if column is not None:
            everything[column.conjunction] = False
        return np.flatnonzero(everything)


class AttributeSplit(SpaceMapping):
    """A subscription that leaves out an attribute stands everywhere: some event might be hashed by it."""

    def subscription_keys(self, table: PredicateTable) -> Targets:
        rows: list[Ints] = []
        lows: list[Keys] = []
        highs: list[Keys] = []
        for at, name in enumerate(self.space.names):
            free = self._unconstrained(table, name)
            rows.append(free)
            lows.append(np.zeros(len(free), np.uint64))
            highs.append(np.full(len(free), (1 << self.bits) - 1, np.uint64))
            if (column := table.columns.get(name)) is not None:
                conjunctions, low, high = self._column_keys(column, at, self.bits)
                rows.append(conjunctions)
                lows.append(low)
                highs.append(high)
        return Targets(np.concatenate(lows), np.concatenate(highs), table.predicate_of[np.concatenate(rows)])

    def event_keys(self, events: EventBatch) -> tuple[Ints, Keys]:
        at = self.space.position(self.mapping.by) if self.mapping.by in self.space else 0
        return np.arange(len(events)), self._event_column(events, at, self.bits)


class KeySpaceSplit(SpaceMapping):
    @property
    def length(self) -> int:
        return max(1, self.bits // len(self.space))

    def _used(self) -> int:
        """Attributes that have bits: with more attributes than bits, the last ones have none."""
        return min(len(self.space), self.bits)

    def subscription_keys(self, table: PredicateTable) -> Targets:
        length, used = self.length, self._used()
        whole = (1 << length) - 1
        count = table.conjunction_count
        # One range for each conjunction and attribute is the rule; whoever has more is multiplied out by hand.
        low = np.zeros((count, used), np.uint64)
        high = np.full((count, used), whole, np.uint64)
        several: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for at in range(used):
            column = table.columns.get(self.space.names[at])
            if column is None:
                continue
            conjunctions, lows, highs = self._column_keys(column, at, length)
            first = np.unique(conjunctions, return_index=True)
            low[first[0], at], high[first[0], at] = lows[first[1]], highs[first[1]]
            repeated = np.flatnonzero(np.bincount(conjunctions, minlength=count) > 1)
            for each in repeated.tolist():
                mine = np.flatnonzero(conjunctions == each)
                several.setdefault(each, {})[at] = list(zip(lows[mine].tolist(), highs[mine].tolist(), strict=True))
        return self._concatenated(table, low, high, several)

    def _concatenated(
        self, table: PredicateTable, low: Keys, high: Keys, several: Mapping[int, Mapping[int, list[tuple[int, int]]]]
    ) -> Targets:
        length, used = self.length, self._used()
        spare = self.bits - length * used
        plain = np.ones(len(low), bool)
        plain[list(several)] = False
        # Where the next attribute would make more than MOST_RANGES, it and all behind it stand for everything.
        widths = (high - low).astype(np.float64) + 1.0
        ranges = np.cumprod(np.hstack([np.ones((len(low), 1)), widths[:, :-1]]), axis=1)
        beyond = (ranges > MOST_RANGES) & plain[:, None]
        low[beyond], high[beyond] = 0, (1 << length) - 1
        # Attributes behind the last constrained one make no ranges of their own: all their values follow one another.
        wide = (low != 0) | (high != np.uint64((1 << length) - 1))
        last = np.where(wide.any(axis=1), used - 1 - np.argmax(wide[:, ::-1], axis=1), 0)
        before = np.arange(used) < last[:, None]
        spans = np.where(before, widths, 1.0).prod(axis=1)
        chosen = np.flatnonzero(plain)
        counts = spans[chosen].astype(np.int64)
        which, rest = np.repeat(chosen, counts), _within(counts).astype(np.uint64)
        begin, end = np.zeros(len(which), np.uint64), np.zeros(len(which), np.uint64)
        # Combination number `rest` as digits, the last attribute first. By hand for each conjunction it was 250 k a second with
        # keys of 13 bits, and 47 k with keys of 64 bits.
        for at in reversed(range(used)):
            shift = np.uint64(spare + length * (used - 1 - at))
            first, final, inner = low[which, at], high[which, at], before[which, at]
            width = np.where(inner, final - first, np.uint64(0)) + np.uint64(1)
            value = first + rest % width
            rest //= width
            begin |= value << shift
            end |= np.where(inner, value, final) << shift
        rows: list[Ints] = [table.predicate_of[which]]
        lows, highs = [begin], [end]
        for each in np.flatnonzero(~plain).tolist():
            mine = several.get(each, {})
            parts = [mine.get(at) or [(int(low[each, at]), int(high[each, at]))] for at in range(used)]
            found = multiplied(parts, length, spare)
            rows.append(np.full(len(found), table.predicate_of[each]))
            lows.append(np.array([one for one, _ in found], np.uint64))
            highs.append(np.array([other for _, other in found], np.uint64))
        return Targets(np.concatenate(lows), np.concatenate(highs), np.concatenate(rows))

    def event_keys(self, events: EventBatch) -> tuple[Ints, Keys]:
        length, used = self.length, self._used()
        found = np.zeros(len(events), np.uint64)
        for at in range(used):
            shift = np.uint64(self.bits - length * (at + 1))
            found |= self._event_column(events, at, length) << shift
        return np.arange(len(events)), found


class SelectiveAttribute(SpaceMapping):
    def subscription_keys(self, table: PredicateTable) -> Targets:
        count = table.conjunction_count
        least = np.full(count, np.inf)
        chosen = np.full(count, -1, np.int64)
        columns: list[tuple[Ints, Keys, Keys] | None] = []
        for at, name in enumerate(self.space.names):
            column = table.columns.get(name)
            if column is None:
                columns.append(None)
                continue
            found = self._column_keys(column, at, self.bits)
            columns.append(found)
            sizes = np.zeros(count)
            np.add.at(sizes, found[0], (found[2] - found[1]).astype(np.float64) + 1.0)
            sizes[sizes == 0.0] = np.inf
            better = sizes < least
            least[better], chosen[better] = sizes[better], at
        free = np.flatnonzero(chosen < 0)
        rows = [free]
        lows = [np.zeros(len(free), np.uint64)]
        highs = [np.full(len(free), (1 << self.bits) - 1, np.uint64)]
        for at, parts in enumerate(columns):
            if parts is not None:
                kept = chosen[parts[0]] == at
                rows.append(parts[0][kept])
                lows.append(parts[1][kept])
                highs.append(parts[2][kept])
        conjunctions = np.concatenate(rows)
        return Targets(np.concatenate(lows), np.concatenate(highs), table.predicate_of[conjunctions])

    def event_keys(self, events: EventBatch) -> tuple[Ints, Keys]:
        count = len(events)
        keys = [self._event_column(events, at, self.bits) for at in range(len(self.space))]
        return np.tile(np.arange(count), len(keys)), np.concatenate(keys)


_IN_SPACE: Final[dict[str, type[SpaceMapping]]] = dict(
    zip(MAPPINGS, (AttributeSplit, KeySpaceSplit, SelectiveAttribute), strict=True)
)


# --- ranges


def together(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same keys in as few closed ranges as possible, ascending."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def fewer(ranges: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """At most so many ranges that hold all of these keys: the smallest gaps are filled."""
    found = list(ranges)
    if len(found) <= most:
        return found
    gaps = sorted(range(1, len(found)), key=lambda at: found[at][0] - found[at - 1][1])
    kept = sorted(gaps[len(found) - most :])
    starts = [0, *kept]
    ends = [*(each - 1 for each in kept), len(found) - 1]
    return [(found[begin][0], found[end][1]) for begin, end in zip(starts, ends, strict=True)]


def multiplied(parts: Sequence[Sequence[tuple[int, int]]], length: int, spare: int) -> list[tuple[int, int]]:
    """All concatenations of one value of each part, as ranges; the `spare` bits behind them are zero.

    Attribute by attribute from the first. Where that would give more than MOST_RANGES, what is there so far stands for
    everything behind it.
    """
    found = [(0, 0)]
    used = 0
    for at, part in enumerate(parts):
        prefixes = sum(high - low + 1 for low, high in found)
        if at and prefixes * len(part) > MOST_RANGES:
            break
        values = [value for low, high in found for value in range(low, high + 1)] if at else [0]
        found = together((value << length | low, value << length | high) for value in values for low, high in part)
        used += 1
    behind = length * (len(parts) - used)
    whole = [(low << behind << spare, (((high + 1) << behind) - 1) << spare) for low, high in found]
    return fewer(whole, MOST_RANGES)


def _within(repeats: Ints) -> Ints:
    """0, 1, 2 ... for each of the repeats."""
    total = int(repeats.sum())
    starts = np.cumsum(repeats) - repeats
    return np.arange(total) - np.repeat(starts, repeats)
