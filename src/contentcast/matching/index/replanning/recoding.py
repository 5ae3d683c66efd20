"""Entries of one plan as those of another: values, and sets of ranges, have other numbers there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.values.dictionaries import FIRST
from contentcast.matching.index.values.entries import Attributes, Entries

Ints = npt.NDArray[np.int64]


class Recoding:
    """From the numbers of old attributes to those of new ones, which get the values and sets that they do not have yet; texts
    are the same.
    """

    def __init__(self, old: Attributes, new: Attributes) -> None:
        self._old, self._new = old, new
        self._numbers: dict[tuple[str, str], Ints] = {}

    def keep(self, name: str) -> None:
        """All values of an attribute, of which the new ones know none yet, under the numbers that they have."""
        old, new = self._old.dictionaries[name], self._new.dictionary(name)
        new.values, new.codes = list(old.values), dict(old.codes)
        count = FIRST + len(old)
        numbers = self._numbers["equal", name] = np.full(2 * count, -1, np.int64)
        numbers[:count] = np.arange(count)

    def recoded(self, entries: Entries) -> Entries:
        """Entries of the old attributes, as those of the new ones."""
        for (form, name), column in entries.columns.items():
            if form in ("equal", "set"):
                numbers = self._up_to_date(form, name)
                missing = numbers[column.value] < 0
                if missing.any():
                    self._learn(form, name, numbers, np.unique(column.value[missing]))
                column.value = numbers[column.value]
        return entries

    def _up_to_date(self, form: str, name: str) -> Ints:
        """The new number of each old one, -1 where it has none yet."""
        wanted = FIRST + len(self._old.dictionaries[name]) if form == "equal" else len(self._old.sets)
        numbers = self._numbers.get((form, name), np.zeros(0, np.int64))
        if len(numbers) < wanted:
            larger = np.full(2 * wanted, -1, np.int64)
            larger[: len(numbers)] = numbers
            if form == "equal":
                larger[:FIRST] = np.arange(FIRST)
                self._new.dictionary(name)
            numbers = self._numbers[form, name] = larger
        return numbers

    def _learn(self, form: str, name: str, numbers: Ints, used: Ints) -> None:
        if form == "equal":
            values, dictionary = self._old.dictionaries[name].values, self._new.dictionary(name)
            numbers[used] = [dictionary.code(values[code - FIRST]) for code in used.tolist()]
        else:
            numbers[used] = [self._new.set_number(self._old.sets[number]) for number in used.tolist()]


def mark_texts(entries: Entries, used: dict[str, npt.NDArray[np.bool_]]) -> None:
    """used[attribute][number] for the text constraints that they hold."""
    for (form, name), column in entries.columns.items():
        if form == "text" and len(column.value):
            numbers, flags = column.value >> 2, used.get(name, np.zeros(0, np.bool_))
            if len(flags) <= (last := int(numbers.max())):
                flags = np.concatenate([flags, np.zeros(last + 1, np.bool_)])
            flags[numbers] = True
            used[name] = flags
