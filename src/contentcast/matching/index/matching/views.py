"""An index as the kernel sees it: its arrays, their addresses, and which column of an encoded batch belongs to which attribute.

Rule: views are good until the index changes; they keep the arrays alive whose addresses they hold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.cells.groups import Group, group_arrays
from contentcast.matching.index.machine import layout
from contentcast.matching.index.matching.coders import coders_of
from contentcast.matching.index.matching.kernel_call import addresses, struct_addresses
from contentcast.matching.index.values.entries import Attributes

Ints = npt.NDArray[np.int64]


class Views(NamedTuple):
    """`header`, as `kernel_call` describes it, stands at `header_at`; `coders` are described in their module; the columns are
    those of codes, of keys and of text answers.
    """

    filing: Filing
    header: Ints
    header_at: int
    coders: Ints
    code_column: dict[str, int]
    key_column: dict[str, int]
    text_column: dict[str, int]
    alive: tuple[Any, ...]


def views_of(filing: Filing) -> Views:
    """The index as it is now."""
    attributes, store = filing.attributes, filing.store
    code_column, key_column = _columns(store.groups)
    text_column = {name: at for at, name in enumerate(attributes.texts)}
    groups = group_arrays(store.groups, code_column, key_column, text_column)
    cells = store.cells(*_sets(attributes))
    bits = store.bitmaps.view(attributes.dictionaries)
    codings = [filing.order_codes[name] for name in code_column]
    tables = [
        array
        for name, coding in zip(code_column, codings, strict=True)
        for array in (coding.marks(filing.plan.cuts(name)), coding.heads()[0])
    ]
    rows = store.cell[: store.cell_count]
    kinds = attributes.space.kinds
    header = [
        int(rows[:, layout.COUNT].max(initial=0)),
        int(rows[:, layout.OUTPUT].max(initial=1)),
        filing.plan.words,
        len(code_column),
        len(key_column),
        *(int(kinds[name].name == "float") for name in (*code_column, *key_column)),
        *(coding.heads()[1] for coding in codings),
        *(number for struct in (groups, cells, bits) for number in struct_addresses(struct)),
        *addresses(tables),
    ]
    alive = (*groups, *cells, *bits, *tables)
    coders, made = coders_of(filing, code_column, key_column), np.array(header, np.int64)
    at = made.__array_interface__["data"][0]
    return Views(filing, made, at, coders, code_column, key_column, text_column, alive)


def _columns(groups: list[Group]) -> tuple[dict[str, int], dict[str, int]]:
    """The columns of order codes, for ranges and grids, and of keys, for sets."""
    tests = [test for group in groups for test in group.tests]
    coded = {name for kind, name in tests if kind in ("range", "low", "high")}
    coded |= {group.gate.attribute for group in groups if group.gate.kind == "cells"}
    keyed = {name for kind, name in tests if kind == "set"}
    return {name: at for at, name in enumerate(sorted(coded))}, {name: at for at, name in enumerate(sorted(keyed))}


def _sets(attributes: Attributes) -> tuple[Ints, Ints]:
    """Where the pairs of each set of ranges begin, and the pairs."""
    starts = np.zeros(len(attributes.sets) + 1, np.int64)
    np.cumsum([len(each) // 2 for each in attributes.sets], out=starts[1:])
    return starts, np.array([key for each in attributes.sets for key in each], np.int64)
