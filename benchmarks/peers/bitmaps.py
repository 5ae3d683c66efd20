"""Bitmap indexes: for each attribute and value the set of rules that do not mind it, AND-ed over the attributes of an event.

A range attribute is cut into cells at its bounds; with more bounds than `MOST_CELLS` several share a cell, the cell's bitmap
holds all rules that reach into it, and the pairs found are compared once more, by columns, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.peers.cells import Cells, cut
from benchmarks.peers.rules import Between, Equal, Ints, Matches, Rules, Unsuitable

MOST_CELLS: Final = 512
MOST_COMBINATIONS: Final = 1024
GATE_FROM: Final = 100
"""An attribute with this many values or cells is worth starting with."""

BLOCK_BYTES: Final = 1 << 19
"""Bits of all events of a block: stays in the second-level cache."""


@dataclass(frozen=True)
class Plane:
    """One attribute: events' values become codes below `size`; `rule[i]` wants `code[i]`; the rules `free` want anything."""

    name: str
    size: int
    rule: Ints
    code: Ints
    free: Ints
    values: pa.Array | None = None
    cells: Cells | None = None
    again: Between | None = None
    """The ranges to compare once more, where a cell is wider than they are."""

    def codes(self, events: pa.RecordBatch) -> Ints:
        column = events.column(self.name)
        if self.values is not None:
            found = pc.index_in(column, value_set=self.values).fill_null(self.size - 1)
            return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
        assert self.cells is not None
        return self.cells.of(column.to_numpy(zero_copy_only=False))


def planes(rules: Rules) -> list[Plane]:
    if rules.texts:
        raise Unsuitable("bitmaps do not search in texts")
    found = []
    for name in rules.attributes:
        tests = rules.equal[name] if name in rules.equal else rules.between[name]
        free = np.setdiff1d(np.arange(rules.count), tests.rule)
        found.append(_by_value(name, tests, free) if isinstance(tests, Equal) else _by_cell(name, tests, free))
    return found


def _by_value(name: str, tests: Equal, free: Ints) -> Plane:
    encoded = tests.value.dictionary_encode()
    code = encoded.indices.to_numpy().astype(np.int64)
    return Plane(name, len(encoded.dictionary) + 1, tests.rule, code, free, values=encoded.dictionary)


def _by_cell(name: str, tests: Between, free: Ints) -> Plane:
    cells = cut(tests, MOST_CELLS)
    again = None if cells.exact else tests
    return Plane(name, len(cells.cuts) + 1, cells.rule, cells.code, free, cells=cells, again=again)


@dataclass(frozen=True)
class _Again:
    """Ranges by rule, to compare pairs with the events' own values."""

    name: str
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]

    @classmethod
    def of(cls, plane: Plane, count: int) -> _Again:
        tests = plane.again
        assert tests is not None
        is_float = tests.low.dtype.kind == "f"
        ends = (-np.inf, np.inf) if is_float else (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
        low, high = (np.full(count, end, tests.low.dtype) for end in ends)
        low[tests.rule], high[tests.rule] = tests.low, tests.high
        return cls(plane.name, low, high)

    def holds(self, events: pa.RecordBatch, event: Ints, rule: npt.NDArray[Any]) -> Any:
        value = events.column(self.name).to_numpy(zero_copy_only=False)[event]
        return (self.low[rule] <= value) & (value <= self.high[rule])


def _checked(again: list[_Again], events: pa.RecordBatch, counts: Ints, rule: npt.NDArray[np.uint32]) -> Matches:
    if not again:
        return Matches(rule, counts=counts)
    event = np.repeat(np.arange(events.num_rows), counts)
    for each in again:
        kept = each.holds(events, event, rule)
        event, rule = event[kept], rule[kept]
    return Matches(rule, event=event)


def _together(found: list[Plane], combine: bool) -> list[list[Plane]]:
    """Each plane alone, or as many in one as give at most MOST_COMBINATIONS codes."""
    groups: list[list[Plane]] = []
    for plane in sorted(found, key=lambda each: each.size) if combine else found:
        size = int(np.prod([each.size for each in groups[-1]])) if groups else MOST_COMBINATIONS
        if combine and size * plane.size <= MOST_COMBINATIONS:
            groups[-1].append(plane)
        else:
            groups.append([plane])
    return groups


def _combined_codes(group: list[Plane], events: pa.RecordBatch) -> Ints:
    codes = group[0].codes(events)
    for plane in group[1:]:
        codes = codes * plane.size + plane.codes(events)
    return codes


class Roaring:
    """Bitmaps of pyroaring. Rules that test an attribute of many values (the gate) are only looked at through that value."""

    combine = False

    def __init__(self, rules: Rules) -> None:
        from pyroaring import BitMap

        found = planes(rules)
        self._again = [_Again.of(plane, rules.count) for plane in found if plane.again is not None]
        groups = _together(found, self.combine)
        self._groups = groups
        self._tables = [self._table(group) for group in groups]
        # For each gate: its own rules by value. What remains is looked at through no gate.
        left = BitMap(np.arange(rules.count, dtype=np.uint32))
        self._gates: list[tuple[int, list[Any]]] = []
        for at in sorted(range(len(groups)), key=lambda at: -max(plane.size for plane in groups[at])):
            gate = max(groups[at], key=lambda plane: plane.size)
            if gate.size >= GATE_FROM:
                minding = left & BitMap(gate.rule.astype(np.uint32))
                self._gates.append((at, [each & minding for each in self._tables[at]]))
                left -= minding
        self._rest = left if left else None

    @staticmethod
    def _table(group: list[Plane]) -> list[Any]:
        from pyroaring import BitMap

        table: list[Any] = []
        for plane in group:
            order = np.argsort(plane.code, kind="stable")
            rule = plane.rule[order].astype(np.uint32)
            starts = np.searchsorted(plane.code[order], np.arange(plane.size + 1))
            free = BitMap(plane.free.astype(np.uint32))
            own = [free | BitMap(rule[starts[code] : starts[code + 1]]) for code in range(plane.size)]
            table = [one & other for one in table for other in own] if table else own
        for each in table:
            each.run_optimize()
        return table

    def match(self, events: pa.RecordBatch) -> Matches:
        codes = [_combined_codes(group, events).tolist() for group in self._groups]
        columns = [list(map(table.__getitem__, code)) for table, code in zip(self._tables, codes, strict=True)]
        ways = list(self._ways(codes, columns))
        counts, parts = np.zeros(events.num_rows, np.int64), [np.zeros(0, np.uint32)]
        for row, found in enumerate(zip(*ways, strict=True)):
            for bitmaps in found:
                both = bitmaps[0]
                for each in bitmaps[1:]:
                    both = both & each
                    if not both:
                        break
                if both:
                    counts[row] += len(both)
                    parts.append(np.frombuffer(both.to_array(), np.uint32))
        return _checked(self._again, events, counts, np.concatenate(parts))

    def _ways(self, codes: list[list[int]], columns: list[list[Any]]) -> Iterator[Iterator[tuple[Any, ...]]]:
        """For each gate, and for what has none: the bitmaps to AND, event by event."""
        for at, own in self._gates:
            yield zip(map(own.__getitem__, codes[at]), *columns[:at], *columns[at + 1 :], strict=True)
        if self._rest is not None:
            start = [[self._rest] * len(codes[0])] if self._gates else []
            yield zip(*start, *columns, strict=True)


class RoaringCombined(Roaring):
    combine = True


class Packed:
    """Rows of 64-bit words in NumPy, gathered and AND-ed for a block of events at a time. (Combining attributes as in
    `RoaringCombined` changed little here, from a loss to a gain of a third at W1 10k: finding the bits takes the time.)"""

    def __init__(self, rules: Rules) -> None:
        found = planes(rules)
        self._again = [_Again.of(plane, rules.count) for plane in found if plane.again is not None]
        self._words = max(1, -(-rules.count // 64))
        self._planes = found
        self._tables = [self._table(plane) for plane in found]

    def _table(self, plane: Plane) -> npt.NDArray[np.uint64]:
        free = np.zeros(self._words * 64, np.bool_)
        free[plane.free] = True
        table = np.tile(np.packbits(free, bitorder="little"), (plane.size, 1))
        # Two rules of one code may share a byte, and |= on an index list would lose one of them.
        np.bitwise_or.at(table, (plane.code, plane.rule >> 3), (1 << (plane.rule & 7)).astype(np.uint8))
        return table.view(np.uint64)

    def match(self, events: pa.RecordBatch) -> Matches:
        codes = [plane.codes(events) for plane in self._planes]
        at_once = max(1, BLOCK_BYTES // (8 * self._words))
        counts, rules = [np.zeros(0, np.int64)], [np.zeros(0, np.uint32)]
        for start in range(0, events.num_rows, at_once):
            rows = slice(start, start + at_once)
            both = self._tables[0][codes[0][rows]]
            for table, code in zip(self._tables[1:], codes[1:], strict=True):
                np.bitwise_and(both, table[code[rows]], out=both)
            count, rule = _ones(both)
            counts.append(count)
            rules.append(rule)
        return _checked(self._again, events, np.concatenate(counts), np.concatenate(rules))


_BITS_OF_BYTE = [np.flatnonzero(np.unpackbits(np.uint8(byte), bitorder="little")) for byte in range(256)]
_BITS = np.concatenate(_BITS_OF_BYTE).astype(np.uint32)
_BIT_COUNT = np.array([len(each) for each in _BITS_OF_BYTE])
_BIT_START = np.cumsum(_BIT_COUNT) - _BIT_COUNT


def _ones(block: npt.NDArray[np.uint64]) -> tuple[Ints, npt.NDArray[np.uint32]]:
    """How many bits are set in each row, and where: word by word where few are, else byte by byte through a table.

    On W1 the table was 2 and 1.3 times as fast as words at 1k and 10k rules, and 0.85 times at 100k; np.unpackbits of
    everything was 3 to 9 times slower than either.
    """
    height, width = block.shape
    if np.count_nonzero(block) * 4 < block.size:
        row, word = np.nonzero(block)
        which, bit = np.nonzero(np.unpackbits(block[row, word].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little"))
        return np.bincount(row[which], minlength=height), (word[which] * 64 + bit).astype(np.uint32)
    flat = block.view(np.uint8).ravel()
    at = np.flatnonzero(flat)
    byte = flat[at]
    row = at // (8 * width)
    count = _BIT_COUNT[byte]
    end = np.cumsum(count)
    nth = np.arange(end[-1]) - np.repeat(end - count - _BIT_START[byte], count)
    rule = np.repeat(((at - row * 8 * width) * 8).astype(np.uint32), count) + _BITS[nth]
    return np.bincount(row, weights=count, minlength=height).astype(np.int64), rule
