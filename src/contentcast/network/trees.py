"""Shortest-path trees from every broker, in kernels over flat arrays, and what a broker reads from them.

The graph comes as rows of sorted neighbours: those of broker b are `ends[start[b]:start[b + 1]]`, with `delays` beside them, in
whole nanoseconds so that equal ways are exactly equal. The rows of a line 0-1-2 with 10 ns each:

    start   0 1 3 4        ends   1 | 0 2 | 1        delays   10 | 10 10 | 10

Rule: of all ways the one with the least delay, then the fewest hops, then the parent with the smallest number. Every way
has one hop more than its parent's, so links without delay make no circles.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel

Longs = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Places = npt.NDArray[np.int16]

NANOSECONDS_PER_S: Final = 1e9
FAR: Final = 2**63 - 1
KEPT_CELLS: Final = 8_000_000
"""Trees are remembered up to so many pairs of brokers in all, 24 bytes each: 8 networks of 1000 brokers, 5000 of 39."""


@kernel
def grow_trees(start: Longs, ends: Numbers, delays: Longs, far: int, distances: Longs, hops: Numbers, order: Numbers) -> None:
    """Dijkstra from every broker: delay and hops to each other one, and the reached ones, nearest first (then -1)."""
    count = len(start) - 1
    for root in range(count):
        distance, hop, settled = distances[root], hops[root], order[root]
        distance[:], hop[:], settled[:] = far, -1, -1
        done = np.zeros(count, np.bool_)
        distance[root], hop[root] = 0, 0
        waiting = [(np.int64(0), np.int64(0), np.int64(root))]
        filled = 0
        while len(waiting) > 0:
            way, length, at = heappop(waiting)
            if done[at]:
                continue
            done[at] = True
            settled[filled] = at
            filled += 1
            for edge in range(start[at], start[at + 1]):
                end = ends[edge]
                longer = way + delays[edge]
                if longer < distance[end] or (longer == distance[end] and length + 1 < hop[end]):
                    distance[end], hop[end] = longer, length + 1
                    heappush(waiting, (longer, length + 1, np.int64(end)))


@kernel
def choose_parents(
    start: Longs,
    ends: Numbers,
    delays: Longs,
    distances: Longs,
    hops: Numbers,
    order: Numbers,
    parents: Numbers,
    first: Numbers,
) -> None:
    """The smallest neighbour that lies on a best way; and the first hop of each way, from the parent's."""
    count = len(start) - 1
    for root in range(count):
        parents[root, :], first[root, :] = -1, -1
        for at in order[root, 1:]:
            if at < 0:
                break
            for edge in range(start[at], start[at + 1]):
                end = ends[edge]
                if hops[root, end] + 1 == hops[root, at] and distances[root, end] + delays[edge] == distances[root, at]:
                    parents[root, at] = end
                    first[root, at] = at if end == root else first[root, end]
                    break


@kernel
def mark_exits(parents: Numbers, order: Numbers, broker: int, places: Places, exits: Places) -> None:
    """A broker takes the mark of its parent; the children of `broker` their place among its neighbours."""
    count = len(parents)
    for root in range(count):
        exits[root, :] = -1
        for at in order[root, 1:]:
            if at < 0:
                break
            parent = parents[root, at]
            exits[root, at] = places[at] if parent == broker else exits[root, parent]


@dataclass(frozen=True)
class Trees:
    """All [p, d] by broker numbers, read-only. `order[p]` has the brokers p reaches, each after its parent, then -1."""

    parents: Numbers
    hops: Numbers
    order: Numbers
    first_hops: Numbers
    nanoseconds: Longs

    @cached_property
    def distances(self) -> npt.NDArray[np.float64]:
        seconds = np.where(self.hops < 0, np.inf, self.nanoseconds / NANOSECONDS_PER_S)
        seconds.flags.writeable = False
        return seconds


_Key = tuple[tuple[str, ...], tuple[tuple[str, str, float], ...]]
_kept: OrderedDict[_Key, Trees] = OrderedDict()


def trees_of(brokers: tuple[str, ...], links: tuple[tuple[str, str, float], ...]) -> Trees:
    """The trees of this network, sorted brokers and their links with delays in seconds; the same object while remembered."""
    key = brokers, links
    trees = _kept.get(key)
    if trees is None:
        trees = _kept[key] = _grown(brokers, links)
        cells = sum(each.parents.size for each in _kept.values())
        while cells > KEPT_CELLS and len(_kept) > 1:
            cells -= _kept.popitem(last=False)[1].parents.size
    else:
        _kept.move_to_end(key)
    return trees


def _grown(brokers: Sequence[str], links: Sequence[tuple[str, str, float]]) -> Trees:
    count = len(brokers)
    numbers = {broker: at for at, broker in enumerate(brokers)}
    edges = sorted(
        (numbers[here], numbers[there], round(delay_s * NANOSECONDS_PER_S))
        for one, other, delay_s in links
        for here, there in ((one, other), (other, one))
    )
    table = np.array(edges, dtype=np.int64).reshape(len(edges), 3)
    start: Longs = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(table[:, 0], minlength=count), out=start[1:])
    graph = start, table[:, 1].astype(np.int32), np.ascontiguousarray(table[:, 2])
    nanoseconds = np.empty((count, count), dtype=np.int64)
    hops, order, parents, first = (np.empty((count, count), dtype=np.int32) for _ in range(4))
    grow_trees(*graph, FAR, nanoseconds, hops, order)
    choose_parents(*graph, nanoseconds, hops, order, parents, first)
    trees = Trees(parents, hops, order, first, nanoseconds)
    for each in (parents, hops, order, first, nanoseconds):
        each.flags.writeable = False
    return trees


def exits_at(trees: Trees, broker: int, neighbours: Sequence[int]) -> Places:
    """[p, d]: the place in `neighbours` of the hop after `broker` on the way from p to d, -1 where there is none."""
    places: Any = np.full(len(trees.parents), -1, dtype=np.int16)
    places[list(neighbours)] = np.arange(len(neighbours))
    exits = np.empty(trees.parents.shape, dtype=np.int16)
    mark_exits(trees.parents, trees.order, broker, places, exits)
    return exits
