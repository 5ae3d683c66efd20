"""How often a Maybe becomes a Yes, node by node, learnt from events that were searched to the end.

Source: Banavar et al. 1999, section 6, which suggests "a hybrid approach that varies between pure link matching and flooding
depending upon the probability that a given Maybe trit resolves to a Yes". Where that probability is high, going on with the
search only confirms what is known: a guess takes the Maybe for a Yes and saves the steps. A wrong guess sends an event for
nobody; no guess ever turns a Maybe into a No, so nothing is missed.

    node   link   Maybe   became Yes   share          with threshold 0.9
    root   1      200     196          0.98           taken for a Yes at the root: no search for link 1 at all
    root   2      200      88          0.44           searched, and at the node below
    7      2       60      59          0.98           taken for a Yes there

Rule: a guess needs SURE_AFTER events; what the tree proves (Yes and No) is never guessed about.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel
from contentcast.matching.search_tree.grow import longer
from contentcast.matching.search_tree.layout import LEVEL, LONE, RUN_BEGIN, RUN_END, SCAN_BEGIN, SCAN_END, STAR
from contentcast.matching.search_tree.links import Annotation
from contentcast.matching.search_tree.part import Part
from contentcast.matching.search_tree.walk import passing
from contentcast.model.events.event_batch import EventBatch

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int32]

SURE_AFTER: Final = 16
EXPECTED_AS: Final = 64
"""What a history says of a broker counts as much as so many events."""


@kernel
def watch_links(  # type: ignore[no-untyped-def]
    nodes, entries, runs, table, most, yes, possible, roots, codes, set_at, set_items, maybes, became, links, steps
):
    """Searches every event to the end; adds to maybes[node, link] and became[node, link] for the links below `links`."""
    words = yes.shape[1]
    stack, work = np.empty(most + 64, np.int32), np.empty(256, np.int64)
    above = np.empty(most + 64, np.int32)
    order, parent = np.empty(1024, np.int32), np.empty(1024, np.int32)
    below = np.zeros((1024, words), np.uint64)
    for event in range(len(roots)):
        if roots[event] == -1:
            continue
        stack[0], above[0] = roots[event], -1
        top, visited = 1, 0
        while top:
            if top + most > len(stack):
                stack, above = longer(stack, top + most), longer(above, top + most)
            if visited == len(order):
                order, parent = longer(order, 2 * visited), longer(parent, 2 * visited)
                more = np.zeros((len(order), words), np.uint64)
                more[:visited] = below
                below = more
            top -= 1
            node = stack[top]
            place = node if node >= 0 else len(nodes) + LONE - node
            order[visited], parent[visited] = place, above[top]
            below[visited] = yes[place]
            mine = visited
            visited += 1
            if node < 0:
                continue
            before = top
            if nodes[node, STAR] != -1:
                stack[top] = nodes[node, STAR]
                top += 1
            for each in range(nodes[node, SCAN_BEGIN], nodes[node, SCAN_END]):
                code = codes[event, entries[each, 0]]
                stack[top] = entries[each, 3]
                top += (entries[each, 1] <= code) & (code <= entries[each, 2])
            for run in range(nodes[node, RUN_BEGIN], nodes[node, RUN_END]):
                code = codes[event, runs[run, LEVEL]]
                top = passing(entries, runs, table, run, code, set_at, set_items, stack, top, work)
            above[before:top] = mine
        steps[event] += visited
        # A node was visited before what is below it: backwards, everything below is known.
        for at in range(visited - 1, -1, -1):
            place = order[at]
            for link in range(links):
                word, bit = link >> 6, np.uint64(1) << np.uint64(link & 63)
                if possible[place, word] & bit and not yes[place, word] & bit:
                    maybes[place, link] += 1
                    became[place, link] += (below[at, word] & bit) != 0
            if parent[at] >= 0:
                for word in range(words):
                    below[parent[at], word] |= below[at, word]


class Guesses:
    """Of one annotation, for its links 0 .. links - 1."""

    def __init__(self, annotation: Annotation, links: int, before: Guesses | None = None) -> None:
        self.annotation = annotation
        self.links = links
        self.watched = 0
        self._counts: dict[int, tuple[Part, Counts, Counts]] = {}
        for part, yes, _ in annotation.planes:
            known = None if before is None or before.links != links else before._counts.get(id(part.layout))
            empty = (np.zeros((len(yes), links), np.int32), np.zeros((len(yes), links), np.int32))
            self._counts[id(part.layout)] = (part, known[1], known[2]) if known is not None else (part, *empty)

    def expect(self, chances: npt.NDArray[np.float64]) -> None:
        """Begin as if EXPECTED_AS events had been watched at the roots, of which each link was wanted by its share."""
        for part, yes, _ in self.annotation.planes:
            _, maybes, became = self._counts[id(part.layout)]
            roots = part.layout.roots[part.layout.roots != -1].astype(np.int64)
            places = np.unique(np.where(roots >= 0, roots, len(part.layout.nodes) + LONE - roots))
            assert len(yes) > places.max(initial=-1)
            maybes[places] += EXPECTED_AS
            became[places] += np.floor(EXPECTED_AS * chances).astype(np.int32)
        self.watched += EXPECTED_AS

    def watch(self, batch: EventBatch) -> Ints:
        """Learns from these events; returns the steps that it took."""
        steps = np.zeros(len(batch), np.int64)
        for part, yes, possible in self.annotation.planes:
            _, maybes, became = self._counts[id(part.layout)]
            layout = part.layout
            arrays = (layout.nodes, layout.entries, layout.runs, layout.table, part.stack, yes, possible)
            watch_links(*arrays, *part.code(batch), maybes, became, self.links, steps)
        self.watched += len(batch)
        return steps

    def taken(self, threshold: float) -> Annotation:
        """The annotation in which a Maybe that became a Yes at least so often is one."""
        planes = []
        for part, yes, possible in self.annotation.planes:
            _, maybes, became = self._counts[id(part.layout)]
            # Laplace's rule of succession: 16 times out of 16 is not yet certainty, but 17 in 18.
            likely = (maybes >= SURE_AFTER) & (became + 1 >= threshold * (maybes + 2))
            bits = np.zeros((len(yes), 64 * yes.shape[1]), bool)
            bits[:, : self.links] = likely
            guessed = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
            planes.append((part, yes | (guessed & possible), possible))
        return self.annotation.with_planes(planes)
