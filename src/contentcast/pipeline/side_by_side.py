"""All systems side by side on a sample: what each saves against broadcast, and against one topic for each value.

    flooding        broadcast: every event to every broker
    topics          one topic for each value of the attribute that most subscriptions name (a symbol, say): subscribers get
                    all of their topics and throw away what they do not want
    link-matching, covering, summaries, overlay, multicast ...   the protocols of the papers

Some protocols take long to tell many subscriptions, so all of them route the same sample here: the first SUBSCRIPTIONS
subscriptions and EVENTS events of the feed. Topics are routed by link matching over subscriptions that keep only their test of
that attribute, which is the best that a network of topics can do.
Rule: every row is of the same events and the same wishes; only topics deliver more than was wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from contentcast.language import parse_many, print_predicate
from contentcast.model import Conjunction, Predicate, Space
from contentcast.network.topology import Topology
from contentcast.spark.delivery.one_pass import EVENT
from contentcast.spark.route import route_totals
from contentcast.spark.route_facts import Totals

SUBSCRIPTIONS: Final = 500
EVENTS: Final = 2_000
"""With so many the slowest of them, the overlay, takes some ten CPU seconds on 39 brokers."""
BROADCAST, TOPICS = "flooding", "topics"
OF_THE_PAPERS: Final = ("link-matching", "summaries", "overlay", "multicast")
"""One system of each paper, for the sentence."""
SYSTEMS: Final = (
    BROADCAST,
    "link-matching",
    "hybrid",
    "match-first",
    "two-tier",
    "covering",
    "summaries",
    "summaries-side-by-side",
    "overlay",
    "multicast",
)
Step = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class SideBySide:
    """`attribute`: of the topics; empty where no subscription names one value of anything."""

    totals: dict[str, Totals]
    attribute: str
    subscriptions: int
    events: int

    def rows(self) -> list[dict[str, Any]]:
        broadcast = self.totals[BROADCAST]
        topics = self.totals.get(TOPICS)
        wanted = int(broadcast.deliveries.sum())
        return [
            {
                "system": name,
                "messages": each.all_messages,
                "of broadcast": _share(each.all_messages, broadcast.all_messages),
                "of topics": None if topics is None else _share(each.all_messages, topics.all_messages),
                "bytes": each.all_bytes,
                "delivered": int(each.deliveries.sum()),
                "unwanted": int(each.deliveries.sum()) - wanted,
                "cpu_us": 1e6 * each.cpu_s / max(1, self.events),
                "state": float(each.state.mean()),
                "p50_s": _number(each.latency_s(0.5)),
                "p99_s": _number(each.latency_s(0.99)),
            }
            for name, each in self.totals.items()
        ]

    def sentence(self) -> str:
        """What each system of the papers saves, in one sentence."""
        rows = {row["system"]: row for row in self.rows()}
        chosen = [rows[name] for name in OF_THE_PAPERS if name in rows]
        told = f"Against broadcast, {_saved({row['system']: row['of broadcast'] for row in chosen})}"
        if TOPICS in rows:
            unwanted = rows[TOPICS]["unwanted"] / max(1, rows[TOPICS]["delivered"])
            told += (
                f"; against one topic for each {self.attribute}, where {_percent(unwanted)} of what subscribers get is not "
                f"what they asked for, {_saved({row['system']: row['of topics'] for row in chosen})}"
            )
        return told + "."


def _saved(shares: dict[str, float]) -> str:
    """In words, of shares of other messages: "a saves 90 % of the messages, b saves 40 %, and c sends 1.5 times as many"."""
    parts: list[str] = []
    for name, share in shares.items():
        if round(share, 2) >= 1:
            times = "as many" if round(share, 2) == 1 else f"{share:.3g} times as many"
            parts.append(f"{name} sends {times}" + ("" if parts else " messages"))
        else:
            parts.append(f"{name} saves {_percent(1 - share)}" + ("" if parts else " of the messages"))
    return parts[0] if len(parts) < 2 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def side_by_side(
    events: DataFrame, subscriptions: pa.Table, space: Space, topology: Topology, publisher: str, step: Step
) -> SideBySide:
    """`subscriptions`: those that can be read."""
    sample = subscriptions.slice(0, SUBSCRIPTIONS)
    chosen = events.where(F.col(EVENT) < EVENTS).coalesce(1)  # so that one worker tells the subscriptions, and once
    attribute, topics = as_topics(space, sample)
    found: dict[str, Totals] = {}
    for name in (BROADCAST, *([TOPICS] if attribute else []), *(each for each in SYSTEMS if each != BROADCAST)):
        with step(name):
            protocol, wishes = ("link-matching", topics) if name == TOPICS else (name, sample)
            found[name] = route_totals(chosen, wishes, space, topology, [protocol], publisher=publisher)[protocol]
    return SideBySide(found, attribute, sample.num_rows, chosen.count())


def as_topics(space: Space, subscriptions: pa.Table) -> tuple[str, pa.Table]:
    """The attribute that most subscriptions compare with single values, and the subscriptions with their test of it alone."""
    predicates = list(parse_many(space, subscriptions["predicate"]))
    named = Counter(name for each in predicates for name in _named(each))
    if not named:
        return "", subscriptions
    attribute = max(named, key=lambda name: (named[name], -space.position(name)))
    texts = [print_predicate(_only(each, attribute)) for each in predicates]
    at = subscriptions.schema.get_field_index("predicate")
    return attribute, subscriptions.set_column(at, "predicate", pa.array(texts, pa.string()))


def _named(predicate: Predicate) -> set[str]:
    """Attributes of which every alternative names single values."""
    found = [
        {name for name, constraint in each.items if constraint.ranges.values() is not None} for each in predicate.conjunctions
    ]
    return set.intersection(*found) if found else set()


def _only(predicate: Predicate, attribute: str) -> Predicate:
    space = predicate.space
    parts = []
    for each in predicate.conjunctions:
        constraint = each.get(attribute)
        parts.append(Conjunction() if constraint is None else Conjunction.of(space, {attribute: constraint}))
    return Predicate.of(space, parts)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _number(value: float) -> float | None:
    return value if value == value else None


HEADINGS: Final = (
    "system",
    "messages",
    "of broadcast",
    "of topics",
    "unwanted",
    "CPU / event",
    "state / broker",
    "p99",
    "p50",
    "bytes",
)
NARROW_HEADINGS: Final = (
    "system",
    "messages",
    "of\nbroad-\ncast",
    "of\ntopics",
    "un-\nwanted",
    "CPU /\nevent",
    "state /\nbroker",
    "p99",
)
"""The columns that fit a terminal of 80 columns, beneath headings that are no wider than what stands there."""


def shown(rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Cells for people, under HEADINGS."""
    from contentcast.pipeline.report.charts import milliseconds, percent, short, size

    return [
        [
            row["system"],
            short(row["messages"]),
            percent(row["of broadcast"]),
            "-" if row["of topics"] is None else percent(row["of topics"]),
            short(row["unwanted"]),
            f"{row['cpu_us']:,.0f} us",
            size(row["state"]),
            milliseconds(row["p99_s"]),
            milliseconds(row["p50_s"]),
            size(row["bytes"]),
        ]
        for row in rows
    ]
