"""Subscription summaries: Algorithm 1 beside the match index, building, changes, and bytes against wrong yeses.

`make bench ARGS=summaries`. 24,000 subscriptions at the 24 brokers of the scenario `summaries`, and as many of the market data.
Times are CPU seconds of the one thread, each beside a peer of the same run. A yes is wrong when no subscription of that broker
matches the event.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.report import Result, Table, human, times
from contentcast import MatchIndex
from contentcast.language import parse_many
from contentcast.matching.summaries import EXACT, PAPER, Precision, Summary
from contentcast.model import EventBatch
from contentcast.model.predicates.table import PredicateTable
from contentcast.wire.summaries import encode_delta, encode_summary
from contentcast.workload import scenario

SUBSCRIPTIONS, BUILT, EVENTS, BATCH, RUNS = 24_000, 100_000, 20_000, 1_000, 5
TARGET_EVENTS_PER_S, TARGET_BUILD_S = 500_000, 2.0
BUDGETS = (EXACT, *(Precision(rows=rows) for rows in (256, 64, 16, 4, 2, 1)), PAPER, Precision(rows=2, general=True))


class Load(NamedTuple):
    """Subscriptions with their brokers, and events in batches."""

    name: str
    table: PredicateTable
    ids: np.ndarray
    brokers: np.ndarray
    batches: list[EventBatch]
    texts: Any

    @property
    def events(self) -> int:
        return sum(map(len, self.batches))

    def summary(self, precision: Precision = EXACT, subsumption: bool = False) -> Summary:
        made = Summary(self.table.space, precision=precision, subsumption=subsumption)
        for broker in np.unique(self.brokers).tolist():
            rows = np.flatnonzero(self.brokers == broker)
            made.add(broker, self.ids[rows], self.table.take(rows))
        return made


@cache
def load(name: str, scale: float) -> Load:
    drawn = scenario(name)
    wanted = drawn.subscriptions(int(SUBSCRIPTIONS * scale))
    events = EventBatch.from_arrow(drawn.space, drawn.events(max(BATCH, int(EVENTS * scale))))
    batches = [events.slice(at, BATCH) for at in range(0, len(events), BATCH)]
    table, texts = parse_many(drawn.space, wanted["predicate"]), wanted["predicate"]
    brokers = np.array(wanted["broker"].to_pylist())
    return Load(name, table, wanted["subscription"].to_numpy(), brokers, batches, texts)


def best(run: Callable[[], Any], runs: int = RUNS) -> float:
    taken = []
    for _ in range(runs):
        begin = time.thread_time()
        run()
        taken.append(time.thread_time() - begin)
    return min(taken)


def matching(scale: float) -> list[dict[str, Any]]:
    """Algorithm 1 over the merged summary, in batches of 1,000 events, beside the match index of the same subscriptions"""
    found = []
    for name in ("summaries", "market"):
        given = load(name, scale)
        index = MatchIndex(given.table.space)
        index.add_many(given.ids, given.texts)
        records = [batch.records for batch in given.batches]
        index.match_batch(records[0])
        peer = best(lambda: [index.match_batch(each) for each in records])  # noqa: B023 - called at once
        for precision in (EXACT, PAPER):
            summary = given.summary(precision)
            summary.match(given.batches[0])
            ids = best(lambda: [summary.match(each) for each in given.batches])  # noqa: B023 - called at once
            brokers = best(lambda: [summary.match_brokers(each) for each in given.batches])  # noqa: B023 - called at once
            pairs = sum(len(summary.match(each).ids) for each in given.batches)
            found.append(
                {
                    "workload": f"{name}, {precision}",
                    "ids of an event": f"{pairs / given.events:.1f}",
                    "events/s, ids": human(given.events / ids),
                    "events/s, brokers only": human(given.events / brokers),
                    "index, events/s": human(given.events / peer),
                    "ids to index": times(peer / ids),
                    "per_s": given.events / ids,
                }
            )
    return found


def building(scale: float) -> list[dict[str, Any]]:
    """A summary of 100,000 subscriptions of one broker, beside reading their texts"""
    found = []
    for name in ("summaries", "market", "gryphon"):
        drawn = scenario(name)
        texts = drawn.subscriptions(int(BUILT * scale))["predicate"]
        read = best(lambda: parse_many(drawn.space, texts), 1)  # noqa: B023 - called at once
        table = parse_many(drawn.space, texts)
        row: dict[str, Any] = {"workload": name, "texts read in": f"{read:.2f} s"}
        for precision in (EXACT, PAPER, Precision(rows=64)):
            took = best(lambda: _built(table, precision), 2)  # noqa: B023 - called at once
            row[str(precision)] = f"{took:.2f} s"
            row.setdefault("seconds", took)
        found.append(row)
    return found


def _built(table: PredicateTable, precision: Precision) -> Summary:
    made = Summary(table.space, precision=precision)
    made.add("a", np.arange(len(table)), table)
    made.part("a")
    return made


def precision_curve(scale: float) -> list[dict[str, Any]]:
    """Bytes against wrong yeses: events sent to a broker that has no use for them, of all events sent to brokers"""
    found = []
    for name in ("summaries", "market"):
        given = load(name, scale)
        exact = given.summary()
        right = sum(len(exact.match_brokers(each).brokers) for each in given.batches)
        ids = sum(len(exact.match(each).ids) for each in given.batches)
        for precision, subsumption in [*((each, False) for each in BUDGETS), (EXACT, True)]:
            summary = given.summary(precision, subsumption)
            said = sum(len(summary.match_brokers(each).brokers) for each in given.batches)
            named = sum(len(summary.match(each).ids) for each in given.batches)
            sizes = [Summary.sizes(_alone(summary, broker)) for broker in summary.brokers]
            found.append(
                {
                    "workload": f"{name}, {precision}{', subsumption' if subsumption else ''}",
                    "rows of a broker": f"{np.mean([each.rows for each in sizes]):,.0f}",
                    "wrong brokers": f"{100 * (said - right) / max(said, 1):.1f} %",
                    "ids named": times(named / ids),
                    "equations, kB": f"{sum(each.equation_bytes(4, 10, 4) for each in sizes) / 1000:,.0f}",
                    "encoded, kB": f"{sum(len(encode_summary(summary.part(each))) for each in summary.brokers) / 1000:,.0f}",
                    "merged, kB": f"{len(encode_summary(summary.columns())) / 1000:,.0f}",
                }
            )
    return found


def _alone(summary: Summary, broker: str) -> Summary:
    made = Summary(summary.space)
    made.merge(summary.part(broker))
    return made


def changes(scale: float) -> list[dict[str, Any]]:
    """A period of one broker with 1,000 subscriptions: new ones come, as many go; beside the whole built and sent anew"""
    found = []
    drawn = scenario("summaries")
    there = int(1_000 * max(scale, 0.2))
    table = parse_many(drawn.space, drawn.subscriptions(2 * there)["predicate"])
    for precision in (EXACT, Precision(rows=64), PAPER):
        for share in (100, 10, 1):
            new = there // share
            summary = Summary(drawn.space, precision=precision)
            summary.add("a", np.arange(there), table.take(np.arange(there)))
            before = summary.part("a").versions[0]
            begin = time.thread_time()
            summary.add("a", np.arange(there, there + new), table.take(np.arange(there, there + new)))
            summary.remove("a", np.arange(new))
            summary.part("a")
            took = time.thread_time() - begin
            kept = table.take(np.arange(new, there + new))
            anew = best(lambda: _built(kept, precision), 3)  # noqa: B023 - called at once
            delta, whole = encode_delta(summary.delta("a", before)), encode_summary(summary.part("a"))
            found.append(
                {
                    "precision": f"{precision}, {new} of {there} change",
                    "changed in": f"{took * 1000:.1f} ms",
                    "built anew in": f"{anew * 1000:.1f} ms",
                    "difference": f"{len(delta):,} bytes",
                    "whole": f"{len(whole):,} bytes",
                    "whole to difference": times(len(whole) / len(delta)),
                }
            )
    return found


TABLES: dict[str, Callable[[float], list[dict[str, Any]]]] = {
    "matching": matching,
    "building": building,
    "precision": precision_curve,
    "changes": changes,
}
HIDDEN = ("per_s", "seconds")


def run(quick: bool = False) -> Result:
    scale = 0.05 if quick else 1.0
    found = {name: table(scale) for name, table in TABLES.items()}
    fastest, slowest = found["matching"][0]["per_s"], max(row["seconds"] for row in found["building"])
    notes = (
        []
        if quick
        else [  # a target is one of the full size
            f"Target {human(TARGET_EVENTS_PER_S)} events/s over the merged summary: {_verdict(fastest >= TARGET_EVENTS_PER_S)} "
            f"({human(fastest)}, summaries, exact, with ids).",
            f"Target {TARGET_BUILD_S:.0f} s for a summary of 100,000: {_verdict(slowest <= TARGET_BUILD_S)} ({slowest:.2f} s).",
        ]
    )
    notes += [
        "Equations (1) and (2) with the paper's sst = sid = 4 and ssv = 10; an id counts once for each row that it stands in.",
    ]
    about = [
        "Subscription summaries (Triantafillou & Economides 2004): how fast Algorithm 1 is, how long building and changing "
        "take, and what a budget of rows saves in bytes and costs in events that go to a broker in vain.",
    ]
    return Result(
        "summaries", "Subscription summaries", about, [_table(*each) for each in found.items()], notes, {"tables": found}, quick
    )


def _verdict(holds: bool) -> str:
    return "reached" if holds else "missed"


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    header = [each for each in rows[0] if each not in HIDDEN]
    return Table((TABLES[name].__doc__ or name), header, [[row[each] for each in header] for row in rows])
