"""What must survive a crash: where a broker puts the records that its router appends.

    broker      append(record)                 the router wanted `Append`
    records     synced(7)                      all up to the seventh are on disk: the router is told `Synced(7)`
    broker      restored()                     at the next start: the router is told `Started(restored)`

Rule: numbers count from 1 over all lives of the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Records(Protocol):
    """Made with a function to be called, in the broker's event loop, with the number up to which all is on disk."""

    def restored(self) -> tuple[bytes, ...]: ...

    def append(self, record: bytes) -> None: ...

    def close(self) -> None: ...


class InMemory:
    """For a broker without a data folder: a record is as safe as it ever will be once it is written."""

    def __init__(self, synced: Callable[[int], None]) -> None:
        self._synced = synced
        self._count = 0

    def restored(self) -> tuple[bytes, ...]:
        return ()

    def append(self, record: bytes) -> None:
        self._count += 1
        self._synced(self._count)

    def close(self) -> None:
        pass
