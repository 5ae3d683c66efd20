"""The threads that a large batch is split over. They wait for the next batch: making them costs as much as a small one.

Rule: the caller's own thread does the first part, and no part is left running when an error is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from os import getpid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contentcast.matching.index import Run


class Threads:
    """The pool of one index."""

    def __init__(self) -> None:
        self._pool: tuple[tuple[int, int], ThreadPoolExecutor] | None = None

    def at_once(self, threads: int) -> Run:
        """A function that does the first part here and the others in the pool."""
        wanted = threads, getpid()  # a fork takes the pool along, but not its threads
        if self._pool is None or self._pool[0] != wanted:
            self._pool = wanted, ThreadPoolExecutor(max(1, threads - 1), thread_name_prefix="contentcast-match")
        pool = self._pool[1]

        def run(work: Callable[[int], Any], numbers: range) -> list[Any]:
            others = [pool.submit(work, number) for number in numbers[1:]]
            try:
                return [work(numbers[0]), *(each.result() for each in others)]
            finally:
                wait(others)

        return run
