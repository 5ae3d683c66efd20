"""The route of an entry: behind which gate it goes, into which cells, and which tests are left to make there.

    entry                                           gate      level   cells     signature (tests that are left)
    symbol = 'IBM' AND price < 120                  symbol    0       IBM       high price
    price BETWEEN 8.30 AND 8.70 AND side = 'buy'    price     2       41 to 43  word 0, range price

A route is a row of numbers, and a signature has one bit for each test that an entry may have: first two for each word (its
halves), then four for each attribute (low, high, range, and set or text).
"""

# Numba infers the kernels' types.
# mypy: allow-untyped-defs, allow-untyped-calls
# mypy: disable-error-code="no-untyped-def,untyped-decorator,misc,operator,arg-type,no-any-return"

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine.hashing import mixed_with
from contentcast.matching.index.machine.layout import (
    FIELD,
    FIRST_CELL,
    FORM,
    GATE_CELLS,
    GATE_EQUAL,
    GATE_LEVEL,
    GATE_TEXT,
    LAST_CELL,
    LAST_VALUE,
    MIXED,
    ROUTE_ROW,
    T_SET,
    VALUE,
)
from contentcast.matching.index.planning.gates import BITMAPS, Gate, Test
from contentcast.matching.index.planning.grids import Grid
from contentcast.matching.index.values.entries import Attributes
from contentcast.matching.index.values.entry_rows import EntryRows
from contentcast.model.space import Space
from contentcast.model.values.keys import KEYED

Ints = npt.NDArray[np.int64]

MOST_LEVELS: Final = 64
"""Levels of a grid: a route holds gate * MOST_LEVELS + level as one number."""
BITS_PER_ATTRIBUTE: Final = 4
"""Bits of a signature for each attribute: low, high, range, and set or text."""

_KINDS: Final = ("low", "high", "range")
_NONE: Final = np.zeros(0, np.int64)
_NO_GRID: Final = Grid(_NONE, _NONE, 1)
_UNCHOSEN: Final = -2


class Gates(NamedTuple):
    """The gates of a plan as the kernel reads them."""

    kind: np.ndarray
    word: np.ndarray
    mask: np.ndarray
    bits: np.ndarray  # how telling: of an equal gate the bits under its mask and one more, else 1
    field_code: np.ndarray  # of the tests that lead through it
    cut_start: np.ndarray  # where its grid begins; one more than gates
    cuts: np.ndarray
    level_start: np.ndarray  # where the levels of its grid begin that are in use
    levels: np.ndarray
    most: np.ndarray  # cells of its grid that a range may lie in


def gates_of(gates: list[Gate], attributes: Attributes, grids: Mapping[str, Grid]) -> Gates:
    kinds = {"open": -1, "equal": GATE_EQUAL, "cells": GATE_CELLS, "text": GATE_TEXT}
    grid_of = [grids[gate.attribute] if gate.kind == "cells" else _NO_GRID for gate in gates]
    cuts, used = [each.cuts for each in grid_of], [each.levels for each in grid_of]
    return Gates(
        np.array([kinds[gate.kind] for gate in gates], np.int64),
        np.array([gate.word for gate in gates], np.int64),
        np.array([gate.mask for gate in gates], np.int64),
        np.array([gate.mask.bit_count() + 1 if gate.kind == "equal" else 1 for gate in gates], np.int64),
        np.array([2 * attributes.numbers.get(gate.attribute, 0) + (gate.kind == "text") for gate in gates], np.int64),
        np.cumsum([0, *map(len, cuts)]),
        np.concatenate([_NONE, *cuts]),
        np.cumsum([0, *map(len, used)]),
        np.concatenate([_NONE, *used]),
        np.array([each.most for each in grid_of], np.int64),
    )


def route_entries(
    entries: EntryRows, gates: Gates, attributes: Attributes, chosen: Any = None, covered: Ints = _NONE
) -> tuple[Ints, Ints]:
    """Where each entry goes, [entry, GATE_LEVEL ...], and its signature, [entry, 64 bits each].

    By the gates `chosen`, or each by the most telling one: the equal gate with most bits, else a grid or a text. If the bitmaps
    compare anything, `covered` has the bits of words that they do: what asks for nothing else goes there (GATE_LEVEL < 0).
    """
    count = entries.words.shape[1]
    routes = np.empty((count, ROUTE_ROW), np.int64)
    bits = 2 * len(entries.words) + BITS_PER_ATTRIBUTE * len(attributes.numbers)
    signatures = np.zeros((count, -(-bits // 64)), np.int64)
    if chosen is None:
        chosen = np.full(count, _UNCHOSEN, np.int32)
    _place(entries, gates, chosen, covered, routes, signatures)
    return routes, signatures


def tests_of(signature: Ints, words: int, space: Space) -> frozenset[Test]:
    """The tests whose bits are set."""
    number = int.from_bytes(np.ascontiguousarray(signature).tobytes(), sys.byteorder)
    found: list[Test] = []
    while number:
        at = (number & -number).bit_length() - 1
        number &= number - 1
        if at < 2 * words:
            found.append(("word", at))
        else:
            attribute, sort = divmod(at - 2 * words, BITS_PER_ATTRIBUTE)
            name = space.names[attribute]
            found.append(((*_KINDS, "set" if space[name].kind in KEYED else "text")[sort], name))
    return frozenset(found)


@nb.njit(nogil=True, cache=True)
def _rank(cuts, begin, end, key):
    """How many of the cuts from `begin` to `end` are not above the key."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if cuts[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low - begin


@nb.njit(nogil=True, cache=True)
def _leading(entries, gates, gate, begin, end):
    """The ask that leads an entry through a cells or text gate, or -1."""
    for at in range(begin, end):
        holds = gates.kind[gate] == GATE_CELLS or entries.tests[at, VALUE] & 3 == 0  # only what holds can be found by it
        if entries.tests[at, FIELD] == gates.field_code[gate] and holds:
            return at
    return -1


@nb.njit(nogil=True, cache=True)
def _best_gate(entries, gates, covered, i, begin, end):
    if len(covered) > 0 and begin == end:
        outside, some = np.int64(0), np.int64(0)
        for word in range(len(entries.masks)):
            outside |= entries.masks[word, i] & ~covered[word]
            some |= entries.masks[word, i]
        if outside == 0 and some != 0:
            return BITMAPS
    best, found = 0, 0
    for gate in range(len(gates.kind)):
        if gates.bits[gate] <= best or gates.kind[gate] < 0:
            continue
        if gates.kind[gate] == GATE_EQUAL:
            fits = entries.masks[gates.word[gate], i] & gates.mask[gate] == gates.mask[gate]
        else:
            fits = _leading(entries, gates, gate, begin, end) >= 0
        if fits:
            best, found = gates.bits[gate], gate
    return found


@nb.njit(nogil=True, cache=True)
def _place(entries, gates, chosen, covered, routes, signatures):
    words = len(entries.words)
    for i in range(len(routes)):
        begin, end = entries.start[i], entries.start[i + 1]
        gate = np.int64(chosen[i])
        if gate == _UNCHOSEN:
            gate = _best_gate(entries, gates, covered, i, begin, end)
        mixed = np.int64(0)
        for word in range(words):
            mixed = mixed_with(mixed_with(mixed, entries.words[word, i]), entries.masks[word, i])
        for at in range(begin, end):
            mixed = mixed_with(
                mixed_with(mixed, entries.tests[at, VALUE]), entries.tests[at, LAST_VALUE] ^ entries.tests[at, FIELD]
            )
        routes[i, MIXED] = mixed
        routes[i, FIRST_CELL] = routes[i, LAST_CELL] = 0
        if gate == BITMAPS:
            routes[i, GATE_LEVEL] = -1
            continue
        kind, level, through = gates.kind[gate], np.int64(0), np.int64(-1)
        if kind == GATE_EQUAL:
            routes[i, FIRST_CELL] = routes[i, LAST_CELL] = entries.words[gates.word[gate], i] & gates.mask[gate]
        elif kind == GATE_TEXT:
            through = _leading(entries, gates, gate, begin, end)
            routes[i, FIRST_CELL] = routes[i, LAST_CELL] = entries.tests[through, VALUE] >> 2
        elif kind == GATE_CELLS:
            at = _leading(entries, gates, gate, begin, end)
            first = _rank(gates.cuts, gates.cut_start[gate], gates.cut_start[gate + 1], entries.tests[at, VALUE])
            last = _rank(gates.cuts, gates.cut_start[gate], gates.cut_start[gate + 1], entries.tests[at, LAST_VALUE])
            while (last >> level) - (first >> level) >= gates.most[gate]:
                level += 1
            used, used_end = gates.level_start[gate], gates.level_start[gate + 1]
            while used < used_end and gates.levels[used] < level:
                used += 1
            # The finest in use that is not finer than its own; above them all every other one, so that they do not become many.
            level = gates.levels[used] if used < used_end else level + (level & 1)
            routes[i, FIRST_CELL], routes[i, LAST_CELL] = first >> level, last >> level
        routes[i, GATE_LEVEL] = gate * MOST_LEVELS + level
        for word in range(words):
            left = entries.masks[word, i]
            if kind == GATE_EQUAL and gates.word[gate] == word:
                left &= ~gates.mask[gate]
            for half in range(2):
                if (left >> (32 * half)) & 0xFFFFFFFF != 0:
                    bit = 2 * word + half
                    signatures[i, bit >> 6] |= np.int64(1) << (bit & 63)
        for at in range(begin, end):
            if at != through:
                bit = 2 * words + BITS_PER_ATTRIBUTE * (entries.tests[at, FIELD] >> 1) + min(entries.tests[at, FORM], T_SET) - 1
                signatures[i, bit >> 6] |= np.int64(1) << (bit & 63)
