"""spark: events per second of `contentcast.spark.match` and of what else finds the same pairs, on one Spark and the same files.

W2 is the scenario `market`. Every contender gives out all (event, subscription) pairs into Spark's `noop` sink, and must find
the pairs of the others on a sample first. The peers that are too slow for all events get fewer of them, and fewer rounds.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import contentcast as cc
from benchmarks import machine
from benchmarks.columns import SEED
from benchmarks.peers import joins
from benchmarks.peers.rules import Rules
from benchmarks.report import Result, Table, human, times
from benchmarks.timing import Timed, in_turns
from contentcast.spark import match, prepare, session
from contentcast.spark.subscriptions.indexes import Prepared
from contentcast.workload import Scenario, scenario

EVENT: Final = "event"
IDENTITY, PAIRS, LISTS, RARE = (
    "identity mapInArrow",
    "match, a row for each pair",
    "match, a list for each event",
    "match, few pairs",
)
NESTED, HASH = "(a) nested-loop join", "(b) hash join on symbol"
POLARS, DUCK = "Polars join", "DuckDB join"
ONE_CPU, ONE_TASK, TWO_CPUS = "one CPU", "two CPUs, one task", "two CPUs, two tasks"
CHECKED_EVENTS: Final = 200
RARE_SHARE: Final = 0.01
"""Of the pairs that are left in RARE: every subscription also wants a volume that so few events have."""


@dataclass(frozen=True)
class Sizes:
    """How many events each kind of contender gets."""

    subscriptions: tuple[int, ...]
    events: int
    pairs_events: int
    hash_events: int
    nested_events: int
    batches: int
    """Micro-batches of the streaming run."""
    rounds: int


FULL: Final = Sizes((10_000, 100_000, 1_000_000), 1_000_000, 200_000, 4_000, 200, 20, 2)
QUICK: Final = Sizes((1_000, 10_000), 40_000, 20_000, 4_000, 400, 4, 2)


@dataclass
class Measured:
    per_s: dict[str, dict[str, float]] = field(default_factory=dict)
    """By the number of subscriptions and the contender."""
    pairs_per_event: dict[str, float] = field(default_factory=dict)
    load_s: dict[str, float] = field(default_factory=dict)
    cores: dict[str, float] = field(default_factory=dict)
    stream: dict[str, float] = field(default_factory=dict)


def run(quick: bool = False) -> Result:
    sizes = QUICK if quick else FULL
    market, found = scenario("market", seed=SEED), Measured()
    with tempfile.TemporaryDirectory(prefix="contentcast-bench-") as folder:
        files = _write_events(market, Path(folder), sizes)
        for count in sizes.subscriptions:
            _measure(market, count, sizes, files, found)
        _measure_cores(market, sizes, files, found)
        _measure_stream(market, sizes, Path(folder), found)
    return Result(
        "spark",
        "Matching on Spark: events per second",
        [
            "Events per second of W2 (the scenario `market`) on local Spark with two cores, read from Parquet, all (event, "
            f"subscription) pairs given out to the `noop` sink. Medians of {sizes.rounds} rounds, all contenders in turns.",
        ],
        [_table(sizes, found)],
        _notes(sizes, found),
        {"events_per_s": found.per_s, "load_s": found.load_s, "cores": found.cores, "stream": found.stream},
        quick,
    )


def _write_events(market: Scenario, folder: Path, sizes: Sizes) -> dict[int, str]:
    """One folder for each number of events, in two files at least, so that two cores have work."""
    places = {}
    for count in {sizes.events, sizes.pairs_events, sizes.hash_events, sizes.nested_events, CHECKED_EVENTS}:
        place = folder / f"events-{count}"
        place.mkdir()
        step = max(1, min(50_000, -(-count // 4)))
        for start in range(0, count, step):
            _write(market, place / f"{start:09d}.parquet", start, min(step, count - start))
        places[count] = str(place)
    return places


def _write(market: Scenario, path: Path, start: int, count: int) -> None:
    events = pa.Table.from_batches([market.events(count, start=start)])
    pq.write_table(events.append_column(EVENT, pa.array(np.arange(start, start + count))), path)


def _spark(cores: int) -> SparkSession:
    return session(
        "contentcast benchmarks",
        master=f"local[{cores}]",
        **{"spark.sql.shuffle.partitions": cores, "spark.driver.memory": "4g"},
    )


# --- one number of subscriptions


def _measure(market: Scenario, count: int, sizes: Sizes, files: dict[int, str], found: Measured) -> None:
    spark = _spark(2)
    name, subscriptions = f"{count:,}", market.subscriptions(count)
    started = prepare(subscriptions, market.space)
    rare = prepare(_rare(market, subscriptions), market.space)
    rules = Rules.of(market.space, subscriptions["predicate"])
    jobs: dict[str, tuple[int, Callable[[DataFrame], DataFrame]]] = {
        IDENTITY: (sizes.events, _identity),
        RARE: (sizes.events, lambda events: match(events, rare, market.space, columns=[EVENT, "subscription"])),
        LISTS: (sizes.events, _as_lists(market, started)),
        PAIRS: (sizes.pairs_events, lambda events: match(events, started, market.space, columns=[EVENT, "subscription"])),
    }
    if count <= 100_000:  # beyond, one round of them takes most of an hour
        table = spark.createDataFrame(joins._table(rules)).cache()
        table.count()
        jobs[NESTED] = (
            max(20, sizes.nested_events * 10_000 // max(count, 10_000)),
            lambda events: _nested(events, table, rules),
        )
        jobs[HASH] = (max(200, sizes.hash_events * 10_000 // max(count, 10_000)), lambda events: _hashed(events, table, rules))
    expected = _check(spark, files, market, started, jobs)
    found.pairs_per_event[name] = expected / CHECKED_EVENTS
    timed = in_turns(
        {each: (units, _noop(spark, files, units, build)) for each, (units, build) in jobs.items()}, rounds=sizes.rounds
    )
    found.per_s[name] = {each: timing.per_s for each, timing in timed.items()}
    found.per_s[name] |= _one_machine(market, rules, sizes)
    found.load_s[name] = _load_s(spark, started)
    spark.stop()


def _as_lists(market: Scenario, prepared: Prepared) -> Callable[[DataFrame], DataFrame]:
    return lambda events: match(events, prepared, market.space, columns=[EVENT], lists=True)


def _rare(market: Scenario, subscriptions: pa.RecordBatch) -> pa.Table:
    volumes = market.events(10_000)["volume"].to_numpy()
    least = int(np.quantile(volumes, 1 - RARE_SHARE))
    texts = [f"({text}) AND volume > {least}" for text in subscriptions["predicate"].to_pylist()]
    table = pa.Table.from_batches([subscriptions])
    return table.set_column(1, "predicate", pa.array(texts))


def _identity(events: DataFrame) -> DataFrame:
    def same(batches: Any) -> Any:
        yield from batches

    return events.mapInArrow(same, events.schema)


def _noop(
    spark: SparkSession, files: dict[int, str], units: int, build: Callable[[DataFrame], DataFrame]
) -> Callable[[int], None]:
    source = files[min((count for count in files if count >= units), default=max(files))]

    def once(number: int) -> None:
        events = spark.read.parquet(source)
        chosen = events if Path(source).name == f"events-{units}" else events.limit(units).repartition(2)
        build(chosen).write.format("noop").mode("overwrite").save()

    once(0)  # workers start, kernels load, Spark compiles
    return once


def _check(
    spark: SparkSession, files: dict[int, str], market: Scenario, started: Prepared, jobs: dict[str, tuple[int, Any]]
) -> int:
    """All find the same pairs on a sample; how many."""
    events = spark.read.parquet(files[CHECKED_EVENTS])
    expected = sorted((row[0], row[1]) for row in jobs[PAIRS][1](events).collect())
    for name in (LISTS, NESTED, HASH):
        if name in jobs:
            result = jobs[name][1](events)
            if name == LISTS:
                result = result.select(EVENT, F.explode("subscriptions"))
            if sorted((row[0], row[1]) for row in result.collect()) != expected:
                raise AssertionError(f"{name} finds other pairs; no number of this run means anything")
    return len(expected)


def _tests(rules: Rules, skip: str = "") -> Any:
    """What a rule asks of an event, with null for what it does not ask."""
    condition = F.lit(True)
    for name in rules.equal:
        if name != skip:
            condition &= F.col(f"is {name}").isNull() | (F.col(f"is {name}") == F.col(name))
    for name in rules.between:
        condition &= F.col(f"low {name}").isNull() | F.col(name).between(F.col(f"low {name}"), F.col(f"high {name}"))
    for name in rules.texts:
        text = F.col(f"text {name}")
        inside = F.when(F.col(f"how {name}") == "startswith", F.col(name).startswith(text))
        inside = inside.when(F.col(f"how {name}") == "endswith", F.col(name).endswith(text)).otherwise(
            F.col(name).contains(text)
        )
        condition &= text.isNull() | inside
    return condition


def _nested(events: DataFrame, table: DataFrame, rules: Rules) -> DataFrame:
    return events.join(F.broadcast(table), _tests(rules)).select(EVENT, F.col("rule").alias("subscription"))


def _hashed(events: DataFrame, table: DataFrame, rules: Rules) -> DataFrame:
    """By symbol where a rule names one; the others as in (a)."""
    named = F.broadcast(table.where(F.col("is symbol").isNotNull()))
    others = F.broadcast(table.where(F.col("is symbol").isNull()))
    by_symbol = events.join(named, (F.col("symbol") == F.col("is symbol")) & _tests(rules, "symbol"))
    rest = events.join(others, _tests(rules, "symbol"))
    return by_symbol.unionAll(rest).select(EVENT, F.col("rule").alias("subscription"))


def _one_machine(market: Scenario, rules: Rules, sizes: Sizes) -> dict[str, float]:
    """Without Spark, one thread, from memory, in batches of 10,000: the joins that benchmarks/peers has."""
    batches = [market.events(10_000, start=start) for start in (0, 10_000)]
    indexes: dict[str, Any] = {POLARS: joins.Polars(rules), DUCK: joins.Duck(rules)}
    for index in indexes.values():
        index.match(batches[0])
    jobs = {name: (10_000, lambda number, index=index: index.match(batches[number % 2])) for name, index in indexes.items()}
    timed: dict[str, Timed] = in_turns(jobs, rounds=sizes.rounds, budget_s=60)  # type: ignore[arg-type] # defaults bind
    return {name: each.per_s for name, each in timed.items()}


def _load_s(spark: SparkSession, prepared: Prepared) -> float:
    """From the file to the first answer, in a process that has not mapped it yet; the slowest worker."""

    def load(batches: Any) -> Any:
        for _ in batches:
            started = perf_counter()
            index = cc.MatchIndex.load(prepared.path(prepared.version, "index-0"))
            index.match_batch(
                pa.record_batch([pa.nulls(1, each.type) for each in index.space.arrow_schema], schema=index.space.arrow_schema)
            )
            yield pa.record_batch({"worker": [os.getpid()], "seconds": [perf_counter() - started]})

    rows = spark.range(0, 4, 1, 4).mapInArrow(load, "worker long, seconds double").collect()
    return max(row["seconds"] for row in rows)


# --- one and two cores, and a stream


def _measure_cores(market: Scenario, sizes: Sizes, files: dict[int, str], found: Measured) -> None:
    """Each in a Spark of its own, all of them up and taking turns.

    `local[1]` is not one core: while Java reads and writes, the Python worker of its one task matches on another. So one core
    is a Spark of which every process, Java and workers, is kept to one CPU; `local[1]` is what `local[*]` means there.
    """
    cpus = sorted(os.sched_getaffinity(0))[:2] if hasattr(os, "sched_getaffinity") else []
    if len(cpus) < 2:
        return
    count = sizes.subscriptions[min(1, len(sizes.subscriptions) - 1)]
    with ExitStack() as running:
        jobs = {}
        for name, mine, tasks in ((ONE_CPU, cpus[:1], 1), (ONE_TASK, cpus, 1), (TWO_CPUS, cpus, 2)):
            job = running.enter_context(_kept_to(mine, tasks, count, files[sizes.events]))
            jobs[name] = (sizes.events, job)
        timed = in_turns(jobs, rounds=sizes.rounds)
    found.cores = {name: each.per_s for name, each in timed.items()}


@contextmanager
def _kept_to(cpus: list[int], tasks: int, subscriptions: int, source: str) -> Iterator[Callable[[int], None]]:
    """A process with a Spark that has these CPUs and no others; a call runs the job there once."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_serve, args=(there, cpus, tasks, subscriptions, source), daemon=True)
    process.start()
    there.close()  # or a process that fails would leave us waiting

    def once(number: int) -> None:
        here.send(number)
        here.recv()

    try:
        here.recv()  # it is warm
        yield once
    finally:
        here.close()
        process.join()


def _serve(asked: Connection, cpus: list[int], tasks: int, subscriptions: int, source: str) -> None:
    os.sched_setaffinity(0, cpus)  # before Java starts: it and the workers inherit it
    machine.keep_to_one_thread()
    market, spark = scenario("market", seed=SEED), _spark(tasks)
    _check_kept(spark, cpus)
    prepared = prepare(market.subscriptions(subscriptions), market.space)
    events = int(Path(source).name.removeprefix("events-"))
    job = _noop(spark, {events: source}, events, _as_lists(market, prepared))
    try:
        asked.send(None)
        while True:
            job(asked.recv())
            asked.send(None)
    except EOFError:
        spark.stop()


def _check_kept(spark: SparkSession, cpus: list[int]) -> None:
    jvm: Any = spark._jvm
    workers = spark.range(0, 4, 1, 4).mapInArrow(_cpus_of_worker, "cpu long").distinct().collect()
    if jvm.java.lang.Runtime.getRuntime().availableProcessors() != len(cpus) or {row[0] for row in workers} != set(cpus):
        raise AssertionError(f"Spark is not kept to the CPUs {cpus}; no number of this run means anything")


def _cpus_of_worker(batches: Any) -> Any:
    for _ in batches:
        yield pa.record_batch({"cpu": sorted(os.sched_getaffinity(0))})


def _measure_stream(market: Scenario, sizes: Sizes, folder: Path, found: Measured) -> None:
    """A file for each micro-batch; the first, in which everything starts, is left out."""
    spark, source = _spark(2), folder / "stream"
    source.mkdir()
    count, each = sizes.subscriptions[min(1, len(sizes.subscriptions) - 1)], sizes.events // 5
    for number in range(sizes.batches + 1):
        place = source / f"{number:04d}.parquet"
        _write(market, place, number * each, each)
        os.utime(place, (number, number))  # taken in this order
    started = prepare(market.subscriptions(count), market.space)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", sizes.batches + 10)
    # Row groups of 50,000 and files of one micro-batch: split so that both cores read.
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(max(100_000, (source / "0000.parquet").stat().st_size // 2)))
    stream = (
        spark.readStream.schema(spark.read.parquet(str(source)).schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    )
    matched = match(stream, started, market.space, columns=[EVENT], lists=True)
    query = matched.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    took = [each["durationMs"]["triggerExecution"] / 1000 for each in running.recentProgress if each["numInputRows"]][1:]
    found.stream = {
        "events_per_s": each * len(took) / sum(took),
        "p50_s": float(np.quantile(took, 0.5)),
        "p99_s": float(np.quantile(took, 0.99)),
        "events": each,
        "micro_batches": len(took),
        "subscriptions": count,
    }
    spark.stop()


# --- the table


def _table(sizes: Sizes, found: Measured) -> Table:
    names = [f"{count:,}" for count in sizes.subscriptions]
    rows = []
    for contender in (IDENTITY, RARE, LISTS, PAIRS, HASH, NESTED, POLARS, DUCK):
        cells = [human(found.per_s[name][contender]) if contender in found.per_s[name] else "-" for name in names]
        rows.append([contender, *cells])
    for what, over, under in ((f"{LISTS} / {HASH}", LISTS, HASH), (f"{RARE} / {IDENTITY}", RARE, IDENTITY)):
        rows.append([what, *(_ratio(found.per_s[name], over, under) for name in names)])
    return Table("", ["", *(f"{name} subscriptions" for name in names)], rows, frozenset([LISTS, RARE]))


def _ratio(per_s: dict[str, float], over: str, under: str) -> str:
    return times(per_s[over] / per_s[under]) if under in per_s else ""


def _notes(sizes: Sizes, found: Measured) -> list[str]:
    stream = found.stream
    notes = [
        f"{name} subscriptions: {found.pairs_per_event[name]:.3g} pairs for an event; a worker has its index loaded and its "
        f"first answer within {found.load_s[name]:.2g} s."
        for name in found.per_s
    ]
    notes += _cores(found.cores)
    notes.append(
        f"As a stream, {stream['subscriptions']:,} subscriptions, {stream['micro_batches']:.0f} micro-batches of "
        f"{stream['events']:,} events: {human(stream['events_per_s'])} events/s, a micro-batch in {stream['p50_s']:.2f} s, "
        f"p99 {stream['p99_s']:.2f} s."
    )
    if sizes != QUICK:
        notes += _targets(found)
    else:
        notes.append("The targets are not measured in a quick run.")
    notes.append(
        f"{RARE}: the same subscriptions, each with a volume that {RARE_SHARE:.0%} of the events have: the output is small."
    )
    notes.append(f"{POLARS} and {DUCK}: without Spark, one thread, events in memory; see the benchmark `matching`.")
    return notes


def _cores(per_s: dict[str, float]) -> list[str]:
    if not per_s:
        return ["Two cores against one: not measured, it needs Linux and two CPUs."]
    return [
        f"Two cores against one: {per_s[TWO_CPUS] / per_s[ONE_CPU]:.2f} times as fast ({LISTS}). One core: all of Spark, Java "
        "and Python workers, kept to one CPU, with `local[1]`; two: kept to two, with `local[2]`; in turns, on the same files.",
        f"Two tasks at a time against one, both on two CPUs: {per_s[TWO_CPUS] / per_s[ONE_TASK]:.2f} times as fast. That is no "
        "measure of cores: one task already has Java and a Python worker at work at once.",
    ]


def _targets(found: Measured) -> list[str]:
    hundred, million = found.per_s["100,000"], found.per_s["1,000,000"]
    checks = [
        ("100,000 subscriptions: 100 times (b)", hundred[LISTS] / hundred[HASH], 100.0),
        ("100,000 subscriptions, few pairs: 40 % of the identity", hundred[RARE] / hundred[IDENTITY], 0.4),
        ("1,000,000 subscriptions: 100,000 events/s", million[LISTS], 100_000.0),
        ("streaming: 200,000 events/s", found.stream["events_per_s"], 200_000.0),
        ("streaming: p99 of a micro-batch within 3 s", -found.stream["p99_s"], -3.0),
        ("index load per worker within 1 s", -max(found.load_s.values()), -1.0),
    ]
    if found.cores:
        checks.append(("two cores: 1.7 times one", found.cores[TWO_CPUS] / found.cores[ONE_CPU], 1.7))
    return [f"Target: {what}. {'holds' if got >= wanted else 'DOES NOT HOLD'}: {abs(got):.3g}." for what, got, wanted in checks]
