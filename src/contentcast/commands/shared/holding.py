"""Ctrl-C held back while Java starts or stops.

Interrupted while Java comes up, pyspark forgets it: nobody reads where it listens, and it lives on for ever. Spark also puts
in a handler of its own, which calls Java from within whatever call to Java was going on, and prints pages.
Rule: what was held back counts as soon as Java is up or down, and the handler is then the one from before.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread


@contextmanager
def held_back() -> Iterator[None]:
    if current_thread() is not main_thread():
        yield
        return
    stopped = Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if stopped.is_set():
            raise KeyboardInterrupt
