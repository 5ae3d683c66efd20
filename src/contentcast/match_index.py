"""`MatchIndex`: which subscriptions an event satisfies, for one event or for batches of them.

The face of `matching.index` for people who have predicates as text and events as dicts or Arrow: it parses, checks and names
what is wrong; the matching itself is below. One level above `language` and `matching`, since it is where they meet.

Two engines take turns: a small index, and any index until its kernels are compiled, is a `PlainIndex`; then it goes on as a
`CellIndex`, which `use_kernels` makes of it.
Rule: nobody can tell from an answer which engine gave it. Numba is imported when the kernels are wanted, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from os import getpid
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.language import PredicateError, as_predicate, parse_many
from contentcast.language.explanation import explanation
from contentcast.matching.contract import Pairs
from contentcast.matching.id_names import Given, IdNames, ids_of, repeated
from contentcast.matching.index.limits import DEFAULT, Limits
from contentcast.matching.plain_index import MOST_IDS, Found, PlainIndex
from contentcast.model.errors import ContentcastError, EventError
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.events.fitting import as_records, check_fits
from contentcast.model.events.intake import DEFAULT as PLAIN
from contentcast.model.events.intake import How, Intake
from contentcast.model.events.json_lines import decode
from contentcast.model.events.rows import Rejection, RowChecker
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space
from contentcast.turns import Turns
from contentcast.warming.background import kernels

if TYPE_CHECKING:
    from contentcast.matching.index import CellIndex, Check, ColumnChecks, Matches, Run

Id: TypeAlias = int | str
Called: TypeAlias = npt.NDArray[Any] | None
"""The ids of matches where they are texts."""
Events: TypeAlias = Any
"""A pyarrow RecordBatch or Table, an EventBatch, or a pandas DataFrame."""
Ints: TypeAlias = npt.NDArray[np.int64]

PAIRS: Final = pa.schema([pa.field("event", pa.int64(), nullable=False), pa.field("subscription", pa.int64(), nullable=False)])
LISTS: Final = pa.schema(
    [
        pa.field("event", pa.int64(), nullable=False),
        pa.field("subscriptions", pa.list_(pa.int64()), nullable=False),
    ]
)
NAMED_PAIRS: Final = PAIRS.set(1, pa.field("subscription", pa.string(), nullable=False))
TEXTS_KEPT: Final = 100_000
"""Of so many subscriptions the index keeps the text as it was given, for `explain`: about 10 MB."""
MOST_PAIRS: Final = 4_000_000
"""How many pairs `match_stream` holds at a time unless told otherwise: 64 MB."""
MOST_IN_LISTS: Final = 1 << 30
"""Ids in the lists of one record batch: their offsets have 32 bits."""
_INT64: Final = pa.int64()
_NOBODY: Final = np.empty(0, np.int64)

LARGE: Final = 1_000
"""From so many subscriptions on an index wants its kernels."""
MOST_PLAIN: Final = 1_000_000_000
"""A batch waits for the kernels if it has more (event, conjunction) to try than this, some ten seconds without them."""


class MatchIndex:
    """Subscriptions of one space, by id.

    All of it is safe from several threads: many may read at once (match, match_batch, explain ...), and whoever adds or removes
    waits until they are done, and they until the change is. A stream that is read in pieces raises if the index has changed
    between two of them.
    """

    def __init__(self, space: Space, *, limits: Limits = DEFAULT) -> None:
        """`limits`: from which sizes on the index does something else; see `matching.index.limits`."""
        self.space = space
        self._limits = limits
        self._cells: CellIndex | PlainIndex = PlainIndex(space, Lock(), kernels.ask)
        self._fitting: tuple[Intake, pa.Schema] | None = None
        """The last schema of events that fitted as it was, and how they were to be taken."""
        self._checkers: dict[tuple[Intake, bool], RowChecker] = {}
        self._names: IdNames | None = None
        """The ids, if they are texts."""
        self._texts: dict[int, str] = {}
        """Predicates as they were given, by number."""
        self._pool: tuple[tuple[int, int], ThreadPoolExecutor] | None = None
        self._turns = Turns()
        self._checks: ColumnChecks | None = None
        self._changes = 0
        if not kernels.ready:
            kernels.tell(self)
        if kernels.ready:
            self.use_kernels()

    # --- the engine

    def use_kernels(self) -> None:
        """Go on with the kernels, which are ready. Answers are the same before and after, also in the midst of a stream."""
        from contentcast.matching.index import CellIndex, ColumnChecks

        for _ in range(2):  # made while others read and change; if somebody has changed it meanwhile, while nobody does
            plain = self._cells
            if not isinstance(plain, PlainIndex):
                return
            with self._turns.read():
                version, everything = plain.version, plain.everything()
            made = CellIndex(self.space, Lock(), self._limits)
            made.add(*everything)
            with self._turns.change():
                if self._cells is plain and plain.version == version:
                    self._cells, self._checks = made, ColumnChecks(self.space)
                    return
        with self._turns.change():
            if isinstance(self._cells, PlainIndex):
                made = CellIndex(self.space, Lock(), self._limits)
                made.add(*self._cells.everything())
                self._cells, self._checks = made, ColumnChecks(self.space)

    def _need_kernels(self) -> CellIndex:
        """Wait for the kernels, if it must be, and use them."""
        if isinstance(self._cells, PlainIndex):
            kernels.wait()
            self.use_kernels()
        assert not isinstance(self._cells, PlainIndex)
        return self._cells

    def _prepare(self, events: int) -> None:
        """Before a batch of so many events: one that would take long without kernels waits for them."""
        plain = self._cells
        if isinstance(plain, PlainIndex) and events * plain.conjunction_count > MOST_PLAIN:
            self._need_kernels()

    # --- subscriptions

    def add(self, subscription: Id, predicate: str | Predicate) -> None:
        """One subscription; its id, an int or a text, must not be there yet."""
        self._add(ids_of([subscription]), PredicateTable.of(self.space, [as_predicate(self.space, predicate)]), [predicate])

    def replace(self, subscription: Id, predicate: str | Predicate) -> None:
        """Another predicate for a subscription that is there; if it cannot be read, the one before stays."""
        table = PredicateTable.of(self.space, [as_predicate(self.space, predicate)])
        with self._turns.change():
            number = self._number(subscription)
            before = PredicateTable.of(self.space, [self._cells.predicate(number)])
            numbers = np.array([number], np.int64)
            self._changes += 1
            self._cells.remove(numbers)
            try:
                self._cells.add(numbers, table)
            except BaseException:
                self._cells.add(numbers, before)
                raise
            self._texts.pop(number, None)
            self._keep_texts(numbers, [predicate])

    def add_many(
        self,
        ids: Sequence[int] | Sequence[str] | Ints | pa.Array | pa.ChunkedArray,
        predicates: Sequence[str | Predicate] | pa.Array | pa.ChunkedArray | PredicateTable,
        *,
        on_error: Literal["raise", "reject"] = "raise",
    ) -> dict[Any, ContentcastError]:
        """Many at once, which is far faster: texts (a list or an Arrow array), predicates, or a table of them.

        With `on_error="reject"` a text that cannot be read is left out, and so is an id that came before or is there already;
        returned are the errors by subscription id. Whatever else is wrong, the index stays as it was.
        """
        given = ids_of(ids)
        table = self._as_table(predicates)
        if len(given) != len(table):
            raise ContentcastError(f"{len(given)} ids for {len(table)} predicates")
        errors: dict[int, ContentcastError] = dict(table.refused)
        if on_error == "reject":
            errors = {**self._taken(given), **errors}
        elif errors and not isinstance(predicates, PredicateTable):  # a table says itself what it could not read
            raise _which(errors, given)
        texts = predicates if isinstance(predicates, (list, tuple)) and len(predicates) <= TEXTS_KEPT else None
        if not errors:
            self._add(given, table, texts)
            return {}
        kept = np.setdiff1d(np.arange(len(table)), np.array(list(errors)))
        chosen = [given[row] for row in kept] if isinstance(given, list) else given[kept]
        self._add(chosen, table.take(kept), None if texts is None else [texts[row] for row in kept])
        return {given[row] if isinstance(given, list) else int(given[row]): error for row, error in sorted(errors.items())}

    def _add(self, given: Given, table: PredicateTable, texts: Sequence[Any] | None) -> None:
        if isinstance(self._cells, PlainIndex) and len(self) + len(given) >= LARGE:
            if kernels.at_hand():
                kernels.wait()
                self.use_kernels()
            else:
                kernels.ask()
        with self._turns.change():
            self._changes += 1
            names = self._names_for(given)
            numbers = given if names is None or not isinstance(given, list) else names.reserved(given)
            assert not isinstance(numbers, list)
            self._cells.add(numbers, table)
            if isinstance(given, list) and names is not None:
                names.keep(given, numbers)
                self._names = names
            self._keep_texts(numbers, texts)

    def _names_for(self, given: Given) -> IdNames | None:
        """Texts as ids if the index has such, or has nothing yet and gets them."""
        if not len(given) or (self._names is not None) == isinstance(given, list):
            return self._names
        if len(self._cells):
            have, come = ("texts", "ints") if self._names is not None else ("ints", "texts")
            raise ContentcastError(f"the ids of this index are {have}, and {come} were given; use one of them")
        self._names = None
        return IdNames({}) if isinstance(given, list) else None

    def _taken(self, given: Given) -> dict[int, ContentcastError]:
        """The rows whose id came before, or is there already."""
        with self._turns.read():
            if isinstance(given, list):
                known = [] if self._names is None else [row for row, each in enumerate(given) if each in self._names.numbers]
            else:
                known = np.flatnonzero(np.isin(given, self._cells.ids())).tolist() if self._names is None else []
        said = {row: ContentcastError(f"subscription {given[row]} is already there; the first stays") for row in known}
        twice = {row: ContentcastError(f"subscription {given[row]} is given twice; the first stays") for row in repeated(given)}
        return {**twice, **said}

    def _keep_texts(self, numbers: npt.NDArray[np.int64], texts: Sequence[Any] | None) -> None:
        if texts is not None and len(self._texts) + len(texts) <= TEXTS_KEPT:
            pairs = zip(numbers.tolist(), texts, strict=True)
            self._texts.update((number, text) for number, text in pairs if isinstance(text, str))

    def _number(self, subscription: Any) -> int:
        return int(subscription) if self._names is None else self._names.number(subscription)

    def _as_table(self, predicates: Any) -> PredicateTable:
        if isinstance(predicates, PredicateTable):
            if predicates.space != self.space:
                raise ContentcastError(f"predicates over {predicates.space.name} do not fit the space {self.space.name}")
            return predicates
        if not isinstance(predicates, (pa.Array, pa.ChunkedArray)) and any(isinstance(each, Predicate) for each in predicates):
            return PredicateTable.of(self.space, [as_predicate(self.space, each) for each in predicates])
        return parse_many(self.space, predicates, on_error="reject")

    def remove(self, subscription: Id) -> None:
        self.remove_many([subscription])

    def remove_many(self, ids: Sequence[int] | Sequence[str] | Ints | pa.Array) -> None:
        """All or none: an id that is not there is named, and the index stays as it was."""
        given = ids_of(ids)
        if again := repeated(given):
            raise ContentcastError(f"subscription {given[again[0]]} is to be removed twice; name each once")
        with self._turns.change():
            names = self._names
            if names is not None:
                numbers = np.array([names.number(each) for each in given], np.int64)
            elif isinstance(given, list):
                raise ContentcastError(f"there is no subscription {given[0]!r}; the ids of this index are ints")
            else:
                numbers = given
            self._changes += 1
            self._cells.remove(numbers)
            if names is not None:
                names.forget(numbers)
            if self._texts:
                for number in numbers.tolist():
                    self._texts.pop(number, None)

    def __len__(self) -> int:
        return len(self._cells)

    def __contains__(self, subscription: object) -> bool:
        with self._turns.read():
            if self._names is not None:
                return subscription in self._names.numbers
            return isinstance(subscription, int) and 0 <= subscription < MOST_IDS and subscription in self._cells

    def __iter__(self) -> Iterator[Any]:
        """The ids, ascending."""
        with self._turns.read():
            return iter(self._cells.ids().tolist() if self._names is None else sorted(self._names.numbers))

    def predicate(self, subscription: Id) -> Predicate:
        """What a subscription asks for, in canonical form."""
        with self._turns.read():
            return self._cells.predicate(self._number(subscription))

    # --- matching

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
            return self._named(self._cells.single().match(self._flat(event, how)))
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
                found = self._cells.single().match(self._flat(event, how), as_array=True)
            return found if self._names is None else np.sort(self._names.of(found))

    def _named(self, found: list[int]) -> list[Any]:
        return found if self._names is None else sorted(self._names.names[number] for number in found)

    def match_json(self, event: bytes | str, **how: Unpack[How]) -> list[Any]:
        """As `match`, of one event as JSON text: timestamps are texts or numbers since 1970, bytes are base64."""
        decoded = decode(event)
        if isinstance(decoded, Rejection):
            raise EventError(str(decoded))
        checked = self._checked(decoded, how, from_text=True)
        with self._turns.read():
            return self._named(self._cells.single().match(checked))

    def _flat(self, event: Mapping[str, Any], how: How) -> Mapping[str, Any]:
        """A nested event without its nesting, with its values as their kinds have them; what is wrong with it is named."""
        if not isinstance(event, Mapping):
            raise EventError(f"one event is a dict of its attributes, not {type(event).__name__}; many go to match_batch")
        return self._checked(event, how)

    def _checked(self, event: Any, how: How, from_text: bool = False) -> dict[str, Any]:
        intake = _one_answer(Intake.of(how))
        checker = self._checkers.get((intake, from_text))
        if checker is None:
            checker = self._checkers[intake, from_text] = RowChecker(self.space, intake, from_text=from_text)
        found = checker.check(0, event)
        checker.left_out.clear()
        if isinstance(found, Rejection):
            raise EventError(str(found))
        return found

    def match_batch(self, events: Events, *, threads: int = 1, **how: Unpack[How]) -> pa.RecordBatch:
        """Every (event, subscription) that match, in the order of the events. `event` is the row number; of an EventBatch the
        id, by which `rejected` names events too.

        Columns go by name, and a missing one is absent everywhere; `how`: see `model.events.intake`.
        """
        rows, ids = self._match_rows(events, threads, Intake.of(how))
        return _as_pairs(events.ids.to_numpy()[rows] if isinstance(events, EventBatch) else rows, ids)

    def match_pairs(self, events: Events, *, threads: int = 1) -> Pairs:
        """The same as plain arrays, with row numbers."""
        return Pairs(*self._match_rows(events, threads, PLAIN))

    def _match_rows(self, events: Events, threads: int, intake: Intake) -> tuple[Ints, npt.NDArray[Any]]:
        pieces, called = self._match_pieces(self._as_records(events, intake), threads)
        if len(pieces) == 1:
            return pieces[0][1].rows(), pieces[0][1].ids if called is None else called
        from contentcast.matching.index import in_one

        rows, ids = in_one(pieces, self._at_once(threads))
        return rows, ids if called is None else called

    def match_offsets(self, events: Events) -> tuple[Ints, npt.NDArray[Any]]:
        """The same as two plain arrays, the quickest of all: event i satisfies ids[offsets[i] : offsets[i + 1]]."""
        records = self._as_records(events, PLAIN)
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
        pieces, called = self._match_pieces(self._as_records(events, Intake.of(how)), threads)
        counts = np.concatenate([np.diff(each.ends, prepend=0) for _, each in pieces])
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        if called is not None:
            return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(called, pa.string()))
        ids = pieces[0][1].ids if len(pieces) == 1 else np.concatenate([each.ids for _, each in pieces])
        return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))

    def match_counts(self, events: Events, *, threads: int = 1, **how: Unpack[How]) -> pa.Int64Array:
        """How many subscriptions each event satisfies."""
        pieces, _ = self._match_pieces(self._as_records(events, Intake.of(how)), threads)
        return pa.array(np.concatenate([np.diff(each.ends, prepend=0) for _, each in pieces]))

    def match_stream(
        self, events: Events | Iterable[Events], *, most_pairs: int = MOST_PAIRS, **how: Unpack[How]
    ) -> Iterator[pa.RecordBatch]:
        """As `match_batch`, in pieces of about `most_pairs` pairs (one event's pairs always stay together).

        Takes one batch or an endless row of them; row numbers go on from batch to batch, and an EventBatch brings its ids.
        """
        first, intake = 0, Intake.of(how)
        for batch in _batches(events):
            records = self._as_records(batch, intake)
            for begin, found, called in self._in_turns(records, most_pairs):
                rows = batch.ids.to_numpy()[found.rows(begin)] if isinstance(batch, EventBatch) else found.rows(first + begin)
                yield _as_pairs(rows, found.ids if called is None else called)
            first += records.num_rows

    def match_list_stream(
        self, events: Events | Iterable[Events], *, most_pairs: int = MOST_PAIRS, **how: Unpack[How]
    ) -> Iterator[pa.RecordBatch]:
        """As `match_stream`, but each event that somebody wants comes once, with the list `subscriptions` of their ids."""
        first, intake = 0, Intake.of(how)
        for batch in _batches(events):
            records = self._as_records(batch, intake)
            for begin, found, called in self._in_turns(records, min(most_pairs, MOST_IN_LISTS)):
                counts = np.diff(found.ends, prepend=0)
                wanted = np.flatnonzero(counts)
                offsets = np.zeros(len(wanted) + 1, np.int32)
                np.cumsum(counts[wanted], out=offsets[1:])
                ids = pa.array(found.ids) if called is None else pa.array(called, pa.string())
                lists = pa.ListArray.from_arrays(pa.array(offsets), ids)
                rows = batch.ids.to_numpy()[begin + wanted] if isinstance(batch, EventBatch) else first + begin + wanted
                schema = LISTS if called is None else LISTS.set(1, pa.field("subscriptions", lists.type, nullable=False))
                yield pa.RecordBatch.from_arrays([pa.array(rows), lists], schema=schema)
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
                pieces = self._cells.match_split(records, threads, self._at_once(threads))
            if self._names is None:
                return pieces, None
            return pieces, self._names.of(np.concatenate([found.ids for _, found in pieces]))

    def _at_once(self, threads: int) -> Run:
        """Does the first part here and the others in threads, which wait for the next batch: making them costs as much as
        matching a small one.
        """
        wanted = threads, getpid()  # a fork takes the pool along, but not its threads
        if self._pool is None or self._pool[0] != wanted:
            self._pool = wanted, ThreadPoolExecutor(max(1, threads - 1), thread_name_prefix="contentcast-match")
        pool = self._pool[1]

        def run(work: Callable[[int], Any], numbers: range) -> list[Any]:
            others = [pool.submit(work, number) for number in numbers[1:]]
            try:
                return [work(numbers[0]), *(each.result() for each in others)]
            finally:
                wait(others)

        return run

    def _as_records(self, events: Events, intake: Intake) -> pa.RecordBatch:
        """The space's columns in the space's types; anything that does not fit is named."""
        if isinstance(events, EventBatch):
            if events.space is not self.space and events.space != self.space:
                raise EventError(f"a batch of the space {events.space.name} does not fit an index over {self.space.name}")
            return events.records
        fitting, checks = self._fitting, self._checks
        if checks is not None and isinstance(events, pa.RecordBatch) and fitting == (intake, events.schema):
            columns = {name: events.column(name) for name in checks.suspects(events)}
            if all(check_fits(self.space, name, each, intake) is each for name, each in columns.items()):
                return events
        records = as_records(self.space, events, _one_answer(intake))
        if records is events:
            self._fitting = intake, records.schema
        return records

    # --- explaining

    def explain(self, event: Mapping[str, Any], subscription: Id | None = None, **how: Unpack[How]) -> dict[str, Any]:
        """Who gets the event: `{"matched": [1, 4]}`; or whether one subscription does and why not: see `explanation`."""
        checked = self._flat(event, how)
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


def _as_pairs(rows: Ints, ids: npt.NDArray[Any]) -> pa.RecordBatch:
    if ids.dtype == object:
        return pa.RecordBatch.from_arrays([pa.array(rows), pa.array(ids, pa.string())], schema=NAMED_PAIRS)
    # By their buffers: `pa.array` takes two microseconds more for each.
    columns = [pa.Array.from_buffers(_INT64, len(each), [None, pa.py_buffer(each)]) for each in (rows, ids)]
    return pa.RecordBatch.from_arrays(columns, schema=PAIRS)


def _which(errors: Mapping[int, ContentcastError], given: Given) -> ContentcastError:
    """The first of the texts that cannot be read, with its place in the call."""
    row = min(errors)
    more = f" ({len(errors) - 1:,} more cannot be read either)" if len(errors) > 1 else ""
    place = f"predicate {row:,} of {len(given):,}, subscription {given[row]!s}{more}"
    error = errors[row]
    return error.at(place) if isinstance(error, PredicateError) else ContentcastError(f"{place}: {error}")


def _batches(events: Events | Iterable[Events]) -> Iterable[Events]:
    """One batch, or a row of them; iterating over a pandas DataFrame would give the names of its columns."""
    return [events] if isinstance(events, (pa.RecordBatch, pa.Table, EventBatch)) or hasattr(events, "iloc") else events


def _one_answer(intake: Intake) -> Intake:
    if intake.on_error == "reject":
        raise EventError("what is rejected here could not be told; make an EventBatch with on_error='reject' and match that")
    return intake
