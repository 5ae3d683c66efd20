"""A plan in use: the gates and groups that were chosen for the subscriptions there are, and which of them an entry goes to.

Later subscriptions go behind the gates there are too. What a plan is made of: `plan`; how entries are filed by it: `filing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index import bitmaps, layout
from contentcast.matching.index.codes import Dictionary
from contentcast.matching.index.entries import Attributes, Entries
from contentcast.matching.index.plan import (
    BITMAPS,
    CANDIDATE_NS,
    LEVEL_BITS,
    TEST_NS,
    Gate,
    Plan,
    Test,
    finished,
    lay_out_words,
    level_of,
    merge_signatures,
    plan_steps,
    residual_signatures,
)
from contentcast.matching.index.store import Store

Ints = npt.NDArray[np.int64]

HALF_NS: Final = 5.0
"""Beginning to compare a cell's entries with half a word, about."""
LEVEL_NS: Final = 4.0
"""Looking into a cell of one more level of a grid, about."""


@dataclass(slots=True)
class Scheme:
    """`planned`: for a gate and level, which signature goes into the group with which tests."""

    attributes: Attributes
    store: Store
    gates: list[Gate] = field(default_factory=list)
    grids: dict[str, Ints] = field(default_factory=dict)
    levels: dict[str, Ints] = field(default_factory=dict)
    """Of each grid the levels that were worth a group, ascending; an entry goes to the finest that is not finer than its own,
    or to its own if there is none.
    """
    words: int = 0
    spare: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """What is set aside in the words for attributes without a dictionary."""
    planned: dict[tuple[Gate, int], dict[frozenset[Test], frozenset[Test]]] = field(default_factory=dict)

    def plan(self, entries: Entries) -> Any:
        """Choose gates and groups for these entries; returns the number of each one's gate."""
        return finished(self.plan_steps(entries))

    def plan_steps(
        self, entries: Entries, times: float = 1.0, expected: dict[str, int] | None = None
    ) -> Generator[int, None, Any]:
        """The same, stopping after each step and saying how much it was; every entry stands for so many `times` as many.

        `expected`: how many values the attributes will have, where there will be more than there are.
        """
        self.words, self.spare = lay_out_words(self.attributes, entries, expected or {})
        _, masks = self.equal_words(entries)
        rows = np.arange(entries.count)
        small = self._of_small_domains(entries)
        yield entries.count // 16
        if small.any():
            tested = self._tested(masks[:, small])
            gated = yield from plan_steps(self.attributes, entries, masks, rows[small], times)
            halves = len({(each.word, each.shift // 32) for each in tested.values()})
            gated_ns = gated.cost_ns + len(gated.gates) * halves * HALF_NS
            if bitmaps.cost_ns(int(small.sum() * times), list(tested.values())) < gated_ns:
                rows = rows[~small]
                order, _ = bitmaps.sorting_order(masks[:, small], masks[:, small], tested)
                self.store.bitmaps.lay_out({name: tested[name] for name in order})
        plan = yield from plan_steps(self.attributes, entries, masks, rows, times)
        if len(rows) < entries.count:
            plan.chosen[small] = BITMAPS
        self.gates, self.grids = plan.gates, plan.grids
        self.levels = {}
        for number, gate in enumerate(plan.gates):
            if gate.kind == "cells" and (plan.chosen == number).any():
                self.levels[gate.attribute] = self._worth_a_group(entries, gate, plan.chosen == number, times)
                yield entries.count // 32
        yield from self._plan_groups(entries, masks, plan, times)
        return plan.chosen

    def _of_small_domains(self, entries: Entries) -> Any:
        """The entries that only compare values of attributes with few of them."""
        small = np.ones(entries.count, np.bool_)
        tests = np.zeros(entries.count, np.bool_)
        for (form, name), column in entries.columns.items():
            few = form == "equal" and len(self.attributes.dictionaries[name]) <= bitmaps.MOST_VALUES
            (tests if few else small)[column.entry] = few
        return small & tests

    def _tested(self, masks: Ints) -> dict[str, Dictionary]:
        """The attributes that some of these entries compare."""
        used = np.bitwise_or.reduce(masks, axis=1)
        return {
            name: each
            for name, each in self.attributes.dictionaries.items()
            if int(used[each.word]) >> each.shift & ((1 << each.bits) - 1)
        }

    def fits(self, entries: Entries) -> bool:
        """Has every dictionary room in its bits, or could get some? If not, only a new plan helps.

        Also one that no entry uses: a value may have got its code and then have become part of a set, and events that carry it
        would write into the bits of the next attribute.
        """
        dictionaries = self.attributes.dictionaries
        for form, name in entries.columns:
            if form == "equal" and not dictionaries[name].bits:
                if name not in self.spare:
                    return False
                each = dictionaries[name]
                each.word, each.shift, each.bits = self.spare.pop(name)
        return all(not each.bits or len(each) <= each.capacity for each in dictionaries.values())

    def equal_words(self, entries: Entries) -> tuple[Ints, Ints]:
        """Each entry's equal constraints as words and masks."""
        words = np.zeros((self.words, entries.count), np.int64)
        masks = np.zeros((self.words, entries.count), np.int64)
        for (form, name), column in entries.columns.items():
            if form != "equal":
                continue
            dictionary = self.attributes.dictionaries[name]
            words[dictionary.word, column.entry] |= column.value << dictionary.shift
            masks[dictionary.word, column.entry] |= ((1 << dictionary.bits) - 1) << dictionary.shift
        return words, masks

    def _plan_groups(self, entries: Entries, masks: Ints, plan: Plan, times: float) -> Generator[int, None, None]:
        """For each gate (and level of a grid), which tests its groups have."""
        self.planned = {}
        signatures, numbers = residual_signatures(self.attributes, entries, masks, plan)
        yield entries.count // 16
        levels = self.levels_of(entries, plan.chosen)
        yield entries.count // 16
        for number, gate in enumerate(plan.gates):
            behind = plan.chosen == number
            for level in np.unique(levels[behind]).tolist():
                mine = behind & (levels == level)
                odds = self._odds(gate, level, int(mine.sum()) * times)
                counted = np.bincount(numbers[mine], minlength=len(signatures)) * times
                expected = Counter({signatures[at]: counted[at] * odds for at in np.flatnonzero(counted).tolist()})
                self.planned[gate, level] = merge_signatures(expected)
                yield entries.count // 64

    def _odds(self, gate: Gate, level: int, entries: float) -> float:
        """The share of a group's entries that an event looks at: one cell of those there are."""
        if gate.kind == "open":
            return 1.0
        if gate.kind == "cells":
            return min(1.0, 2.0 / ((len(self.grids[gate.attribute]) >> (LEVEL_BITS * level)) + 1))
        return max(1.0 / max(entries, 1), 1e-3 if gate.kind == "equal" else 1e-2)

    def levels_of(self, entries: Entries, chosen: Any) -> Any:
        """The level of the grid at which an entry behind a cells gate lies in at most three cells; 0 behind others."""
        levels = np.zeros(entries.count, np.int64)
        for number, gate in enumerate(self.gates):
            if gate.kind != "cells" or not (chosen == number).any():
                continue
            rows, first, last = self.grid_span(entries, gate, chosen == number)
            own, used = level_of(first, last), self.levels[gate.attribute]
            at = np.searchsorted(used, own)
            levels[rows] = np.where(at < len(used), np.append(used, 0)[at], own)
        return levels

    def _worth_a_group(self, entries: Entries, gate: Gate, behind: Any, times: float) -> Ints:
        """The levels of a grid with so many entries that looking into one more cell costs an event less than testing them."""
        _, first, last = self.grid_span(entries, gate, behind)
        counts = np.bincount(level_of(first, last)) * times
        used = []
        for level in range(len(counts)):
            cells = (len(self.grids[gate.attribute]) >> (LEVEL_BITS * (level + 1))) + 1
            if level + 1 == len(counts) or counts[level] * 2 / cells * (CANDIDATE_NS + TEST_NS) > LEVEL_NS:
                used.append(level)
            else:
                counts[level + 1] += counts[level]
        return np.array(used, np.int64)

    def grid_span(self, entries: Entries, gate: Gate, behind: Any) -> tuple[Ints, Ints, Ints]:
        """The entries behind a cells gate with the ranks of their range's ends."""
        column = entries.columns["range", gate.attribute]
        mine = behind[column.entry]
        grid = self.grids[gate.attribute]
        first = np.searchsorted(grid, column.value[mine], "right")
        return column.entry[mine], first, np.searchsorted(grid, column.last[mine], "right")

    def assign(self, entries: Entries, masks: Ints) -> Any:
        """The gate of each new entry under the plan there is: the equal gate with most bits, else a grid, else a text."""
        chosen = np.zeros(entries.count, np.int32)
        best = np.zeros(entries.count, np.int64)
        for number, gate in enumerate(self.gates):
            if gate.kind == "equal":
                fits = (masks[gate.word] & gate.mask) == gate.mask
                bits = gate.mask.bit_count() + 1
                better = fits & (best < bits)
            else:
                column = entries.columns.get(("range" if gate.kind == "cells" else "text", gate.attribute))
                if column is None:
                    continue
                at = column.entry if gate.kind == "cells" else column.entry[column.value & 3 == 0]
                fits = np.zeros(entries.count, np.bool_)
                fits[at] = True
                bits = 1
                better = fits & (best < 1)
            chosen[better], best[better] = number, bits
        if self.store.bitmaps.names:
            covered = self._covered_by_bitmaps(masks)
            chosen[self._of_small_domains(entries) & covered] = BITMAPS
        return chosen

    def sorting_keys(self, entries: Entries) -> Any:
        """Numbers by which entries are in the order of the cells they will be in, those that ask the same side by side."""
        words, masks = self.equal_words(entries)
        chosen, mixed = self.assign(entries, masks), np.zeros(entries.count, np.int64)
        for word in words:
            mixed = mixed_key(mixed, word)
        for column in entries.columns.values():
            mixed[column.entry] = mixed_key(mixed_key(mixed[column.entry], column.value), column.last)
        cell = np.zeros(entries.count, np.int64)
        for number, gate in enumerate(self.gates):
            behind = chosen == number
            if gate.kind == "equal":
                cell[behind] = mixed_key(words[gate.word, behind] & gate.mask, 0)
            elif gate.kind == "cells" and behind.any():
                rows, first, _ = self.grid_span(entries, gate, behind)
                cell[rows] = first
            elif gate.kind == "text" and behind.any():
                column = entries.columns["text", gate.attribute]
                mine = behind[column.entry]
                cell[column.entry[mine]] = column.value[mine]
        keys = (chosen.astype(np.int64) + 1) << 56 | (cell & 0xFFFFFFFF) << 24 | mixed & 0xFFFFFF
        if self.store.bitmaps.names:
            tested = {name: self.attributes.dictionaries[name] for name in self.store.bitmaps.names}
            keys = np.where(chosen == BITMAPS, bitmaps.sorting_keys(words, masks, tested), keys)
        return keys

    def _covered_by_bitmaps(self, masks: Ints) -> Any:
        """Do the entries compare only attributes that the bitmaps have?"""
        rows = np.zeros((len(masks), 1), np.int64)
        for name in self.store.bitmaps.names:
            each = self.attributes.dictionaries[name]
            rows[each.word] |= ((1 << each.bits) - 1) << each.shift
        return ((masks & ~rows) == 0).all(axis=0)


def mixed_key(one: Ints, other: Any) -> Ints:
    """A number for two, different ones for most pairs."""
    mixed: Ints = (one ^ other) * np.int64(layout.SPREAD)
    return mixed ^ mixed >> 29
