"""Calls every kernel once, so that Numba compiles and caches it when the project is set up and not when a user waits.

A small market is matched by the index, event by event and in batches, with subscriptions that come and go, from a file, and
summarized, and routed by every protocol: that is every kernel.
"""

import tempfile
from pathlib import Path

import pyarrow as pa

import contentcast as cc
from contentcast import catalog
from contentcast.hosting.instant import Instant
from contentcast.language import parse_many
from contentcast.matching.index.loading import load_changing_kernels
from contentcast.matching.summaries import Precision, Summary
from contentcast.model import EventBatch, SubscriptionBatch
from contentcast.network.named import network, placed
from contentcast.routing.audience import Forest
from contentcast.routing.contract import Published, Subscribed
from contentcast.routing.setup import Setup

topology = network("gryphon-39")
market = placed("market", topology)
wanted, records = market.subscriptions(500), market.events(50)


def use(index: cc.MatchIndex, records: pa.RecordBatch) -> None:
    index.match_batch(records)
    index.match_batch(records, threads=2)
    index.match(records.slice(0, 1).to_pylist()[0])
    some = list(index)[:3]
    index.remove_many(some)


load_changing_kernels()
index = cc.MatchIndex(market.space)
index.add_many(wanted["subscription"], wanted["predicate"])
use(index, records)
index.add(0, "venue LIKE '%dark%' AND price = 8.5")
use(index, records)

small = cc.MatchIndex(cc.Space("small", a="int", b="int", price="float"))
small.add_many(range(300), [f"a = {number % 3} AND b = {number % 4}" for number in range(300)])
for number in range(40):  # each halves the same gap between order codes, until all are given anew
    small.add(300 + number, f"price < {2.0**-number!r}")
with tempfile.TemporaryDirectory() as folder:
    small.save(Path(folder) / "index")
    for each in (small, cc.MatchIndex.load(Path(folder) / "index")):
        use(each, pa.record_batch({"a": [1, 2], "b": [1, 0], "price": [0.5, None]}))

predicates = parse_many(market.space, wanted["predicate"])
events = EventBatch.from_arrow(market.space, records)
summary = Summary(market.space, precision=Precision(rows=4), subsumption=True)
summary.add("a", wanted["subscription"].to_numpy(), predicates)
for batch in (events, events.take([0])):
    summary.match(batch)
for name in catalog.PROTOCOLS:
    setup = Setup(topology=topology, forest=Forest())
    brokers = Instant(topology, catalog.make_router(name, setup))
    subscriptions = SubscriptionBatch.columns(wanted["subscription"].to_numpy(), predicates, wanted["subscriber"].to_pylist())
    brokers.put(topology.brokers[0], Subscribed(subscriptions))
    for batch in (events, events.take([0])):
        brokers.put(topology.brokers[1], Published(batch))
