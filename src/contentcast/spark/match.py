"""The step `match`: a DataFrame of events and a table of subscriptions become a DataFrame of pairs, in batch and in streams.

    symbol  price  order        subscription  subscriber  broker
    IBM     119.5  1001    and  7             desk-7      b1          -> one row with all of these columns

Each worker maps the index (`indexes`), matches Arrow batches as they come, and gathers both sides' columns by `take`: nothing
is done row by row in Python. Many subscriptions are split into shards (`shards`) and events are shuffled to them.
Rule: what a batch of events yields leaves in pieces of about ROWS_OUT rows, however much it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Unpack

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType, StringType, StructType, TimestampType

from contentcast.model.errors import ContentcastError, nearest
from contentcast.model.events.intake import How
from contentcast.model.space import Space
from contentcast.spark.arrow_map import map_arrow
from contentcast.spark.ingest import Ingested, ingest
from contentcast.spark.subscriptions.following import follow
from contentcast.spark.subscriptions.indexes import Prepared, Subscriptions, prepare
from contentcast.spark.subscriptions.mapped import Mapped
from contentcast.spark.subscriptions.shards import ONE, key_values, visits
from contentcast.spark.subscriptions.tables import ID, TEXT, has_clash, spark_schema

ROWS_OUT: Final = 65_536
PAIRS_IN_LISTS: Final = 1 << 18
"""How many ids one piece holds when each event has a list of them: 2 MB, which stay in the caches on their way to Java."""
LIST: Final = "subscriptions"
SHARD: Final = "contentcast shard"
HASHED: Final = (NumericType, StringType, BooleanType, TimestampType)

Batches = Iterator[pa.RecordBatch]


def match(
    events: DataFrame | Ingested,
    subscriptions: Subscriptions,
    space: Space,
    *,
    columns: Sequence[str] | None = None,
    lists: bool = False,
    shards: int | None = None,
    shard_key: str | None = None,
    folder: str | Path | None = None,
    id: str = ID,
    predicate: str = TEXT,
    **how: Unpack[How],
) -> DataFrame:
    """Every event with every subscription that it satisfies.

    `events`: a DataFrame, or what `ingest` and `read_events` give; a bad record stops a plain DataFrame's job and is left to
    the quarantine of the others. `subscriptions`: a table with the columns subscription (int or text) and predicate (text), or
    those that `id` and `predicate` name, and any others, as a DataFrame or a path; what `prepare` made of one; or a
    `MatchIndex`. A path is read again when its files change, in a stream, and holds from the next micro-batch on. Predicates
    that cannot be read take no part: see `refused`.

    The result has all columns of both but the predicates; `columns` picks some, which saves carrying the others. With `lists`
    each event that somebody wants comes once, with the array `subscriptions` of the ids. `shards`, `shard_key` and `folder`
    are those of `prepare`; `how` says how events are taken, as in `ingest`, but that a bad one raises.
    """
    if how and isinstance(events, Ingested):
        raise ContentcastError(f"how events are taken is said where they are ingested; give {', '.join(how)} there")
    read = events if isinstance(events, Ingested) else ingest(events, space, **How({"on_error": "raise", **how}))
    if read.space != space:
        raise ContentcastError(f"events of {read.space.name} do not fit the space {space.name}")
    spark = read.raw.sparkSession
    prepared = prepare(subscriptions, space, shards=shards, shard_key=shard_key, folder=folder, id=id, predicate=predicate)
    prepared.ship(spark, prepared.version)
    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    mine, theirs = _chosen(read.reader.schema, prepared.added, columns, lists, case_sensitive)
    join = _lists(mine) if lists else _pairs(mine, [each.name for each in theirs])
    schema = spark_schema(pa.schema([*(read.reader.schema.field(name) for name in mine), *theirs]))
    if prepared.shards == ONE:
        return _matched(read.raw, _matching(read, prepared, join), schema, prepared)
    return _sharded(read, prepared, join, schema)


def _matched(events: DataFrame, matching: Callable[[Batches], Batches], schema: StructType, prepared: Prepared) -> DataFrame:
    if prepared.follows is not None and events.isStreaming:
        if not prepared.follows.has_columns and not prepared.count + prepared.refused_count:
            raise ContentcastError(
                f"{prepared.follows} holds no rules, and only its messages say which columns a match has; send a first rule "
                "with all keys that rules will have, then start the stream"
            )
        follow(prepared, matching)
    return map_arrow(events, matching, schema)


def refused(subscriptions: Subscriptions, space: Space, *, id: str = ID, predicate: str = TEXT) -> DataFrame:
    """subscription, predicate, reason and the other columns of each row that takes no part: it cannot be read, or its id is
    missing or taken.
    """
    from pyspark.sql import SparkSession

    spark = subscriptions.sparkSession if isinstance(subscriptions, DataFrame) else SparkSession.active()
    return spark.createDataFrame(prepare(subscriptions, space, id=id, predicate=predicate).refused())


def _chosen(
    events: pa.Schema, added: pa.Schema, columns: Sequence[str] | None, lists: bool, case_sensitive: bool
) -> tuple[list[str], list[pa.Field]]:
    """Which columns of the events and of the subscriptions make up a row of the result."""
    theirs = [pa.field(LIST, pa.list_(added.field(ID).type))] if lists else list(added)
    names = [each.name for each in theirs]
    wanted = list(columns) if columns is not None else [*events.names, *names]
    mine = [name for name in events.names if name in wanted]
    clashes = has_clash(mine, [name for name in names if name in wanted or lists], case_sensitive)
    if clashes:
        raise ContentcastError(
            f"events and subscriptions both have the column {clashes[0]}; rename one: "
            f"subscriptions.withColumnRenamed({clashes[0]!r}, ...), or pick with columns="
        )
    for name in wanted:
        if name not in events.names and name not in names:
            raise ContentcastError(
                f"neither events nor subscriptions have the column {name!r}{nearest(name, [*events.names, *names])}"
            )
    return mine, theirs if lists else [each for each in theirs if each.name in wanted]


# --- on a worker

Join = Callable[[pa.RecordBatch, Mapped, int], Batches]


def _matching(read: Ingested, prepared: Prepared, join: Join) -> Callable[[Batches], Batches]:
    events_of = read.events_of()

    def matching(batches: Batches) -> Batches:
        mapped = prepared.open()
        for batch in batches:
            for events in events_of(batch):
                yield from join(events, mapped, 0)

    return matching


def _pairs(mine: list[str], theirs: list[str]) -> Join:
    names = [*mine, *theirs]

    def pairs(events: pa.RecordBatch, mapped: Mapped, shard: int) -> Batches:
        for found in mapped.index(shard).match_stream(events, most_pairs=ROWS_OUT, unknown="ignore"):
            if found.num_rows:
                rows, ids = found.columns
                arrays = [events.column(name).take(rows) for name in mine]
                arrays += [mapped.column(name, ids) for name in theirs]
                yield _batch(arrays, names, found.num_rows)

    return pairs


def _lists(mine: list[str]) -> Join:
    names = [*mine, LIST]

    def lists(events: pa.RecordBatch, mapped: Mapped, shard: int) -> Batches:
        for found in mapped.index(shard).match_list_stream(events, most_pairs=PAIRS_IN_LISTS, unknown="ignore"):
            if found.num_rows:
                wanted, found_ids = found.columns
                ids = pa.ListArray.from_arrays(found_ids.offsets, mapped.column(ID, found_ids.values))
                yield _batch([*(events.column(name).take(wanted) for name in mine), ids], names, len(wanted))

    return lists


def _batch(arrays: list[pa.Array], names: list[str], rows: int) -> pa.RecordBatch:
    if not arrays:  # columns=[]: only how many
        return pa.RecordBatch.from_struct_array(pa.nulls(rows, pa.struct([])).fill_null({}))
    return pa.RecordBatch.from_arrays(arrays, names=names)


# --- with shards


def _sharded(read: Ingested, prepared: Prepared, join: Join, schema: StructType) -> DataFrame:
    """Events go to the shards where someone may want them, and each task matches those of its shards."""
    events_of = read.events_of()
    schema_out = read.reader.schema

    def scatter(batches: Batches) -> Batches:
        shards = prepared.open().about.shards
        for batch in batches:
            for events in events_of(batch):
                sent, where = visits(events, key_values(events, shards), shards)
                yield pa.RecordBatch.from_arrays(
                    [*sent.columns, pa.array(where.astype(np.int32))], names=[*schema_out.names, SHARD]
                )

    def gather(batches: Batches) -> Batches:
        mapped = prepared.open()
        for batch in batches:
            where = batch.column(SHARD).to_numpy()
            for shard in np.unique(where).tolist():
                rows = np.flatnonzero(where == shard)
                yield from join(batch if len(rows) == len(where) else batch.take(pa.array(rows)), mapped, shard)

    with_shard = spark_schema(pa.schema([*schema_out, pa.field(SHARD, pa.int32())]))
    scattered = map_arrow(read.raw, scatter, with_shard)
    # Each shard has a task for every core, because most events may be of one value. The tasks of a shard come one after
    # another, so that few shards are in memory at a time.
    cores = read.raw.sparkSession.sparkContext.defaultParallelism
    part = F.col(f"`{SHARD}`") * cores + F.pmod(F.xxhash64(*_plain(scattered)), F.lit(cores))
    arranged = scattered.repartitionById(prepared.shards.count * cores, part.cast("int"))
    return _matched(arranged, gather, schema, prepared)


def _plain(events: DataFrame) -> list[str]:
    """Columns that Spark can hash. Not by an event's position: a task that is run again may get events in another order."""
    names = [each.name for each in events.schema.fields if isinstance(each.dataType, HASHED)]
    return ["`" + name.replace("`", "``") + "`" for name in names]
