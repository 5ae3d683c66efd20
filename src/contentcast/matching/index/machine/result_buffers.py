"""Buffers for results, used again from batch to batch.

The matches of a batch take up to some hundred megabytes. An allocator gives such memory back to the system when the batch is
done. The system then hands out fresh pages, each to be cleared and mapped, which costs more than the matching. Here a buffer
that nobody uses any more is kept for the next batch.
Rule: a buffer is never handed out while an array made of it is alive.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections import deque
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine.reserved import new_mapping

SMALLEST: Final = 1 << 18
"""Bytes from which on buffers are kept; smaller ones come from NumPy."""
MOST_KEPT: Final = 3 << 27
"""Bytes of all buffers that wait for their next use."""
MOST_BUFFERS: Final = 8
"""Buffers that wait for their next use."""

_free: deque[tuple[int, int, mmap.mmap]] = deque()
"""The buffers that wait: size, how much of it was ever used, and the memory. The one given back last stands at the end."""


def result_buffer(count: int, *, in_lines: bool = True) -> npt.NDArray[np.int64]:
    """An array of at least so many numbers, holding anything, that begins a line of 64 bytes, if it has to be `in_lines`."""
    wanted = 8 * count
    if wanted < SMALLEST and not in_lines:
        return np.empty(count, np.int64)
    if wanted < SMALLEST or not hasattr(mmap, "MAP_PRIVATE"):
        found = np.empty(count + 8, np.int64)
        return found[-found.ctypes.data // 8 % 8 :]
    size = 1 << (wanted - 1).bit_length()
    used, piece = _taken(size)
    lease: Any = (ctypes.c_char * size).from_buffer(piece)  # every array made of it keeps it alive
    weakref.finalize(lease, _give_back, size, max(used, wanted), piece).atexit = False
    return np.frombuffer(lease, np.int64)


def _taken(size: int) -> tuple[int, mmap.mmap]:
    for each in reversed(list(_free)):  # the last one may still be in the caches
        if each[0] == size:
            try:
                _free.remove(each)
            except ValueError:
                continue  # another thread was faster
            return each[1], each[2]
    return 0, new_mapping(size)


def _give_back(size: int, used: int, piece: mmap.mmap) -> None:
    """Nobody uses the piece any more."""
    _free.append((size, used, piece))
    while _free and (len(_free) > MOST_BUFFERS or sum(each for _, each, _ in list(_free)) > MOST_KEPT):
        _free.popleft()
