"""Subscriptions made ready for workers: files that every worker maps into memory, in versions of which one is current.

    folder/contentcast-KEY-VERSION-index-0     a MatchIndex, one for each shard; its ids are rows of the columns
    folder/contentcast-KEY-VERSION-columns     the subscriptions' columns without the predicates (Arrow IPC)
    folder/contentcast-KEY-VERSION-refused     what was refused, and why (Arrow IPC)
    folder/contentcast-KEY-VERSION-about       the shards (JSON)
    folder/contentcast-KEY-current             the version for tasks that are not told one

A version is a number that grows, and what the table was then: 12-5f2e0c71b9aa. Number 0 stays, because a batch takes it, and
of the others the newest VERSIONS_KEPT.

Workers of a local Spark, and of a cluster that shares the folder, map the files where they lie; others get copies by
`SparkContext.addFile`, and remove those of old versions when they map a new one. A stream follows a table that lies in files:
`deliver` looks before each micro-batch whether they have changed and tells its tasks the version; under another sink the first
task of a micro-batch looks, if it can see the files, and all tasks of that micro-batch, also when run again, take that.
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
from functools import partial
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
from contentcast.spark.cluster.room import room_for_index
from contentcast.spark.subscriptions.building import IDS_ALONE, build, file_index, replace_file
from contentcast.spark.subscriptions.building_on_workers import build_on_workers, can_build
from contentcast.spark.subscriptions.choosing import choose_shards
from contentcast.spark.subscriptions.mapped import Mapped, remove_copies
from contentcast.spark.subscriptions.shards import ONE, Shards
from contentcast.spark.subscriptions.tables import (
    ID,
    TEXT,
    Checked,
    FileTable,
    Followed,
    SubscriptionTable,
    check_table,
    read_table,
)

VERSIONS_KEPT: Final = 3
"""A task of the micro-batch before may still be run again with the version it had."""
MICRO_BATCHES_KEPT: Final = 100
"""For so many it is remembered which version they took; only the last can ever be run again."""
VERSIONS_MAPPED: Final = 8
"""Of all tables that a worker process keeps open."""
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
                if seen != before.partition("-")[2] and seen not in self.unusable:
                    version = _numbered(_number(before) + 1, seen)
                    self._build(version)
                    self.publish(version)
                    self.unusable.clear()
                    return version
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
        table = self.follows.read()
        checked = check_table(table if self.follows.has_columns else _with_columns(table, self.added))
        if checked.columns.schema != self.added:
            raise ContentcastError("its columns are not those with which the stream began; start the stream anew")
        self.build(checked, version)

    def build(self, checked: Checked, version: str) -> int:
        """The files of a version, by the workers if they can; returns how many rows were refused."""
        path, spark = partial(self.path, version), SparkSession.getActiveSession()
        if spark is not None and (self.shared or _on_this_machine(spark)) and can_build(spark, self.shards, len(checked.texts)):
            return build_on_workers(spark, self.space, self.shards, checked, path)
        return build(self.space, self.shards, checked, path)

    def publish(self, version: str) -> None:
        part = self.current.with_suffix(f".{os.getpid()}")
        part.write_text(version)
        part.replace(self.current)
        for path in outlived(Path(self.folder), self.key, version):
            if path.name not in self._shipped:
                path.unlink(missing_ok=True)
            elif path.stat().st_size:
                # Empty: Spark brings all files of a job to an executor that starts later, which can do nothing if one is
                # missing; and Spark has no way to take a file out of a job.
                replace_file(path, Path.touch)

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
                Path(SparkFiles.get(path.name)).unlink(
                    missing_ok=True
                )  # workers get the file itself; this is the driver's copy

    # --- on a worker

    def open(self) -> Mapped:
        """The version of this task, mapped; kept open for the tasks that follow in this process."""
        version = self._version_of_task()
        known = (self.key, version)
        if known not in _MAPPED:
            for key, old in list(_MAPPED):
                if key == self.key and is_outlived(_number(old), version):
                    del _MAPPED[key, old]
            while len(_MAPPED) >= VERSIONS_MAPPED:
                _MAPPED.pop(next(iter(_MAPPED)))
            _MAPPED[known] = Mapped(self, version)
            if _MAPPED[known].is_copy:
                remove_copies(outlived(Path(SparkFiles.getRootDirectory()), self.key, version))
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


_MAPPED: Final[dict[tuple[str, str], Mapped]] = {}


def _numbered(number: int, fingerprint: str) -> str:
    return f"{number}-{fingerprint}"


def _number(version: str) -> int:
    return int(version.partition("-")[0])


def is_outlived(number: int, newest: str) -> bool:
    return 0 < number <= _number(newest) - VERSIONS_KEPT


def outlived(folder: Path, key: str, newest: str) -> list[Path]:
    """The files there of versions that nobody takes any more, by their names."""
    found = folder.glob(f"contentcast-{key}-[0-9]*-*")
    return [each for each in found if is_outlived(int(each.name.split("-")[2]), newest)]


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
    by which attribute. `folder`: one that driver and workers share, where workers build the shards; without it the files lie in
    a temporary one and are copied to the workers of a cluster.
    """
    if isinstance(subscriptions, Prepared):
        _check_space(subscriptions.space, space)
        return subscriptions
    made = Prepared(
        space,
        str(_made(folder)),
        key=uuid.uuid4().hex[:12],
        version=_numbered(0, uuid.uuid4().hex[:16]),
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
            made = replace(made, follows=followed, version=_numbered(0, followed.fingerprint()))
        checked = check_table(read_table(subscriptions, id, predicate))
        room = room_for_index(SparkSession.getActiveSession(), len(checked.texts), checked.columns.nbytes)
        made = replace(made, added=checked.columns.schema, shards=choose_shards(space, checked.texts, shards, shard_key, room))
        refused = made.build(checked, made.version)
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
    if not isinstance(subscriptions, Followed):
        return None
    if (id, predicate) != (ID, TEXT):
        raise ContentcastError(
            f"the columns of {subscriptions} are named where it is: {type(subscriptions).__name__}(..., id=)"
        )
    return subscriptions


def _with_columns(table: pa.Table, begun: pa.Schema) -> pa.Table:
    """Of a topic, whose messages may have any keys: the columns with which the stream began; null where no message has one."""
    if not len(table):
        return begun.empty_table().append_column(TEXT, pa.array([], pa.string()))
    columns = {TEXT: table[TEXT]} if TEXT in table.column_names else {}
    for name, kind in zip(begun.names, begun.types, strict=True):
        given = table[name] if name in table.column_names else pa.nulls(len(table))
        if name != ID:
            columns[name] = given.cast(kind) if pa.types.is_null(given.type) else given
        elif ID in table.column_names:
            columns[ID] = given
    return pa.table(columns)


def _check_space(theirs: Space, space: Space) -> None:
    if theirs != space:
        raise ContentcastError(f"subscriptions over {theirs.name} do not fit the space {space.name}")


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
