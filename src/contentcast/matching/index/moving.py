"""A new plan, made while the index is in use: beside the old one, a little with every change, so that no change takes long.

    a sample of the entries  ->  a plan for it  ->  all subscriptions, some at a time, filed by that plan  ->  the old one goes

What is added meanwhile is added to the old one, and moves in another round when all others have; what is removed is removed
from both. Events are matched by the old one until all have moved. What nobody asks for any more (values, text constraints,
room in the arena) does not come along.
Work is counted in subscriptions, of which every change pays for a few, so that the rounds become shorter and there is a last
one.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index import bitmaps
from contentcast.matching.index.changes import DIGIT_BITS, sorted_by_digit
from contentcast.matching.index.entries import Attributes, Entries, Recoding, joined, texts_of
from contentcast.matching.index.filing import Filing
from contentcast.matching.index.reading import read_some
from contentcast.matching.index.referring import KNOWN
from contentcast.matching.index.scales import Scale
from contentcast.matching.index.store import Store

Ints = npt.NDArray[np.int64]

LEAST_SAMPLE: Final = 4_096
MOST_SAMPLE: Final = 16_384
"""Subscriptions that the plan is made for, an eighth of all within these; each stands for as many as there are for one."""
EACH: Final = 6
"""Subscriptions that a change reads. Each is read for its place in the order, then again to be filed, which counts as two: as
many come meanwhile as half of those that move, and so every round is half as long as the one before. (With five, pauses were a
sixth shorter, but moves so long that a dictionary could be full before one ended.)
"""
FILING: Final = 2
PLANNING: Final = 2
"""What a step of planning counts, times what it says itself."""
LISTING: Final = 128
"""Ids that are listed in the time of one that is read."""
PIECE: Final = 256
"""So many are moved at a time at least: a call has a price of its own."""
FRESH: Final = 1_024
"""The first so many count twice: their memory has to be handed out to them."""
FRESH_SLOTS: Final = 256
"""And one for so many slots of the table of ids, into which they go anywhere."""
LAST: Final = 256
"""A round of so few is the last one, done at once."""


class Move:
    """From `filing`, which goes on to be used, to a new one, which is ready when `advance` says so."""

    def __init__(self, filing: Filing) -> None:
        self._old = filing
        old = filing.attributes
        self.attributes = Attributes(old.space, texts=old.texts, answers=old.answers)
        self.store = Store()
        self.filing = Filing(self.attributes, self.store)
        self._recoding = Recoding(old, self.attributes)
        self.texts: dict[str, set[int]] = {}
        """The text constraints that have come along."""
        self.failed = False
        """The new plan cannot hold what there is: begin again."""
        self._come: list[Ints] = []
        self._credit = 0
        self._done = False
        self._steps = self._run()

    def advance(self, changed: int) -> bool:
        """Do what so many changes pay for; True when all is done."""
        self._credit += EACH * changed
        while self._credit >= PIECE:
            cost = next(self._steps, None)
            if cost is None:
                self.failed |= not self._done  # stopped by an exception, and not to go on
                return not self.failed
            self._credit -= cost
        return False

    def add(self, ids: Ints) -> None:
        """Subscriptions that have just come to the old one."""
        self._come.append(ids)

    def remove(self, ids: Ints) -> None:
        """Those that go, if they have come."""
        self.store.remove(ids[self.store.knows(ids)])

    def _run(self) -> Generator[int, None, None]:
        ids = self._old.store.ids()
        count = len(ids)
        sample = ids[: min(max(LEAST_SAMPLE, count // 8), MOST_SAMPLE)]  # they stand as their hashes do: any are as good
        parts = [(self._read(sample[:0]), 0)]
        yield 1 + count // LISTING
        at = 0
        while at < len(sample):
            mine = np.sort(sample[at : at + max(PIECE, self._credit)])
            at += len(mine)
            mine = mine[self._old.store.knows(mine)]
            parts.append((self._read(mine), len(mine)))
            yield max(1, len(mine))
        entries = joined([part for part, _ in parts], [ids for _, ids in parts])
        self._prepare(count)
        yield entries.count // 16
        expected = {name: len(each) for name, each in self._old.attributes.dictionaries.items()}
        for cost in self.filing.plan_steps(entries, max(1.0, count / max(1, len(sample))), expected):
            yield PLANNING * cost
        self._come = [self._old.store.ids()]
        yield 1 + count // LISTING
        while not self.failed:
            ids, self._come = np.concatenate([sample[:0], *self._come]), []
            if len(ids) <= LAST:
                self._file(ids)
                self._done = True
                return
            ids = yield from self._in_order(ids)
            at = 0
            while at < len(ids) and not self.failed:
                references = self.store.references
                fresh = int(references.state[KNOWN]) < max(FRESH, len(references.id) // FRESH_SLOTS)
                mine = ids[at : at + (PIECE // 2 + 1 if fresh else max(PIECE, self._credit // FILING))]
                self._file(mine)
                at += len(mine)
                yield FILING * len(mine) * (1 + fresh)

    def _read(self, ids: Ints) -> Entries:
        return self._recoding.recoded(read_some(self._old, ids))

    def _file(self, ids: Ints) -> None:
        """Those of them that are in the old one and not yet in the new."""
        ids = np.unique(ids)
        ids = ids[self._old.store.knows(ids) & ~self.store.knows(ids)]
        if not len(ids):
            return
        entries = self._read(ids)
        for name, numbers in texts_of(entries).items():
            self.texts.setdefault(name, set()).update(numbers)
        if self.filing.fits(entries):
            self.filing.insert(ids, entries)
        else:
            self.failed = True

    def _prepare(self, count: int) -> None:
        """What the plan is better made with: the values of small domains and the ends of ranges, where most are in use."""
        for name, dictionary in self._old.attributes.dictionaries.items():
            new = self.attributes.dictionary(name)  # each gets its bits, also one that no entry of the sample uses
            if len(dictionary) <= bitmaps.MOST_VALUES:
                for value in dictionary.values:
                    new.code(value)
        for name, scale in self._old.scales.items():
            if len(scale.points) <= 4 * count:  # else most of them are of what has gone
                self.filing.scales[name] = Scale.even(scale.points.copy())
        self.store.reserve(2 * self._old.store.free, count)

    def _in_order(self, ids: Ints) -> Generator[int, None, Ints]:
        """The subscriptions in the order in which they are best filed, those of one cell together."""
        keys = np.zeros(len(ids), np.int64)
        at = 0
        while at < len(ids):
            mine = ids[at : at + max(PIECE, self._credit)]
            mine.sort()
            held = np.flatnonzero(self._old.store.knows(mine) & (np.diff(mine, prepend=-1) != 0))
            entries = self._read(mine[held])
            if not self.filing.fits(entries):
                self.failed = True
                return ids
            keys[at + held[entries.owner]] = self.filing.sorting_keys(entries)
            at += len(mine)
            yield len(mine)
        order = np.arange(len(ids))
        for shift in range(0, 63, DIGIT_BITS):
            order = sorted_by_digit(keys, order, shift)
            yield 1 + len(ids) // 128
        return ids[order]
