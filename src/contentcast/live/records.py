"""What must survive a crash: where a broker puts the records that its router appends.

    broker      append(record)                 the router wanted `Append`
    records     synced(7)                      all up to the seventh are on disk: the router is told `Synced(7)`
    broker      restored()                     at the next start: the router is told `Started(restored, trimmed)`

Rule: numbers count from 1 over all lives of the broker. Whoever uses records is called in its own event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from contentcast.live.store import Store, StoreError


class Records(Protocol):
    """Made with a function to be called, in the broker's event loop, with the number up to which all is on disk."""

    def restored(self) -> tuple[tuple[bytes, ...], int]:
        """The records of earlier lives, and how many were trimmed before them."""
        ...

    def append(self, record: bytes) -> None: ...

    def trim(self, before: int) -> None: ...

    def close(self) -> None: ...


MakeRecords = Callable[[Callable[[int], None]], Records]


class InMemory:
    """For a broker without a data folder: a record is as safe as it ever will be once it is written."""

    def __init__(self, synced: Callable[[int], None]) -> None:
        self._synced = synced
        self._count = 0

    def restored(self) -> tuple[tuple[bytes, ...], int]:
        return (), 0

    def append(self, record: bytes) -> None:
        self._count += 1
        self._synced(self._count)

    def trim(self, before: int) -> None:
        pass

    def close(self) -> None:
        pass


class OnDisk:
    """In the data folder. `failed` is called once when the disk cannot be written to; nothing is synced from then on."""

    def __init__(self, folder: Path, synced: Callable[[int], None], failed: Callable[[StoreError], None]) -> None:
        loop = asyncio.get_running_loop()

        def in_loop(act: Callable[[Any], None], told: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended, and its broker with it
                loop.call_soon_threadsafe(act, told)

        self.store = Store(folder, lambda upto: in_loop(synced, upto), lambda reason: in_loop(failed, reason))

    def restored(self) -> tuple[tuple[bytes, ...], int]:
        return self.store.restored()

    def append(self, record: bytes) -> None:
        with suppress(StoreError):  # the broker was told, and stops
            self.store.append(record)

    def trim(self, before: int) -> None:
        self.store.trim(before)

    def close(self) -> None:
        self.store.close()


def make_for(folder: Path | None, failed: Callable[[StoreError], None]) -> MakeRecords:
    """Records in this folder; in memory without one."""
    return InMemory if folder is None else lambda synced: OnDisk(folder, synced, failed)
