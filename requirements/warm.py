"""Calls every kernel once, so that Numba compiles and caches it when the project is set up and not when a user waits.

A small market is matched by the index, event by event and in batches, and routed by every protocol: that is every kernel.
"""

import contentcast as cc
from contentcast import catalog
from contentcast.language import parse_many
from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.routing.audience import Forest
from contentcast.routing.contract import Published, Subscribed
from contentcast.routing.instant import Instant
from contentcast.routing.networks import network, placed
from contentcast.routing.setup import Setup

topology = network("gryphon-39")
market = placed("market", topology)
wanted, records = market.subscriptions(500), market.events(50)

index = cc.MatchIndex(market.space)
index.add_many(wanted["subscription"], wanted["predicate"])
index.match_batch(records)
index.match(records.slice(0, 1).to_pylist()[0])

predicates = parse_many(market.space, wanted["predicate"])
events = EventBatch.from_arrow(market.space, records)
for name in catalog.PROTOCOLS:
    setup = Setup(topology=topology, forest=Forest())
    brokers = Instant(topology, lambda broker, name=name, setup=setup: catalog.router(name, broker, setup))
    subscriptions = SubscriptionBatch.columns(wanted["subscription"].to_numpy(), predicates, wanted["subscriber"].to_pylist())
    brokers.put(topology.brokers[0], Subscribed(subscriptions))
    for batch in (events, events.take([0])):
        brokers.put(topology.brokers[1], Published(batch))
