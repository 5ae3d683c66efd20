"""Subscriptions made ready for workers: files that every worker maps into memory, in versions of which one is current.

    folder/contentcast-KEY-VERSION-index-0     a MatchIndex, one for each shard; its ids are rows of the columns
    folder/contentcast-KEY-VERSION-columns     the subscriptions' columns without the predicates (Arrow IPC)
    folder/contentcast-KEY-VERSION-refused     what was refused, and why (Arrow IPC)
    folder/contentcast-KEY-VERSION-about       the shards (JSON)
    folder/contentcast-KEY-current             the version for tasks that are not told one

Workers of a local Spark, and of a cluster that shares the folder, map the files where they lie; others get copies by
`SparkContext.addFile`. A stream follows a table that lies in files: `deliver` looks before each micro-batch whether they have
changed and tells its tasks the version; under another sink the first task of a micro-batch looks, if it can see the files, and
all tasks of that micro-batch, also when run again, take what it found.
Rule: a file never changes once it has its name; a version is published when all its files are there.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles, TaskContext
from pyspark.sql import SparkSession

import contentcast as cc
from contentcast.model.errors import ContentcastError
from contentcast.model.space import Space
from contentcast.spark.subscriptions.building import IDS_ALONE, build, file_index, read_about
from contentcast.spark.subscriptions.shards import ONE, Ints, Shards, choose_shards, key_values, visitors
from contentcast.spark.subscriptions.tables import ID, TEXT, FileTable, Followed, SubscriptionTable, check_table, read_table

VERSIONS_KEPT: Final = 3
"""A task of the micro-batch before may still be run again with the version it had."""
MICRO_BATCHES_KEPT: Final = 100
"""For so many it is remembered which version they took; only the last can ever be run again."""
VERSIONS_MAPPED: Final = 8
"""Of all tables that a worker process keeps open."""
PAIRS_AT_A_TIME: Final = 1 << 22
"""In one piece; sorted and written as one row group by `one_pass`, where a task holds some 200 MB of them."""
BATCH_ID, QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"
"""Under which names Spark tells the tasks of a stream who they are."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Subscriptions that `match` takes as they are: built once, used by many DataFrames. Made by `prepare`.

    `added`: the columns that a match gives to its events. `follows`: the files to look at in a stream. `shared`: whether all
    workers see the folder. `version`: the one that was built first; a batch takes it, a stream the latest.
    """

    space: Space
    folder: str
    key: str
    version: str
    added: pa.Schema
    shards: Shards = ONE
    shared: bool = False
    count: int = 0
    refused_count: int = 0
    follows: Followed | None = None
    _shipped: set[str] = field(default_factory=set, repr=False)
    unusable: dict[str, str] = field(default_factory=dict, repr=False)
    """Versions of the table that the stream could not take, with the reason; empty again once it has taken one."""

    def path(self, version: str, what: str) -> Path:
        return Path(self.folder) / f"contentcast-{self.key}-{version}-{what}"

    @property
    def current(self) -> Path:
        return Path(self.folder) / f"contentcast-{self.key}-current"

    def refused(self) -> pa.Table:
        """subscription, predicate, reason and all other columns of each row that takes no part."""
        with pa.memory_map(str(self.path(self.version, "refused"))) as file:
            return pa.ipc.open_file(file).read_all()

    def kept_ids(self) -> pa.Array:
        """The ids of the rows that take part."""
        mapped = Mapped(self, self.version)
        held = [np.fromiter(mapped.index(shard), np.int64) for shard in range(mapped.about.shards.count)]
        return mapped.column(ID, pa.array(np.unique(np.concatenate(held))))

    # --- versions

    def latest(self) -> str:
        """The version for now; builds it if the table has changed. One that cannot be used leaves the one before in place."""
        if self.follows is None:
            return self.version
        with _locked(self.current):
            before = self.current.read_text()
            seen = ""
            try:
                seen = self.follows.fingerprint()
                if seen != before and seen not in self.unusable:
                    self._build(seen)
                    self.publish(seen)
                    self.unusable.clear()
                    return seen
            except (ContentcastError, OSError) as reason:
                if seen not in self.unusable:  # said once
                    self.unusable[seen] = (
                        f"{self.follows} has changed and cannot be used, the stream goes on with the rules that it had: "
                        f"{reason}"
                    )
                    _say(self.unusable[seen])
            return before

    def _build(self, version: str) -> None:
        assert self.follows is not None
        checked = check_table(self.follows.read())
        if checked.columns.schema != self.added:
            raise ContentcastError("its columns are not those with which the stream began; start the stream anew")
        build(self.space, self.shards, checked, partial(self.path, version))

    def publish(self, version: str) -> None:
        part = self.current.with_suffix(f".{os.getpid()}")
        part.write_text(version)
        part.replace(self.current)
        abouts = sorted(Path(self.folder).glob(f"contentcast-{self.key}-*-about"), key=lambda each: each.stat().st_mtime_ns)
        for old in abouts[:-VERSIONS_KEPT]:
            for path in Path(self.folder).glob(f"{old.name.removesuffix('about')}*"):
                path.unlink(missing_ok=True)

    # --- on the driver

    @property
    def told_as(self) -> str:
        """The name under which the tasks of a job are told their version."""
        return f"contentcast.{self.key}"

    def ship(self, spark: SparkSession, version: str) -> None:
        """Copies for workers that do not see the folder."""
        if self.shared or _on_this_machine(spark):
            return
        for path in sorted(Path(self.folder).glob(f"contentcast-{self.key}-{version}-*")):
            if path.name not in self._shipped and not path.name.endswith("-refused"):
                spark.sparkContext.addFile(str(path))
                self._shipped.add(path.name)

    # --- on a worker

    def open(self) -> Mapped:
        """The version of this task, mapped; kept open for the tasks that follow in this process."""
        version = self._version_of_task()
        known = (self.key, version)
        if known not in _MAPPED:
            while len(_MAPPED) >= VERSIONS_MAPPED:
                _MAPPED.pop(next(iter(_MAPPED)))
            _MAPPED[known] = Mapped(self, version)
        return _MAPPED[known]

    def _version_of_task(self) -> str:
        task = TaskContext.get()
        told = task.getLocalProperty(self.told_as) if task else None
        if told:
            return str(told)
        batch = task.getLocalProperty(BATCH_ID) if task else None
        files = self.follows
        if (
            task is None
            or batch is None
            or not isinstance(files, FileTable)
            or not self.current.exists()
            or not files.path.exists()
        ):
            return self.version  # a topic or a table with versions is looked at by the driver alone
        return self._version_of_batch(str(task.getLocalProperty(QUERY_ID)), int(batch))

    def _version_of_batch(self, query: str, batch: int) -> str:
        """The first task that asks decides for the micro-batch."""
        pin = self.current.with_name(f"{self.current.name}-{query}-{batch}")
        with suppress(FileNotFoundError):
            return pin.read_text()
        part = pin.with_name(f"{pin.name}.{uuid.uuid4().hex}")
        part.write_text(self.latest())
        with suppress(FileExistsError):
            os.link(part, pin)
        part.unlink()
        pin.with_name(f"{self.current.name}-{query}-{batch - MICRO_BATCHES_KEPT}").unlink(missing_ok=True)
        return pin.read_text()


class Mapped:
    """One version's files, mapped into this process when they are first used."""

    def __init__(self, prepared: Prepared, version: str) -> None:
        self._prepared, self._version = prepared, version
        self._indexes: dict[int, cc.MatchIndex] = {}
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
            self._indexes[shard] = cc.MatchIndex.load(self._find(f"index-{shard}"))
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


_MAPPED: Final[dict[tuple[str, str], Mapped]] = {}


Subscriptions: TypeAlias = SubscriptionTable | cc.MatchIndex | Prepared


def prepare(
    subscriptions: Subscriptions,
    space: Space,
    *,
    shards: int | None = None,
    shard_key: str | None = None,
    folder: str | Path | None = None,
    id: str = ID,
    predicate: str = TEXT,
) -> Prepared:
    """Reads, checks and files subscriptions, once for many matches.

    `id` and `predicate` name the columns of the table that hold them; in the result the id is called `subscription`.

    Above 8,000,000 they are split into shards and events are shuffled to them; `shards` and `shard_key` override how many and
    by which attribute. `folder`: one that driver and workers share; without it the files lie in a temporary one and are copied
    to the workers of a cluster.
    """
    if isinstance(subscriptions, Prepared):
        _check_space(subscriptions.space, space)
        return subscriptions
    made = Prepared(
        space,
        str(_made(folder)),
        key=uuid.uuid4().hex[:12],
        version=uuid.uuid4().hex[:16],
        added=IDS_ALONE,
        shared=folder is not None,
    )
    if isinstance(subscriptions, cc.MatchIndex):
        _check_space(subscriptions.space, space)
        file_index(subscriptions, partial(made.path, made.version))
        ids = pa.string() if any(isinstance(each, str) for each in islice(subscriptions, 1)) else pa.int64()
        made = replace(made, count=len(subscriptions), added=pa.schema([pa.field(ID, ids)]))
    else:
        followed = _followed(subscriptions, id, predicate)
        if followed is not None:
            made = replace(made, follows=followed, version=followed.fingerprint())
        checked = check_table(read_table(subscriptions, id, predicate))
        made = replace(made, added=checked.columns.schema, shards=choose_shards(space, checked.texts, shards, shard_key))
        refused = build(space, made.shards, checked, partial(made.path, made.version))
        unread = refused - checked.refused.num_rows
        made = replace(made, count=checked.columns.num_rows - unread, refused_count=refused)
    made.publish(made.version)
    if made.refused_count:
        first = made.refused().slice(0, 1).to_pylist()[0]
        reason = first["reason"].splitlines()[0]
        _say(f"subscriptions refused: {made.refused_count:,}, the first of them {first[ID]}: {reason}")
    return made


def _followed(subscriptions: SubscriptionTable, id: str, predicate: str) -> Followed | None:
    if isinstance(subscriptions, (str, Path)) and "://" not in str(subscriptions):
        return FileTable(Path(subscriptions).absolute(), id, predicate)
    return subscriptions if isinstance(subscriptions, Followed) else None


def _check_space(theirs: Space, space: Space) -> None:
    if theirs != space:
        raise ContentcastError(f"subscriptions over {theirs.name} do not fit the space {space.name}")


FOLLOWED: Final[dict[str, Prepared]] = {}
"""The tables that streams of this driver follow."""


def tell_versions(spark: SparkSession) -> None:
    """Before a micro-batch: what has changed is built, and the jobs of this thread are told which version to take."""
    for prepared in list(FOLLOWED.values()):
        version = prepared.latest()
        prepared.ship(spark, version)
        spark.sparkContext.setLocalProperty(prepared.told_as, version)


def _on_this_machine(spark: SparkSession) -> bool:
    master = str(spark.sparkContext.master)
    return master.startswith("local") and not master.startswith("local-cluster")


@contextmanager
def _locked(beside: Path) -> Iterator[None]:
    """One process at a time; a process that dies lets go."""
    import fcntl

    with beside.with_suffix(".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_FOLDERS: Final[list[Path]] = []


def _made(folder: str | Path | None) -> Path:
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return Path(folder).absolute()
    _FOLDERS.append(Path(tempfile.mkdtemp(prefix="contentcast-")))
    return _FOLDERS[-1]


def _remove_folders(process: int) -> None:
    if os.getpid() == process:  # not in a forked child
        for each in _FOLDERS:
            shutil.rmtree(each, ignore_errors=True)


atexit.register(_remove_folders, os.getpid())


def _say(text: str) -> None:
    """On the driver as a warning; a worker has only its stderr, which Spark keeps with its logs."""
    if TaskContext.get() is None:
        log.warning(text)
    else:
        print(f"contentcast: {text}", file=sys.stderr)
