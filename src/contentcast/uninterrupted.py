"""Changes that are made whole: Ctrl-C waits until a change is done.

Python raises KeyboardInterrupt between any two of its steps, also between a kernel that has changed arrays and the line that
takes note of it. Only the main thread is ever interrupted.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any


class Uninterrupted:
    """`with Uninterrupted(): ...`; a Ctrl-C that comes meanwhile is raised at the end."""

    __slots__ = ("_before", "_came")

    def __enter__(self) -> None:
        self._came: list[tuple[int, FrameType | None]] = []
        self._before: Any = signal.getsignal(signal.SIGINT)
        if callable(self._before):
            try:
                signal.signal(signal.SIGINT, self._note)
            except ValueError:  # not the main thread
                self._before = None

    def __exit__(self, *_: object) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)
            for each in self._came:
                self._before(*each)

    def let_through(self) -> None:
        """What has come so far is raised now: nothing has been begun that must be finished."""
        came, self._came = self._came, []
        for each in came:
            self._before(*each)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, frame))
