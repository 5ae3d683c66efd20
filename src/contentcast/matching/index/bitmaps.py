"""Entries as bitmaps: for attributes of few values, which entries do not mind a value, as one row of bits per value.

    entry        0  1  2  3        an event with a1 = 2, a2 = 1 (and a3 whatever):
    a1           1  2  2  *        row a1=2   0 1 1 1
    a2           *  *  1  3        row a2=1   1 1 1 0
                                   and        0 1 1 0     entries 1 and 2 match

Several attributes share a field, whose rows stand for their combinations: one row to fetch where there would be three or four.
The values of an attribute with more than a few of them are put into four buckets for this. A row then says of some entries
that they may match, and these are compared in full: an entry tests several attributes, so hardly one passes by chance.

The entries are sorted when the plan is made, by the attributes that most of them test, so that a block of them mostly dies at
once: each attribute and code knows the blocks with an entry that asks for it, each attribute those with one that does not test
it. Later entries go to the end, or into the place of one that was removed.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.codes import FIRST, Dictionary
from contentcast.matching.index.layout import BLOCK, BUCKETS, EXACT_BITS, MOST_EXACT, PLACE, PLAIN_BITS, SLACK, Bits
from contentcast.matching.index.room import HUGE, ROOM, roomy, set_aside

Ints = npt.NDArray[np.int64]

MOST_VALUES: Final = 62
"""An attribute of more values is not one of few."""
MOST_COMBINED: Final = 256
"""Rows of a field that several attributes share."""
ATTRIBUTE_NS: Final = 2.0
BLOCK_NS: Final = 5.0
FIELD_NS: Final = 1.1
ALIVE: Final = 0.35
"""The share of blocks that an event looks at; measured, as the times are, on the scenarios w1 and w1b."""
A_PAGE: Final = 512
PAGES: Final = 64
"""Words of one, and how many are written to at a time."""
HUGE_AT_ONCE: Final = 1 << 22
"""Bytes from which on rows that are made before there are any entries have large pages (see `room`)."""
_USED, _FREE = 2, 3


def _buckets(dictionary: Dictionary) -> int:
    return len(dictionary) + 1 if len(dictionary) <= MOST_EXACT else BUCKETS


def _fields(buckets: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Field and stride of each attribute, and the rows of each field."""
    field_of, stride, rows = [], [], [1]
    for each in buckets:
        if rows[-1] > 1 and rows[-1] * each > MOST_COMBINED:
            rows.append(1)
        field_of.append(len(rows) - 1)
        stride.append(rows[-1])
        rows[-1] *= each
    return field_of, stride, rows


def cost_ns(entries: int, dictionaries: list[Dictionary]) -> float:
    """What an event will cost, about."""
    fields = len(_fields([_buckets(each) for each in dictionaries])[2])
    return ATTRIBUTE_NS * len(dictionaries) + ALIVE * (entries / BLOCK + 1) * (BLOCK_NS + FIELD_NS * fields)


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class Bitmaps:
    """`names`: the attributes, in the order by which the entries were sorted."""

    names: list[str] = field(default_factory=list)
    values: Ints = field(default_factory=_none)
    """How many of each attribute were known when it was laid out."""
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
    """Whether all ids are plain and all rows exact, slots used, and how many of them are free again."""
    _room: Ints = field(default_factory=_none)
    """Memory of which the rows are the beginning."""

    @property
    def used(self) -> int:
        """Slots that hold an entry, or have held one."""
        return int(self.numbers[_USED])

    @property
    def count(self) -> int:
        return int(self.numbers[_USED] - self.numbers[_FREE])

    def view(self, dictionaries: dict[str, Dictionary]) -> Bits:
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
        """Fields and rows for the attributes, which are in the order of `dictionaries`; no entries yet."""
        mine = list(dictionaries.values())
        self.names = list(dictionaries)
        self.values = np.array([len(each) for each in mine], np.int64)
        sizes = [1 << each.bits for each in mine]
        self.codes = np.cumsum([0, *sizes])[:-1].astype(np.int64)
        field_of, stride, rows = _fields([_buckets(each) for each in mine])
        self.field_of, self.stride = np.array(field_of, np.int64), np.array(stride, np.int64)
        self.first_row = np.cumsum([0, *rows])[:-1].astype(np.int64)
        self.rows = np.zeros((sum(rows), BLOCK // 64), np.int64)
        self.named = np.zeros((sum(sizes), 1), np.int64)
        self.without = np.zeros((len(mine), 1), np.int64)
        self.words = np.unique(np.array([each.word for each in mine], np.int64))
        self.entries = np.zeros((0, 2 * len(self.words)), np.int64)

    # --- changing

    def add(self, words: Ints, masks: Ints, tagged: Any, dictionaries: dict[str, Dictionary]) -> Ints:
        """Entries with these equal constraints, [word, entry]; returns their slots."""
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
        if count <= 64 * self.rows.shape[1] and count + SLACK <= len(self.ids):
            return
        words = BLOCK // 64 * -(-(count + count // 4) // BLOCK)
        named, without = (_widened(each, -(-words // BLOCK)) for each in (self.named, self.without))
        ids, entries = roomy(self.ids, self.used, 64 * words + SLACK), roomy(self.entries, self.used, 64 * words)
        room = self._room_for_rows(words)
        rows = room[: len(self.rows) * words].reshape(-1, words)
        _widen(self.rows.reshape(-1), room, *self.rows.shape, words, room is self._room)  # from here on nothing may fail
        self.rows, self._room = rows, room
        self.named, self.without, self.ids, self.entries = named, without, ids, entries

    def _room_for_rows(self, words: int) -> Ints:
        """Memory that rows of so many words begin, which is that of the rows there are if they begin one that is large enough.

        What is not used takes none. Only what is made before there are any entries has pages of two megabytes: where rows grow
        they would come one by one, each after milliseconds.
        """
        size = len(self.rows) * words
        if size <= len(self._room) and np.shares_memory(self._room[:1], self.rows[:1, :1]):
            return self._room
        huge_from = HUGE if self.used else HUGE_AT_ONCE
        return cast(Ints, set_aside((size,), np.int64, times=ROOM, used=size, huge_from=huge_from))

    def make_room(self, count: int) -> Iterator[int]:
        """For so many entries, before there are any: page after page is written to, which takes the system its time. Says how
        many it was each time.
        """
        self._fit_slots(count)
        for at in range(0, self.rows.size, PAGES * A_PAGE):
            self._room[at : min(at + PAGES * A_PAGE, self.rows.size) : A_PAGE] = 0
            yield PAGES

    def expect_to_remove(self, count: int) -> None:
        """Have room to note that so many slots are free."""
        free = int(self.numbers[_FREE])
        if free + count > len(self.free):
            self.free = np.concatenate([self.free, np.zeros(free + count, np.int64)])

    def remove(self, slots: Ints) -> None:
        """What these slots hold; that they will be so many was expected."""
        if not len(slots):
            return
        rows = int(self.first_row[1]) if len(self.first_row) > 1 else len(self.rows)
        _clear_bits(self.rows, rows, slots)  # one field that says no is enough
        free = int(self.numbers[_FREE])
        self.free[free : free + len(slots)] = slots
        self.numbers[_FREE] = free + len(slots)

    # --- reading

    def slots(self) -> Ints:
        """Those that hold an entry."""
        return np.setdiff1d(np.arange(int(self.numbers[_USED])), self.free[: int(self.numbers[_FREE])])

    def arrays(self) -> dict[str, Any]:
        names = (
            "values", "codes", "field_of", "stride", "first_row", "rows", "named", "without", "ids", "words", "entries",
            "free", "numbers",
        )  # fmt: skip
        found = {name: getattr(self, name) for name in names}
        slots = 64 * self.rows.shape[1]
        return {**found, "ids": self.ids[: slots + SLACK], "entries": self.entries[:slots]}


def _widened(rows: Ints, words: int) -> Ints:
    wider = np.zeros((len(rows), words), np.int64)
    wider[:, : rows.shape[1]] = rows
    return wider


@nb.njit(nogil=True, cache=True)
def _widen(before, after, rows, old, new, used):
    """Rows of `old` words each become rows of `new` ones, in the same memory or in another: from the last on, so that none is
    written over that has not been read. What they had not is 0; memory that was not used before is.
    """
    for row in range(rows - 1, -1, -1):
        begin, to = PLACE(row * old), PLACE(row * new)
        if row * new >= (row + 1) * old:  # as most: a row that does not reach into its new place
            for k in range(PLACE(old)):
                after[to + k] = before[begin + k]
        else:
            for k in range(PLACE(1), PLACE(old + 1)):
                after[to + PLACE(old) - k] = before[begin + PLACE(old) - k]
        for k in range(PLACE(old), PLACE(new if used else old)):
            after[to + k] = 0


def in_order_of_use(masks: Ints, dictionaries: dict[str, Dictionary]) -> list[str]:
    """The attributes, those that most entries test first."""

    def uses(name: str) -> int:
        each = dictionaries[name]
        return int(np.count_nonzero(masks[each.word] >> each.shift & (1 << each.bits) - 1))

    return sorted(dictionaries, key=uses, reverse=True)


def sorting_keys(words: Ints, masks: Ints, dictionaries: dict[str, Dictionary]) -> Ints:
    """Numbers that have about the order of the entries by these attributes: as many of the first ones as 62 bits hold."""
    fields = np.array([(each.word, each.shift, each.bits) for each in dictionaries.values()], np.int64)
    keys = np.empty(words.shape[1], np.int64)
    _sorting_keys(words, masks, fields[np.cumsum(fields[:, 2]) <= 62], keys)
    return keys


@nb.njit(nogil=True, cache=True)
def _sorting_keys(words, masks, fields, keys):
    for i in range(len(keys)):
        key = np.int64(0)
        for f in range(len(fields)):
            word, shift, bits = fields[f]
            full = (np.int64(1) << bits) - 1
            code = np.int64(0)
            if (masks[word, i] >> shift) & full != 0:
                code = min(((words[word, i] >> shift) & full) + 1, full)
            key = key << bits | code
        keys[i] = key


@nb.njit(nogil=True, cache=True)
def _clear_bits(rows, count, slots):
    for row in range(count):
        for slot in slots:
            rows[row, slot >> 6] &= ~(np.int64(1) << (slot & 63))


@nb.njit(nogil=True, cache=True)
def _set_bits(bits, places, slots):
    """Mark the entries, whose bits are all 0, in the rows that accept them; `places`: where in `bits.entries` an attribute's
    word stands. True if the rows tell each of the values that they ask for from all others.
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
