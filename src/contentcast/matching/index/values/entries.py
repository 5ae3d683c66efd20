"""Conjunctions as entries: each constraint in the one form that the kernels test.

    equal    a code under a mask (`dictionaries`); IS NULL is the code for absent
    range    first <= key <= last, of the kinds with order keys
    set      one of several ranges, too many to make an entry of each
    text     a number of the attribute's `text_tests.TextIndex`

A constraint of few alternatives (IN, OR on one attribute, "absent or ...") becomes several entries, of which at most one can
match, so that each can be found by equality. Columns are sparse: for each attribute only the entries that constrain it.
Rule: the entries of a subscription accept exactly what its predicate accepts; only those of one with several conjunctions may
match twice (`multiple`).
"""

# Numba infers the kernels' types.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import Any, Final, TypeAlias

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index.limits import DEFAULT, Limits
from contentcast.matching.index.values.dictionaries import ABSENT, ABSENT_KEY, Dictionary
from contentcast.matching.index.values.hash_tables import frozen
from contentcast.matching.index.values.text_answers import Answers
from contentcast.matching.index.values.text_tests import TextIndex
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.predicate import Conjunction
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.space import Space
from contentcast.model.values.keys import KEYED, key_of, last_key

MOST_ALTERNATIVES: Final = 32
"""More values than this of one constraint stay together as a set."""
MOST_ENTRIES: Final = 64
"""More entries than this of one subscription: the largest constraints stay together."""

Ints = npt.NDArray[np.int64]
Atom = tuple[str, int, int]
"""('equal', code, 0), ('range', first, last), ('set', number, 0) or ('text', tagged number, 0)."""


@dataclass(slots=True)
class Attributes:
    """What the entries' numbers mean, per attribute: dictionaries, text indexes, sets of ranges."""

    space: Space
    dictionaries: dict[str, Dictionary] = field(default_factory=dict)
    texts: dict[str, TextIndex] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)
    sets: list[tuple[int, ...]] = field(default_factory=list)
    set_numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    limits: Limits = DEFAULT
    numbers: dict[str, int] = field(init=False)
    """Of each attribute its place in the space."""

    def __post_init__(self) -> None:
        self.numbers = {name: number for number, name in enumerate(self.space.names)}

    def dictionary(self, name: str) -> Dictionary:
        found = self.dictionaries.get(name)
        if found is None:
            found = self.dictionaries[name] = Dictionary(self.space.kinds[name])
        return found

    def text(self, name: str) -> TextIndex:
        found = self.texts.get(name)
        if found is None:
            found = self.texts[name] = TextIndex(self.space.kinds[name], self.answers, self.limits.most_tried)
        return found

    def sizes(self) -> dict[str, int]:
        """How many values each dictionary has."""
        return {name: len(each) for name, each in self.dictionaries.items()}

    def shrink(self, sizes: dict[str, int]) -> None:
        """Forget the values that have come since, which no entry uses: their codes might not fit into their bits."""
        for name, dictionary in list(self.dictionaries.items()):
            if name in sizes:
                dictionary.shrink(sizes[name])
            else:
                del self.dictionaries[name]

    def keep_texts(self, used: dict[str, npt.NDArray[np.bool_]]) -> None:
        """Give up the text constraints whose numbers are not used any more."""
        for name, text in self.texts.items():
            text.give_up(text.unused(used.get(name, _NO_FLAGS)).tolist())
            text.settle()

    def set_number(self, cuts: tuple[int, ...]) -> int:
        number = self.set_numbers.get(cuts)
        if number is None:
            number = self.set_numbers[cuts] = len(self.sets)
            self.sets.append(cuts)
        return number


@dataclass(slots=True)
class Column:
    """What some entries ask of one attribute in one form; `value` and `last` as the form has them."""

    entry: Ints
    value: Ints
    last: Ints


@dataclass(slots=True)
class Entries:
    """`count` entries; `owner` is the row of the predicate; `columns[form, attribute]`."""

    count: int
    owner: Ints
    multiple: npt.NDArray[np.bool_]
    columns: dict[tuple[str, str], Column]


def joined(parts: list[Entries], predicates: list[int]) -> Entries:
    """The entries of several tables, of so many predicates each, as those of one."""
    entry_base = list(accumulate((part.count for part in parts), initial=0))
    owner_base = list(accumulate(predicates, initial=0))
    columns: dict[tuple[str, str], Column] = {}
    for key in dict.fromkeys(key for part in parts for key in part.columns):
        held = [(base, part.columns[key]) for base, part in zip(entry_base, parts, strict=False) if key in part.columns]
        columns[key] = Column(
            _shifted([column.entry for _, column in held], [base for base, _ in held]),
            np.concatenate([column.value for _, column in held]),
            np.concatenate([column.last for _, column in held]),
        )
    return Entries(
        entry_base[-1],
        _shifted([part.owner for part in parts], owner_base[:-1]),
        np.concatenate([part.multiple for part in parts]),
        columns,
    )


def _shifted(parts: list[Ints], by: list[int]) -> Ints:
    """One after the other, each raised by its number."""
    return np.asarray(np.concatenate(parts) + np.repeat(by, [len(part) for part in parts]))


def entries_of(table: PredicateTable, attributes: Attributes) -> Entries:
    used = {name: column for name, column in table.columns.items() if len(column.conjunction)}
    conjunctions = np.bincount(table.predicate_of, minlength=table.count)
    others = {name: _Others.of(attributes, name, column) for name, column in used.items()}
    keyed = {
        name: _values_and_ranges(frozen(column.first), frozen(column.last))
        for name, column in used.items()
        if column.kind.name in KEYED
    }
    special = _special(used, others, keyed)
    if len(special):
        plain = np.ones(table.conjunction_count, np.bool_)
        plain[special] = False
        number = np.cumsum(plain) - 1  # conjunction -> entry, for the plain ones
    pieces: dict[tuple[str, str], list[tuple[Any, Any, Any]]] = {}
    for name, column in used.items():
        rows = np.flatnonzero(plain[column.conjunction]) if len(special) else None
        for form, mine, value, last in _plain_forms(name, column, rows, others[name], keyed.get(name), attributes):
            asking = column.conjunction if mine is None else column.conjunction[mine]
            pieces.setdefault((form, name), []).append((number[asking] if len(special) else asking, value, last))
    made = _SpecialEntries(attributes, table.conjunction_count - len(special))
    for conjunction in special.tolist():
        predicate = int(table.predicate_of[conjunction])
        made.add(predicate, table.conjunction(conjunction), max(1, MOST_ENTRIES // int(conjunctions[predicate])))
    for key, lists in made.columns.items():
        pieces.setdefault(key, []).append(tuple(np.array(each, np.int64) for each in lists))  # type: ignore[arg-type]
    owner = table.predicate_of
    if len(special):
        owner = np.concatenate([table.predicate_of[plain], np.array(made.owners, np.int64)])
    columns = {
        key: Column(*(parts[0] if len(parts) == 1 else (np.concatenate([part[i] for part in parts]) for i in range(3))))
        for key, parts in pieces.items()
    }
    return Entries(len(owner), owner, (conjunctions > 1)[owner], columns)


@dataclass(slots=True)
class _Others:
    """Of the constraints of a column that are neither one value nor one range, those in use: the atom of each that is one."""

    rows: Ints
    """Of the column, those with such a constraint ..."""
    which: Ints
    """... and for each of them the place of its constraint among these:"""
    form: list[str]
    value: Ints
    last: Ints

    @classmethod
    def of(cls, attributes: Attributes, name: str, column: ConstraintColumn) -> _Others:
        if not column.others:
            return _NO_OTHERS
        rows = np.flatnonzero(column.other >= 0)
        used, which = np.unique(column.other[rows], return_inverse=True)
        found = [_atoms(attributes, name, column.others[each]) for each in used.tolist()]
        ones = [atoms[0] if len(atoms) == 1 else (_SEVERAL, 0, 0) for atoms in found]
        value, last = (np.array([each[i] for each in ones], np.int64) for i in (1, 2))
        return cls(rows, which, [form for form, _, _ in ones], value, last)

    def several(self) -> Ints:
        """The rows of those that are more than one atom."""
        return self.rows[self._with(_SEVERAL)] if _SEVERAL in self.form else self.rows[:0]

    def ones(self) -> Iterator[tuple[str, Ints, Ints, Ints]]:
        """Of each form the rows, values and lasts of the others."""
        for form in dict.fromkeys(self.form):
            if form != _SEVERAL:
                mine = self._with(form)
                which = self.which[mine]
                yield form, self.rows[mine], self.value[which], self.last[which]

    def _with(self, form: str) -> Any:
        return np.array([each == form for each in self.form])[self.which]


_Keyed: TypeAlias = tuple[Ints, Ints, Ints, Ints, int]
_NO_FLAGS: Final = np.zeros(0, np.bool_)
_SEVERAL: Final = "several"
_NONE: Final = np.zeros(0, np.int64)
_NO_OTHERS: Final = _Others(_NONE, _NONE, [], _NONE, _NONE)


def _special(columns: dict[str, ConstraintColumn], others: dict[str, _Others], keyed: dict[str, _Keyed]) -> Ints:
    """The conjunctions that need a look one by one."""
    found = []
    for name, column in columns.items():
        several = others[name].several()
        if len(several):
            found.append(column.conjunction[several])
        if column.kind.name == "int" and keyed[name][-1]:
            # Keys cannot tell -2^63 from the next int (it makes room for absent), so a range that begins there is split.
            lowest = (column.first == ABSENT_KEY + 1) & (column.last > column.first)
            found.append(column.conjunction[lowest])
    return np.unique(np.concatenate(found)) if found else _NONE


def _plain_forms(
    name: str, column: ConstraintColumn, rows: Ints | None, others: _Others, keyed: _Keyed | None, attributes: Attributes
) -> Iterator[tuple[str, Ints | None, Ints, Ints]]:
    """What these rows of a column ask, or all if None, by form: which of them, value and last. `keyed`: its values and ranges,
    if they have keys.
    """
    if len(others.rows):
        asked = np.ones(len(column.conjunction), np.bool_)
        if rows is not None:
            asked[:] = False
            asked[rows] = True
        for form, mine, value, last in others.ones():
            kept = asked[mine]
            if kept.any():
                yield form, mine[kept], value[kept], last[kept]
        asked[others.rows] = False
        rows = np.flatnonzero(asked)
    if rows is not None and not len(rows):
        return
    if keyed is None:
        dictionary = attributes.dictionary(name)
        wanted = column.code if rows is None else column.code[rows]
        used = np.flatnonzero(np.bincount(wanted, minlength=len(column.values)))
        values = column.values.take(pa.array(used)) if len(used) < len(column.values) else column.values
        codes = np.zeros(len(column.values), np.int64)
        codes[used] = dictionary.codes_of(values)
        yield "equal", rows, codes[wanted], np.zeros(len(wanted), np.int64)
        return
    if rows is not None:
        keyed = _values_and_ranges(frozen(column.first[rows]), frozen(column.last[rows]))
    single, wide, first, last, _ = keyed
    if len(single):
        codes = attributes.dictionary(name).codes_of(first[: len(single)])
        yield "equal", _of(rows, single, len(wide)), codes, np.zeros(len(codes), np.int64)
    if len(wide):
        yield "range", _of(rows, wide, len(single)), first[len(single) :], last[len(single) :]


def _of(rows: Ints | None, mine: Ints, others: int) -> Ints | None:
    """Those of the rows; None stays None if there are no others."""
    return (mine if others else None) if rows is None else rows[mine]


@nb.njit(nogil=True, cache=True)
def _values_and_ranges(first, last):
    """Which ranges are of one value and which are not; what each begins and ends with, those of one value first; and how many
    of the others begin with the least int.
    """
    count, single, lowest = len(first), 0, 0
    rows, begins, ends = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    for i in range(count):
        single += first[i] == last[i]
    at = np.array([0, single])
    for i in range(count):
        place = at[np.int64(first[i] != last[i])]
        at[np.int64(first[i] != last[i])] += 1
        rows[place], begins[place], ends[place] = i, max(first[i], ABSENT_KEY + 1) if first[i] != last[i] else first[i], last[i]
        lowest += first[i] == ABSENT_KEY + 1 and last[i] > first[i]
    return rows[:single], rows[single:], begins, ends, lowest


class _SpecialEntries:
    """Entries of conjunctions of which some constraint is more than one atom."""

    def __init__(self, attributes: Attributes, first: int) -> None:
        self.attributes, self.next = attributes, first
        self.owners: list[int] = []
        self.columns: dict[tuple[str, str], tuple[list[int], list[int], list[int]]] = {}

    def add(self, owner: int, conjunction: Conjunction, most: int) -> None:
        for atoms in alternatives(self.attributes, conjunction, most):
            for name, (form, value, last) in atoms:
                entry, values, lasts = self.columns.setdefault((form, name), ([], [], []))
                entry.append(self.next)
                values.append(value)
                lasts.append(last)
            self.owners.append(owner)
            self.next += 1


def alternatives(attributes: Attributes, conjunction: Conjunction, most: int) -> Iterator[list[tuple[str, Atom]]]:
    """The entries of one conjunction, at most `most`: one atom per attribute."""
    options = {name: _atoms(attributes, name, constraint) for name, constraint in conjunction.items}
    joinable = {name: each for name, each in conjunction.items if not _tells_the_least_ints_apart(each)}
    while joinable and math.prod(map(len, options.values())) > most:
        widest = max(joinable, key=lambda name: len(options[name]))
        options[widest] = [_together(attributes, widest, joinable.pop(widest))]
    for chosen in product(*options.values()):
        yield list(zip(options, chosen, strict=True))


def _atoms(attributes: Attributes, name: str, constraint: Constraint) -> list[Atom]:
    kind = attributes.space.kinds[name]
    pairs = list(constraint.ranges.pairs())
    absent: list[Atom] = []
    if constraint.absent:
        attributes.dictionary(name)  # every dictionary has the code for absent
        absent.append(("equal", ABSENT, 0))
    apart = _tells_the_least_ints_apart(constraint)
    crowded = len(pairs) > MOST_ALTERNATIVES and not apart
    if crowded or not constraint.only_ranges:
        return [_together(attributes, name, constraint)]
    if kind.name in KEYED:
        found: list[Atom] = []
        for low, high in pairs:
            found += _range_atoms(attributes, name, key_of(kind, low), last_key(kind, high))
        # Several ranges gain nothing by being filed one by one; several values do.
        several_ranges = len(absent + found) > 1 and any(form == "range" for form, _, _ in found)
        return [_together(attributes, name, constraint)] if several_ranges and not apart else absent + found
    if all(kind.successor(low) == high for low, high in pairs):
        return absent + [("equal", attributes.dictionary(name).code(low), 0) for low, _ in pairs]
    return [_together(attributes, name, constraint)]


def _range_atoms(attributes: Attributes, name: str, first: int, last: int) -> list[Atom]:
    dictionary = attributes.dictionary
    if first == last:
        return [("equal", dictionary(name).code(first), 0)]
    if first == ABSENT_KEY + 1 and attributes.space[name].kind == "int":
        return [("equal", dictionary(name).code(first), 0), *_range_atoms(attributes, name, first + 1, last)]
    return [("range", max(first, ABSENT_KEY + 1), last)]


def _together(attributes: Attributes, name: str, constraint: Constraint) -> Atom:
    if attributes.space[name].kind not in KEYED:
        return ("text", attributes.text(name).tagged(constraint), 0)
    return ("set", attributes.set_number(_closed_pairs(constraint)), 0)


def _closed_pairs(constraint: Constraint) -> tuple[int, ...]:
    """first, last, first, last ... of the constraint's keys, ascending, absent included."""
    kind = constraint.ranges.kind
    found: list[int] = [ABSENT_KEY, ABSENT_KEY] if constraint.absent else []
    for low, high in constraint.ranges.pairs():
        found += [max(key_of(kind, low), ABSENT_KEY + 1), last_key(kind, high)]
    return tuple(found)


def _tells_the_least_ints_apart(constraint: Constraint) -> bool:
    """Keys cannot tell -2^63 from the next int, so a constraint that does must not become a set."""
    ranges = constraint.ranges
    return ranges.kind.name == "int" and (ABSENT_KEY in ranges) != (ABSENT_KEY + 1 in ranges)
