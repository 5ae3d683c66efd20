"""When the plan no longer fits, and the two ways to a new one: rebuild now, or migrate while the index is in use.

    rebuild   read everything back, plan for all of it, file all of it: for many subscriptions that come at once
    migrate   the same, a little with every change (`migration`): nobody waits long for a change

Rule: the index asks here after every change; only this room knows that there may be two plans.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.cells.reading import read_all
from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.limits import Limits
from contentcast.matching.index.replanning.migration import Migration
from contentcast.matching.index.replanning.recoding import Recoding, mark_texts
from contentcast.matching.index.replanning.warm import warm_change_kernels
from contentcast.matching.index.values.entries import Attributes, entries_of, joined
from contentcast.model.predicates.table import PredicateTable

Ints = npt.NDArray[np.int64]

UsedTexts: TypeAlias = dict[str, npt.NDArray[np.bool_]]
"""For each attribute a flag for each text test."""
WARM_FROM: Final = 1000
"""Subscriptions that come at once from which on the kernels of changes are loaded: many more changes may follow."""


class Replanner:
    """`planned_for`: subscriptions that the plan was made for; `added`: those that have come since."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.planned_for = 0
        self.added = 0
        self._migration: Migration | None = None

    @property
    def is_migrating(self) -> bool:
        return self._migration is not None

    def planned(self, count: int) -> None:
        """There is a plan for this many subscriptions, and no migration to another one."""
        self.planned_for, self.added, self._migration = count, 0, None

    def must_rebuild(self, count: int, coming: int) -> bool:
        """Is it better to make the new plan at once, when this many come to so many?"""
        grown = count + coming > max(self._limits.replan_factor * self.planned_for, self._limits.replan_least)
        return not self.planned_for or (grown and self._limits.rebuild_from * coming > count)

    def rebuilt(self, filing: Filing, ids: Ints, table: PredicateTable) -> tuple[Filing, UsedTexts]:
        """What is filed, and the subscriptions `ids[i]` with predicate `table[i]`, filed by a plan for all of them; and which
        text tests they use.
        """
        old_ids = np.sort(filing.store.ids())
        fresh = Attributes(filing.attributes.space, answers=filing.attributes.answers, limits=self._limits)
        old = Recoding(filing.attributes, fresh).recoded(read_all(filing, old_ids))
        fresh.texts = dict(filing.attributes.texts)
        if len(ids) >= WARM_FROM:
            warm_change_kernels()
        found = Filing(fresh, Store())
        entries = joined([old, entries_of(table, fresh)], [len(old_ids), len(ids)])
        found.insert(np.concatenate([old_ids, ids]), entries, found.make_plan(entries))
        used: UsedTexts = {}
        mark_texts(entries, used)
        return found, used

    def forget_texts(self, filing: Filing, used: UsedTexts) -> None:
        """After `rebuilt`, when the old plan is no longer in use: give up the text tests that nobody asks for any more."""
        attributes = filing.attributes
        attributes.texts = {name: attributes.texts[name] for name in used}
        with suppress(MemoryError):  # then they stay until the next plan
            attributes.keep_texts(used)

    def changed(self, filing: Filing, count: int, ids: Ints, *, came: bool) -> Filing | None:
        """These have come, or gone, and there are `count` now: begin a migration or go on with it.

        Returns the new filing when all have moved to it.
        """
        self.added += len(ids) if came else 0
        try:
            return self._go_on(filing, count, ids, came)
        except MemoryError:  # the old plan will do, until there are many more
            self.planned(count)
            return None
        except BaseException:
            self._migration = None
            raise

    def _go_on(self, filing: Filing, count: int, ids: Ints, came: bool) -> Filing | None:
        migration = self._migration
        if migration is None:
            if self._is_due(filing, count):
                self._migration = Migration(filing, self._limits)
            return None
        (migration.add if came else migration.remove)(ids)
        if migration.advance(len(ids)):
            return migration.filing
        if migration.failed:
            self._migration = None
        return None

    def _is_due(self, filing: Filing, count: int) -> bool:
        """Does the plan no longer fit, because of growth, of shrinking, of wear, or because a dictionary is nearly full?"""
        factor, least = self._limits.replan_factor, self._limits.replan_least
        grown = count > max(factor * self.planned_for, least)
        shrunk = 2 * factor * max(count, least) < self.planned_for
        worn = self.added > factor * max(self.planned_for, least)
        return grown or shrunk or worn or filing.is_crowded()
