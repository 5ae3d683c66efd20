"""A network in which everything happens at once: messages arrive as soon as they are sent, in the order they were sent.

The shortest way to run real routers: for stories, for the docs, and for Spark, where a million events are routed by columns and
what counts is which links they cross. Time does not pass; a timer fires when nothing else is left to do. All brokers are on one
LAN, where a group reaches all who have joined it; a record is on disk as soon as it is written.
Rule: everything that a router is told and asks for is told to `watch`, with the broker, before it is performed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from contentcast.hosting.perform import HostError, How, no_link, perform
from contentcast.hosting.quiet import Quiet
from contentcast.hosting.timers import Timers
from contentcast.network.topology import Topology
from contentcast.routing.contract import (
    DIRECT,
    Accepted,
    Account,
    Append,
    Changed,
    Deliver,
    DeliverDurably,
    Effect,
    Holds,
    Input,
    Join,
    Leave,
    LinkUp,
    Received,
    Router,
    Send,
    SendGroup,
    SendTo,
    SetTimer,
    Started,
    Stopping,
    Synced,
    Timer,
    TimerFired,
    Trim,
    Via,
)
from contentcast.routing.dice import Dice
from contentcast.routing.setup import Life, MakeRouter

Watch = Callable[[str, Input, list[Effect]], None]
HOST = "the network without time"


def _unwatched(broker: str, input: Input, effects: list[Effect]) -> None:
    pass


def _nothing(effect: Any) -> None:
    """For what the watcher alone is interested in."""


class Instant:
    """`make(broker, life)` makes the routers. All links are up at once."""

    def __init__(self, topology: Topology, make: MakeRouter, watch: Watch = _unwatched, *, seed: int = 0) -> None:
        self.topology = topology
        self.watch = watch
        self.now = 0.0
        self.routers: dict[str, Router] = {
            broker: make(broker, Life(1, Dice(f"{seed} {broker} 1"))) for broker in topology.brokers
        }
        self.records: dict[str, list[bytes]] = {broker: [] for broker in topology.brokers}
        self._waiting: deque[tuple[str, Input, bool]] = deque()
        self._timers = {broker: Timers() for broker in topology.brokers}
        self._alarms: list[tuple[float, str, Timer, bool]] = []
        self._groups: dict[str, set[str]] = {}
        self._quiet = Quiet()
        self._broker = ""
        self._background = False
        self._how: How = {
            Send: self._send,
            SendTo: self._send_to,
            SendGroup: self._send_group,
            Join: lambda effect: self._groups.setdefault(effect.group, set()).add(self._broker),
            Leave: lambda effect: self._groups.get(effect.group, set()).discard(self._broker),
            SetTimer: self._set_timer,
            Append: self._append,
            Deliver: _nothing,
            Accepted: _nothing,
            DeliverDurably: _nothing,
            Holds: _nothing,
            Trim: _nothing,
            Account: _nothing,
            Changed: _nothing,
        }
        for broker in topology.brokers:
            self._wait(broker, Started())
        for link in topology.links:
            self._wait(link.one, LinkUp(link.other, link.delay_s))
            self._wait(link.other, LinkUp(link.one, link.delay_s))
        self.settle()

    def put(self, broker: str, input: Input) -> None:
        """Tells a broker something, and lets everything happen that follows."""
        self.put_many([(broker, input)])

    def put_many(self, inputs: Iterable[tuple[str, Input]]) -> None:
        """Tells several brokers something, and then lets everything happen that follows.

        A protocol with standing timers takes a whole period of them to become quiet: once here, and once for each `put`.
        """
        for broker, input in inputs:
            if broker not in self.routers:
                self.topology.number(broker)  # says which there are
                raise HostError(f"broker {broker} has left")
            self._wait(broker, input)
        self.settle()

    def leave(self, broker: str) -> None:
        """The broker stops in order, and is gone."""
        self.put(broker, Stopping())
        del self.routers[broker], self._timers[broker]
        for members in self._groups.values():
            members.discard(broker)

    def groups(self) -> dict[str, set[str]]:
        """Who has joined which group: for a watcher that comes later."""
        return {group: set(members) for group, members in self._groups.items()}

    def settle(self) -> None:
        while True:
            if self._waiting:
                self._handle(*self._waiting.popleft())
            elif self._alarms and not self._quiet.reached(self._alarms[0][0]):
                self._wake()
            else:
                return

    def _wait(self, broker: str, input: Input, background: bool = False) -> None:
        self._quiet.foreground += not background
        self._waiting.append((broker, input, background))

    def _handle(self, broker: str, input: Input, background: bool) -> None:
        self._quiet.foreground -= not background
        router = self.routers.get(broker)
        if router is None:
            return
        effects = router.handle(input, self.now)
        self.watch(broker, input, effects)
        self._broker = broker
        self._background = self._quiet.handled(input, effects, self.now, background)
        perform(effects, self._how, HOST)

    # --- effects

    def _send(self, effect: Send) -> None:
        if not self.topology.has_link(self._broker, effect.link):
            raise no_link(HOST, self._broker, effect.link, self.topology.neighbours(self._broker))
        self._wait(effect.link, Received(self._broker, effect.message), self._background)

    def _send_to(self, effect: SendTo) -> None:
        self._wait(effect.broker, Received(self._broker, effect.message, DIRECT), self._background)

    def _send_group(self, effect: SendGroup) -> None:
        for member in sorted(self._groups.get(effect.group, ())):
            if member != self._broker:
                self._wait(member, Received(self._broker, effect.message, Via("group", effect.group)), self._background)

    def _append(self, effect: Append) -> None:
        records = self.records[self._broker]
        records.append(effect.record)
        self._wait(self._broker, Synced(len(records)))

    def _set_timer(self, effect: SetTimer) -> None:
        self._quiet.timer_set(effect, self.now)
        at = self._timers[self._broker].set(effect, self.now)
        if at is not None:
            self._alarm(at, self._broker, effect.timer, effect.background)

    # --- time

    def _alarm(self, at: float, broker: str, timer: Timer, background: bool) -> None:
        self._quiet.foreground += not background
        heapq.heappush(self._alarms, (at, broker, timer, background))

    def _wake(self) -> None:
        at, broker, timer, background = heapq.heappop(self._alarms)
        self._quiet.foreground -= not background
        timers = self._timers.get(broker)
        woken = None if timers is None else timers.wake(timer, at)
        if woken is True:
            self.now = max(self.now, at)
            self._wait(broker, TimerFired(timer), background)
        elif woken is not None:
            self._alarm(woken, broker, timer, background)
