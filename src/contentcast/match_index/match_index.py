"""`MatchIndex`: which subscriptions an event satisfies, for one event or for batches of them.

How they are added and removed is in `subscriptions`; the matching itself is in `matching.index` and `matching.plain_index`.
Rule: a match reads while nobody changes the index, and holds up no other reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.language.explanation import explanation
from contentcast.match_index.answers import (
    MOST_IN_LISTS,
    Called,
    Events,
    Ints,
    as_list_array,
    as_lists,
    as_pairs,
    batches,
    counts_of,
)
from contentcast.match_index.subscriptions import Id, Subscriptions
from contentcast.match_index.threads import Threads
from contentcast.matching.contract import Pairs
from contentcast.matching.id_names import IdNames
from contentcast.matching.index.limits import DEFAULT, Limits
from contentcast.matching.plain_index import Found, PlainIndex
from contentcast.model.errors import ContentcastError, EventError
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.events.intake import DEFAULT as PLAIN
from contentcast.model.events.intake import How, Intake
from contentcast.model.space import Space
from contentcast.warming.background import kernels

if TYPE_CHECKING:
    from contentcast.matching.index import Check, Matches

MOST_PAIRS: Final = 4_000_000
"""How many pairs `match_stream` holds at a time unless told otherwise: 64 MB."""
_NOBODY: Final = np.empty(0, np.int64)


class MatchIndex(Subscriptions):
    """Subscriptions of one space, by id.

    All of it is safe from several threads: many may read at once (match, match_batch, explain ...), and whoever adds or removes
    waits until they are done, and they until the change is. A stream that is read in pieces raises if the index has changed
    between two of them.
    """

    def __init__(self, space: Space, *, limits: Limits = DEFAULT) -> None:
        """`limits`: from which sizes on the index does something else; see `matching.index.limits`."""
        super().__init__(space, limits=limits)
        self._threads = Threads()

    def match(self, event: Mapping[str, Any], **how: Unpack[How]) -> list[Any]:
        """The ids of the subscriptions that one event satisfies, ascending; `how`: see `model.events.intake`."""
        # As `with self._turns.read()`, which would take half a microsecond more.
        turns, mine = self._turns, object()
        try:
            turns.reading[mine] = get_ident()
            if turns.changing:
                turns.wait(mine)
            found = (self._cells.one or self._cells.single()).match(event)
            return found if self._names is None else self._named(found)
        except (EventError, AttributeError):  # nested, or wrong, or no dict at all
            return self._named(self._cells.single().match(self._checks.one(event, how)))
        finally:
            turns.reading.pop(mine, None)
            if turns.changing:
                turns.left.set()

    def match_ids(self, event: Mapping[str, Any], **how: Unpack[How]) -> npt.NDArray[Any]:
        """The same as an array: of an event that hundreds want, most of the time of `match` goes into making Python ints."""
        with self._turns.read():
            try:
                found = (self._cells.one or self._cells.single()).match(event, as_array=True)
            except (EventError, AttributeError):  # nested, or wrong, or no dict at all
                found = self._cells.single().match(self._checks.one(event, how), as_array=True)
            return found if self._names is None else np.sort(self._names.of(found))

    def _named(self, found: list[int]) -> list[Any]:
        return found if self._names is None else sorted(self._names.names[number] for number in found)

    def match_json(self, event: bytes | str, **how: Unpack[How]) -> list[Any]:
        """As `match`, of one event as JSON text: timestamps are texts or numbers since 1970, bytes are base64."""
        checked = self._checks.json(event, how)
        with self._turns.read():
            return self._named(self._cells.single().match(checked))

    def match_batch(self, events: Events, *, threads: int = 1, **how: Unpack[How]) -> pa.RecordBatch:
        """Every (event, subscription) that match, in the order of the events. `event` is the row number; of an EventBatch the
        id, by which `rejected` names events too.

        Columns go by name, and a missing one is absent everywhere; `how`: see `model.events.intake`.
        """
        rows, ids = self._match_rows(events, threads, Intake.of(how))
        return as_pairs(events.ids.to_numpy()[rows] if isinstance(events, EventBatch) else rows, ids)

    def match_pairs(self, events: Events, *, threads: int = 1) -> Pairs:
        """The same as plain arrays, with row numbers."""
        return Pairs(*self._match_rows(events, threads, PLAIN))

    def _match_rows(self, events: Events, threads: int, intake: Intake) -> tuple[Ints, npt.NDArray[Any]]:
        pieces, called = self._match_pieces(self._checks.records(events, intake), threads)
        if len(pieces) == 1:
            return pieces[0][1].rows(), pieces[0][1].ids if called is None else called
        from contentcast.matching.index import in_one

        rows, ids = in_one(pieces, self._threads.at_once(threads))
        return rows, ids if called is None else called

    def match_offsets(self, events: Events) -> tuple[Ints, npt.NDArray[Any]]:
        """The same as two plain arrays, the quickest of all: event i satisfies ids[offsets[i] : offsets[i + 1]].

        The ids of an event come in no order.
        """
        records = self._checks.records(events, PLAIN)
        offsets = np.zeros(records.num_rows + 1, np.int64)
        if not len(self._cells):
            return offsets, _NOBODY
        self._prepare(records.num_rows)
        with self._turns.read():
            found = self._cells.match(records)
            ids = found.ids if self._names is None else self._names.of(found.ids)
        offsets[1:] = found.ends
        return offsets, ids

    def match_lists(self, events: Events, *, threads: int = 1, **how: Unpack[How]) -> pa.ListArray:
        """The same as one list of ids per event, without a row number for each pair."""
        pieces, called = self._match_pieces(self._checks.records(events, Intake.of(how)), threads)
        return as_list_array(pieces, called)

    def match_counts(self, events: Events, *, threads: int = 1, **how: Unpack[How]) -> pa.Int64Array:
        """How many subscriptions each event satisfies."""
        pieces, _ = self._match_pieces(self._checks.records(events, Intake.of(how)), threads)
        return pa.array(counts_of(pieces))

    def match_stream(
        self, events: Events | Iterable[Events], *, most_pairs: int = MOST_PAIRS, **how: Unpack[How]
    ) -> Iterator[pa.RecordBatch]:
        """As `match_batch`, in pieces of about `most_pairs` pairs (one event's pairs always stay together).

        Takes one batch or an endless row of them; row numbers go on from batch to batch, and an EventBatch brings its ids.
        """
        first, intake = 0, Intake.of(how)
        for batch in batches(events):
            records = self._checks.records(batch, intake)
            for begin, found, called in self._in_turns(records, most_pairs):
                rows = batch.ids.to_numpy()[found.rows(begin)] if isinstance(batch, EventBatch) else found.rows(first + begin)
                yield as_pairs(rows, found.ids if called is None else called)
            first += records.num_rows

    def match_list_stream(
        self, events: Events | Iterable[Events], *, most_pairs: int = MOST_PAIRS, **how: Unpack[How]
    ) -> Iterator[pa.RecordBatch]:
        """As `match_stream`, but each event that somebody wants comes once, with the list `subscriptions` of their ids."""
        first, intake = 0, Intake.of(how)
        for batch in batches(events):
            records = self._checks.records(batch, intake)
            for begin, found, called in self._in_turns(records, min(most_pairs, MOST_IN_LISTS)):
                yield as_lists(batch, first, begin, found, called)
            first += records.num_rows

    def _in_turns(self, records: pa.RecordBatch, most: int) -> Iterator[tuple[int, Matches | Found, Called]]:
        """The matches in pieces: reading while one is made, and not while the caller has it."""
        self._prepare(records.num_rows)
        changes, pieces = self._changes, self._cells.match_bounded(records, most)
        while True:
            with self._turns.read():
                if self._changes != changes:
                    raise ContentcastError("the index was changed while its matches were read; read them all first")
                piece = next(pieces, None)
                called = None if piece is None or self._names is None else self._names.of(piece[1].ids)
            if piece is None:
                return
            yield *piece, called

    def _match_pieces(self, records: pa.RecordBatch, threads: int) -> tuple[list[tuple[int, Any]], Called]:
        """Matches, and if ids are texts, those: a number may soon be another's."""
        self._prepare(records.num_rows)
        with self._turns.read():
            if threads <= 1 or records.num_rows < 2 * threads:
                pieces: list[tuple[int, Any]] = [(0, self._cells.match(records))]
            else:
                pieces = self._cells.match_split(records, threads, self._threads.at_once(threads))
            if self._names is None:
                return pieces, None
            return pieces, self._names.of(np.concatenate([found.ids for _, found in pieces]))

    # --- explaining

    def explain(self, event: Mapping[str, Any], subscription: Id | None = None, **how: Unpack[How]) -> dict[str, Any]:
        """Who gets the event: `{"matched": [1, 4]}`; or whether one subscription does and why not: see `explanation`."""
        checked = self._checks.one(event, how)
        if subscription is None:
            return {"matched": self.match(checked)}
        with self._turns.read():
            number = self._number(subscription)
            predicate, text = self._cells.predicate(number), self._texts.get(number)
        return explanation(subscription, predicate, text, checked)

    def sizes(self) -> dict[str, int]:
        """The short form of `statistics`, as of every engine."""
        found = self.statistics()
        return {"subscriptions": len(self), "cells": int(found["cells"]), "bytes": int(found["bytes"])}

    def statistics(self) -> dict[str, Any]:
        """What the index is made of: its engine (plain or compiled), subscriptions, entries, groups, bytes."""
        with self._turns.read():
            return {"engine": "plain" if isinstance(self._cells, PlainIndex) else "compiled"} | self._cells.statistics()

    # --- files

    def save(self, path: str | Path) -> None:
        """To one file; `load` maps it into memory, and processes that load it share it.

        The file has the arrays that the kernels walk, so both wait for the kernels if they are not compiled yet.
        """
        from contentcast.matching.index import save_index

        cells = self._need_kernels()
        with self._turns.read():
            cells.names = {} if self._names is None else self._names.names
            save_index(cells, Path(path))

    @classmethod
    def load(cls, path: str | Path, *, check: Check = "load") -> Self:
        """An index that was saved; the first change copies it into memory.

        The file is mapped, and its checksums are looked at now, or at the first use with `check="first use"`.
        """
        from contentcast.matching.index import load_index

        kernels.wait()
        cells = load_index(Path(path), check)
        found = cls(cells.space)
        found._cells = cells
        found._names = IdNames(dict(cells.names)) if cells.names else None
        cells.guard = Lock()
        return found

    def snapshot(self) -> Self:
        """The index as it is now, for readers whom no change may reach; later changes of either do not reach the other.

        It costs what saving and loading cost.
        """
        with TemporaryDirectory(prefix="contentcast-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "index"
            self.save(path)
            return type(self).load(path)
