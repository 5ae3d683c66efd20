"""The lookout: one look at the brokers for all who watch, and none while nobody does.

    viewer 1    newer_than(0) ----+
    viewer 2    newer_than(0) ----+--- one look --- snapshot 1, as JSON once for both
    nobody                             no questions; after a while the connections are closed

Rule: two looks begin at least `every_s` apart, however many watch; a question is answered by a look of its own, and those begin
at least QUESTION_EVERY_S apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from contentcast.live.client.watching import SILENT_S, Look, Watcher
from contentcast.web.snapshot import Snapshots

COUNT_EVERY_S: Final = 10.0
"""So often a broker is asked too what each subscription has accepted, which costs it more than its state."""
QUESTION_EVERY_S: Final = 1.0
LINGER_S: Final = 15.0


@dataclass(frozen=True)
class Seen:
    """One snapshot, written once for everybody."""

    number: int
    at: float
    written: bytes


class Lookout:
    """`tell` is called with a line when a broker can no longer be reached, or can be again."""

    def __init__(self, watcher: Watcher, snapshots: Snapshots, every_s: float, tell: Callable[[str], object]) -> None:
        self._watcher, self._snapshots, self._tell = watcher, snapshots, tell
        self.every_s = every_s
        self.looks: list[Look] = []
        """What the last look brought."""
        self._latest = Seen(0, float("-inf"), b"")
        self._counted_at = float("-inf")
        self._began = float("-inf")
        self._asked = asyncio.Event()
        """Somebody has a question, and does not wait as long as viewers do."""
        self._coming: asyncio.Task[Seen] | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._idle: asyncio.Task[None] | None = None
        self._problems: dict[str, str] = {}
        self._loop = asyncio.get_running_loop()

    async def latest(self) -> Seen:
        """The last one if it is of now, or a new one."""
        return await self.newer_than(0)

    async def newer_than(self, number: int) -> Seen:
        """The next one that whoever asks has not seen."""
        if self._latest.number > number and self._loop.time() - self._latest.at < self.every_s:
            return self._latest
        if self._coming is None:
            self._coming = asyncio.create_task(self._look(), name="look")
        return await asyncio.shield(self._coming)

    async def counted(self) -> list[dict[str, Any]]:
        """The subscriptions as they are now, as far as brokers tell them."""
        self._counted_at = float("-inf")
        while self._counted_at == float("-inf"):
            self._asked.set()
            await self.newer_than(self._latest.number)
        return self._snapshots.counted()

    async def _look(self) -> Seen:
        try:
            await self._turn()
            if self._closing is not None:
                self._closing.cancel()
            if self._idle is not None:
                await self._idle
            began = self._began = self._loop.time()
            counts = began - self._counted_at >= COUNT_EVERY_S
            if counts:
                self._counted_at = began
            self.looks = await self._watcher.look(min(max(0.5, self.every_s), SILENT_S), counts=counts)
            self._tell_changes()
            made = await asyncio.to_thread(self._snapshots.make, self.looks, began)
            made |= {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "every_s": self.every_s}
            self._latest = Seen(self._latest.number + 1, self._loop.time(), as_json(made))
            return self._latest
        finally:
            self._coming = None
            self._closing = self._loop.call_later(LINGER_S + self.every_s, self._nobody)

    async def _turn(self) -> None:
        """Until the next look may begin."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._began + self.every_s):
                await self._asked.wait()
        self._asked.clear()
        await asyncio.sleep(self._began + min(self.every_s, QUESTION_EVERY_S) - self._loop.time())

    def _tell_changes(self) -> None:
        for look in self.looks:
            name = look.name or look.url  # it may have moved to another address, or was never there to say its name
            before = self._problems.get(name) or self._problems.get(look.url, "")
            is_down = look.is_down
            if is_down and not before:
                self._tell(f"broker {name} cannot be reached: {look.problem}; trying again")
            elif before and look.state is not None:
                self._tell(f"broker {name} is back")
            if is_down or look.state is not None:
                self._problems.pop(look.url, None)
                self._problems[name] = look.problem if is_down else ""

    def _nobody(self) -> None:
        """Nobody has asked for a while."""
        self._idle = asyncio.create_task(self._hang_up(), name="hang up")

    async def _hang_up(self) -> None:
        self._snapshots.forget_rates()
        self._counted_at = float("-inf")
        await self._watcher.close()
        self._idle = None

    async def close(self) -> None:
        for task in (self._coming, self._idle):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._closing is not None:
            self._closing.cancel()
        await self._watcher.close()


def as_json(value: Any) -> bytes:
    """NaN is null; what JSON does not know is written as text."""
    return msgspec.json.encode(value, enc_hook=str)
