"""The index: subscriptions by columns in, matches by columns out.

The walk of a batch: `encode` turns each column that some subscription constrains into codes, keys and text answers (once per
batch); `kernels.match` walks the groups for each event; the ids come back with the place where each event's end.
Rule: what a subscription's predicate accepts, its entries accept, whatever the plan; the plan is made when the first
subscriptions come and again when it no longer fits those there are (`_keep_house`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index import layout, referring
from contentcast.matching.index.answers import MOST_REMEMBERED
from contentcast.matching.index.by_address import addresses, match_many
from contentcast.matching.index.codes import column_keys
from contentcast.matching.index.entries import Attributes, entries_of
from contentcast.matching.index.filing import Filing
from contentcast.matching.index.groups import group_arrays
from contentcast.matching.index.loading import load_changing_kernels
from contentcast.matching.index.matches import STREAMED_FROM, Matches, Run
from contentcast.matching.index.memory import planes
from contentcast.matching.index.moving import Move
from contentcast.matching.index.reading import read_all, read_predicate
from contentcast.matching.index.recoding import Recoding, joined, mark_texts
from contentcast.matching.index.room import Leaving, room_for
from contentcast.matching.index.single import SingleMatcher
from contentcast.matching.index.store import Store
from contentcast.matching.index.whole import Whole
from contentcast.model.errors import ContentcastError
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space

Ints = npt.NDArray[np.int64]

REPLAN_FACTOR: Final = 3
"""The plan is made anew when there are this many times the subscriptions it was made for ..."""
REPLAN_LEAST: Final = 2000
"""... and at least this many."""
BULK: Final = 8
"""If this many times what comes at once is more than there is, the new plan is made there and then; else by `moving`."""
MANY: Final = 1000
"""Whoever adds so many will want changes to be quick."""
MOST_IDS: Final = 2**62
_NO_TEXTS: Final = (
    np.zeros((0, 0), np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32),
    np.zeros(1, np.int64),
)  # fmt: skip
"""What an encoded batch has where no entry tests texts."""
_AT_NO_TEXTS: Final = addresses(_NO_TEXTS)


class Views(NamedTuple):
    """What the kernels read, and where an attribute's codes, keys and texts stand in an encoded batch."""

    groups: layout.Groups
    cells: layout.Cells
    bits: layout.Bits
    code_column: dict[str, int]
    key_column: dict[str, int]
    text_column: dict[str, int]
    header: Ints
    alive: tuple[Any, ...]  # the arrays whose addresses are in the header


class CellIndex:
    """Ids are 0 <= id < 2^62. Reading from several threads is safe, given a lock as `guard`; changing while another thread
    reads is not.
    """

    def __init__(self, space: Space, guard: AbstractContextManager[Any] | None = None) -> None:
        self.space = space
        self.guard = guard or nullcontext()
        """Held while a reader makes what the next one will find made."""
        self.attributes = Attributes(space)
        self.store = Store()
        self.filing = Filing(self.attributes, self.store)
        self.planned_for = 0
        self.worn = 0
        """Subscriptions that have come since the plan was made."""
        self.count = 0
        self._move: Move | None = None
        self._leaving = Leaving()
        """Arrays of the plan before a move, and smaller ones, of which a little is given back with each change."""
        self._per_event = 8.0
        self.one: SingleMatcher | None = None
        """What `single` has made for the index as it is, if it has."""
        self._views: Views | None = None

    def __len__(self) -> int:
        return self.count

    def __contains__(self, subscription: int) -> bool:
        return bool(referring.find_id(self.store.references, subscription) >= 0)

    def ids(self) -> Ints:
        return np.sort(self.store.ids())

    # --- changing

    def add(self, ids: Ints, table: PredicateTable) -> None:
        """Subscriptions `ids[i]` with predicate `table[i]`; none of the ids may be there yet."""
        self._check_new(ids)
        if not len(ids):
            return
        self.store.thaw()
        self._views = self.one = None
        grown = self.count + len(ids) > max(REPLAN_FACTOR * self.planned_for, REPLAN_LEAST)
        many = not self.planned_for or (grown and BULK * len(ids) > self.count)
        attributes, sizes = self.attributes, self.attributes.sizes()
        try:
            entries = None if many else entries_of(table, self.attributes)
            if entries is None or not self.filing.fits(entries):
                self._plan_anew(ids, table)
                return
        except BaseException:  # also one that waited until a new plan was in use, which has attributes of its own
            attributes.shrink(sizes)
            raise
        with Whole():
            self.filing.insert(ids, entries)
            self.count += len(ids)
            self.worn += len(ids)
            self._keep_house(ids, came=True)

    def _check_new(self, ids: Ints) -> None:
        at, why = referring.first_unfit(self.store.references, ids, MOST_IDS)
        if why == referring.TOO_LARGE:
            raise ContentcastError(f"subscription ids are from 0 to 2^62 - 1, not {int(ids[at])}")
        if why == referring.KNOWN_ALREADY:
            raise ContentcastError(f"subscription {int(ids[at])} is already there; remove it first")
        if why == referring.TWICE:
            raise ContentcastError(f"subscription {int(ids[at])} is given twice")

    def _plan_anew(self, ids: Ints, table: PredicateTable) -> None:
        """Plan for what is there and what comes, and file it all."""
        old_ids = self.ids()
        fresh = Attributes(self.space, answers=self.attributes.answers)
        old = Recoding(self.attributes, fresh).recoded(read_all(self.filing, old_ids))
        fresh.texts = dict(self.attributes.texts)
        if len(ids) >= MANY:
            load_changing_kernels()
        filing = Filing(fresh, Store())
        entries = joined([old, entries_of(table, fresh)], [len(old_ids), len(ids)])
        filing.insert(np.concatenate([old_ids, ids]), entries, filing.plan(entries))
        used: dict[str, npt.NDArray[np.bool_]] = {}
        mark_texts(entries, used)
        with Whole():
            self.count += len(ids)
            self._use(filing)
            fresh.texts = {name: fresh.texts[name] for name in used}
            with suppress(MemoryError):  # then they stay until the next plan
                fresh.keep_texts(used)

    def remove(self, ids: Ints) -> None:
        """All of them, or none if one is not there; each is given once."""
        count = referring.count_references(self.store.references, ids)
        if count < 0:
            raise ContentcastError(f"there is no subscription {int(ids[-1 - count])}")
        if self.store.thaw():
            self._views = self.one = None
        with Whole():
            self.store.remove(ids)
            self.count -= len(ids)
            self._keep_house(ids, came=False)

    def _keep_house(self, ids: Ints, came: bool) -> None:
        """These came, or went: begin to move to a new plan when the one there is no longer fits, or go on with it."""
        if self.store.left:
            self._leaving.add(self.store.left)
            self.store.left = []
        self._leaving.give_back_some(len(ids))
        if not self.count:
            self._move = None
            with suppress(MemoryError):  # one that is empty will do
                self._use(Filing(Attributes(self.space), Store()))
            return
        try:
            self._go_on_moving(ids, came)
        except MemoryError:  # the old plan goes on to do, until there are many more
            self._move, self.planned_for, self.worn = None, self.count, 0
        except BaseException:
            self._move = None
            raise

    def _go_on_moving(self, ids: Ints, came: bool) -> None:
        if self._move is None:
            grown = self.count > max(REPLAN_FACTOR * self.planned_for, REPLAN_LEAST)
            shrunk = 2 * REPLAN_FACTOR * max(self.count, REPLAN_LEAST) < self.planned_for
            worn = self.worn > REPLAN_FACTOR * max(self.planned_for, REPLAN_LEAST)
            if grown or shrunk or worn or self.filing.is_crowded():
                self._move = Move(self.filing)
            return
        (self._move.add if came else self._move.remove)(ids)
        if self._move.advance(len(ids)):
            left = self.store.arrays().values()
            self._use(self._move.filing)
            self._leaving.add(left)
        elif self._move.failed:
            self._move = None

    def _use(self, filing: Filing) -> None:
        """Go on with this one, which holds all there is."""
        self._leaving = Leaving()
        self.attributes, self.store, self.filing = filing.attributes, filing.store, filing
        self.planned_for, self.worn = self.count, 0
        self._move = self._views = self.one = None

    # --- looking inside

    def predicate(self, subscription: int) -> Predicate:
        """What a subscription asks for, read back from its entries."""
        if subscription not in self:
            raise ContentcastError(f"there is no subscription {subscription}")
        return read_predicate(self.filing, subscription)

    def statistics(self) -> dict[str, Any]:
        store = self.store
        cells = np.arange(store.cell_count)
        return {
            "subscriptions": self.count,
            "entries": int(store.count[cells].sum()) + store.bitmaps.count,
            "in_bitmaps": store.bitmaps.count,
            "cells": store.cell_count,
            "bytes": store.bytes_used(),
            "groups": [
                {
                    "gate": group.gate.kind,
                    "on": group.gate.attribute or self._attributes_under(group.gate.word, group.gate.mask),
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
                self._views = self._views or self._make_views()
        return self._views

    def _make_views(self) -> Views:
        for dictionary in self.attributes.dictionaries.values():
            dictionary.table()
        sets = self.attributes.sets
        starts = np.zeros(len(sets) + 1, np.int64)
        np.cumsum([len(each) // 2 for each in sets], out=starts[1:])
        pairs = np.array([key for each in sets for key in each], np.int64)
        tests = [test for group in self.store.groups for test in group.tests]
        coded = {name for kind, name in tests if kind in ("range", "low", "high")}
        coded |= {group.gate.attribute for group in self.store.groups if group.gate.kind == "cells"}
        code_column = {name: at for at, name in enumerate(sorted(coded))}
        key_column = {name: at for at, name in enumerate(sorted({name for kind, name in tests if kind == "set"}))}
        text_column = {name: at for at, name in enumerate(self.attributes.texts)}
        groups = group_arrays(self.store.groups, code_column, key_column, text_column)
        cells = self.store.cells(starts, pairs)
        bits = self.store.bitmaps.view(self.attributes.dictionaries)
        arrays = [*groups, *cells, *bits]
        scales = [self.filing.scales[name] for name in code_column]
        for name, scale in zip(code_column, scales, strict=True):
            arrays += [scale.marks(self.filing.cuts(name)), scale.heads()[0]]
        rows = self.store.cell[: self.store.cell_count]
        header = [int(rows[:, layout.COUNT].max(initial=0)), int(rows[:, layout.OUTPUT].max(initial=1))]
        header += [self.filing.words, len(code_column), len(key_column)]
        header += [int(self.space.kinds[name].name == "float") for name in (*code_column, *key_column)]
        header += [scale.heads()[1] for scale in scales]
        return Views(
            groups, cells, bits, code_column, key_column, text_column,
            np.array(header + addresses(arrays), np.int64), tuple(arrays),
        )  # fmt: skip

    def encode(self, records: pa.RecordBatch) -> tuple[layout.Events, Ints]:
        """The batch as the kernels read it, and the addresses of its arrays.

        The columns have the space's types; a missing one is absent everywhere.
        """
        views = self.views()
        count = records.num_rows
        names = records.schema.names

        def column(name: str) -> pa.Array:
            return records.column(names.index(name)) if name in names else pa.nulls(count, self.space.kinds[name].arrow)

        batch, (words, codes, ranks, set_keys) = planes(
            count, (self.filing.words, np.int64), (len(views.code_column), np.int32), (len(views.code_column), np.int32),
            (len(views.key_column), np.int64),
        )  # fmt: skip
        words[:] = 0
        for name, dictionary in self.attributes.dictionaries.items():
            if dictionary.bits == 0:
                continue  # no entry uses it yet
            dictionary.look_up(column(name), words[dictionary.word])
        for name, at in views.code_column.items():
            keys = column_keys(self.space.kinds[name], column(name))
            self.filing.scales[name].look_up(keys, codes[at], ranks[at], self.filing.cuts(name))
        for name, at in views.key_column.items():
            set_keys[at] = column_keys(self.space.kinds[name], column(name))
        if not views.text_column:
            return layout.Events(words, codes, ranks, set_keys, *_NO_TEXTS), np.array(batch + _AT_NO_TEXTS, np.int64)
        texts = self._encode_texts(views.text_column, column, count)
        return layout.Events(words, codes, ranks, set_keys, *texts), np.array(batch + addresses(texts), np.int64)

    def _encode_texts(self, text_column: dict[str, int], column: Any, count: int) -> tuple[Any, ...]:
        answers = self.attributes.answers
        values = np.full((len(text_column), count), -1, np.int64)
        with self.guard:
            if answers.count > MOST_REMEMBERED:
                answers.forget()
            for name in text_column:  # all of them first: one may have to forget what the others know
                self.attributes.texts[name].catch_up()
            for name, at in text_column.items():
                values[at] = self.attributes.texts[name].rows_of(column(name))
            return values, answers.holds_start, answers.fails_start, answers.holds, answers.fails, np.array([answers.most])

    def match(self, records: pa.RecordBatch) -> Matches:
        """The matches of a batch, in one piece."""
        pieces = [found for _, found in self.match_split(records, 1, map)]
        if len(pieces) == 1:
            return pieces[0]
        bases = np.cumsum([0, *(len(each.ids) for each in pieces)])
        ends = [each.ends + bases[at] for at, each in enumerate(pieces)]
        ids = np.concatenate([np.zeros(0, np.int64), *(each.ids for each in pieces)])
        return Matches(np.concatenate([np.zeros(0, np.int64), *ends]), ids, ids)

    def match_split(self, records: pa.RecordBatch, parts: int, run: Run) -> list[tuple[int, Matches]]:
        """The matches of a batch, which is encoded once and matched in so many parts: one or more pieces of each, in order.

        The first piece has room for all, if there are about as many matches as in the batch before.
        """
        views = self.views()
        alive, batch = self.encode(records)  # the kernel reads the arrays by their addresses
        bounds = [records.num_rows * part // parts for part in range(parts + 1)]

        def part(number: int, _alive: Any = alive) -> list[tuple[int, Matches]]:
            begin, end = bounds[number], bounds[number + 1]
            return list(self._match_range(views, batch, begin, end, None, records.num_rows if number == 0 else end - begin))

        pieces = [piece for found in run(part, range(parts)) for piece in found]
        if records.num_rows:
            self._per_event = max(1.0, sum(len(each.ids) for _, each in pieces) / records.num_rows)
        return pieces

    def single(self) -> SingleMatcher:
        """What matches one event at a time, as the index is now."""
        if self.one is None:
            self.one = SingleMatcher(self)
        return self.one

    def match_bounded(self, records: pa.RecordBatch, most: int) -> Iterator[tuple[int, Matches]]:
        """The matches in pieces of at most `most` ids, or one event's; each with the number of its first event."""
        views = self.views()
        _alive, batch = self.encode(records)
        yield from self._match_range(views, batch, 0, records.num_rows, most, records.num_rows)

    def _match_range(
        self, views: Views, batch: Ints, begin: int, end: int, most: int | None, events: int
    ) -> Iterator[tuple[int, Matches]]:
        """The events of a batch from `begin` to `end`. Without `most`, with room for as many ids as so many `events` will have,
        if they have as many as those so far, or as those of the batch before.
        """
        stamps = np.zeros(self.store.several_count, np.int64)
        ends = np.empty(end, np.int64)
        done, found, room, until = begin, 0, most or 0, end
        while done < end:
            if self._views is not views:
                raise ContentcastError("the index was changed while its matches were read; read them all first")
            if most is None and room == 0:
                per_event = found / (done - begin) if done > begin else self._per_event
                room = int(per_event * (events - done + begin) * 1.2) + 2 * layout.BLOCK
            out = room_for(room + layout.SLACK)
            if most is not None:
                out = out[: room + layout.SLACK]
            following = match_many(views.header, batch, done, until, out, ends, room >= STREAMED_FROM, stamps)
            stamps[:] = 0
            if following == done:
                room = 2 * room + layout.BLOCK  # not even one event fits; a cell's ids are counted before they are tested
                until = done + 1 if most is not None else end
                continue
            ids = out[: int(ends[following - 1])]
            mine = ends[done:following]
            yield done, Matches(mine if following == end else mine.copy(), ids, out)
            done, found, room, until = following, found + len(ids), most or 0, end
