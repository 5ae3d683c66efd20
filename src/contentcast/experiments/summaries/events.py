"""Events of the scenario `summaries` through real routers: for each event its messages, its links, who handles it and when.

    counted = send(topology, source, "summaries", subscriptions=2400, events=24000)
    counted.messages[event]      counted.links[event]      counted.handled[event, broker]      counted.last_s[event]

The routers stand in a network without time (`hosting.instant`); a ledger writes down every hop, with the delay of the links and
nothing for work. Events are published when all subscriptions have been told on.
Rule: a message that carries an event counts once for each event, however far it goes. Acknowledgements carry no event
and are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from contentcast import catalog
from contentcast.experiments.routes import subscription_batches
from contentcast.hosting.costs import FREE
from contentcast.hosting.instant import Instant
from contentcast.hosting.ledger import Ledger
from contentcast.model import EventBatch
from contentcast.network.topology import Topology
from contentcast.routing.contract import Published, Subscribed
from contentcast.routing.setup import Setup
from contentcast.workload import Scenario

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SUBSCRIPTIONS_EACH: Final = 40
"""Subscriptions of every broker when events are counted; the 20 interests of the scenario are among them."""


@dataclass(frozen=True)
class Counted:
    """Of every event; `last_s` is the time from publishing to the last broker that hands it to a client, nan if none does."""

    entered: Ints
    messages: Ints
    links: Ints
    handled: Ints
    wanted: npt.NDArray[np.bool_]
    last_s: Floats


def send(topology: Topology, source: Scenario, protocol: str, *, subscriptions: int, events: int, **options: Any) -> Counted:
    ledger = Ledger(topology, FREE, client_delay_s=0.0, keep_hops=True)
    instant = Instant(topology, catalog.make_router(protocol, Setup(topology=topology, count_steps=False), **options))
    instant.put_many([(broker, Subscribed(batch)) for broker, batch in subscription_batches(source, subscriptions)])
    batch = EventBatch.from_arrow(source.space, source.events(events), ids=np.arange(events))
    names = source.publishers(events)
    instant.watch = ledger.watch
    ledger.account(batch)
    entered = np.empty(events, np.int64)
    for broker in sorted(pc.unique(names).to_pylist()):
        rows = np.flatnonzero(pc.equal(names, broker).to_numpy(zero_copy_only=False))
        entered[rows] = topology.number(broker)
        instant.put(broker, Published(batch.take(rows)))
    return _counted(topology, entered, ledger)


def _counted(topology: Topology, entered: Ints, ledger: Ledger) -> Counted:
    events = len(entered)
    messages, links = np.zeros(events, np.int64), np.zeros(events, np.int64)
    handled = np.zeros((events, len(topology)), np.int64)
    wanted = np.zeros((events, len(topology)), bool)
    last_s = np.full(events, np.nan)
    for hop in ledger.hops:
        here = topology.number(hop.broker)
        handled[hop.events, here] += 1
        messages[hop.events] += hop.copies
        for other, sent in hop.left_by:
            links[sent] += len(topology.path(hop.broker, other)) - 1
        gives = hop.deliveries > 0
        served = hop.events[gives]
        wanted[served, here] = True
        last_s[served] = np.fmax(last_s[served], hop.arrived_s[gives])
    return Counted(entered, messages, links, handled, wanted, last_s)
