"""The timers of one broker, for a host that can be woken at a time.

A timer that is moved to a later time keeps the wake-up that it has, and finds out by itself that it was moved:

    set(resend, 3.0)     3.0       the host plans a wake-up
    set(resend, 5.0)     None      the one at 3.0 stands
    wake(resend, 3.0)    5.0       not due yet: the host plans another
    wake(resend, 5.0)    True      now it fires

Rule: a wake-up that no longer stands for its timer does nothing.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from contentcast.routing.contract import SetTimer, Timer


class Standing(NamedTuple):
    due: float
    wakes_at: float
    background: bool


class Timers:
    __slots__ = ("_standing",)

    def __init__(self) -> None:
        self._standing: dict[Timer, Standing] = {}

    def set(self, wanted: SetTimer, now: float) -> float | None:
        """When the host must wake for it; None if it does so in time already."""
        at = max(wanted.at, now)
        before = self._standing.get(wanted.timer)
        # A wake-up in the background does not hold for a timer of the foreground: hosts tell the two apart.
        if before is not None and before.wakes_at <= at and before.background == wanted.background:
            self._standing[wanted.timer] = before._replace(due=at)
            return None
        self._standing[wanted.timer] = Standing(at, at, wanted.background)
        return at

    def wake(self, timer: Timer, at: float) -> Literal[True] | float | None:
        """The wake-up planned for this time: True, it fires; a later time to wake at; or None, it stands for nothing."""
        standing = self._standing.get(timer)
        if standing is None or standing.wakes_at != at:
            return None
        if standing.due > at:
            self._standing[timer] = standing._replace(wakes_at=standing.due)
            return standing.due
        del self._standing[timer]
        return True

    def clear(self) -> None:
        self._standing.clear()

    def __len__(self) -> int:
        return len(self._standing)
