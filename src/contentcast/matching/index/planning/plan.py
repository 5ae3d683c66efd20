"""Where entries are filed: the gates, chosen from the entries' own statistics.

Every entry is filed behind one gate, so that an event looks only at the entries behind the gates that it opens:

    equal    the codes of one or more attributes, looked up in a table           symbol = 'IBM' AND exchange = 'NYSE'
    cells    the cells of a grid over one attribute's keys into which the event falls (`grids`)   price BETWEEN 8.3 AND 8.7
    text     the numbers of the text constraints that the event's value satisfies   venue LIKE '%dark%'
    open     none: looked at for every event

The plan is made by a greedy choice under a small cost model (nanoseconds, measured on the kernels): each round takes the gate
that saves most over the entries still badly filed, until a gate costs more to look up than it saves.
Rule: the plan decides speed only; any assignment gives the same matches.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.planning.gates import CANDIDATE_NS, OPEN_GATE, PROBE_NS, TEST_NS, Gate
from contentcast.matching.index.planning.grids import Grid, level_of, share, with_levels
from contentcast.matching.index.values.dictionaries import ABSENT_KEY
from contentcast.matching.index.values.entries import Attributes, Entries
from contentcast.model.values.keys import key_ends

SAMPLED_ENTRIES: Final = 6000
"""Entries whose gates are weighed against each other; all others then take the best of those that were chosen."""
MOST_GATES: Final = 48
HALF_BITS: Final = 31
"""Bits that are used of half a word; an entry is compared with half a word at a time."""
SPARE_BITS: Final = 6
"""Bits that are kept for an attribute that nobody compares for equality yet."""
SPARE_HALVES: Final = 4
"""Halves of words up to which bits are kept so, or as many as the dictionaries need."""
USUAL_CELLS: Final = 3
"""Cells that a range is taken to lie in before the levels of its grid are chosen."""
SMALLEST_GAIN_NS: Final = 2.0
ASKED_AT_ONCE: Final = 16
"""Gates whose gains are asked again in one step."""

Result = TypeVar("Result")
Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Plan:
    """Which gate each entry is filed behind, the grid of each attribute that has one, and what an event will cost, about."""

    gates: list[Gate]
    chosen: npt.NDArray[np.int32]
    grids: dict[str, Grid]
    cost_ns: float = 0.0


def finished(steps: Generator[int, None, Result]) -> Result:
    """What work in steps comes to, all of them done now."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Result, end.value)


def lay_out_words(
    attributes: Attributes, entries: Entries, expected: dict[str, int]
) -> tuple[int, dict[str, tuple[int, int, int]]]:
    """Give each dictionary its bits in half a word, with room to grow, the most used ones first.

    `expected`: how many values an attribute will have at least, if more than there are now. Returns how many words, and what
    is set aside for attributes that nobody compares yet: word, shift and bits.
    """
    uses = {name: len(entries.columns[form, name].entry) for form, name in entries.columns if form == "equal"}
    half, at = 0, 0
    for name in sorted(attributes.dictionaries, key=lambda name: -uses.get(name, 0)):
        dictionary = attributes.dictionaries[name]
        bits = max(3, (4 * max(len(dictionary), expected.get(name, 0)) + 2).bit_length())
        if at + bits > HALF_BITS:
            half, at = half + 1, 0
        dictionary.word, dictionary.shift, dictionary.bits = half // 2, 32 * (half % 2) + at, bits
        at += bits
    spare = {}
    most_halves = max(SPARE_HALVES, half + 1)
    for name in attributes.space.names:
        if name in attributes.dictionaries:
            continue
        if at + SPARE_BITS > HALF_BITS:
            half, at = half + 1, 0
        if half == most_halves:
            half -= 1
            break
        spare[name] = half // 2, 32 * (half % 2) + at, SPARE_BITS
        at += SPARE_BITS
    return half // 2 + 1, spare


def plan_steps(attributes: Attributes, entries: Entries, masks: Ints, rows: Ints, times: float) -> Generator[int, None, Plan]:
    """A plan for these rows of the entries; `masks`: under which bits of the words an entry has values, [word, entry].

    Each row stands for so many `times` as many. Stops after each of its steps, which are short, and says how much it was, in
    the time that filing an entry takes.
    """
    count = len(rows)
    gates: list[Gate] = [OPEN_GATE]
    chosen = np.zeros(entries.count, np.int32)
    if not count:
        return Plan(gates, chosen, {})
    sample = rows[:: max(1, count // SAMPLED_ENTRIES)]
    weight = times * count / len(sample)
    cost = np.full(len(sample), 1.0)  # the share of events that come to look at the entry
    candidates = _Candidates(attributes, entries, masks, sample, times)
    yield len(sample) // 8
    waiting: list[tuple[float, int, Gate]] = []
    order = 0

    def gain(gate: Gate) -> float:
        saved = np.maximum(cost - candidates.shares(gate), 0.0).sum() * weight * (CANDIDATE_NS + TEST_NS)
        return float(saved) - candidates.probe_ns(gate)

    for gate in candidates.first():
        if gate.kind == "cells":
            candidates.make_grid(gate.attribute)
            yield entries.count // 16
            for _ in candidates.find_cells(gate.attribute):
                yield entries.count // 16
        heapq.heappush(waiting, (-gain(gate), order, gate))
        order += 1
        yield entries.count // 16 if gate.kind == "cells" else len(sample) // 64
    seen = {gate for _, _, gate in waiting}
    asked = 0
    while waiting and len(gates) < MOST_GATES:
        asked += 1
        if asked % ASKED_AT_ONCE == 0:
            yield ASKED_AT_ONCE * len(sample) // 512
        # Gains only shrink as others are chosen, so the best is found by asking the top again (lazy greedy).
        _, _, gate = heapq.heappop(waiting)
        now = gain(gate)
        if waiting and now < -waiting[0][0]:
            if now > SMALLEST_GAIN_NS:
                heapq.heappush(waiting, (-now, order, gate))
                order += 1
            continue
        if now <= SMALLEST_GAIN_NS:
            break
        cost = np.minimum(cost, candidates.shares(gate))
        gates.append(gate)
        for wider in candidates.extensions(gate):
            if wider not in seen:
                seen.add(wider)
                heapq.heappush(waiting, (-gain(wider), order, wider))
                order += 1
                yield len(sample) // 64
    everything = _Candidates(attributes, entries, masks, rows, times)
    everything.share_grids(candidates)
    yield count // 16
    best = np.ones(count)
    for number, gate in enumerate(gates[1:], start=1):
        shares = everything.shares(gate)
        better = shares < best
        chosen[rows[better]] = number
        best[better] = shares[better]
        yield count // (16 if gate.kind == "cells" else 64)
    used = sorted(set(chosen.tolist()) | {0})
    renumbered = np.zeros(len(gates), np.int32)
    renumbered[used] = np.arange(len(used))
    kept = [gates[number] for number in used]
    grids = {}
    for number, gate in enumerate(kept):
        if gate.kind == "cells":
            grids[gate.attribute] = everything.grid(gate.attribute, renumbered[chosen] == number)
            yield count // 16
    cost_ns = sum(everything.probe_ns(gate) for gate in kept[1:]) + float(best.sum()) * times * (CANDIDATE_NS + TEST_NS)
    return Plan(kept, renumbered[chosen], grids, cost_ns)


class _Candidates:
    """The gates that could be chosen, and for each entry the share of events that would open it there."""

    def __init__(self, attributes: Attributes, entries: Entries, masks: Ints, rows: Ints, times: float) -> None:
        self.attributes, self.entries, self.masks, self.rows, self.times = attributes, entries, masks, rows, times
        self.place = np.full(entries.count, -1, np.int64)
        self.place[rows] = np.arange(len(rows))
        self.fields = {
            name: (each.word, ((1 << each.bits) - 1) << each.shift) for name, each in attributes.dictionaries.items()
        }
        self.odds = {name: self._odds(name) for name in self.fields}
        self._grids: dict[str, tuple[Ints, Any]] = {}
        self._cells: dict[str, Ints] = {}
        self._shares: dict[Gate, Any] = {}

    def _odds(self, name: str) -> Any:
        """For each entry how likely an event has the code it asks for: half as often as entries ask for it, half evenly."""
        found = np.ones(len(self.rows))
        column = self.entries.columns.get(("equal", name))
        if column is None or not len(column.value):
            return found
        counts = np.bincount(column.value)
        odds = 0.5 * counts / counts.sum() + 0.5 / (len(self.attributes.dictionaries[name]) + 1)
        at = self.place[column.entry]
        found[at[at >= 0]] = odds[column.value[at >= 0]]
        return found

    def first(self) -> list[Gate]:
        singles = [Gate("equal", word, mask) for word, mask in self.fields.values()]
        names = list(self.fields)
        top = sorted(names, key=lambda name: -self._use(name))[:40]
        pairs = [
            Gate("equal", self.fields[one][0], self.fields[one][1] | self.fields[other][1])
            for i, one in enumerate(top)
            for other in top[i + 1 :]
            if self.fields[one][0] == self.fields[other][0]
        ]
        cells = [Gate("cells", attribute=name) for form, name in self.entries.columns if form == "range"]
        texts = [Gate("text", attribute=name) for form, name in self.entries.columns if form == "text"]
        return [*singles, *pairs, *cells, *texts]

    def _use(self, name: str) -> int:
        column = self.entries.columns.get(("equal", name))
        return 0 if column is None else len(column.entry)

    def extensions(self, gate: Gate) -> list[Gate]:
        if gate.kind != "equal":
            return []
        return [
            Gate("equal", gate.word, gate.mask | mask)
            for word, mask in self.fields.values()
            if word == gate.word and not mask & gate.mask
        ]

    def probe_ns(self, gate: Gate) -> float:
        return PROBE_NS * {"equal": 1.0, "cells": 3.0, "text": 2.0}[gate.kind]

    def shares(self, gate: Gate) -> Any:
        if gate not in self._shares:
            self._shares[gate] = self._compute(gate)
        return self._shares[gate]

    def _compute(self, gate: Gate) -> Any:
        shares = np.ones(len(self.rows))
        if gate.kind == "equal":
            fits = (self.masks[gate.word, self.rows] & gate.mask) == gate.mask
            for name, (word, mask) in self.fields.items():
                if word == gate.word and mask & gate.mask:
                    shares[fits] *= self.odds[name][fits]
            return shares
        form = "range" if gate.kind == "cells" else "text"
        column = self.entries.columns[form, gate.attribute]
        at = self.place[column.entry]
        mine = at >= 0
        if gate.kind == "text":
            positive = mine & (column.value & 3 == 0)  # only what is filed by what holds can be found by it
            shares[at[positive]] = 0.01
            return shares
        below, first, last = self._spans(gate.attribute, mine)
        shares[at[mine]] = share(below, first, last, level_of(first, last, USUAL_CELLS))
        return shares

    def share_grids(self, other: _Candidates) -> None:
        """Grids are those of all the entries, whatever the rows."""
        self._grids = other._grids
        if len(self.rows) == len(other.rows):
            self._cells = other._cells

    def grid(self, name: str, behind: Any) -> Grid:
        """The grid for those entries behind its gate."""
        below, first, last = self._spans(name, behind[self.entries.columns["range", name].entry])
        return with_levels(self._grids[name][0], below, first, last, self.times)

    def _spans(self, name: str, rows: Any) -> tuple[Any, Ints, Ints]:
        """The share of events below each cell, and the cells that these rows of the attribute's ranges reach from and to."""
        if name not in self._cells:
            for _ in self.find_cells(name):
                pass
        first, last = self._cells[name]
        return self._grids[name][1], first[rows], last[rows]

    def find_cells(self, name: str) -> Iterator[None]:
        """In which cells of its grid the attribute's ranges begin, of these rows, and then in which they end."""
        column = self.entries.columns["range", name]
        mine, found = self.place[column.entry] >= 0, np.zeros((2, len(column.entry)), np.int64)
        for cells, keys in zip(found, (column.value, column.last), strict=True):
            cells[mine] = np.searchsorted(self._grids[name][0], keys[mine], "right")
            yield
        self._cells[name] = found

    def make_grid(self, name: str) -> None:
        """Cut points at the quantiles of the ranges' own ends, so that every cell has about as much to hold, and the share of
        events below each cell, if they lie where the ranges begin and end.
        """
        column = self.entries.columns["range", name]
        least, greatest = key_ends(self.attributes.space.kinds[name])
        below, above = column.value > max(least, ABSENT_KEY + 1), column.last < greatest
        ends = np.sort(np.concatenate([column.value[below], column.last[above]]))
        cells = int(min(max(self.times * len(ends) // 4, 16), 1 << 15))
        cuts = ends[:: max(1, len(ends) // cells)]
        grid = cuts[np.flatnonzero(np.diff(cuts, prepend=cuts[0] - 1))] if len(cuts) else cuts
        counts = np.diff(np.searchsorted(ends, grid), prepend=0, append=len(ends)) + 0.1
        self._grids[name] = grid, np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
