"""Lists among the text tests: a list leads to its constraints by its elements, each looked up as a text of its own.

    array_contains(tags, 'new')         exactly  e new        holds for what is found
    NOT array_contains(tags, 'new')     exactly  e new, n     fails for what is found (n: a null element, so it is unknown)
    exists(tags, t -> t LIKE 'a%')      begins   e a          holds for what is found
    size(tags) > 2                      exactly  l            every list leads to it, and it is tried

A list of k elements costs k look-ups, whatever the number of constraints, and leads to each of them once.
Rule: as in `text_tests`, a constraint is filed under something that every list which satisfies it (or fails it) has.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.values.text_pieces import EXACT, PREFIX, Pieces
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.list_tests import Some
from contentcast.model.values.keys import key_of
from contentcast.model.values.kinds import Kind, Value
from contentcast.model.values.list_bytes import elements_of
from contentcast.model.values.ranges import prefix_of

Ints = npt.NDArray[np.int64]
Filed = list[tuple[int, bytes]]

_LIST, _NULL, _ELEMENT = b"l", b"n", b"e"
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


def find_lists(pieces: Pieces, element: Kind, values: list[bytes], numbers: int) -> tuple[Ints, Ints]:
    """The numbers that each list leads to, once each: places of lists, numbers."""
    texts: list[bytes] = []
    parents: list[int] = []
    for place, value in enumerate(values):
        inside = {_LIST, *(_NULL if each is None else _text(element, each) for each in elements_of(element, value))}
        texts += inside
        parents += [place] * len(inside)
    at, those = pieces.find(texts, numbers)
    pairs = np.unique(np.array(parents, np.int64)[at] << 32 | those)
    return pairs >> 32, pairs & 0xFFFFFFFF
