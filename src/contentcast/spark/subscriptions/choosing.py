"""How many shards a table of subscriptions needs, and by which attribute: by its size, and by the memory of a worker.

A table that one index can hold stays whole. Others are split into shards of about SHARD_ROWS: small enough that several tasks
build them at the same time. What the predicates pin down is counted in a sample, which is the whole table up to SAMPLE rows.
Rule: any choice gives the same matches; it decides about memory and time alone.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import contentcast as cc
from contentcast.language import parse_many
from contentcast.model.errors import ContentcastError, nearest
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space
from contentcast.spark.subscriptions.shards import KEY_KINDS, ONE, Shards, pinned_rows, take_rows

SHARD_FROM: Final = 8_000_000
"""Up to here subscriptions stay in one index: 1.1 GB of it at the 137 bytes that one of the market's takes in its file."""
SHARD_ROWS: Final = 2_000_000
"""Subscriptions of one shard, when there are shards."""
HOT_FROM: Final = 1.5
"""A value is hot when it alone has this many times the subscriptions of a shard."""
SAMPLE: Final = 200_000
WEIGHED: Final = 20_000
"""Subscriptions that are put into an index to see how many bytes one takes."""


def choose_shards(space: Space, texts: pa.ChunkedArray, shards: int | None, key: str | None, room: int | None = None) -> Shards:
    """As asked for, or by the size of the table; the key is the attribute that most subscriptions pin down.

    `room`: how many bytes of an index a worker can hold, if it is limited.
    """
    if shards is not None and shards < 1:
        raise ContentcastError(f"shards counts from 1, got {shards}")
    if key is not None and (key not in space or space[key].kind not in KEY_KINDS):
        keys = [name for name in space.names if space[name].kind in KEY_KINDS]
        raise ContentcastError(f"{space.name} cannot be sharded by {key!r}{nearest(key, keys, 'by one of')}")
    count = len(texts)
    if shards is None:
        most = SHARD_FROM if room is None or not count else min(SHARD_FROM, _that_fit(space, texts, room))
        shards = 1 if count <= most else -(-count // min(SHARD_ROWS, most))
    if shards == 1:
        return ONE
    table = parse_many(space, sampled(texts, SAMPLE), on_error="reject")
    pinned = {name: int(pinned_rows(table, name)[0].sum()) for name in space.names if space[name].kind in KEY_KINDS}
    chosen = key if key is not None else max(pinned, key=lambda name: pinned[name], default=None)
    if chosen is None or not pinned[chosen]:
        return Shards(None, 0, shards)
    seen = max(1, len(table))
    rest = min(shards - 1, -(-shards * (seen - pinned[chosen]) // seen)) if pinned[chosen] < seen else 0
    hot = _hot_values(table, chosen, max(1.0, seen / shards))
    by_value = max(1, shards - rest - sum(parts for _, parts in hot))
    return Shards(chosen, by_value, max(1, rest), hot)  # one for the rest in any case: a later table may have some


def _hot_values(table: PredicateTable, key: str, share: float) -> tuple[tuple[int, int], ...]:
    """(hash, parts) of each value that has many more subscriptions than the share of a shard."""
    _, rows, hashes = pinned_rows(table, key)
    distinct = np.unique(np.stack([hashes, rows]), axis=1)[0]  # a subscription may list two values of one hash
    values, counts = np.unique(distinct, return_counts=True)
    large = (counts > HOT_FROM * share) & (counts > 1)
    return tuple((int(value), -int(-count // share)) for value, count in zip(values[large], counts[large], strict=True))


def sampled(texts: pa.ChunkedArray, most: int) -> pa.ChunkedArray:
    """At most so many rows, evenly from the whole table."""
    count = len(texts)
    return texts if count <= most else take_rows(texts, np.linspace(0, count - 1, most).astype(np.int64))


def _that_fit(space: Space, texts: pa.ChunkedArray, room: int) -> int:
    """How many subscriptions an index of so many bytes holds; weighed, because one may take 50 bytes or 5,000."""
    some = sampled(texts, WEIGHED)
    index = cc.MatchIndex(space)
    table = parse_many(space, some, on_error="reject")
    index.add_many(range(len(table)), table)
    with tempfile.TemporaryDirectory(prefix="contentcast-") as folder:
        path = Path(folder) / "index"
        index.save(path)
        each = path.stat().st_size / len(some)
    return max(1, int(room / each))
