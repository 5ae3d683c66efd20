"""Virtual time: steps on an agenda, performed in the order of their times.

    agenda.put(2.0, ring, "b"); agenda.put(1.0, ring, "a"); agenda.run()      # ring("a") at 1.0, ring("b") at 2.0

Steps of the same time are performed in the order in which they were put, so that a run depends on nothing but what was put. A
step that a background step puts is in the background too, unless told otherwise (`hosting.quiet` says what that is for); its
*root* is the time of the timer that it all comes of.
Rule: time only moves here, and only forwards. A step that lies in the past is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, TypeAlias

from contentcast.hosting.quiet import Quiet
from contentcast.model.errors import ContentcastError

Act: TypeAlias = Callable[[Any], object]
Root: TypeAlias = float | None
"""For what is in the background, when the timer fired that it comes of; None: it is in the foreground."""
Step: TypeAlias = tuple[float, int, Act, Any, Root]
"""Time, number, what to do, the one thing it is told, and its root. Numbers differ, so comparing never reaches what to do."""
AS_NOW: Final = -1.0
"""The root of what is performed now."""


class SimulationError(ContentcastError):
    """A world that was asked for something that cannot be; the message says what could."""


class Agenda:
    """`put` and each step of `run` cost O(log n)."""

    __slots__ = ("_numbers", "now", "performed", "quiet", "root", "steps")

    def __init__(self) -> None:
        self.now = 0.0
        self.steps: list[Step] = []
        self.performed = 0
        self.quiet = Quiet()
        self.root: Root = None
        """Of what is performed now."""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self.steps)

    def put(self, time: float, act: Act, told: Any = None, root: Root = AS_NOW) -> None:
        if not time >= self.now:  # also refuses NaN
            raise SimulationError(f"it is {self.now:.6f} s already; a step cannot be put at {time!r}")
        if root == AS_NOW:
            root = self.root
        if root is None:
            self.quiet.foreground += 1
        heappush(self.steps, (time, next(self._numbers), act, told, root))

    def run(self, until: float | None = None, most_steps: int | None = None) -> bool:
        """Perform what lies up to `until` (None: until quiet, also what comes meanwhile); True if that was done.

        `most_steps` ends it earlier, so that what never becomes quiet is noticed.
        """
        steps, quiet = self.steps, self.quiet
        limit = float("inf") if until is None else until
        left = -1 if most_steps is None else most_steps
        performed = 0
        done = False
        try:
            while steps and steps[0][0] <= limit and performed != left:
                if until is None and not quiet.foreground and self._is_quiet():
                    done = True
                    break
                self.now, _, act, told, self.root = heappop(steps)
                if self.root is None:
                    quiet.foreground -= 1
                performed += 1
                act(told)
        finally:
            self.performed += performed
            self.root = None
        if not done and steps and steps[0][0] <= limit:
            return False
        if until is not None:
            self.now = max(self.now, until)
        return True

    def _is_quiet(self) -> bool:
        """All that comes of the timers of one period has been done, and nothing has changed by it."""
        return self.quiet.reached(self.steps[0][0]) and self.quiet.reached(min(step[4] or 0.0 for step in self.steps))

    def drop(self, unwanted: Callable[[Step], bool]) -> list[Step]:
        """Take out the steps that shall not happen any more, and hand them over in their order. O(n): for faults."""
        gone = [step for step in self.steps if unwanted(step)]
        if gone:
            numbers = {step[1] for step in gone}
            self.steps[:] = [step for step in self.steps if step[1] not in numbers]
            heapify(self.steps)
            self.quiet.foreground -= sum(step[4] is None for step in gone)
        return sorted(gone, key=lambda step: step[:2])
