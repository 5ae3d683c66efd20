"""The disk of one broker in virtual time: what is written becomes safe when it was synced, and a crash tears off the rest.

    t       append r1, r2        written r1 r2     synced nothing      a sync begins
    t + 1   append r3            written r1 r2 r3
    t + 2   the sync is over     Synced(2)         synced r1 r2        the next one begins, for r3
    crash   r3 is lost, or a part of it is there, cut at any byte

Rule: the disk outlives the broker. What a life reads at its start is what whole records are left.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from contentcast.hosting.records import framed, read_records
from contentcast.simulation.agenda import Agenda


class Disk:
    """`synced(upto)` is called when all records up to that number, counted over all lives, are safe."""

    def __init__(self, broker: str, agenda: Agenda, sync_s: float, seed: int, synced: Callable[[int], None]) -> None:
        self.sync_s = sync_s
        self._agenda = agenda
        self._told = synced
        self._dice = Random(f"{seed} disk {broker}")
        self._data = bytearray()
        self._records = 0
        self._trimmed = 0
        self._safe_bytes = 0
        self._syncing: tuple[int, int] | None = None
        self._syncs = self._sync_done  # bound once: a crash finds its step by it

    def append(self, record: bytes) -> None:
        self._data += framed(record)
        self._records += 1
        if self._syncing is None:
            self._sync()

    def _sync(self) -> None:
        self._syncing = (len(self._data), self._records)
        self._agenda.put(self._agenda.now + self.sync_s, self._syncs, root=None)

    def _sync_done(self, _: None) -> None:
        assert self._syncing is not None
        self._safe_bytes, upto = self._syncing
        self._syncing = None
        if self._safe_bytes < len(self._data):
            self._sync()
        self._told(upto)

    def trim(self, before: int) -> None:
        """The records before this number may go: some of them do, as with files of many records."""
        wanted = max(0, before - 1 - self._trimmed)
        count = self._dice.randint(0, wanted)
        found, _ = read_records(self._data)
        nbytes = sum(len(framed(each)) for each in found[:count])
        del self._data[:nbytes]
        self._safe_bytes -= nbytes
        self._trimmed += count
        if self._syncing is not None:
            self._syncing = (self._syncing[0] - nbytes, self._syncing[1])

    def crash(self) -> None:
        """What was not synced is lost from some byte on."""
        self._agenda.drop(lambda step: step[2] is self._syncs)
        self._syncing = None
        torn_at = self._safe_bytes + self._dice.randint(0, len(self._data) - self._safe_bytes)
        del self._data[torn_at:]

    def restore(self) -> tuple[tuple[bytes, ...], int]:
        """The whole records that are there, and how many were trimmed before them. A torn one at the end is cut off.

        What is read is safe from now on.
        """
        found, whole = read_records(self._data)
        del self._data[whole:]
        self._safe_bytes, self._records = whole, self._trimmed + len(found)
        return tuple(found), self._trimmed
