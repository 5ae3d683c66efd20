"""The ways of a load's events through a network under a protocol, found by the real routers: what an experiment counts.

    routed = route(network("gryphon-39"), scenario("gryphon", seed=1), "link-matching-paper", subscriptions=5070, events=3000)
    routed.steps[event, broker]      routed.deliveries      routed.copies      routed.cpu_s(costs)

The routers stand in a network without time (`hosting.instant`) and a ledger writes down every hop; `replay` gives it time.
A message to a multicast group is one copy for its sender and reaches all members after LAN_DELAY_S, as if all brokers stood on
one LAN; what is told of ways through the links (`hops`, `cumulative_steps`) does not hold for it.
Rule: a protocol whose decisions depend on the order of events (the hybrid, which learns) may be counted here, not replayed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import ceil, sqrt
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from contentcast import catalog
from contentcast.hosting.costs import FREE, Costs
from contentcast.hosting.instant import Instant
from contentcast.hosting.ledger import Hop, Ledger
from contentcast.language import parse_many
from contentcast.matching.search_tree import SearchTree
from contentcast.model import ContentcastError, EventBatch, SubscriptionBatch
from contentcast.model.predicates.table import PredicateTable
from contentcast.network.topology import Topology
from contentcast.routing.audience import Forest
from contentcast.routing.contract import Published, Subscribed
from contentcast.routing.setup import Setup
from contentcast.simulation.load import Times, bursts, poisson
from contentcast.workload import Scenario

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CLIENT_DELAY_S: Final = 0.001
LAN_DELAY_S: Final = 0.0002
"""As a LAN segment of the simulation has it."""
KEPT_TABLES: Final = 2
PLAIN_TREE: Final[Mapping[str, Any]] = {"eliminate_trivial_tests": False, "delay_branching": False, "share": False}
"""The tree of the paper's section 2 without what section 2.1 adds; `factored` is said beside it."""


@dataclass(frozen=True)
class Routes:
    """All arrays are [event, broker] but the edges, which stand in the order of the visits that they leave."""

    topology: Topology
    entered: Ints
    """The number of the broker at which each event enters."""
    copies_in: Ints
    steps: Ints
    deliveries: Ints
    copies: Ints
    first: Ints
    to: Ints
    delay_s: Floats
    bytes: Ints
    """On each link, [from, to]."""
    group_bytes: Ints
    """Sent to multicast groups by each broker, however many have joined."""

    @property
    def brokers(self) -> int:
        return len(self.topology)

    @property
    def visits(self) -> int:
        return int((self.copies_in > 0).sum())

    def cpu_s(self, costs: Costs) -> Floats:
        """As a broker of the simulation pays; bytes are free here."""
        spent: Floats = (
            self.copies_in * costs.receive_s
            + self.steps * costs.step_s
            + self.copies * costs.send_s
            + self.deliveries * costs.deliver_s
        )
        return spent

    @cached_property
    def publishers(self) -> Ints:
        return np.unique(self.entered)

    def limits(self, costs: Costs) -> Floats:
        """For each broker the rate per publisher, events/s, at which its CPU has no time left: where queues begin to grow."""
        spent = self.cpu_s(costs).sum(axis=0) / len(self.entered)
        with np.errstate(divide="ignore"):
            rates: Floats = 1 / (len(self.publishers) * spent)
        return rates

    def cumulative_steps(self) -> Ints:
        """[event, broker]: steps at all brokers on the way from the publisher to this one, itself included."""
        summed = self.steps.copy()
        for publisher in self.publishers.tolist():
            rows = np.flatnonzero(self.entered == publisher)
            parents = self.topology.parents[publisher]
            for broker in np.argsort(self.topology.hops[publisher], kind="stable").tolist():
                if parents[broker] >= 0:
                    summed[rows, broker] += summed[rows, parents[broker]]
        return summed

    def hops(self) -> Ints:
        """[event, broker]: brokers on the way, from 1: the links to its client that an event crosses, the client's included."""
        return self.topology.hops[self.entered].astype(np.int64) + 1

    def times(self, rate: float, until: float | None, seed: int, burst: tuple[float, float] | None = None) -> Floats:
        """When each event is published: every publisher is a Poisson stream of this rate (or in bursts, seconds on and off).

        Those after `until` never are (inf); None: all of them are.
        """
        found = np.full(len(self.entered), np.inf)
        for publisher in self.publishers.tolist():
            name = self.topology.brokers[publisher]
            rows = np.flatnonzero(self.entered == publisher)
            stream: Times = (
                poisson(rate, Random(f"{seed} poisson {name}"))
                if burst is None
                else bursts(rate, *burst, Random(f"{seed} bursts {name}"))
            )
            times = np.fromiter(islice(stream, len(rows) + 1), float)
            if until is not None and times[-1] <= until:
                raise ContentcastError(
                    f"{name} publishes more than {len(rows):,} events in {until:g} s at {rate:g} a second; route more of them"
                )
            found[rows] = times[:-1]
            if until is not None:
                found[rows[times[:-1] > until]] = np.inf
        return found


def enough(rate: float, until: float, publishers: int, burstiness: float = 1.0) -> int:
    """Events to route for a run: more than random streams need, but for one in a billion."""
    mean = rate * until
    return ceil(publishers * (mean + 8 * sqrt(max(1.0, mean * burstiness)) + 30))


_parsed: OrderedDict[Hashable, PredicateTable] = OrderedDict()


def parsed(source: Scenario, count: int) -> PredicateTable:
    """What the first subscriptions of the scenario want; remembered, because reading them takes longer than routing."""
    key = source.name, source.seed, tuple(sorted(source.parameters.items())), count
    if key not in _parsed:
        _parsed[key] = parse_many(source.space, source.subscriptions(count)["predicate"])
        if len(_parsed) > KEPT_TABLES:
            _parsed.popitem(last=False)
    return _parsed[key]


def subscription_batches(source: Scenario, count: int) -> Iterator[tuple[str, SubscriptionBatch]]:
    """The first rows of the scenario, by the broker whose clients want them."""
    rows, table = source.subscriptions(count), parsed(source, count)
    names, subscribers = (np.array(rows[each].to_pylist(), object) for each in ("broker", "subscriber"))
    ids = rows["subscription"].to_numpy()
    for broker in sorted(set(names.tolist())):
        mine = np.flatnonzero(names == broker)
        yield broker, SubscriptionBatch.columns(ids[mine], table.take(mine), subscribers[mine].tolist())


class Network:
    """Brokers that know all subscriptions: `route` sends events through them, as often as wanted."""

    def __init__(
        self,
        topology: Topology,
        source: Scenario,
        protocol: str,
        subscriptions: int,
        *,
        tree: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.topology = topology
        self.source = source
        self.ledger = Ledger(topology, FREE, client_delay_s=CLIENT_DELAY_S, keep_hops=True)
        setup = Setup(topology=topology, forest=Forest(**(tree or {})))
        self.instant = Instant(topology, catalog.make_router(protocol, setup, **options), self.ledger.watch)
        for broker, batch in subscription_batches(source, subscriptions):
            self.instant.put(broker, Subscribed(batch))

    def route(self, events: int, first: int = 0) -> Routes:
        batch = EventBatch.from_arrow(self.source.space, self.source.events(events, first), ids=np.arange(events))
        names = self.source.publishers(events, first)
        bytes_before, group_bytes_before = self.ledger.bytes.copy(), self.ledger.group_bytes.copy()
        self.ledger.account(batch)
        entered = np.empty(events, np.int64)
        for broker in sorted(pc.unique(names).to_pylist()):
            rows = np.flatnonzero(pc.equal(names, broker).to_numpy(zero_copy_only=False))
            entered[rows] = self.topology.number(broker)
            self.instant.put(broker, Published(batch.take(rows)))
        bytes, group_bytes = self.ledger.bytes - bytes_before, self.ledger.group_bytes - group_bytes_before
        return _flattened(self.topology, entered, self.ledger.hops, self._reached, bytes, group_bytes)

    def _reached(self, hop: Hop) -> list[tuple[str, Ints, float]]:
        """Who got which events from this hop, and after how long: over a link, or all members of a group."""
        return [
            (name, events, LAN_DELAY_S if name != left_by else self.topology.link(hop.broker, name).delay_s)
            for left_by, events in hop.left_by
            for name in ([left_by] if left_by in self.topology else sorted(self.ledger.members(left_by) - {hop.broker}))
        ]


def route(
    topology: Topology,
    source: Scenario,
    protocol: str,
    *,
    subscriptions: int,
    events: int,
    tree: Mapping[str, Any] | None = None,
    **options: Any,
) -> Routes:
    return Network(topology, source, protocol, subscriptions, tree=tree, **options).route(events)


def _flattened(
    topology: Topology,
    entered: Ints,
    hops: Sequence[Hop],
    reached: Callable[[Hop], list[tuple[str, Ints, float]]],
    bytes: Ints,
    group_bytes: Ints,
) -> Routes:
    brokers = len(topology)
    copies_in, steps, deliveries, copies = (np.zeros((len(entered), brokers), np.int64) for _ in range(4))
    copies_in[np.arange(len(entered)), entered] = 1
    leaves, reaches, delays = [], [], []
    for hop in hops:
        here = topology.number(hop.broker)
        steps[hop.events, here] += hop.steps
        deliveries[hop.events, here] += hop.deliveries
        copies[hop.events, here] += hop.copies
        for name, events, after_s in reached(hop):
            there = topology.number(name)
            copies_in[:, there] += np.bincount(events, minlength=len(entered))
            once = np.unique(events)  # copies for several destinations travel together
            leaves.append(once * brokers + here)
            reaches.append(once * brokers + there)
            delays.append(np.full(len(once), after_s))
    none = [np.empty(0, np.int64)]
    leaving = np.concatenate(leaves or none)
    order = np.argsort(leaving, kind="stable")
    first = np.zeros(len(entered) * brokers + 1, np.int64)
    np.cumsum(np.bincount(leaving, minlength=len(entered) * brokers), out=first[1:])
    to = np.concatenate(reaches or none)[order]
    delay_s = np.concatenate(delays or none)[order].astype(float)
    return Routes(topology, entered, copies_in, steps, deliveries, copies, first, to, delay_s, bytes, group_bytes)


def centralized(source: Scenario, subscriptions: int, events: int, tree: Mapping[str, Any] | None = None) -> tuple[Ints, Ints]:
    """One broker that matches everything: for each event the steps, and the subscriptions that it satisfies."""
    grown = SearchTree(source.space, **(tree or {}))
    grown.add_many(np.arange(subscriptions), parsed(source, subscriptions))
    found = grown.match_batch(EventBatch.from_arrow(source.space, source.events(events)))
    return found.steps, np.diff(found.offsets)
