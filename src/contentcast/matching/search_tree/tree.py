"""The parallel search tree of Banavar et al. 1999, section 2, for subscriptions that come and go.

Changes are batched, as the paper envisions. What was added waits in a list until the next match, which prepares it as a small
tree beside the others; a tree as large as its neighbour is prepared together with it (the logarithmic method of Bentley and
Saxe), as long as the two have at most MERGED_AT_MOST subscriptions. A removed subscription is marked in its tree.

    add 1, 2, 3   waiting [1, 2, 3]     parts []                match    waiting []    parts [3]
    add 4 .. 6    waiting [4, 5, 6]     parts [3]               match    waiting []    parts [6]
    add_many of 100,000                 parts [100000, 6]       remove   marked in its part

Rule: a change is checked before anything is changed, and none prepares more than MERGED_AT_MOST subscriptions at once, except
`add_many` and `prepare`, whose caller asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.contract import Pairs
from contentcast.matching.search_tree.links import Annotation
from contentcast.matching.search_tree.merge import merged
from contentcast.matching.search_tree.part import Part, Plan, prepare
from contentcast.matching.search_tree.rows import Rows
from contentcast.model.errors import ContentcastError, EventError, SpaceError, nearest
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.predicates.table import PredicateTable
from contentcast.model.space import Space

Ints = npt.NDArray[np.int64]

MERGED_AT_MOST: Final = 8_192
WAITING_AT_MOST: Final = 1_024


@dataclass(frozen=True, slots=True)
class Matches:
    """Event e matched ids[offsets[e]:offsets[e + 1]], ascending, and took steps[e] visited nodes."""

    offsets: Ints
    ids: Ints
    steps: Ints

    def __len__(self) -> int:
        return len(self.steps)

    def of(self, event: int) -> Ints:
        return self.ids[self.offsets[event] : self.offsets[event + 1]]


class Shape(NamedTuple):
    """What a tree takes: trees side by side, nodes, and bytes of the arrays that a search reads."""

    parts: int
    nodes: int
    branches: int
    nbytes: int


class SearchTree:
    """`order`: the attributes from the root down; those left out follow, fewest stars first. Without it, fewest stars first.

    `factored`: attributes that are no level but an index: a sub-tree for each combination of their values.
    `eliminate_trivial_tests`, `delay_branching`: section 2.1 of the paper. `share`: identical subtrees stand only once.
    """

    def __init__(
        self,
        space: Space,
        *,
        order: Sequence[str] | None = None,
        factored: Sequence[str] = (),
        eliminate_trivial_tests: bool = True,
        delay_branching: bool = True,
        share: bool = True,
    ) -> None:
        self.space = space
        self.plan = Plan(
            None if order is None else _named(space, order, "order"),
            _named(space, factored, "factored"),
            eliminate_trivial_tests,
            delay_branching,
            share,
        )
        self._waiting: dict[int, Predicate] = {}
        self._parts: tuple[Part, ...] = ()

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._parts))

    def __contains__(self, subscription: object) -> bool:
        return subscription in self._waiting or (isinstance(subscription, int) and self._find(subscription) is not None)

    # --- changes

    def add(self, subscription: int, predicate: Predicate) -> None:
        if predicate.space != self.space:
            raise ContentcastError(
                f"subscription {subscription} is of space {predicate.space.name}, the tree of {self.space.name}"
            )
        if subscription in self:
            raise ContentcastError(f"subscription {subscription} is already there; remove it first")
        _check_id(subscription)
        self._waiting[subscription] = predicate
        if len(self._waiting) >= WAITING_AT_MOST:
            self._prepare_waiting()

    def add_many(self, ids: Iterable[int] | Ints, table: PredicateTable) -> None:
        """Prepares them at once, as one tree beside what is there."""
        if table.space != self.space:
            raise ContentcastError(f"the table is of space {table.space.name}, the tree of {self.space.name}")
        if table.refused:
            raise next(iter(table.refused.values()))
        numbers = _checked_ids(ids, len(table))
        for part in self._parts:
            there = part.holds(numbers)
            if there.any():
                raise ContentcastError(f"subscription {numbers[there][0]} is already there; remove it first")
        for each in numbers.tolist() if self._waiting else ():
            if each in self._waiting:
                raise ContentcastError(f"subscription {each} is already there; remove it first")
        if len(numbers):
            self._grow(Rows.of(numbers, table))

    def remove(self, subscription: int) -> None:
        if self._waiting.pop(subscription, None) is not None:
            return
        found = self._find(subscription)
        if found is None:
            raise ContentcastError(f"there is no subscription {subscription}")
        part, position = found
        part.remove(position)
        if 2 * part.dead > len(part.ids):
            self._shrink(part)

    def copy(self) -> SearchTree:
        """Another tree with the same subscriptions, to be changed without changing this one. What is prepared is shared."""
        other = SearchTree.__new__(SearchTree)
        other.space, other.plan = self.space, self.plan
        other._waiting, other._parts = dict(self._waiting), tuple(part.copy() for part in self._parts)
        return other

    def prepare(self) -> None:
        """All subscriptions in one tree: the fewest steps, and as long a pause as they take."""
        self._prepare_waiting()
        if len(self._parts) > 1 or any(part.dead for part in self._parts):
            rows = Rows.united([part.living_rows() for part in self._parts])
            self._parts = (prepare(rows, self.plan),) if len(rows) else ()

    def _find(self, subscription: int) -> tuple[Part, int] | None:
        for part in self._parts:
            position = part.position(subscription)
            if position >= 0:
                return part, position
        return None

    def _prepare_waiting(self) -> None:
        if self._waiting:
            ids = np.fromiter(self._waiting, np.int64, len(self._waiting))
            rows = Rows.of(ids, PredicateTable.of(self.space, self._waiting.values()))
            self._grow(rows)
            self._waiting = {}

    def _grow(self, rows: Rows) -> None:
        """A new part, together with its neighbours while they are not larger than it."""
        parts = list(self._parts)
        together = [rows]
        total = len(rows)
        while parts and len(parts[-1]) <= 2 * total and len(parts[-1]) + total <= MERGED_AT_MOST:
            part = parts.pop()
            together.append(part.living_rows())
            total += len(part)
        self._parts = (*parts, prepare(Rows.united(together) if len(together) > 1 else rows, self.plan))

    def _shrink(self, part: Part) -> None:
        """More than half of the part is gone: prepare the rest again, a stretch of it if it is large.

        The stretch leaves the part, which thereby comes nearer to being empty, and the next removal goes on.
        """
        living = np.flatnonzero(part.living)
        chosen = np.zeros(len(part.ids), bool)
        chosen[living[:MERGED_AT_MOST]] = True
        rows = part.rows.kept(chosen)
        if len(living) <= MERGED_AT_MOST:
            self._parts = tuple(each for each in self._parts if each is not part)
        else:
            for position in np.flatnonzero(chosen).tolist():
                part.remove(position)
        if len(rows):
            self._grow(Rows.united([rows]))

    # --- matching

    def match(self, event: Mapping[str, Any]) -> list[int]:
        """The ids of the subscriptions that the event satisfies, ascending."""
        return self.search(event)[0]

    def search(self, event: Mapping[str, Any]) -> tuple[list[int], int]:
        """The same, and the steps it took."""
        found = self.match_batch(EventBatch.from_dicts(self.space, [event]))
        return found.ids.tolist(), int(found.steps[0])

    def match_batch(self, batch: EventBatch) -> Matches:
        found = [part.match(batch) for part in self.parts(batch)]
        if len(found) == 1:
            return Matches(*found[0])
        steps = np.zeros(len(batch), np.int64)
        for each in found:
            steps += each[2]
        return Matches(*merged([each[0] for each in found], [each[1] for each in found], len(batch)), steps)

    def match_pairs(self, batch: EventBatch) -> Pairs:
        found = self.match_batch(batch)
        return Pairs(np.repeat(np.arange(len(batch)), np.diff(found.offsets)), found.ids)

    def sizes(self) -> dict[str, int]:
        shape = self.shape
        return {"subscriptions": len(self), "nodes": shape.nodes, "bytes": shape.nbytes}

    def parts(self, batch: EventBatch) -> tuple[Part, ...]:
        """The trees to search for these events, everything that waited included."""
        if batch.space != self.space:
            raise EventError(f"the batch is of space {batch.space.name}, the tree of {self.space.name}")
        return self.prepared()

    def prepared(self) -> tuple[Part, ...]:
        self._prepare_waiting()
        return self._parts

    # --- links

    def annotate(self, links: Mapping[int, Iterable[int]], count: int, *, carried: Collection[str] = ()) -> Annotation:
        """The tree with the links (of 0 .. count - 1) behind which each subscription's subscribers are.

        `carried`: attributes that no event leaves out; a node whose branches hold their whole domain can then be a Yes.
        """
        return Annotation.of(self.space, self.prepared(), links, count, _named(self.space, carried, "carried"))

    def annotate_words(
        self,
        ids: Ints,
        words: npt.NDArray[np.uint64],
        *,
        carried: Collection[str] = (),
        before: Annotation | None = None,
    ) -> Annotation:
        """`annotate` by columns: words[i] holds the links of subscription ids[i] as bits.

        `before`: the annotation of an earlier tree, with the same links behind whoever is in both; only what has changed
        since is annotated.
        """
        return Annotation(self.space, self.prepared(), ids, words, _named(self.space, carried, "carried"), before)

    @property
    def shape(self) -> Shape:
        layouts = [part.layout for part in self.prepared()]
        return Shape(
            len(layouts),
            sum(layout.node_count for layout in layouts),
            sum(len(layout.entries) + len(layout.table) for layout in layouts),
            sum(layout.nbytes for layout in layouts),
        )


def _named(space: Space, names: Collection[str], what: str) -> tuple[str, ...]:
    for name in names:
        if name not in space:
            raise SpaceError(f"{what}: {space.name} has no attribute {name!r}{nearest(name, space.names)}")
    if len(set(names)) < len(names):
        raise SpaceError(f"{what}: an attribute stands twice in {', '.join(names)}")
    return tuple(names)


def _check_id(subscription: object) -> None:
    if isinstance(subscription, bool) or not isinstance(subscription, int) or not -(2**63) <= subscription < 2**63:
        raise ContentcastError(f"a subscription's id is a 64-bit int, not {subscription!r}")


def _checked_ids(ids: Iterable[int] | Ints, count: int) -> Ints:
    given = ids if isinstance(ids, np.ndarray) else np.array(list(ids)) if count else np.empty(0, np.int64)
    if given.dtype.kind not in "iu" and len(given):
        raise ContentcastError(f"subscription ids are 64-bit ints, not {given.dtype}")
    numbers: Ints = given.astype(np.int64)
    if len(numbers) != count:
        raise ContentcastError(f"{len(numbers)} ids for {count} predicates")
    ordered = np.sort(numbers)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise ContentcastError(f"subscription {twice[0]} stands twice among the ids")
    return numbers
