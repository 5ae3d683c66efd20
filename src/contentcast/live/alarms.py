"""The timers of a router on a real clock: `SetTimer` is an alarm of the event loop, which may be moved until it rings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from contentcast.hosting.timers import Timers
from contentcast.routing.contract import SetTimer, Timer


class Alarms:
    """`rings` is called with a timer when its time has come."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rings: Callable[[Timer], None]) -> None:
        self._loop = loop
        self._rings = rings
        self._timers = Timers()
        self._is_over = False

    def set(self, effect: SetTimer) -> None:
        at = self._timers.set(effect, self._loop.time())
        if at is not None:
            self._loop.call_at(at, self._wake, effect.timer, at)

    def _wake(self, timer: Timer, at: float) -> None:
        if self._is_over:
            return
        woken = self._timers.wake(timer, at)
        if woken is True:
            self._rings(timer)
        elif woken is not None:
            self._loop.call_at(woken, self._wake, timer, woken)

    def clear(self) -> None:
        """None rings any more."""
        self._is_over = True
        self._timers.clear()
