"""What the main job works on: a made day of market data, or a user's own files.

    market_feed(spark, events=1_000_000, subscriptions=100_000)
    own_feed(spark, Files("space.toml", ["trades/*.parquet"], "desks.csv", topology="star:9", entry="b1"), told="my job")

The made day is what a feed is like: one record in 10,000 is damaged on its way, one subscription in 10,000 has a slip. They
show where such things go, and that they stop nobody.
Rule: everything that a user can get wrong about the input is found here, before any work is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from contentcast.model import ContentcastError, Space
from contentcast.model.errors import nearest
from contentcast.model.events.records import Bad, Read, Reader, as_json
from contentcast.network.named import network, placed
from contentcast.network.named import topology as known_topology
from contentcast.network.topology import Topology
from contentcast.spark.delivery.one_pass import EVENT
from contentcast.spark.ingest import Ingested, Tally, ingest, read_events
from contentcast.spark.subscriptions.tables import GIVEN_ALREADY, ID, REASON, TEXT, FileTable

DAMAGED_EVERY, DAMAGED_FIRST = 10_000, 4_321
"""Of the events and of the subscriptions of the made day: rows 4,321, 14,321, ..."""
SLIPS: Final = (("price", "prise"), ("volume", "volum"), ("symbol =", "symbol"), ("exchange", "exchnage"))
EVENTS_A_TASK: Final = 62_500
PUBLISHER: Final = "publisher"
NEEDED_TO_ROUTE: Final = ("subscriber", "broker")


@dataclass(frozen=True)
class Files:
    """A user's own data. `publisher`: the column with the broker where an event enters; or all enter at the broker `entry`."""

    space: str
    events: Sequence[str]
    subscriptions: str
    format: str | None = None
    topology: str | None = None
    publisher: str | None = None
    entry: str | None = None
    largest_part: bool = False
    delay_attribute: str | None = None
    undirected: bool = False


@dataclass(frozen=True)
class Feed:
    """`publisher` and `topology` are None if there is nothing to route, and `unrouted` says why."""

    title: str
    told: str
    """Which command makes it again."""
    space: Space
    events: Ingested
    subscriptions: pa.Table
    topology: Topology | None
    topology_name: str
    publisher: str | None
    unrouted: str = ""
    tasks: int = 0
    misplaced: pa.Table | None = None
    """Subscriptions at brokers that the topology does not have, with the reason; they take no part."""

    def numbered(self, good: DataFrame) -> DataFrame:
        """The events with a number each, and the broker where they enter."""
        return good if EVENT in good.columns else good.withColumn(EVENT, F.monotonically_increasing_id())


# --- a made day


def market_feed(
    spark: SparkSession, events: int, subscriptions: int, seed: int, name: str = "gryphon-39", scenario: str = "desks"
) -> Feed:
    """`scenario`: `desks`, where people have a taste, or `market`, where everybody wants anything anywhere."""
    topology = network(name)
    brokers = len(topology)
    made = placed(scenario, topology, seed=seed)
    tasks = max(2, -(-events // EVENTS_A_TASK))
    rows = (
        spark.read.format("contentcast")
        .option("scenario", scenario)
        .option("seed", seed)
        .option("brokers", brokers)
        .option("events", events)
        .option(EVENT, "true")
        .option(PUBLISHER, "true")
        .option("partitions", tasks)
        .load()
    )
    # The scenario's b1, b2, ... are the network's brokers in their order, as `placed` puts them.
    at: dict[Any, Any] = {f"b{number + 1}": broker for number, broker in enumerate(topology.brokers)}
    rows = rows.replace(at, subset=[PUBLISHER])
    read = replace(ingest(_damaged(rows), made.space), tally=Tally.on(spark))
    return Feed(
        f"A day of market data on {brokers} brokers",
        f"contentcast run --scenario {scenario} --seed {seed}",
        made.space,
        read,
        _with_slips(pa.Table.from_batches([made.subscriptions(subscriptions)])),
        topology,
        name,
        PUBLISHER,
        tasks=tasks,
    )


def _damaged(rows: DataFrame) -> DataFrame:
    """In turn an exchange that there is not, a price below zero, a price that is no number."""
    number = F.col(EVENT)
    hit, kind = number % DAMAGED_EVERY == DAMAGED_FIRST, (number / DAMAGED_EVERY).cast("long") % 3
    return rows.withColumns(
        {
            "exchange": F.when(hit & (kind == 0), F.concat(F.col("exchange"), F.lit("?"))).otherwise(F.col("exchange")),
            "price": F.when(hit & (kind == 1), -F.col("price"))
            .when(hit & (kind == 2), F.lit(float("nan")))
            .otherwise(F.col("price")),
        }
    )


def _with_slips(table: pa.Table) -> pa.Table:
    texts = table[TEXT].to_pylist()
    for number, row in enumerate(range(DAMAGED_FIRST, len(texts), DAMAGED_EVERY)):
        for right, wrong in (*SLIPS[number % len(SLIPS) :], *SLIPS):
            if right in texts[row]:
                texts[row] = texts[row].replace(right, wrong, 1)
                break
    return table.set_column(table.column_names.index(TEXT), TEXT, pa.array(texts, pa.string()))


# --- a user's own


def own_feed(spark: SparkSession, files: Files, told: str) -> Feed:
    space = Space.load(files.space)
    read = replace(read_events(spark, list(files.events), space, format=files.format), tally=Tally.on(spark))
    columns = read.reader.schema.names
    if EVENT in space:
        raise ContentcastError(
            f"the space {space.name} has an attribute {EVENT}, which is our column with the event's number; rename it"
        )
    if EVENT in columns and not pa.types.is_integer(read.reader.schema.field(EVENT).type):
        raise ContentcastError(f"the events have a column {EVENT} that holds no whole numbers; rename it")
    table = FileTable(_local(files.subscriptions)).read()
    topology = None
    if files.topology:
        topology = known_topology(
            files.topology,
            largest_part=files.largest_part,
            delay_attribute=files.delay_attribute,
            undirected=files.undirected,
        )
    publisher, why = _publisher(files, columns, table, topology)
    misplaced = None
    if topology is not None and publisher is not None:
        table, misplaced = _placed(table, topology)
    if files.entry is not None and topology is not None and publisher is not None:
        topology.number(files.entry)  # or it says that there is no such broker
        read = replace(read, reader=_Entering(read.reader, files.entry))
    elif topology is not None and publisher is not None:
        read = replace(read, reader=_Published(read.reader, publisher, topology.brokers))
    title = f"{space.name}: {', '.join(files.events)}"
    routed = topology if publisher else None
    return Feed(title, told, space, read, table, routed, files.topology or "", publisher, why, misplaced=misplaced)


def _local(path: str) -> Path:
    if "://" in path:
        raise ContentcastError(f"{path}: subscriptions come from a file that this machine sees; copy them here first")
    return Path(path)


def _publisher(files: Files, columns: list[str], table: pa.Table, topology: Topology | None) -> tuple[str | None, str]:
    """The column with the broker where events enter; or None, and why nothing is routed."""
    if files.publisher is not None and files.entry is not None:
        raise ContentcastError("publisher names a column and entry one broker for all events; say one of them")
    if files.publisher is not None and files.publisher not in columns:
        raise ContentcastError(f"publisher: the events have no column {files.publisher!r}{nearest(files.publisher, columns)}")
    if topology is None:
        return None, "no topology is told: topology = 'star:9', or the path of a .graphml, .json or .edges file"
    missing = [name for name in NEEDED_TO_ROUTE if name not in table.column_names]
    if missing:
        return None, f"the subscriptions have no column {missing[0]!r}, so nobody knows where they are"
    if files.entry is not None:
        if PUBLISHER in columns:
            raise ContentcastError(
                f"the events have a column {PUBLISHER}: say publisher = '{PUBLISHER}', or leave it out of them"
            )
        return PUBLISHER, ""
    found = files.publisher or (PUBLISHER if PUBLISHER in columns else None)
    return found, "" if found else "the events do not say where they enter: publisher = 'COLUMN', or entry = 'BROKER' for all"


def _placed(table: pa.Table, topology: Topology) -> tuple[pa.Table, pa.Table]:
    """The subscriptions at brokers of the topology, and the others with the reason; all of them cannot be at others."""
    brokers = table["broker"].cast(pa.string())
    known = pc.is_in(brokers, value_set=pa.array(topology.brokers, pa.string()))
    wrong = table.filter(pc.invert(known))
    reasons = [_no_broker(each, topology.brokers) for each in wrong["broker"].to_pylist()]
    if len(wrong) and len(wrong) == len(table):
        raise ContentcastError(f"no subscription is at a broker of the topology; the first: {reasons[0]}")
    return table.filter(known), wrong.append_column(REASON, pa.array(reasons, pa.string()))


def _no_broker(name: Any, brokers: Sequence[str]) -> str:
    return f"the topology has no broker {name!r}{nearest(str(name), brokers)}"


@dataclass(frozen=True)
class _Published:
    """A reader that sets aside what enters at a broker that the topology does not have."""

    reader: Reader
    publisher: str
    brokers: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema

    def read(self, batch: pa.RecordBatch) -> Iterator[Read]:
        for events, bad, left_out in self.reader.read(batch):
            entered = events.column(self.publisher)
            known = pc.is_in(entered.cast(pa.string()), value_set=pa.array(self.brokers, pa.string()))
            wrong = np.flatnonzero(~known.to_numpy(zero_copy_only=False)).tolist()
            more = [
                Bad(_no_broker(entered[row].as_py(), self.brokers), self.publisher, as_json(events, row), None) for row in wrong
            ]
            yield Read(events.filter(known) if wrong else events, [*bad, *more], left_out)


@dataclass(frozen=True)
class _Entering:
    """A reader whose events all enter at one broker."""

    reader: Reader
    entry: str

    @property
    def schema(self) -> pa.Schema:
        return self.reader.schema.append(pa.field(PUBLISHER, pa.string()))

    def read(self, batch: pa.RecordBatch) -> Iterator[Read]:
        for events, bad, left_out in self.reader.read(batch):
            column = pa.array(np.full(events.num_rows, self.entry, object), pa.string())
            named = pa.RecordBatch.from_arrays([*events.columns, column], names=[*events.schema.names, PUBLISHER])
            yield Read(named, bad, left_out)


def kept_subscriptions(table: pa.Table, refused: pa.Table) -> pa.Table:
    """Those that take part, with the columns that routing wants."""
    unread = refused.filter(pc.invert(pc.ends_with(refused[REASON], GIVEN_ALREADY)))
    ids = table[ID].combine_chunks()
    first = np.zeros(len(table), np.bool_)
    first[np.unique(ids.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False), return_index=True)[1]] = True
    out = pc.or_(pc.is_in(ids, value_set=unread[ID].combine_chunks().cast(ids.type)), pc.is_null(ids))
    return table.filter(pc.and_(pc.invert(out), pa.array(first)))
