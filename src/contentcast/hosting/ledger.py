"""What routing came to, by columns: copies and bytes on every link, steps and deliveries at every broker, and when each
arrived.

The watcher of an `Instant` network through which a million events pass. Time is that of the cost model without queues: an event
reaches a broker when the one before is done with it and the link's delay is over, as if it were alone in the network.

    events published    a: 0, 1, 2                          arrival at a      0 0 0
    a sends 0, 2 to b   one copy and its bytes each         arrival at b      cpu at a + latency + delay of a-b
    b delivers 0        one delivery                        latency           arrival + cpu at b + the client's link

Rule: the events of one `account` have the ids 0 .. n - 1, so that an id is a place in the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.hosting.costs import Costs
from contentcast.model import EventBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Account, Deliver, Effect, Input, Published, Received, Send
from contentcast.wire import Publish
from contentcast.wire.fields import name_bytes
from contentcast.wire.sizes import PUBLISH_HEADER_BYTES, destination_bytes, event_bytes

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LATENCY_BINS: Final = np.geomspace(1e-5, 1e3, 2401)
"""Bins of the latencies, 300 to a factor of ten: a percentile read from them is off by less than 1 %."""


@dataclass(frozen=True, slots=True)
class Hop:
    """What one broker did with some events: for each event its steps, deliveries and copies.

    `left_by` has, for each link, the events that left by it.
    """

    broker: str
    events: Ints
    steps: Ints
    deliveries: Ints
    copies: Ints
    left_by: list[tuple[str, Ints]]
    arrived_s: Floats


class Ledger:
    """`watch` is given to an Instant network; the sums are arrays by broker and by (broker, broker)."""

    def __init__(self, topology: Topology, costs: Costs, *, client_delay_s: float = 0.001, keep_hops: bool = False) -> None:
        count = len(topology)
        self.topology = topology
        self.costs = costs
        self.messages = np.zeros((count, count), np.int64)
        self.bytes = np.zeros((count, count), np.int64)
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
        self._arrivals: dict[str, Floats] = {}

    def account(self, events: EventBatch) -> None:
        """From now on these events pass, the i-th with the id i."""
        self._event_bytes = event_bytes(events)
        self._place = np.empty(len(events), np.int64)  # of an event among those that one broker handles
        self._arrivals = {}
        self.hops = []

    def watch(self, broker: str, input: Input, effects: list[Effect]) -> None:
        match input:
            case Published(events):
                ids, came = np.asarray(events.ids), 0
            case Received(_, Publish() as publish):
                ids, came = np.asarray(publish.events.ids), 1
            case _:
                return
        here = ids if np.all(ids[1:] > ids[:-1]) else np.unique(ids)
        self._place[here] = np.arange(len(here))
        number = self.topology.number(broker)
        steps, given, copies = (np.zeros(len(here), np.int64) for _ in range(3))
        load = np.zeros(len(here), np.int64)
        sends: list[tuple[str, Ints, Ints, int]] = []
        for effect in effects:
            match effect:
                case Account(events, cost):
                    at = self._place[np.asarray(events.ids)]
                    steps += cost if len(at) == len(here) else _added(at, cost, len(here))
                case Deliver(events, rows, _, _):
                    given += np.bincount(self._place[np.asarray(events.ids)][rows], minlength=len(here))
                case Send(link, Publish() as publish):
                    at = self._place[np.asarray(publish.events.ids)]
                    size = self._sizes(publish)
                    copies += np.bincount(at, minlength=len(here))
                    load += _added(at, size, len(here))
                    sends.append((link, at, here[at], int(size.sum())))
        costs = self.costs
        received = np.bincount(self._place[ids], minlength=len(here)) * came
        cpu_s = (
            received * costs.receive_s
            + steps * costs.step_s
            + copies * costs.send_s
            + given * costs.deliver_s
            + (load + received * self._event_bytes[here]) * costs.byte_s
        )
        arrived = self._arrivals[broker][here] if came else np.zeros(len(here))
        leaving = arrived + cpu_s + costs.latency_s
        for link, at, events_sent, size_sum in sends:
            other = self.topology.number(link)
            self.messages[number, other] += len(at)
            self.bytes[number, other] += size_sum
            if link not in self._arrivals:
                self._arrivals[link] = np.zeros(len(self._event_bytes))
            self._arrivals[link][events_sent] = leaving[at] + self.topology.link(broker, link).delay_s
        bins = np.searchsorted(LATENCY_BINS, leaving + self._client_delay_s)
        self.latencies += _added(bins, given, len(self.latencies))
        self.visits[number] += len(here)
        self.steps[number] += int(steps.sum())
        self.deliveries[number] += int(given.sum())
        self.busy_s[number] += float(cpu_s.sum())
        if self._keep_hops:
            left_by = [(link, events_sent) for link, _, events_sent, _ in sends]
            self.hops.append(Hop(broker, here, steps, given, copies, left_by, arrived))

    def _sizes(self, publish: Publish) -> Ints:
        """The bytes of each event as a message of its own."""
        header = PUBLISH_HEADER_BYTES + name_bytes(publish.origin) + name_bytes(publish.events.space.name)
        sizes: Ints = self._event_bytes[np.asarray(publish.events.ids)] + header
        return sizes if publish.destinations is None else sizes + destination_bytes(publish.destinations)


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
