"""Lists among the text tests: a list leads to its constraints by its elements, each looked up as a text of its own.

    array_contains(tags, 'new')         exactly  e new        holds for what is found
    NOT array_contains(tags, 'new')     exactly  e new, n     fails for what is found (n: a null element, so it is unknown)
    exists(tags, t -> t LIKE 'a%')      begins   e a          holds for what is found
    size(tags) > 2                      exactly  l            every list leads to it, and it is tried

A list of k elements costs k look-ups, whatever the number of constraints, and leads to each of them once.
Rule: as in `text_tests`, a constraint is filed under something that every list which satisfies it (or fails it) has.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc"

from __future__ import annotations

import struct
from typing import Any, Final

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.values.hash_tables import frozen
from contentcast.matching.index.values.text_pieces import EXACT, PADDING, PREFIX, Pieces
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.list_tests import Some
from contentcast.model.values.keys import key_of
from contentcast.model.values.kinds import Kind, Value
from contentcast.model.values.list_bytes import NO_TEXT
from contentcast.model.values.ranges import prefix_of

Ints = npt.NDArray[np.int64]
Filed = list[tuple[int, bytes]]

_LIST, _NULL, _ELEMENT = b"l", b"n", b"e"
_NULL_SIGN, _ELEMENT_SIGN = ord(_NULL), ord(_ELEMENT)
_TEXTS, _KEYS, _FLOATS = range(3)
_SORTS: Final = {"string": _TEXTS, "float": _FLOATS}
_EVERY: Final[Filed] = [(EXACT, _LIST)]
_MOST: Final = 64
"""Texts of one element constraint; one that has more is tried on every list."""


def list_filing(constraint: Constraint) -> tuple[bool, Filed, bool]:
    """Whether it is filed by what fails it, where, and whether that says all there is to it."""
    if not constraint.ranges:
        return False, _EVERY, False
    if constraint.like:
        wanted = [each for each in constraint.like if isinstance(each, Some)]
        places = [texts for each in wanted if (texts := _texts(each.constraint)) is not None]
        if not places:
            return False, _EVERY, False
        return False, min(places, key=len), len(constraint.like) == 1 and not constraint.unlike
    unwanted = [_texts(each.constraint) for each in constraint.unlike if isinstance(each, Some)]
    if None in unwanted:
        return True, _EVERY, False
    return True, list(dict.fromkeys(place for each in unwanted for place in each or ())), True


def _texts(constraint: Constraint) -> Filed | None:
    """The texts of which an element that the constraint accepts has one, and no other element; None if there are none."""
    ranges, kind = constraint.ranges, constraint.ranges.kind
    if not constraint.only_ranges or len(ranges.cuts) > 2 * _MOST:
        return None
    found: Filed = [(EXACT, _NULL)] if constraint.absent else []
    for low, high in ranges.pairs():
        prefix = prefix_of(low, high)
        if kind.successor(low) == high:
            found.append((EXACT, _text(kind, low)))
        elif prefix is not None:
            found.append((PREFIX, _text(kind, prefix)))
        else:
            return None
    return found


def _text(kind: Kind, value: Value) -> bytes:
    return _ELEMENT + (value.encode() if isinstance(value, str) else struct.pack("<q", key_of(kind, value)))


def find_lists(pieces: Pieces, element: Kind, text: Any, starts: Ints, numbers: int) -> tuple[Ints, Ints]:
    """The numbers that each list leads to, once each: places of lists, numbers. List k is text[starts[k] : starts[k + 1]]."""
    sort = _SORTS.get(element.name, _KEYS)
    room = int(starts[-1] - starts[0])
    inside, begins, parents = (
        np.zeros(room + PADDING, np.uint8),
        np.zeros(room // 4 + 1, np.int64),
        np.zeros(room // 4, np.int64),
    )
    count = _element_texts(frozen(text), frozen(starts), sort, inside, begins, parents)
    at, those = pieces.find_in(inside, begins[: count + 1], numbers)
    _, every = pieces.find([_LIST], numbers)
    found = parents[at] << 32 | those
    if len(every):
        found = np.concatenate([found, (np.arange(len(starts) - 1)[:, None] << 32 | every).reshape(-1)])
    pairs = np.unique(found)
    return pairs >> 32, pairs & 0xFFFFFFFF


@nb.njit(nogil=True, cache=True)
def _element_texts(raw, starts, sort, text, begins, parents):
    """The texts of the elements of all lists, which are written as `list_bytes` says. Returns how many there are.

    Element k is text[begins[k] : begins[k + 1]], of the list parents[k]. In pure Python this was three quarters of the time.
    """
    count, to = 0, np.int64(0)
    for place in range(len(starts) - 1):
        at, end = starts[place] + 4, starts[place + 1]
        while at < end:
            parents[count] = place
            size = np.int64(8)
            if sort == _TEXTS:
                size = (
                    np.int64(raw[at]) | np.int64(raw[at + 1]) << 8 | np.int64(raw[at + 2]) << 16 | np.int64(raw[at + 3]) << 24
                )
                there = size != NO_TEXT
                size = size if there else np.int64(0)
                at += 4
            else:
                there = raw[at] != 0
                at += 1
            text[to] = _ELEMENT_SIGN if there else _NULL_SIGN
            to += 1
            if there:
                # A float below zero has the key of its bits with all but the sign turned round (see `keys`).
                turned = np.uint8(255) if sort == _FLOATS and raw[at + 7] >= 128 else np.uint8(0)
                for k in range(size):
                    text[to + k] = raw[at + k] ^ (turned if k < 7 else turned & np.uint8(127))
                to += size
            at += size
            count += 1
            begins[count] = to
    return count
