"""Text pieces: finds in one pass which of very many pieces a text equals, begins with, ends with or contains.

All pieces stand in one hash table. A text is looked up in four ways:

* whole, for pieces that it must equal;
* by its prefixes and by its suffixes, one for each length that such a piece has;
* at each position, for pieces that it must contain. `heads` says which lengths to try there: the lengths of the pieces that
  begin with the same two bytes.

    contains 'dark', 'data', 'on'      "a dark book"   at 'd': heads['da'] has length 4, so 'dark' is looked up; at 'r': nothing

A text is a sequence of bytes here. In UTF-8 a piece is found in a text exactly where its bytes are. Each piece is linked to
numbers: the constraints that are filed under it (`text_tests`).
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,call-arg"

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine.simd import load_eight, lowest_one
from contentcast.matching.index.values.hash_tables import frozen, grown
from contentcast.uninterrupted import Uninterrupted

Ints = npt.NDArray[np.int64]

EXACT, PREFIX, SUFFIX, CONTAINS = range(4)
LONGEST: Final = 62
"""The greatest length of a contained piece, in bytes: `heads` has one bit for each length."""
PADDING: Final = 8
"""Bytes that follow the last text: eight are read at a time."""
_SPREAD: Final = np.int64(-7046029254386353131)


class _Table(NamedTuple):
    """A slot holds a piece. The piece's `link` is the position of its first number; `following` is the next position, or -1.

    Constraint 1 asks for texts that begin with 'da'; constraints 3 and 6 ask for texts that contain 'ark':

        slots    -1  1 -1 -1  0 -1 -1 -1       heads['ar']   1 << 3
        how      1 3    start   0 2    length   2 3    text   d a a r k
        link     0 2    number  1 3 6    following  -1 -1 1
    """

    slots: Any
    how: Any
    hash: Any
    start: Any
    length: Any
    link: Any
    text: Any
    number: Any
    following: Any
    heads: Any


class Pieces:
    """Pieces and the numbers that are linked to them."""

    def __init__(self) -> None:
        self._pieces = self._links = self._bytes = self._gone = 0
        ints = [np.zeros(8, np.int64) for _ in range(7)]
        self._table = _Table(
            np.full(64, -1, np.int64), *ints[:5], np.zeros(64, np.uint8), *ints[5:], np.zeros(1 << 16, np.int64)
        )  # fmt: skip
        self._lengths: dict[int, set[int]] = {EXACT: set(), PREFIX: set(), SUFFIX: set(), CONTAINS: set()}
        self._ends = np.zeros(0, np.int64), np.zeros(0, np.int64)
        """The lengths of prefixes and of suffixes, ascending."""
        self._waiting: list[tuple[int, bytes, int]] = []
        self._stamps = np.zeros(0, np.int64)
        """For each number: the last text that led to it. So a number is found once for each text."""
        self._asked = 0

    def link(self, how: int, piece: bytes, number: int) -> None:
        self._waiting.append((how, piece, number))
        self._lengths[how].add(len(piece))

    def unlink(self, how: int, piece: bytes, number: int) -> None:
        self._settle()
        self._gone += bool(_unlink(self._table, how, np.frombuffer(piece + bytes(PADDING), np.uint8), len(piece), number))

    def tidy(self) -> None:
        """Drop the links that were removed, if they are more than half of all links."""
        if 2 * self._gone <= self._links:
            return
        self._settle()
        how, starts, text, numbers = _living(self._table, self._pieces, self._links - self._gone)
        fresh = Pieces()
        for each in (EXACT, PREFIX, SUFFIX, CONTAINS):
            fresh._lengths[each] = set(np.diff(starts)[how == each].tolist())
        fresh._put(how, starts, text, numbers)
        vars(self).update(vars(fresh))

    def find(self, texts: list[bytes], numbers: int) -> tuple[Ints, Ints]:
        """Pairs (position of a text, number that it leads to), each pair once. All numbers are below `numbers`."""
        return self.find_in(*joined(texts), numbers)

    def find_in(self, text: Any, starts: Ints, numbers: int) -> tuple[Ints, Ints]:
        """The same for texts in one array: text k is text[starts[k] : starts[k + 1]]. Eight bytes follow the last text."""
        self._settle()
        count, (prefixes, suffixes) = len(starts) - 1, self._ends
        exact, contained = (bool(self._lengths[how]) for how in (EXACT, CONTAINS))
        if len(self._stamps) < numbers:
            self._stamps, self._asked = np.zeros(2 * numbers, np.int64), 0
        asked, self._asked = self._asked, self._asked + count  # first: stamps of a search that broke off count for nothing
        done, room, found = 0, 4 * count + 1024, []
        while done < count:
            places, those = np.empty(room, np.int64), np.empty(room, np.int64)
            done, used = _find(
                self._table, exact, contained, prefixes, suffixes, frozen(text), starts, done, places, those, self._stamps,
                asked,
            )  # fmt: skip
            found.append((places[:used], those[:used]))
            room *= 2
        places, those = (np.concatenate([np.zeros(0, np.int64), *(each[i] for each in found)]) for i in range(2))
        return places, those

    def _settle(self) -> None:
        """Put the waiting links into the table, all at once."""
        if not self._waiting:
            return
        text, starts = joined([piece for _, piece, _ in self._waiting])
        how = np.array([each for each, _, _ in self._waiting], np.int64)
        numbers = np.array([number for _, _, number in self._waiting], np.int64)
        with Uninterrupted():
            self._put(how, starts, text, numbers)
            self._waiting = []

    def _put(self, how: Ints, starts: Ints, text: Any, numbers: Ints) -> None:
        """Link each piece to its number. The pieces stand one after the other in `text`."""
        self._ends = (
            np.array(sorted(self._lengths[PREFIX]), np.int64), np.array(sorted(self._lengths[SUFFIX]), np.int64)
        )  # fmt: skip
        old, count, none = self._table, len(how), np.zeros(len(how), np.int64)
        slots = old.slots
        if 2 * (self._pieces + count) > len(slots):
            slots = np.full(1 << (4 * (self._pieces + count)).bit_length(), -1, np.int64)
            _put(slots, old.hash, self._pieces)
        pieces = [grown(each, self._pieces, none) for each in (old.how, old.hash, old.start, old.length, old.link)]
        links = [grown(each, self._links, none) for each in (old.number, old.following)]
        self._table = _Table(slots, *pieces, grown(old.text, self._bytes, text), *links, old.heads)
        self._pieces = int(_link(self._table, self._pieces, self._links, self._bytes, how, starts, numbers))
        self._links += count
        self._bytes += int(starts[-1])


def joined(texts: list[bytes]) -> tuple[Any, Ints]:
    """The texts in one array, with eight bytes of padding after the last; and where each begins."""
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(each) for each in texts], out=starts[1:])
    return np.frombuffer(b"".join([*texts, bytes(PADDING)]), np.uint8), starts


@nb.njit(nogil=True, cache=True, inline="always")
def _hash(text, begin, length, how):
    key: Any = (np.int64(how) + length * 8) * _SPREAD
    k = np.int64(0)
    while k + 8 <= length:
        key = (key ^ load_eight(text, begin + k)) * _SPREAD
        key ^= key >> 29
        k += 8
    if k < length:
        key = (key ^ (load_eight(text, begin + k) & ((np.int64(1) << (8 * (length - k))) - 1))) * _SPREAD
    return key ^ (key >> 32)


@nb.njit(nogil=True, cache=True)
def _put(slots, hashes, count):
    for piece in range(count):
        slot = hashes[piece] & (len(slots) - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = piece


@nb.njit(nogil=True, cache=True)
def _piece_of(table, how, key, text, begin, length):
    """The piece and its slot; if there is no such piece, -1 and the slot where it would go."""
    slot = key & (len(table.slots) - 1)
    while table.slots[slot] >= 0:
        piece = table.slots[slot]
        if table.hash[piece] == key and table.how[piece] == how and table.length[piece] == length:
            same = True
            for k in range(length):
                same &= table.text[table.start[piece] + k] == text[begin + k]
            if same:
                return piece, slot
        slot = (slot + 1) & (len(table.slots) - 1)
    return np.int64(-1), slot


@nb.njit(nogil=True, cache=True)
def _link(table, pieces, links, first_byte, how, starts, numbers):
    """Link pieces, whose bytes stand in the table's text from `first_byte` on, to numbers. Returns the new number of pieces."""
    for i in range(len(how)):
        begin, length = first_byte + starts[i], starts[i + 1] - starts[i]
        key = _hash(table.text, begin, length, how[i])
        piece, slot = _piece_of(table, how[i], key, table.text, begin, length)
        if piece < 0:
            piece = np.int64(pieces)
            pieces += 1
            table.slots[slot] = piece
            table.how[piece], table.hash[piece], table.link[piece] = how[i], key, -1
            table.start[piece], table.length[piece] = begin, length
            if how[i] == CONTAINS:
                bit = np.int64(1) << length
                if length > 1:
                    table.heads[np.int64(table.text[begin]) | np.int64(table.text[begin + 1]) << 8] |= bit
                else:
                    for second in range(256):
                        table.heads[np.int64(table.text[begin]) | second << 8] |= bit
        table.number[links + i], table.following[links + i] = numbers[i], table.link[piece]
        table.link[piece] = links + i
    return pieces


@nb.njit(nogil=True, cache=True)
def _living(table, pieces, links):
    """All links that are left, with one copy of the piece for each: how, begin of each piece, the bytes, the numbers."""
    how, starts = np.empty(links, np.int64), np.zeros(links + 1, np.int64)
    numbers, text = np.empty(links, np.int64), np.zeros(len(table.text) * (1 + links // max(1, pieces)) + 8, np.uint8)
    count = 0
    for piece in range(pieces):
        link = table.link[piece]
        while link >= 0:
            begin, length = starts[count], table.length[piece]
            if begin + length + 8 > len(text):
                larger = np.zeros(2 * (begin + length + 8), np.uint8)
                larger[: len(text)] = text
                text = larger
            for k in range(length):
                text[begin + k] = table.text[table.start[piece] + k]
            how[count], starts[count + 1], numbers[count] = table.how[piece], begin + length, table.number[link]
            count += 1
            link = table.following[link]
    return how, starts, text[: starts[links] + 8].copy(), numbers


@nb.njit(nogil=True, cache=True)
def _unlink(table, how, text, length, number):
    piece, _ = _piece_of(table, how, _hash(text, np.int64(0), length, how), text, np.int64(0), length)
    before, at = np.int64(-1), table.link[piece] if piece >= 0 else np.int64(-1)
    while at >= 0 and table.number[at] != number:
        before, at = at, table.following[at]
    if at < 0:
        return False
    if before < 0:
        table.link[piece] = table.following[at]
    else:
        table.following[before] = table.following[at]
    return True


# This is one function for speed: Numba counts references to arrays that are passed to another function, for every piece.
@nb.njit(nogil=True, cache=True)
def _find(table, exact, contained, prefixes, suffixes, text, starts, first, places, numbers, stamps, asked):
    """Find the numbers that each text leads to, from text `first` on. It stops before a text whose numbers do not fit.

    Returns the next text and the number of pairs found. stamps[number] is the last text that led to the number; the texts of
    earlier calls (`asked`) are counted, too.
    """
    slots, how_of, hashes, piece_start, piece_length = table.slots, table.how, table.hash, table.start, table.length
    link_of, piece_text, number_of, following = table.link, table.text, table.number, table.following
    heads = table.heads
    last_slot = len(slots) - 1
    at = 0
    for this in range(first, len(starts) - 1):
        begin, length = starts[this], starts[this + 1] - starts[this]
        at_first = at
        for how in range(4):
            steps: Any = np.int64(exact)
            if how == PREFIX:
                steps = len(prefixes)
            elif how == SUFFIX:
                steps = len(suffixes)
            elif how == CONTAINS:
                steps = length if contained else np.int64(0)
            for step in range(steps):
                left = np.int64(1)
                if how == CONTAINS:
                    second = np.int64(text[begin + step + 1]) if step + 1 < length else np.int64(0)
                    left = heads[np.int64(text[begin + step]) | second << 8]
                while left != 0:
                    start, size = begin, length
                    if how == PREFIX:
                        size = prefixes[step]
                    elif how == SUFFIX:
                        size = suffixes[step]
                        start = begin + length - size
                    elif how == CONTAINS:
                        size = lowest_one(left)
                        start = begin + step
                    left &= left - 1
                    if size > length or start + size > begin + length:
                        continue
                    key = _hash(text, start, size, how)
                    slot = key & last_slot
                    piece = slots[slot]
                    while piece >= 0:
                        if hashes[piece] == key and how_of[piece] == how and piece_length[piece] == size:
                            same = True
                            for k in range(size):
                                same &= piece_text[piece_start[piece] + k] == text[start + k]
                            if same:
                                break
                        slot = (slot + 1) & last_slot
                        piece = slots[slot]
                    link = link_of[piece] if piece >= 0 else np.int64(-1)
                    while link >= 0:
                        number = number_of[link]
                        if stamps[number] != asked + this + 1:
                            if at == len(places):
                                for k in range(at_first, at):
                                    stamps[numbers[k]] = 0
                                return this, at_first
                            stamps[number] = asked + this + 1
                            places[at], numbers[at] = this, number
                            at += 1
                        link = following[link]
    return len(starts) - 1, at
