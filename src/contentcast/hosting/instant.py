"""A network in which everything happens at once: messages arrive as soon as they are sent, in the order they were sent.

The shortest way to run real routers: for stories, for the docs, and for Spark, where a million events are routed by columns and
what counts is which links they cross. Time does not pass; a timer fires when nothing else is left to do.
Rule: everything that a router is told and asks for is told to `watch`, with the broker, before it is performed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping

from contentcast.network.topology import Topology
from contentcast.routing.contract import Effect, Input, LinkUp, Received, Router, Send, SetTimer, TimerFired

Watch = Callable[[str, Input, list[Effect]], None]


def _unwatched(broker: str, input: Input, effects: list[Effect]) -> None:
    pass


class Instant:
    """`make(broker)` makes the routers. All links are up at once."""

    def __init__(self, topology: Topology, make: Callable[[str], Router], watch: Watch = _unwatched) -> None:
        self.topology = topology
        self.watch = watch
        self.now = 0.0
        self.routers: Mapping[str, Router] = {broker: make(broker) for broker in topology.brokers}
        self._waiting: deque[tuple[str, Input]] = deque()
        self._timers: dict[tuple[str, str], float] = {}
        self._alarms: list[tuple[float, str, str]] = []
        for link in topology.links:
            self._waiting.append((link.one, LinkUp(link.other, link.delay_s)))
            self._waiting.append((link.other, LinkUp(link.one, link.delay_s)))
        self.settle()

    def put(self, broker: str, input: Input) -> None:
        """Tells a broker something, and lets everything happen that follows."""
        self._waiting.append((broker, input))
        self.settle()

    def settle(self) -> None:
        while self._waiting or self._alarms:
            if not self._waiting:
                self._wake()
                continue
            broker, input = self._waiting.popleft()
            effects = self.routers[broker].handle(input, self.now)
            self.watch(broker, input, effects)
            for effect in effects:
                match effect:
                    case Send(link, message) if self.topology.has_link(broker, link):
                        self._waiting.append((link, Received(broker, message)))
                    case SetTimer(name, at):
                        self._timers[broker, name] = at
                        heapq.heappush(self._alarms, (at, broker, name))

    def _wake(self) -> None:
        at, broker, name = heapq.heappop(self._alarms)
        if self._timers.get((broker, name)) == at:
            del self._timers[broker, name]
            self.now = max(self.now, at)
            self._waiting.append((broker, TimerFired(name)))
