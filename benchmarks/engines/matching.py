"""matching: events per second of `MatchIndex` and its peers, one thread, one run, all pairs of (event, subscription) given out.

Every contender must find the same pairs on a sample before it is measured. A peer that tries each rule on each event is
measured with a sample of the rules, and its speed divided up accordingly.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final

import numpy as np
import pyarrow as pa

import contentcast as cc
from benchmarks.columns import BATCH, COLUMNS, QUICK, Column, Workload
from benchmarks.engines.alone import ours_alone
from benchmarks.peers import PEERS, Index, Matches, Peer, Rules, Unsuitable
from benchmarks.report import Result, Table, human, times
from benchmarks.timing import Timed, in_turns, largest_that_fits

OURS: Final = "contentcast"
NOT_BUILT_YET: Final = "not built yet"
SAMPLED_RULES: Final = 1_000
CHECKED_EVENTS: Final = 30
BATCHES: Final = 4
"""Different ones, taken in turns."""

TURN_S: Final = 0.1
"""A contender that takes less is called several times in its turn, and once before that without counting."""

PATIENCE: Final = 5
"""A whole batch may take that many budgets, though it is then measured once: most peers need whole batches to be quick."""

ONE_BY_ONE: Final = frozenset(peer.name for peer in PEERS if peer.each_rule)


class Disagreement(AssertionError):
    """A contender finds other pairs than the first one does: no number of this run means anything."""


@dataclass
class Cell:
    """One contender in one column."""

    events_per_s: float | None = None
    reason: str = ""
    built_s: float = 0.0
    batch: int = 0
    rules: int = 0
    pairs_per_event: float = 0.0
    seconds: list[float] = field(default_factory=list)

    def text(self, column: Column) -> str:
        if self.events_per_s is None:
            return self.reason if self.reason == NOT_BUILT_YET else "-"
        marks = ("~" if self.rules < column.subscriptions else "") + human(self.events_per_s)
        return marks + ("*" if self.batch < BATCH else "")


class Ours:
    """`cc.MatchIndex` with the peers' interface."""

    def __init__(self, space: cc.Space, predicates: pa.Array) -> None:
        self._index: Any = cc.MatchIndex(space)
        self._index.add_many(pa.array(np.arange(len(predicates))), predicates)

    def match(self, events: pa.RecordBatch) -> Matches:
        found = self._index.match_batch(events)
        return Matches(found["subscription"].to_numpy(), event=found["event"].to_numpy())


def run(
    quick: bool = False, *, columns: tuple[Column, ...] | None = None, say: Callable[[str], None] = lambda text: None
) -> Result:
    columns = columns or (QUICK if quick else COLUMNS)
    rounds, budget_s = (3, 1.0) if quick else (5, 5.0)
    cells: dict[str, dict[str, Cell]] = {}
    alone = [] if columns not in (QUICK, COLUMNS) else ours_alone(quick, say)
    for column in columns:
        cells[column.name] = measure(column, rounds=rounds, budget_s=budget_s, say=say)
    return Result(
        "matching",
        "Matching: events per second",
        [
            f"Events per second on one thread, in batches of {BATCH:,}, every (event, subscription) pair given out. Medians of "
            f"at most {rounds} rounds within about {budget_s:g} s for each cell, all contenders in turns in each round, the "
            "quick ones several times in their turn and once before it without counting. W1: 10 "
            "attributes of 3 values. W1b: 30 of 30. W2: market data, W2c with hot symbols. strings: prefixes, suffixes and "
            "inner parts of 10,000 names. The number is that of subscriptions.",
        ],
        [_table(columns, cells), *alone],
        _notes(columns, cells),
        {"columns": {name: {who: vars(cell) for who, cell in each.items()} for name, each in cells.items()}},
        quick,
    )


# --- one column


def measure(column: Column, *, rounds: int, budget_s: float, say: Callable[[str], None]) -> dict[str, Cell]:
    workload = column.workload
    batches = [workload.events(BATCH, number * BATCH) for number in range(BATCHES)]
    say(f"{column.name}: reading the predicates")
    rules = Rules.of(workload.space, workload.predicates)
    cells: dict[str, Cell] = {}
    built: dict[str, Index] = {}
    for name, count, build in _contenders(workload, rules):
        say(f"{column.name}: building {name}")
        started = perf_counter()
        try:
            built[name] = build()
            cells[name] = Cell(rules=count, built_s=perf_counter() - started)
        except Unsuitable as reason:
            cells[name] = Cell(reason=str(reason))
    say(f"{column.name}: comparing")
    check(built, cells, batches[0].slice(0, CHECKED_EVENTS))
    jobs = {}
    for name, index in built.items():
        say(f"{column.name}: trying {name}")
        cell = cells[name]
        patience_s = budget_s / rounds if name in ONE_BY_ONE else PATIENCE * budget_s
        cell.batch = largest_that_fits(_matching(index, batches[0]), most=BATCH, patience_s=patience_s)
        jobs[name] = (cell.batch, _in_turn(index, [batch.slice(0, cell.batch) for batch in batches]))
    say(f"{column.name}: measuring")
    for name, timed in in_turns(jobs, rounds=rounds, budget_s=budget_s, turn_s=TURN_S).items():
        _keep(cells[name], timed, column, built[name], batches[0])
    gc.collect()
    return cells


def _contenders(workload: Workload, rules: Rules) -> list[tuple[str, int, Callable[[], Index]]]:
    sampled = min(SAMPLED_RULES, rules.count)
    some = Rules.of(workload.space, workload.predicates.slice(0, sampled))
    found: list[tuple[str, int, Callable[[], Index]]] = [(OURS, rules.count, lambda: _ours(workload))]
    for peer in PEERS:
        given = some if peer.each_rule else rules
        found.append((peer.name, given.count, lambda peer=peer, given=given: _peer(peer, given)))  # type: ignore[misc] # defaults bind
    return found


def _ours(workload: Workload) -> Index:
    if not hasattr(cc, "MatchIndex"):
        raise Unsuitable(NOT_BUILT_YET)
    return Ours(workload.space, workload.predicates)


def _peer(peer: Peer, rules: Rules) -> Index:
    if not peer.installed:
        raise Unsuitable("not installed; the extra `bench` has it")
    return peer.build(rules)


def check(built: dict[str, Index], cells: dict[str, Cell], events: pa.RecordBatch) -> None:
    """All find the same pairs, each among the rules that it has."""
    found = {name: index.match(events).pairs() for name, index in built.items()}
    most = max((cells[name].rules for name in found), default=0)
    first = next((name for name in found if cells[name].rules == most), "")
    for name, (event, rule) in found.items():
        expected_event, expected_rule = found[first]
        known = expected_rule < cells[name].rules
        if not (np.array_equal(event, expected_event[known]) and np.array_equal(rule, expected_rule[known])):
            raise Disagreement(f"{name} finds {len(rule)} pairs and {first} {int(known.sum())}, or others")


def _matching(index: Index, batch: pa.RecordBatch) -> Callable[[int], object]:
    return lambda events: index.match(batch.slice(0, events))


def _in_turn(index: Index, batches: list[pa.RecordBatch]) -> Callable[[int], object]:
    return lambda number: index.match(batches[number % len(batches)])


def _keep(cell: Cell, timed: Timed, column: Column, index: Index, batch: pa.RecordBatch) -> None:
    cell.seconds = timed.seconds
    cell.events_per_s = timed.per_s * cell.rules / column.subscriptions
    events = batch.slice(0, min(cell.batch, 1_000))
    cell.pairs_per_event = len(index.match(events)) / events.num_rows


# --- the table


def _table(columns: tuple[Column, ...], cells: dict[str, dict[str, Cell]]) -> Table:
    header = ["", *(column.name for column in columns)]
    rows = [[name, *(cells[column.name][name].text(column) for column in columns)] for name in (OURS, *_names())]
    to_thin, to_any = "ratio to the best peer", "ratio to the best, prepared by hand"
    rows.append([to_thin, *(_ratio(cells[column.name], thin_only=True) for column in columns)])
    rows.append([to_any, *(_ratio(cells[column.name], thin_only=False) for column in columns)])
    return Table("", header, rows, frozenset([OURS, to_thin]))


def _names() -> list[str]:
    return [peer.name for peer in PEERS]


def best_peer(cells: dict[str, Cell], *, thin_only: bool) -> tuple[str, float]:
    known = [(peer.name, cells[peer.name].events_per_s) for peer in PEERS if peer.thin or not thin_only]
    return max(((name, speed) for name, speed in known if speed is not None), key=lambda each: each[1], default=("", 0.0))


def _ratio(cells: dict[str, Cell], *, thin_only: bool) -> str:
    ours, (_, best) = cells[OURS].events_per_s, best_peer(cells, thin_only=thin_only)
    return times(ours / best) if ours is not None and best else ""


def _notes(columns: tuple[Column, ...], cells: dict[str, dict[str, Cell]]) -> list[str]:
    notes = []
    for column in columns:
        name, speed = best_peer(cells[column.name], thin_only=True)
        pairs = max(cell.pairs_per_event for who, cell in cells[column.name].items() if cell.rules == column.subscriptions)
        notes.append(f"{column.name}: {pairs:.3g} subscriptions match an event; best peer {name}, {human(speed)} events/s.")
    notes.append(f"~ measured with {SAMPLED_RULES:,} of the subscriptions and divided up: such a peer tries them one by one.")
    notes.append(f"* too slow for {BATCH:,} events within its time, measured with fewer.")
    reasons: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        for who, cell in cells[column.name].items():
            if cell.reason and cell.reason != NOT_BUILT_YET:
                reasons.setdefault((who, cell.reason), []).append(column.name)
    notes += [f"{who}, {', '.join(where)}: {reason}." for (who, reason), where in reasons.items()]
    notes += [f"{peer.name}: {peer.what}{'' if peer.thin else ' (prepared by hand)'}." for peer in PEERS]
    return notes
