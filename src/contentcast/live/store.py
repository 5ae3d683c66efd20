"""The log of a live broker: records in segments, one sync for all that came meanwhile, a torn end cut, damage named.

    DATA/lock                                one broker at a time
    DATA/00000000000000000001.log            records from number 1 on
    DATA/00000000000000004711.log            records from number 4711 on; only the last segment is written to

    segment    "ccstore1" | mark (8 random bytes) | CRC-32 of the mark u32 | group | seal | group | seal | ...
    group      mark | length u32 | CRC-32 u32 | records, each framed as in `hosting.records`
    seal       a group without records

One thread writes: it takes everything that was appended since its last turn, writes it as one group, syncs, says up to which
number all is safe, and writes a seal, which is not synced itself. So what stands before a whole group or seal was synced:

    a group that is not whole, nothing behind it     it was being written when the machine stopped: it is cut
    a group that is not whole, a whole one behind    damage to what was safe: `StoreError` with file and byte

The mark is random so that no event can hold bytes that look like a group. If the machine itself has stopped, the last seal may
be lost, and damage to the last group cannot be told from a torn one; `torn_bytes` says how much was cut, for the operator.
Rule: a write or a sync that fails is never tried again; the store takes nothing more, and says why.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Thread
from typing import Final, NamedTuple
from zlib import crc32

from contentcast.hosting.records import framed, read_records
from contentcast.model import ContentcastError

MAGIC: Final = b"ccstore1"
MARK_BYTES: Final = 8
SEGMENT_BYTES: Final = 64 << 20
"""A segment that has reached this size is followed by another."""
_GROUP: Final = struct.Struct("<II")
_CHECK: Final = struct.Struct("<I")
_SEAL: Final = _GROUP.pack(0, crc32(b""))
SEAL_BYTES: Final = MARK_BYTES + len(_SEAL)
_HEAD_BYTES: Final = len(MAGIC) + MARK_BYTES + _CHECK.size


class StoreError(ContentcastError):
    """The data folder cannot be used; the message says where and what to do."""


class Segment(NamedTuple):
    """What was read of one file."""

    path: Path
    first: int
    records: list[bytes]
    whole_bytes: int
    torn_bytes: int


def check_is_there(folder: Path, broker: str) -> None:
    """For a folder that has had a log: an empty one would be begun, and nothing would tell that records are gone."""
    if not any(folder.glob("*.log")):
        raise StoreError(
            f"{folder} has no .log file: the records of broker {broker} are gone. Bring the folder back from a copy; "
            "or begin with an empty folder, then all that was kept here is lost"
        )


def read(folder: Path) -> list[Segment]:
    """All segments, in their order. Changes nothing; only the last may have a torn end. Raises a `StoreError` for damage.

    The first need not begin with record 1: what nobody needs any more was trimmed.
    """
    found: list[Segment] = []
    paths = sorted(folder.glob("*.log"))
    following = int(paths[0].stem) if paths and paths[0].stem.isdigit() else 1
    for path in paths:
        if path.stem != f"{following:020}":
            raise StoreError(
                f"{folder}: expected the segment {following:020}.log, got {path.name}; a segment is missing or was renamed. "
                "Nothing was changed; bring it back from a copy"
            )
        segment = _read_segment(path, following, is_last=path == paths[-1])
        found.append(segment)
        following += len(segment.records)
    return found


def _read_segment(path: Path, first: int, is_last: bool) -> Segment:
    data = path.read_bytes()
    mark = data[len(MAGIC) : len(MAGIC) + MARK_BYTES]
    if data[:_HEAD_BYTES] != _head(mark):
        if is_last and len(data) <= _HEAD_BYTES:
            return Segment(path, first, [], 0, len(data))  # it was being made; no group was ever written to it
        raise _damaged(path, 0, "the file does not begin as a segment does, and something stands behind it")
    records: list[bytes] = []
    at = _HEAD_BYTES
    while at < len(data):
        end = _group_end(data, at, mark)
        if end is None:
            behind = _whole_behind(data, at, mark)
            if behind is not None:
                raise _damaged(path, at, f"a whole group stands behind it, at byte {behind}")
            if not is_last:
                raise _damaged(path, at, "a later segment stands behind it")
            break
        inside, length = read_records(memoryview(data)[at + MARK_BYTES + _GROUP.size : end])
        if length != end - at - MARK_BYTES - _GROUP.size:
            raise _damaged(path, at, "the group is whole and its records are not")
        records += inside
        at = end
    return Segment(path, first, records, at, len(data) - at)


def _head(mark: bytes) -> bytes:
    return MAGIC + mark + _CHECK.pack(crc32(mark))


def _group_end(data: bytes, at: int, mark: bytes) -> int | None:
    """Where the group that begins here ends; None if it is not whole."""
    body = at + MARK_BYTES + _GROUP.size
    if body > len(data) or data[at : at + MARK_BYTES] != mark:
        return None
    length, check = _GROUP.unpack_from(data, at + MARK_BYTES)
    end = body + length
    return end if end <= len(data) and crc32(memoryview(data)[body:end]) == check else None


def _whole_behind(data: bytes, at: int, mark: bytes) -> int | None:
    while (at := data.find(mark, at + 1)) >= 0:
        if _group_end(data, at, mark) is not None:
            return at
    return None


def _damaged(path: Path, at: int, why: str) -> StoreError:
    return StoreError(
        f"{path}: damaged at byte {at}: {why}, so it was on disk once. Nothing was changed; bring the folder back from a copy"
    )


class Store:
    """`synced(upto)` is called from the writing thread, as is `failed(reason)`; a live broker hands both to its event loop."""

    def __init__(
        self,
        folder: Path,
        synced: Callable[[int], None],
        failed: Callable[[StoreError], None] = lambda reason: None,
        *,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.folder = folder
        self.torn_bytes = 0
        """How much of a torn end was cut at the start."""
        self._told_synced = synced
        self._told_failed = failed
        self._segment_bytes = segment_bytes
        self._waiting: list[bytes] = []
        self._trim_before = 0
        self._changed = Condition()
        self._closing = False
        self._failure: StoreError | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(folder)
        try:
            segments = read(folder)
            self._restored = tuple(record for segment in segments for record in segment.records)
            self._trimmed = segments[0].first - 1 if segments else 0
            self._written = self._trimmed + len(self._restored)
            self._segments = [(each.first, each.path) for each in segments]
            self._open_last(segments)
        except BaseException:
            os.close(self._lock)
            raise
        self._thread = Thread(target=self._write, name=f"store {folder.name}", daemon=True)
        self._thread.start()

    def restored(self) -> tuple[tuple[bytes, ...], int]:
        """The records of earlier lives, and how many were trimmed before them.

        They are handed over once; the store does not keep them.
        """
        found, self._restored = self._restored, ()
        return found, self._trimmed

    def append(self, record: bytes) -> None:
        with self._changed:
            if self._failure is not None:
                raise self._failure
            self._waiting.append(record)
            self._changed.notify()

    def trim(self, before: int) -> None:
        """Segments that have only records before this number are deleted, when all that was appended is safe."""
        with self._changed:
            self._trim_before = max(self._trim_before, before)
            self._changed.notify()

    def close(self) -> None:
        """Writes what waits, then lets the folder go."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify()
        self._thread.join()
        os.close(self._file)
        os.close(self._lock)

    # --- the writing thread

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing and not self._trim_before:
                    self._changed.wait()
                records, self._waiting = self._waiting, []
                before, self._trim_before = self._trim_before, 0
                if not records and not before:
                    return
            try:
                if records:
                    self._write_group(records)
                self._delete(before)
            except OSError as reason:
                # After a failed sync nobody knows what is on disk, and a second one may say yes without having written it.
                failure = StoreError(
                    f"{self.folder}: writing failed: {reason}. The broker must stop: what it was given since then cannot be "
                    "made safe. Mend the disk or make room, and start it again"
                )
                with self._changed:
                    self._failure = failure
                    self._waiting.clear()
                self._told_failed(failure)
                return

    def _write_group(self, records: list[bytes]) -> None:
        if self._size >= self._segment_bytes:
            full = self._file
            os.fdatasync(full)  # its last seal: nothing in it may be torn when another segment stands behind it
            self._begin_segment()
            os.close(full)
        body = b"".join(map(framed, records))
        group = self._mark + _GROUP.pack(len(body), crc32(body)) + body
        _write_all(self._file, group)
        os.fdatasync(self._file)
        self._written += len(records)
        self._told_synced(self._written)
        seal = self._mark + _SEAL
        _write_all(self._file, seal)
        self._size += len(group) + len(seal)

    def _delete(self, before: int) -> None:
        """The oldest first, so that a crash in between leaves no gap."""
        while len(self._segments) > 1 and self._segments[1][0] <= before:
            _, path = self._segments.pop(0)
            path.unlink(missing_ok=True)
            _sync_folder(self.folder)

    # --- files

    def _open_last(self, segments: list[Segment]) -> None:
        if not segments or not segments[-1].whole_bytes:
            self.torn_bytes = segments[-1].torn_bytes if segments else 0
            self._begin_segment()
            return
        last = segments[-1]
        self._file = os.open(last.path, os.O_RDWR)
        self._mark = os.pread(self._file, MARK_BYTES, len(MAGIC))
        self._size, self.torn_bytes = last.whole_bytes, last.torn_bytes
        if last.torn_bytes:
            os.ftruncate(self._file, last.whole_bytes)
        # What was read counts as safe from now on, and may never have been synced by the life that wrote it.
        os.fsync(self._file)
        os.lseek(self._file, 0, os.SEEK_END)

    def _begin_segment(self) -> None:
        path = self.folder / f"{self._written + 1:020}.log"
        self._mark = os.urandom(MARK_BYTES)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        _write_all(self._file, _head(self._mark))
        os.fsync(self._file)
        self._size = _HEAD_BYTES
        _sync_folder(self.folder)  # else the file itself may be gone after a power cut
        if not self._segments or self._segments[-1][1] != path:
            self._segments.append((self._written + 1, path))


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


@contextmanager
def unused(folder: Path) -> Iterator[None]:
    """No broker uses the folder, and none can begin to. Changes nothing; raises a `StoreError` if one does."""
    try:
        lock = os.open(folder / "lock", os.O_RDONLY)
    except FileNotFoundError:
        yield  # a copy: a broker that uses a folder has made this file
        return
    try:
        if not _is_taken(lock, fcntl.LOCK_SH):
            raise StoreError(f"{folder}: a broker uses this folder now, and writes to it; stop it first, or check a copy")
        yield
    finally:
        os.close(lock)


def _locked(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    if not _is_taken(lock, fcntl.LOCK_EX):
        os.close(lock)
        raise StoreError(f"{folder}: another broker uses this folder; stop it, or give this one a folder of its own")
    return lock


def _is_taken(lock: int, how: int) -> bool:
    """By us, until the file is closed."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
