"""Arrays that are larger than what they hold: memory that is reserved, and taken from the system only as it is written to.

`np.zeros` may be given memory that was used before, and then clears all of it at once. A fresh anonymous mapping is zeros
already, and its pages come one by one.
"""

from __future__ import annotations

import math
import mmap
from typing import Any, Final

import numpy as np

LARGE: Final = 1 << 20
"""Bytes from which on an array gets a mapping of its own."""
HUGE_FROM: Final = 1 << 25
"""Bytes from which on an array that grows has pages of two megabytes. Readers then find its pages faster, but the first write
to a page waits until all of it is cleared: 0.2 ms, or 5 ms in a virtual machine that has to ask its host for the page.
"""
GROWTH_FACTOR: Final = 16
"""Growth factor: an array that grows is allocated this many times larger than needed. A plan may be in use until there are nine
times as many subscriptions.
"""


def reserved_zeros(shape: tuple[int, ...], dtype: Any, *, used: int = 0, huge_from: int = HUGE_FROM) -> Any:
    """An array of zeros, of which a large one takes memory, and time, only as it is used: `np.zeros` may get memory that was
    used before, and then clears all of it at once. `used`: how many numbers it will hold soon, one after the other.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape, dtype)
    try:
        return np.frombuffer(new_mapping(size, used * np.dtype(dtype).itemsize >= huge_from), dtype, math.prod(shape)).reshape(
            shape
        )
    except OSError as reason:  # who wants memory looks for the other one
        raise MemoryError(f"no {size:,} bytes could be set aside") from reason


def reserve(shape: tuple[int, ...], dtype: Any, *, times: int, used: int = 0, huge_from: int = HUGE_FROM) -> Any:
    """Zeros, so many `times` as many as are needed; where memory that is set aside counts as used, a fourth more."""
    count, *rest = shape
    try:
        return reserved_zeros((times * count, *rest), dtype, used=used, huge_from=huge_from)
    except MemoryError:
        return reserved_zeros((count + count // 4, *rest), dtype, used=used, huge_from=huge_from)


def with_capacity(array: Any, used: int, size: int) -> Any:
    """The array, or a copy of what is used of it with room for `size` and more, which takes no memory until it is used."""
    if size <= len(array):
        return array
    larger = reserve((max(size, 4), *array.shape[1:]), array.dtype, times=GROWTH_FACTOR)
    larger[:used] = array[:used]
    return larger


def new_mapping(size: int, huge: bool = True) -> mmap.mmap:
    piece = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        piece.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    return piece
