"""Link matching at one broker: which links an event leaves on, found with no more steps than that takes.

Source: Banavar et al. 1999, section 3.3. The mask begins with a Maybe for each link that leads away from the publisher, each
visited node refines it by its annotation (see `annotate`), and a subsearch ends when it has no Maybe left. Departs from the
paper: a Yes found in one subsearch is known at once in all that follow, also those already under way; and on request a child's
trits are looked at before it is visited.

    start   NMM   links 1 and 2          words [0b110]
    root    YYM   link 1 is a Yes, 2 stays a Maybe: go on with 2 only
    result  NYN   words [0b010]

Rule: an annotation is of the tree as it was when it was made; after a change of the subscriptions, annotate again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel
from contentcast.matching.search_tree.annotate import annotate
from contentcast.matching.search_tree.grow import longer
from contentcast.matching.search_tree.layout import LEVEL, LONE, RUN_BEGIN, RUN_END, SCAN_BEGIN, SCAN_END, STAR
from contentcast.matching.search_tree.part import Part
from contentcast.matching.search_tree.walk import passing
from contentcast.model.errors import ContentcastError, EventError
from contentcast.model.events.event_batch import EventBatch
from contentcast.model.space import Space

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def words_of(links: Iterable[int], count: int) -> Words:
    """A set of the links 0 .. count - 1 as bits."""
    words = np.zeros(max(1, (count + 63) // 64), np.uint64)
    for link in links:
        if not 0 <= link < count:
            raise ContentcastError(f"there is no link {link}; the links are 0 to {count - 1}")
        words[link >> 6] |= np.uint64(1) << np.uint64(link & 63)
    return words


def links_of(words: Words) -> list[int]:
    bits = np.unpackbits(np.ascontiguousarray(words, np.uint64).view(np.uint8), bitorder="little")
    return [int(link) for link in np.flatnonzero(bits)]


@dataclass(frozen=True, slots=True)
class LinkMatches:
    """Event e leaves on the links in yes[e], and took steps[e] visited nodes to say so."""

    yes: Words
    steps: Ints

    def __len__(self) -> int:
        return len(self.steps)

    def of(self, event: int) -> list[int]:
        return links_of(self.yes[event])


@kernel
def walk_links(  # type: ignore[no-untyped-def]
    nodes, entries, runs, table, most, yes, possible, roots, codes, set_at, set_items, mask, found, steps, look_ahead
):
    """Adds to found[event] the links of mask[event] that a matching subscription is behind, and to steps the visited nodes.

    `look_ahead`: the trits of a child are looked at from its parent, and it is visited only if they leave a Maybe.
    """
    words = mask.shape[1]
    stack, work = np.empty(most + 64, np.int32), np.empty(256, np.int64)
    # What was still a Maybe where a node was pushed. All children of one visit share a row: masks[row_of[position in stack]].
    masks, row_of = np.empty((64, words), np.uint64), np.empty(most + 64, np.int32)
    for event in range(len(roots)):
        if roots[event] == -1:
            continue
        stack[0], row_of[0] = roots[event], 0
        masks[0] = mask[event]
        top, visited = 1, 0
        while top:
            if top + most > len(stack):
                stack, row_of = longer(stack, top + most), longer(row_of, top + most)
            top -= 1
            node, row = stack[top], row_of[top]
            # Rows are used as a stack too: the row after this one belongs to nobody who is still waiting.
            if row + 2 > len(masks):
                more = np.empty((2 * len(masks), words), np.uint64)
                more[: len(masks)] = masks
                masks = more
            waiting = np.uint64(0)
            for word in range(words):
                waiting |= masks[row, word] & ~found[event, word]
            if waiting == 0:
                continue
            visited += 1
            place = node if node >= 0 else len(nodes) + LONE - node
            maybe = np.uint64(0)
            for word in range(words):
                here = masks[row, word] & ~found[event, word]
                found[event, word] |= here & yes[place, word]
                masks[row + 1, word] = here & possible[place, word] & ~yes[place, word]
                maybe |= masks[row + 1, word]
            if maybe == 0:
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
            if look_ahead:
                kept = before
                for at in range(before, top):
                    place = stack[at] if stack[at] >= 0 else len(nodes) + LONE - stack[at]
                    maybe = np.uint64(0)
                    for word in range(words):
                        here = masks[row + 1, word] & ~found[event, word]
                        found[event, word] |= here & yes[place, word]
                        maybe |= here & possible[place, word] & ~yes[place, word]
                    stack[kept] = stack[at]
                    kept += maybe != 0
                top = kept
            row_of[before:top] = row + 1
        steps[event] += visited


class Annotation:
    """A tree annotated with the links behind which its subscribers are. Made by `SearchTree.annotate`."""

    def __init__(
        self,
        space: Space,
        parts: Sequence[Part],
        ids: Ints,
        words: Words,
        carried: Collection[str] = (),
        before: Annotation | None = None,
    ) -> None:
        """`before`: an annotation with the same links behind each subscription; trees that are in it need no other planes."""
        self.space = space
        self.carried = tuple(carried)
        self.width = words.shape[1]
        order = np.argsort(ids, kind="stable")
        self.planes: list[tuple[Part, Words, Words]] = []
        """For each tree the planes `yes` and `possible` of its nodes."""
        known = {} if before is None else {id(each[0].layout): each for each in before.planes}
        for part in parts:
            same = known.get(id(part.layout))
            if same is not None and same[0].dead == part.dead and same[1].shape[1] == self.width:
                self.planes.append((part, same[1], same[2]))
                continue
            at = order[np.minimum(np.searchsorted(ids, part.ids, sorter=order), len(ids) - 1)] if len(ids) else None
            missing = part.living if at is None else part.living & (ids[at] != part.ids)
            if missing.any():
                raise ContentcastError(f"subscription {part.ids[missing][0]} has no links; give an empty set if it is nowhere")
            behind = np.ascontiguousarray(words[at]) if at is not None else np.zeros((len(part.ids), self.width), np.uint64)
            self.planes.append((part, *self._annotated(part, behind)))

    @classmethod
    def of(
        cls, space: Space, parts: Sequence[Part], links: Mapping[int, Iterable[int]], count: int, carried: Collection[str] = ()
    ) -> Annotation:
        ids = np.fromiter(links, np.int64, len(links))
        words = np.array([words_of(each, count) for each in links.values()], np.uint64)
        return cls(space, parts, ids, words.reshape(len(ids), max(1, (count + 63) // 64)), carried)

    def _annotated(self, part: Part, behind: Words) -> tuple[Words, Words]:
        counts = []
        for name, patterns in part.levels:
            if patterns is not None:
                counts.append(np.empty(0, np.int64))
                continue
            possible = part.coders[name].possible(self.space[name])
            possible[-1] = name not in self.carried
            counts.append(np.concatenate([[0], np.cumsum(possible)]).astype(np.int64))
        at = np.cumsum([0, *map(len, counts)])
        outcomes = np.concatenate([np.empty(0, np.int64), *counts])
        planes: tuple[Words, Words] = annotate(*part.layout[:5], behind, part.alive, at, outcomes)
        return planes

    def with_planes(self, planes: list[tuple[Part, Words, Words]]) -> Annotation:
        """The same trees with other trits."""
        other = Annotation.__new__(Annotation)
        other.space, other.carried, other.width, other.planes = self.space, self.carried, self.width, planes
        return other

    def match_links(self, batch: EventBatch, start: Words, *, look_ahead: bool = False) -> LinkMatches:
        """`start`: the links away from the publisher, as words for all events or a row of words for each.

        `look_ahead`: a node whose trits leave no Maybe is not visited; its parent looks. As published, it is, and ends there.
        """
        if batch.space != self.space:
            raise EventError(f"the batch is of space {batch.space.name}, the tree of {self.space.name}")
        for name in self.carried:
            if batch.records.column(self.space.position(name)).null_count:
                raise EventError(f"the tree was annotated for events that carry {name}, and one does not")
        mask = np.ascontiguousarray(np.broadcast_to(start, (len(batch), self.width)), np.uint64)
        found, steps = np.zeros_like(mask), np.zeros(len(batch), np.int64)
        for part, yes, possible in self.planes:
            layout = part.layout
            arrays = (layout.nodes, layout.entries, layout.runs, layout.table, part.stack, yes, possible)
            walk_links(*arrays, *part.code(batch), mask, found, steps, look_ahead)
        return LinkMatches(found, steps)

    def trits(self, part: int = 0, node: int = 0, *, count: int) -> str:
        """The annotation of a node as the paper writes it, the first link on the left; node 0 is the root."""
        _, yes, possible = self.planes[part]
        words = [
            (int(yes[node, link >> 6]) >> (link & 63) & 1, int(possible[node, link >> 6]) >> (link & 63) & 1)
            for link in range(count)
        ]
        return "".join("Y" if sure else "M" if maybe else "N" for sure, maybe in words)
