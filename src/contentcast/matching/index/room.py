"""Room for what a batch matches: memory that is used again, since fresh pages cost more than the matching. And for arrays that
grow: memory that is only set aside.

Arrays of up to some hundred megabytes come and go with every batch. The allocators give such memory back to the system at
once, or a little later, and the system hands out fresh pages, each to be cleared and mapped. Here a piece that nobody uses any
more is kept for the next batch, `MOST_KEPT` bytes in all; untouched parts of a piece take no memory.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import weakref
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt

SMALLEST: Final = 1 << 18
LARGE: Final = 1 << 20
HUGE: Final = 1 << 25
"""Bytes from which on an array that grows is made of pages of two megabytes: fewer to find for those who read it, but whoever
writes to one first waits until all of it is cleared, 0.2 ms, or 5 in a virtual machine that has to ask for it.
"""
ROOM: Final = 16
"""How many times what is asked for an array is made of that grows: a plan may be in use until there is nine times as much."""
EACH: Final = max(1 << 12, mmap.PAGESIZE)
LEAST: Final = 32
AT_ONCE: Final = 1 << 20
"""Of memory that is left: bytes given back with each subscription that comes or goes, how many of these are counted at least,
and bytes at most.
"""
MOST_KEPT: Final = 3 << 27
MOST_PIECES: Final = 8

_free: deque[tuple[int, int, mmap.mmap]] = deque()
"""Size, how much of it has been used, and the piece; the last one given back at the end."""


def room_for(count: int) -> npt.NDArray[np.int64]:
    """An array of at least so many numbers, holding anything, that begins a line of 64 bytes."""
    wanted = 8 * count
    if wanted < SMALLEST or not hasattr(mmap, "MAP_PRIVATE"):
        found = np.empty(count + 8, np.int64)
        return found[-found.ctypes.data // 8 % 8 :]
    size = 1 << (wanted - 1).bit_length()
    used, piece = _taken(size)
    lease: Any = (ctypes.c_char * size).from_buffer(piece)  # every array made of it keeps it alive
    weakref.finalize(lease, _give_back, size, max(used, wanted), piece).atexit = False
    return np.frombuffer(lease, np.int64)


def zeros(shape: tuple[int, ...], dtype: Any, *, used: int = 0, huge_from: int = HUGE) -> Any:
    """An array of zeros, of which a large one takes memory, and time, only as it is used: `np.zeros` may get memory that was
    used before, and then clears all of it at once. `used`: how many numbers it will hold soon, one after the other.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape, dtype)
    try:
        return np.frombuffer(_piece(size, used * np.dtype(dtype).itemsize >= huge_from), dtype, math.prod(shape)).reshape(shape)
    except OSError as reason:  # who wants memory looks for the other one
        raise MemoryError(f"no {size:,} bytes could be set aside") from reason


def set_aside(shape: tuple[int, ...], dtype: Any, *, times: int, used: int = 0, huge_from: int = HUGE) -> Any:
    """Zeros, so many `times` as many as are needed; where memory that is set aside counts as used, a fourth more."""
    count, *rest = shape
    try:
        return zeros((times * count, *rest), dtype, used=used, huge_from=huge_from)
    except MemoryError:
        return zeros((count + count // 4, *rest), dtype, used=used, huge_from=huge_from)


def roomy(array: Any, used: int, size: int) -> Any:
    """The array, or a copy of what is used of it with room for `size` and more, which takes no memory until it is used."""
    if size <= len(array):
        return array
    larger = set_aside((max(size, 4), *array.shape[1:]), array.dtype, times=ROOM)
    larger[:used] = array[:used]
    return larger


class Leaving:
    """Large arrays that nobody uses any more, given back some pages at a time: the system takes 3 us for each."""

    def __init__(self) -> None:
        self._arrays: list[Any] = []
        self._done = 0

    def __len__(self) -> int:
        return len(self._arrays)

    def add(self, arrays: Iterable[Any]) -> None:
        """Nobody else may have them, or a part of them; the smallest wait longest."""
        self._arrays, self._done = sorted([*self._arrays, *arrays], key=lambda array: int(array.nbytes)), 0

    def give_back_some(self, changed: int) -> None:
        """With so many changes."""
        if not self._arrays:
            return
        array, memory = self._arrays[-1], _memory_of(self._arrays[-1])
        if memory is None or self._done >= array.nbytes:
            self._arrays.pop()
            self._done = 0
            return
        size = min(AT_ONCE, EACH * max(LEAST, changed), len(memory) - self._done)
        with suppress(OSError):  # then it goes with the array
            memory.madvise(mmap.MADV_DONTNEED, self._done, size)
        self._done += size


def _memory_of(array: Any) -> mmap.mmap | None:
    """What `zeros` has made the array of, if it is large and begins there."""
    found = array
    while isinstance(found, np.ndarray):
        found = found.base
    if isinstance(found, memoryview):
        found = found.obj
    large = isinstance(found, mmap.mmap) and array.flags.writeable and array.nbytes > AT_ONCE
    return found if large and hasattr(mmap, "MADV_DONTNEED") else None


def _piece(size: int, huge: bool = True) -> mmap.mmap:
    piece = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        piece.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    return piece


def _taken(size: int) -> tuple[int, mmap.mmap]:
    for each in reversed(list(_free)):  # the last one may still be in the caches
        if each[0] == size:
            try:
                _free.remove(each)
            except ValueError:
                continue  # another thread was faster
            return each[1], each[2]
    return 0, _piece(size)


def _give_back(size: int, used: int, piece: mmap.mmap) -> None:
    """Nobody uses the piece any more."""
    _free.append((size, used, piece))
    while _free and (len(_free) > MOST_PIECES or sum(each for _, each, _ in list(_free)) > MOST_KEPT):
        _free.popleft()
