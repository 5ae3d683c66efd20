"""The matches of several trees as those of one: for each event the ids of all, ascending."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel

Ints = npt.NDArray[np.int64]


@kernel
def _sort_within(offsets: Ints, ids: Ints) -> None:
    for event in range(len(offsets) - 1):
        begin, end = offsets[event], offsets[event + 1]
        if end - begin <= 32:
            for at in range(begin + 1, end):
                each = ids[at]
                before = at
                while before > begin and ids[before - 1] > each:
                    ids[before] = ids[before - 1]
                    before -= 1
                ids[before] = each
        else:
            ids[begin:end].sort()


def merged(offsets: Sequence[Ints], ids: Sequence[Ints], events: int) -> tuple[Ints, Ints]:
    """(offsets, ids) of all; no id is in two of them."""
    all_offsets = np.zeros(events + 1, np.int64)
    for each in offsets:
        all_offsets += each
    together = np.empty(int(all_offsets[-1]), np.int64)
    at = all_offsets[:-1].copy()
    for each, found in zip(offsets, ids, strict=True):
        counts = np.diff(each)
        together[np.repeat(at - each[:-1], counts) + np.arange(len(found))] = found
        at += counts
    _sort_within(all_offsets, together)
    return all_offsets, together
