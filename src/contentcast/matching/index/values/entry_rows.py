"""Entries row by row: the form in which they are filed into cells.

The equal constraints of an entry are words and masks, as events have them. All other constraints are its tests, which stand
entry after entry:

    start      0     1           3         entry 0 has one test, entry 1 has two
    tests      price  | price  volume      field code, form, value and last value, and order codes if it is a range
"""

# Numba infers the kernels' types.
# mypy: allow-untyped-defs, allow-untyped-calls
# mypy: disable-error-code="no-untyped-def,untyped-decorator,misc,operator,arg-type,no-any-return"

from __future__ import annotations

from typing import Final, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine.layout import (
    FIELD,
    FIRST_CODE,
    FORM,
    GREATEST_CODE,
    LAST_CODE,
    LAST_VALUE,
    LEAST_CODE,
    T_HIGH,
    T_LOW,
    T_RANGE,
    T_SET,
    T_TEXT,
    TEST_ROW,
    VALUE,
)
from contentcast.matching.index.values.dictionaries import ABSENT_KEY
from contentcast.matching.index.values.entries import Attributes, Entries
from contentcast.model.values.keys import key_ends

Ints = npt.NDArray[np.int64]

_FORMS: Final = {"set": T_SET, "text": T_TEXT}


class EntryRows(NamedTuple):
    """So many entries by columns; `start` has one more."""

    words: np.ndarray  # [word, entry]
    masks: np.ndarray
    start: np.ndarray
    tests: np.ndarray  # [test, FIELD ... LAST_CODE]


def entry_rows_of(entries: Entries, attributes: Attributes, words: int) -> EntryRows:
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
    tests = np.empty((int(start[-1]), TEST_ROW), np.int64)
    for form, name, column in others:
        field_code = 2 * attributes.numbers[name] + (form != "range")
        least, greatest = open_ends(attributes, name) if form == "range" else (0, 0)
        given = field_code, _FORMS.get(form, 0), least, greatest
        _put_tests(column.entry, column.value, column.last, given, start, tests)
    return EntryRows(planes[0], planes[1], start[:-1], tests)


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
def _put_tests(entry, value, last, given, start, tests):
    """One column's, each to the next place of its entry: start[entry + 1], which in the end is where the next entry begins."""
    field_code, form, least, greatest = given
    for i in range(len(entry)):
        at = start[entry[i] + 1]
        start[entry[i] + 1] = at + 1
        tests[at, FIELD], tests[at, FORM], tests[at, VALUE], tests[at, LAST_VALUE] = field_code, form, value[i], last[i]
        tests[at, FIRST_CODE], tests[at, LAST_CODE] = LEAST_CODE, GREATEST_CODE
        if form == 0:
            above = last[i] < greatest
            tests[at, FORM] = (T_RANGE if value[i] > least else T_HIGH) if above else T_LOW


@nb.njit(nogil=True, cache=True)
def find_codes(tests, field_code, points, codes):
    """Give the ranges of an attribute the order codes of their ends; returns those ends that are no points."""
    missing = np.empty(2 * len(tests), np.int64)
    count = 0
    for i in range(len(tests)):
        if tests[i, FIELD] != field_code:
            continue
        for end in range(2):
            if tests[i, FORM] == (T_HIGH, T_LOW)[end]:
                continue  # it is open there
            key = tests[i, VALUE + end]
            at, size = np.uint64(0), np.uint64(len(points))
            while size > np.uint64(1):
                half = size >> np.uint64(1)
                at += half if points[at + half] <= key else np.uint64(0)
                size -= half
            if points[at] == key:
                tests[i, FIRST_CODE + end] = codes[at]
            else:
                missing[count] = key
                count += 1
    return missing[:count]
