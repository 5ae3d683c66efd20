"""Entries as bitmaps: for attributes of few values, which entries do not mind a value, as one row of bits per value.

    entry        0  1  2  3        an event with a1 = 2, a2 = 1 (and a3 whatever):
    a1           1  2  2  *        row a1=2   0 1 1 1
    a2           *  *  1  3        row a2=1   1 1 1 0
                                   and        0 1 1 0     entries 1 and 2 match

Attributes of very few values share a field, whose rows stand for their combinations. The entries are sorted when the plan is
made, by the attributes that most of them test, so that a block of them mostly dies at once; a summary with one bit per
block and row tells which blocks are worth looking at. Later entries go to the end, or into the place of one that was removed.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc"

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.codes import Dictionary
from contentcast.matching.index.layout import BLOCK, SLACK, Bits

Ints = npt.NDArray[np.int64]

MOST_VALUES: Final = 62
"""An attribute of more values is not one of few."""
MOST_COMBINED: Final = 64
"""Rows of a field that several attributes share."""
ATTRIBUTE_NS: Final = 2.0
BLOCK_NS: Final = 5.0
FIELD_NS: Final = 1.1
ALIVE: Final = 0.35
"""The share of blocks that an event looks at; measured, as the times are, on the scenarios w1 and w1b."""


def _radix(dictionary: Dictionary) -> int:
    """Codes to have rows for: those there are and some more."""
    return len(dictionary) + 2 + max(1, len(dictionary) // 2)


def cost_ns(entries: int, dictionaries: list[Dictionary]) -> float:
    """What an event will cost, about."""
    fields, rows = 1, 1
    for each in dictionaries:
        rows *= _radix(each)
        if rows > MOST_COMBINED:
            fields, rows = fields + 1, _radix(each)
    return ATTRIBUTE_NS * len(dictionaries) + ALIVE * (entries / BLOCK + 1) * (BLOCK_NS + FIELD_NS * fields)


@dataclass(slots=True)
class Bitmaps:
    """`names`: the attributes, in the order by which the entries were sorted, and their codes up to `radix`."""

    names: list[str] = field(default_factory=list)
    radix: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    field_of: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    stride: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    first_row: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: Ints = field(default_factory=lambda: np.zeros((0, BLOCK // 64), np.int64))
    summary: Ints = field(default_factory=lambda: np.zeros((0, 1), np.int64))
    ids: Any = field(default_factory=lambda: np.zeros(0, np.int32))
    free: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: Ints = field(default_factory=lambda: np.array([0, 0, 1]))
    """Slots used, free ones among them, and whether all ids are plain."""

    @property
    def count(self) -> int:
        return int(self.numbers[0] - self.numbers[1])

    def view(self, dictionaries: dict[str, Dictionary]) -> Bits:
        mine = [dictionaries[name] for name in self.names]
        return Bits(
            np.array([each.word for each in mine], np.int64),
            np.array([each.shift for each in mine], np.int64),
            np.array([(1 << each.bits) - 1 for each in mine], np.int64),
            self.field_of, self.stride, self.first_row, self.rows, self.summary, self.ids, self.numbers[2:],
        )  # fmt: skip

    def lay_out(self, dictionaries: dict[str, Dictionary]) -> None:
        """Fields and rows for the attributes, which are in the order of `dictionaries`; no entries yet."""
        self.names = list(dictionaries)
        self._lay_out_fields([_radix(each) for each in dictionaries.values()])
        self.rows = np.zeros((self._row_count(), BLOCK // 64), np.int64)
        self.summary = np.zeros((self._row_count(), 1), np.int64)

    def _lay_out_fields(self, radix: list[int]) -> None:
        field_of, stride, first_row = [], [], [0]
        rows = 1
        for each in radix:
            if rows > 1 and rows * each > MOST_COMBINED:
                first_row.append(first_row[-1] + rows)
                rows = 1
            field_of.append(len(first_row) - 1)
            stride.append(rows)
            rows *= each
        self.radix, self.field_of, self.stride = (np.array(each, np.int64) for each in (radix, field_of, stride))
        self.first_row = np.array(first_row, np.int64)

    def _row_count(self) -> int:
        last = self.field_of == len(self.first_row) - 1
        return int(self.first_row[-1] + self.radix[last].prod()) if len(self.radix) else 0

    def holds_codes(self, dictionaries: dict[str, Dictionary]) -> bool:
        """Is there a row for each code? Else only a new plan helps."""
        return all(len(dictionaries[name]) + 2 <= radix for name, radix in zip(self.names, self.radix.tolist(), strict=True))

    # --- changing

    def add(self, words: Ints, masks: Ints, tagged: Any, dictionaries: dict[str, Dictionary]) -> Ints:
        """Entries with these equal constraints, [word, entry]; returns their slots."""
        count = len(tagged)
        used, free = int(self.numbers[0]), int(self.numbers[1])
        reused = min(count, free)
        slots = np.concatenate([self.free[free - reused : free], np.arange(used, used + count - reused)])
        self._fit_slots(used + count - reused)
        self.numbers[:2] = used + count - reused, free - reused
        self.ids[slots] = tagged
        if (tagged < 0).any():
            self.numbers[2] = 0
        view = self.view(dictionaries)
        first = np.searchsorted(self.field_of, np.arange(len(self.first_row) + 1))
        row_count = np.diff(np.append(self.first_row, len(self.rows)))
        _set_bits(view, first, row_count, self.radix, np.ascontiguousarray(words), np.ascontiguousarray(masks), slots)
        return slots

    def _fit_slots(self, count: int) -> None:
        if count <= 64 * self.rows.shape[1] and count + SLACK <= len(self.ids):
            return
        words = BLOCK // 64 * -(-(count + count // 4) // BLOCK)
        rows = np.zeros((len(self.rows), words), np.int64)
        rows[:, : self.rows.shape[1]] = self.rows
        summary = np.zeros((len(self.rows), -(-words // BLOCK)), np.int64)
        summary[:, : self.summary.shape[1]] = self.summary
        ids = np.zeros(64 * words + SLACK, np.int32)
        ids[: len(self.ids)] = self.ids
        self.rows, self.summary, self.ids = rows, summary, ids

    def remove(self, slots: Ints) -> None:
        if not len(slots):
            return
        first = int(self.radix[self.field_of == 0].prod())
        bits = np.int64(1) << (slots & 63)
        np.bitwise_and.at(self.rows[:first], (slice(None), slots >> 6), ~bits)  # type: ignore[arg-type]
        free = int(self.numbers[1])
        if free + len(slots) > len(self.free):
            self.free = np.concatenate([self.free, np.zeros(free + len(slots), np.int64)])
        self.free[free : free + len(slots)] = slots
        self.numbers[1] = free + len(slots)

    # --- reading

    def codes(self, slot: int) -> dict[str, int]:
        """What an entry asks for: the code of each attribute that it tests."""
        found = self.all_codes(np.array([slot]))
        return {name: int(codes[0]) for name, codes in found.items() if codes[0] >= 0}

    def all_codes(self, slots: Ints) -> dict[str, Ints]:
        """The same for many slots: for each attribute their codes, -1 where they do not test it."""
        found = {}
        for at, name in enumerate(self.names):
            mine = self.field_of == self.field_of[at]
            first = int(self.first_row[self.field_of[at]])
            code_of = (np.arange(int(self.radix[mine].prod())) // self.stride[at]) % self.radix[at]
            codes, times = np.full(len(slots), -1, np.int64), np.zeros(len(slots), np.int64)
            for code in range(int(self.radix[at])):
                accepting = np.bitwise_or.reduce(self.rows[first + np.flatnonzero(code_of == code)])
                accepted = (accepting[slots >> 6] >> (slots & 63)) & 1 == 1
                codes[accepted] = code
                times += accepted
            found[name] = np.where(times == 1, codes, -1)
        return found

    def arrays(self) -> dict[str, Any]:
        names = ("radix", "field_of", "stride", "first_row", "rows", "summary", "ids", "free", "numbers")
        return {name: getattr(self, name) for name in names}


def sorting_order(words: Ints, masks: Ints, dictionaries: dict[str, Dictionary]) -> tuple[list[str], Ints]:
    """The attributes, those that most entries test first, and the order of the entries by them."""
    codes = {}
    for name, each in dictionaries.items():
        full = (1 << each.bits) - 1
        tested = (masks[each.word] >> each.shift) & full != 0
        codes[name] = np.where(tested, (words[each.word] >> each.shift) & full, -1)
    names = sorted(codes, key=lambda name: float((codes[name] < 0).mean()))
    return names, np.lexsort([codes[name] for name in reversed(names)])


@nb.njit(nogil=True, cache=True)
def _set_bits(bits, first, row_count, radix, words, masks, slots):
    """first[f]: the first attribute of a field."""
    rows, summary = bits.rows, bits.summary
    for i in range(len(slots)):
        word, bit = slots[i] >> 6, np.int64(1) << (slots[i] & 63)
        block, block_bit = slots[i] // BLOCK // 64, np.int64(1) << (slots[i] // BLOCK & 63)
        for f in range(len(row_count)):
            for row in range(row_count[f]):
                accepted = True
                for a in range(first[f], first[f + 1]):
                    tested = (masks[bits.word[a], i] >> bits.shift[a]) & bits.mask[a] != 0
                    code = (words[bits.word[a], i] >> bits.shift[a]) & bits.mask[a]
                    accepted &= not tested or (row // bits.stride[a]) % radix[a] == code
                at = bits.first_row[f] + row
                if accepted:
                    rows[at, word] |= bit
                    summary[at, block] |= block_bit
                else:
                    rows[at, word] &= ~bit
