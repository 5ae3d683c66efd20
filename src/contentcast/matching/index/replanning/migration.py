"""A new plan, made while the index is in use: beside the old one, a little with every change, so that no change takes long.

    a sample of the entries  ->  a plan for it  ->  all subscriptions, some at a time, filed by that plan  ->  the old one goes

What is added meanwhile is added to the old filing and moves later; what is removed is removed from both. Events are matched by
the old filing until all have moved. Values, text tests and room in the arena that nobody uses any more do not come along.
Work is counted in units of half a subscription that is filed. Every change pays for more than the subscription that it brings,
so the migration comes to an end.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.cells.reading import read_some
from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.limits import Limits
from contentcast.matching.index.machine.sorting import KEY_DIGIT_BITS, sorted_by_digit
from contentcast.matching.index.planning.bitmap_plan import MOST_VALUES
from contentcast.matching.index.planning.gates import BITMAPS
from contentcast.matching.index.replanning.cell_cursor import CellCursor
from contentcast.matching.index.replanning.recoding import Recoding, mark_texts
from contentcast.matching.index.values.entries import Attributes, Entries, joined
from contentcast.matching.index.values.order_codes import OrderCodes

Ints = npt.NDArray[np.int64]

HURRY: Final = 2
"""A change pays this many times as much when a dictionary of the old plan will soon be full."""
FILING: Final = 2
"""Work of reading a subscription and filing it."""
SAMPLING: Final = 3
"""Work of reading a subscription of the sample: they lie anywhere in memory."""
TOUCHING: Final = 2
"""Work of writing to a page of memory for the first time."""
PASSED: Final = 16
"""Subscriptions that are looked at and passed over in the time of one that is read."""


class Migration:
    """From `old`, which goes on to be used, to `filing`, which is ready when `advance` says so."""

    def __init__(self, old: Filing, limits: Limits) -> None:
        self._old, self._limits = old, limits
        before = old.attributes
        self.attributes = Attributes(before.space, texts=before.texts, answers=before.answers, limits=before.limits)
        self.store = Store()
        self.filing = Filing(self.attributes, self.store)
        self._recoding = Recoding(before, self.attributes)
        self._texts: dict[str, npt.NDArray[np.bool_]] = {}
        """A flag for each text test: has it come along?"""
        self.failed = False
        """The new plan cannot hold what there is: begin again."""
        self._come: list[Ints] = []
        """Subscriptions that have come to the old filing since their turn in it was over."""
        self._credit, self._paid_per_change = 0, limits.paid_per_change
        self._done = False
        self._steps = self._run()

    def advance(self, changed: int) -> bool:
        """Do the work that this many changes pay for; True when all is done."""
        self._credit += self._paid_per_change * changed * (HURRY if self._old.is_nearly_full() else 1)
        while self._credit >= FILING * self._limits.piece:
            work = next(self._steps, None)
            if work is None:
                self.failed |= not self._done  # stopped by an exception, and not to go on
                return not self.failed
            self._credit -= work
        return False

    def add(self, ids: Ints) -> None:
        """Subscriptions that have just come to the old filing."""
        self._come.append(ids)

    def remove(self, ids: Ints) -> None:
        """Subscriptions that go, if they have moved already."""
        self.store.remove(ids[self.store.knows(ids)])

    def _run(self) -> Generator[int, None, None]:
        store, limits = self._old.store, self._limits
        count = store.known
        for name, dictionary in self._old.attributes.dictionaries.items():
            if len(dictionary) <= MOST_VALUES:  # a plan for a small domain is better made with all its values
                self._recoding.keep(name)
        sample = store.some_ids(min(max(limits.least_sample, count // 8), limits.most_sample))
        parts: list[tuple[Entries, int]] = []
        at, entry_count = 0, 0
        while at < len(sample) and entry_count < limits.most_sample:
            mine = np.sort(sample[at : at + max(limits.piece, self._credit // SAMPLING)])
            at += len(mine)
            mine = mine[store.knows(mine)]
            parts.append((self._read(mine), len(mine)))
            entry_count += parts[-1][0].count
            yield 1 + SAMPLING * len(mine)
        yield min(self._credit, entry_count)  # each of these takes its time: with a change of its own, unless that is large
        entries = joined([part for part, _ in parts], [ids for _, ids in parts])
        yield min(self._credit, entry_count)
        self._prepare(count)
        yield min(self._credit, entry_count)
        expected = {name: len(each) for name, each in self._old.attributes.dictionaries.items()}
        times = max(1.0, count / max(1, at))
        chosen = yield from self._plan(entries, times, expected)
        if self.filing.plan.in_bitmaps:
            for pages in self.store.bitmaps.make_room(int(2 * times * np.count_nonzero(chosen == BITMAPS))):
                yield TOUCHING * pages
        self._come = []  # they are there, and move with the others
        yield from self._move_in_order() if self.filing.plan.in_bitmaps else self._move_as_met()
        for name in list(self.attributes.texts):
            yield from self._give_up_texts(name)
        self._file_others()
        self._done = True

    def _prepare(self, count: int) -> None:
        """What the plan is better made with: the ends of ranges, where most are in use, and all attributes."""
        for name in self._old.attributes.dictionaries:
            self.attributes.dictionary(name)  # each gets its bits, also one that no entry of the sample uses
        for name, coding in self._old.order_codes.items():
            if len(coding.points) <= 4 * count:  # else most of them belong to ranges that have gone
                self.filing.order_codes[name] = OrderCodes.even(coding.points)
        self.store.reserve(2 * self._old.store.free)

    def _plan(self, entries: Entries, times: float, expected: dict[str, int]) -> Generator[int, None, Any]:
        """A plan for them; returns the number of each one's gate."""
        steps = self.filing.make_plan_steps(entries, times, expected)
        while True:
            try:
                yield self._limits.step_work + next(steps)
            except StopIteration as end:
                return end.value

    # --- moving

    def _move_as_met(self) -> Generator[int, None, None]:
        """Those of a cell together: most of them will be together again."""
        cursor = CellCursor(self._old.store, self.store)
        while not self.failed and not (cursor.done and self._few_have_come()):
            most, looks = max(self._limits.piece, self._credit // FILING), 0
            mine = self._taken(most)  # soon, while they are in the caches
            if len(mine) < most:
                others, looks = cursor.next_ids(most - len(mine))
                mine = np.concatenate([mine, others])
            yield 1 + looks // PASSED + FILING * self._file(mine)

    def _move_in_order(self) -> Generator[int, None, None]:
        """In rounds, each in the order in which bitmaps pass over most: those that ask the same side by side."""
        self._paid_per_change, met = self._limits.paid_in_order, Store()
        way: CellCursor | _Listed = CellCursor(self._old.store, met)
        while not self.failed:
            ids = yield from self._in_order(way, met)
            while len(ids) and not self.failed:
                most = max(self._limits.piece, self._credit // FILING)
                mine, ids = ids[:most], ids[most:]
                yield 1 + FILING * self._file(mine)
            if self._few_have_come():
                return
            way = _Listed(np.unique(self._taken()))

    def _in_order(self, way: CellCursor | _Listed, met: Store) -> Generator[int, None, Ints]:
        """The ids on the way, each once; `met` knows those that the cursor has met."""
        none = np.zeros(0, np.int64)
        parts = [(none, none)]
        while not way.done and not self.failed:
            some, looks = way.next_ids(max(self._limits.piece, self._credit))
            ids = np.unique(some)
            ids = ids[self._old.store.knows(ids)]
            if isinstance(way, CellCursor):
                met.fit_id_table(len(ids), len(ids))
                met.refer(ids, np.full(len(ids), -1))
            entries, keys = self._read(ids), np.zeros(len(ids), np.int64)
            self.failed = not self.filing.plan.fits(entries)
            if not self.failed:
                keys[entries.owner] = self.filing.plan.sorting_keys(entries)
            parts.append((ids, keys))
            yield 1 + looks // PASSED + len(ids)
        ids, keys = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.arange(len(ids))
        for shift in range(0, 63, KEY_DIGIT_BITS):
            order = sorted_by_digit(keys, order, shift)
            yield 1 + len(ids) // 128
        return ids[order]

    def _few_have_come(self) -> bool:
        return sum(map(len, self._come)) <= self._limits.filed_at_once

    def _taken(self, most: int | None = None) -> Ints:
        """Those that have come, or the first `most` of them."""
        ids = np.concatenate([np.zeros(0, np.int64), *self._come])
        self._come = [] if most is None else [ids[most:]]
        return ids[:most]

    def _file_others(self) -> int:
        """The few that have come since; returns how many."""
        ids = self._taken()
        return 0 if self.failed else self._file(ids)

    def _file(self, ids: Ints) -> int:
        """Those of them that are in the old filing and not yet in the new one; returns how many."""
        ids = np.unique(ids)
        ids = np.asarray(ids[self._old.store.knows(ids) & ~self.store.knows(ids)])
        if len(ids):
            entries = self._read(ids)
            mark_texts(entries, self._texts)
            self.failed |= not self.filing.plan.fits(entries)
            if not self.failed:
                self.filing.insert(ids, entries)
        return len(ids)

    def _read(self, ids: Ints) -> Entries:
        return self._recoding.recoded(read_some(self._old, ids))

    # --- texts

    def _give_up_texts(self, name: str) -> Generator[int, None, None]:
        """The text tests of the attribute that nobody asks for any more."""
        piece = self._limits.piece
        filed, index = self._file_others(), self.attributes.texts[name]
        unused = index.unused(self._texts.get(name, np.zeros(0, np.bool_)))
        yield 1 + len(index) // 64 + FILING * filed
        while len(unused) and not self.failed:
            filed = self._file_others()  # they may ask for one again
            mine, unused = unused[-piece:][::-1], unused[:-piece]  # the last ones stand first where pieces are shared
            used = self._texts.get(name, mine[:0])
            index.give_up([number for number in mine.tolist() if number >= len(used) or not used[number]])
            yield FILING * (len(mine) + filed)
        index.settle()


class _Listed:
    """Subscriptions one after the other, as a `CellCursor` gives them."""

    def __init__(self, ids: Ints) -> None:
        self._ids = ids

    @property
    def done(self) -> bool:
        return not len(self._ids)

    def next_ids(self, most: int) -> tuple[Ints, int]:
        found, self._ids = self._ids[:most], self._ids[most:]
        return found, len(found)
