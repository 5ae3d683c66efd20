"""The subscriptions of an index: added, replaced, removed, and the engine that has them.

Two engines take turns: a small index, and any index until its kernels are compiled, is a `PlainIndex`; then it goes on as a
`CellIndex`, which `use_kernels` makes of it.
Rule: nobody can tell from an answer which engine gave it. Numba is imported when the kernels are wanted, and not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.language import as_predicate
from contentcast.match_index.event_checks import EventChecks
from contentcast.match_index.given import as_table, first_error, taken
from contentcast.matching.id_names import Given, IdNames, ids_of, repeated
from contentcast.matching.index.limits import Limits
from contentcast.matching.plain_index import MOST_IDS, PlainIndex
from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space
from contentcast.turns import Turns
from contentcast.warming.background import kernels

if TYPE_CHECKING:
    from contentcast.matching.index import CellIndex

Id: TypeAlias = int | str
Ints: TypeAlias = npt.NDArray[np.int64]

TEXTS_KEPT: Final = 100_000
"""The index keeps the texts of this many subscriptions as they were given, for `explain`: about 10 MB."""
LARGE: Final = 1_000
"""From this many subscriptions on, an index wants its kernels."""
MOST_PLAIN: Final = 1_000_000_000
"""A batch waits for the kernels if it has more (event, conjunction) to try than this, some ten seconds without them."""


class Subscriptions:
    """Subscriptions of one space, by id, safe from several threads: many may read at once, or one may change."""

    def __init__(self, space: Space, *, limits: Limits) -> None:
        self.space = space
        self._limits = limits
        self._cells: CellIndex | PlainIndex = PlainIndex(space, Lock(), kernels.ask)
        self._checks = EventChecks(space)
        self._names: IdNames | None = None
        """The ids, if they are texts."""
        self._texts: dict[int, str] = {}
        """Predicates as they were given, by number."""
        self._turns = Turns()
        self._changes = 0
        if not kernels.ready:
            kernels.tell(self)
        if kernels.ready:
            self.use_kernels()

    # --- the engine

    def use_kernels(self) -> None:
        """Go on with the kernels, which are ready. Answers are the same before and after, also in the midst of a stream."""
        from contentcast.matching.index import CellIndex, ColumnChecks

        for _ in range(2):  # made while others read and change; if somebody has changed it meanwhile, while nobody does
            plain = self._cells
            if not isinstance(plain, PlainIndex):
                return
            with self._turns.read():
                version, everything = plain.version, plain.everything()
            made = CellIndex(self.space, Lock(), self._limits)
            made.add(*everything)
            with self._turns.change():
                if self._cells is plain and plain.version == version:
                    self._cells, self._checks.columns = made, ColumnChecks(self.space)
                    return
        with self._turns.change():
            if isinstance(self._cells, PlainIndex):
                made = CellIndex(self.space, Lock(), self._limits)
                made.add(*self._cells.everything())
                self._cells, self._checks.columns = made, ColumnChecks(self.space)

    def _need_kernels(self) -> CellIndex:
        """Wait for the kernels, if it must be, and use them."""
        if isinstance(self._cells, PlainIndex):
            kernels.wait()
            self.use_kernels()
        assert not isinstance(self._cells, PlainIndex)
        return self._cells

    def _prepare(self, events: int) -> None:
        """Before a batch of so many events: one that would take long without kernels waits for them."""
        plain = self._cells
        if isinstance(plain, PlainIndex) and events * plain.conjunction_count > MOST_PLAIN:
            self._need_kernels()

    # --- subscriptions

    def add(self, subscription: Id, predicate: str | Predicate) -> None:
        """One subscription; its id, an int or a text, must not be there yet."""
        self._add(ids_of([subscription]), PredicateTable.of(self.space, [as_predicate(self.space, predicate)]), [predicate])

    def replace(self, subscription: Id, predicate: str | Predicate) -> None:
        """Another predicate for a subscription that is there; if it cannot be read, the one before stays."""
        table = PredicateTable.of(self.space, [as_predicate(self.space, predicate)])
        with self._turns.change():
            number = self._number(subscription)
            before = PredicateTable.of(self.space, [self._cells.predicate(number)])
            numbers = np.array([number], np.int64)
            self._changes += 1
            self._cells.remove(numbers)
            try:
                self._cells.add(numbers, table)
            except BaseException:
                self._cells.add(numbers, before)
                raise
            self._texts.pop(number, None)
            self._keep_texts(numbers, [predicate])

    def add_many(
        self,
        ids: Sequence[int] | Sequence[str] | Ints | pa.Array | pa.ChunkedArray,
        predicates: Sequence[str | Predicate] | pa.Array | pa.ChunkedArray | PredicateTable,
        *,
        on_error: Literal["raise", "reject"] = "raise",
    ) -> dict[Any, ContentcastError]:
        """Many at once, which is far faster: texts (a list or an Arrow array), predicates, or a table of them.

        With `on_error="reject"` a text that cannot be read is left out, and so is an id that came before or is there already;
        returned are the errors by subscription id. Whatever else is wrong, the index stays as it was.
        """
        given = ids_of(ids)
        table = as_table(self.space, predicates)
        if len(given) != len(table):
            raise ContentcastError(f"{len(given)} ids for {len(table)} predicates")
        errors: dict[int, ContentcastError] = dict(table.refused)
        if on_error == "reject":
            errors = {**self._taken(given), **errors}
        elif errors and not isinstance(predicates, PredicateTable):  # a table says itself what it could not read
            raise first_error(errors, given)
        texts = predicates if isinstance(predicates, (list, tuple)) and len(predicates) <= TEXTS_KEPT else None
        if not errors:
            self._add(given, table, texts)
            return {}
        kept = np.setdiff1d(np.arange(len(table)), np.array(list(errors)))
        chosen = [given[row] for row in kept] if isinstance(given, list) else given[kept]
        self._add(chosen, table.take(kept), None if texts is None else [texts[row] for row in kept])
        return {given[row] if isinstance(given, list) else int(given[row]): error for row, error in sorted(errors.items())}

    def _add(self, given: Given, table: PredicateTable, texts: Sequence[Any] | None) -> None:
        if isinstance(self._cells, PlainIndex) and len(self) + len(given) >= LARGE:
            if kernels.at_hand():
                kernels.wait()
                self.use_kernels()
            else:
                kernels.ask()
        with self._turns.change():
            self._changes += 1
            names = self._names_for(given)
            numbers = given if names is None or not isinstance(given, list) else names.reserved(given)
            assert not isinstance(numbers, list)
            self._cells.add(numbers, table)
            if isinstance(given, list) and names is not None:
                names.keep(given, numbers)
                self._names = names
            self._keep_texts(numbers, texts)

    def _names_for(self, given: Given) -> IdNames | None:
        """Texts as ids if the index has such, or has nothing yet and gets them."""
        if not len(given) or (self._names is not None) == isinstance(given, list):
            return self._names
        if len(self._cells):
            have, come = ("texts", "ints") if self._names is not None else ("ints", "texts")
            raise ContentcastError(f"the ids of this index are {have}, and {come} were given; use one of them")
        self._names = None
        return IdNames({}) if isinstance(given, list) else None

    def _taken(self, given: Given) -> dict[int, ContentcastError]:
        """The rows whose id came before, or is there already."""
        with self._turns.read():
            if isinstance(given, list):
                known = [] if self._names is None else [row for row, each in enumerate(given) if each in self._names.numbers]
            else:
                known = np.flatnonzero(np.isin(given, self._cells.ids())).tolist() if self._names is None else []
        return taken(given, known)

    def _keep_texts(self, numbers: npt.NDArray[np.int64], texts: Sequence[Any] | None) -> None:
        if texts is not None and len(self._texts) + len(texts) <= TEXTS_KEPT:
            pairs = zip(numbers.tolist(), texts, strict=True)
            self._texts.update((number, text) for number, text in pairs if isinstance(text, str))

    def _number(self, subscription: Any) -> int:
        return int(subscription) if self._names is None else self._names.number(subscription)

    def remove(self, subscription: Id) -> None:
        self.remove_many([subscription])

    def remove_many(self, ids: Sequence[int] | Sequence[str] | Ints | pa.Array) -> None:
        """All or none: an id that is not there is named, and the index stays as it was."""
        given = ids_of(ids)
        if again := repeated(given):
            raise ContentcastError(f"subscription {given[again[0]]} is to be removed twice; name each once")
        with self._turns.change():
            names = self._names
            if names is not None:
                numbers = np.array([names.number(each) for each in given], np.int64)
            elif isinstance(given, list):
                raise ContentcastError(f"there is no subscription {given[0]!r}; the ids of this index are ints")
            else:
                numbers = given
            self._changes += 1
            self._cells.remove(numbers)
            if names is not None:
                names.forget(numbers)
            if self._texts:
                for number in numbers.tolist():
                    self._texts.pop(number, None)

    def __len__(self) -> int:
        return len(self._cells)

    def __contains__(self, subscription: object) -> bool:
        with self._turns.read():
            if self._names is not None:
                return subscription in self._names.numbers
            return isinstance(subscription, int) and 0 <= subscription < MOST_IDS and subscription in self._cells

    def __iter__(self) -> Iterator[Any]:
        """The ids, ascending."""
        with self._turns.read():
            return iter(self._cells.ids().tolist() if self._names is None else sorted(self._names.numbers))

    def predicate(self, subscription: Id) -> Predicate:
        """What a subscription asks for, in canonical form."""
        with self._turns.read():
            return self._cells.predicate(self._number(subscription))
