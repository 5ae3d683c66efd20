"""Order codes: 32-bit numbers that stand for the 64-bit keys where an attribute's ranges begin and end, in the same order.

The points are all keys where a range begins or ends. Each point has a code. The key of an event gets the code of the point that
it equals. A key between two points gets the code of the lower point, plus one. So comparing two codes gives the same answer as
comparing the two keys, with half the bytes:

    points   ABSENT     8.30      8.70          price BETWEEN 8.30 AND 8.70   is   -40 <= code <= 900
    codes    -2^31      -40       900           8.30 -> -40    8.50 -> -39    8.70 -> 900    9 -> 901    absent -> -2^31

There are gaps between codes, so that later points fit in. When a gap is used up, all points get new codes, and the columns that
hold codes are rewritten (`Store.recode`). Points are removed only when a new plan is made, and only if few of them are in use.
The open end of a range is not a point.
"""

# Numba infers the kernels' types.
# mypy: allow-untyped-defs, allow-untyped-calls
# mypy: disable-error-code="no-untyped-def,untyped-decorator,misc,operator,type-var,arg-type"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine.layout import ABSENT_CODE, GREATEST_CODE, INDEX
from contentcast.matching.index.values.dictionaries import ABSENT_KEY

_MARGIN: Final = 4
"""Codes that stay free at both ends: a key below all points and a key above all points have codes of their own."""
MOST_HEADS: Final = 1 << 16
"""The greatest number of heads (see `OrderCodes.heads`)."""
HEADS_PER_POINT: Final = 4
FEW_POINTS: Final = 17
"""Up to this many points are compared one after the other; more points are searched by halving."""
LEAST_STEP: Final = 64
"""The codes are crowded if the distance between two new ones is smaller than this; with very many points the limit is lower."""
MOST_STEPS: Final = 2
"""Halving steps that every search makes without a branch. A search that needs more continues in a loop; few do."""

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
_NO_GRID: Final = np.zeros(0, np.int64)
_NO_MARKS: Final = np.zeros((0, 2), np.int64)


@dataclass(slots=True)
class OrderCodes:
    """`points` in ascending order, with ABSENT_KEY first; `codes[i]` is the code of points[i]."""

    points: Ints = field(default_factory=lambda: np.array([ABSENT_KEY]))
    codes: Codes = field(default_factory=lambda: np.array([ABSENT_CODE], np.int32))
    is_crowded: bool = False
    """True if a gap between codes is nearly used up."""
    _heads: tuple[Codes, int] | None = None
    _marks: tuple[Ints | None, Ints] | None = None
    _pieces: dict[str, Any] = field(default_factory=dict)
    """By name: the memory in which points, codes and marks are the first part. They grow in it without a new allocation."""

    @classmethod
    def even(cls, points: Ints) -> OrderCodes:
        """Order codes for these points, with equal gaps between the codes."""
        room = 3 * 2**30 // len(points)
        codes = (room * np.arange(len(points)) - 3 * 2**29).astype(np.int32)
        codes[0] = ABSENT_CODE
        found = cls(points, codes)
        found.points, found.codes = (
            found._fit(name, array, len(array))[: len(array)] for name, array in (("points", points), ("codes", codes))
        )
        return found

    def add(self, keys: Ints, recode: Callable[[Codes, Codes], None]) -> None:
        """Make the keys points. If the codes have to change, `recode` gets the old codes, ascending, and the new code of each.
        The new codes are used after `recode` has returned; if it fails, the old codes stay.
        """
        new, at, new_codes, least_step = _new_points(self.points, self.codes, keys)
        if not len(new):
            return
        old = self.codes
        if len(self.points) == 1 or least_step < 2:
            kept = np.insert(np.ones(len(self.points), np.bool_), at, False)
            even = OrderCodes.even(np.insert(self.points, at, new))
            if len(old) > 1:
                recode(old, even.codes[kept])
            self.points, self.codes, self.is_crowded, self._pieces = even.points, even.codes, False, even._pieces
            self._heads = self._marks = None
            return
        count, total = len(old), len(old) + len(new)
        grid, marks = self._marks or (None, _NO_MARKS)
        pieces = self._fit("points", self.points, total), self._fit("codes", old, total)
        marked = self._fit("marks", marks, total) if len(marks) else marks
        new_marks = np.empty((len(new) if len(marks) else 0, 2), np.int64)
        self.is_crowded |= least_step < min(LEAST_STEP, 2**26 // total)
        heads, self._heads, least = self._heads, None, int(self.points[1])  # if this is interrupted, they are computed again
        if heads is not None and (
            new[0] < least or new[-1] > self.points[-1] or (total > len(heads[0]) and len(heads[0]) < MOST_HEADS // 2)
        ):
            heads = None  # heads do not cover the new points, or their stretches have become long
        _put_in(*pieces, marked, _NO_GRID if grid is None else grid, count, at, new, new_codes, new_marks)
        self.points, self.codes = (piece[:total] for piece in pieces)
        if self._marks is not None:
            self._marks = grid, marked[:total]
        if heads is not None:
            steps = _count_in(heads[0], least, heads[1], new)
            self._heads = heads[0], heads[1] & 63 | steps << 6

    def _fit(self, name: str, array: Any, count: int) -> Any:
        """Memory for `count` rows that begins with the array; allocated larger if it is too small."""
        piece = self._pieces.get(name)
        if piece is None or len(piece) < count:
            piece = np.empty((count + count // 4, *array.shape[1:]), array.dtype)
            piece[: len(array)] = array
            self._pieces[name] = piece
        return piece

    def look_up(self, keys: Ints, codes: Codes, ranks: Codes, grid: Ints | None) -> None:
        """Write the codes of an event column, and its cells in the grid if there is a grid."""
        heads, shift = self.heads()
        look_up_keys(self.marks(grid), heads, shift, keys, codes, ranks)

    def heads(self) -> tuple[Codes, int]:
        """Where a search begins. The keys from the least to the greatest point are cut into equal stretches; heads[s] counts
        the points up to the beginning of stretch s.

        The second value holds two numbers: the length of a stretch as a shift in the low 6 bits, and above them the halving
        steps that a search needs in most stretches.
        """
        if self._heads is None:
            first, last = (int(self.points[1]), int(self.points[-1])) if len(self.points) > 1 else (0, 0)
            wanted = min(MOST_HEADS, HEADS_PER_POINT * len(self.points))
            shift = max(0, (last - first).bit_length() - (wanted.bit_length() - 1))
            offsets = np.arange(((last - first) >> shift) + 2, dtype=np.uint64) << np.uint64(shift)
            bounds = (np.array([first]).view(np.uint64) + offsets).view(np.int64)  # wraps around, as intended
            bounds[-1] = last
            counts = np.searchsorted(self.points, bounds, "right").astype(np.int32)
            self._heads = counts, shift | min(MOST_STEPS, int(np.diff(counts).max()).bit_length()) << 6
        return self._heads

    def marks(self, grid: Ints | None) -> Ints:
        """What a search reads of each point, side by side: [key, code << 32 | cell of the grid]."""
        if self._marks is None or self._marks[0] is not grid:
            self._pieces.pop("marks", None)
            marks = self._fit("marks", np.empty((0, 2), np.int64), len(self.points))[: len(self.points)]
            _mark(self.points, self.codes, _NO_GRID if grid is None else grid, marks)
            self._marks = grid, marks
        return self._marks[1]


@nb.njit(nogil=True, cache=True)
def _new_points(points, codes, keys):
    """Find the keys that are not points yet. Returns them in ascending order without repeats, the position of each among the
    points, their codes, and the smallest distance between two codes.
    """
    ascending = np.sort(keys)
    new, at = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    count = 0
    for i in range(len(ascending)):
        key = ascending[i]
        if i > 0 and key == ascending[i - 1]:
            continue
        place = np.searchsorted(points, key)
        if place == len(points) or points[place] != key:
            new[count], at[count] = key, place
            count += 1
    new_codes, least_step = _new_codes(codes, at[:count])
    return new[:count], at[:count], new_codes, least_step


@nb.njit(nogil=True, cache=True)
def _new_codes(codes, at):
    """Codes for new points that go before the points at `at`, and the smallest distance between two codes."""
    count = len(at)
    found = np.empty(count, np.int32)
    usual = 2**32 // (len(codes) + count)
    least_step = usual
    i = 0
    while i < count:
        end = i
        while end < count and at[end] == at[i]:
            end += 1
        below = max(np.int64(codes[at[i] - 1]), ABSENT_CODE + _MARGIN)
        above = np.int64(codes[at[i]]) if at[i] < len(codes) else np.int64(GREATEST_CODE - _MARGIN)
        # New points often come beyond an end again and again (a rising bound): each takes a small part of the room there.
        if at[i] == len(codes):
            above = min(above, below + (end - i + 1) * (usual >> 4))
        if at[i] == 1:
            below = max(below, above - (end - i + 1) * (usual >> 4))
        step = (above - below) // (end - i + 1)
        least_step = min(least_step, step)
        for k in range(i, end):
            found[k] = below + (k - i + 1) * step
        i = end
    return found, least_step


@nb.njit(nogil=True, cache=True)
def _put_in(points, codes, marks, grid, count, at, new, new_codes, new_marks):
    """Insert new points, with their codes and marks, before the points at `at`. `count` points are there; `at` is ascending.
    The arrays are long enough. Marks are inserted only if the marks exist.
    """
    if len(marks) > 0:
        _mark(new, new_codes, grid, new_marks)
        _make_way(marks, count, at, new_marks)
    _make_way(points, count, at, new)
    _make_way(codes, count, at, new_codes)


@nb.njit(nogil=True, cache=True)
def _make_way(piece, count, at, new):
    """Insert new rows before the rows at `at`. The first `count` rows of `piece` are in use. Rows move from the last one on, so
    that no row is overwritten before it has moved.
    """
    wide, there, coming = piece.size // len(piece), piece.reshape(-1), new.reshape(-1)
    end = count
    for i in range(len(at) - 1, -1, -1):
        shift = wide * (i + 1)
        for k in range(INDEX(0), INDEX(wide * (end - at[i]))):
            last = INDEX(wide * end - 1) - k
            there[last + INDEX(shift)] = there[last]
        for k in range(wide):
            there[wide * (at[i] + i) + k] = coming[wide * i + k]
        end = at[i]


@nb.njit(nogil=True, cache=True)
def _count_in(counts, first, shift_and_steps, new):
    """Add the new points to the heads; returns the halving steps that a search needs now."""
    shift, steps = shift_and_steps & 63, shift_and_steps >> 6
    stretch = 0
    for i in range(len(new) + 1):
        end = len(counts) if i == len(new) else min(len(counts), _stretch_after(new[i], first, shift))
        for k in range(INDEX(stretch), INDEX(end)):
            counts[k] += np.int32(i)
        stretch = max(stretch, end)
        if i > 0:
            after = _stretch_after(new[i - 1], first, shift)
            if 0 < after < end:
                while steps < MOST_STEPS and (counts[after] - counts[after - 1]) >> steps != 0:
                    steps += 1
    return steps


@nb.njit(nogil=True, cache=True, inline="always")
def _stretch_after(key, first, shift):
    """The first stretch that begins at the key or above it."""
    offset = np.uint64(key - first)  # wraps around, as intended
    whole = offset >> np.uint64(shift)
    return np.int64(whole) + np.int64((whole << np.uint64(shift)) != offset)


@nb.njit(nogil=True, cache=True)
def _mark(points, codes, grid, found):
    for i in range(len(points)):
        rank = np.int64(-1) if points[i] == ABSENT_KEY else np.searchsorted(grid, points[i], "right")
        found[i, 0], found[i, 1] = points[i], np.int64(codes[i]) << 32 | rank & 0xFFFFFFFF


@nb.njit(nogil=True, cache=True)
def look_up_keys(marks, heads, shift_and_steps, keys, codes, ranks):
    if len(marks) <= FEW_POINTS:
        _look_up_among_few(marks, keys, codes, ranks)
    else:
        _look_up_among_many(marks, heads, shift_and_steps, keys, codes, ranks)


@nb.njit(nogil=True, cache=True)
def _look_up_among_many(marks, heads, shift_and_steps, keys, codes, ranks):
    count = len(marks)
    first, last = marks[1, 0], marks[count - 1, 0]
    shift, steps = np.uint64(shift_and_steps & 63), shift_and_steps >> 6
    zero, one = np.uint64(0), np.uint64(1)  # Numba does not check an unsigned index for "counts from the end"
    for i in range(np.uint64(len(keys))):
        key = keys[i]
        if key >= last:
            at = np.uint64(count - 1)
        elif key < first:
            at = zero
        else:
            stretch = np.uint64(key - first) >> shift  # wraps around, as intended
            at = np.uint64(heads[stretch]) - one
            size = np.uint64(heads[stretch + one]) - at
            for _ in range(steps):  # the same number for all keys, with conditional moves: no branch to predict
                half = size >> one
                at += half if marks[at + half, zero] <= key else zero
                size -= half
            while size > one:
                half = size >> one
                at += half if marks[at + half, zero] <= key else zero
                size -= half
        found = marks[at, one]
        codes[i] = np.int32((found >> 32) + (marks[at, zero] != key))
        ranks[i] = max(np.int32(found), -np.int32(key == ABSENT_KEY))


@nb.njit(nogil=True, cache=True)
def _look_up_among_few(marks, keys, codes, ranks):
    """Compare all keys with one point after the other; the compiler makes vector code of it."""
    count = np.uint64(len(keys))
    for i in range(count):
        ranks[i] = 0
    for number in range(1, len(marks)):
        point = marks[number, 0]
        for i in range(count):
            ranks[i] += np.int32(keys[i] >= point)
    zero, one = np.uint64(0), np.uint64(1)
    for i in range(count):
        at = np.uint64(ranks[i])
        codes[i] = np.int32((marks[at, one] >> 32) + (marks[at, zero] != keys[i]))
        ranks[i] = max(np.int32(marks[at, one]), -np.int32(keys[i] == ABSENT_KEY))
