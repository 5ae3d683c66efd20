"""Subscriptions in shards, for tables that outgrow one worker's memory; and which shards an event must visit.

A shard key is one attribute. A subscription that accepts only a few values of it lies in the shards of these values' hashes;
any other lies in one of the shards of the rest. An event visits the one shard of its value, and every shard of the rest:

    key symbol, 2 shards by value and 1 of the rest        symbol = 'IBM' AND price < 9          -> shard 1
                                                           symbol IN ('IBM', 'SAP')              -> shards 0 and 1
    event {symbol: 'IBM'}  -> shards 1 and 2               volume > 100                          -> shard 2 (the rest)
    event {}               -> shard 2                      symbol = 'SAP' OR volume > 100        -> shard 2

A value that most subscriptions share would make one shard as large as all. It is hot: it has shards of its own, each with a
part of its subscriptions, and an event with that value visits all of them.

    symbol = 'IBM' hot in 2 parts: shards 2 and 3          its subscriptions in rows 0, 2, 4 ...  -> shard 2
    event {symbol: 'IBM'}  -> shards 2, 3 and 4            its subscriptions in rows 1, 3, 5 ...  -> shard 3

Rule: an event meets a subscription in one shard at most, so no pair is found twice; and in one at least, if they match: what
accepts an event without the attribute, or with values that cannot be listed, is in the rest.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from contentcast.language import parse_many
from contentcast.model.errors import ContentcastError
from contentcast.model.events.event_batch import flattened
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.space import Space

Ints = npt.NDArray[np.int64]

KEY_KINDS: Final = ("string", "int")
BLOCK_ROWS: Final = 1_000_000
"""Subscriptions parsed at a time while shards are chosen."""
MOST_VALUES: Final = 64
"""A subscription that lists more values of the key than this goes to the rest."""


@dataclass(frozen=True)
class Shards:
    """Shards 0 to by_value - 1 are of the key's values, then come those of each hot value, then those of the rest.

    `key` is None if all are of the rest. `hot`: the hash of each hot value, and in how many parts its subscriptions lie.
    """

    key: str | None = None
    by_value: int = 0
    rest: int = 1
    hot: tuple[tuple[int, int], ...] = ()

    @property
    def count(self) -> int:
        return self.by_value + sum(parts for _, parts in self.hot) + self.rest


ONE: Final = Shards()


def split(space: Space, texts: pa.ChunkedArray, shards: Shards) -> Iterator[tuple[Ints, dict[int, ContentcastError]]]:
    """For each shard the rows that lie in it, ascending; with the first of them the errors of all rows that cannot be read."""
    rows: list[list[Ints]] = [[] for _ in range(shards.count)]
    refused: dict[int, ContentcastError] = {}
    for start in range(0, len(texts), BLOCK_ROWS):
        found, errors = split_block(space, texts.slice(start, BLOCK_ROWS), shards, start)
        refused |= errors
        for shard, mine in enumerate(found):
            rows[shard].append(mine)
    for parts in rows:
        yield np.concatenate([np.zeros(0, np.int64), *parts]), refused
        refused = {}


def split_block(
    space: Space, texts: pa.ChunkedArray, shards: Shards, start: int
) -> tuple[list[Ints], dict[int, ContentcastError]]:
    """The same for some rows of the table; `start` is the number of the first."""
    table = parse_many(space, texts, on_error="reject")
    usable = np.ones(len(table), np.bool_)
    usable[list(table.refused)] = False
    rows = [found[usable[found - start]] for found in _rows_by_shard(table, shards, start)]
    return rows, {start + row: error for row, error in table.refused.items()}


def take_rows(texts: pa.ChunkedArray, rows: Ints) -> pa.ChunkedArray:
    """Some rows, ascending. Chunk by chunk: Arrow's own `take` may put all chunks together, which 2 GB of text do not allow."""
    parts, begin = [], 0
    for chunk in texts.chunks:
        first, last = np.searchsorted(rows, (begin, begin + len(chunk)))
        parts.append(chunk.take(pa.array(rows[first:last] - begin)))
        begin += len(chunk)
    return pa.chunked_array(parts, texts.type)


def _rows_by_shard(table: PredicateTable, shards: Shards, start: int) -> Iterator[Ints]:
    if shards.key is None:
        pinned, rows, hashes = np.zeros(len(table), np.bool_), np.zeros(0, np.int64), np.zeros(0, np.int64)
    else:
        pinned, rows, hashes = pinned_rows(table, shards.key)
    cold = ~_is_hot(hashes, shards)
    for shard in range(shards.by_value):
        yield np.unique(rows[cold & (hashes % shards.by_value == shard)]) + start
    for value, parts in shards.hot:
        mine = np.unique(rows[hashes == value]) + start
        for part in range(parts):
            yield mine[mine % parts == part]
    others = np.flatnonzero(~pinned) + start
    for shard in range(shards.rest):
        yield others[others % shards.rest == shard]


def _is_hot(hashes: Ints, shards: Shards) -> npt.NDArray[np.bool_]:
    return np.isin(hashes, [value for value, _ in shards.hot])


def pinned_rows(table: PredicateTable, key: str) -> tuple[npt.NDArray[np.bool_], Ints, Ints]:
    """Which predicates accept only listed values of the key; and of those (row, hash of a value) for each value."""
    conjunctions = np.bincount(table.predicate_of, minlength=len(table))
    column = table.columns.get(key)
    if column is None:
        return np.zeros(len(table), np.bool_), np.zeros(0, np.int64), np.zeros(0, np.int64)
    of, hashes, listed = _values_of(column)
    pinning = np.bincount(table.predicate_of[listed], minlength=len(table))
    pinned = (pinning == conjunctions) & (conjunctions > 0)
    rows = table.predicate_of[of]
    return pinned, rows[pinned[rows]], hashes[pinned[rows]]


def _values_of(column: ConstraintColumn) -> tuple[Ints, Ints, Ints]:
    """(conjunction, hash) of each listed value, and the conjunctions that list theirs."""
    of: list[Ints] = []
    hashes: list[Ints] = []
    single = column.other < 0
    if column.kind.name == "int":
        single &= column.first == column.last
        hashes.append(hash_ints(column.first[single]))
    else:
        hashes.append(hash_texts(column.values)[column.code[single]])
    of.append(column.conjunction[single])
    listed = [column.conjunction[single]]
    for number, constraint in enumerate(column.others):
        values = constraint.ranges.values(MOST_VALUES) if constraint.only_ranges and not constraint.absent else None
        if values is None:
            continue
        mine = column.conjunction[column.other == number]
        listed.append(mine)
        each = hash_ints(np.array(values, np.int64)) if column.kind.name == "int" else hash_texts(pa.array(values))
        of.append(np.repeat(mine, len(each)))
        hashes.append(np.tile(each, len(mine)))
    return np.concatenate(of), np.concatenate(hashes), np.unique(np.concatenate(listed))


# --- the same hash on the side of the events


def visits(events: pa.RecordBatch, values: pa.Array, shards: Shards) -> tuple[pa.RecordBatch, Ints]:
    """The events once for each shard that they visit, and the shards."""
    rows = list(visitors(values, shards))
    where = np.repeat(np.arange(shards.count), [len(each) for each in rows])
    return events.take(pa.array(np.concatenate(rows))), where


def visitors(values: pa.Array, shards: Shards) -> Iterator[Ints]:
    """For each shard the rows of the events that visit it, ascending; `values` are those of `key_values`."""
    if shards.by_value:
        with_value = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        hashes = _hash_column(values.take(pa.array(with_value)))
        where = np.where(_is_hot(hashes, shards), -1, hashes % shards.by_value)
        for shard in range(shards.by_value):
            yield with_value[where == shard]
        for value, parts in shards.hot:
            for _ in range(parts):
                yield with_value[hashes == value]
    for _ in range(shards.rest):
        yield np.arange(len(values))


def key_values(events: pa.RecordBatch | pa.Table, shards: Shards) -> pa.Array:
    """The column that says where events go, also if it lies inside a struct; any column if it does not matter."""
    if shards.key is None:
        return _whole(events.column(0))
    if shards.key in events.schema.names:
        return _whole(events.column(shards.key))
    table: Any = flattened(events)
    return _whole(table.column(shards.key)) if shards.key in table.column_names else pa.nulls(events.num_rows, pa.string())


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def hash_ints(numbers: Ints) -> Ints:
    """Not the numbers themselves: ids that are all multiples of the number of shards would meet in one."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    return (mixed >> np.uint64(33)).astype(np.int64)


def _hash_column(values: pa.Array) -> Ints:
    if pa.types.is_integer(values.type):
        return hash_ints(values.to_numpy(zero_copy_only=False))
    encoded = values.dictionary_encode()
    codes: Ints = encoded.indices.to_numpy(zero_copy_only=False)
    return hash_texts(encoded.dictionary)[codes]


def hash_texts(texts: pa.Array) -> Ints:
    """CRC-32 of the UTF-8 bytes: the same in every process, which Python's own hash is not."""
    found: Any = [zlib.crc32(each) for each in texts.cast(pa.binary()).to_pylist()]
    return np.array(found, np.int64)
