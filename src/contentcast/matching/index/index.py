"""The index: subscriptions by columns in, matches by columns out.

The walk of a batch, from the top of `match_split` down:

    1  views      the arrays of the index by address, made once after a change (`views`)
    2  encode     each column that some subscription constrains becomes numbers, once per batch (`encoding`)
    3  match      the kernel walks gates, cells and bitmaps for a stretch of events at a time (`kernel`)
    4  Matches    the ids of each event, one after the other (`matches`)

and of a subscription, from `add` down: its predicate becomes entries (`entries`), the plan gives each a route (`routes`), and
it is filed there (`filing`). After every change `replanner` looks whether the plan still fits.
Rule: the entries of a subscription accept what its predicate accepts, whatever the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index.cells import id_table as id_tables
from contentcast.matching.index.cells.filing import Filing
from contentcast.matching.index.cells.reading import read_predicate
from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.limits import DEFAULT, Limits
from contentcast.matching.index.machine import layout
from contentcast.matching.index.machine.result_buffers import result_buffer
from contentcast.matching.index.matching.encoding import encode
from contentcast.matching.index.matching.kernel_call import match_many
from contentcast.matching.index.matching.matches import Matches, Run
from contentcast.matching.index.matching.one_event import SingleMatcher
from contentcast.matching.index.matching.views import Views, views_of
from contentcast.matching.index.replanning.replanner import Replanner
from contentcast.matching.index.values.entries import Attributes, entries_of
from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space
from contentcast.uninterrupted import Uninterrupted

Ints = npt.NDArray[np.int64]

MOST_IDS: Final = 2**62
"""Ids are from 0 up to, and without, this number."""
_NO_STAMPS: Final = np.zeros(0, np.int64)


class CellIndex:
    """Subscriptions of one space. Reading from several threads is safe, given a lock as `guard`; whoever changes it must see to
    it that nobody reads meanwhile (`MatchIndex` does).
    """

    def __init__(self, space: Space, guard: AbstractContextManager[Any] | None = None, limits: Limits = DEFAULT) -> None:
        self.space = space
        self.limits = limits
        self.guard = guard or nullcontext()
        """Held while a reader makes what the next one will find made."""
        self.filing = self._empty_filing()
        self.replanner = Replanner(limits)
        self.count = 0
        self.names: dict[int, str] = {}
        """What users call the ids, if they use texts; only kept and saved here."""
        self.version = 0
        """Counts the changes: whoever reads in pieces looks whether it is still the same."""
        self.one: SingleMatcher | None = None
        """The matcher of single events for the index as it is, if it was made."""
        self._one_before: SingleMatcher | None = None
        self._views: Views | None = None
        self._views_before: Views | None = None
        """The last ones that were made: the next ones take from them what has not changed."""
        self.before_first_use: Callable[[], None] | None = None
        """Looks whether the arrays of a loaded file are what was saved."""
        self._per_event = 8.0
        """Ids that an event of the last batch had, on average."""

    def _empty_filing(self) -> Filing:
        return Filing(Attributes(self.space, limits=self.limits), Store())

    @property
    def store(self) -> Store:
        return self.filing.store

    def _check_first_use(self) -> None:
        if self.before_first_use is not None:
            self.before_first_use()
            self.before_first_use = None

    @property
    def attributes(self) -> Attributes:
        return self.filing.attributes

    def __len__(self) -> int:
        return self.count

    def __contains__(self, subscription: int) -> bool:
        self._check_first_use()
        return bool(id_tables.find_id(self.store.id_table, subscription) >= 0)

    def ids(self) -> Ints:
        self._check_first_use()
        return np.sort(self.store.ids())

    # --- changing

    def add(self, ids: Ints, table: PredicateTable) -> None:
        """Subscriptions `ids[i]` with predicate `table[i]`; none of the ids may be there yet."""
        with Uninterrupted():
            self._check_new(ids)
        if not len(ids):
            return
        self._before_change()
        attributes, sizes = self.attributes, self.attributes.sizes()
        try:
            rebuild = self.replanner.must_rebuild(self.count, len(ids))
            entries = None if rebuild else entries_of(table, attributes)
            if entries is None or not self.filing.plan.fits(entries):
                self._rebuild(ids, table)
                return
        except BaseException:  # also one that waited until a new plan was in use, which has attributes of its own
            attributes.shrink(sizes)
            raise
        with Uninterrupted():
            self.filing.insert(ids, entries)
            self.count += len(ids)
            self._after_change(ids, came=True)

    def remove(self, ids: Ints) -> None:
        """All of them, or none if one is not there; each is given once."""
        with Uninterrupted():  # from the beginning: Numba does not survive Ctrl-C while it loads a kernel
            self._check_first_use()
            count = id_tables.count_references(self.store.id_table, ids)
            if count < 0:
                raise ContentcastError(f"there is no subscription {int(ids[-1 - count])}")
            self._before_change(arrays_stay=True)
            self.store.remove(ids)
            self.count -= len(ids)
            self._after_change(ids, came=False)

    def _check_new(self, ids: Ints) -> None:
        self._check_first_use()
        at, why = id_tables.first_unfit(self.store.id_table, ids, MOST_IDS)
        if why == id_tables.TOO_LARGE:
            raise ContentcastError(f"subscription ids are from 0 to 2^62 - 1, not {int(ids[at])}")
        if why == id_tables.KNOWN_ALREADY:
            raise ContentcastError(f"subscription {int(ids[at])} is already there; remove it first")
        if why == id_tables.TWICE:
            raise ContentcastError(f"subscription {int(ids[at])} is given twice")

    def _before_change(self, *, arrays_stay: bool = False) -> None:
        """Views are good no longer, unless the arrays stay where they are: nobody may keep those of a mapped file."""
        self.version += 1
        if not arrays_stay or not self.store.is_own:
            self._views = self.one = None
            if not self.store.is_own:
                self._views_before = self._one_before = None
            self.store.thaw()

    def _after_change(self, ids: Ints, came: bool) -> None:
        if not self.count:
            with suppress(MemoryError):  # one that is empty will do
                self._use(self._empty_filing())
            return
        ready = self.replanner.changed(self.filing, self.count, ids, came=came)
        if ready is not None:
            self._use(ready)

    def _rebuild(self, ids: Ints, table: PredicateTable) -> None:
        """Plan for what is there and what comes, and file it all."""
        filing, texts = self.replanner.rebuilt(self.filing, ids, table)
        with Uninterrupted():
            self.count += len(ids)
            self._use(filing)
            self.replanner.forget_texts(filing, texts)

    def _use(self, filing: Filing) -> None:
        """Go on with this filing, which holds all subscriptions there are."""
        self.filing = filing
        self.replanner.planned(self.count)
        self._views = self._views_before = self.one = self._one_before = None

    # --- looking inside

    def predicate(self, subscription: int) -> Predicate:
        """What a subscription asks for, read back from its entries."""
        if subscription not in self:
            raise ContentcastError(f"there is no subscription {subscription}")
        return read_predicate(self.filing, subscription)

    def statistics(self) -> dict[str, Any]:
        self._check_first_use()
        store, replanner = self.store, self.replanner
        cells = np.arange(store.cell_count)
        return {
            "subscriptions": self.count,
            "entries": int(store.count[cells].sum()) + store.bitmaps.count,
            "in_bitmaps": store.bitmaps.count,
            "cells": store.cell_count,
            "bytes": store.bytes_used(),
            "values": {name: len(each) for name, each in self.attributes.dictionaries.items()},
            "range_ends": {name: len(each.points) for name, each in self.filing.order_codes.items()},
            "text_tests": {name: each.constraint_count for name, each in self.attributes.texts.items()},
            "planned_for": replanner.planned_for,
            "migrating": replanner.is_migrating,
            "groups": [
                {
                    "gate": group.gate.kind,
                    "on": group.gate.attribute or self._attributes_under(group.gate.word, group.gate.mask),
                    "level": group.level,
                    "tests": [f"{kind} {arg}" for kind, arg in group.tests],
                    "entries": int(store.count[cells[store.group_of[cells] == number]].sum()),
                }
                for number, group in enumerate(store.groups)
            ],
        }

    def _attributes_under(self, word: int, mask: int) -> str:
        names = [
            name
            for name, each in self.attributes.dictionaries.items()
            if each.word == word and mask & (((1 << each.bits) - 1) << each.shift)
        ]
        return ", ".join(names)

    # --- matching

    def views(self) -> Views:
        if self._views is None:
            with self.guard:
                self._check_first_use()
                if self._views is None:
                    self._views = self._views_before = views_of(self.filing, self._views_before)
        return self._views

    def match(self, records: pa.RecordBatch) -> Matches:
        """The matches of a batch, in one piece."""
        if records.num_rows <= self.limits.few_events:
            found = self._match_few(records)
            if found is not None:
                return found
        pieces = [found for _, found in self.match_split(records, 1, map)]
        if len(pieces) == 1:
            return pieces[0]
        bases = np.cumsum([0, *(len(each.ids) for each in pieces)])
        ends = [each.ends + bases[at] for at, each in enumerate(pieces)]
        ids = np.concatenate([np.zeros(0, np.int64), *(each.ids for each in pieces)])
        return Matches(np.concatenate([np.zeros(0, np.int64), *ends]), ids, ids, self.limits)

    def _match_few(self, records: pa.RecordBatch) -> Matches | None:
        """As `match_split` does it, with as few calls as there can be; None if there are more matches than expected."""
        views, count = self._views or self.views(), records.num_rows
        room = int(2 * self._per_event * count) + 2 * layout.BLOCK
        if room >= self.limits.streamed_from:
            return None
        _alive, batch = encode(views, records, self.guard, self.limits)
        several = self.store.several_count
        out, ends = np.empty(room + layout.SLACK, np.int64), np.empty(count, np.int64)
        stamps = np.zeros(several, np.int64) if several else _NO_STAMPS
        if match_many(views.header_at, batch, 0, count, out, ends, False, stamps) < count:
            return None
        found = int(ends[-1]) if count else 0
        self._per_event += (found / max(1, count) - self._per_event) * count / self.limits.few_events
        return Matches(ends, out[:found], out, self.limits)

    def match_split(self, records: pa.RecordBatch, parts: int, run: Run) -> list[tuple[int, Matches]]:
        """The matches of a batch, which is encoded once and matched in this many parts: one or more pieces of each, in order.

        The first piece has room for all, if there are about as many matches as in the batch before.
        """
        views = self.views()
        alive, batch = encode(views, records, self.guard, self.limits)  # the kernel reads the arrays by their addresses
        bounds = [records.num_rows * part // parts for part in range(parts + 1)]

        def part(number: int, _alive: Any = alive) -> list[tuple[int, Matches]]:
            begin, end = bounds[number], bounds[number + 1]
            return list(self._match_range(views, batch, begin, end, None, records.num_rows if number == 0 else end - begin))

        pieces = [piece for found in run(part, range(parts)) for piece in found]
        if records.num_rows:
            self._per_event = max(1.0, sum(len(each.ids) for _, each in pieces) / records.num_rows)
        return pieces

    def match_bounded(self, records: pa.RecordBatch, most: int) -> Iterator[tuple[int, Matches]]:
        """The matches in pieces of at most `most` ids, or one event's; each with the number of its first event."""
        views = self.views()
        _alive, batch = encode(views, records, self.guard, self.limits)
        yield from self._match_range(views, batch, 0, records.num_rows, most, records.num_rows)

    def single(self) -> SingleMatcher:
        """The matcher of one event at a time, for the index as it is now."""
        if self.one is None:
            self.one = self._one_before = SingleMatcher(self.views(), self.guard, self.limits, self._one_before)
        return self.one

    def _match_range(
        self, views: Views, batch: int, begin: int, end: int, most: int | None, events: int
    ) -> Iterator[tuple[int, Matches]]:
        """The events of a batch from `begin` to `end`. Without `most`, with room for as many ids as this many `events` will
        have, if they have as many as those so far, or as those of the batch before.
        """
        stamps = np.zeros(self.store.several_count, np.int64)
        ends = np.empty(end, np.int64)
        done, found, room, until, version = begin, 0, most or 0, end, self.version
        while done < end:
            if self.version != version:
                raise ContentcastError("the index was changed while its matches were read; read them all first")
            if most is None and room == 0:
                per_event = found / (done - begin) if done > begin else self._per_event
                room = int(per_event * (events - done + begin) * 1.2) + 2 * layout.BLOCK
            out = result_buffer(room + layout.SLACK)
            if most is not None:
                out = out[: room + layout.SLACK]
            following = match_many(views.header_at, batch, done, until, out, ends, room >= self.limits.streamed_from, stamps)
            stamps[:] = 0
            if following == done:
                room = 2 * room + layout.BLOCK  # not even one event fits; a cell's ids are counted before they are tested
                until = done + 1 if most is not None else end
                continue
            ids = out[: int(ends[following - 1])]
            mine = ends[done:following]
            yield done, Matches(mine if following == end else mine.copy(), ids, out, self.limits)
            done, found, room, until = following, found + len(ids), most or 0, end
