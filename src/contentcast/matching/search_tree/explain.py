"""Link matching told step by step: which nodes one event visits, their trits, and how the mask is refined.

    mask NMM
      root             trits MYM   mask NYM
        a1 = 2         trits NYN   mask NYN       ends: no Maybe left
    goes on NYN

Rule: the steps are those of `links.walk_links`, in its order; this one is for people and takes its time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contentcast.matching.search_tree.layout import LEVEL, LONE, RUN_BEGIN, RUN_END, SCAN_BEGIN, SCAN_END, STAR
from contentcast.matching.search_tree.links import Annotation, Words
from contentcast.matching.search_tree.part import Part
from contentcast.matching.search_tree.walk import Coded, passing
from contentcast.model.events.event_batch import EventBatch


@dataclass(frozen=True, slots=True)
class Step:
    """A visited node: by which branch, its annotation, and the mask that its subsearch began and went on with."""

    depth: int
    branch: str
    trits: str
    before: str
    after: str

    def __str__(self) -> str:
        ends = "" if "M" in self.after else "   ends: no Maybe left"
        branch = f"{'  ' * self.depth}{self.branch}"
        return f"{branch:<24} trits {self.trits}   mask {self.before} -> {self.after}{ends}"


def explain_links(annotation: Annotation, event: EventBatch, start: Words, links: int) -> tuple[list[Step], str]:
    """The steps of one event, and the links it leaves on (Y) or not (N)."""
    found = 0
    steps: list[Step] = []
    maybe = sum(int(word) << (64 * at) for at, word in enumerate(start))
    for number, (part, yes, possible) in enumerate(annotation.planes):
        coded = part.code(event)
        if coded.roots[0] == -1:
            continue
        name = "root" if number == 0 else f"root of tree {number + 1}"
        waiting = [(int(coded.roots[0]), 0, name, maybe)]
        while waiting:
            node, depth, branch, mask = waiting.pop()
            open_links = mask & ~found
            if not open_links:
                continue
            place = node if node >= 0 else len(part.layout.nodes) + LONE - node
            sure, may = _whole(yes[place]), _whole(possible[place])
            before = _trits(found, open_links, links)
            found |= open_links & sure
            left = open_links & may & ~sure
            steps.append(Step(depth, branch, _trits(sure, may & ~sure, links), before, _trits(found, left, links)))
            if left and node >= 0:
                waiting += [(child, depth + 1, text, left) for child, text in _branches(part, coded, node, event)]
    return steps, _trits(found, 0, links)


def _branches(part: Part, coded: Coded, node: int, event: EventBatch) -> list[tuple[int, str]]:
    """The branches that the event takes, the star first, as the kernel puts them on its stack."""
    layout = part.layout
    nodes, entries, runs = layout.nodes, layout.entries, layout.runs
    found: list[tuple[int, str]] = []
    if nodes[node, STAR] != -1:
        found.append((int(nodes[node, STAR]), "*"))
    for each in range(nodes[node, SCAN_BEGIN], nodes[node, SCAN_END]):
        level = int(entries[each, 0])
        if entries[each, 1] <= coded.codes[0, level] <= entries[each, 2]:
            found.append((int(entries[each, 3]), _test(part, level, event)))
    for run in range(nodes[node, RUN_BEGIN], nodes[node, RUN_END]):
        level = int(runs[run, LEVEL])
        stack, work = np.empty(part.stack + 64, np.int32), np.empty(256, np.int64)
        top = passing(entries, runs, layout.table, run, coded.codes[0, level], coded.set_at, coded.set_items, stack, 0, work)
        found += [(int(child), _test(part, level, event)) for child in stack[:top]]
    return found


def _test(part: Part, level: int, event: EventBatch) -> str:
    name, patterns = part.levels[level]
    value = event.to_dicts()[0].get(name)
    return f"{name} is absent" if value is None else f"{name} like {value!r}" if patterns is not None else f"{name} = {value!r}"


def _whole(words: Words) -> int:
    return sum(int(word) << (64 * at) for at, word in enumerate(words))


def _trits(sure: int, maybe: int, links: int) -> str:
    return "".join("Y" if sure >> link & 1 else "M" if maybe >> link & 1 else "N" for link in range(links))
