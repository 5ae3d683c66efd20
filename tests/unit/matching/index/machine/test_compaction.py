"""Every way of putting entries side by side writes the same, whatever the bits."""

from __future__ import annotations

import os

import numba as nb
import numpy as np
import pytest

from contentcast.matching.index.machine import compaction
from contentcast.matching.index.machine.compaction import write_few, write_sixteen


@nb.njit  # type: ignore[untyped-decorator]
def all_masks(arena, out, ends):  # type: ignore[no-untyped-def]
    """Each of the 2^16 masks, once by each function, one after the other."""
    at = np.int64(0)
    for mask in range(1 << 16):
        at = write_sixteen(arena, np.int64(3), np.int64(mask), out, at)
        ends[0, mask] = at
        at = write_few(arena, np.int64(5), np.int64(mask), out, at)
        ends[1, mask] = at
    return at


def test_all_masks() -> None:
    arena = np.arange(-8, 16, dtype=np.int32)
    out, ends = np.empty((1 << 20) + 64, np.int64), np.empty((2, 1 << 16), np.int64)
    end = all_masks(arena, out, ends)
    bits = (np.arange(1 << 16)[:, None] >> np.arange(16)) & 1
    assert end == 2 * bits.sum()
    expected = [arena[first : first + 16][row == 1] for row in bits for first in (3, 5)]
    assert (out[:end] == np.concatenate(expected)).all()
    assert (ends.T.reshape(-1) == np.cumsum([len(each) for each in expected])).all()


def test_the_way_is_that_of_what_is_compiled_for() -> None:
    wanted = os.environ.get("CONTENTCAST_TEST_WAY")
    if wanted is None:
        pytest.skip("only where a test of all ways has chosen one (tests/conformance/test_processors.py)")
    assert wanted == compaction.WAY
