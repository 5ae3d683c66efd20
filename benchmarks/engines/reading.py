"""reading: nested JSON lines, CSV and Parquet become a batch of events; beside what json.loads takes for the same lines.

`json.loads` only parses: what it gives is a dict, not yet flattened, checked against a space, or a column.
"""

from __future__ import annotations

import csv
import io
import json
import random
import tempfile
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet

import contentcast as cc
from benchmarks.columns import SEED
from benchmarks.report import Result, Table, times
from benchmarks.timing import Timed, in_turns
from contentcast.model import from_json_lines

TARGET_US: Final = 25.0
BAD_ONE_IN: Final = 1_000
LOADS: Final = "json.loads, parsing alone"
LINES: Final = "JSON lines"
KINDS: Final = {
    "id": "string",
    "source": "string",
    "time": "timestamp",
    "detail.state": "string",
    "detail.price": "float",
    "detail.count": "int",
    "detail.user.id": "int",
    "detail.user.country": "string",
    "detail.user.vip": "bool",
    "detail.ip": "string",
    **{f"measure{number}": "float" for number in range(10)},
    **{f"label{number}": "string" for number in range(9)},
}


def run(quick: bool = False) -> Result:
    count, few, rounds = (2_000, 200, 3) if quick else (50_000, 2_000, 7)
    space = cc.Space("orders", KINDS)
    dice = random.Random(SEED)
    events = [_event(number, dice) for number in range(count)]
    lines = [json.dumps(each) for each in events]
    unknown = [line[:-1] + ', "trace": {"span": 5}}' for line in lines]
    bad = [line.replace('"count": ', '"count": "x') if not at % BAD_ONE_IN else line for at, line in enumerate(unknown)]
    batch = from_json_lines(space, lines)
    index = cc.MatchIndex(space)
    index.add_many(range(1000), [f"`detail.count` = {number} AND measure1 < 0.5" for number in range(1000)])
    with tempfile.TemporaryDirectory() as folder:
        parquet, text = Path(folder) / "events.parquet", Path(folder) / "events.csv"
        pyarrow.parquet.write_table(pyarrow.Table.from_batches([batch.records]), parquet)
        text.write_text(_csv(batch.slice(0, few)))
        jobs: dict[str, Any] = {
            LOADS: (count, lambda number: [json.loads(line) for line in lines]),
            LINES: (count, lambda number: from_json_lines(space, lines)),
            "JSON lines, unknown fields ignored": (count, lambda number: from_json_lines(space, unknown, unknown="ignore")),
            f"JSON lines, one in {BAD_ONE_IN:,} is bad": (
                count,
                lambda number: from_json_lines(space, bad, unknown="ignore", on_error="reject"),
            ),
            "dicts": (few, lambda number: cc.EventBatch.from_dicts(space, events[:few])),
            "CSV": (few, lambda number: cc.read_events(text, space)),
            "Parquet": (count, lambda number: cc.read_events(parquet, space)),
            "match_json, one by one, 1,000 subscriptions": (
                few,
                lambda number: [index.match_json(line) for line in lines[:few]],
            ),
        }
        for _, job in jobs.values():
            job(0)
        timed = in_turns(jobs, rounds=rounds)
    return Result(
        "reading",
        "Reading: events as they come, to columns that are checked",
        [
            f"Events of {len(KINDS)} attributes in three levels of nesting, about {len(lines[0])} bytes of JSON each, become "
            f"an `EventBatch` on one core. Medians of {rounds} rounds, all contenders in turns in each round."
        ],
        [_table(timed)],
        _notes(timed),
        {
            "target_us": TARGET_US,
            "contenders": {
                name: {"events": each.units, "seconds": each.seconds, "us_per_event": each.per_unit_s * 1e6}
                for name, each in timed.items()
            },
        },
        quick,
    )


def _event(number: int, dice: random.Random) -> dict[str, Any]:
    user = {"id": number, "country": dice.choice(["DE", "FR", "US"]), "vip": number % 3 == 0}
    detail = {"state": dice.choice(["up", "down"]), "price": dice.random() * 100, "count": dice.randrange(1000), "user": user}
    return {
        "id": f"event-{number}",
        "source": "shop.orders",
        "time": f"2026-03-01T12:{number // 60 % 60:02}:{number % 60:02}.123Z",
        "detail": {**detail, "ip": "10.0.0.1"},
        **{f"measure{each}": dice.random() for each in range(10)},
        **{f"label{each}": f"value {each} {number % 7}" for each in range(9)},
    }


def _csv(batch: cc.EventBatch) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(KINDS))
    writer.writeheader()
    for event in batch.to_dicts():
        writer.writerow({**event, "time": event["time"].isoformat()})
    return file.getvalue()


def _table(timed: dict[str, Timed]) -> Table:
    loads = timed[LOADS].per_unit_s
    rows = [[name, f"{each.per_unit_s * 1e6:.1f}", times(each.per_unit_s / loads)] for name, each in timed.items()]
    return Table("", ["", "us per event", f"times {LOADS.split(',')[0]}"], rows, frozenset([LINES]))


def _notes(timed: dict[str, Timed]) -> list[str]:
    took = timed[LINES].per_unit_s * 1e6
    verdict = "holds" if took <= TARGET_US else "DOES NOT HOLD"
    return [f"Target: JSON lines below {TARGET_US:g} us an event. {verdict}: {took:.1f} us, in the median round."]
