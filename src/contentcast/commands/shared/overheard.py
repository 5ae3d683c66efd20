"""What Java writes to standard error, passed on a little late, so that a command can still leave it out.

A command tells of Ctrl-C in no line and of a mistake in one. But Java logs pages about either, and a worker whose task was
cancelled finds its pipe to Java closed and writes a traceback, BrokenPipeError. They reach the terminal because Java inherits
our standard error, and copies to it what its workers write. So the Java that a command starts gets a pipe instead.
Rule: it is left out after Ctrl-C and beside a line of ours that says the cause; all else is shown.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from math import inf
from threading import Lock, Thread
from time import monotonic
from typing import Any, Final, TypeVar

from contentcast.commands.shared.holding import held_back

HELD_S: Final = 10.0
"""From Java's first word about a failure until the command knows of it; with a slow machine's clean-up in between."""
LOOK_EVERY_S: Final = 0.25
CHUNK_BYTES: Final = 65_536
STDERR: Final = 2
Session = TypeVar("Session")


@contextmanager
def overhearing(session: AbstractContextManager[Session]) -> Iterator[Session]:
    """The session; if Java starts with it, then with a pipe to us for its standard error, and Ctrl-C waits for it."""
    with _Closing() as opened:
        with held_back(), _pipe_as_stderr():
            running = opened.enter_context(session)
        yield running


class _Closing(ExitStack):
    def __exit__(self, *failure: Any) -> bool | None:
        with held_back():
            return super().__exit__(*failure)


def leave_out() -> None:
    """What is held back is never shown, nor what comes after; nor what py4j says of connections that Java has closed."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for each in _HEARD:
        each.hold(inf)


def pass_on() -> None:
    """What is held back is shown, and what comes after at once; unless it is left out already."""
    for each in _HEARD:
        each.hold(0.0)


class _Heard(Thread):
    """Reads until Java and all that it started have ended."""

    def __init__(self, source: int, shown: int) -> None:
        super().__init__(name="overhearing Java", daemon=True)
        self._source, self._shown = source, shown
        self._held: deque[tuple[float, bytes]] = deque()
        self._hold_s = HELD_S
        self._lock = Lock()

    def again(self) -> None:
        self._hold_s = HELD_S

    def hold(self, seconds: float) -> None:
        with self._lock:
            self._hold_s = inf if self._hold_s == inf else seconds
            if self._hold_s == inf:
                self._held.clear()
        self._show()

    def run(self) -> None:
        while True:
            if select.select([self._source], [], [], LOOK_EVERY_S if self._held else None)[0]:
                said = os.read(self._source, CHUNK_BYTES)
                if not said:
                    break
                with self._lock:
                    if self._hold_s < inf:
                        self._held.append((monotonic(), said))
            self._show()
        self.hold(0.0)
        _HEARD.remove(self)
        os.close(self._source)
        os.close(self._shown)

    def _show(self) -> None:
        with self._lock:
            while self._held and self._held[0][0] + self._hold_s <= monotonic():
                with suppress(OSError):  # nobody reads it any more
                    os.write(self._shown, self._held[0][1])
                self._held.popleft()


_HEARD: Final[list[_Heard]] = []


@contextmanager
def _pipe_as_stderr() -> Iterator[None]:
    """Ours goes through it too for the while; with Java up already nobody writes, and the pipe ends with the while."""
    for each in _HEARD:
        each.again()
    try:
        shown = os.dup(STDERR)
    except OSError:  # we were started without one
        yield
        return
    source, written = os.pipe()
    sys.stderr.flush()
    os.dup2(written, STDERR)
    os.close(written)
    _HEARD.append(_Heard(source, shown))
    _HEARD[-1].start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(shown, STDERR)
