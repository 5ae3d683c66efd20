"""Timing several contenders in one run: in turns, so that whatever else the machine does hits all alike; medians of rounds."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter


@dataclass
class Timed:
    """The seconds that each round took, and what one round did (predicates, events)."""

    units: int
    seconds: list[float] = field(default_factory=list)

    @property
    def per_unit_s(self) -> float:
        return median(self.seconds) / self.units

    @property
    def per_s(self) -> float:
        return self.units / median(self.seconds)


Job = tuple[int, Callable[[int], object]]
"""How many units one call does, and the call; it gets the number of the round."""


MOST_CALLS_A_TURN = 40


def in_turns(jobs: Mapping[str, Job], *, rounds: int, budget_s: float = float("inf"), turn_s: float = 0.0) -> dict[str, Timed]:
    """Every round runs every job once, each round beginning with another. A job that has used up its budget drops out.

    With `turn_s`, one that takes less begins its turn with a call that does not count, so that it finds its data in the caches
    and not the others', and is called again until the time is over, forty times at most.
    """
    found = {name: Timed(units) for name, (units, _) in jobs.items()}
    names = list(jobs)
    for number in range(rounds):
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            timed = found[name]
            if timed.seconds and sum(timed.seconds) + max(timed.seconds) > budget_s:
                continue
            gc.collect()
            _turn(timed, jobs[name][1], number, turn_s)
    return found


def _turn(timed: Timed, run: Callable[[int], object], number: int, turn_s: float) -> None:
    if turn_s:
        began = perf_counter()
        run(number)
        if (took := perf_counter() - began) > turn_s:
            timed.seconds.append(took)
            return
    ends = perf_counter() + turn_s
    for again in range(MOST_CALLS_A_TURN if turn_s else 1):
        started = perf_counter()
        run(number + again)
        timed.seconds.append(perf_counter() - started)
        if perf_counter() > ends:
            return


def largest_that_fits(run: Callable[[int], object], *, most: int, patience_s: float) -> int:
    """So many units (1, 10, 100, ... up to `most`) as one call can do within the time; also warms up.

    The next size is tried if it must fit, taking ten times as long at most, or if it may: the costs per call seem to be nearly
    all that there is.
    """
    units, last_units, last_s = 1, 1, float("inf")
    while units < most:
        run(units)  # the first call of a size pays for compiling and caching, the second is what counts
        started = perf_counter()
        run(units)
        took = perf_counter() - started
        if took > patience_s and took > 2 * last_s:
            return last_units
        if took * 10 > patience_s and not took < min(2 * last_s, patience_s):
            return units
        units, last_units, last_s = min(units * 10, most), units, took
    run(units)
    return units
