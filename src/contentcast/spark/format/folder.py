"""A folder of events as the sink writes and the source reads it: parts, commits, and the space they belong to.

    market/space.json                  the space
    market/events.parquet              rows 0 on, if `contentcast workload` wrote the folder (or .csv, .jsonl)
    market/events/00000000/            the first commit after that, with its parts in order
        part-00000.parquet  part-00001.parquet  _commit.json
    market/events/00000001/            the next one
    market/subscriptions.parquet       as `contentcast workload` writes it

A commit is made under a hidden name and gets its place and number by one rename: either all of its parts are there or none.
`_commit.json` lists the parts with their rows, names the stream and the batch they come from, so that a batch that is written
again is seen to be there, and says whether the commit replaces all that stood before it.
Rule: rows are numbered in the order of commits and parts, and a row keeps its number until a commit replaces it. Other programs
read `events/*/*.parquet`; Spark passes over names that begin with `_` or `.`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from contentcast.model import ContentcastError, Space, read_events
from contentcast.model.errors import nearest
from contentcast.spark.subscriptions.tables import FileTable
from contentcast.workload.contract import SUBSCRIPTION_SCHEMA
from contentcast.workload.files import FORMATS, SPACE_FILE

COMMIT_FILE: Final = "_commit.json"
UNFINISHED: Final = ".unfinished-"


class FolderError(ContentcastError):
    """A folder that is not one of ours, or cannot be written."""


class Part(NamedTuple):
    path: Path
    rows: int


class Commit(msgspec.Struct, frozen=True):
    """What `_commit.json` says. `stream` and `batch`: which micro-batch it is, if it is one."""

    parts: dict[str, int]
    replaces: bool = False
    stream: str | None = None
    batch: int | None = None


def local_path(text: str) -> Path:
    """The source and the sink read and write files that driver and workers share, not object stores."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "file":
        return Path("/" + rest.lstrip("/"))
    if colon and rest.startswith("//"):
        raise FolderError(f"{text}: format 'contentcast' needs a shared folder; for {scheme}:// use format 'parquet'")
    return Path(text)


def space_of(folder: Path) -> Space:
    if not folder.is_dir():
        raise FolderError(f"there is no folder {folder}")
    if not (folder / SPACE_FILE).exists():
        raise FolderError(f"{folder} has no {SPACE_FILE}: it was not written by contentcast workload or format 'contentcast'")
    return Space.load(folder / SPACE_FILE)


def parts_of(folder: Path, what: str = "events") -> list[Part]:
    """All parts that are complete, in the order of their rows."""
    commits = list(_commits(folder, what))
    replaced = max((at for at, (_, commit) in enumerate(commits) if commit.replaces), default=None)
    found: list[Part] = []
    if replaced is None:
        single = [path for ending in FORMATS if (path := folder / f"{what}.{ending}").exists()]
        if len(single) > 1:
            raise FolderError(f"{folder} has {single[0].name} and {single[1].name}; move one away")
        found = [Part(path, _count_rows(path, folder, what, path.stat().st_mtime_ns)) for path in single]
        if not single and not (folder / what).is_dir():
            raise FolderError(f"{folder} has no {what}: neither {what}.parquet, .csv or .jsonl nor a folder {what}")
    for path, commit in commits[replaced or 0 :]:
        found += [Part(path / name, rows) for name, rows in commit.parts.items()]
    return found


@lru_cache(maxsize=64)
def _count_rows(path: Path, folder: Path, what: str, changed_ns: int) -> int:
    """Remembered until the file changes: a stream asks before each micro-batch, and a text file must be read to be counted."""
    if path.suffix == ".parquet":
        try:
            return int(pq.read_metadata(path).num_rows)
        except (OSError, pa.ArrowException) as reason:
            raise FolderError(f"{path} cannot be read: {str(reason).splitlines()[0]}") from None
    if what == "events":
        return len(read_events(path, space_of(folder)))
    return int(read_subscriptions(path).num_rows)


def read_subscriptions(path: Path) -> pa.Table:
    """A file of subscriptions with the columns of `SUBSCRIPTION_SCHEMA`."""
    table = FileTable(path).read()
    if missing := [name for name in SUBSCRIPTION_SCHEMA.names if name not in table.column_names]:
        raise FolderError(f"{path} has no column {missing[0]!r}{nearest(missing[0], table.column_names)}")
    return table.select(SUBSCRIPTION_SCHEMA.names).cast(SUBSCRIPTION_SCHEMA)


def _commits(folder: Path, what: str) -> Iterator[tuple[Path, Commit]]:
    for path in sorted((folder / what).glob("[0-9]*")):
        try:
            yield path, _read_commit(path, path.stat().st_mtime_ns)
        except (OSError, msgspec.MsgspecError) as reason:
            raise FolderError(f"{path / COMMIT_FILE} cannot be read: {reason}") from None


@lru_cache(maxsize=1 << 16)
def _read_commit(path: Path, changed_ns: int) -> Commit:
    return msgspec.json.decode((path / COMMIT_FILE).read_bytes(), type=Commit)


# --- writing


def has_batch(folder: Path, stream: str, batch: int) -> bool:
    """Is this batch of the stream already there? Batches of one stream come in order, so its last commit tells."""
    for _, commit in reversed(list(_commits(folder, "events"))):
        if commit.stream == stream and commit.batch is not None:
            return commit.batch >= batch
    return False


def add_commit(
    folder: Path, space: Space, files: Sequence[Part], *, replaces: bool, stream: str | None = None, batch: int | None = None
) -> Path:
    """The files become the folder's next commit, in their order. They must stand in the folder's file system."""
    save_space(folder, space)
    parent = folder / "events"
    parent.mkdir(exist_ok=True)
    names = [f"part-{number:05}.parquet" for number in range(len(files))]
    made = folder / f"{UNFINISHED}{os.urandom(8).hex()}"  # not beside the commits, where events/* would find it
    made.mkdir()
    for name, file in zip(names, files, strict=True):
        file.path.replace(made / name)
    commit = Commit(dict(zip(names, (file.rows for file in files), strict=True)), replaces, stream, batch)
    (made / COMMIT_FILE).write_bytes(msgspec.json.encode(commit))
    before = sorted(path.name for path in parent.glob("[0-9]*"))
    number = int(before[-1]) + 1 if before else 0
    while True:
        # A folder cannot be renamed onto one that holds something: whoever comes second takes the next number.
        try:
            made.rename(parent / f"{number:08}")
            break
        except OSError:
            if not (parent / f"{number:08}").exists():
                raise
            number += 1
    if replaces:
        for name in before:
            shutil.rmtree(parent / name, ignore_errors=True)
        for ending in FORMATS:
            (folder / f"events.{ending}").unlink(missing_ok=True)
    return parent / f"{number:08}"


def save_space(folder: Path, space: Space) -> None:
    if (folder / SPACE_FILE).exists() and Space.load(folder / SPACE_FILE) == space:
        return
    made = folder / f"{UNFINISHED}{os.urandom(8).hex()}.json"
    space.save(made)
    made.replace(folder / SPACE_FILE)
