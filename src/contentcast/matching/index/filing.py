"""How entries get to their cells: the gate they go behind, the group that can hold them, the columns they need.

Made with a plan for the subscriptions there are, and used for those that come later: they go behind the gates there are, into
the first group whose tests can hold them, or a new one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index import bitmaps, layout
from contentcast.matching.index.codes import ABSENT_KEY, Dictionary
from contentcast.matching.index.entries import Attributes, Column, Entries
from contentcast.matching.index.plan import (
    BITMAPS,
    CANDIDATE_NS,
    LEVEL_BITS,
    TEST_NS,
    Gate,
    Plan,
    Test,
    half_masks,
    lay_out_words,
    level_of,
    make_plan,
    merge_signatures,
    residual_signatures,
    widened,
)
from contentcast.matching.index.scales import ABSENT_CODE, GREATEST_CODE, LEAST_CODE, Scale
from contentcast.matching.index.store import Group, Store, ordered
from contentcast.model.keys import key_ends

Ints = npt.NDArray[np.int64]

MOST_GROUPS_EACH: Final = 16
"""A gate with so many groups gets one that can hold every entry known, instead of one more for each new signature."""
LEAST_RUN: Final = 4
"""Entries that ask the same are put together where this many do on average; testing one is cheaper than following a run."""


HALF_NS: Final = 5.0
"""Beginning to compare a cell's entries with half a word, about."""
LEVEL_NS: Final = 4.0
"""Looking into a cell of one more level of a grid, about."""

_NO_COLUMN: Final = Column(*(np.zeros(0, np.int64) for _ in range(3)))


@dataclass(slots=True)
class Filing:
    """`planned`: for a gate and level, which signature goes into the group with which tests."""

    attributes: Attributes
    store: Store
    gates: list[Gate] = field(default_factory=list)
    grids: dict[str, Ints] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    levels: dict[str, Ints] = field(default_factory=dict)
    """Of each grid the levels that were worth a group, ascending; an entry goes to the finest that is not finer than its own,
    or to its own if there is none.
    """
    words: int = 0
    planned: dict[tuple[Gate, int], dict[frozenset[Test], frozenset[Test]]] = field(default_factory=dict)

    def plan(self, entries: Entries) -> Any:
        """Choose gates and groups for these entries; returns the number of each one's gate."""
        self.words = lay_out_words(self.attributes, entries)
        _, masks = self.equal_words(entries)
        rows = np.arange(entries.count)
        small = self._of_small_domains(entries)
        if small.any():
            tested = self._tested(masks[:, small])
            gated = make_plan(self.attributes, entries, masks, rows[small])
            halves = len({(each.word, each.shift // 32) for each in tested.values()})
            gated_ns = gated.cost_ns + len(gated.gates) * halves * HALF_NS
            if bitmaps.cost_ns(int(small.sum()), list(tested.values())) < gated_ns:
                rows = rows[~small]
                order, _ = bitmaps.sorting_order(masks[:, small], masks[:, small], tested)
                self.store.bitmaps.lay_out({name: tested[name] for name in order})
        plan = make_plan(self.attributes, entries, masks, rows)
        if len(rows) < entries.count:
            plan.chosen[small] = BITMAPS
        self.gates, self.grids = plan.gates, plan.grids
        self.levels = {}
        for number, gate in enumerate(plan.gates):
            if gate.kind == "cells" and (plan.chosen == number).any():
                self.levels[gate.attribute] = self._worth_a_group(entries, gate, plan.chosen == number)
        self._plan_groups(entries, masks, plan)
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

    def equal_words(self, entries: Entries) -> tuple[Any, Any]:
        """Each entry's equal constraints as words and masks; (None, None) if a dictionary has outgrown its bits, or has none.

        Also one that no entry uses: a value may have got its code and then have become part of a set, and events that carry it
        would write into the bits of the next attribute.
        """
        if any(each.bits and len(each) > each.capacity for each in self.attributes.dictionaries.values()):
            return None, None
        words = np.zeros((self.words, entries.count), np.int64)
        masks = np.zeros((self.words, entries.count), np.int64)
        for (form, name), column in entries.columns.items():
            if form != "equal":
                continue
            dictionary = self.attributes.dictionaries[name]
            if dictionary.bits == 0:
                return None, None
            words[dictionary.word, column.entry] |= column.value << dictionary.shift
            masks[dictionary.word, column.entry] |= ((1 << dictionary.bits) - 1) << dictionary.shift
        return words, masks

    def _plan_groups(self, entries: Entries, masks: Ints, plan: Plan) -> None:
        """For each gate (and level of a grid), which tests its groups have."""
        self.planned = {}
        signatures, numbers = residual_signatures(self.attributes, entries, masks, plan)
        levels = self._levels(entries, plan.chosen)
        for number, gate in enumerate(plan.gates):
            behind = plan.chosen == number
            for level in np.unique(levels[behind]).tolist():
                mine = behind & (levels == level)
                odds = self._odds(gate, level, mine, entries)
                counted = np.bincount(numbers[mine], minlength=len(signatures))
                expected = Counter({signatures[at]: counted[at] * odds for at in np.flatnonzero(counted).tolist()})
                self.planned[gate, level] = merge_signatures(expected)

    def _odds(self, gate: Gate, level: int, mine: Any, entries: Entries) -> float:
        """The share of the group's entries that an event looks at: one cell of those there are."""
        if gate.kind == "open":
            return 1.0
        if gate.kind == "cells":
            return min(1.0, 2.0 / ((len(self.grids[gate.attribute]) >> (LEVEL_BITS * level)) + 1))
        return max(1.0 / max(int(mine.sum()), 1), 1e-3 if gate.kind == "equal" else 1e-2)

    def _levels(self, entries: Entries, chosen: Any) -> Any:
        """The level of the grid at which an entry behind a cells gate lies in at most three cells; 0 behind others."""
        levels = np.zeros(entries.count, np.int64)
        for number, gate in enumerate(self.gates):
            if gate.kind != "cells" or not (chosen == number).any():
                continue
            rows, first, last = self._grid_span(entries, gate, chosen == number)
            own, used = level_of(first, last), self.levels[gate.attribute]
            at = np.searchsorted(used, own)
            levels[rows] = np.where(at < len(used), np.append(used, 0)[at], own)
        return levels

    def _worth_a_group(self, entries: Entries, gate: Gate, behind: Any) -> Ints:
        """The levels of a grid with so many entries that looking into one more cell costs an event less than testing them."""
        _, first, last = self._grid_span(entries, gate, behind)
        counts = np.bincount(level_of(first, last))
        used = []
        for level in range(len(counts)):
            cells = (len(self.grids[gate.attribute]) >> (LEVEL_BITS * (level + 1))) + 1
            if level + 1 == len(counts) or counts[level] * 2 / cells * (CANDIDATE_NS + TEST_NS) > LEVEL_NS:
                used.append(level)
            else:
                counts[level + 1] += counts[level]
        return np.array(used, np.int64)

    def _grid_span(self, entries: Entries, gate: Gate, behind: Any) -> tuple[Ints, Ints, Ints]:
        """The entries behind a cells gate with the ranks of their range's ends."""
        column = entries.columns["range", gate.attribute]
        mine = behind[column.entry]
        grid = self.grids[gate.attribute]
        first = np.searchsorted(grid, column.value[mine], "right")
        return column.entry[mine], first, np.searchsorted(grid, column.last[mine], "right")

    def _assign(self, entries: Entries, masks: Ints) -> Any:
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

    def _covered_by_bitmaps(self, masks: Ints) -> Any:
        """Do the entries compare only attributes that the bitmaps have?"""
        rows = np.zeros((len(masks), 1), np.int64)
        for name in self.store.bitmaps.names:
            each = self.attributes.dictionaries[name]
            rows[each.word] |= ((1 << each.bits) - 1) << each.shift
        return ((masks & ~rows) == 0).all(axis=0)

    def insert(self, ids: Ints, entries: Entries, chosen: Any = None) -> bool:
        """File the entries, behind the gates `chosen` by the plan or else the best there are; `ids[owner]` is an entry's
        subscription. False, and nothing done, if a dictionary has outgrown its bits: only a new plan helps.
        """
        words, masks = self.equal_words(entries)
        if words is None:
            return False
        if chosen is None:
            chosen = self._assign(entries, masks)
        self._mark(entries)
        tagged = self._tagged(ids, entries)
        referred_ids, referred_cells = [ids], [np.full(len(ids), -1, np.int32)]
        in_bitmaps = np.flatnonzero(chosen == BITMAPS)
        if len(in_bitmaps):
            tested = {name: self.attributes.dictionaries[name] for name in self.store.bitmaps.names}
            _, order = bitmaps.sorting_order(words[:, in_bitmaps], masks[:, in_bitmaps], tested)
            in_bitmaps = in_bitmaps[order]
            slots = self.store.bitmaps.add(
                words[:, in_bitmaps], masks[:, in_bitmaps], tagged[in_bitmaps], self.attributes.dictionaries
            )
            referred_ids.append(ids[entries.owner[in_bitmaps]])
            referred_cells.append((~(slots + 1)).astype(np.int32))
        plan = Plan(self.gates, np.maximum(chosen, 0), self.grids)
        signatures, numbers = residual_signatures(self.attributes, entries, masks, plan)
        levels = self._levels(entries, chosen)
        gated = np.flatnonzero(chosen != BITMAPS)
        group_of = self._group_numbers(signatures, numbers[gated], chosen[gated], levels[gated])
        for number in np.unique(group_of).tolist():
            rows = gated[group_of == number]
            group = self.store.groups[number]
            rows, keys = self._gate_keys(group, entries, words, rows)
            columns = self._columns(group, entries, words, masks, rows, tagged)
            cell_of = self.store.cells_for(number, keys, self._reach(group))
            referred_ids.append(ids[entries.owner[rows]])
            referred_cells.append(cell_of)
            columns, cell_of, lengths = self._runs(columns, cell_of)
            self.store.append(number, cell_of, columns, lengths)
        for (form, name), column in entries.columns.items():
            if form == "text":
                for value in column.value.tolist():
                    self.attributes.texts[name].use(value >> 2)
        self.store.refer(np.concatenate(referred_ids), np.concatenate(referred_cells))
        return True

    def _tagged(self, ids: Ints, entries: Entries) -> Any:
        """Each entry's id as it will carry it."""
        long = ids > GREATEST_CODE
        long[entries.owner[entries.multiple]] = True
        tagged = ids.copy()
        tagged[long] = self.store.add_several(ids[long])
        return tagged[entries.owner].astype(np.int32)

    def _mark(self, entries: Entries) -> None:
        """Put the ends of new ranges on their attributes' scales."""
        for (form, name), column in entries.columns.items():
            if form != "range":
                continue
            least, greatest = self._open_ends(name)
            ends = np.concatenate([column.value[column.value > least], column.last[column.last < greatest]])
            changed = self.scales.setdefault(name, Scale()).add(ends)
            if changed is not None:
                self.store.recode(name, *changed)

    def _group_numbers(self, signatures: list[frozenset[Test]], numbers: Any, chosen: Any, levels: Any) -> Any:
        """The group of each entry: planned for its signature, or the first that can hold it, or a new one."""
        key = (chosen.astype(np.int64) * 64 + levels) * len(signatures) + numbers
        distinct, inverse = np.unique(key, return_inverse=True)
        known: dict[tuple[Gate, int], dict[frozenset[Test], int]] = {}
        for at, group in enumerate(self.store.groups):
            known.setdefault((group.gate, group.level), {})[frozenset(group.tests)] = at
        found = []
        for each in distinct.tolist():
            gate_level, signature_number = divmod(each, len(signatures))
            behind = self.gates[gate_level // 64], gate_level % 64
            signature = signatures[signature_number]
            groups = known.setdefault(behind, {})
            wanted = self.planned.get(behind, {}).get(signature)
            if wanted is None:
                fitting = [tests for tests in groups if can_hold(tests, signature)]
                wanted = min(fitting, key=len) if fitting else signature
                if not fitting and len(groups) >= MOST_GROUPS_EACH:
                    wanted = widened(frozenset().union(signature, *groups, *signatures))
            if wanted not in groups:
                groups[wanted] = len(self.store.groups)
                self.store.groups.append(Group(*behind, ordered(wanted)))
            found.append(groups[wanted])
        return np.array(found, np.int64)[inverse]

    def _reach(self, group: Group) -> int:
        if group.gate.kind == "cells":
            return (len(self.grids[group.gate.attribute]) >> (LEVEL_BITS * group.level)) + 1
        return len(self.attributes.texts[group.gate.attribute]) if group.gate.kind == "text" else 1

    def _gate_keys(self, group: Group, entries: Entries, words: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """The key under which each entry is filed; behind a grid an entry comes once for each cell it lies in."""
        gate = group.gate
        if gate.kind == "equal":
            return rows, words[gate.word, rows] & gate.mask
        if gate.kind == "open":
            return rows, np.zeros(len(rows), np.int64)
        behind = np.zeros(entries.count, np.bool_)
        behind[rows] = True
        if gate.kind == "text":
            column = entries.columns["text", gate.attribute]
            mine = behind[column.entry]
            return column.entry[mine], column.value[mine] >> 2
        entry, first, last = self._grid_span(entries, gate, behind)
        first, last = first >> (LEVEL_BITS * group.level), last >> (LEVEL_BITS * group.level)
        spread = last - first + 1
        offsets = np.arange(spread.sum()) - np.repeat(np.cumsum(spread) - spread, spread)
        return np.repeat(entry, spread), np.repeat(first, spread) + offsets

    def _columns(self, group: Group, entries: Entries, words: Ints, masks: Ints, rows: Ints, tagged: Any) -> Any:
        """The group's columns for these entries; a test that an entry does not need is left open."""
        columns = np.empty((group.width, len(rows)), np.int32)
        columns[0] = tagged[rows]
        halves, half_words = half_masks(masks[:, rows] & ~self._gate_bits(group.gate)), half_masks(words[:, rows])
        at = 1
        for kind, arg in group.tests:
            if kind == "word":
                columns[at], columns[at + 1] = half_words[arg] & halves[arg], halves[arg]
                at += 2
                continue
            form = "range" if kind in ("low", "high") else kind
            column = entries.columns.get((form, arg), _NO_COLUMN)
            place = np.full(entries.count, -1, np.int64)
            place[column.entry] = np.arange(len(column.entry))
            source = place[rows]
            held = source >= 0
            source = source[held]
            if kind in ("set", "text"):
                columns[at] = -1
                columns[at, held] = column.value[source]
                at += 1
                continue
            if kind in ("low", "range"):
                columns[at] = ABSENT_CODE
                columns[at, held] = self._first_codes(arg, column.value[source])
                at += 1
            if kind in ("high", "range"):
                columns[at] = GREATEST_CODE
                columns[at, held] = self._last_codes(arg, column.last[source])
                at += 1
        return columns

    def _first_codes(self, name: str, keys: Ints) -> Any:
        """Of the keys that ranges begin with."""
        least, _ = self._open_ends(name)
        return np.where(keys <= least, LEAST_CODE, self._codes(name, keys))

    def _last_codes(self, name: str, keys: Ints) -> Any:
        """Of the keys that they end with."""
        _, greatest = self._open_ends(name)
        return np.where(keys >= greatest, GREATEST_CODE, self._codes(name, keys))

    def _codes(self, name: str, keys: Ints) -> Any:
        return self.scales[name].codes_of(np.clip(keys, None, self.scales[name].points[-1])) if len(keys) else keys

    def _open_ends(self, name: str) -> tuple[int, int]:
        """With which keys a range begins and ends that is open on that side."""
        least, greatest = key_ends(self.attributes.space.kinds[name])
        return max(least, ABSENT_KEY + 1), greatest

    def _gate_bits(self, gate: Gate) -> Any:
        """What the gate has tested, [word, 1]."""
        bits = np.zeros((self.words, 1), np.int64)
        if gate.kind == "equal":
            bits[gate.word] = gate.mask
        return bits

    def _runs(self, columns: Any, cell_of: Any) -> tuple[Any, Any, Ints]:
        """Entries of one cell that ask the same become one entry with a run of ids, where that makes fewer of them."""
        count = columns.shape[1]
        ones = np.ones(count, np.int64)
        if count < 64 or columns.shape[0] == 1:
            return columns, cell_of, ones
        mixed = cell_of.astype(np.int64)
        for column in columns[1:]:
            mixed = (mixed ^ column) * np.int64(layout.SPREAD)
            mixed ^= mixed >> 29
        if len(np.unique(mixed)) * LEAST_RUN > count:
            return columns, cell_of, ones
        order = np.lexsort((*columns[1:], cell_of))
        columns, cell_of = columns[:, order], cell_of[order]
        new = np.ones(count, np.bool_)
        new[1:] = (cell_of[1:] != cell_of[:-1]) | (columns[1:, 1:] != columns[1:, :-1]).any(axis=0)
        new[1:] |= (columns[0, 1:] < 0) | (columns[0, :-1] < 0)  # those with several conjunctions stay by themselves
        starts = np.flatnonzero(new)
        lengths = np.diff(np.append(starts, count))
        ids = columns[0].astype(np.int64)
        kept = columns[:, starts].copy()
        runs = np.flatnonzero(lengths > 1)
        if len(runs):
            inside = np.repeat(lengths > 1, lengths)
            run_lengths = lengths[runs]
            first = self.store.add_runs(np.cumsum(run_lengths) - run_lengths, run_lengths, ids[inside])
            kept[0, runs] = ~(2 * (first + np.arange(len(runs))))
        return kept, cell_of[starts], lengths


def can_hold(tests: frozenset[Test], signature: frozenset[Test]) -> bool:
    """Can a group with these tests hold an entry with this signature?"""
    return all(test in tests or (test[0] in ("low", "high") and ("range", test[1]) in tests) for test in signature)
