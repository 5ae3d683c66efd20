"""What entries ask for, entry by entry, and where it sends them: the form in which kernels file them.

Equal constraints are words and masks as events have them. All other constraints, the asks, stand entry after entry:

    start      0     1           3         entry 0 asks one thing, entry 1 two
    asks       price  | price  volume      attribute and sort, form, value and last, and order codes if it is a range

Where an entry goes is its gate and level, the keys of its first and last cell there, and which tests are left behind the gate:
its signature, one bit per test.
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

from contentcast.matching.index.codes import ABSENT_KEY
from contentcast.matching.index.entries import Attributes, Entries
from contentcast.matching.index.grids import Grid
from contentcast.matching.index.layout import (
    ASK_ROW,
    CELLS,
    EQUAL,
    FIRST_CELL,
    FIRST_CODE,
    FORM,
    GATE_LEVEL,
    GREATEST_CODE,
    LAST,
    LAST_CELL,
    LAST_CODE,
    LEAST_CODE,
    MIXED,
    SUBJECT,
    T_HIGH,
    T_LOW,
    T_RANGE,
    T_SET,
    T_TEXT,
    TEXT,
    VALUE,
    WHERE_ROW,
)
from contentcast.matching.index.plan import BITMAPS, Gate, Test
from contentcast.matching.index.small_steps import mixed_with
from contentcast.model.space import Space
from contentcast.model.values.keys import KEYED, key_ends

Ints = npt.NDArray[np.int64]

MOST_LEVELS: Final = 64
BITS_EACH: Final = 4
"""Of a signature, for each attribute: low, high, range, and set or text. Those of the halves of words come before."""

_FORMS: Final = {"set": T_SET, "text": T_TEXT}
_KINDS: Final = ("low", "high", "range")
_NONE: Final = np.zeros(0, np.int64)
_NO_GRID: Final = Grid(_NONE, _NONE, 1)


class Asks(NamedTuple):
    """So many entries by columns; `start` has one more."""

    words: np.ndarray  # [word, entry]
    masks: np.ndarray
    start: np.ndarray
    asks: np.ndarray  # [ask, SUBJECT ... LAST_CODE]


def asks_of(entries: Entries, attributes: Attributes, words: int) -> Asks:
    """The entries so; without order codes (`find_codes`)."""
    count = entries.count
    planes = np.zeros((2, words, count), np.int64)
    others = []
    start = np.zeros(count + 2, np.int64)
    for (form, name), column in entries.columns.items():
        if form == "equal":
            dictionary = attributes.dictionaries[name]
            _put_codes(column.entry, column.value, dictionary.shift, dictionary.bits, dictionary.word, planes)
        else:
            others.append((form, name, column))
            _count(column.entry, start)
    _add_up(start)
    asks = np.empty((int(start[-1]), ASK_ROW), np.int64)
    for form, name, column in others:
        subject = 2 * attributes.numbers[name] + (form != "range")
        least, greatest = open_ends(attributes, name) if form == "range" else (0, 0)
        given = subject, _FORMS.get(form, 0), least, greatest
        _put_asks(column.entry, column.value, column.last, given, start, asks)
    return Asks(planes[0], planes[1], start[:-1], asks)


def open_ends(attributes: Attributes, name: str) -> tuple[int, int]:
    """With which keys a range begins and ends that is open on that side."""
    least, greatest = key_ends(attributes.space.kinds[name])
    return max(least, ABSENT_KEY + 1), greatest


@nb.njit(nogil=True, cache=True)
def _put_codes(entry, value, shift, bits, word, planes):
    mask = ((np.int64(1) << bits) - 1) << shift
    for i in range(len(entry)):
        planes[0, word, entry[i]] |= value[i] << shift
        planes[1, word, entry[i]] |= mask


@nb.njit(nogil=True, cache=True)
def _count(entry, start):
    for i in range(len(entry)):
        start[entry[i] + 2] += 1


@nb.njit(nogil=True, cache=True)
def _add_up(start):
    for i in range(1, len(start)):
        start[i] += start[i - 1]


@nb.njit(nogil=True, cache=True)
def _put_asks(entry, value, last, given, start, asks):
    """One column's, each to the next place of its entry: start[entry + 1], which in the end is where the next entry begins."""
    subject, form, least, greatest = given
    for i in range(len(entry)):
        at = start[entry[i] + 1]
        start[entry[i] + 1] = at + 1
        asks[at, SUBJECT], asks[at, FORM], asks[at, VALUE], asks[at, LAST] = subject, form, value[i], last[i]
        asks[at, FIRST_CODE], asks[at, LAST_CODE] = LEAST_CODE, GREATEST_CODE
        if form == 0:
            above = last[i] < greatest
            asks[at, FORM] = (T_RANGE if value[i] > least else T_HIGH) if above else T_LOW


@nb.njit(nogil=True, cache=True)
def find_codes(asks, subject, points, codes):
    """Give the ranges of an attribute the order codes of their ends; returns those ends that are no points."""
    missing = np.empty(2 * len(asks), np.int64)
    count = 0
    for i in range(len(asks)):
        if asks[i, SUBJECT] != subject:
            continue
        for end in range(2):
            if asks[i, FORM] == (T_HIGH, T_LOW)[end]:
                continue  # it is open there
            key = asks[i, VALUE + end]
            at, size = np.uint64(0), np.uint64(len(points))
            while size > np.uint64(1):
                half = size >> np.uint64(1)
                at += half if points[at + half] <= key else np.uint64(0)
                size -= half
            if points[at] == key:
                asks[i, FIRST_CODE + end] = codes[at]
            else:
                missing[count] = key
                count += 1
    return missing[:count]


# --- where they go


class Gates(NamedTuple):
    """The gates of a plan as the kernel reads them."""

    kind: np.ndarray
    word: np.ndarray
    mask: np.ndarray
    bits: np.ndarray  # how telling: of an equal gate the bits under its mask and one more, else 1
    subject: np.ndarray  # of the asks that lead through it
    cut_start: np.ndarray  # where its grid begins; one more than gates
    cuts: np.ndarray
    level_start: np.ndarray  # where the levels of its grid begin that are in use
    levels: np.ndarray
    most: np.ndarray  # cells of its grid that a range may lie in


def gates_of(gates: list[Gate], attributes: Attributes, grids: Mapping[str, Grid]) -> Gates:
    kinds = {"open": -1, "equal": EQUAL, "cells": CELLS, "text": TEXT}
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


def places_of(asks: Asks, gates: Gates, attributes: Attributes, chosen: Any = None, covered: Ints = _NONE) -> tuple[Ints, Ints]:
    """Where each entry goes, [entry, GATE_LEVEL ...], and its signature, [entry, 64 bits each].

    By the gates `chosen`, or each by the most telling one: the equal gate with most bits, else a grid or a text. If the bitmaps
    compare anything, `covered` has the bits of words that they do: what asks for nothing else goes there (GATE_LEVEL < 0).
    """
    count = asks.words.shape[1]
    where = np.empty((count, WHERE_ROW), np.int64)
    bits = 2 * len(asks.words) + BITS_EACH * len(attributes.numbers)
    signatures = np.zeros((count, -(-bits // 64)), np.int64)
    if chosen is None:
        chosen = np.full(count, _UNCHOSEN, np.int32)
    _place(asks, gates, chosen, covered, where, signatures)
    return where, signatures


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
            attribute, sort = divmod(at - 2 * words, BITS_EACH)
            name = space.names[attribute]
            found.append(((*_KINDS, "set" if space[name].kind in KEYED else "text")[sort], name))
    return frozenset(found)


_UNCHOSEN: Final = -2


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
def _leading(asks, gates, gate, begin, end):
    """The ask that leads an entry through a cells or text gate, or -1."""
    for at in range(begin, end):
        holds = gates.kind[gate] == CELLS or asks.asks[at, VALUE] & 3 == 0  # only what holds can be found by it
        if asks.asks[at, SUBJECT] == gates.subject[gate] and holds:
            return at
    return -1


@nb.njit(nogil=True, cache=True)
def _best_gate(asks, gates, covered, i, begin, end):
    if len(covered) > 0 and begin == end:
        outside, some = np.int64(0), np.int64(0)
        for word in range(len(asks.masks)):
            outside |= asks.masks[word, i] & ~covered[word]
            some |= asks.masks[word, i]
        if outside == 0 and some != 0:
            return BITMAPS
    best, found = 0, 0
    for gate in range(len(gates.kind)):
        if gates.bits[gate] <= best or gates.kind[gate] < 0:
            continue
        if gates.kind[gate] == EQUAL:
            fits = asks.masks[gates.word[gate], i] & gates.mask[gate] == gates.mask[gate]
        else:
            fits = _leading(asks, gates, gate, begin, end) >= 0
        if fits:
            best, found = gates.bits[gate], gate
    return found


@nb.njit(nogil=True, cache=True)
def _place(asks, gates, chosen, covered, where, signatures):
    words = len(asks.words)
    for i in range(len(where)):
        begin, end = asks.start[i], asks.start[i + 1]
        gate = np.int64(chosen[i])
        if gate == _UNCHOSEN:
            gate = _best_gate(asks, gates, covered, i, begin, end)
        mixed = np.int64(0)
        for word in range(words):
            mixed = mixed_with(mixed_with(mixed, asks.words[word, i]), asks.masks[word, i])
        for at in range(begin, end):
            mixed = mixed_with(mixed_with(mixed, asks.asks[at, VALUE]), asks.asks[at, LAST] ^ asks.asks[at, SUBJECT])
        where[i, MIXED] = mixed
        where[i, FIRST_CELL] = where[i, LAST_CELL] = 0
        if gate == BITMAPS:
            where[i, GATE_LEVEL] = -1
            continue
        kind, level, through = gates.kind[gate], np.int64(0), np.int64(-1)
        if kind == EQUAL:
            where[i, FIRST_CELL] = where[i, LAST_CELL] = asks.words[gates.word[gate], i] & gates.mask[gate]
        elif kind == TEXT:
            through = _leading(asks, gates, gate, begin, end)
            where[i, FIRST_CELL] = where[i, LAST_CELL] = asks.asks[through, VALUE] >> 2
        elif kind == CELLS:
            at = _leading(asks, gates, gate, begin, end)
            first = _rank(gates.cuts, gates.cut_start[gate], gates.cut_start[gate + 1], asks.asks[at, VALUE])
            last = _rank(gates.cuts, gates.cut_start[gate], gates.cut_start[gate + 1], asks.asks[at, LAST])
            while (last >> level) - (first >> level) >= gates.most[gate]:
                level += 1
            used, used_end = gates.level_start[gate], gates.level_start[gate + 1]
            while used < used_end and gates.levels[used] < level:
                used += 1
            # The finest in use that is not finer than its own; above them all every other one, so that they do not become many.
            level = gates.levels[used] if used < used_end else level + (level & 1)
            where[i, FIRST_CELL], where[i, LAST_CELL] = first >> level, last >> level
        where[i, GATE_LEVEL] = gate * MOST_LEVELS + level
        for word in range(words):
            left = asks.masks[word, i]
            if kind == EQUAL and gates.word[gate] == word:
                left &= ~gates.mask[gate]
            for half in range(2):
                if (left >> (32 * half)) & 0xFFFFFFFF != 0:
                    bit = 2 * word + half
                    signatures[i, bit >> 6] |= np.int64(1) << (bit & 63)
        for at in range(begin, end):
            if at != through:
                bit = 2 * words + BITS_EACH * (asks.asks[at, SUBJECT] >> 1) + min(asks.asks[at, FORM], T_SET) - 1
                signatures[i, bit >> 6] |= np.int64(1) << (bit & 63)
