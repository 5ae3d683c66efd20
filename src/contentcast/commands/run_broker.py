"""`contentcast run --stream --broker URL`: the pipeline fed by a live broker, whose deliveries go back to it.

    space trades         a durable subscription of the job's own                     exactly once
    match                every event with every subscription of the table
    space deliveries     one event for each pair: the event's attributes and number, and the subscription's columns

    out/_stream, out/_deliveries/     which folder this is, and how far the stream has come
    out/refused/                      subscriptions that cannot be read, with the reason

Rule: what was delivered is known to the checkpoint and to the broker, so the folder and the broker's data belong together.
"""

from __future__ import annotations

import signal
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeAlias

from contentcast.commands.run_config import RunConfig
from contentcast.commands.shared.failures import told_in_one_line
from contentcast.commands.shared.overheard import leave_out, overhearing
from contentcast.commands.shared.settings import Where
from contentcast.files.made_folders import REFUSED, STREAM, check_stream_folder, write_table
from contentcast.model import ContentcastError, Space
from contentcast.model.errors import counted
from contentcast.progress_lines import lines

CHECKPOINT: Final = "_deliveries"
EVENT: Final = "event"
LOOK_EVERY_S: Final = 0.5
SparkSession: TypeAlias = Any
"""Only contentcast.spark imports pyspark."""


def follow_broker(told: RunConfig, url: str, out: Path, where: Where, *, once: bool, force: bool) -> dict[str, Any]:
    """Until Ctrl-C, or until all that is there now has been delivered."""
    check_stream_folder(out, force=force, command="run")
    if told.deliveries == Space.load(told.space).name:
        raise ContentcastError(f"the deliveries cannot go to the space {told.deliveries} that they come from; name another")
    with told_in_one_line():
        from contentcast.spark.session import command_session

        with overhearing(command_session("contentcast run", where.master, where.settings)) as spark:
            return _Following(spark, told, url, out).run(once)


class _Following:
    def __init__(self, spark: SparkSession, told: RunConfig, url: str, out: Path) -> None:
        from contentcast.commands.shared.compiled import have_compiled
        from contentcast.spark import prepare
        from contentcast.spark.outside.places import rules_at
        from contentcast.warming.parts import INDEX

        have_compiled(INDEX)
        self.spark, self.told, self.url, self.out = spark, told, url, out
        self.space = self._declared(Space.load(told.space))
        self.prepared = prepare(rules_at(told.subscriptions), self.space)
        self.counts: dict[int, tuple[int, int]] = {}
        """Micro-batch -> its events, and the pairs that they made."""

    def _declared(self, space: Space) -> Space:
        """As the broker has it, which may know more attributes; whoever comes first declares it."""
        import contentcast as cc

        with cc.connect_sync(self.url) as client:
            client.declare(space)
        return space

    def _deliveries(self) -> Any:
        from contentcast.spark import match

        rows = self.spark.readStream.format("contentcast").option("broker", self.url).option("space", self.space.name)
        rows = rows.option("durable", self.told.durable)
        numbered = EVENT not in self.space
        events = (rows.option(EVENT, "true") if numbered else rows).load()
        return match(events.select(*([EVENT] if numbered else []), *self.space.names), self.prepared, self.space)

    def run(self, once: bool) -> dict[str, Any]:
        from contentcast.pipeline.streams import count_rows

        deliveries = count_rows(self._deliveries())
        place = self.out.absolute()  # Java keeps the folder it was started in
        place.mkdir(parents=True, exist_ok=True)
        (place / STREAM).touch()
        write_table(self.prepared.refused(), place / REFUSED)
        writer = deliveries.writeStream.format("contentcast").option("broker", self.url)
        writer = writer.option("space", self.told.deliveries).option("checkpointLocation", str(place / CHECKPOINT))
        started = perf_counter()
        query = writer.trigger(**({"availableNow": True} if once else {"processingTime": "0 seconds"})).start()
        try:
            self._wait(query)
        finally:
            query.stop()
        return self._totals(perf_counter() - started)

    def _wait(self, query: Any) -> None:
        from threading import Event

        stopped = Event()
        # Not as an exception: it would come in the middle of a call to Java, and Spark's own handler fails the micro-batch.
        before = signal.signal(signal.SIGINT, lambda number, frame: stopped.set())
        try:
            with lines(lambda: f"following {self.space.name} at {self.url}: {self._sum(0):,} events so far; Ctrl-C stops"):
                while query.isActive and not stopped.wait(LOOK_EVERY_S):
                    self._look(query)
        finally:
            signal.signal(signal.SIGINT, before)
        self._look(query)
        if stopped.is_set():
            leave_out()
        elif (failure := query.exception()) is not None:
            raise failure

    def _look(self, query: Any) -> None:
        from contentcast.pipeline.streams import progress_of

        self.counts.update(progress_of(query))

    def _sum(self, which: int) -> int:
        return sum(each[which] for each in self.counts.values())

    def _totals(self, took: float) -> dict[str, Any]:
        return {
            "events": self._sum(0),
            "subscriptions": self.prepared.count,
            "bad predicates": self.prepared.refused_count,
            "pairs": self._sum(1),
            "seconds": round(took, 3),
            "deliveries": self.told.deliveries,
            "broker": self.url,
            "out": str(self.out),
        }


def summary(totals: dict[str, Any]) -> str:
    refused = f" ({totals['bad predicates']:,} more refused, in {totals['out']}/{REFUSED})" if totals["bad predicates"] else ""
    return (
        f"{counted(totals['events'], 'event')} met {counted(totals['subscriptions'], 'subscription')}{refused}: "
        f"{totals['pairs']:,} deliveries to the space {totals['deliveries']} at {totals['broker']}."
    )
