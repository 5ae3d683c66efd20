"""Bitmaps: entries over attributes with few values. Each value has a row of bits; bit k is set if entry k accepts the value.

    entry        0  1  2  3        an event with a1 = 2 and a2 = 1:
    a1           1  2  2  *        row a1=2   0 1 1 1
    a2           *  *  1  3        row a2=1   1 1 1 0
                                   AND        0 1 1 0     entries 1 and 2 match

Several attributes share a field. The rows of a field stand for the combinations of their values, so that one row is fetched
instead of three or four. The values of an attribute with more than MOST_EXACT values are put into BUCKETS buckets. A row of
buckets says that an entry may match; the entry is then compared in full. An entry tests several attributes, so few entries
pass by chance.

The entries are sorted when the plan is made, by the attributes that most of them test. Then most blocks of entries can be left
out at once: `named` holds, for each attribute and code, the blocks with an entry that asks for the code; `without` holds, for
each attribute, the blocks with an entry that does not test it. A later entry goes to the end, or into the slot of an entry that
was removed.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine.layout import BLOCK, BUCKETS, EXACT_BITS, MOST_EXACT, PLAIN_BITS, SLACK, Bits
from contentcast.matching.index.machine.reserved import HUGE_FROM, reserved_zeros, with_capacity
from contentcast.matching.index.planning.bitmap_plan import bitmap_fields, bucket_count
from contentcast.matching.index.values.dictionaries import FIRST, Dictionary

Ints = npt.NDArray[np.int64]

PAGE_WORDS: Final = 512
"""64-bit words in one page of memory."""
PAGES: Final = 64
"""Pages that one step of `make_room` writes to."""
HUGE_FROM_EMPTY: Final = 1 << 22
"""Rows of at least this many bytes get large pages, if they are made before there are entries (see `reserved`)."""
_USED, _FREE = 2, 3


def _none() -> Ints:
    return np.zeros(0, np.int64)


ARRAYS: Final = (
    "values", "codes", "field_of", "stride", "first_row", "rows", "named", "without", "ids", "words", "entries", "free",
    "numbers",
)  # fmt: skip
"""The fields of `Bitmaps` that are arrays."""


@dataclass(slots=True)
class Bitmaps:
    """`names`: the attributes, in the order in which the entries were sorted by them."""

    names: list[str] = field(default_factory=list)
    values: Ints = field(default_factory=_none)
    """For each attribute: how many values were known when the rows were laid out."""
    codes: Ints = field(default_factory=_none)
    field_of: Ints = field(default_factory=_none)
    stride: Ints = field(default_factory=_none)
    first_row: Ints = field(default_factory=_none)
    rows: Ints = field(default_factory=lambda: np.zeros((0, BLOCK // 64), np.int64))
    named: Ints = field(default_factory=lambda: np.zeros((0, 1), np.int64))
    without: Ints = field(default_factory=lambda: np.zeros((0, 1), np.int64))
    ids: Any = field(default_factory=lambda: np.zeros(0, np.int32))
    words: Ints = field(default_factory=_none)
    entries: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    free: Ints = field(default_factory=_none)
    numbers: Ints = field(default_factory=lambda: np.array([1, 1, 0, 0]))
    """Four numbers: 1 if all ids are plain, 1 if all rows are exact, the slots used, and the used slots that are free again."""

    @property
    def used(self) -> int:
        """How many slots hold an entry or have held one."""
        return int(self.numbers[_USED])

    @property
    def count(self) -> int:
        return int(self.numbers[_USED] - self.numbers[_FREE])

    def view(self, dictionaries: dict[str, Dictionary]) -> Bits:
        """As the kernel reads them, good until they or the dictionaries change."""
        mine = [dictionaries[name] for name in self.names]
        flags = self.numbers[: _USED + 1].copy()
        flags[EXACT_BITS] &= all(len(each) == values for each, values in zip(mine, self.values.tolist(), strict=True))
        return Bits(
            np.array([each.word for each in mine], np.int64),
            np.array([each.shift for each in mine], np.int64),
            np.array([(1 << each.bits) - 1 for each in mine], np.int64),
            self.codes, self.field_of, self.stride, self.values, self.first_row, self.rows, self.named, self.without, self.ids,
            self.words, self.entries, flags,
        )  # fmt: skip

    def lay_out(self, dictionaries: dict[str, Dictionary]) -> None:
        """Make fields and rows for the attributes, in the order of `dictionaries`, without entries."""
        mine = list(dictionaries.values())
        self.names = list(dictionaries)
        self.values = np.array([len(each) for each in mine], np.int64)
        sizes = [1 << each.bits for each in mine]
        self.codes = np.cumsum([0, *sizes])[:-1].astype(np.int64)
        field_of, stride, rows = bitmap_fields([bucket_count(each) for each in mine])
        self.field_of, self.stride = np.array(field_of, np.int64), np.array(stride, np.int64)
        self.first_row = np.cumsum([0, *rows])[:-1].astype(np.int64)
        self.rows = np.zeros((sum(rows), BLOCK // 64), np.int64)
        self.named = np.zeros((sum(sizes), 1), np.int64)
        self.without = np.zeros((len(mine), 1), np.int64)
        self.words = np.unique(np.array([each.word for each in mine], np.int64))
        self.entries = np.zeros((0, 2 * len(self.words)), np.int64)

    # --- changing

    def add(self, words: Ints, masks: Ints, tagged: Any, dictionaries: dict[str, Dictionary]) -> Ints:
        """Add entries with these equality constraints, as [word, entry]; returns their slots."""
        count = len(tagged)
        used, free = int(self.numbers[_USED]), int(self.numbers[_FREE])
        reused = min(count, free)
        slots = np.concatenate([self.free[free - reused : free], np.arange(used, used + count - reused)])
        self._fit_slots(used + count - reused)
        places = np.searchsorted(self.words, [dictionaries[name].word for name in self.names])
        view, mine, under = self.view(dictionaries), words[self.words].T, masks[self.words].T
        self.ids[slots] = tagged
        self.entries[slots, ::2], self.entries[slots, 1::2] = mine, under
        _clear_bits(self.rows, len(self.rows), slots[:reused])
        exact = _set_bits(view, places, slots)
        self.numbers[_USED:] = used + count - reused, free - reused
        if (tagged < 0).any():
            self.numbers[PLAIN_BITS] = 0
        if not exact:
            self.numbers[EXACT_BITS] = 0
        return slots

    def _fit_slots(self, count: int) -> None:
        """Make room for this many slots. If the rows are too short, all of them are copied to longer rows."""
        if count <= 64 * self.rows.shape[1] and count + SLACK <= len(self.ids):
            return
        words = BLOCK // 64 * -(-(count + count // 4) // BLOCK)
        named, without = (_widened(each, -(-words // BLOCK)) for each in (self.named, self.without))
        ids = with_capacity(self.ids, self.used, 64 * words + SLACK)
        entries = with_capacity(self.entries, self.used, 64 * words)
        size, huge_from = len(self.rows) * words, HUGE_FROM if self.used else HUGE_FROM_EMPTY
        rows = reserved_zeros((len(self.rows), words), np.int64, used=size, huge_from=huge_from)
        rows[:, : self.rows.shape[1]] = self.rows  # from here on nothing may fail
        self.rows, self.named, self.without, self.ids, self.entries = rows, named, without, ids, entries

    def make_room(self, count: int) -> Iterator[int]:
        """Make room for this many entries, before there are any, in steps. The first write to a page of memory is slow, so each
        step touches PAGES pages and yields their number.
        """
        self._fit_slots(count)
        flat = self.rows.reshape(-1)
        for at in range(0, len(flat), PAGES * PAGE_WORDS):
            flat[at : at + PAGES * PAGE_WORDS : PAGE_WORDS] = 0
            yield PAGES

    def expect_to_remove(self, count: int) -> None:
        """Make room in `free` for this many more slots, so that `remove` needs no memory."""
        free = int(self.numbers[_FREE])
        if free + count > len(self.free):
            self.free = np.concatenate([self.free, np.zeros(free + count, np.int64)])

    def remove(self, slots: Ints) -> None:
        """Remove the entries in these slots. `expect_to_remove` has made room for them."""
        if not len(slots):
            return
        rows = int(self.first_row[1]) if len(self.first_row) > 1 else len(self.rows)
        _clear_bits(self.rows, rows, slots)  # an entry needs a 1 in every field, so clearing one field is enough
        free = int(self.numbers[_FREE])
        self.free[free : free + len(slots)] = slots
        self.numbers[_FREE] = free + len(slots)

    # --- reading

    def slots(self) -> Ints:
        """The slots that hold an entry."""
        return np.setdiff1d(np.arange(int(self.numbers[_USED])), self.free[: int(self.numbers[_FREE])])

    def arrays(self) -> dict[str, Any]:
        """The used part of all arrays, by name."""
        slots = 64 * self.rows.shape[1]
        found = {name: getattr(self, name) for name in ARRAYS}
        return {**found, "ids": self.ids[: slots + SLACK], "entries": self.entries[:slots]}

    def restore(self, names: list[str], arrays: dict[str, Any]) -> None:
        """Take over what `arrays` returned, for the attributes with these names."""
        self.names = names
        for name in ARRAYS:
            setattr(self, name, arrays[name])


def _widened(rows: Ints, words: int) -> Ints:
    wider = np.zeros((len(rows), words), np.int64)
    wider[:, : rows.shape[1]] = rows
    return wider


@nb.njit(nogil=True, cache=True)
def _clear_bits(rows, count, slots):
    for row in range(count):
        for slot in slots:
            rows[row, slot >> 6] &= ~(np.int64(1) << (slot & 63))


@nb.njit(nogil=True, cache=True)
def _set_bits(bits, places, slots):
    """Set the bits of new entries in the rows that accept them; all their bits are 0 before.

    `places`: the position of each attribute's word in bits.entries. Returns True if the rows are exact for these entries: each
    value that they ask for has a row of its own.
    """
    rows, named, free, stride, values = bits.rows, bits.named, bits.free, bits.stride, bits.values
    attributes, fields = len(bits.word), len(bits.first_row)
    accepting = np.empty(len(rows), np.int64)
    exact = True
    for slot in slots:
        word, bit = slot >> 6, np.int64(1) << (slot & 63)
        block, block_bit = slot // BLOCK // 64, np.int64(1) << (slot // BLOCK & 63)
        attribute = 0
        for f in range(fields):
            accepting[0] = bits.first_row[f]
            count = 1
            while attribute < attributes and bits.field[attribute] == f:
                a = attribute
                attribute += 1
                tested = (bits.entries[slot, 2 * places[a] + 1] >> bits.shift[a]) & bits.mask[a] != 0
                if tested:
                    code = (bits.entries[slot, 2 * places[a]] >> bits.shift[a]) & bits.mask[a]
                    known = FIRST <= code < FIRST + values[a]
                    exact &= values[a] <= MOST_EXACT and known
                    named[bits.codes[a] + code, block] |= block_bit
                    bucket = min(max(code - 1, 0), values[a]) if values[a] <= MOST_EXACT else code & (BUCKETS - 1)
                    for i in range(count):
                        accepting[i] += bucket * stride[a]
                else:
                    free[a, block] |= block_bit
                    buckets = values[a] + 1 if values[a] <= MOST_EXACT else BUCKETS
                    for bucket in range(1, buckets):
                        for i in range(count):
                            accepting[bucket * count + i] = accepting[i] + bucket * stride[a]
                    count *= buckets
            for i in range(count):
                rows[accepting[i], word] |= bit
    return exact
