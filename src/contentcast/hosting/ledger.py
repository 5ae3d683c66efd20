"""What routing came to, by columns: copies and bytes on every link, steps and deliveries at every broker, and when each
arrived.

The watcher of an `Instant` network through which a million events pass. Time is that of the cost model without queues: an event
reaches a broker when the one before is done with it and the link's delay is over, as if it were alone in the network.

    events published    a: 0, 1, 2                          arrival at a      0 0 0
    a sends 0, 2 to b   one copy and its bytes each         arrival at b      cpu at a + latency + delay of a-b
    b delivers 0        one delivery                        latency           arrival + cpu at b + the client's link

A message to a broker that is no neighbour (`SendTo`) counts on every link of the way there. A message to a group counts once,
for its sender, and reaches all members. What a router keeps for a timer leaves it as if the timer took no time.
Rule: the events of one `account` have the ids 0 .. n - 1, so that an id is a place in the arrays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.hosting.costs import Costs
from contentcast.model import EventBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import (
    Account,
    Deliver,
    Effect,
    Input,
    Join,
    Leave,
    Published,
    Received,
    Send,
    SendGroup,
    SendTo,
)
from contentcast.wire import Message, bytes_alone, events_of
from contentcast.wire.encodings.sizes import event_bytes

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LATENCY_BINS: Final = np.geomspace(1e-5, 1e3, 2401)
"""Bins of the latencies, 300 to a factor of ten: a percentile read from them is off by less than 1 %."""


@dataclass(frozen=True, slots=True)
class Hop:
    """What one broker did with some events: for each its steps, its deliveries and its copies; and by whom it left them.

    `left_by` has each broker that got some of them, with these events.
    """

    broker: str
    events: Ints
    steps: Ints
    deliveries: Ints
    copies: Ints
    left_by: list[tuple[str, Ints]]
    arrived_s: Floats


class Sent(NamedTuple):
    """A message with events that leaves: the brokers on its way, itself first, or the group; which events, and their bytes."""

    path: list[str]
    group: str
    message: Message
    places: Ints
    sizes: Ints


class Ledger:
    """`watch` is given to an Instant network; the sums are arrays by broker and by (broker, broker)."""

    def __init__(self, topology: Topology, costs: Costs, *, client_delay_s: float = 0.001, keep_hops: bool = False) -> None:
        count = len(topology)
        self.topology = topology
        self.costs = costs
        self.messages = np.zeros((count, count), np.int64)
        """Copies of events on each link, [from, to]."""
        self.bytes = np.zeros((count, count), np.int64)
        self.sent = np.zeros(count, np.int64)
        """Copies of events that each broker sent, however many links they crossed."""
        self.group_messages = np.zeros(count, np.int64)
        self.group_bytes = np.zeros(count, np.int64)
        self.visits = np.zeros(count, np.int64)
        self.steps = np.zeros(count, np.int64)
        self.deliveries = np.zeros(count, np.int64)
        self.busy_s = np.zeros(count, np.float64)
        self.latencies = np.zeros(len(LATENCY_BINS) + 1, np.int64)
        self.hops: list[Hop] = []
        self._client_delay_s = client_delay_s
        self._keep_hops = keep_hops
        self._event_bytes = np.empty(0, np.int64)
        self._place = np.empty(0, np.int64)
        self._under_way: dict[tuple[str, int], deque[tuple[Message, Floats]]] = {}
        """(receiver, identity of the message) -> when its events arrive; the message is kept, so that the identity holds."""
        self._reached: dict[str, Floats] = {}
        """When each event was last at a broker: for what the broker keeps and sends later."""
        self._members: dict[str, set[str]] = {}

    def account(self, events: EventBatch) -> None:
        """From now on these events pass, the i-th with the id i."""
        self._event_bytes = event_bytes(events)
        self._place = np.empty(len(events), np.int64)  # of an event among those that one broker handles
        self._under_way = {}
        self._reached = {}
        self.hops = []

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        self._note_groups(broker, effects)
        if not len(self._place):
            return  # nothing is accounted for yet
        came = events_of(input.message) if isinstance(input, Received) else None
        if isinstance(input, Received) and came is not None:
            ids, arrived = np.asarray(came.ids), self._arrival(broker, input.message)
        elif isinstance(input, Published):
            ids, arrived = np.asarray(input.events.ids), np.zeros(len(input.events))
        else:
            ids = _kept(effects)
            if not len(ids):
                return
            arrived = self._reached[broker][ids] if broker in self._reached else np.zeros(len(ids))
        here = ids if np.all(ids[1:] > ids[:-1]) else np.unique(ids)
        self._place[here] = np.arange(len(here))
        if here is not ids:
            times = np.empty(len(here))
            times[self._place[ids]] = arrived
            arrived = times
        self._reached.setdefault(broker, np.zeros(len(self._event_bytes)))[here] = arrived
        received = np.bincount(self._place[ids], minlength=len(here)) * (came is not None)
        self._note(broker, here, received, arrived, effects)

    def _arrival(self, broker: str, message: Message) -> Floats:
        waiting = self._under_way[broker, id(message)]
        arrived = waiting.popleft()[1]
        if not waiting:
            del self._under_way[broker, id(message)]
        return arrived

    def know_groups(self, groups: Mapping[str, set[str]]) -> None:
        """Who has joined which group, for a ledger that begins to watch a network that runs."""
        self._members = {group: set(members) for group, members in groups.items()}

    def members(self, group: str) -> set[str]:
        """Who has joined this group."""
        return self._members.get(group, set())

    def _note_groups(self, broker: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Join):
                self._members.setdefault(effect.group, set()).add(broker)
            elif isinstance(effect, Leave):
                self._members.get(effect.group, set()).discard(broker)

    def _note(self, broker: str, here: Ints, received: Ints, arrived: Floats, effects: list[Effect]) -> None:
        number, count = self.topology.number(broker), len(here)
        steps, given, copies, load = (np.zeros(count, np.int64) for _ in range(4))
        sends: list[Sent] = []
        for effect in effects:
            match effect:
                case Account(events, cost):
                    at = self._place[np.asarray(events.ids)]
                    steps += cost if len(at) == count else _added(at, cost, count)
                case Deliver(events, rows, _, _):
                    given += np.bincount(self._place[np.asarray(events.ids)][rows], minlength=count)
                case Send(link, message):
                    sends += self._sent([broker, link], message)
                case SendTo(other, message):
                    sends += self._sent(self.topology.path(broker, other) if other in self.topology else [], message)
                case SendGroup(group, message):
                    sends += self._sent([broker], message, group)
        for each in sends:
            copies += np.bincount(each.places, minlength=count)
            load += _added(each.places, each.sizes, count)
        costs = self.costs
        cpu_s = (
            received * costs.receive_s
            + steps * costs.step_s
            + copies * costs.send_s
            + given * costs.deliver_s
            + (load + received * self._event_bytes[here]) * costs.byte_s
        )
        leaving = arrived + cpu_s + costs.latency_s
        for each in sends:
            self._send(broker, each, leaving[each.places])
        bins = np.searchsorted(LATENCY_BINS, leaving + self._client_delay_s)
        self.latencies += _added(bins, given, len(self.latencies))
        self.sent[number] += int(copies.sum())
        self.visits[number] += count
        self.steps[number] += int(steps.sum())
        self.deliveries[number] += int(given.sum())
        self.busy_s[number] += float(cpu_s.sum())
        if self._keep_hops:
            left_by = [(each.group or each.path[-1], here[each.places]) for each in sends]
            self.hops.append(Hop(broker, here, steps, given, copies, left_by, arrived))

    def _sent(self, path: list[str], message: Message, group: str = "") -> list[Sent]:
        events = events_of(message)
        if events is None or not path:
            return []
        ids = np.asarray(events.ids)
        return [Sent(path, group, message, self._place[ids], bytes_alone(message, self._event_bytes[ids]))]

    def _send(self, broker: str, sent: Sent, leaving: Floats) -> None:
        size = int(sent.sizes.sum())
        if sent.group:
            at = self.topology.number(broker)
            self.group_messages[at] += len(sent.places)
            self.group_bytes[at] += size
            for member in self._members.get(sent.group, set()) - {broker}:
                self._under_way.setdefault((member, id(sent.message)), deque()).append((sent.message, leaving))
            return
        delay_s = 0.0
        for one, other in pairwise(sent.path):
            here, there = self.topology.number(one), self.topology.number(other)
            self.messages[here, there] += len(sent.places)
            self.bytes[here, there] += size
            delay_s += self.topology.link(one, other).delay_s
        self._under_way.setdefault((sent.path[-1], id(sent.message)), deque()).append((sent.message, leaving + delay_s))


def _kept(effects: list[Effect]) -> Ints:
    """The events that leave, or are matched in vain, although none came: a broker kept them for a timer."""
    found = []
    for effect in effects:
        match effect:
            case Account(events, _):
                found.append(np.asarray(events.ids))
            case Deliver(events, rows, _, _):
                found.append(np.asarray(events.ids)[rows])
            case Send(_, message) | SendTo(_, message) | SendGroup(_, message):
                if (brought := events_of(message)) is not None:
                    found.append(np.asarray(brought.ids))
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _added(at: Ints, values: Ints, count: int) -> Ints:
    summed: Ints = np.bincount(at, weights=values, minlength=count).astype(np.int64)
    return summed


def percentile(latencies: Ints, share: float) -> float:
    """The latency in seconds that this share of the deliveries stays under; nan when there were none."""
    total = int(latencies.sum())
    if not total:
        return float("nan")
    at = int(np.searchsorted(np.cumsum(latencies), share * total))
    return float(LATENCY_BINS[min(at, len(LATENCY_BINS) - 1)])
