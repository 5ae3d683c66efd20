"""The highest rate that a network carries: found by bisection over runs in virtual time.

Source: Banavar et al. 1999, section 4.1: "the broker network is defined as overloaded when any one broker in the network has
overloaded", which a run of 1.5 s shows by a queue that reaches a threshold; chart 1 finds the threshold.
Rule: the dice are thrown once for each seed, so that rates are compared under the same luck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from contentcast.experiments.replay import replay
from contentcast.experiments.routes import Network, Routes, enough
from contentcast.hosting.costs import Costs

SNAPSHOT_S: Final = 1.5
LONG_FACTOR: Final = 10
OVERLOAD_QUEUE: Final = 31
"""What a queue reaches in 1.5 s if it will grow without end: what chart 1 found, see docs/experiments. The paper's is 80."""
PILOT_EVENTS: Final = 400
RESOLUTION: Final = 1.0
"""Events/s per publisher."""
NARROWEST, WIDEST = 0.6, 1.35
"""Bisection looks between so many times the rate at which the busiest CPU is full, and below that if it must."""


def highest(carries: Callable[[float], bool], low: float, high: float, resolution: float = RESOLUTION) -> float:
    """The largest rate that is carried, to half the resolution; `low` if not even that one, `high` if all are."""
    while high - low > resolution:
        middle = (low + high) / 2
        if carries(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def max_rates(
    network: Network,
    costs: Costs,
    seeds: Sequence[int],
    *,
    threshold: int = OVERLOAD_QUEUE,
    seconds: float = SNAPSHOT_S,
    burst: tuple[float, float] | None = None,
) -> tuple[list[float], Routes]:
    """The highest rates, events/s of each publisher, at which no queue reaches the threshold; and the routes of the runs.

    One rate for each seed of the arrivals: subscriptions and events are the same, when they come is not.
    """
    pilot = network.route(PILOT_EVENTS)
    full = float(pilot.limits(costs).min())
    burstiness = 1.0 if burst is None else 2 * full * burst[1]  # events of one burst come together
    routes = network.route(enough(WIDEST * full, seconds, len(pilot.publishers), burstiness))

    def found(seed: int) -> float:
        def carries(rate: float) -> bool:
            return not replay(routes, routes.times(rate, seconds, seed, burst), costs, seconds).overloads(threshold)

        low = NARROWEST * full
        return highest(carries, low, WIDEST * full) if carries(low) else highest(carries, 0.0, low)

    return [found(seed) for seed in seeds], routes
