"""Groups: a gate with the tests that are left behind it; and all of them as the arrays that the kernels read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine import layout
from contentcast.matching.index.machine.layout import GroupColumns, Groups
from contentcast.matching.index.planning.gates import Gate, Test

Ints = npt.NDArray[np.int64]

WIDTH: Final = {"word": 2, "range": 2, "low": 1, "high": 1, "set": 1, "text": 1}
_TEST: Final = {
    "word": layout.T_WORD,
    "low": layout.T_LOW,
    "high": layout.T_HIGH,
    "range": layout.T_RANGE,
    "set": layout.T_SET,
    "text": layout.T_TEXT,
}
_GATE: Final = {"open": layout.GATE_OPEN, "equal": layout.GATE_EQUAL, "cells": layout.GATE_CELLS, "text": layout.GATE_TEXT}


@dataclass(slots=True)
class Group:
    """`level`: of a cells gate, 0 for the finest."""

    gate: Gate
    level: int
    tests: tuple[Test, ...]
    table: int = 0
    size: int = 0
    keys: int = 0

    @property
    def width(self) -> int:
        return 1 + sum(WIDTH[kind] for kind, _ in self.tests)

    def columns(self) -> Iterator[tuple[Test, int]]:
        """Each test with the column where its numbers begin."""
        at = 1
        for test in self.tests:
            yield test, at
            at += WIDTH[test[0]]


def ordered(signature: frozenset[Test]) -> tuple[Test, ...]:
    """The cheap and telling tests first."""
    rank = {"word": 0, "range": 1, "low": 2, "high": 3, "set": 4, "text": 5}
    return tuple(sorted(signature, key=lambda test: (rank[test[0]], str(test[1]))))


def group_columns(groups: list[Group], numbers: Mapping[str, int]) -> GroupColumns:
    """The groups as the kernels that fill them read them; `numbers`: of the attributes of the space."""
    least, greatest = layout.ABSENT_CODE, layout.GREATEST_CODE
    blanks = {"word": [0, 0], "range": [least, greatest], "low": [least], "high": [greatest], "set": [-1], "text": [-1]}
    column = np.full((len(groups), 2 * len(numbers)), -1, np.int64)
    form = np.zeros_like(column)
    halves: list[list[int]] = [[] for _ in groups]
    blank: list[list[int]] = [[] for _ in groups]
    field_codes: list[list[int]] = [[] for _ in groups]
    for number, group in enumerate(groups):
        blank[number].append(0)
        for (kind, arg), at in group.columns():
            blank[number] += blanks[kind]
            if kind == "word":
                halves[number].append(arg)
            else:
                field_code = 2 * numbers[arg] + (kind in ("set", "text"))
                column[number, field_code], form[number, field_code] = at, _TEST[kind]
                field_codes[number].append(field_code)
    gates = [group.gate for group in groups]
    return GroupColumns(
        np.array([group.width for group in groups], np.int64),
        np.array([_GATE[gate.kind] for gate in gates], np.int64),
        np.array([gate.word if gate.kind == "equal" else -1 for gate in gates], np.int64),
        np.array([gate.mask for gate in gates], np.int64),
        np.array([2 * numbers.get(gate.attribute, 0) + (gate.kind == "text") for gate in gates], np.int64),
        np.array([group.level for group in groups], np.int64),
        *_flat(halves),
        *_flat(blank, np.int32),
        *_flat(field_codes),
        column,
        form,
    )


def _flat(lists: list[list[int]], dtype: Any = np.int64) -> tuple[Ints, Any]:
    """Where each begins and the last ends, and their numbers, one after the other."""
    return np.cumsum([0, *map(len, lists)]), np.array([each for mine in lists for each in mine], dtype)


def with_tables(arrays: Groups, groups: list[Group]) -> Groups:
    """The arrays of the same groups, whose tables have moved."""
    tables = np.array([(group.table, group.size, _shift(group.size)) for group in groups], np.int64).reshape(-1, 3)
    table, size, shift = np.ascontiguousarray(tables.T)
    return arrays._replace(table=table, size=size, shift=shift)


def _shift(size: int) -> int:
    return 64 - (size.bit_length() - 1) if size else 63


def group_arrays(
    groups: list[Group], code_column: dict[str, int], key_column: dict[str, int], text_column: dict[str, int]
) -> Groups:
    """The groups as arrays; the columns are those of an encoded batch."""
    kinds, args, masks, tables, sizes, shifts, shapes = ([] for _ in range(7))
    columns_for = {"set": key_column, "text": text_column}
    starts, test_kinds, test_args, test_columns = [0], [], [], []
    for group in groups:
        gate = group.gate
        kinds.append(_GATE[gate.kind])
        args.append(
            {
                "equal": gate.word,
                "cells": code_column.get(gate.attribute, 0),
                "text": text_column.get(gate.attribute, 0),
            }.get(gate.kind, 0)
        )
        masks.append(gate.mask if gate.kind == "equal" else group.level)
        tables.append(group.table)
        sizes.append(group.size)
        shifts.append(_shift(group.size))
        shapes.append(layout.SHAPES.get(tuple(kind for kind, _ in group.tests), layout.OTHER))
        for (kind, arg), column in group.columns():
            test_kinds.append(_TEST[kind])
            test_args.append(arg if kind == "word" else columns_for.get(kind, code_column)[arg])
            test_columns.append(column)
        starts.append(len(test_kinds))
    return Groups(
        *(np.array(each, np.int64) for each in (kinds, args, masks, tables, sizes, shifts, shapes, starts)),
        *(np.array(each, np.int64) for each in (test_kinds, test_args, test_columns)),
    )
