"""Clients of a workload scenario at work: they subscribe, and publish as Poisson streams or in bursts.

Each publishing broker has a stream of its own, with dice of its own; the scenario's events enter alone, each at its broker:

    rows           0     1     2     3                    a's dice: 0.013 0.021      b's dice: 0.008 0.030
    publishers     a     b     b     a                    on the agenda: b/1 0.008, a/0 0.013, a/3 0.021, b/2 0.030

Source: Banavar et al. 1999, section 4.1 ("events are generated at the publishing brokers according to a Poisson distribution")
and section 6, which asks for "bursty event loads".
Rule: gaps come of von Neumann's comparisons of uniform numbers, not of a logarithm whose last bit differs between machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import accumulate
from random import Random
from typing import TypeAlias

import numpy as np
import pyarrow.compute as pc

from contentcast.language import parse_many
from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.routing.contract import Published, Subscribed
from contentcast.simulation.agenda import SimulationError
from contentcast.simulation.world import World
from contentcast.workload import Scenario

Times: TypeAlias = Iterator[float]


def subscribe(world: World, scenario: Scenario, count: int, *, first: int = 0, at: float | None = None) -> None:
    """Rows `first` to `first + count` of the scenario's subscriptions, each at its broker, all at one time."""
    rows = scenario.subscriptions(count, first)
    broker = rows["broker"].to_numpy(zero_copy_only=False)
    for each in sorted(set(broker.tolist())):
        mine = rows.take(np.flatnonzero(broker == each))
        table = parse_many(scenario.space, mine["predicate"])
        batch = SubscriptionBatch.columns(mine["subscription"].to_numpy(), table, mine["subscriber"].to_pylist())
        world.put(each, Subscribed(batch), at)


def publish_poisson(
    world: World, scenario: Scenario, rate: float, count: int, *, seed: int = 0, first: int = 0, start: float | None = None
) -> None:
    """Rows `first` to `first + count` of the events; every publishing broker publishes `rate` of them a second."""
    _check("rate", rate)
    _publish(world, scenario, count, first, start, lambda broker: poisson(rate, Random(f"{seed} poisson {broker}")))


def publish_bursts(
    world: World,
    scenario: Scenario,
    rate: float,
    count: int,
    *,
    on_s: float = 0.1,
    off_s: float = 0.4,
    seed: int = 0,
    first: int = 0,
    start: float | None = None,
) -> None:
    """As `publish_poisson`, with the same rate on average, but each publisher is silent for `off_s` between bursts of `on_s`.

    Both are means of exponential times. Within a burst the rate is `rate * (on_s + off_s) / on_s`.
    """
    _check("rate", rate)
    _check("on_s", on_s)
    _check("off_s", off_s)
    _publish(world, scenario, count, first, start, lambda broker: bursts(rate, on_s, off_s, Random(f"{seed} bursts {broker}")))


def _check(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise SimulationError(f"{name} is a number above 0, got {value!r}")


def _publish(
    world: World, scenario: Scenario, count: int, first: int, start: float | None, times_of: Callable[[str], Times]
) -> None:
    begin = world.now if start is None else start
    events = EventBatch.from_arrow(scenario.space, scenario.events(count, first), ids=np.arange(first, first + count))
    publishers = scenario.publishers(count, first)

    def stream(broker: str) -> Iterator[tuple[float, int, str]]:
        rows = np.flatnonzero(pc.equal(publishers, broker).to_numpy(zero_copy_only=False)).tolist()
        for row, time in zip(rows, times_of(broker), strict=False):  # the times never end
            yield begin + time, row, broker

    streams = [stream(broker) for broker in sorted(pc.unique(publishers).to_pylist())]
    world.feed((time, broker, Published(events.slice(row, 1))) for time, row, broker in merge(*streams))


def poisson(rate: float, dice: Random) -> Times:
    """The times of a Poisson stream, without end."""
    return accumulate(exponential(dice) / rate for _ in iter(int, 1))


def bursts(rate: float, on_s: float, off_s: float, dice: Random) -> Times:
    """A Poisson stream whose clock only runs during bursts."""
    began = 0.0  # when this burst began, and what the stream's own clock showed then
    shown = 0.0
    lasts = on_s * exponential(dice)
    for time in poisson(rate * (on_s + off_s) / on_s, dice):
        while time - shown > lasts:
            began += lasts + off_s * exponential(dice)
            shown += lasts
            lasts = on_s * exponential(dice)
        yield began + time - shown


def exponential(dice: Random) -> float:
    """An exponential time of mean 1.

    J. von Neumann, Various techniques used in connection with random digits, 1951: a run of descending uniform numbers is of
    odd length with probability exp(-its first); each run of even length adds one.
    """
    random = dice.random
    whole = 0.0
    while True:
        first = last = random()
        length = 1
        while (drawn := random()) < last:
            last = drawn
            length += 1
        if length % 2:
            return whole + first
        whole += 1.0
