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
from contextlib import contextmanager
from os import getpid
from pathlib import Path
from threading import Event, Lock, get_ident
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.language import as_predicate, parse_many, print_predicate
from contentcast.language.printer import print_tree
from contentcast.matching.contract import Pairs
from contentcast.matching.index.limits import DEFAULT, Limits
from contentcast.matching.plain_index import MOST_IDS, Found, PlainIndex
from contentcast.model.errors import ContentcastError, EventError
from contentcast.model.events.arrow_columns import check_column
from contentcast.model.events.event_batch import EventBatch, flattened
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.spelling import spell_constraint
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space
from contentcast.warming.background import kernels

if TYPE_CHECKING:
    from contentcast.matching.index import CellIndex, Check, ColumnChecks, Matches, Run

Events: TypeAlias = Any
"""A pyarrow RecordBatch or Table, or an EventBatch."""
Ints: TypeAlias = npt.NDArray[np.int64]

PAIRS: Final = pa.schema([pa.field("event", pa.int64(), nullable=False), pa.field("subscription", pa.int64(), nullable=False)])
LISTS: Final = pa.schema(
    [
        pa.field("event", pa.int64(), nullable=False),
        pa.field("subscriptions", pa.list_(pa.int64()), nullable=False),
    ]
)
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
        self._fitting: pa.Schema | None = None
        """The last schema of events that fitted as it was."""
        self._pool: tuple[tuple[int, int], ThreadPoolExecutor] | None = None
        self._turns = _Turns()
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

    def add(self, subscription: int, predicate: str | Predicate) -> None:
        """One subscription; its id must not be there yet."""
        self.add_many([subscription], [as_predicate(self.space, predicate)])

    def add_many(
        self,
        ids: Sequence[int] | Ints | pa.Array | pa.ChunkedArray,
        predicates: Sequence[str | Predicate] | pa.Array | pa.ChunkedArray | PredicateTable,
        *,
        on_error: Literal["raise", "reject"] = "raise",
    ) -> dict[int, ContentcastError]:
        """Many at once, which is far faster: texts (a list or an Arrow array), predicates, or a table of them.

        With `on_error="reject"` a text that cannot be read is left out; returned are the errors by subscription id. Whatever
        else is wrong, the index stays as it was.
        """
        numbers = _as_ids(ids)
        table = self._as_table(predicates, on_error)
        if len(numbers) != len(table):
            raise ContentcastError(f"{len(numbers)} ids for {len(table)} predicates")
        if table.refused:
            kept = np.setdiff1d(np.arange(len(table)), np.array(list(table.refused)))
            refused = {int(numbers[at]): error for at, error in table.refused.items()}
            numbers, table = numbers[kept], table.take(kept)
        else:
            refused = {}
        if isinstance(self._cells, PlainIndex) and len(self) + len(numbers) >= LARGE:
            if kernels.at_hand():
                kernels.wait()
                self.use_kernels()
            else:
                kernels.ask()
        with self._turns.change():
            self._changes += 1
            self._cells.add(numbers, table)
        return refused

    def _as_table(self, predicates: Any, on_error: Literal["raise", "reject"]) -> PredicateTable:
        if isinstance(predicates, PredicateTable):
            if predicates.space != self.space:
                raise ContentcastError(f"predicates over {predicates.space.name} do not fit the space {self.space.name}")
            return predicates
        if not isinstance(predicates, (pa.Array, pa.ChunkedArray)) and any(isinstance(each, Predicate) for each in predicates):
            return PredicateTable.of(self.space, [as_predicate(self.space, each) for each in predicates])
        return parse_many(self.space, predicates, on_error=on_error)

    def remove(self, subscription: int) -> None:
        self.remove_many([subscription])

    def remove_many(self, ids: Sequence[int] | Ints | pa.Array) -> None:
        """All or none: an id that is not there is named, and the index stays as it was."""
        numbers = _as_ids(ids)
        each, counts = np.unique(numbers, return_counts=True)
        if len(each) < len(numbers):
            raise ContentcastError(f"subscription {int(each[counts > 1][0])} is to be removed twice; name each once")
        with self._turns.change():
            self._changes += 1
            self._cells.remove(numbers)

    def __len__(self) -> int:
        return len(self._cells)

    def __contains__(self, subscription: object) -> bool:
        with self._turns.read():
            return isinstance(subscription, int) and 0 <= subscription < MOST_IDS and subscription in self._cells

    def __iter__(self) -> Iterator[int]:
        """The ids, ascending."""
        with self._turns.read():
            return iter(self._cells.ids().tolist())

    def predicate(self, subscription: int) -> Predicate:
        """What a subscription asks for, in canonical form."""
        with self._turns.read():
            return self._cells.predicate(subscription)

    # --- matching

    def match(self, event: Mapping[str, Any]) -> list[int]:
        """The ids of the subscriptions that one event satisfies, ascending."""
        # As `with self._turns.read()`, which would take half a microsecond more.
        turns, mine = self._turns, object()
        try:
            turns.reading[mine] = get_ident()
            if turns.changing:
                turns.wait(mine)
            return (self._cells.one or self._cells.single()).match(event)
        except (EventError, AttributeError):  # nested, or wrong, or no dict at all
            return self._cells.single().match(self._flat(event))
        finally:
            turns.reading.pop(mine, None)
            if turns.changing:
                turns.left.set()

    def match_ids(self, event: Mapping[str, Any]) -> npt.NDArray[np.int64]:
        """The same as an array: of an event that hundreds want, most of the time of `match` goes into making Python ints."""
        with self._turns.read():
            try:
                return (self._cells.one or self._cells.single()).match(event, as_array=True)
            except (EventError, AttributeError):  # nested, or wrong, or no dict at all
                return self._cells.single().match(self._flat(event), as_array=True)

    def _flat(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """A nested event without its nesting; whatever is wrong with it otherwise is named."""
        if not isinstance(event, Mapping):
            raise EventError(f"one event is a dict of its attributes, not {type(event).__name__}; many go to match_batch")
        (flat,) = EventBatch.from_dicts(self.space, [event]).to_dicts()
        return flat

    def match_batch(self, events: Events, *, threads: int = 1) -> pa.RecordBatch:
        """Every (event, subscription) that match; `event` is the row number. Rows stand in the order of the events.

        Columns go by name: others than the space's are ignored, a missing one is absent everywhere.
        """
        return _as_pairs(*self._match_rows(events, threads))

    def match_pairs(self, events: Events, *, threads: int = 1) -> Pairs:
        """The same as plain arrays."""
        return Pairs(*self._match_rows(events, threads))

    def _match_rows(self, events: Events, threads: int) -> tuple[Ints, Ints]:
        pieces = self._match_pieces(self._as_records(events), threads)
        if len(pieces) == 1:
            return pieces[0][1].rows(), pieces[0][1].ids
        from contentcast.matching.index import in_one

        return in_one(pieces, self._at_once(threads))

    def match_offsets(self, events: Events) -> tuple[Ints, Ints]:
        """The same as two plain arrays, the quickest of all: event i satisfies ids[offsets[i] : offsets[i + 1]]."""
        records = self._as_records(events)
        offsets = np.zeros(records.num_rows + 1, np.int64)
        if not len(self._cells):
            return offsets, _NOBODY
        self._prepare(records.num_rows)
        with self._turns.read():
            found = self._cells.match(records)
        offsets[1:] = found.ends
        return offsets, found.ids

    def match_lists(self, events: Events, *, threads: int = 1) -> pa.ListArray:
        """The same as one list of ids per event, without a row number for each pair."""
        pieces = self._match_pieces(self._as_records(events), threads)
        counts = np.concatenate([np.diff(each.ends, prepend=0) for _, each in pieces])
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        ids = pieces[0][1].ids if len(pieces) == 1 else np.concatenate([each.ids for _, each in pieces])
        return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))

    def match_counts(self, events: Events, *, threads: int = 1) -> pa.Int64Array:
        """How many subscriptions each event satisfies."""
        pieces = self._match_pieces(self._as_records(events), threads)
        return pa.array(np.concatenate([np.diff(each.ends, prepend=0) for _, each in pieces]))

    def match_stream(self, events: Events | Iterable[Events], *, most_pairs: int = MOST_PAIRS) -> Iterator[pa.RecordBatch]:
        """As `match_batch`, in pieces of about `most_pairs` pairs (one event's pairs always stay together).

        Takes one batch or an endless row of them; event numbers go on from batch to batch.
        """
        batches = [events] if isinstance(events, (pa.RecordBatch, pa.Table, EventBatch)) else events
        first = 0
        for batch in batches:
            records = self._as_records(batch)
            for begin, found in self._in_turns(records, most_pairs):
                rows = found.rows(first + begin)
                yield _as_pairs(rows, found.ids)
            first += records.num_rows

    def match_list_stream(self, events: Events | Iterable[Events], *, most_pairs: int = MOST_PAIRS) -> Iterator[pa.RecordBatch]:
        """As `match_stream`, but each event that somebody wants comes once, with the list `subscriptions` of their ids."""
        batches = [events] if isinstance(events, (pa.RecordBatch, pa.Table, EventBatch)) else events
        first = 0
        for batch in batches:
            records = self._as_records(batch)
            for begin, found in self._in_turns(records, min(most_pairs, MOST_IN_LISTS)):
                counts = np.diff(found.ends, prepend=0)
                wanted = np.flatnonzero(counts)
                offsets = np.zeros(len(wanted) + 1, np.int32)
                np.cumsum(counts[wanted], out=offsets[1:])
                lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(found.ids))
                yield pa.RecordBatch.from_arrays([pa.array(first + begin + wanted), lists], schema=LISTS)
            first += records.num_rows

    def _in_turns(self, records: pa.RecordBatch, most: int) -> Iterator[tuple[int, Matches | Found]]:
        """The matches in pieces: reading while one is made, and not while the caller has it."""
        self._prepare(records.num_rows)
        changes, pieces = self._changes, self._cells.match_bounded(records, most)
        while True:
            with self._turns.read():
                if self._changes != changes:
                    raise ContentcastError("the index was changed while its matches were read; read them all first")
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece

    def _match_pieces(self, records: pa.RecordBatch, threads: int) -> list[tuple[int, Any]]:
        self._prepare(records.num_rows)
        with self._turns.read():
            if threads <= 1 or records.num_rows < 2 * threads:
                return [(0, self._cells.match(records))]
            return self._cells.match_split(records, threads, self._at_once(threads))

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

    def _as_records(self, events: Events) -> pa.RecordBatch:
        """The space's columns in the space's types; anything that does not fit is named."""
        if isinstance(events, EventBatch):
            if events.space is not self.space and events.space != self.space:
                raise EventError(f"a batch of the space {events.space.name} does not fit an index over {self.space.name}")
            return events.records
        if not isinstance(events, (pa.RecordBatch, pa.Table)):
            raise EventError(f"events come as a pyarrow RecordBatch or Table or an EventBatch, not as {type(events).__name__}")
        if (
            self._fitting is not None
            and self._checks is not None
            and isinstance(events, pa.RecordBatch)
            and events.schema.equals(self._fitting)
        ):
            for name in self._checks.suspects(events):
                self._check(name, events.column(name))
            return events
        given = events
        if any(pa.types.is_struct(field.type) for field in events.schema):
            events = flattened(events)
        arrays = []
        fields = []
        fits = isinstance(given, pa.RecordBatch) and given is events and len(set(given.schema.names)) == len(given.schema)
        for name, kind in self.space.kinds.items():
            if name not in events.schema.names:
                continue
            column = events.column(name)
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
            if column.type != kind.arrow:
                fits = False
                column = self._check(name, column)
            else:
                self._check(name, column)
            arrays.append(column)
            fields.append(self.space.arrow_schema.field(name))
        if fits:
            self._fitting = given.schema
            return given
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.nulls(events.num_rows, pa.struct([])).fill_null({}))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _check(self, name: str, column: pa.Array) -> pa.Array:
        """The column as `EventBatch` would hold it; what is wrong in it is named."""
        column, complaints = check_column(self.space, name, column)
        if complaints:
            row, attribute, _, reason = complaints[0]
            raise EventError(f"event {row}, attribute {attribute}: {reason}")
        return column

    # --- explaining

    def explain(self, event: Mapping[str, Any], subscription: int | None = None) -> dict[str, Any]:
        """Who gets the event; of one subscription, whether it does and, if not, which test of each alternative fails.

        `{"matched": [1, 4]}`, or `{"subscription": 7, "matched": False, "predicate": ..., "failed": [...]}`.
        """
        (checked,) = EventBatch.from_dicts(self.space, [event]).to_dicts()
        if subscription is None:
            return {"matched": self.match(event)}
        predicate = self.predicate(subscription)
        failed = []
        for conjunction in predicate.conjunctions:
            for name, constraint in conjunction.items:
                if not constraint.accepts(checked.get(name)):
                    failed.append({"test": print_tree(spell_constraint(name, constraint)), "value": checked.get(name)})
        matched = predicate.accepts(checked)
        text = print_predicate(predicate)
        return {"subscription": subscription, "matched": matched, "predicate": text, "failed": [] if matched else failed}

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
        cells.guard = Lock()
        return found


class _Turns:
    """Many may read at once, or one may change.

    Whoever reads puts a token into `reading` and then looks whether somebody is changing. Whoever changes says so and then
    waits until all tokens are taken back. Both speak before they look, so one of them sees the other.
    """

    __slots__ = ("_lock", "_owner", "_process", "changing", "left", "reading")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.reading: dict[object, int] = {}
        """The thread of each token."""
        self.changing = False
        self.left = Event()
        """Set by who stops reading while somebody waits to change."""
        self._lock, self._owner, self._process = Lock(), 0, getpid()

    def read(self) -> _Reading:
        return _Reading(self)

    def wait(self, mine: object) -> None:
        """Let the change go first."""
        while self.changing and self._process == getpid():
            if self._owner == get_ident():
                raise ContentcastError("the index cannot be read in the midst of its own change")
            self.reading.pop(mine, None)
            self.left.set()
            with self._lock:
                self.reading[mine] = get_ident()

    @contextmanager
    def change(self) -> Iterator[None]:
        me = get_ident()
        if self._process != getpid():
            self._begin()  # a fork has none of the other threads
        if self._owner == me or me in list(self.reading.values()):
            raise ContentcastError("the index cannot be changed in the midst of reading or changing it; finish that first")
        with self._lock:
            try:
                self._owner, self.changing = me, True
                while self.reading:
                    self.left.wait(0.05)
                    self.left.clear()
                yield
            finally:
                self._owner, self.changing = 0, False


class _Reading:
    """Reading goes on while this is entered. It is its own token; a generator in its place took a microsecond more."""

    __slots__ = ("_turns",)

    def __init__(self, turns: _Turns) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        try:
            self._turns.reading[self] = get_ident()
            if self._turns.changing:
                self._turns.wait(self)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._turns.reading.pop(self, None)
        if self._turns.changing:
            self._turns.left.set()


def _as_pairs(rows: Ints, ids: Ints) -> pa.RecordBatch:
    # By their buffers: `pa.array` takes two microseconds more for each.
    columns = [pa.Array.from_buffers(_INT64, len(each), [None, pa.py_buffer(each)]) for each in (rows, ids)]
    return pa.RecordBatch.from_arrays(columns, schema=PAIRS)


def _as_ids(ids: Any) -> npt.NDArray[np.int64]:
    if isinstance(ids, (pa.Array, pa.ChunkedArray)):
        if ids.null_count:
            raise ContentcastError("a subscription id is missing (null)")
        ids = ids.to_numpy() if isinstance(ids, pa.ChunkedArray) else ids.to_numpy(zero_copy_only=False)
    numbers = np.asarray(ids)
    if not len(numbers):
        return np.zeros(0, np.int64)
    if numbers.dtype.kind not in "iu":
        raise ContentcastError(f"subscription ids are ints, not {numbers.flat[0]!r}")
    return numbers.astype(np.int64, casting="same_kind" if numbers.dtype.kind == "i" else "unsafe")
