"""Ctrl-C in the middle of a Spark job: the job is cancelled, cleans up after itself, and nothing is printed about it.

Spark's own handler calls Java from within whatever call to Java was going on, which breaks the connection and prints pages. So
the work runs in a thread of its own, and the main thread, which gets the signal, has its own connection to cancel it by.
Rule: the work has ended, with its clean-up, before KeyboardInterrupt goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Event, Thread, current_thread, main_thread
from typing import Any, Final, TypeVar

from contentcast.commands.shared.overheard import leave_out

LOOK_EVERY_S: Final = 0.1
CANCEL_EVERY_S: Final = 0.3
Result = TypeVar("Result")


def interruptible(spark: Any, work: Callable[[Event], Result], look: Callable[[], None] = lambda: None) -> Result:
    """What `work(stopped)` returns or raises. It looks at `stopped` between its steps; Spark's jobs are cancelled for it.

    `look` is called now and then while the work goes on.
    """
    if current_thread() is not main_thread():
        return work(Event())
    stopped = Event()
    results: list[Result] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(stopped))
        except BaseException as failure:
            failures.append(failure)

    before = signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
    try:
        working = Thread(target=run, name="job")
        working.start()
        while working.is_alive() and not stopped.is_set():
            working.join(LOOK_EVERY_S)
            look()
        if working.is_alive():
            leave_out()
            spark.sparkContext.setLogLevel("OFF")  # of a Java that was up before us
        while working.is_alive():
            spark.sparkContext.cancelAllJobs()
            working.join(CANCEL_EVERY_S)
    finally:
        signal.signal(signal.SIGINT, before)
    if stopped.is_set() and not results:
        raise KeyboardInterrupt
    if failures:
        raise failures[0]
    return results[0]
