"""Lines about long work, where no terminal is: one at least every ten seconds, also from work that cannot say how far it is.

    contentcast: route link-matching: 12 of 32 tasks (41 s)

Rule: work that is done before the first line is due says nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import Final, TextIO

LINE_EVERY_S: Final = 8.0


def say(line: str) -> None:
    print(f"contentcast: {line}", file=sys.stderr, flush=True)


@contextmanager
def lines(how_far: Callable[[], str]) -> Iterator[None]:
    """While the work goes on, a line now and then: what `how_far` says, and the seconds since the beginning."""
    began, over = monotonic(), Event()
    with _own_stderr() as out:

        def watch() -> None:
            while not over.wait(LINE_EVERY_S):
                with suppress(OSError, ValueError):  # nobody reads it any more
                    print(f"contentcast: {how_far()} ({monotonic() - began:.0f} s)", file=out or sys.stderr, flush=True)

        watching = Thread(target=watch, name="progress", daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()


@contextmanager
def lines_without_terminal(how_far: Callable[[], str]) -> Iterator[None]:
    """The same where nobody sees the bar that a terminal shows."""
    if sys.stderr.isatty():
        yield
        return
    with lines(how_far):
        yield


@contextmanager
def _own_stderr() -> Iterator[TextIO | None]:
    """A way to stderr as it is now: `commands.shared.overheard` puts a pipe in its place while Java starts."""
    try:
        is_real = sys.stderr.fileno() == 2
        copy = os.fdopen(os.dup(2), "w", encoding="utf-8") if is_real else None
    except (OSError, ValueError, AttributeError):
        copy = None
    try:
        yield copy
    finally:
        if copy is not None:
            copy.close()
