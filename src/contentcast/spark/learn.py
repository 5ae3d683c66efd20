"""Learning from history: what events carry, what subscriptions ask, who wants whose events; and the plan that follows.

    learnt = learn(events, subscriptions, space)
    learnt.plan.save("plan.json")                        # SearchTree(space, **LearntPlan.load("plan.json").tree_options())
    learnt.rates                                         # subscription, matches, rate
    learnt.refused                                       # subscription, predicate, reason

Two passes over the events, both `mapInArrow` sums joined on the cluster (`sums`): the first counts values and draws a sample,
by which the driver chooses the search tree's order and factoring (`matching.search_tree.choose`); the second matches all events
and counts who wanted them.
Rule: only sums and the sample come to the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructType

from contentcast.language import parse_many
from contentcast.matching.learnt import AttributeFacts, FanOut, Flow, LearntPlan, Split, ValueShare
from contentcast.matching.search_tree.choose import Choice, Tested, choose, weigh
from contentcast.model import ContentcastError, EventBatch, Space
from contentcast.model.errors import nearest
from contentcast.model.values.keys import KEYED
from contentcast.spark.arrow_map import map_arrow
from contentcast.spark.ingest import Ingested, ingest
from contentcast.spark.subscriptions.indexes import Prepared, prepare
from contentcast.spark.subscriptions.tables import SubscriptionTable, check_table, read_table
from contentcast.spark.sums import FAN_OUT_BOUNDS, EventSums, MatchSums, ValueCounts, value_codes

SAMPLE_ROWS: Final = 2_000
VALUES_KEPT: Final = 100
SPLIT_VALUES: Final = 256
QUANTILES: Final = 21
RATES: Final = ("subscription", "matches", "rate")

Sums = TypeVar("Sums", EventSums, MatchSums)


class Learnt(NamedTuple):
    """The plan; of each subscription how many events it matched and which share of them; and those that could not be read."""

    plan: LearntPlan
    rates: pa.Table
    refused: pa.Table


def learn(
    events: DataFrame | Ingested,
    subscriptions: SubscriptionTable,
    space: Space,
    *,
    publisher: str | None = None,
    nbytes_at_most: int | None = None,
    seed: int = 0,
) -> Learnt:
    """Takes events and subscriptions as `match` does.

    `publisher`: the column with the broker that published the event (`publisher`, if there is one). With a column `broker` in
    the subscriptions it is learnt who wants what where. `nbytes_at_most`: of a factored search tree. `seed`: of the sample.
    """
    read = replace(events, tally=None) if isinstance(events, Ingested) else ingest(events, space, on_error="raise")
    publisher = _publisher(read, space, publisher)
    none_seen = EventSums(space, SAMPLE_ROWS, seed)
    seen = _summed(read, lambda batches: _count_values(batches, space, seed)) or none_seen
    sample = EventBatch.from_arrow(space, seen.sample)

    checked = check_table(read_table(subscriptions))
    asked = parse_many(space, checked.texts, on_error="reject")
    rows = np.setdiff1d(np.arange(len(asked)), np.array(sorted(asked.refused), np.int64))
    table, columns = asked.take(rows), checked.columns.take(pa.array(rows))
    facts = weigh(table, sample)
    chosen = choose(table, sample, nbytes_at_most=nbytes_at_most)
    first = _split_attribute(chosen, facts, seen.values)
    values = [value for value, _ in seen.values[first].most_frequent(SPLIT_VALUES)] if first else []

    texts = pa.table({"subscription": np.arange(len(rows)), "predicate": checked.texts.take(pa.array(rows))})
    prepared = prepare(texts, space)
    prepared.ship(read.raw.sparkSession, prepared.version)
    brokers, broker_of = _brokers(columns)

    def match(batches: Iterator[pa.RecordBatch]) -> MatchSums:
        return _count_matches(batches, prepared, broker_of, len(brokers), publisher, first, values)

    found = _summed(read, match) or MatchSums(len(table), len(brokers), values)
    plan = _plan(space, len(rows), seen, facts, chosen, found, brokers, first, values)
    return Learnt(plan, _rates(columns["subscription"], found), checked.refuse(dict(asked.refused)))


def _publisher(read: Ingested, space: Space, told: str | None) -> str | None:
    if read.raw.isStreaming:
        raise ContentcastError(
            "learn looks at events twice, so they come as a table; let the stream write one and learn from it"
        )
    if read.space != space:
        raise ContentcastError(f"events of {read.space.name} do not fit the space {space.name}")
    columns = read.reader.schema.names
    if told is not None and told not in columns:
        raise ContentcastError(f"the events have no column {told!r}{nearest(told, columns)}")
    return told or ("publisher" if "publisher" in columns and "publisher" not in space else None)


# --- on the cluster


def _summed(read: Ingested, count: Callable[[Iterator[pa.RecordBatch]], Sums]) -> Sums | None:
    """One sum for each task, joined in a tree of tasks; None if there is no task."""
    events_of = read.events_of()

    def summing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sums = count(events for batch in batches for events in events_of(batch))
        yield pa.record_batch({"sums": pa.array([pickle.dumps(sums)], pa.binary())})

    def joined(one: bytes, other: bytes) -> bytes:
        sums: Any = pickle.loads(one)
        return pickle.dumps(sums.join(pickle.loads(other)))

    parts = map_arrow(read.raw, summing, StructType().add("sums", BinaryType())).rdd.map(lambda row: bytes(row["sums"]))
    if not parts.getNumPartitions():
        return None
    sums: Sums = pickle.loads(parts.treeReduce(joined))
    return sums


def _count_values(batches: Iterator[pa.RecordBatch], space: Space, seed: int) -> EventSums:
    task = TaskContext.get()
    sums = EventSums(space, SAMPLE_ROWS, seed + (1_000_003 * task.partitionId() if task else 0))
    for batch in batches:
        sums.add(EventBatch.from_arrow(space, batch, unknown="ignore"))
    return sums


def _count_matches(
    batches: Iterator[pa.RecordBatch],
    prepared: Prepared,
    broker_of: npt.NDArray[np.int64] | None,
    brokers: int,
    publisher: str | None,
    first: str | None,
    values: Sequence[Any],
) -> MatchSums:
    mapped = prepared.open()
    sums = MatchSums(prepared.count, brokers, values)
    for batch in batches:
        events = EventBatch.from_arrow(prepared.space, batch, unknown="ignore")
        codes = np.zeros(len(events), np.int64)
        if first is not None:
            codes = value_codes(events.records.column(first), values)
        publishers = batch.column(publisher).cast(pa.string()) if publisher is not None else None
        sums.add(len(events), mapped.found_at_once(events.records), broker_of, codes, publishers)
    return sums


# --- on the driver


def _brokers(columns: pa.Table) -> tuple[list[str], npt.NDArray[np.int64] | None]:
    """The brokers' names, and the number of each subscription's; nothing if the table does not say."""
    if "broker" not in columns.column_names or columns["broker"].null_count:
        return [], None
    encoded = pa.concat_arrays([pa.array([], pa.string()), *columns["broker"].cast(pa.string()).chunks]).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _split_attribute(chosen: Choice, facts: dict[str, Tested], values: dict[str, ValueCounts]) -> str | None:
    """The first attribute that a search looks at and whose values come again, so that counting by them says something."""
    for name in (*chosen.factored, *chosen.order):
        if facts[name].tests and values[name].complete and values[name].counts:
            return name
    return None


def _plan(
    space: Space,
    subscriptions: int,
    seen: EventSums,
    facts: dict[str, Tested],
    chosen: Choice,
    found: MatchSums,
    brokers: Sequence[str],
    first: str | None,
    values: Sequence[Any],
) -> LearntPlan:
    events = max(found.events, 1)
    split = None
    if first is not None and brokers:
        shares = found.by_value / np.maximum(found.of_value, 1)[:, None]
        split = Split(first, list(values), {broker: shares[:, at].tolist() for at, broker in enumerate(brokers)})
    return LearntPlan(
        space=space.to_dict(),
        events=seen.events,
        subscriptions=subscriptions,
        attributes={name: _facts(space, name, seen, facts[name]) for name in space.names},
        order=list(chosen.order),
        factored=list(chosen.factored),
        steps=chosen.steps,
        steps_before=chosen.steps_before,
        matches=float(found.matched.sum() / events),
        unwanted=float(found.fan_out[0] / events),
        idle=int(np.count_nonzero(found.matched == 0)),
        fan_out=[
            FanOut(bound, count / events) for bound, count in zip(FAN_OUT_BOUNDS, found.fan_out.tolist(), strict=False) if count
        ],
        wanted={broker: int(found.wanted[at]) / events for at, broker in enumerate(brokers)},
        by_value=split,
        flows=[
            Flow(publisher, broker, int(counts[at]) / max(found.of_publisher[publisher], 1))
            for publisher, counts in sorted(found.by_publisher.items())
            for at, broker in enumerate(brokers)
        ],
    )


def _facts(space: Space, name: str, seen: EventSums, asked: Tested) -> AttributeFacts:
    counted, events = seen.values[name], max(seen.events, 1)
    frequent = [(value, count) for value, count in counted.most_frequent(VALUES_KEPT) if _has_json(value)]
    return AttributeFacts(
        stars=asked.stars,
        tests=asked.tests,
        selectivity=asked.selectivity,
        survivors=asked.survivors,
        present=counted.present / events,
        distinct=len(counted.counts) if counted.complete else None,
        values=[ValueShare(value, count / events) for value, count in frequent],
        quantiles=_quantiles(space, name, seen.sample.column(name)),
    )


def _has_json(value: Any) -> bool:
    return not isinstance(value, float) or bool(np.isfinite(value))


def _quantiles(space: Space, name: str, column: pa.Array) -> list[Any]:
    """Of kinds that are ordered by number; of a few values they would say nothing that the values do not."""
    if space.kinds[name].name not in KEYED or space.kinds[name].name == "bool":
        return []
    values = sorted(value for value in column.drop_null().to_pylist() if _has_json(value))
    return [values[at] for at in np.linspace(0, len(values) - 1, QUANTILES).round().astype(int)] if values else []


def _rates(ids: pa.ChunkedArray, found: MatchSums) -> pa.Table:
    rate = found.matched / max(found.events, 1)
    return pa.table([ids, pa.array(found.matched), pa.array(rate)], names=RATES).sort_by("subscription")
