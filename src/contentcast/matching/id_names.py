"""Subscription ids of a user's own, texts, beside the numbers that an index works with.

    "desk-7" <-> 0    "desk-8" <-> 1        a number that is free again is given to the next text

Rule: an index has ints or texts as ids, never both; which, its first subscription says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.model.errors import ContentcastError

Ints = npt.NDArray[np.int64]
Given = Ints | list[str]
"""Ids as they came: an array of ints or a list of texts."""


def ids_of(ids: Any) -> Given:
    """Ids from a sequence or an Arrow array; what is no id is named."""
    if isinstance(ids, (pa.Array, pa.ChunkedArray)):
        if ids.null_count:
            raise ContentcastError("a subscription id is missing (null)")
        if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type) or pa.types.is_string_view(ids.type):
            return list(ids.to_pylist())
        ids = ids.to_numpy() if isinstance(ids, pa.ChunkedArray) else ids.to_numpy(zero_copy_only=False)
    elif isinstance(ids, Sequence) and len(ids) and isinstance(ids[0], str):
        for at, each in enumerate(ids):
            if not isinstance(each, str):
                raise ContentcastError(f"subscription ids are all ints or all texts, and number {at} is {each!r}")
        return list(map(str, ids))
    numbers = np.asarray(ids)
    if not len(numbers):
        return np.zeros(0, np.int64)
    if numbers.dtype.kind == "U" or (numbers.dtype.kind == "O" and all(isinstance(each, str) for each in numbers)):
        if isinstance(ids, Sequence):  # NumPy makes texts of ints beside texts
            wrong = next(each for each in ids if not isinstance(each, str))
            raise ContentcastError(f"subscription ids are all ints or all texts, not {wrong!r} beside texts")
        return [str(each) for each in numbers]
    if numbers.dtype.kind not in "iu":
        raise ContentcastError(f"subscription ids are ints or texts, not {numbers.flat[0]!r}")
    return numbers.astype(np.int64, casting="same_kind" if numbers.dtype.kind == "i" else "unsafe")


def repeated(given: Given) -> list[int]:
    """The rows whose id came before, ascending."""
    if isinstance(given, list):
        seen: set[str] = set()
        return [row for row, each in enumerate(given) if each in seen or seen.add(each)]  # type: ignore[func-returns-value]
    first = np.zeros(len(given), np.bool_)
    first[np.unique(given, return_index=True)[1]] = True
    return np.flatnonzero(~first).tolist()


class IdNames:
    """The texts of an index's ids. `names` is shared with the index, which saves it."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self.numbers = {name: number for number, name in names.items()}
        self._free: list[int] = []
        self._array = np.empty(max(names, default=-1) + 1, object)
        for number, name in names.items():
            self._array[number] = name
        self._next = len(self._array)

    def number(self, name: Any) -> int:
        found = self.numbers.get(name) if isinstance(name, str) else None
        if found is None:
            raise ContentcastError(f"there is no subscription {name!r}")
        return found

    def reserved(self, given: list[str]) -> Ints:
        """Numbers for new ids, which are theirs once `keep` says so."""
        for each in given:
            if each in self.numbers:
                raise ContentcastError(f"subscription {each!r} is already there; remove it first")
        if again := repeated(given):
            raise ContentcastError(f"subscription {given[again[0]]!r} is given twice")
        reused = self._free[-len(given) :] if given else []
        return np.array([*reused, *range(self._next, self._next + len(given) - len(reused))], np.int64)

    def keep(self, given: list[str], numbers: Ints) -> None:
        taken = set(numbers.tolist())
        self._free = [each for each in self._free if each not in taken] if self._free else []
        self._next = max(self._next, int(numbers.max(initial=-1)) + 1)
        if self._next > len(self._array):
            self._array = np.concatenate(
                [self._array, np.empty(max(self._next, 2 * len(self._array)) - len(self._array), object)]
            )
        for name, number in zip(given, numbers.tolist(), strict=True):
            self.names[number] = name
            self.numbers[name] = number
            self._array[number] = name

    def forget(self, numbers: Ints) -> None:
        for number in numbers.tolist():
            del self.numbers[self.names.pop(number)]
            self._array[number] = None
            self._free.append(number)

    def of(self, numbers: Ints) -> npt.NDArray[Any]:
        """The texts of these numbers."""
        return self._array[numbers]
