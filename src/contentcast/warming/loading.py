"""The kernels of the index are called once in this process, so that the first answer and the first change wait for nothing.

Numba takes some 10 ms to load a kernel from its cache when it is first called, a second for all of them. A tiny index is built,
matched in every way, changed, and written to a file and mapped again: the kernels of a mapped file are others.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from contentcast.language import parse_many
from contentcast.model.space import Space

if TYPE_CHECKING:
    from contentcast.matching.index import CellIndex

SPACE: Final = Space("loading", s="string", t="string", i="int", f="float", b="bool")
TEXTS: Final = (
    "s = 'x' AND i < 5",
    "f > 0 AND i = 3",
    "t LIKE '%a%' AND f = 8.5",
    "s IN ('x', 'y') AND b",
    "t LIKE 'a%'",
)
COUNT: Final = 300


def build_index_kernels() -> None:
    """All that happens before an index is matched."""
    _built()


def load_index_kernels() -> None:
    from contentcast.matching.index import ColumnChecks, in_one, load_index, save_index

    records = pa.record_batch({"s": ["x", None], "t": ["ab", "b"], "i": [3, 1], "f": [8.5, None], "b": [True, False]})
    index = _built()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        save_index(index, path)
        for each in (index, load_index(path)):
            each.match(records).rows()
            in_one(each.match_split(records, 2, map), map)
            list(each.match_bounded(records, 1))
            each.single().match(records.slice(0, 1).to_pylist()[0])
            each.predicate(5)
            each.remove(np.arange(3, 6))
    ColumnChecks(SPACE).suspects(records)


def _built() -> CellIndex:
    from contentcast.matching.index import CellIndex, ColumnChecks
    from contentcast.matching.index.replanning.warm import warm_change_kernels

    warm_change_kernels()
    index = CellIndex(SPACE)
    texts = [f"i = {number} AND f < {number}" if number % 3 else TEXTS[number % len(TEXTS)] for number in range(COUNT)]
    index.add(np.arange(COUNT), parse_many(SPACE, texts))
    for number in range(40):  # each halves the same gap between order codes, until all are given anew
        index.add(np.array([COUNT + number]), parse_many(SPACE, [f"f < {2.0**-number!r}"]))
    index.predicate(0)
    index.remove(np.arange(3))
    ColumnChecks(SPACE)
    return index
