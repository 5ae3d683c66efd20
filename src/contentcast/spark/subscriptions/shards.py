"""Subscriptions in shards, for tables that outgrow one worker's memory; and which shards an event must visit.

A shard key is one attribute. A subscription that accepts only a few values of it lies in the shards of these values' hashes;
any other lies in one of the shards of the rest. An event visits the one shard of its value, and every shard of the rest:

    key symbol, 2 shards by value and 1 of the rest        symbol = 'IBM' AND price < 9          -> shard 1
                                                           symbol IN ('IBM', 'SAP')              -> shards 0 and 1
    event {symbol: 'IBM'}  -> shards 1 and 2               volume > 100                          -> shard 2 (the rest)
    event {}               -> shard 2                      symbol = 'SAP' OR volume > 100        -> shard 2

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
from contentcast.model.errors import ContentcastError, nearest
from contentcast.model.events.event_batch import flattened
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.space import Space

Ints = npt.NDArray[np.int64]

SHARD_FROM: Final = 8_000_000
"""So many subscriptions are matched by one index, 2.6 GB of it at the 320 bytes that one of the market's takes; more of them
are split into shards of at most so many."""
KEY_KINDS: Final = ("string", "int")
BLOCK_ROWS: Final = 1_000_000
"""Subscriptions parsed at a time while shards are chosen."""
MOST_VALUES: Final = 64
"""A subscription that lists more values of the key than this goes to the rest."""


@dataclass(frozen=True)
class Shards:
    """Shards 0 to by_value - 1 are of the key's values, then come those of the rest. `key` is None if all are of the rest."""

    key: str | None = None
    by_value: int = 0
    rest: int = 1

    @property
    def count(self) -> int:
        return self.by_value + self.rest


ONE: Final = Shards()


def choose_shards(space: Space, texts: pa.ChunkedArray, shards: int | None, key: str | None) -> Shards:
    """As asked for, or by the size of the table; the key is the attribute that most subscriptions pin down."""
    if shards is not None and shards < 1:
        raise ContentcastError(f"shards counts from 1, got {shards}")
    if key is not None and (key not in space or space[key].kind not in KEY_KINDS):
        keys = [name for name in space.names if space[name].kind in KEY_KINDS]
        raise ContentcastError(f"{space.name} cannot be sharded by {key!r}{nearest(key, keys, 'by one of')}")
    wanted = shards if shards is not None else -(-len(texts) // SHARD_FROM)
    if wanted <= 1:
        return ONE
    pinned: dict[str, int] = {name: 0 for name in space.names if space[name].kind in KEY_KINDS}
    for _, table in _parsed(space, texts):
        for name in pinned:
            pinned[name] += int(_pinned_rows(table, name)[0].sum())
    chosen = key if key is not None else max(pinned, key=lambda name: pinned[name], default=None)
    if chosen is None or not pinned[chosen]:
        return Shards(None, 0, wanted)
    total = max(1, len(texts))
    rest = min(wanted - 1, -(-wanted * (total - pinned[chosen]) // total)) if pinned[chosen] < total else 0
    return Shards(chosen, wanted - rest, max(1, rest))  # one for the rest in any case: a later table may have some


def split(space: Space, texts: pa.ChunkedArray, shards: Shards) -> Iterator[tuple[Ints, dict[int, ContentcastError]]]:
    """For each shard the rows that lie in it, ascending; with the first of them the errors of all rows that cannot be read."""
    rows: list[list[Ints]] = [[] for _ in range(shards.count)]
    refused: dict[int, ContentcastError] = {}
    for start, table in _parsed(space, texts):
        refused |= {start + row: error for row, error in table.refused.items()}
        usable = np.ones(len(table), np.bool_)
        usable[list(table.refused)] = False
        for shard, found in enumerate(_rows_by_shard(table, shards, start)):
            rows[shard].append(found[usable[found - start]])
    for parts in rows:
        yield np.concatenate([np.zeros(0, np.int64), *parts]), refused
        refused = {}


def _parsed(space: Space, texts: pa.ChunkedArray) -> Iterator[tuple[int, PredicateTable]]:
    for start in range(0, len(texts), BLOCK_ROWS):
        yield start, parse_many(space, texts.slice(start, BLOCK_ROWS), on_error="reject")


def _rows_by_shard(table: PredicateTable, shards: Shards, start: int) -> Iterator[Ints]:
    if shards.key is None:
        pinned, rows, hashes = np.zeros(len(table), np.bool_), np.zeros(0, np.int64), np.zeros(0, np.int64)
    else:
        pinned, rows, hashes = _pinned_rows(table, shards.key)
    for shard in range(shards.by_value):
        yield np.unique(rows[hashes % shards.by_value == shard]) + start
    others = np.flatnonzero(~pinned) + start
    for shard in range(shards.rest):
        yield others[others % shards.rest == shard]


def _pinned_rows(table: PredicateTable, key: str) -> tuple[npt.NDArray[np.bool_], Ints, Ints]:
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
        hashes.append(_hash_each(column.values)[column.code[single]])
    of.append(column.conjunction[single])
    listed = [column.conjunction[single]]
    for number, constraint in enumerate(column.others):
        values = constraint.ranges.values(MOST_VALUES) if constraint.only_ranges and not constraint.absent else None
        if values is None:
            continue
        mine = column.conjunction[column.other == number]
        listed.append(mine)
        each = hash_ints(np.array(values, np.int64)) if column.kind.name == "int" else _hash_each(pa.array(values))
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
        where = _hash_column(values.take(pa.array(with_value))) % shards.by_value
        for shard in range(shards.by_value):
            yield with_value[where == shard]
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
    return _hash_each(encoded.dictionary)[codes]


def _hash_each(texts: pa.Array) -> Ints:
    """CRC-32 of the UTF-8 bytes: the same in every process, which Python's own hash is not."""
    found: Any = [zlib.crc32(each) for each in texts.cast(pa.binary()).to_pylist()]
    return np.array(found, np.int64)
