"""Hash functions of the kernels: the first slot of a key in a table, and one number mixed from many.

Rule: a table has a power of two slots, and a key is looked for from its first slot on, slot after slot (linear probing).
"""

# Numba infers the types.
# mypy: ignore-errors

from __future__ import annotations

import numba as nb
import numpy as np

SPREAD = -7046029254386353131
"""2^64 / golden ratio: a product with it spreads neighbouring keys over the table (Knuth, volume 3, section 6.4)."""


def shift_of(size: int) -> int:
    """The shift by which `spread` finds the first slot of a key in a table of `size` slots."""
    return 64 - (size.bit_length() - 1)


@nb.njit(nogil=True, cache=True, inline="always")
def spread(key, shift):
    return ((key * np.int64(SPREAD)) >> shift) & ((np.int64(1) << (np.int64(64) - shift)) - np.int64(1))


@nb.njit(nogil=True, cache=True)
def mixed_with(mixed, number):
    """A number that depends on all that were mixed into it."""
    mixed = (mixed ^ number) * np.int64(SPREAD)
    return mixed ^ (mixed >> 29)
