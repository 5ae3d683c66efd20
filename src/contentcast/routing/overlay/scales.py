"""The hash functions h_i: where a value of an attribute stands between 0 and 2^64, in the order of the values.

Source: Baldoni et al. 2005, section 4.2, which scales integers of a known domain: h(x) = x * 2^l / |domain|. Here every kind
has such a place, so that ranges and prefixes become ranges of places; the first l bits of a place are the paper's l-bit hash.

    declared low..high           (x - low) / size of the domain
    declared values              the rank of the value among them
    cuts that were learnt        the share of observed values below x: equal loads for skewed values (`Scale.learnt`)
    undeclared int, float        the order of doubles: half of the ring for each sign, then by magnitude
    string, bytes                their first eight bytes as a number; UTF-8 keeps the order of the characters
    bool                         0 and the middle

Discretization (section 4.3.3) divides the places into `cells`; all values of a cell have the place where it begins.
Rule: a scale never decreases. Two values may share a place; nothing else is asked of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model import Attribute, Constraint, Space
from contentcast.model.values.keys import KEYED, NO_FLOAT, float_keys, key_ends, key_of, last_key
from contentcast.model.values.kinds import KINDS, TOP, Kind, Value
from contentcast.routing.chord.keys import Keys

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

WHOLE: Final = float(2**64)
LAST_PLACE: Final = np.uint64(2**64 - 1)
_GREATEST: Final = float(np.nextafter(WHOLE, 0.0))


def _places(shares: Floats) -> Keys:
    """From shares of 0..1 to places; the cast of a double never leaves the range."""
    return np.clip(shares * WHOLE, 0.0, _GREATEST).astype(np.uint64)


@dataclass(frozen=True)
class Scale:
    """The places of one attribute. `cuts`: ordered values that divide what was observed into equal parts."""

    kind: Kind
    first: int = 0
    size: float = 0.0
    values: tuple[Value, ...] = ()
    cuts: tuple[Value, ...] = ()
    cells: int = 0

    @classmethod
    def of(cls, attribute: Attribute, *, cells: int = 0, size: float | None = None) -> Scale:
        """By the declared domain, if there is one. `size`: of the domain, if another one is meant than it has."""
        kind = KINDS[attribute.kind]
        if attribute.values is not None:
            return cls(kind, values=tuple(sorted(set(attribute.values))), cells=cells)
        if kind.name in KEYED and kind.name != "bool" and attribute.low is not None and attribute.high is not None:
            if kind.name == "float":
                span = float(attribute.high) - float(attribute.low)
                if np.isfinite(span) and span > 0:
                    return cls(kind, 0, size or span, (attribute.low,), cells=cells)
                return cls(kind, cells=cells)
            first, last = key_of(kind, attribute.low), key_of(kind, attribute.high)
            return cls(kind, first, size or float(last - first + 1), cells=cells)
        return cls(kind, cells=cells)

    @classmethod
    def learnt(cls, attribute: Attribute, cuts: tuple[Value, ...], *, cells: int = 0) -> Scale:
        """Each part between two cuts gets an equal share of the places. Cuts of another kind, of a stranger, do not count."""
        kind = KINDS[attribute.kind]
        return cls(kind, cuts=tuple(sorted({each for each in cuts if _is_of(kind, each)})), cells=cells)

    # --- places

    def of_column(self, column: pa.Array) -> Keys:
        """For each value; what stands where the value is null means nothing."""
        kind = self.kind.name
        if self.values and not self.size:
            return self._ranked(column, self.values, "left")
        if self.cuts:
            return self._ranked(column, self.cuts, "right")
        if kind in ("string", "bytes") or self.kind.element is not None:
            return self._in_cells(_first_bytes(column))
        if kind == "float":
            values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
            return self._in_cells(self._of_floats(values))
        plain = column.cast(pa.int64()) if kind in ("timestamp", "bool") else column
        return self.of_keys(pc.fill_null(plain, 0).to_numpy(zero_copy_only=False))

    def of_keys(self, keys: Ints) -> Keys:
        """For the order keys of values (see `model.values.keys`), of the kinds that have them."""
        kind = self.kind.name
        if (self.values and not self.size) or self.cuts:
            return self._ranked_keys(keys)
        if kind == "float":
            keys = np.where(keys == NO_FLOAT, np.int64(0), keys)
            bits = np.where(keys >= 0, keys, keys ^ np.int64(2**63 - 1))
            return self._in_cells(self._of_floats(bits.view(np.float64)))
        if self.size:
            # Subtraction wraps and so is right for any two keys; below the domain it would be large, so it is held at 0.
            ahead = np.where(keys < self.first, np.uint64(0), keys.view(np.uint64) - np.uint64(self.first % 2**64))
            return self._in_cells(_places(ahead.astype(np.float64) / self.size))
        if kind == "bool":
            return self._in_cells(keys.astype(np.uint64) << np.uint64(63))
        return self._in_cells(_order_of_doubles(keys.astype(np.float64)))

    def _of_floats(self, values: Floats) -> Keys:
        if self.size:
            with np.errstate(over="ignore", invalid="ignore"):
                return _places(np.nan_to_num((values - float(self.values[0])) / self.size, nan=0.0))
        return _order_of_doubles(values)

    def _ranked(self, column: pa.Array, among: tuple[Value, ...], side: str) -> Keys:
        if self.kind.name in KEYED:
            if self.kind.name == "float":
                return self._ranked_keys(float_keys(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)))
            plain = column.cast(pa.int64())
            return self._ranked_keys(pc.fill_null(plain, 0).to_numpy(zero_copy_only=False))
        distinct = column.dictionary_encode()
        known = [self._rank(value) for value in distinct.dictionary.to_pylist()]
        codes = pc.fill_null(distinct.indices, 0).to_numpy(zero_copy_only=False)
        return self._of_ranks(np.array([*known, 0], np.int64)[codes])

    def _rank(self, value: Value) -> int:
        from bisect import bisect_left, bisect_right

        return bisect_right(self.cuts, value) if self.cuts else bisect_left(self.values, value)

    def _ranked_keys(self, keys: Ints) -> Keys:
        among = np.array([key_of(self.kind, each) for each in self.cuts or self.values], np.int64)
        return self._of_ranks(np.searchsorted(among, keys, side="right" if self.cuts else "left"))

    def _of_ranks(self, ranks: Ints) -> Keys:
        parts = len(self.cuts) + 1 if self.cuts else len(self.values)
        return self._in_cells(_places(np.minimum(ranks, parts - 1) / parts))

    def _in_cells(self, places: Keys) -> Keys:
        """Every place becomes that of the beginning of its cell."""
        if not self.cells:
            return places
        return _places(np.floor(places.astype(np.float64) / WHOLE * self.cells) / self.cells)

    # --- constraints

    def of_value(self, value: Value) -> int:
        if self.kind.name in KEYED:
            return int(self.of_keys(np.array([key_of(self.kind, value)], np.int64))[0])
        if self.values or self.cuts:
            return int(self.of_column(pa.array([value], self.kind.stored))[0])
        return int(self._in_cells(np.array([first_bytes(value)], np.uint64))[0])

    def of_constraint(self, constraint: Constraint) -> list[tuple[int, int]]:
        """The places of all values that it accepts, as closed intervals, ascending; patterns are taken for anything."""
        found: list[tuple[int, int]] = []
        for low, high in constraint.ranges.pairs():
            begin = self.of_value(low)
            end = self._place_below(high)
            if found and begin <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((begin, max(begin, end)))
        return found

    def _place_below(self, high: Value) -> int:
        """The place of the last value below the cut, or one behind it."""
        if self.kind.name in KEYED:
            last = key_ends(self.kind)[1] if high is TOP else last_key(self.kind, high)
            return int(self.of_keys(np.array([last], np.int64))[0])
        if high is TOP:
            return int(LAST_PLACE)
        end = "\0" if self.kind.name == "string" else b"\0"
        # 'ab\0' is the cut behind 'ab' alone; of any other cut it is enough that nothing below it stands behind it.
        return self.of_value(high[:-1] if high.endswith(end) else high)


def _is_of(kind: Kind, cut: Value) -> bool:
    try:
        kind.check(cut)
    except ValueError:
        return False
    return kind.element is None


def scales_of(space: Space, *, cells: int = 0, learnt: dict[str, tuple[Value, ...]] | None = None) -> tuple[Scale, ...]:
    known = learnt or {}
    return tuple(
        Scale.learnt(attribute, known[name], cells=cells) if known.get(name) else Scale.of(attribute, cells=cells)
        for name, attribute in space.items()
    )


def _order_of_doubles(values: Floats) -> Keys:
    return float_keys(np.ascontiguousarray(values, np.float64)).view(np.uint64) ^ np.uint64(1 << 63)


def first_bytes(value: str | bytes) -> int:
    """The first eight bytes as a number, most significant first; a shorter text is filled with zeros."""
    raw = value.encode() if isinstance(value, str) else value
    return int.from_bytes(raw[:8].ljust(8, b"\0"), "big")


def _first_bytes(column: pa.Array) -> Keys:
    """`first_bytes` of each text."""
    plain = column.cast(pa.large_binary())
    if isinstance(plain, pa.ChunkedArray):
        plain = plain.combine_chunks()
    buffers: list[Any] = plain.buffers()
    count = len(plain)
    if not count:
        return np.empty(0, np.uint64)
    offsets = np.frombuffer(buffers[1], np.int64)[plain.offset : plain.offset + count + 1]
    raw = b"" if buffers[2] is None else buffers[2]
    data = np.concatenate([np.frombuffer(raw, np.uint8), np.zeros(8, np.uint8)])
    begin, length = offsets[:-1], np.minimum(np.diff(offsets), 8)
    found = np.zeros(count, np.uint64)
    for at in range(8):
        inside = at < length
        byte = np.where(inside, data[np.where(inside, begin + at, 0)], 0).astype(np.uint64)
        found |= byte << np.uint64(8 * (7 - at))
    return found
