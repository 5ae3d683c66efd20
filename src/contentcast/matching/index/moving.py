"""A new plan, made while the index is in use: beside the old one, a little with every change, so that no change takes long.

    a sample of the entries  ->  a plan for it  ->  all subscriptions, some at a time, filed by that plan  ->  the old one goes

What is added meanwhile is added to the old one, and moves later; what is removed is removed from both. Events are matched by
the old one until all have moved. What nobody asks for any more (values, text constraints, room in the arena) does
not come along.
Work is counted in subscriptions, of which every change pays for more than the one it brings, so that there is a last one.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index import bitmaps
from contentcast.matching.index.changes import DIGIT_BITS, sorted_by_digit
from contentcast.matching.index.entries import Attributes, Entries
from contentcast.matching.index.filing import Filing
from contentcast.matching.index.plan import BITMAPS
from contentcast.matching.index.reading import read_some
from contentcast.matching.index.recoding import Recoding, joined, mark_texts, those_of
from contentcast.matching.index.scales import Scale
from contentcast.matching.index.store import Store
from contentcast.matching.index.walking import Walk

Ints = npt.NDArray[np.int64]

LEAST_SAMPLE: Final = 4_096
MOST_SAMPLE: Final = 16_384
"""Subscriptions that the plan is made for: an eighth of all within these, or fewer if they have many entries. Each stands for
as many as there are for one.
"""
EACH: Final = 4
"""Subscriptions that a change reads. To file one counts as two: beside the one that comes, another one moves."""
EACH_IN_ORDER: Final = 6
"""The same where each is read before, for its place in the order: as many come meanwhile as half of those that move, and so
every round is half as long as the one before.
"""
HURRY: Final = 2
"""Times as many when a dictionary of the old plan will soon be full."""
FILING: Final = 2
READING: Final = 1
"""What it counts to file one, and of that to read it."""
SMALL: Final = 256
"""A change of fewer does a single step, where that is enough: each step has a price of its own, whatever it does."""
SAMPLING: Final = 3
"""What one of the sample counts: they lie anywhere."""
TOUCHING: Final = 2
"""What it counts to write to a page of memory for the first time."""
STEP: Final = 48
"""What a step of planning counts beside what it says itself."""
PASSED: Final = 16
"""Subscriptions that are looked at, and passed over, in the time of one that is read."""
PIECE: Final = 64
"""So many are moved at a time at least: a call has a price of its own."""
LAST: Final = 256
"""So few that are left are filed at once."""


class Move:
    """From `filing`, which goes on to be used, to a new one, which is ready when `advance` says so."""

    def __init__(self, filing: Filing) -> None:
        self._old = filing
        old = filing.attributes
        self.attributes = Attributes(old.space, texts=old.texts, answers=old.answers)
        self.store = Store()
        self.filing = Filing(self.attributes, self.store)
        self._recoding = Recoding(old, self.attributes)
        self._texts: dict[str, npt.NDArray[np.bool_]] = {}
        """Of each text constraint whether it has come along."""
        self.failed = False
        """The new plan cannot hold what there is: begin again."""
        self._come: list[Ints] = []
        self._ahead: Ints = np.zeros(0, np.int64)
        """Those that have been read and will be filed next."""
        self._credit, self._each = 0, EACH
        self._small, self._most = True, 0
        """Is the change that goes on a small one, and what may a step of such a one cost?"""
        self._done = False
        self._steps = self._run()

    def advance(self, changed: int) -> bool:
        """Do what so many changes pay for; True when all is done."""
        paid = self._each * changed * (HURRY if self._old.is_nearly_full() else 1)
        self._credit += paid
        self._small, self._most, before = changed < SMALL, paid + paid // 4, self._credit
        while self._credit >= FILING * PIECE:
            cost = next(self._steps, None)
            if cost is None:
                self.failed |= not self._done  # stopped by an exception, and not to go on
                return not self.failed
            self._credit -= cost
            if self._small and (self._credit < paid or before - self._credit >= paid):
                break  # a larger one before it may have left more than its own share
        return False

    def _share(self) -> int:
        """What the next step may cost."""
        return min(self._credit, self._most) if self._small else self._credit

    def add(self, ids: Ints) -> None:
        """Subscriptions that have just come to the old one."""
        self._come.append(ids)

    def remove(self, ids: Ints) -> None:
        """Those that go, if they have come."""
        self.store.remove(ids[self.store.knows(ids)])
        if len(self._ahead):
            self._ahead = self._ahead[~np.isin(self._ahead, ids)]

    def _run(self) -> Generator[int, None, None]:
        store = self._old.store
        count = store.known
        for name, dictionary in self._old.attributes.dictionaries.items():
            if len(dictionary) <= bitmaps.MOST_VALUES:  # a plan for a small domain is better made with all its values
                self._recoding.keep(name)
        sample = store.some_ids(min(max(LEAST_SAMPLE, count // 8), MOST_SAMPLE))
        parts: list[tuple[Entries, int]] = []
        at, entry_count = 0, 0
        while at < len(sample) and entry_count < MOST_SAMPLE:
            mine = np.sort(sample[at : at + max(PIECE, self._share() // SAMPLING)])
            at += len(mine)
            mine = mine[store.knows(mine)]
            parts.append((self._read(mine), len(mine)))
            entry_count += parts[-1][0].count
            yield 1 + SAMPLING * len(mine)
        yield min(self._credit, entry_count)  # each of these takes its time: with a change of its own, unless it is large
        entries = joined([part for part, _ in parts], [ids for _, ids in parts])
        yield min(self._credit, entry_count)
        self._prepare(count)
        yield min(self._credit, entry_count)
        expected = {name: len(each) for name, each in self._old.attributes.dictionaries.items()}
        times = max(1.0, count / max(1, at))
        chosen = yield from self._plan(entries, times, expected)
        if self.store.bitmaps.names:
            for pages in self.store.bitmaps.make_room(int(2 * times * np.count_nonzero(chosen == BITMAPS))):
                yield TOUCHING * pages
        self._come = []  # they are there, and move with the others
        yield from self._move_in_order() if self.store.bitmaps.names else self._move_as_met()
        for name in list(self.attributes.texts):
            yield from self._give_up_texts(name)
        self._file_others()
        self._done = True

    def _plan(self, entries: Entries, times: float, expected: dict[str, int]) -> Generator[int, None, Any]:
        """A plan for them; returns the number of each one's gate."""
        steps = self.filing.plan_steps(entries, times, expected)
        while True:
            try:
                yield STEP + next(steps)
            except StopIteration as end:
                return end.value

    def _give_up_texts(self, name: str) -> Generator[int, None, None]:
        """Those of the attribute that nobody asks for any more."""
        filed, index = self._file_others(), self.attributes.texts[name]
        unused = index.unused(self._texts.get(name, np.zeros(0, np.bool_)))
        yield 1 + len(index) // 64 + FILING * filed
        while len(unused) and not self.failed:
            filed = self._file_others()  # they may ask for one again
            mine, unused = unused[-PIECE:][::-1], unused[:-PIECE]  # the last ones stand first where pieces are shared
            used = self._texts.get(name, mine[:0])
            index.give_up([number for number in mine.tolist() if number >= len(used) or not used[number]])
            yield FILING * (len(mine) + filed)
        index.settle()

    def _file_others(self) -> int:
        """The few that have come since; returns how many."""
        ids = self._taken()
        return 0 if self.failed else self._file(ids)

    def _taken(self, most: int | None = None) -> Ints:
        """Those that have come, or the first so many of them."""
        ids = np.concatenate([np.zeros(0, np.int64), *self._come])
        self._come = [] if most is None else [ids[most:]]
        return ids[:most]

    def _few_have_come(self) -> bool:
        return sum(map(len, self._come)) <= LAST

    def _move_as_met(self) -> Generator[int, None, None]:
        """Those of a cell together: most of them will be together again."""
        way = Walk(self._old.store, self.store)
        while not self.failed and not (way.done and self._few_have_come()):
            most, looks = max(PIECE, self._share() // (READING if self._small else FILING)), 0
            mine = self._taken(most)  # soon, while they are in the caches
            if len(mine) < most:
                others, looks = way.some(most - len(mine))
                mine = np.concatenate([mine, others])
            self._ahead = read = self._not_yet_moved(mine)
            entries = self._read(read)
            yield 1 + looks // PASSED + READING * len(read)  # a small change has done enough, and the next one files
            yield from self._file_ahead(read, entries)

    def _file_ahead(self, read: Ints, entries: Entries) -> Generator[int, None, None]:
        """Those that were read, but for those that have gone since; a change that is far smaller than the one that has read
        them files some of them.
        """
        while len(self._ahead) and not self.failed:
            if len(self._ahead) < len(read):
                entries = those_of(entries, np.isin(read, self._ahead))
            read, rest = self._ahead, self._ahead[:0]
            mine = entries
            if self._small and len(read) > 2 * max(PIECE, self._most):
                first = np.arange(len(read)) < max(PIECE, self._most)
                mine, entries = those_of(entries, first), those_of(entries, ~first)
                read, rest = read[first], read[~first]
            self._insert(read, mine)
            filed, read, self._ahead = len(read), rest, rest
            yield 1 + (FILING - READING) * filed

    def _move_in_order(self) -> Generator[int, None, None]:
        """In rounds, each in the order in which bitmaps pass over most: those that ask the same side by side."""
        self._each, met = EACH_IN_ORDER, Store()
        way: Walk | _Listed = Walk(self._old.store, met)
        while not self.failed:
            ids = yield from self._in_order(way, met)
            while len(ids) and not self.failed:
                most = max(PIECE, self._share() // FILING)
                mine, ids = ids[:most], ids[most:]
                yield 1 + FILING * self._file(mine)
            if self._few_have_come():
                return
            way = _Listed(np.unique(self._taken()))

    def _read(self, ids: Ints) -> Entries:
        return self._recoding.recoded(read_some(self._old, ids))

    def _file(self, ids: Ints) -> int:
        """Those of them that are in the old one and not yet in the new; returns how many."""
        ids = self._not_yet_moved(ids)
        if len(ids):
            self._insert(ids, self._read(ids))
        return len(ids)

    def _not_yet_moved(self, ids: Ints) -> Ints:
        ids = np.unique(ids)
        return np.asarray(ids[self._old.store.knows(ids) & ~self.store.knows(ids)])

    def _insert(self, ids: Ints, entries: Entries) -> None:
        mark_texts(entries, self._texts)
        if self.filing.fits(entries):
            self.filing.insert(ids, entries)
        else:
            self.failed = True

    def _prepare(self, count: int) -> None:
        """What the plan is better made with: the ends of ranges, where most are in use, and all attributes."""
        for name in self._old.attributes.dictionaries:
            self.attributes.dictionary(name)  # each gets its bits, also one that no entry of the sample uses
        for name, scale in self._old.scales.items():
            if len(scale.points) <= 4 * count:  # else most of them are of what has gone
                self.filing.scales[name] = Scale.even(scale.points)
        self.store.reserve(2 * self._old.store.free)

    def _in_order(self, way: Walk | _Listed, met: Store) -> Generator[int, None, Ints]:
        """The ids on the way, each once; `met` knows those that the walk has met."""
        none = np.zeros(0, np.int64)
        parts = [(none, none)]
        while not way.done and not self.failed:
            some, looks = way.some(max(PIECE, self._share()))
            ids = np.unique(some)
            ids = ids[self._old.store.knows(ids)]
            if isinstance(way, Walk):
                met.fit_references(len(ids), len(ids))
                met.refer(ids, np.full(len(ids), -1))
            entries, keys = self._read(ids), np.zeros(len(ids), np.int64)
            self.failed = not self.filing.fits(entries)
            if not self.failed:
                keys[entries.owner] = self.filing.sorting_keys(entries)
            parts.append((ids, keys))
            yield 1 + looks // PASSED + len(ids)
        ids, keys = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.arange(len(ids))
        for shift in range(0, 63, DIGIT_BITS):
            order = sorted_by_digit(keys, order, shift)
            yield 1 + len(ids) // 128
        return ids[order]


class _Listed:
    """Subscriptions one after the other, as in a `Walk`."""

    def __init__(self, ids: Ints) -> None:
        self._ids = ids

    @property
    def done(self) -> bool:
        return not len(self._ids)

    def some(self, most: int) -> tuple[Ints, int]:
        found, self._ids = self._ids[:most], self._ids[most:]
        return found, len(found)
