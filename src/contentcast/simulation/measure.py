"""Measures what our own routers cost on this machine, as `Costs`: where the preset `costs.OURS` comes from.

    python -m contentcast.simulation.measure

A world runs the named protocol; the CPU time of every visit of one event is noted beside its matching steps, messages sent and
deliveries, and a least-squares fit says what each of them takes. Encoding and decoding a message are timed by themselves and
added to sending (to a broker or to a client) and receiving. Sockets are not measured.
Rule: this is the only file of the simulation that asks the machine for the time; nothing that runs in virtual time calls it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time_ns
from typing import Any, Final

import numpy as np

from contentcast import catalog
from contentcast.hosting.costs import Costs
from contentcast.model import EventBatch
from contentcast.network.named import gryphon
from contentcast.routing.contract import Account, Deliver, Effect, Input, Received, Router, Send, Sizes
from contentcast.routing.setup import Life, Setup
from contentcast.simulation.load import publish_poisson, subscribe
from contentcast.simulation.world import World
from contentcast.wire import Publish, decode, encode
from contentcast.workload import scenario

WARM_SHARE: Final = 0.2
"""The first visits fill caches."""
OUTLIERS: Final = 0.02
"""Visits in which the machine did something else."""
CODEC_ROUNDS: Final = 2000

Visit = tuple[float, int, int, int]


class Timed:
    """A router that notes what each visit of an event took: nanoseconds, steps, messages sent, deliveries."""

    def __init__(self, router: Router, visits: list[Visit]) -> None:
        self.broker = router.broker
        self._router = router
        self._visits = visits

    def handle(self, input: Input, now: float) -> list[Effect]:
        began = process_time_ns()
        effects = self._router.handle(input, now)
        took = process_time_ns() - began
        if isinstance(input, Received) and isinstance(input.message, Publish):
            steps = sum(int(each.steps.sum()) for each in effects if isinstance(each, Account))
            pairs = sum(len(each.rows) for each in effects if isinstance(each, Deliver))
            self._visits.append((took, steps, sum(isinstance(each, Send) for each in effects), pairs))
        return effects

    def sizes(self) -> Sizes:
        return self._router.sizes()

    def state(self) -> dict[str, Any]:
        return self._router.state()


def measure(
    protocol: str = "link-matching", subscriptions: int = 10_000, events: int = 1_000, latency_s: float = 0.001
) -> Costs:
    """`latency_s` is not measured: pass what the communication stack takes."""
    topology, visits = gryphon(), list[Visit]()
    routers = catalog.make_router(protocol, Setup(topology=topology))

    def make(broker: str, life: Life) -> Router:
        return Timed(routers(broker, life), visits)

    world = World(topology, make, announce=False)
    source = scenario("gryphon", seed=1)
    subscribe(world, source, subscriptions)
    world.run()
    publish_poisson(world, source, 20.0, events, seed=1)
    world.run()
    step, receive, send, deliver = fit(visits)
    message = Publish("r1-1-1", 1, 1, EventBatch.from_arrow(source.space, source.events(1)))
    data = encode(message)
    written = _seconds(lambda: encode(message))
    read = _seconds(lambda: decode(data, {source.space.name: source.space}))
    return Costs(step, receive + read, send + written, 0.0, deliver + written, latency_s)


def fit(visits: list[Visit]) -> tuple[float, float, float, float]:
    """Seconds for a step, for a visit as such, for a message sent and for a delivery."""
    table = np.array(visits[int(WARM_SHARE * len(visits)) :], float)
    table = table[table[:, 0] <= np.quantile(table[:, 0], 1 - OUTLIERS)]
    done = np.column_stack([table[:, 1], np.ones(len(table)), table[:, 2], table[:, 3]])
    found = np.linalg.lstsq(done, table[:, 0] * 1e-9, rcond=None)[0]
    step, visit, send, deliver = np.maximum(found, 0.0).tolist()
    return step, visit, send, deliver


def _seconds(act: Callable[[], object]) -> float:
    began = process_time_ns()
    for _ in range(CODEC_ROUNDS):
        act()
    return (process_time_ns() - began) * 1e-9 / CODEC_ROUNDS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m contentcast.simulation.measure", description="What our routers cost here.")
    parser.add_argument("--protocol", default="link-matching", help=f"one of: {', '.join(catalog.PROTOCOLS)}")
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=1_000)
    chosen = parser.parse_args()
    print(measure(chosen.protocol, chosen.subscriptions, chosen.events))


if __name__ == "__main__":
    main()
