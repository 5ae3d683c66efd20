"""The index: subscriptions by columns in, matches by columns out.

The walk of a batch: `encode` turns each column that some subscription constrains into codes, keys and text answers (once per
batch); `kernels.match` walks the groups for each event; the ids come back with the place where each event's end.
Rule: what a subscription's predicate accepts, its entries accept, whatever the plan; the plan is made when the first
subscriptions come and again when there are many more of them than it was made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.matching.index import changes, layout
from contentcast.matching.index.by_address import addresses, match_many
from contentcast.matching.index.codes import column_keys
from contentcast.matching.index.entries import Attributes, entries_of, joined, without_the_unused
from contentcast.matching.index.filing import Filing
from contentcast.matching.index.lanes import fill_rows, place_piece
from contentcast.matching.index.reading import read_all, read_entry, read_slot, text_numbers
from contentcast.matching.index.room import room_for
from contentcast.matching.index.single import SingleMatcher
from contentcast.matching.index.store import Store
from contentcast.matching.index.texts import MOST_REMEMBERED
from contentcast.model.errors import ContentcastError
from contentcast.model.predicate import Predicate
from contentcast.model.space import Space
from contentcast.model.table import PredicateTable

Ints = npt.NDArray[np.int64]

REPLAN_FACTOR: Final = 4
"""The plan is made anew when there are this many times the subscriptions it was made for ..."""
REPLAN_LEAST: Final = 2000
"""... and at least this many."""
MOST_IDS: Final = 2**62
STREAMED_FROM: Final = 3 << 20
"""So many ids do not stay in the caches until somebody reads them: they are written past them."""


class Matches:
    """ids[ends[i-1]:ends[i]] are the subscriptions of event i, in no particular order."""

    __slots__ = ("ends", "ids")

    def __init__(self, ends: Ints, ids: Ints) -> None:
        self.ends, self.ids = ends, ids

    def rows(self, first: int = 0) -> Ints:
        """For each id the number of its event, counting from `first`."""
        rows = room_for(len(self.ids) + layout.SLACK)
        fill_rows(self.ends, rows, first, len(self.ids) >= STREAMED_FROM)
        return rows[: len(self.ids)]


Run: TypeAlias = Callable[[Callable[[int], object], range], Iterable[object]]
"""Calls a function with each number, in any order or at once, as `map` does."""


def in_one(pieces: list[tuple[int, Matches]], run: Run) -> tuple[Ints, Ints]:
    """The rows and the ids of several pieces, each with the number of its first event, one after the other."""
    begins = np.cumsum([0, *(len(each.ids) for _, each in pieces)]).tolist()
    total = begins[-1]
    rows, ids = room_for(total + layout.SLACK), room_for(total + layout.SLACK)

    def place(number: int) -> None:
        first, piece = pieces[number]
        place_piece(piece.ends, piece.ids, first, rows, ids, begins[number], total >= STREAMED_FROM)

    for _ in run(place, range(len(pieces))):
        pass
    return rows[:total], ids[:total]


def _planes(columns: int, *planes: tuple[int, Any]) -> tuple[list[int], list[Any]]:
    """Addresses and lengths of planes of so many rows each, and the planes, all in one piece of memory.

    Asking NumPy for an array's address takes a microsecond, so it is asked once.
    """
    sizes = [-(-rows * columns * np.dtype(kind).itemsize // 64) * 64 for rows, kind in planes]
    piece = np.empty(max(1, sum(sizes)), np.uint8)
    address, begin = piece.__array_interface__["data"][0], 0
    found: list[int] = []
    views = []
    for (rows, kind), size in zip(planes, sizes, strict=True):
        found += (address + begin, rows, columns)
        views.append(np.ndarray((rows, columns), kind, piece, begin))
        begin += size
    return found, views


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
        self.count = 0
        self._per_event = 8.0
        self._single: SingleMatcher | None = None
        self._views: Views | None = None

    def __len__(self) -> int:
        return self.count

    def __contains__(self, subscription: int) -> bool:
        return bool(changes.find_id(self.store.references, self.store.reference_shift, subscription) >= 0)

    def ids(self) -> Ints:
        return np.sort(self.store.references.id[self.store.references.head >= 0])

    # --- changing

    def add(self, ids: Ints, table: PredicateTable) -> None:
        """Subscriptions `ids[i]` with predicate `table[i]`; none of the ids may be there yet."""
        self._check_new(ids)
        if not len(ids):
            return
        self.store.thaw()
        self._views = None
        enough = self.count + len(ids) <= max(REPLAN_FACTOR * self.planned_for, REPLAN_LEAST if self.planned_for else 0)
        if not (enough and self.filing.insert(ids, entries_of(table, self.attributes))):
            self._plan_anew(ids, table)
        self.count += len(ids)

    def _check_new(self, ids: Ints) -> None:
        if len(ids) and (ids.min() < 0 or ids.max() >= MOST_IDS):
            wrong = int(ids.min() if ids.min() < 0 else ids.max())
            raise ContentcastError(f"subscription ids are from 0 to 2^62 - 1, not {wrong}")
        at = changes.first_known(self.store.references, self.store.reference_shift, ids)
        if at >= 0:
            raise ContentcastError(f"subscription {int(ids[at])} is already there; remove it first")
        distinct, counts = np.unique(ids, return_counts=True)
        if len(distinct) < len(ids):
            raise ContentcastError(f"subscription {int(distinct[counts > 1][0])} is given twice")

    def _plan_anew(self, ids: Ints, table: PredicateTable) -> None:
        """Plan for what is there and what comes, and file it all."""
        old_ids = self.ids()
        old = read_all(self.attributes, self.filing, self.store, old_ids)
        self.attributes, self.store = without_the_unused(self.attributes, old), Store()
        self.filing = Filing(self.attributes, self.store)
        for text in self.attributes.texts.values():
            text.uses = [0] * len(text.uses)  # counted again as they are filed
        entries = joined([old, entries_of(table, self.attributes)], [len(old_ids), len(ids)])
        chosen = self.filing.plan(entries)
        self.filing.insert(np.concatenate([old_ids, ids]), entries, chosen)
        self.planned_for = self.count + len(ids)
        self._views = None

    def remove(self, ids: Ints) -> None:
        """All of them, or none if one is not there; each is given once."""
        shift = self.store.reference_shift
        count = changes.count_references(self.store.references, shift, ids)
        if count < 0:
            raise ContentcastError(f"there is no subscription {int(ids[-1 - count])}")
        if self.store.thaw():
            self._views = None
        self._release_texts(ids)
        wanted = np.array([self.store.tagged(each) for each in ids.tolist()]) if self.store.several_numbers else ids
        widths = np.array([group.width for group in self.store.groups], np.int64)
        slots = np.empty(count, np.int64)
        used = changes.remove_ids(self.views().cells, self.store.references, shift, widths, ids, wanted, slots)
        self.store.bitmaps.remove(slots[:used])
        self.store.forget(ids)
        self.count -= len(ids)

    def _release_texts(self, ids: Ints) -> None:
        """The text constraints of these subscriptions are used once less."""
        if not self.attributes.texts:
            return
        cells = self.views().cells
        for subscription in ids.tolist():
            wanted = self.store.tagged(subscription)
            held = list(self.store.cells_of(subscription))
            for cell in set(held):
                at = -1
                for _ in range(held.count(cell)):
                    at, _ = changes.find_entry(cells, cell, wanted, at + 1)
                    for name, number in text_numbers(self.store, cell, int(at)):
                        self.attributes.texts[name].release(number)

    # --- looking inside

    def predicate(self, subscription: int) -> Predicate:
        """What a subscription asks for, read back from its entries."""
        if subscription not in self:
            raise ContentcastError(f"there is no subscription {subscription}")
        cells = self.views().cells
        wanted = self.store.tagged(subscription)
        found = [read_slot(self.attributes, self.store.bitmaps, slot) for slot in self.store.slots_of(subscription)]
        for cell in set(self.store.cells_of(subscription)):
            at, _ = changes.find_entry(cells, cell, wanted, 0)
            while at >= 0:
                found.append(read_entry(self.attributes, self.filing.scales, self.store, cell, int(at)))
                at, _ = changes.find_entry(cells, cell, wanted, at + 1)
        return Predicate.of(self.space, found)

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

    def prepare(self) -> None:
        """Make the arrays that the kernels read, so that threads find them made."""
        self.views()

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
        coded |= {gate.attribute for gate in self.filing.gates if gate.kind == "cells"}
        code_column = {name: at for at, name in enumerate(sorted(coded))}
        key_column = {name: at for at, name in enumerate(sorted({name for kind, name in tests if kind == "set"}))}
        text_column = {name: at for at, name in enumerate(self.attributes.texts)}
        groups = self.store.group_arrays(code_column, key_column, text_column)
        cells = self.store.cells(starts, pairs)
        bits = self.store.bitmaps.view(self.attributes.dictionaries)
        arrays = [*groups, *cells, *bits]
        scales = [self.filing.scales[name] for name in code_column]
        for name, scale in zip(code_column, scales, strict=True):
            arrays += [scale.marks(self.filing.grids.get(name)), scale.heads()[0]]
        rows = self.store.cell[: self.store.cell_count]
        header = [int(rows[:, layout.COUNT].max(initial=0)), int(rows[:, layout.OUTPUT].max(initial=1))]
        header += [self.filing.words, len(code_column), len(key_column)]
        header += [int(self.space.kinds[name].name == "float") for name in (*code_column, *key_column)]
        header += [scale.heads()[1] for scale in scales]
        made = Views(
            groups, cells, bits, code_column, key_column, text_column,
            np.array(header + addresses(arrays), np.int64), tuple(arrays),
        )  # fmt: skip
        self._single = None  # it holds the addresses of the arrays that were
        return made

    def encode(self, records: pa.RecordBatch) -> tuple[layout.Events, Ints]:
        """The batch as the kernels read it, and the addresses of its arrays.

        The columns have the space's types; a missing one is absent everywhere.
        """
        views = self.views()
        count = records.num_rows
        names = records.schema.names

        def column(name: str) -> pa.Array:
            return records.column(names.index(name)) if name in names else pa.nulls(count, self.space.kinds[name].arrow)

        batch, (words, codes, ranks, set_keys) = _planes(
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
            self.filing.scales[name].look_up(keys, codes[at], ranks[at], self.filing.grids.get(name))
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
            for name, at in text_column.items():
                values[at] = self.attributes.texts[name].rows_of(column(name))
            return values, answers.holds_start, answers.fails_start, answers.holds, answers.fails, np.array([answers.most])

    def match(self, records: pa.RecordBatch) -> Matches:
        """The matches of a batch, in one piece."""
        count = records.num_rows
        pieces = [found for _, found in self._match_pieces(records, None)]
        if len(pieces) == 1:
            found = pieces[0]
        else:
            bases = np.cumsum([0, *(len(each.ids) for each in pieces)])
            ends = [each.ends + bases[at] for at, each in enumerate(pieces)]
            ids = [each.ids for each in pieces]
            found = Matches(np.concatenate([np.zeros(0, np.int64), *ends]), np.concatenate([np.zeros(0, np.int64), *ids]))
        if count:
            self._per_event = max(1.0, len(found.ids) / count)
        return found

    def match_one(self, event: Mapping[str, Any]) -> list[int] | None:
        """The ids of one event, ascending; None if the index has string tests, which only a batch answers."""
        if self.attributes.texts:
            return None
        if self._views is None or self._single is None:
            self.views()
            self._single = SingleMatcher(self)
        return self._single.match(event)

    def match_bounded(self, records: pa.RecordBatch, most: int) -> Iterator[tuple[int, Matches]]:
        """The matches in pieces of at most `most` ids, or one event's; each with the number of its first event."""
        return self._match_pieces(records, most)

    def _match_pieces(self, records: pa.RecordBatch, most: int | None) -> Iterator[tuple[int, Matches]]:
        """Without `most`, as much as the events so far, or those of the batch before, let expect for the rest."""
        views = self.views()
        _alive, batch = self.encode(records)  # the kernel reads the arrays by their addresses
        count = records.num_rows
        stamps = np.zeros(self.store.several_count, np.int64)
        ends = np.empty(count, np.int64)
        done, found, room, until = 0, 0, most or 0, count
        while done < count:
            if self._views is not views:
                raise ContentcastError("the index was changed while its matches were read; read them all first")
            if most is None and room == 0:
                per_event = found / done if done else self._per_event
                room = int(per_event * (count - done) * 1.2) + 2 * layout.BLOCK
            out = room_for(room + layout.SLACK)
            if most is not None:
                out = out[: room + layout.SLACK]
            following = match_many(views.header, batch, done, until, out, ends, room >= STREAMED_FROM, stamps)
            stamps[:] = 0
            if following == done:
                room = 2 * room + layout.BLOCK  # not even one event fits; a cell's ids are counted before they are tested
                until = done + 1 if most is not None else count
                continue
            ids = out[: int(ends[following - 1])]
            yield done, Matches(ends[done:following].copy(), ids)
            done, found, room, until = following, found + len(ids), most or 0, count
