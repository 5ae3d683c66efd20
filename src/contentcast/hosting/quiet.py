"""When is a network quiet, although some timers stand for ever?

What a host has to do is in the *background* if it comes of a background timer and nothing has changed on the way: the timer
itself, the messages that it made the router send, the answers to them. Anything else is in the *foreground*. The network is
quiet when nothing of the foreground is left and nothing has changed for the length of the longest background timer.

    12.0   a: refresh (background)     Send b                           background
    12.1   b: knows it already         nothing                          background
    12.1   c: did not know             Changed, Send d                  a change: the message to d is foreground
    22.1   nothing since 12.1, and refresh takes 10 s: quiet

Rule: hosts ask here; no host has a notion of quiet of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from contentcast.routing.contract import (
    Append,
    Changed,
    Deliver,
    DeliverDurably,
    Effect,
    Input,
    Join,
    Leave,
    Received,
    SetTimer,
    TimerFired,
)


class Quiet:
    __slots__ = ("changed_at", "foreground", "longest_s")

    def __init__(self) -> None:
        self.foreground = 0
        """Things to do that are not in the background; the host counts them."""
        self.changed_at = 0.0
        self.longest_s = 0.0
        """The longest time that a background timer was set for."""

    def handled(self, input: Input, effects: Iterable[Effect], now: float, background: bool) -> bool:
        """Notes what was handled, and says whether what follows from it is in the background."""
        if background and isinstance(input, Received | TimerFired) and not any(map(_is_change, effects)):
            return True
        self.changed_at = now
        return False

    def timer_set(self, effect: SetTimer, now: float) -> None:
        if effect.background:
            self.longest_s = max(self.longest_s, effect.at - now)

    def reached(self, next_at: float) -> bool:
        """Is it quiet before the next thing to do, which is at that time?"""
        return not self.foreground and next_at > self.changed_at + self.longest_s


def _is_change(effect: Effect) -> bool:
    if isinstance(effect, SetTimer):
        return not effect.background
    return isinstance(effect, Deliver | DeliverDurably | Append | Join | Leave | Changed)
