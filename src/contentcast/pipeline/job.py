"""The main job: a feed of events and a table of subscriptions through all steps of the pipeline, into one folder of tables.

    ingest            out/events          the events, each with its number
                      out/quarantine      records that are none, with the reason
    match, deliver    out/deliveries      who gets what, in a folder for each broker (`one_pass`)
                      out/subscriptions   as they came;  out/refused: those that cannot be read, with the reason
    learn             out/learnt          plan.json and rates: what the history says
    route             out/routes          protocols, links, brokers, latencies: what each protocol of the catalog costs
    side by side      out/routes          all systems on a sample, against broadcast and against topics
    report            out/report.html     all of it to look at (`report`);  out/job.json: the totals

Rule: everything is written beside `out`, and gets its name by one rename when all of it is there.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from contentcast import __version__, catalog
from contentcast.files.appearing import appearing
from contentcast.files.made_folders import MADE_BY, SUMMARY, write_table
from contentcast.hosting.ledger import LATENCY_BINS
from contentcast.model import ContentcastError
from contentcast.model.errors import counted
from contentcast.model.events.records import BAD
from contentcast.pipeline.examples import Example, examples
from contentcast.pipeline.feeds import EVENTS_A_TASK, Feed, kept_subscriptions
from contentcast.pipeline.side_by_side import SideBySide, side_by_side
from contentcast.spark.delivery.one_pass import EVENT, Delivered, match_and_deliver
from contentcast.spark.learn import Learnt, learn
from contentcast.spark.route import route_totals
from contentcast.spark.route_facts import Totals
from contentcast.spark.subscriptions.indexes import Prepared, prepare
from contentcast.spark.subscriptions.tables import REASON
from contentcast.speed import per_second
from contentcast.warming.parts import EVERYTHING, INDEX, part_of

SLOW_TO_SETTLE: Final = frozenset({"covering", "multicast", "overlay"})
"""Protocols that route only when they are named. Telling 2,000 market subscriptions on 39 brokers takes them 5, 6 and 2 CPU
seconds, and the others a few tenths; the job has 100,000."""
USUAL: Final = tuple(name for name in catalog.PROTOCOLS if name not in SLOW_TO_SETTLE)
SAMPLED: Final = {"link-matching-paper": 8}
"""Of more than SAMPLED_FROM events such a protocol routes one in so many. The paper's own form takes 13.6 CPU seconds for
65,536 market events at 100,000 subscriptions, the other six of the catalog 19.2 s together: it would be half of the job."""
SAMPLED_FROM: Final = 200_000
TASKS: Final = "spark.sql.files.minPartitionNum"
SHOWN: Final = 12
"""Bad records and refused subscriptions in the report."""

Step = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Routed:
    """What a protocol came to on `events` of the events: all, or every so many-th."""

    totals: Totals
    events: int

    def row(self, all_events: int, least: int) -> dict[str, Any]:
        """Scaled to all events if it was a sample."""
        scale = all_events / self.events if self.events else 1.0
        totals = self.totals
        sums = {
            "messages": totals.messages.sum(),
            "bytes": totals.bytes.sum(),
            "deliveries": totals.deliveries.sum(),
        }
        steps = None if totals.steps is None else int(totals.steps.sum())
        scaled = {name: round(int(value) * scale) for name, value in sums.items()}
        return {
            "protocol": totals.protocol,
            "events": self.events,
            **scaled,
            "steps": None if steps is None else round(steps * scale),
            "steps_per_event": None if steps is None else steps / self.events if self.events else 0.0,
            "p50_s": _number(totals.latency_s(0.50)),
            "p99_s": _number(totals.latency_s(0.99)),
            "times_least": scaled["messages"] / least if least else None,
            "busiest_broker_s": float(totals.busy_s.max(initial=0.0)) * scale,
        }


@dataclass
class Facts:
    """All that the table and the report are made of."""

    feed: Feed
    machine: dict[str, str]
    events: int = 0
    bad: int = 0
    subscriptions: int = 0
    refused: int = 0
    delivered: Delivered = field(default_factory=Delivered)
    learnt: Learnt | None = None
    routes: dict[str, Routed] = field(default_factory=dict)
    side_by_side: SideBySide | None = None
    examples: list[Example] = field(default_factory=list)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, Any]] = field(default_factory=list)
    took_s: dict[str, float] = field(default_factory=dict)

    @property
    def least(self) -> int:
        return int(self.delivered.least.sum())

    def protocols(self) -> list[dict[str, Any]]:
        return [each.row(self.events, self.least) for each in self.routes.values()]

    def first_results(self) -> str:
        took = sum(self.took_s.values())
        return (
            f"{counted(self.events, 'event')} met {counted(self.subscriptions, 'subscription')}: "
            f"{counted(self.delivered.matches, 'match', 'matches')} ({took:.0f} s)"
        )

    def summary(self) -> dict[str, Any]:
        matching_s = self.took_s["match and deliver"]
        unwanted = int(self.delivered.fan_out[0]) if self.events else 0
        return {
            "made by": MADE_BY,
            "version": __version__,
            "title": self.feed.title,
            "command": self.feed.told,
            "topology": self.feed.topology_name if self.feed.topology is not None else None,
            "events": self.events,
            "bad records": self.bad,
            "subscriptions": self.subscriptions,
            "bad predicates": self.refused,
            "matches": self.delivered.matches,
            "events nobody wants": unwanted,
            "events/s": per_second(self.events, matching_s),
            "lower bound": {"messages": self.least} if self.routes else None,
            "protocols": self.protocols(),
            "in one sentence": None if self.side_by_side is None else self.side_by_side.sentence(),
            "side by side": [] if self.side_by_side is None else self.side_by_side.rows(),
            "not routed": self.feed.unrouted,
            "seconds": {name: round(took, 3) for name, took in self.took_s.items()},
            "machine": self.machine,
        }


def run_job(
    spark: SparkSession,
    feed: Feed,
    out: Path,
    protocols: Sequence[str] | None,
    step: Step,
    *,
    count_steps: bool = False,
    matched: Callable[[str], None] = lambda results: None,
) -> Facts:
    """Runs every step; `out` appears at the end, and replaces what is there. `step(name)` is entered for each.

    `count_steps`: routers match with search trees, whose steps the tables and the report then show.
    `matched`: is given the first results in a line, when all events are matched, which is long before the end. What only
    routing needs can be prepared there.
    """
    from contentcast.pipeline.report import write_report

    names = list(dict.fromkeys(protocols or USUAL))
    for name in names:
        catalog.protocol(name)
    facts = Facts(feed, machine(spark))
    with _many_tasks(spark), appearing(out.absolute()) as folder:
        work = _Work(spark, facts, folder, step)
        events = work.ingest()
        prepared = work.match(events)
        matched(facts.first_results())
        work.learn(events)
        work.route(events, prepared, names, count_steps)
        if protocols is None:
            work.side_by_side(events, prepared)
        with work.timed("report"):
            facts.examples = examples(events, prepared, feed.subscriptions, feed.space, feed.publisher, feed.topology)
            _write_routes(facts, folder / "routes")
            write_report(facts, folder / "report.html")
        (folder / SUMMARY).write_text(json.dumps(facts.summary(), indent=1) + "\n")
    return facts


def part_used(protocols: Sequence[str] | None, *, routes: bool, count_steps: bool) -> str:
    """The kernels that a job uses, as a part of `warming.parts`. `routes`: it has a network."""
    if not routes:
        return INDEX
    return EVERYTHING if count_steps else part_of(protocols or USUAL, count_steps=False)


@contextmanager
def _many_tasks(spark: SparkSession) -> Iterator[None]:
    """A step may set how many tasks read a table; after the job the session is as before."""
    before = spark.conf.get(TASKS, None)
    try:
        yield
    finally:
        spark.conf.unset(TASKS) if before is None else spark.conf.set(TASKS, before)


class _Work:
    """The steps, each writing its tables."""

    def __init__(self, spark: SparkSession, facts: Facts, folder: Path, step: Step) -> None:
        self.spark, self.facts, self.feed, self.folder, self.step = spark, facts, facts.feed, folder, step

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = perf_counter()
        with self.step(name):
            yield
        self.facts.took_s[name] = perf_counter() - started

    def ingest(self) -> DataFrame:
        facts, feed = self.facts, self.feed
        good = feed.numbered(feed.events.good)
        tally = feed.events.tally
        assert tally is not None
        with self.timed("ingest"):
            good.write.parquet(str(self.folder / "events"))
            facts.bad = tally.bad.value
            facts.events = tally.events.value - facts.bad
            if facts.bad:  # the records are read once more, which a clean feed is spared
                feed.events.quarantine.write.parquet(str(self.folder / "quarantine"))
                facts.quarantined = [
                    row.asDict() for row in self.spark.read.parquet(str(self.folder / "quarantine")).head(SHOWN)
                ]
            else:
                write_table(BAD.empty_table(), self.folder / "quarantine")
            # As many tasks as there are chunks of work: a bar that moves, and memory that does not grow with the feed.
            tasks = feed.tasks or max(2, -(-facts.events // EVENTS_A_TASK))
            self.spark.conf.set(TASKS, str(tasks))
            events = self.spark.read.schema(good.schema).parquet(str(self.folder / "events"))
            self._check_publishers()
        return events

    def _check_publishers(self) -> None:
        """One event that enters nowhere is set aside; if none enters anywhere, the column or the topology is the wrong one."""
        publisher = self.feed.publisher
        astray = [each for each in self.facts.quarantined if publisher is not None and each["attribute"] == publisher]
        if not self.facts.events and astray:
            raise ContentcastError(f"no event enters at a broker of the topology; the first: {astray[0]['reason']}")

    def match(self, events: DataFrame) -> Prepared:
        facts, feed = self.facts, self.feed
        given = [feed.subscriptions] if feed.misplaced is None else [feed.subscriptions, feed.misplaced.drop_columns([REASON])]
        write_table(pa.concat_tables(given), self.folder / "subscriptions")
        with self.timed("prepare"):
            prepared = prepare(feed.subscriptions, feed.space)
        refused = prepared.refused()
        if feed.misplaced is not None and len(feed.misplaced):
            refused = pa.concat_tables([refused, feed.misplaced], promote_options="permissive")
        write_table(refused, self.folder / "refused")
        facts.subscriptions, facts.refused = prepared.count, refused.num_rows
        facts.refusals = refused.slice(0, SHOWN).to_pylist()
        with self.timed("match and deliver"):
            facts.delivered = match_and_deliver(
                events, prepared, self.folder / "deliveries", publisher=feed.publisher, topology=feed.topology
            )
        return prepared

    def learn(self, events: DataFrame) -> None:
        with self.timed("learn"):
            learnt = learn(events, self.feed.subscriptions, self.feed.space, publisher=self.feed.publisher)
        (self.folder / "learnt").mkdir()
        learnt.plan.save(self.folder / "learnt" / "plan.json")
        pq.write_table(learnt.rates, self.folder / "learnt" / "rates.parquet")
        self.facts.learnt = learnt

    def route(self, events: DataFrame, prepared: Prepared, protocols: Sequence[str], count_steps: bool) -> None:
        """One job for each protocol, so that workers hold the routers of one at a time and the bar shows which it is."""
        feed, facts = self.feed, self.facts
        if feed.topology is None or feed.publisher is None:
            return
        subscriptions = kept_subscriptions(feed.subscriptions, prepared.refused())
        for name in protocols:
            every = SAMPLED.get(name, 1) if facts.events > SAMPLED_FROM else 1
            chosen = events.where(F.col(EVENT) % every == 0) if every > 1 else events
            with self.timed(f"route {name}"):
                totals = route_totals(
                    chosen,
                    subscriptions,
                    feed.space,
                    feed.topology,
                    [name],
                    publisher=feed.publisher,
                    count_steps=count_steps,
                )
                count = chosen.count() if every > 1 else facts.events
            facts.routes[name] = Routed(totals[name], count)

    def side_by_side(self, events: DataFrame, prepared: Prepared) -> None:
        feed = self.feed
        if feed.topology is None or feed.publisher is None or not prepared.count:
            return
        subscriptions = kept_subscriptions(feed.subscriptions, prepared.refused())
        self.facts.side_by_side = side_by_side(
            events, subscriptions, feed.space, feed.topology, feed.publisher, lambda name: self.timed(f"side by side: {name}")
        )


# --- tables


def _write_routes(facts: Facts, folder: Path) -> None:
    if not facts.routes:
        return
    folder.mkdir()
    if facts.side_by_side is not None:
        pq.write_table(pa.Table.from_pylist(facts.side_by_side.rows()), folder / "side_by_side.parquet")
    totals = [each.totals for each in facts.routes.values()]
    protocols = pa.Table.from_pylist(facts.protocols())
    kinds = {"steps": pa.int64(), "steps_per_event": pa.float64()}  # all null where steps are not counted
    fields = [pa.field(each.name, kinds.get(each.name, each.type)) for each in protocols.schema]
    pq.write_table(protocols.cast(pa.schema(fields)), folder / "protocols.parquet")
    pq.write_table(pa.concat_tables([each.links() for each in totals]), folder / "links.parquet")
    pq.write_table(pa.concat_tables([each.brokers() for each in totals]), folder / "brokers.parquet")
    rows = [
        {"protocol": each.protocol, "at_most_s": float(bound), "deliveries": int(count)}
        for each in totals
        for bound, count in zip((*LATENCY_BINS, float("inf")), each.latencies, strict=True)
        if count
    ]
    schema = pa.schema([("protocol", pa.string()), ("at_most_s", pa.float64()), ("deliveries", pa.int64())])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "latencies.parquet")


def _number(value: float) -> float | None:
    return value if value == value else None


def machine(spark: SparkSession) -> dict[str, str]:
    jvm: Any = spark._jvm
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "contentcast": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "Spark": f"{spark.version}, {spark.sparkContext.master}",
        "Java": str(jvm.java.lang.System.getProperty("java.version")),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"
