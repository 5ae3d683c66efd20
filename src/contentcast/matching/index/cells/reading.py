"""Reading entries back from their cells: for a new plan, or to show the predicate of a subscription.

    cells, bitmaps  ->  atoms [entry, attribute and sort, value, last]  ->  columns by attribute  ->  Entries or Predicate

Rule: nothing here changes the index.
"""

# Numba infers the kernels' types.
# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def,untyped-decorator,misc,arg-type,call-arg"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from contentcast.matching.index.cells.store import Locations
from contentcast.matching.index.machine.layout import (
    ABSENT_CODE,
    BASE,
    CAPACITY,
    GATE_CELLS,
    GATE_EQUAL,
    GATE_TEXT,
    GREATEST_CODE,
    GROUP,
    LEAST_CODE,
    T_HIGH,
    T_LOW,
    T_RANGE,
    T_SET,
)
from contentcast.matching.index.machine.raw_arrays import int_line, long_line
from contentcast.matching.index.machine.simd import prefetch
from contentcast.matching.index.values.dictionaries import ABSENT, ABSENT_KEY
from contentcast.matching.index.values.entries import Attributes, Column, Entries, joined
from contentcast.matching.index.values.entry_rows import open_ends
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.predicate import Conjunction, Predicate
from contentcast.model.values.keys import KEYED, cut_after, key_ends, value_of
from contentcast.model.values.kinds import Kind
from contentcast.model.values.ranges import Ranges

if TYPE_CHECKING:
    from contentcast.matching.index.cells.filing import Filing

Ints = npt.NDArray[np.int64]

AT_A_TIME: Final = 1 << 15
"""Places that are read in one part; it bounds the memory for atoms."""
ENTRIES_AHEAD: Final = 8
"""Prefetch distance: while entry k is read, entry k + this is fetched from memory."""
_EQUAL, _RANGE, _OTHER = 0, 1, 2
_SORTS: Final = 3
"""The number of sorts of tests on an attribute: equality, range, other (set or text)."""
_POINTS, _CODES, _COUNT, _LEAST, _GREATEST, _CUTS, _CUT_COUNT = range(7)


def read_some(filing: Filing, ids: Ints) -> Entries:
    """The entries of these subscriptions, which must exist. The owner of an entry is a position in `ids`."""
    return _read_in_parts(filing, filing.store.locate(ids))


def read_all(filing: Filing, ids: Ints) -> Entries:
    """All entries. `ids` are the ids of all subscriptions, in ascending order."""
    return _read_in_parts(filing, filing.store.locate_all(ids))


def _read_in_parts(filing: Filing, places: Locations) -> Entries:
    bounds = range(0, max(1, len(places.owner)), AT_A_TIME)
    parts = [_read(filing, Locations(*(each[at : at + AT_A_TIME] for each in places))) for at in bounds]
    return parts[0] if len(parts) == 1 else joined(parts, [0] * len(parts))  # owners: positions among all ids


def read_predicate(filing: Filing, subscription: int) -> Predicate:
    """The predicate of a subscription."""
    entries = read_some(filing, np.array([subscription]))
    asked: list[dict[str, Constraint]] = [{} for _ in range(entries.count)]
    for (form, name), column in entries.columns.items():
        for entry, value, last in zip(column.entry.tolist(), column.value.tolist(), column.last.tolist(), strict=True):
            asked[entry][name] = _constraint(filing.attributes, form, name, value, last)
    space = filing.attributes.space
    return Predicate.of(space, [Conjunction.of(space, each) for each in asked])


def _constraint(attributes: Attributes, form: str, name: str, value: int, last: int) -> Constraint:
    kind = attributes.space.kinds[name]
    if form == "equal":
        return _equal(attributes, name, value)
    if form == "range":
        return _range(kind, value, last)
    return _set(kind, attributes.sets[value]) if form == "set" else _text(attributes, name, value >> 2)


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
    # -2^63 is the key of absent. A range that begins at the key above it begins at the least int.
    low = kind.least if first <= max(least, ABSENT_KEY + 1) else value_of(kind, first)
    return Constraint(Ranges(kind, (low, cut_after(kind, min(last, greatest)))))


def _set(kind: Kind, pairs: tuple[int, ...]) -> Constraint:
    parts = [(first, last) for first, last in zip(pairs[::2], pairs[1::2], strict=True)]
    absent = parts[0] == (ABSENT_KEY, ABSENT_KEY)
    ranges = [_range(kind, first, last).ranges for first, last in parts[absent:]]
    return Constraint(Ranges.union_all(kind, ranges), absent)


# --- many entries at once


class _Fields(NamedTuple):
    """The position of each attribute's code in the words: one row for each dictionary."""

    word: np.ndarray
    shift: np.ndarray
    full: np.ndarray
    attribute: np.ndarray


def _read(filing: Filing, places: Locations) -> Entries:
    """The entries at these places."""
    store, attributes = filing.store, filing.attributes
    fields = [(attributes.numbers[name], each) for name, each in attributes.dictionaries.items() if each.bits]
    lines = np.zeros((len(attributes.numbers), _CUT_COUNT + 1), np.int64)
    for name, coding in filing.order_codes.items():
        cuts = filing.plan.cuts(name)
        cuts = coding.points[:0] if cuts is None else cuts
        lines[attributes.numbers[name]] = (
            _address(coding.points), _address(coding.codes), len(coding.points), *open_ends(attributes, name),
            _address(cuts), len(cuts),
        )  # fmt: skip
    columns = filing.group_columns()
    most = len(fields) + int(np.diff(columns.field_code_start).max(initial=0)) + 1
    sources, atoms = np.empty(len(places.owner), np.int64), np.empty((len(places.owner) * most, 4), np.int64)
    known = [(field.word, field.shift, (1 << field.bits) - 1, number) for number, field in fields]
    each = _Fields(*np.array(known, np.int64).reshape(-1, 4).T.copy())
    words, entries = store.bitmaps.words, store.bitmaps.entries
    count, used = _read_places(
        store.arena, store.cell, store.key_of, columns, each, lines, words, entries, filing.plan.words, places.cell,
        places.inside, sources, atoms,
    )  # fmt: skip
    starts, entry, value, last = _by_subject(atoms, used, _SORTS * len(attributes.numbers))
    found: dict[tuple[str, str], Column] = {}
    for field_code in np.flatnonzero(np.diff(starts)).tolist():
        name, sort = attributes.space.names[field_code // _SORTS], field_code % _SORTS
        form = ("equal", "range", "set" if attributes.space[name].kind in KEYED else "text")[sort]
        mine = slice(starts[field_code], starts[field_code + 1])
        found[form, name] = Column(entry[mine], value[mine], last[mine])
    kept = sources[:count]
    return Entries(count, places.owner[kept], places.several[kept], found)


def _address(array: Any) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


@nb.njit(nogil=True, cache=True)
def _key_at(line, code):
    """The key of a point with this code."""
    codes, low, high = int_line(line[_CODES], line[_COUNT]), np.int64(0), line[_COUNT] - 1
    while low < high:
        middle = (low + high) >> 1
        if codes[middle] < code:
            low = middle + 1
        else:
            high = middle
    return long_line(line[_POINTS], line[_COUNT])[low]


@nb.njit(nogil=True, cache=True)
def _range_at(arena, at, room, form, line):
    """The first and last key of a range; both are ABSENT_KEY if the entry does not test the attribute."""
    first = np.int64(LEAST_CODE) if form == T_HIGH else np.int64(arena[at])
    last = np.int64(GREATEST_CODE) if form == T_LOW else np.int64(arena[at + (room if form == T_RANGE else 0)])
    if last == GREATEST_CODE and (form == T_HIGH or first == ABSENT_CODE):
        return np.int64(ABSENT_KEY), np.int64(ABSENT_KEY)
    return (
        line[_LEAST] if first <= LEAST_CODE else _key_at(line, first),
        line[_GREATEST] if last == GREATEST_CODE else _key_at(line, last),
    )


@nb.njit(nogil=True, cache=True)
def _read_places(arena, cell, key_of, groups, fields, lines, bit_words, bit_entries, words, cells, inside, sources, atoms):
    """Write the tests of the entries at these places as atoms: [entry, _SORTS * attribute + sort, value, last].

    Behind a grid an entry lies in every cell that its range reaches; only the first of these cells counts. `sources` gets the
    place where each entry was found. Returns the number of entries and the number of atoms.
    """
    count = used = 0
    codes, masks = np.zeros(words, np.int64), np.zeros(words, np.int64)
    for place in range(len(cells)):
        at, ahead = np.int64(cells[place]), np.int64(cells[min(place + ENTRIES_AHEAD, len(cells) - 1)])
        if ahead >= 0:
            base = cell[ahead, BASE] + inside[min(place + ENTRIES_AHEAD, len(cells) - 1)]
            for column in range(1, groups.width[cell[ahead, GROUP]]):
                prefetch(arena, base + column * cell[ahead, CAPACITY])
        codes[:] = 0
        masks[:] = 0
        if at < 0:
            slot = ~at - 1
            for k in range(len(bit_words)):
                codes[bit_words[k]], masks[bit_words[k]] = bit_entries[slot, 2 * k], bit_entries[slot, 2 * k + 1]
        else:
            group, key = cell[at, GROUP], key_of[at]
            base, room, gate = cell[at, BASE] + inside[place], cell[at, CAPACITY], groups.gate[group]
            if gate == GATE_CELLS:
                field_code = groups.gate_field[group]
                line = lines[field_code >> 1]
                low = base + groups.column[group, field_code] * room
                first, _ = _range_at(arena, low, room, groups.form[group, field_code], line)
                rank = np.searchsorted(long_line(line[_CUTS], line[_CUT_COUNT]), first, "right")
                if rank >> groups.level[group] != key:
                    continue
            elif gate == GATE_EQUAL:
                codes[groups.gate_word[group]], masks[groups.gate_word[group]] = key, groups.gate_mask[group]
            elif gate == GATE_TEXT:
                atoms[used, 0], atoms[used, 1] = count, _SORTS * (groups.gate_field[group] >> 1) + _OTHER
                atoms[used, 2], atoms[used, 3] = 4 * key, 0
                used += 1
            column = 1
            for k in range(groups.half_start[group], groups.half_start[group + 1]):
                word, shift = groups.halves[k] >> 1, 32 * (groups.halves[k] & 1)
                codes[word] |= (np.int64(arena[base + column * room]) & 0xFFFFFFFF) << shift
                masks[word] |= (np.int64(arena[base + (column + 1) * room]) & 0xFFFFFFFF) << shift
                column += 2
            for k in range(groups.field_code_start[group], groups.field_code_start[group + 1]):
                field_code = groups.field_codes[k]
                low, form = base + groups.column[group, field_code] * room, groups.form[group, field_code]
                if form >= T_SET:
                    value, last, held = np.int64(arena[low]), np.int64(0), arena[low] >= 0
                else:
                    value, last = _range_at(arena, low, room, form, lines[field_code >> 1])
                    held = value != ABSENT_KEY
                atoms[used, 0], atoms[used, 2], atoms[used, 3] = count, value, last
                atoms[used, 1] = _SORTS * (field_code >> 1) + (_OTHER if form >= T_SET else _RANGE)
                used += held
        for k in range(len(fields.word)):
            word, shift = fields.word[k], fields.shift[k]
            if (masks[word] >> shift) & fields.full[k] != 0:
                atoms[used, 0], atoms[used, 1] = count, _SORTS * fields.attribute[k] + _EQUAL
                atoms[used, 2], atoms[used, 3] = (codes[word] >> shift) & fields.full[k], 0
                used += 1
        sources[count] = place
        count += 1
    return count, used


@nb.njit(nogil=True, cache=True)
def _by_subject(atoms, count, field_codes):
    """The atoms as columns, sorted by attribute and sort; and where each attribute and sort begins."""
    starts = np.zeros(field_codes + 2, np.int64)
    for i in range(count):
        starts[atoms[i, 1] + 2] += 1
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    entry, value, last = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    for i in range(count):
        at = starts[atoms[i, 1] + 1]
        starts[atoms[i, 1] + 1] += 1
        entry[at], value[at], last[at] = atoms[i, 0], atoms[i, 2], atoms[i, 3]
    return starts[:-1], entry, value, last
