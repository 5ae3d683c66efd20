"""One version of prepared subscriptions as a worker has it: the files of `indexes`, mapped when they are first used.

Copies that a worker was brought are removed when they are old. A process that may still read a version holds a shared lock on
its `about`, and as long as anybody holds one the files of that version stay.
Rule: a worker whose memory is limited holds the index of one shard at a time; others keep all that they have mapped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles

import contentcast as cc
from contentcast.model.errors import ContentcastError
from contentcast.spark.cluster.room import LIMIT, memory_limit
from contentcast.spark.subscriptions.building import read_about
from contentcast.spark.subscriptions.shards import ONE, Ints, key_values, visitors
from contentcast.spark.subscriptions.tables import ID

if TYPE_CHECKING:
    from contentcast.spark.subscriptions.indexes import Prepared

PAIRS_AT_A_TIME: Final = 1 << 22
"""In one piece; sorted and written as one row group by `one_pass`, where a task holds some 200 MB of them."""


class Mapped:
    """One version's files, mapped into this process when they are first used."""

    def __init__(self, prepared: Prepared, version: str) -> None:
        self._prepared, self._version = prepared, version
        self._indexes: dict[int, cc.MatchIndex] = {}
        about = self._find("about")
        self.is_copy = about != prepared.path(version, "about")
        if self.is_copy:
            self._held = _held(about)
        self.about = read_about(self._find("about"))

    def _find(self, what: str) -> Path:
        path = self._prepared.path(self._version, what)
        if path.exists():
            return path
        copied = Path(SparkFiles.get(path.name))
        if copied.exists():
            return copied
        raise ContentcastError(
            f"this worker sees neither {path} nor a copy of it; prepare into a folder= that all workers share"
        )

    def index(self, shard: int = 0) -> cc.MatchIndex:
        if shard not in self._indexes:
            if memory_limit() is not None:
                self._indexes.clear()
            path = self._find(f"index-{shard}")
            try:
                self._indexes[shard] = cc.MatchIndex.load(path)
            except (MemoryError, ContentcastError) as reason:
                if not isinstance(reason, MemoryError) and os.strerror(errno.ENOMEM) not in str(reason):
                    raise
                raise ContentcastError(
                    f"this worker cannot map {path.name}, {path.stat().st_size >> 20:,} MB of an index; allow it "
                    f"more memory ({LIMIT}), or split the subscriptions into more shards (shards=)"
                ) from None
        return self._indexes[shard]

    def found(self, events: pa.RecordBatch | pa.Table, *, most_pairs: int) -> Iterator[tuple[Ints, Ints]]:
        """Events (their rows) and what the index found for them, in pieces; from each shard only for those that visit it.

        No shuffle: all shards are mapped in this process, and the system keeps in memory what there is room for.
        """
        if self.about.shards == ONE:
            for pairs in self.index().match_stream(events, most_pairs=most_pairs, unknown="ignore"):
                yield pairs["event"].to_numpy(), pairs["subscription"].to_numpy()
            return
        for shard, rows in enumerate(visitors(key_values(events, self.about.shards), self.about.shards)):
            if len(rows):
                mine = events.take(pa.array(rows))
                for pairs in self.index(shard).match_stream(mine, most_pairs=most_pairs, unknown="ignore"):
                    yield rows[pairs["event"].to_numpy()], pairs["subscription"].to_numpy()

    def found_at_once(self, events: pa.RecordBatch | pa.Table) -> tuple[Ints, Ints]:
        """As `found`, all together, in the order of the events."""
        pieces = [(np.zeros(0, np.int64), np.zeros(0, np.int64)), *self.found(events, most_pairs=PAIRS_AT_A_TIME)]
        rows, ids = (np.concatenate(each) for each in zip(*pieces, strict=True))
        if self.about.shards != ONE:
            order = np.argsort(rows, kind="stable")
            rows, ids = rows[order], ids[order]
        return rows, ids

    def holding(self, found: int) -> cc.MatchIndex | None:
        """The index, or that of the first shard, which has this subscription."""
        shards = (self.index(shard) for shard in range(self.about.shards.count))
        return next((each for each in shards if found in each), None)

    def column(self, name: str, found: pa.Array) -> pa.Array:
        """One column of the subscriptions that the index found."""
        if not self.about.by_row or (name == ID and self._ids_are_rows):
            return found
        taken = self._columns[name].take(found)
        return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken

    @property
    def rows(self) -> int:
        """Of the columns, those included whose predicate cannot be read and which the index does not hold."""
        return len(self._columns[ID])

    @cached_property
    def _ids_are_rows(self) -> bool:
        """Are the subscriptions numbered from 0 on, as the index has them?"""
        ids = self._columns[ID]
        return ids.type == pa.int64() and ids.null_count == 0 and np.array_equal(ids.to_numpy(), np.arange(len(ids)))

    @cached_property
    def _columns(self) -> dict[str, pa.Array | pa.ChunkedArray]:
        table = pa.ipc.open_file(pa.memory_map(str(self._find("columns")))).read_all()
        # A take from one array is several times as fast as one from chunks.
        return {
            name: column.chunk(0) if column.num_chunks == 1 else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }


def _held(about: Path) -> BinaryIO:
    """Until the file is closed, which it is with the object that has it."""
    import fcntl

    file = about.open("rb")
    with suppress(OSError):  # a file system without locks: then nobody gets one, and nothing is removed
        fcntl.flock(file, fcntl.LOCK_SH)
    return file


def remove_copies(files: Iterable[Path]) -> None:
    """Of each version all files, unless a process holds it."""
    import fcntl

    versions: dict[str, list[Path]] = {}
    for path in files:
        prefix, _, what = path.name.partition("-index-")
        versions.setdefault(prefix if what else prefix.rpartition("-")[0], []).append(path)
    for name, paths in versions.items():
        with suppress(OSError), ExitStack() as until_removed:
            about = paths[0].with_name(f"{name}-about")
            if about in paths:
                held = until_removed.enter_context(about.open("rb"))
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in paths:
                path.unlink(missing_ok=True)
