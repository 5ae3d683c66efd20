"""When to say something again: after a while, then after longer and longer, and in the background while nobody can hear it.

    waiting, the other broker can be reached      a timer of the foreground: the network is not quiet before the answer is there
    waiting, it cannot be reached                 a background timer: a network with a broker that is down becomes quiet
    the view of the network changed               who can be reached again is asked at once

Rule: at most one timer stands for each patience.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from contentcast.routing.contract import SetTimer, Timer
from contentcast.routing.parts.network_view import NetworkView

AGAIN_AFTER_S: Final = 0.5
"""More than the way there and back and a sync take in any network that we play."""
MOST_PATIENCE: Final = 8
"""How many times longer the last of several repetitions waits than the first."""


class Patience:
    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.hopeless = False
        """The timer that stands is one of the background."""
        self._times = 1
        self._stands = False

    def wait(self, now: float, can_hear: bool) -> list[SetTimer]:
        """Something waits for an answer from now on."""
        if self._stands and not (self.hopeless and can_hear):
            return []
        self._stands, self.hopeless = True, not can_hear
        return [SetTimer(self.timer, now + self._times * AGAIN_AFTER_S, background=not can_hear)]

    def fired(self) -> None:
        self._stands = False
        self._times = min(2 * self._times, MOST_PATIENCE)

    def answered(self) -> None:
        self._times = 1


def reached(view: NetworkView, brokers: Iterable[str]) -> set[str]:
    """Those of the brokers to whom there is a way, as far as this broker knows."""
    topology = view.topology
    return {each for each in brokers if each == view.broker or (each in topology and topology.path(view.broker, each))}
