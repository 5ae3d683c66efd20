"""Virtual time: steps on an agenda, performed in the order of their times.

    agenda.put(2.0, ring, "b"); agenda.put(1.0, ring, "a"); agenda.run()      # ring("a") at 1.0, ring("b") at 2.0

Steps of the same time are performed in the order in which they were put, so that a run depends on nothing but what was put.
Rule: time only moves here, and only forwards. A step that lies in the past is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, TypeAlias

from contentcast.model.errors import ContentcastError

Act: TypeAlias = Callable[[Any], object]
Step: TypeAlias = tuple[float, int, Act, Any]
"""Time, number, what to do, and the one thing it is told. Numbers differ, so comparing never reaches what to do."""


class SimulationError(ContentcastError):
    """A world that was asked for something that cannot be; the message says what could."""


class Agenda:
    """`put` and each step of `run` cost O(log n)."""

    __slots__ = ("_numbers", "now", "performed", "steps")

    def __init__(self) -> None:
        self.now = 0.0
        self.steps: list[Step] = []
        self.performed = 0
        self._numbers = count()

    def __len__(self) -> int:
        return len(self.steps)

    def put(self, time: float, act: Act, told: Any = None) -> None:
        if not time >= self.now:  # also refuses NaN
            raise SimulationError(f"it is {self.now:.6f} s already; a step cannot be put at {time!r}")
        heappush(self.steps, (time, next(self._numbers), act, told))

    def run(self, until: float | None = None, most_steps: int | None = None) -> bool:
        """Perform what lies up to `until` (None: everything, also what comes meanwhile); True if that was done.

        `most_steps` ends it earlier, so that what never becomes quiet is noticed.
        """
        steps = self.steps
        limit = float("inf") if until is None else until
        left = -1 if most_steps is None else most_steps
        performed = 0
        try:
            while steps and steps[0][0] <= limit and performed != left:
                self.now, _, act, told = heappop(steps)
                performed += 1
                act(told)
        finally:
            self.performed += performed
        if steps and steps[0][0] <= limit:
            return False
        if until is not None:
            self.now = max(self.now, until)
        return True

    def drop(self, unwanted: Callable[[Step], bool]) -> list[Step]:
        """Take out the steps that shall not happen any more, and hand them over in their order. O(n): for faults."""
        gone = [step for step in self.steps if unwanted(step)]
        if gone:
            numbers = {step[1] for step in gone}
            self.steps[:] = [step for step in self.steps if step[1] not in numbers]
            heapify(self.steps)
        return sorted(gone)
