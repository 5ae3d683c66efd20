"""One prepared tree: the conjunctions of some subscriptions, never changed but for the marks of who has been removed.

Rule: everything a search needs is in flat arrays here; a later change makes another part and leaves this one as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.search_tree.codes import Coder, CodeRanges, coder_of
from contentcast.matching.search_tree.encode_few import FEW, code_few
from contentcast.matching.search_tree.grow import grow
from contentcast.matching.search_tree.layout import Layout, Tests, lay_out
from contentcast.matching.search_tree.pattern_sets import PatternTests
from contentcast.matching.search_tree.rows import AttributeTests, Rows
from contentcast.matching.search_tree.walk import Coded, most_pushed, walk
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.space import Space
from contentcast.model.values.list_bytes import list_column

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]

FACTORED_TREES_AT_MOST: Final = 1 << 16
FACTORED_ROWS_AT_MOST: Final = 1 << 22
"""Beyond these, fewer of the chosen attributes are factored on, the first ones."""


class Plan(NamedTuple):
    """How to prepare a tree; see `SearchTree`."""

    order: tuple[str, ...] | None
    factored: tuple[str, ...]
    eliminate_trivial_tests: bool
    delay_branching: bool
    share: bool


class Level(NamedTuple):
    """What the nodes of a level test: the value of an attribute, or the patterns it matches."""

    name: str
    patterns: PatternTests | None


@dataclass(slots=True)
class Part:
    rows: Rows
    levels: tuple[Level, ...]
    factored: tuple[str, ...]
    coders: dict[str, Coder]
    layout: Layout
    stack: int
    alive: Words
    dead: int = 0

    @property
    def ids(self) -> Ints:
        return self.rows.ids

    def __len__(self) -> int:
        return len(self.rows) - self.dead

    # --- who is there

    def position(self, subscription: int) -> int:
        """Where the subscription stands in `ids`, or -1 if it is not here or no more."""
        at = int(self.ids.searchsorted(subscription))
        here = at < len(self.ids) and self.ids[at] == subscription and bool(int(self.alive[at >> 6]) >> (at & 63) & 1)
        return at if here else -1

    def holds(self, ids: Ints) -> npt.NDArray[np.bool_]:
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        found: npt.NDArray[np.bool_] = (self.ids[at] == ids) & self.living[at]
        return found

    def remove(self, position: int) -> None:
        self.alive[position >> 6] &= ~(np.uint64(1) << np.uint64(position & 63))
        self.dead += 1

    def copy(self) -> Part:
        """The same tree with marks of its own."""
        return replace(self, alive=self.alive.copy())

    @property
    def living(self) -> npt.NDArray[np.bool_]:
        return np.unpackbits(self.alive.view(np.uint8), bitorder="little")[: len(self.ids)].astype(bool)

    def living_rows(self) -> Rows:
        return self.rows.kept(self.living) if self.dead else self.rows

    # --- matching

    def code(self, batch: EventBatch) -> Coded:
        """The events as codes: once for each level, whatever the number of nodes."""
        if len(batch) <= FEW:
            return code_few(self, batch)
        kinds = batch.space.kinds
        columns = {name: list_column(kind, batch.records.column(at)) for at, (name, kind) in enumerate(kinds.items())}
        codes = np.empty((len(batch), len(self.levels)), np.int32)
        offsets, items = [0], list[int]()
        for level, (name, patterns) in enumerate(self.levels):
            if patterns is None:
                codes[:, level] = self.coders[name].encode(columns[name])
                continue
            where, sets = patterns.sets(columns[name])
            codes[:, level] = where + np.int32(len(offsets) - 1)
            for each in sets:
                items.extend(each)
                offsets.append(len(items))
        tree = np.zeros(len(batch), np.int64)
        for name in self.factored:
            tree = tree * (self.coders[name].count + 1) + self.coders[name].encode(columns[name])
        return Coded(self.layout.roots[tree], codes, np.array(offsets), np.array(items, np.int32))

    def match(self, batch: EventBatch) -> tuple[Ints, Ints, Ints]:
        layout = self.layout
        arrays = (layout.nodes, layout.entries, layout.runs, layout.table, layout.owners)
        found: tuple[Ints, Ints, Ints] = walk(*arrays, self.stack, self.ids, self.alive, *self.code(batch))
        return found


def prepare(rows: Rows, plan: Plan) -> Part:
    """Tree preparation time."""
    space = rows.space
    coders = {name: coder_of(tests) for name, tests in rows.tests.items()}
    factored = _affordable(rows, coders, plan.factored)
    levels: list[Level] = []
    columns: list[Numbers] = []
    ranges: list[CodeRanges] = []
    for name in _ordered(rows, plan.order):
        tests = rows.tests[name]
        if name not in factored:
            levels.append(Level(name, None))
            columns.append(_without_patterns(tests)[rows.numbers[name]])
            ranges.append(coders[name].ranges)
        patterns, numbers = PatternTests.of(tests.others)
        if len(patterns):
            levels.append(Level(name, patterns))
            columns.append(
                np.concatenate([np.zeros(tests.simple + 1, np.int32), np.array(numbers, np.int32)])[rows.numbers[name]]
            )
            ranges.append(CodeRanges.of([(number, number)] for number in range(1, len(patterns) + 1)))
    which, tree, trees = _factor(space, rows, coders, factored)
    keys = [column[which] for column in columns]
    sort_by: Any = (rows.owner[which], *reversed(keys), tree)
    order = np.lexsort(sort_by)
    matrix = np.empty((len(order), len(keys)), np.int32)
    for level, key in enumerate(keys):
        matrix[:, level] = key[order]
    blocks = np.searchsorted(tree[order], np.arange(trees + 1))
    grown = grow(
        matrix,
        rows.owner[which][order],
        blocks,
        eliminate_trivial_tests=plan.eliminate_trivial_tests,
        share=plan.share,
    )
    set_valued = np.array([level.patterns is not None for level in levels], bool)
    layout = lay_out(grown, len(levels), set_valued, _tests(ranges), delay_branching=plan.delay_branching)
    stack = most_pushed(layout.nodes, layout.runs)
    alive = np.zeros((len(rows.ids) + 63) // 64 + 1, np.uint64)
    alive.view(np.uint8)[: (len(rows.ids) + 7) // 8] = np.packbits(np.ones(len(rows.ids), bool), bitorder="little")
    return Part(rows, tuple(levels), factored, coders, layout, stack, alive)


def _ordered(rows: Rows, order: tuple[str, ...] | None) -> Sequence[str]:
    """Fewest stars nearest the root; among equals the space's order."""
    first = order or ()
    return (*first, *sorted((name for name in rows.space.names if name not in first), key=rows.stars))


def _without_patterns(tests: AttributeTests) -> Numbers:
    """The number of each test at its attribute's own level: a star where the pattern level below says all there is to say."""
    numbers = np.arange(len(tests) + 1, dtype=np.int32)
    for number, each in enumerate(tests.others, start=tests.simple + 1):
        if not each.only_ranges and each.ranges.is_everything:
            numbers[number] = 0
    return numbers


def _tests(ranges: Sequence[CodeRanges]) -> Tests:
    counts = [len(each.offsets) - 1 for each in ranges]
    starts = np.cumsum([0, *(len(each.first) for each in ranges)])
    offsets = [each.offsets[:-1] + start for each, start in zip(ranges, starts, strict=False)]
    nothing = np.empty(0, np.int32)
    return Tests(
        np.cumsum([0, *counts]),
        np.concatenate([*offsets, starts[-1:]]).astype(np.int64),
        np.concatenate([nothing, *(each.first for each in ranges)]).astype(np.int32),
        np.concatenate([nothing, *(each.last for each in ranges)]).astype(np.int32),
    )


# --- factoring


def _affordable(rows: Rows, coders: dict[str, Coder], chosen: Collection[str]) -> tuple[str, ...]:
    """The first of the chosen attributes whose sub-trees, and the conjunctions in them, stay within the bounds."""
    taken: list[str] = []
    trees, copies = 1, np.ones(len(rows.owner))
    for name in chosen:
        sizes = np.array([len(each) for each in _codes_of(rows.space, coders, name)], float)
        trees *= coders[name].count + 1
        copies = copies * sizes[rows.numbers[name]]
        if trees > FACTORED_TREES_AT_MOST or copies.sum() > FACTORED_ROWS_AT_MOST:
            break
        taken.append(name)
    return tuple(taken)


def _codes_of(space: Space, coders: dict[str, Coder], name: str) -> list[Ints]:
    """The codes of each test; of the star, all that an event can have."""
    coder = coders[name]
    ranges = coder.ranges
    found = [np.flatnonzero(coder.possible(space[name]))]
    for test in range(1, len(ranges.offsets) - 1):
        span = range(ranges.offsets[test], ranges.offsets[test + 1])
        pieces = [np.arange(ranges.first[each], ranges.last[each] + 1, dtype=np.int64) for each in span]
        found.append(np.concatenate([np.empty(0, np.int64), *pieces]))
    return found


def _factor(space: Space, rows: Rows, coders: dict[str, Coder], factored: Sequence[str]) -> tuple[Ints, Ints, int]:
    """(conjunction, sub-tree) for every sub-tree that a conjunction belongs to, and how many sub-trees there are.

    A conjunction that does not care about a factored attribute belongs to the sub-trees of all its values, and of absent.
    """
    which, tree, trees = np.arange(len(rows.owner)), np.zeros(len(rows.owner), np.int64), 1
    for name in factored:
        codes = _codes_of(space, coders, name)
        sizes = np.array([len(each) for each in codes])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        flat = np.concatenate(codes)
        test = rows.numbers[name][which]
        copies = sizes[test]
        ends = np.cumsum(copies)
        inside = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - copies, copies)
        width = coders[name].count + 1
        tree = np.repeat(tree, copies) * width + flat[np.repeat(starts[test], copies) + inside]
        which = np.repeat(which, copies)
        trees *= width
    return which, tree, trees
