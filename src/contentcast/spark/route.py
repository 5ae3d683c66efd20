"""The step `route`: which links each event crosses under a protocol, what each broker does with it, and what it all comes to.

The routers are the real ones, one for each broker of the topology, in every worker: a chunk of events enters at its publishing
brokers and runs through the network by columns (`hosting.instant`, `hosting.ledger`). Time is that of the cost model without
queues. The fastest engine matches, which counts no steps; `count_steps=True` matches with the papers' search trees instead,
shows their steps and lets the cost model charge for them.

    route(events, ...)          one row for each event at each broker that it reaches
    route_totals(events, ...)   the sums of all protocols side by side: links, brokers, latencies

Rule: a chunk of events is decoded once, whatever the number of protocols.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from contentcast import catalog
from contentcast.files.one_array import one_array
from contentcast.hosting.costs import Costs
from contentcast.hosting.instant import Instant
from contentcast.hosting.ledger import Ledger
from contentcast.language import parse_many
from contentcast.matching.learnt import LearntPlan
from contentcast.model import EventBatch, Space, SubscriptionBatch
from contentcast.model.errors import ContentcastError, nearest
from contentcast.network.topology import Topology
from contentcast.routing.audience import Forest
from contentcast.routing.contract import Published, Subscribed
from contentcast.routing.setup import Setup
from contentcast.spark.arrow_map import map_arrow
from contentcast.spark.route_facts import FACTS, Totals, fact_rows, gathered
from contentcast.spark.subscriptions.tables import spark_schema

ROUTED_TOGETHER: Final = 65_536
"""Events that run through the network at once: every broker handles them in one piece, whatever Spark's batches are."""
NEEDED: Final = ("subscription", "predicate", "subscriber", "broker")

HOPS: Final = pa.schema(
    [
        ("protocol", pa.string()),
        ("event", pa.int64()),
        ("broker", pa.string()),
        ("arrived_s", pa.float64()),
        ("steps", pa.int64()),
        ("deliveries", pa.int64()),
        ("copies", pa.int64()),
        ("links", pa.list_(pa.string())),
    ]
)
Batches = Iterator[pa.RecordBatch]


def route(
    events: DataFrame,
    subscriptions: DataFrame | pa.Table,
    space: Space,
    topology: Topology,
    protocol: str = "link-matching",
    *,
    event: str = "event",
    publisher: str = "publisher",
    costs: Costs | None = None,
    plan: LearntPlan | None = None,
    count_steps: bool = False,
    **options: Any,
) -> DataFrame:
    """One row for each event at each broker that it reaches: steps, deliveries, and the links by which it went on.

    `event`: the column with the event's id, a 64-bit int. `publisher`: the column with the broker at which it enters. `plan`:
    what `learn` found, for the search trees. `count_steps`: match with search trees and tell their steps; else `steps` is null.
    `options` are those of the protocol's router.
    """
    catalog.protocol(protocol)
    _check_columns(events, (event, publisher), "events")
    work = Work.of(events, subscriptions, space, topology, {protocol: options}, event, publisher, costs, plan, count_steps)

    def hops(batches: Batches) -> Batches:
        for chunk in work.chunks(batches):
            for name, ledger, _ in work.routed(chunk, keep_hops=True):
                yield from _hop_rows(name, ledger, chunk, count_steps)

    return map_arrow(events, hops, spark_schema(HOPS))


def route_totals(
    events: DataFrame,
    subscriptions: DataFrame | pa.Table,
    space: Space,
    topology: Topology,
    protocols: Sequence[str] | Mapping[str, Mapping[str, Any]] | None = None,
    *,
    publisher: str = "publisher",
    costs: Costs | None = None,
    plan: LearntPlan | None = None,
    count_steps: bool = False,
) -> dict[str, Totals]:
    """Runs the job, and gives what each protocol (all of the catalog, unless told) comes to."""
    given = list(catalog.PROTOCOLS) if protocols is None else protocols
    options = {name: dict(given[name]) if isinstance(given, Mapping) else {} for name in given}
    for name in options:
        catalog.protocol(name)
    _check_columns(events, (publisher,), "events")
    work = Work.of(events, subscriptions, space, topology, options, None, publisher, costs, plan, count_steps)

    def facts(batches: Batches) -> Batches:
        for chunk in work.chunks(batches):
            for name, ledger, cpu_s in work.routed(chunk):
                yield fact_rows(name, ledger, work.state(name), cpu_s)

    rows = (
        map_arrow(events, facts, spark_schema(FACTS))
        .groupBy("protocol", "fact", "one", "other")
        .agg(F.sum("value").alias("value"))
    )
    return gathered(rows.toArrow(), topology, options, count_steps)


# --- on a worker


@dataclass(frozen=True)
class Chunk:
    events: EventBatch
    ids: pa.Array | None
    publishers: pa.DictionaryArray


@dataclass(frozen=True)
class Work:
    """What a worker needs to route; small but for the subscriptions, which are broadcast."""

    space: Space
    topology: Topology
    options: Mapping[str, Mapping[str, Any]]
    event: str | None
    publisher: str
    costs: Costs
    subscriptions: Broadcast[bytes]
    tree_options: Mapping[str, Any]
    wanted: Mapping[str, float]
    count_steps: bool
    key: str

    @classmethod
    def of(
        cls,
        events: DataFrame,
        subscriptions: DataFrame | pa.Table,
        space: Space,
        topology: Topology,
        options: Mapping[str, Mapping[str, Any]],
        event: str | None,
        publisher: str,
        costs: Costs | None,
        learnt: LearntPlan | None,
        count_steps: bool,
    ) -> Work:
        table = subscriptions if isinstance(subscriptions, pa.Table) else None
        if table is None:
            _check_columns(subscriptions, NEEDED, "subscriptions")
            table = subscriptions.select(*NEEDED).toArrow()
        unknown = sorted(set(pc.unique(table["broker"]).to_pylist()) - set(topology.brokers), key=str)
        if unknown:
            near = nearest(str(unknown[0]), topology.brokers)
            raise ContentcastError(f"the topology has no broker {unknown[0]!r}, at which there are subscriptions{near}")
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.select(NEEDED))
        shared = events.sparkSession.sparkContext.broadcast(sink.getvalue().to_pybytes())
        trees = learnt.tree_options() if learnt is not None else {}
        wanted = learnt.wanted if learnt is not None else {}
        costs = costs or Costs()
        return cls(space, topology, options, event, publisher, costs, shared, trees, wanted, count_steps, uuid4().hex)

    def chunks(self, batches: Batches) -> Iterator[Chunk]:
        """Batches put together, with the ids 0, 1, ... that the ledger wants; a bad event stops the job: ingest first."""
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= ROUTED_TOGETHER:
                yield self._chunk(waiting)
                waiting, rows = [], 0
        if rows:
            yield self._chunk(waiting)

    def _chunk(self, batches: list[pa.RecordBatch]) -> Chunk:
        table = pa.Table.from_batches(batches).combine_chunks()
        events = EventBatch.from_arrow(self.space, table, unknown="ignore")
        ids = None if self.event is None else one_array(table[self.event])
        publishers = one_array(table[self.publisher])
        encoded = publishers if pa.types.is_dictionary(publishers.type) else publishers.dictionary_encode()
        unknown = sorted(set(encoded.dictionary.to_pylist()) - set(self.topology.brokers), key=str)
        if unknown or encoded.null_count:
            missing = unknown[0] if unknown else None
            raise ContentcastError(f"an event is published at {missing!r}, which is no broker of the topology")
        return Chunk(events, ids, encoded)

    def routed(self, chunk: Chunk, *, keep_hops: bool = False) -> Iterator[tuple[str, Ledger, float]]:
        """Runs the events through the network of each protocol; the ledger, and the CPU seconds that it took."""
        indices = chunk.publishers.indices.to_numpy()
        parts = [
            (name, chunk.events.take(np.flatnonzero(indices == at)))
            for at, name in enumerate(chunk.publishers.dictionary.to_pylist())
        ]
        for name in self.options:
            network = self._network(name)
            ledger = Ledger(self.topology, self.costs, keep_hops=keep_hops)
            ledger.account(chunk.events)
            ledger.know_groups(network.groups())
            network.watch = ledger.watch
            begun = thread_time()
            for broker, events in parts:
                if len(events):
                    network.put(broker, Published(events))
            yield name, ledger, thread_time() - begun

    def state(self, name: str) -> list[float]:
        """Bytes that each broker holds."""
        routers = self._network(name).routers
        sizes = (routers[broker].sizes() for broker in self.topology.brokers)
        return [float(sum(count for what, count in each.items() if what.endswith("bytes"))) for each in sizes]

    def _network(self, name: str) -> Instant:
        """The routers of a protocol with everybody subscribed, kept for the next chunk and the next task of this process."""
        known = (self.key, name)
        if known not in _NETWORKS:
            if not any(key == self.key for key, _ in _NETWORKS):
                _NETWORKS.clear()  # of another job
                _FORESTS.clear()
            forest = _FORESTS.setdefault(self.key, Forest(**self.tree_options))
            options = self.options[name]
            setup = Setup(topology=self.topology, forest=forest, wanted=self.wanted, count_steps=self.count_steps)
            network = Instant(self.topology, catalog.make_router(name, setup, **options))
            network.put_many((broker, Subscribed(batch)) for broker, batch in _subscriptions(self))
            _NETWORKS[known] = network
        return _NETWORKS[known]


_NETWORKS: Final[dict[tuple[str, str], Instant]] = {}
_FORESTS: Final[dict[str, Forest]] = {}
_PARSED: Final[dict[str, list[tuple[str, SubscriptionBatch]]]] = {}


def _subscriptions(work: Work) -> list[tuple[str, SubscriptionBatch]]:
    """By broker; predicates that cannot be read take no part, as in `match`."""
    if work.key not in _PARSED:
        _PARSED.clear()
        table = pa.ipc.open_stream(work.subscriptions.value).read_all().combine_chunks()
        predicates = parse_many(work.space, one_array(table["predicate"]), on_error="reject")
        brokers = one_array(table["broker"]).dictionary_encode()
        readable = np.ones(table.num_rows, bool)
        readable[list(predicates.refused)] = False
        # Routers number subscriptions. Rows count them where the ids are texts: nothing that leaves here names one.
        by_row = not pa.types.is_integer(table["subscription"].type)
        ids = np.arange(table.num_rows) if by_row else table["subscription"].to_numpy()
        names = np.array(table["subscriber"].to_pylist(), object)
        found = []
        for at, broker in enumerate(brokers.dictionary.to_pylist()):
            rows = np.flatnonzero((brokers.indices.to_numpy(zero_copy_only=False) == at) & readable)
            if len(rows):
                found.append((broker, SubscriptionBatch.columns(ids[rows], predicates.take(rows), names[rows].tolist())))
        _PARSED[work.key] = found
    return _PARSED[work.key]


def _hop_rows(name: str, ledger: Ledger, chunk: Chunk, count_steps: bool) -> Batches:
    for hop in ledger.hops:
        place = np.concatenate([np.searchsorted(hop.events, np.unique(events)) for _, events in hop.left_by] or [_NOTHING])
        which = np.repeat(np.arange(len(hop.left_by)), [len(np.unique(events)) for _, events in hop.left_by])
        order = np.argsort(place, kind="stable")
        links = pa.array([link for link, _ in hop.left_by], pa.string()).take(pa.array(which[order]))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(hop.events)))]).astype(np.int32)
        ids = pa.array(hop.events) if chunk.ids is None else chunk.ids.take(pa.array(hop.events)).cast(pa.int64())
        count = len(hop.events)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([name] * count, pa.string()),
                ids,
                pa.array([hop.broker] * count, pa.string()),
                pa.array(hop.arrived_s),
                pa.array(hop.steps) if count_steps else pa.nulls(count, pa.int64()),
                pa.array(hop.deliveries),
                pa.array(hop.copies),
                pa.ListArray.from_arrays(pa.array(offsets), links),
            ],
            schema=HOPS,
        )


_NOTHING: Final = np.empty(0, np.int64)


def _check_columns(frame: DataFrame, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in frame.columns:
            raise ContentcastError(f"{what} have no column {name!r}{nearest(name, frame.columns, 'they have')}")
