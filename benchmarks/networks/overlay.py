"""The overlay: keys by columns beside one subscription at a time, and a ring of 5,000 nodes counted by m-cast.

`make bench ARGS=overlay`. The scenario `overlay`; CPU seconds of the one thread. The ring is the settled one in memory on which
the experiments count hops; the real routers with clock and messages are slower by far.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.report import Result, Table, human, times
from contentcast.language import parse_many
from contentcast.model import EventBatch
from contentcast.routing.chord.model import RingModel
from contentcast.routing.overlay.mappings import MAPPINGS, KeyMapping
from contentcast.workload import scenario

SUBSCRIPTIONS, EVENTS, ONE_BY_ONE, NODES, CAST = 200_000, 200_000, 300, 5_000, 2_000
STANDING, PUBLISHED = 25_000, 5_000
TARGET_PER_S = 1_000_000
TARGET_S = 180.0


def took(run: Callable[[], Any], runs: int = 3) -> float:
    found = []
    for _ in range(runs):
        begin = time.thread_time()
        run()
        found.append(time.thread_time() - begin)
    return min(found)


def keys(scale: float) -> list[dict[str, Any]]:
    """SK and EK by columns, 13-bit keys, beside SK of one subscription at a time"""
    drawn = scenario("overlay")
    count = int(SUBSCRIPTIONS * scale)
    table = parse_many(drawn.space, drawn.subscriptions(count)["predicate"])
    events = EventBatch.from_arrow(drawn.space, drawn.events(int(EVENTS * scale)))
    singles = [table[at] for at in range(ONE_BY_ONE)]
    found = []
    for name in MAPPINGS:
        mapping = KeyMapping(name, 13).in_space(drawn.space)
        sk = len(table) / took(lambda: mapping.subscription_keys(table))  # noqa: B023 - called at once
        ek = len(events) / took(lambda: mapping.event_keys(events))  # noqa: B023 - called at once
        one = ONE_BY_ONE / took(lambda: [mapping.sk(each) for each in singles], 1)  # noqa: B023 - called at once
        found.append(
            {
                "mapping": name,
                "SK, subscriptions/s": human(sk),
                "EK, events/s": human(ek),
                "SK one by one": human(one),
                "columns to one by one": times(sk / one),
                "per_s": min(sk, ek),
            }
        )
    return found


def casting(scale: float) -> list[dict[str, Any]]:
    """Subscriptions to a settled ring of 5,000 nodes in memory: m-cast beside a message to every key"""
    drawn = scenario("overlay", nodes=NODES)
    count = max(50, int(CAST * scale))
    table = parse_many(drawn.space, drawn.subscriptions(count)["predicate"])
    mapping = KeyMapping("selective-attribute", 13).in_space(drawn.space)
    ring = RingModel.random(NODES, 13, 1, cached=32)
    ranges = [mapping.sk(table[at]) for at in range(count)]
    messages: dict[str, int] = {}

    def cast() -> None:
        messages["m-cast"] = sum(ring.mcast(at % NODES, each).messages for at, each in enumerate(ranges))

    def unicast() -> None:
        messages["unicast"] = sum(ring.aggressive(at % NODES, each).messages for at, each in enumerate(ranges))

    seconds = {"m-cast": took(cast, 1), "unicast": took(unicast, 1)}
    return [
        {
            "way": way,
            "messages of a subscription": f"{messages[way] / count:.1f}",
            "subscriptions/s counted": human(count / seconds[way]),
            "messages to m-cast": times(messages[way] / messages["m-cast"]),
        }
        for way in seconds
    ]


def network(scale: float) -> list[dict[str, Any]]:
    """5,000 nodes, 25,000 subscriptions and 5,000 publications by m-cast, on the ring in memory: all of it on one core"""
    standing, published = int(STANDING * scale), int(PUBLISHED * scale)
    drawn = scenario("overlay", nodes=NODES, standing=standing)
    table = parse_many(drawn.space, drawn.subscriptions(standing)["predicate"])
    events = EventBatch.from_arrow(drawn.space, drawn.events(published))
    found = []
    for name in MAPPINGS[1:]:
        mapping = KeyMapping(name, 13).in_space(drawn.space)
        ring = RingModel.random(NODES, 13, 1, cached=32)
        messages = {"subscriptions": 0, "publications": 0}

        def send() -> None:
            targets = mapping.subscription_keys(table)  # noqa: B023 - called at once
            order = np.argsort(targets.rows, kind="stable")
            starts = np.searchsorted(targets.rows[order], np.arange(standing + 1))
            pairs = list(zip(targets.lows[order].tolist(), targets.highs[order].tolist(), strict=True))
            for at in range(standing):
                ranges = pairs[int(starts[at]) : int(starts[at + 1])]
                messages["subscriptions"] += ring.mcast(at % NODES, ranges).messages  # noqa: B023 - called at once
            rows, event_keys = mapping.event_keys(events)  # noqa: B023 - called at once
            ways: list[list[tuple[int, int]]] = [[] for _ in range(published)]
            for row, key in zip(rows.tolist(), event_keys.tolist(), strict=True):
                ways[row].append((key, key))
            for at, ranges in enumerate(ways):
                messages["publications"] += ring.mcast(at % NODES, ranges).messages  # noqa: B023 - called at once

        seconds = took(send, 1) / scale
        found.append(
            {
                "mapping": name,
                "messages of a subscription": f"{messages['subscriptions'] / standing:.1f}",
                "messages of a publication": f"{messages['publications'] / published:.1f}",
                "CPU seconds": f"{seconds:.0f}",
                "seconds": seconds,
            }
        )
    return found


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    header = [name for name in rows[0] if name not in ("per_s", "seconds")]
    return Table(title, header, [[str(row[name]) for name in header] for row in rows])


def run(quick: bool = False) -> Result:
    scale = 0.05 if quick else 1.0
    found = {each.__name__: each(scale) for each in (keys, casting, network)}
    slowest = min(row["per_s"] for row in found["keys"])
    reached = "reached" if slowest >= TARGET_PER_S else "missed"
    longest = max(row["seconds"] for row in found["network"])
    in_time = "reached" if longest <= TARGET_S else "missed"
    notes = (
        []
        if quick
        else [
            f"Target {human(TARGET_PER_S)} keys a second by columns: {reached} ({human(slowest)}, the slowest).",
            f"Target {TARGET_S:.0f} s for the network of 5,000 nodes: {in_time} ({longest:.0f} s, the slower mapping).",
        ]
    )
    about = ["The overlay (Baldoni et al. 2005): how fast subscriptions and events become keys, and what m-cast saves."]
    tables = [_table(str(each.__doc__), found[each.__name__]) for each in (keys, casting, network)]
    return Result("overlay", "The structured overlay", about, tables, notes, {"tables": found}, quick)
