"""Entries read back: what a subscription asks for, from the cells that hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contentcast.matching.index.bitmaps import Bitmaps
from contentcast.matching.index.codes import ABSENT, ABSENT_KEY
from contentcast.matching.index.entries import Attributes
from contentcast.matching.index.scales import ABSENT_CODE, GREATEST_CODE, LEAST_CODE, Scale
from contentcast.matching.index.store import Store
from contentcast.model.constraint import Constraint
from contentcast.model.keys import cut_after, key_ends, value_of
from contentcast.model.kinds import Kind
from contentcast.model.predicate import Conjunction
from contentcast.model.ranges import Ranges

GREATEST_KEY: Final = 2**63 - 1


def read_slot(attributes: Attributes, bitmaps: Bitmaps, slot: int) -> Conjunction:
    """The conjunction that a slot of the bitmaps stands for."""
    found = {name: _equal(attributes, name, code) for name, code in bitmaps.codes(slot).items()}
    return Conjunction.of(attributes.space, found)


def read_entry(attributes: Attributes, scales: dict[str, Scale], store: Store, cell: int, at: int) -> Conjunction:
    """The conjunction that the entry at this place of a cell stands for."""
    group = store.groups[store.group_of[cell]]
    gate, key = group.gate, int(store.key_of[cell])
    found: dict[str, Constraint] = {}
    if gate.kind == "equal":
        found.update(_codes(attributes, gate.word, key, gate.mask))
    elif gate.kind == "text":
        found[gate.attribute] = _text(attributes, gate.attribute, key)
    for (kind, arg), column in group.columns():
        number, second = _number(store, cell, at, column), 0
        if kind in ("word", "range"):
            second = _number(store, cell, at, column + 1)
        if kind == "word":
            low = 32 * (arg % 2)
            found.update(_codes(attributes, arg // 2, number << low, second << low))
        elif kind == "text":
            if number >= 0:
                found[arg] = _text(attributes, arg, number >> 2)
        elif kind == "set":
            if number >= 0:
                found[arg] = _set(attributes.space.kinds[arg], attributes.sets[number])
        else:
            first, last = {"low": (number, GREATEST_CODE), "high": (ABSENT_CODE, number)}.get(kind, (number, second))
            if (first, last) != (ABSENT_CODE, GREATEST_CODE):
                low_key = ABSENT_KEY + 1 if first <= LEAST_CODE else scales[arg].key_of(first)
                last_key = GREATEST_KEY if last == GREATEST_CODE else scales[arg].key_of(last)
                found[arg] = _range(attributes.space.kinds[arg], low_key, last_key)
    return Conjunction.of(attributes.space, found)


def text_numbers(store: Store, cell: int, at: int) -> Iterator[tuple[str, int]]:
    """The text constraints that the entry uses."""
    group = store.groups[store.group_of[cell]]
    if group.gate.kind == "text":
        yield group.gate.attribute, int(store.key_of[cell])
    for (kind, name), column in group.columns():
        if kind == "text" and (tagged := _number(store, cell, at, column)) >= 0:
            yield name, tagged >> 2


def _number(store: Store, cell: int, at: int, column: int) -> int:
    return int(store.arena[store.base[cell] + column * store.room[cell] + at])


def _codes(attributes: Attributes, word: int, codes: int, mask: int) -> Iterator[tuple[str, Constraint]]:
    for name, dictionary in attributes.dictionaries.items():
        field = ((1 << dictionary.bits) - 1) << dictionary.shift
        if dictionary.word == word and mask & field:
            yield name, _equal(attributes, name, (codes & field) >> dictionary.shift)


def _equal(attributes: Attributes, name: str, code: int) -> Constraint:
    kind = attributes.space.kinds[name]
    if code == ABSENT:
        return Constraint.missing(kind)
    return Constraint(Ranges.points(kind, [attributes.dictionaries[name].value(code)]))


def _text(attributes: Attributes, name: str, number: int) -> Constraint:
    constraint = attributes.texts[name].constraints[number]
    assert constraint is not None
    return constraint


def _range(kind: Kind, first: int, last: int) -> Constraint:
    least, greatest = key_ends(kind)
    # -2^63 made room for absent: a range that begins right above begins at the least int.
    low = kind.least if first <= max(least, ABSENT_KEY + 1) else value_of(kind, first)
    return Constraint(Ranges(kind, (low, cut_after(kind, min(last, greatest)))))


def _set(kind: Kind, pairs: tuple[int, ...]) -> Constraint:
    parts = [(first, last) for first, last in zip(pairs[::2], pairs[1::2], strict=True)]
    absent = parts[0] == (ABSENT_KEY, ABSENT_KEY)
    ranges = [_range(kind, first, last).ranges for first, last in parts[absent:]]
    return Constraint(Ranges.union_all(kind, ranges), absent)
