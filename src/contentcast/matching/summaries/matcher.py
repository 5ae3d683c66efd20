"""The columns of a summary laid out for Algorithm 1: bitmaps, toggles and codes, see `kernels`.

Entries are numbered anew so that those with the same c3 stand together: an event that lacks one of their attributes then passes
whole words of the bitmaps by. An attribute that the events' space does not have, or has with another kind, is left out of c3:
the summary then says yes where it cannot know (see `Summary.grow`).
Rule: a matcher is laid out once and never changes; what it remembers is only which patterns a string satisfies.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.summaries.codes import Coder, Codes, Words
from contentcast.matching.summaries.columns import Columns, Ints, Rows
from contentcast.matching.summaries.kernels import ABSENT, ANY, find_full, lay_bitmaps, match_codes
from contentcast.matching.summaries.patterns import PatternRows
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.space import Space
from contentcast.model.values.list_bytes import list_column

LEAST_STEP: Final = 32
"""Toggles between two bitmaps, at least: fewer would cost memory, more would cost time for every event."""


class Found(NamedTuple):
    """Event e has the targets numbers[offsets[e]:offsets[e + 1]], ascending."""

    offsets: Ints
    numbers: npt.NDArray[np.int32]

    @property
    def events(self) -> Ints:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class Matcher:
    """Over the columns of any number of brokers, for events of one space."""

    def __init__(self, columns: Columns, space: Space) -> None:
        known = [name for name in space.names if name in columns.rows and columns.rows[name].kind is space.kinds[name]]
        c3 = columns.constrained(known)
        # The attribute that most entries name comes first: it leaves the fewest alive.
        by_use = np.argsort(-c3.sum(axis=0), kind="stable")
        self.names = [known[at] for at in by_use.tolist()]
        c3 = c3[:, by_use]
        order = np.lexsort(_sort_keys(columns, self.names, c3))
        self.place = np.empty(len(columns), np.int64)
        self.place[order] = np.arange(len(columns))
        self.entry = order
        self.width = max(1, -(-len(columns) // 64))
        self.step = max(LEAST_STEP, self.width // 16)
        self.valid = self._bits(np.ones(len(columns), bool))
        self._lay_out(columns, ~c3)
        owner = columns.broker_of
        begins = _begins(owner, columns.ids)
        self.subscription_of = (np.cumsum(begins) - 1)[order].astype(np.int32)
        self.subscription_ids, self.subscription_brokers = columns.ids[begins], owner[begins]
        self.broker_of = owner[order].astype(np.int32)
        self.broker_count = len(columns.brokers)

    def _lay_out(self, columns: Columns, free: npt.NDArray[np.bool_]) -> None:
        words, toggles = [self.valid], []
        bitmaps_of: list[Codes] = [np.empty(0, np.int32)]
        begins: list[Codes] = [np.empty(0, np.int32)]
        stops: list[Codes] = [np.empty(0, np.int32)]
        self.first_bitmap, self.absent_bitmap, self.code_at = np.zeros((3, len(self.names)), np.int64)
        bitmaps = 1  # the first lets every entry pass
        turned = coded = 0
        self.coders: dict[str, Coder] = {}
        self.patterns: dict[str, PatternRows] = {}
        for at, name in enumerate(self.names):
            rows = columns.rows[name]
            coder = self.coders[name] = Coder.of(rows)
            if rows.patterns:
                self.patterns[name] = PatternRows(rows, self.place)
            mine, end = self._toggles(rows, coder)
            nobody = self._bits(free[self.entry, at])
            with_absent = free[self.entry, at]
            with_absent[self.place[rows.of_row(len(rows.offsets) - 2)]] = True
            laid, bitmap_of, begin, stop = lay_bitmaps(nobody, mine, end, self.step)
            words += (laid, self._bits(with_absent))
            toggles.append(mine)
            stops.append(stop + turned)
            begins.append(begin + turned)
            bitmaps_of.append(bitmap_of + bitmaps)
            self.first_bitmap[at], self.code_at[at] = bitmaps, coded
            bitmaps += len(laid) // self.width
            self.absent_bitmap[at] = bitmaps
            bitmaps, turned, coded = bitmaps + 1, turned + len(mine), coded + len(end)
        self.words = np.concatenate(words)
        self.full: Words = find_full(self.words, self.width)
        self.toggles = np.concatenate([np.empty(0, np.int32), *toggles])
        self.bitmap_of, self.begins, self.stops = (
            np.concatenate(each).astype(np.int32) for each in (bitmaps_of, begins, stops)
        )

    def _toggles(self, rows: Rows, coder: Coder) -> tuple[npt.NDArray[np.int32], Ints]:
        """Entries in the order of the codes at which they begin or end to pass, and how many are turned over up to each
        code."""
        row = np.repeat(np.arange(rows.intervals), rows.weights[: rows.intervals])
        entry = self.place[rows.members[: len(row)]]
        first, last, entry = _disjoint(coder.first[row], coder.last[row], entry)
        at = np.concatenate([first, last + 1])
        order = np.argsort(at, kind="stable")
        return np.concatenate([entry, entry])[order].astype(np.int32), np.searchsorted(
            at[order], np.arange(coder.count), "right"
        )

    def _bits(self, truths: npt.NDArray[np.bool_]) -> Words:
        padded = np.zeros(64 * self.width, bool)
        padded[: len(truths)] = truths
        return np.packbits(padded, bitorder="little").view(np.uint64)

    # --- asking

    def encode(self, events: EventBatch) -> tuple[Codes, Codes, Ints, Ints]:
        """codes, sets, set_at and set_items as the kernel takes them."""
        codes = np.full((len(self.names), len(events)), ABSENT, np.int32)
        sets = np.full((len(self.names), len(events)), -1, np.int32)
        lists: list[Ints] = []
        for at, name in enumerate(self.names):
            if name not in events.space:
                continue
            if events.space.kinds[name] is not self.coders[name].kind:
                codes[at] = ANY
                continue
            column = list_column(events.space.kinds[name], events.records.column(events.space.position(name)))
            self.coders[name].encode(column, codes[at])
            if name in self.patterns:
                mine = self.patterns[name].encode(column)
                sets[at] = np.where(mine < 0, -1, mine + len(lists))
                lists += self.patterns[name].sets
        set_at = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        return codes, sets, set_at, np.concatenate([np.empty(0, np.int64), *lists])

    def subscriptions(self, events: EventBatch) -> Found:
        """Which subscriptions each event may match, as positions in `subscription_ids`."""
        return self.run(*self.encode(events), self.subscription_of, len(self.subscription_ids))

    def brokers(self, events: EventBatch) -> Found:
        """Which brokers each event may concern."""
        return self.run(*self.encode(events), self.broker_of, self.broker_count)

    def run(
        self, codes: Codes, sets: Codes, set_at: Ints, set_items: Ints, target_of: npt.NDArray[np.int32], targets: int
    ) -> Found:
        longest = int(np.diff(set_at).max(initial=0))
        offsets, found = match_codes(
            codes, sets, set_at, set_items, self.words, self.full, self.bitmap_of, self.first_bitmap, self.absent_bitmap,
            self.toggles, self.begins, self.stops, self.code_at, self.valid, target_of, targets,
            len(self.names) * (self.step + longest) + 1,
        )  # fmt: skip
        return Found(offsets, found)


def _sort_keys(columns: Columns, names: list[str], c3: npt.NDArray[np.bool_]) -> list[Ints]:
    """For np.lexsort: by c3 first, then by the first row of each attribute, so that what passes together stands together."""
    keys: list[Ints] = [np.zeros(len(columns), np.int64)]
    for name in reversed(names):
        rows = columns.rows[name]
        first = np.full(len(columns), -1, np.int64)
        row = np.repeat(np.arange(len(rows.offsets) - 1), rows.weights)
        first[rows.members[::-1]] = row[::-1]
        keys.append(first)
    return keys + [c3[:, at].astype(np.int64) for at in reversed(range(len(names)))]


def _begins(broker: Ints, ids: Ints) -> npt.NDArray[np.bool_]:
    """Where the entries of a subscription begin."""
    found = np.ones(len(ids), bool)
    found[1:] = (broker[1:] != broker[:-1]) | (ids[1:] != ids[:-1])
    return found


def _disjoint(first: Ints, last: Ints, entry: Ints) -> tuple[Ints, Ints, Ints]:
    """Intervals of one entry that overlap or touch as one: an entry that was turned over twice would not pass."""
    if not len(entry):
        return first, last, entry
    order = np.lexsort((first, entry))
    first, last, entry = first[order], last[order], entry[order]
    if (entry[1:] != entry[:-1]).all():
        return first, last, entry
    apart = int(last.max()) + 2  # more than any code, so that one entry's reach ends before the next entry begins
    reach = np.maximum.accumulate(entry * apart + last)
    begins = np.ones(len(entry), bool)
    begins[1:] = entry[1:] * apart + first[1:] > reach[:-1] + 1
    begins[1:] |= entry[1:] != entry[:-1]
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(entry)) - 1
    return first[starts], reach[ends] - entry[ends] * apart, entry[starts]
