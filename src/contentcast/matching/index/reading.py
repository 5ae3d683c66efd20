"""Entries read back: what a subscription asks for, from the cells that hold it, and all entries by columns for a new plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.bitmaps import Bitmaps
from contentcast.matching.index.codes import ABSENT, ABSENT_KEY
from contentcast.matching.index.entries import Attributes, Column, Entries
from contentcast.matching.index.plan import LEVEL_BITS
from contentcast.matching.index.scales import ABSENT_CODE, GREATEST_CODE, LEAST_CODE, Scale
from contentcast.matching.index.store import Group, Store
from contentcast.model.constraint import Constraint
from contentcast.model.keys import cut_after, key_ends, value_of
from contentcast.model.kinds import Kind
from contentcast.model.predicate import Conjunction
from contentcast.model.ranges import Ranges

if TYPE_CHECKING:
    from contentcast.matching.index.filing import Filing

Ints = npt.NDArray[np.int64]

GREATEST_KEY: Final = 2**63 - 1


def read_slot(attributes: Attributes, bitmaps: Bitmaps, slot: int) -> Conjunction:
    """The conjunction that a slot of the bitmaps stands for."""
    codes = {name: int(each[0]) for name, each in bitmaps.all_codes(np.array([slot]), attributes.dictionaries).items()}
    found = {name: _equal(attributes, name, code) for name, code in codes.items() if code >= 0}
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


# --- many of them


def read_all(attributes: Attributes, filing: Filing, store: Store, ids: Ints) -> Entries:
    """Every entry, its owner being the place of its subscription among the ids, which are ascending."""
    reader = _Columns(attributes)
    for number, group in enumerate(store.groups):
        cells = np.flatnonzero((store.group_of[: store.cell_count] == number) & (store.count[: store.cell_count] > 0))
        if len(cells):
            counts = store.count[cells]
            inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            cells = np.repeat(cells, counts)
            _read_group(reader, filing, store, group, cells, inside, store.arena[store.base[cells] + inside].astype(np.int64))
    slots = store.bitmaps.slots()
    _read_bitmaps(reader, store, slots, store.bitmaps.ids[slots].astype(np.int64))
    return reader.entries(store, ids)


def read_some(attributes: Attributes, filing: Filing, store: Store, ids: Ints) -> Entries:
    """The entries of these subscriptions, as `read_all` has them; the ids are there, and ascending."""
    reader = _Columns(attributes)
    tagged, cells, inside = store.places_of(ids)
    held = cells >= 0
    groups = np.where(held, store.group_of[np.maximum(cells, 0)], -1)
    for number in np.unique(groups[held]).tolist():
        mine = groups == number
        _read_group(reader, filing, store, store.groups[number], cells[mine], inside[mine], tagged[mine])
    slots = np.flatnonzero(~held)
    if len(slots):
        _read_bitmaps(reader, store, ~cells[slots] - 1, tagged[slots])
    return reader.entries(store, ids)


class _Columns:
    """Collects entries part by part."""

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.count = 0
        self.tagged: list[Ints] = []
        self.pieces: dict[tuple[str, str], list[tuple[Ints, Ints, Ints]]] = {}

    def add(self, form: str, name: str, held: Any, value: Any, last: Any = None) -> None:
        """What the entries of this part that `held` marks ask for."""
        rows = np.flatnonzero(held)
        if len(rows):
            lasts = np.zeros(len(rows), np.int64) if last is None else last[rows]
            self.pieces.setdefault((form, name), []).append((rows + self.count, value[rows], lasts))

    def add_codes(self, word: int, shift: int, codes: Ints, mask: Ints) -> None:
        """Equal constraints: codes under masks, which stand `shift` bits up in a word."""
        for name, each in self.attributes.dictionaries.items():
            at, full = each.shift - shift, (1 << each.bits) - 1
            if each.word == word and 0 <= at < 64 and each.bits:
                self.add("equal", name, (mask >> at) & full != 0, (codes >> at) & full)

    def end_part(self, tagged: Ints) -> None:
        self.tagged.append(tagged)
        self.count += len(tagged)

    def entries(self, store: Store, ids: Ints) -> Entries:
        tagged = np.concatenate([np.zeros(0, np.int64), *self.tagged])
        run = (tagged < 0) & (~tagged & 1 == 0)
        number = np.where(run, ~tagged >> 1, 0)
        lengths = np.where(run, store.run_length[number] if len(store.run_length) else 0, 1)
        source = np.repeat(np.arange(len(tagged)), lengths)  # an entry with a run of ids becomes one for each
        owner = tagged[source]
        inside = np.arange(len(source)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        runs = run[source]
        if runs.any():
            owner[runs] = store.run_ids[store.run_start[number[source[runs]]] + inside[runs]]
        several = owner < 0
        if several.any():
            owner[several] = store.several[~owner[several] >> 1]
        first = np.cumsum(lengths) - lengths
        columns = {}
        for key, parts in self.pieces.items():
            entry, value, last = (np.concatenate([part[i] for part in parts]) for i in range(3))
            times = lengths[entry]
            offset = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
            columns[key] = Column(np.repeat(first[entry], times) + offset, np.repeat(value, times), np.repeat(last, times))
        return Entries(len(owner), np.searchsorted(ids, owner), several, columns)


def _read_group(reader: _Columns, filing: Filing, store: Store, group: Group, cells: Ints, inside: Ints, tagged: Ints) -> None:
    """The entries at these places of cells of a group."""
    base, room, key = store.base[cells] + inside, store.room[cells], store.key_of[cells]
    kept = np.ones(len(base), np.bool_)
    ranges = {}
    for (kind, name), column in group.columns():
        if kind in ("range", "low", "high"):
            first = store.arena[base + column * room] if kind != "high" else np.full(len(base), LEAST_CODE)
            ends = {"low": np.full(len(base), GREATEST_CODE), "high": store.arena[base + column * room]}
            last = ends[kind] if kind in ends else store.arena[base + (column + 1) * room]
            held = (first != ABSENT_CODE) | (last != GREATEST_CODE)
            if kind == "high":
                held = last != GREATEST_CODE
            ranges[name] = held, *_keys(reader.attributes.space.kinds[name], filing.scales[name], first, last)
    if group.gate.kind == "cells":  # an entry lies in each cell that its range reaches: only the first one counts
        rank = np.searchsorted(filing.grids[group.gate.attribute], ranges[group.gate.attribute][1], "right")
        kept = rank >> (LEVEL_BITS * group.level) == key
    for name, (held, first_key, last_key) in ranges.items():
        reader.add("range", name, held[kept], first_key[kept], last_key[kept])
    base, room, key, tagged = base[kept], room[kept], key[kept], tagged[kept]
    if group.gate.kind == "equal":
        reader.add_codes(group.gate.word, 0, key, np.full(len(key), group.gate.mask))
    elif group.gate.kind == "text":
        reader.add("text", group.gate.attribute, np.ones(len(key), np.bool_), key * 4)
    for (kind, arg), column in group.columns():
        number = store.arena[base + column * room].astype(np.int64)
        if kind == "word":
            mask = store.arena[base + (column + 1) * room].astype(np.int64)
            reader.add_codes(arg // 2, 32 * (arg % 2), number, mask)
        elif kind in ("set", "text"):
            reader.add(kind, arg, number >= 0, number)
    reader.end_part(tagged)


def _keys(kind: Kind, scale: Scale, first: Any, last: Any) -> tuple[Ints, Ints]:
    least, greatest = key_ends(kind)
    most = len(scale.points) - 1
    first_key = scale.points[np.minimum(np.searchsorted(scale.codes, first), most)]
    last_key = scale.points[np.minimum(np.searchsorted(scale.codes, last), most)]
    return (
        np.where(first <= LEAST_CODE, max(least, ABSENT_KEY + 1), first_key),
        np.where(last == GREATEST_CODE, greatest, last_key),
    )


def _read_bitmaps(reader: _Columns, store: Store, slots: Ints, tagged: Ints) -> None:
    for name, codes in store.bitmaps.all_codes(slots, reader.attributes.dictionaries).items():
        reader.add("equal", name, codes >= 0, codes)
    reader.end_part(tagged)
