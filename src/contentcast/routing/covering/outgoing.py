"""What goes over one link, of one space: who is passed on, who is held back and by whom.

Source: Triantafillou & Economides 2004, section 2.2: "A subscription is not forwarded by a broker to another broker if the
former has already forwarded to the latter a subscription that subsumes this one."

    add price < 50            passed
    add price < 20            held back by price < 50
    add price < 120           passed; price < 50 is taken back, and price < 20 is now held back by price < 120
    remove price < 120        price < 50 is passed again, and holds back price < 20

Rule: who is held back is held back by somebody who is passed. Of two that cover each other the one that came first is passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from contentcast.matching.covering import CoverSet
from contentcast.routing.covering.branches import Branch
from contentcast.routing.covering.pool import Pool

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Wanted = Callable[[str, int], bool]
"""Does anybody behind the link publish what this row, of this origin, asks for?"""


class Outgoing:
    def __init__(self, pool: Pool, branch: Branch, wanted: Wanted | None = None) -> None:
        self.pool = pool
        self.sent: set[int] = set()
        """Rows that the neighbour has."""
        self._changed: set[int] = set()
        self._start(branch, wanted)

    def _start(self, branch: Branch, wanted: Wanted | None) -> None:
        self._branch = branch
        self._wanted = wanted
        self._places = {origin: at for at, origin in enumerate(branch.origins)}
        self._passed = CoverSet(self.pool.shelf)
        self._held: dict[int, int] = {}
        self._holds: dict[int, set[int]] = {}

    def rebuild(self, branch: Branch, wanted: Wanted | None = None) -> None:
        """After a change of the network or of the advertisements: all is decided anew, and only differences are sent."""
        self._changed |= self.sent
        self._start(branch, wanted)
        self.add(self.pool.living.values())

    def move(self, pool: Pool, moved: dict[int, int]) -> None:
        """The pool was swept. Nothing waits to be sent, so all that was sent is living."""
        self.pool = pool
        self.sent = {moved[row] for row in self.sent}
        self.rebuild(self._branch, self._wanted)

    # --- changes

    def add(self, rows: Iterable[int]) -> None:
        """Rows that `rebuild` has found in the pool already are passed over."""
        for row in rows:
            if row in self._held or row in self._passed:
                continue
            origin = self.pool.keys[row][0]
            if origin not in self._places or self.pool.shelf.nothing[row]:
                continue
            if self._wanted is None or self._wanted(origin, row):
                self._add(row)

    def _add(self, row: int) -> None:
        wide = self._passed.coverer(row, self._may_hold(row))
        if wide is not None:
            self._hold(row, wide)
            return
        for narrow in self._passed.covered(row, self._may_be_held(row)):
            self._passed.discard(narrow)
            self._changed.add(narrow)
            for each in self._holds.pop(narrow, ()):
                self._hold(each, row)
            self._hold(narrow, row)
        self._passed.add(row)
        self._changed.add(row)

    def _hold(self, row: int, by: int) -> None:
        self._held[row] = by
        self._holds.setdefault(by, set()).add(row)

    def remove(self, rows: Iterable[int]) -> None:
        gone = set(rows)
        freed: set[int] = set()
        for row in gone:
            by = self._held.pop(row, None)
            if by is not None:
                if by in self._holds:
                    self._holds[by].discard(row)
            elif row in self._passed:
                self._passed.discard(row)
                self._changed.add(row)
                freed |= self._holds.pop(row, set())
        freed -= gone
        for row in freed:
            self._held.pop(row, None)
        for row in sorted(freed):
            self._add(row)

    # --- who may hold whom

    def _may_hold(self, narrow: int) -> Callable[[Ints], Bools] | None:
        stands_in = self._branch.stands_in
        if stands_in is None:
            return None
        mine = stands_in[:, self._place(narrow)]
        return lambda rows: mine[self._places_of(rows)]

    def _may_be_held(self, wide: int) -> Callable[[Ints], Bools] | None:
        stands_in = self._branch.stands_in
        if stands_in is None:
            return None
        mine = stands_in[self._place(wide)]
        return lambda rows: mine[self._places_of(rows)]

    def _place(self, row: int) -> int:
        return self._places[self.pool.keys[row][0]]

    def _places_of(self, rows: Ints) -> Ints:
        places = np.array([self._places.get(origin, -1) for origin in self.pool.origins], np.int64)
        return places[self.pool.origin_code[rows]]

    # --- what is to be sent

    def forget(self) -> None:
        """The neighbour has nothing; everything passed is to be sent."""
        self.sent = set()
        self._changed = set(self._passed.rows().tolist())

    def take_changes(self) -> tuple[list[int], list[int]]:
        """The rows that the neighbour lacks, and those that it has and should not have; from now on it has what it should."""
        lacking = sorted(row for row in self._changed if row in self._passed and row not in self.sent)
        surplus = sorted(row for row in self._changed if row in self.sent and row not in self._passed)
        self._changed.clear()
        self.sent.update(lacking)
        self.sent.difference_update(surplus)
        return lacking, surplus

    @property
    def passed(self) -> int:
        return len(self._passed)

    @property
    def held_back(self) -> int:
        return len(self._held)

    def held_by(self) -> dict[tuple[str, int], tuple[str, int]]:
        """Who is held back, and by whom."""
        keys = self.pool.keys
        return {keys[row]: keys[by] for row, by in sorted(self._held.items())}

    def passed_keys(self) -> list[tuple[str, int]]:
        return sorted(self.pool.keys[row] for row in self._passed.rows().tolist())
