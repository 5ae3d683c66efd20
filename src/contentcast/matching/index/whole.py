"""Changes that are made whole: Ctrl-C waits until one is done.

Python raises KeyboardInterrupt between any two of its steps, also between a kernel that has changed arrays and the line that
takes note of it. Other threads than the main one are never interrupted.
"""

from __future__ import annotations

# What `signal` calls: it looks each handler up in an enumeration, which takes 50 us in all when little is in the caches.
from _signal import getsignal, signal  # type: ignore[import-not-found]
from signal import SIGINT
from types import FrameType
from typing import Any


class Whole:
    """`with Whole(): ...`; what interrupts meanwhile does so at the end."""

    __slots__ = ("_before", "_came")

    def __enter__(self) -> None:
        self._came: list[tuple[int, FrameType | None]] = []
        self._before: Any = getsignal(SIGINT)
        if callable(self._before):
            try:
                signal(SIGINT, self._note)
            except ValueError:  # not the main thread
                self._before = None

    def __exit__(self, *_: object) -> None:
        if callable(self._before):
            signal(SIGINT, self._before)
            for each in self._came:
                self._before(*each)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, frame))
