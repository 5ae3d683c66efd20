"""An index as the kernel sees it: its arrays, their addresses, and which column of an encoded batch belongs to which attribute.

After a change new views are made from those before: a change adds a few entries, and nearly everything else stays where it is.
Rule: views are good until the index changes; they keep the arrays alive whose addresses they hold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.cells.groups import Group, group_arrays, with_tables
from contentcast.matching.index.machine import layout
from contentcast.matching.index.matching.coders import Coders, Columns, coders_of
from contentcast.matching.index.matching.kernel_call import CODERS, STRUCTS, address_numbers, struct_addresses
from contentcast.matching.index.values.entries import Attributes

Ints = npt.NDArray[np.int64]


class Views(NamedTuple):
    """`header`, as `kernel_call` describes it, stands at `header_at`; `coders` are described in their module."""

    filing: Filing
    header: Ints
    header_at: int
    coders: Coders
    columns: Columns
    groups: layout.Groups
    tables_end: int
    """The end of all tables of the groups when these views were made: it moves whenever one of them does."""
    sets: tuple[Ints, Ints]
    arrays: list[Any]
    """Those whose addresses stand in the header."""


def views_of(filing: Filing, before: Views | None = None) -> Views:
    """The index as it is now; `before`: views of it as it was, from which what has not changed is taken."""
    attributes, store = filing.attributes, filing.store
    known = before if before is not None and before.filing is filing else None
    columns, groups = _columns_and_groups(filing, known)
    # Sets, as groups, are only ever added.
    sets = known.sets if known is not None and len(known.sets[0]) == len(attributes.sets) + 1 else _sets(attributes)
    coders = coders_of(filing, columns, known.coders if known is not None else None)
    structs = groups, store.cells(*sets), store.bitmaps.view(attributes.dictionaries)
    rows = store.cell[: store.cell_count]
    largest, most = int(rows[:, layout.COUNT].max(initial=0)), int(rows[:, layout.OUTPUT].max(initial=1))
    numbers = [largest, most, filing.plan.words, len(columns.codes), len(columns.keys), 0, len(coders.rows)]
    arrays = [array for struct in structs for array in struct]
    if known is None:
        header = np.array([*numbers, *(number for struct in structs for number in struct_addresses(struct))], np.int64)
    else:
        header = known.header.copy()
        header[:STRUCTS] = numbers
        for at, (array, before_it) in enumerate(zip(arrays, known.arrays, strict=True)):
            if array is not before_it:
                header[STRUCTS + 3 * at : STRUCTS + 3 * at + 3] = address_numbers(array)
    header[CODERS] = coders.rows.__array_interface__["data"][0]
    at = header.__array_interface__["data"][0]
    return Views(filing, header, at, coders, columns, groups, store.table_end, sets, arrays)


def _columns_and_groups(filing: Filing, known: Views | None) -> tuple[Columns, layout.Groups]:
    """Groups are only ever added, so as many as before are the same."""
    groups, texts = filing.store.groups, filing.attributes.texts
    if known is None or len(known.groups.gate) != len(groups) or len(known.columns.texts) != len(texts):
        codes, keys = _columns(groups)
        columns = Columns(codes, keys, {name: at for at, name in enumerate(texts)})
        return columns, group_arrays(groups, *columns)
    if known.tables_end != filing.store.table_end:
        return known.columns, with_tables(known.groups, groups)
    return known.columns, known.groups


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
