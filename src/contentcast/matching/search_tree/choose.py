"""The tree's attribute order and factoring, chosen for the events that come and not only for the subscriptions.

Banavar et al. 1999, section 2.1, puts the attributes with the fewest stars next to the root and factors on those that have few
values and few stars. That looks at subscriptions alone. With a sample of events one can count: an order is as good as the steps
that the sample takes in a tree that is prepared with it. So the paper's order, and the order by how many conjunctions an event
leaves alive, are tried first; then single attributes are moved while that saves steps, and the tree is factored on one
attribute after the other while that saves steps and stays within the memory.
Rule: every choice is judged by steps counted in a real tree; the choice changes speed and memory, never a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.search_tree.codes import Coder, coder_of
from contentcast.matching.search_tree.rows import Rows
from contentcast.matching.search_tree.tree import SearchTree
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space
from contentcast.model.values.list_bytes import list_column

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

TREES_TRIED: Final = 80
NBYTES_TRIED: Final = 64_000_000
"""For the order, whichever comes first. Market data needs 40 trees of 0.3 MB until no move saves anything; with trees of 10 MB,
as 25,000 subscriptions of w1b make, 80 of them gained nothing."""
MOVED_AT_MOST: Final = 12
"""Attributes that are moved, those first that leave fewest conjunctions alive."""
SUBSCRIPTIONS_TRIED: Final = 20_000
COPIES_AT_MOST: Final = 16.0
"""A conjunction stands in as many sub-trees as there are values that it accepts. Sharing keeps their memory small, but each of
them takes its time when the tree is prepared."""
FACTORED_AT_MOST: Final = 4
MEMORY_RATIO: Final = 4.0
WORTH: Final = 0.98
FACTORING_WORTH: Final = 0.95


class Tested(NamedTuple):
    """What subscriptions and a sample of events say about one attribute.

    `stars`: the share of conjunctions that do not test it. `selectivity`: the share of events that pass a test of it, in the
    mean over the conjunctions that have one. `survivors`: the share of conjunctions that an event leaves alive. `branches`: how
    many different tests of it an event passes. `copies`: in how many sub-trees a conjunction stands if it is factored on. A
    LIKE pattern counts as the range of its prefix.
    """

    stars: float
    selectivity: float
    survivors: float
    branches: float
    tests: int
    copies: float


class Choice(NamedTuple):
    """Steps per event of the sample and bytes of the tree, beside those of the paper's rule alone."""

    order: tuple[str, ...]
    factored: tuple[str, ...]
    steps: float
    steps_before: float
    nbytes: int
    nbytes_before: int


def weigh(table: PredicateTable, sample: EventBatch) -> dict[str, Tested]:
    rows = Rows.of(np.arange(len(table), dtype=np.int64), table)
    found = {}
    for at, name in enumerate(table.space.names):
        coder = coder_of(rows.tests[name])
        asked = np.bincount(rows.numbers[name], minlength=len(rows.tests[name]) + 1)
        column = list_column(table.space.kinds[name], sample.records.column(at))
        codes = np.bincount(coder.encode(column), minlength=coder.count + 1)
        passed = _over_ranges(coder, codes / max(len(sample), 1))
        sizes = _over_ranges(coder, np.ones(coder.count + 1))
        sizes[0] = coder.possible(table.space[name]).sum()
        total, cares = max(asked.sum(), 1), max(asked[1:].sum(), 1)
        alive = asked[1:] @ passed[1:]
        found[name] = Tested(
            float(asked[0] / total),
            float(alive / cares),
            float((asked[0] + alive) / total),
            float(passed[1:].sum()),
            len(passed) - 1,
            float(asked @ sizes / total),
        )
    return found


def _over_ranges(coder: Coder, weights: Floats) -> Floats:
    """For each test, the star first, the weights of its codes."""
    ranges = coder.ranges
    before = np.concatenate([[0.0], np.cumsum(weights)])
    pieces = before[ranges.last.astype(np.int64) + 1] - before[ranges.first.astype(np.int64)]
    whole = np.concatenate([[0.0], np.cumsum(pieces)])
    found: Floats = whole[ranges.offsets[1:]] - whole[ranges.offsets[:-1]]
    return np.maximum(found, 0.0)


def fewest_stars_first(table: PredicateTable) -> tuple[str, ...]:
    """The paper's order, which a tree takes without being told."""
    asked = {name: len(column.conjunction) for name, column in table.columns.items()}
    return tuple(sorted(table.space.names, key=lambda name: -asked.get(name, 0)))


def choose(table: PredicateTable, sample: EventBatch, *, nbytes_at_most: int | None = None) -> Choice:
    """`nbytes_at_most`: of the factored tree; without it, MEMORY_RATIO times the tree that is not factored."""
    space = table.space
    by_stars = fewest_stars_first(table)
    if len(table) > SUBSCRIPTIONS_TRIED:
        share = len(table) / SUBSCRIPTIONS_TRIED
        table = table.take(np.unique(np.linspace(0, len(table) - 1, SUBSCRIPTIONS_TRIED).astype(np.int64)))
        nbytes_at_most = None if nbytes_at_most is None else int(nbytes_at_most / share)
    facts = weigh(table, sample)
    trial = _Trial(space, table, sample)
    before = trial.steps(by_stars)
    if not len(sample) or not len(table):
        return Choice(by_stars, (), 0.0, 0.0, trial.nbytes(by_stars), trial.nbytes(by_stars))
    order = _best_order(trial, facts, by_stars)
    limit = nbytes_at_most if nbytes_at_most is not None else int(MEMORY_RATIO * trial.nbytes(order))
    factored = _best_factoring(trial, facts, order, limit)
    return Choice(order, factored, trial.steps(order, factored), before, trial.nbytes(order, factored), trial.nbytes(by_stars))


class _Trial:
    """Trees that were prepared to count, each once."""

    def __init__(self, space: Space, table: PredicateTable, sample: EventBatch) -> None:
        self._space, self._table, self._sample = space, table, sample
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[float, int]] = {}

    @property
    def is_over(self) -> bool:
        return len(self._known) >= TREES_TRIED or sum(nbytes for _, nbytes in self._known.values()) >= NBYTES_TRIED

    def _try(self, order: Sequence[str], factored: Sequence[str]) -> tuple[float, int]:
        key = tuple(order), tuple(factored)
        if key not in self._known:
            tree = SearchTree(self._space, order=key[0], factored=key[1])
            tree.add_many(np.arange(len(self._table), dtype=np.int64), self._table)
            steps = tree.match_batch(self._sample).steps
            self._known[key] = float(steps.mean()) if len(steps) else 0.0, tree.shape.nbytes
        return self._known[key]

    def steps(self, order: Sequence[str], factored: Sequence[str] = ()) -> float:
        return self._try(order, factored)[0]

    def nbytes(self, order: Sequence[str], factored: Sequence[str] = ()) -> int:
        return self._try(order, factored)[1]


def _best_order(trial: _Trial, facts: dict[str, Tested], by_stars: tuple[str, ...]) -> tuple[str, ...]:
    by_survivors = tuple(sorted(by_stars, key=lambda name: facts[name].survivors))
    by_branches = tuple(sorted(by_stars, key=lambda name: (facts[name].tests == 0, facts[name].branches)))
    best = min((by_survivors, by_branches), key=trial.steps)
    if trial.steps(best) > WORTH * trial.steps(by_stars):
        best = by_stars  # what differs by less may be the sample's own
    moving = [name for name in by_survivors if facts[name].tests][:MOVED_AT_MOST]
    better = True
    while better:
        better = False
        for order in _moves(best, moving):
            if trial.is_over:
                return best
            if trial.steps(order) < WORTH * trial.steps(best):
                best, better = order, True
                break
    return best


def _moves(order: tuple[str, ...], moving: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """One attribute to another of the first places."""
    for place in range(len(moving)):
        for name in moving:
            rest = [each for each in order if each != name]
            moved = (*rest[:place], name, *rest[place:])
            if moved != order:
                yield moved


def _best_factoring(trial: _Trial, facts: dict[str, Tested], order: tuple[str, ...], limit: int) -> tuple[str, ...]:
    chosen: tuple[str, ...] = ()
    copies = 1.0
    while len(chosen) < FACTORED_AT_MOST:
        # Few stars and few values is few copies: those come into question, and the steps decide between them.
        within = [
            name for name in order if name not in chosen and facts[name].tests and copies * facts[name].copies <= COPIES_AT_MOST
        ]
        fitting = [name for name in within if trial.nbytes(order, (*chosen, name)) <= limit]
        if not fitting:
            return chosen
        best = min(fitting, key=lambda name: trial.steps(order, (*chosen, name)))
        if trial.steps(order, (*chosen, best)) > FACTORING_WORTH * trial.steps(order, chosen):
            return chosen
        copies *= facts[best].copies
        chosen = (*chosen, best)
    return chosen
