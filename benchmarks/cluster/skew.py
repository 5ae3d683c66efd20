"""Skewed keys: one symbol that nine of ten events and subscriptions share, against the symbols of the market as they come.

That symbol would decide about memory and time: its shard would have most of the subscriptions, and its task most of the events,
while the other worker waits.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.cluster.common import Part, count_pairs, on, two_workers, write_events
from benchmarks.columns import SEED
from contentcast.spark import match, prepare, read_events
from contentcast.spark.cluster.standalone import Cluster
from contentcast.workload import Scenario, scenario

HOT, SHARE = "IBM", 0.9
SHARDS = 6


def run(folder: Path, quick: bool) -> Part:
    events, subscriptions, rounds = (2_000, 20_000, 1) if quick else (20_000, 500_000, 2)
    market = scenario("market", seed=SEED)
    rows, data = [], {}
    with two_workers(folder) as cluster:
        for name, share in (("as they come", 0.0), (f"{SHARE:.0%} of one symbol", SHARE)):
            place = folder / f"share-{share}"
            write_events(with_symbol(pa.Table.from_batches([market.events(events)]), share), place / "events")
            table = with_test(pa.Table.from_batches([market.subscriptions(subscriptions)]), share)
            pq.write_table(table, place / "subscriptions.parquet")
            prepared = prepare(place / "subscriptions.parquet", market.space, shards=SHARDS, shard_key="symbol")
            found = [_took(cluster, cores, place, market, rounds) for cores in (1, 2)]
            (one, pairs), (two, again) = found
            assert pairs == again
            parts = sum(each for _, each in prepared.shards.hot)
            rows.append([name, str(parts), f"{pairs:,}", f"{events / one:,.0f}", f"{events / two:,.0f}", f"{one / two:.2f}"])
            data[name] = {"hot_shards": parts, "pairs": pairs, "one_s": one, "two_s": two}
    return Part(
        f"Skewed keys: {events:,} events, {subscriptions:,} subscriptions in {SHARDS} shards by symbol",
        ["events and subscriptions", "hot shards", "matches", "one worker, events/s", "two workers, events/s", "ratio"],
        rows,
        [],
        {"events": events, "subscriptions": subscriptions, "shards": SHARDS, "rounds": rounds, **data},
    )


def with_symbol(events: pa.Table, share: float) -> pa.Table:
    at = events.column_names.index("symbol")
    return events.set_column(at, "symbol", pc.if_else(_chosen(len(events), share), HOT, events["symbol"]))


def with_test(subscriptions: pa.Table, share: float) -> pa.Table:
    """Those that test the symbol test it for one symbol; the others stay."""
    hot = pc.replace_substring_regex(subscriptions["predicate"], r"symbol = '[^']*'", f"symbol = '{HOT}'")
    at = subscriptions.column_names.index("predicate")
    return subscriptions.set_column(
        at, "predicate", pc.if_else(_chosen(len(subscriptions), share), hot, subscriptions["predicate"])
    )


def _chosen(count: int, share: float) -> pa.Array:
    return pa.array(np.random.default_rng(SEED).random(count) < share)


def _took(cluster: Cluster, cores: int, place: Path, market: Scenario, rounds: int) -> tuple[float, int]:
    """The best of the rounds after the first, which sends the shards and starts the workers' Pythons."""
    seconds, pairs = [], 0
    with on(cluster, cores) as spark:
        prepared = prepare(place / "subscriptions.parquet", market.space, shards=SHARDS, shard_key="symbol")
        for _ in range(rounds + 1):
            started = perf_counter()
            events = read_events(spark, place / "events", market.space)
            pairs = count_pairs(match(events, prepared, market.space, lists=True, columns=[]))
            seconds.append(perf_counter() - started)
    return min(seconds[1:]), pairs
