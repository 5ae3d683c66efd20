"""How entries get to their cells: the group that can hold them, the columns they need, the cells they go to.

By the plan there is (`scheme`), both those it was made for and those that come later, which go into the first group whose
tests can hold them, or a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index import bitmaps
from contentcast.matching.index.changes import place_numbers
from contentcast.matching.index.codes import ABSENT_KEY
from contentcast.matching.index.entries import Column, Entries
from contentcast.matching.index.plan import BITMAPS, LEVEL_BITS, Gate, Plan, Test, residual_signatures, widened
from contentcast.matching.index.scales import ABSENT_CODE, GREATEST_CODE, Scale
from contentcast.matching.index.scheme import Scheme, mixed_key
from contentcast.matching.index.store import Group, ordered
from contentcast.model.keys import key_ends

Ints = npt.NDArray[np.int64]

MOST_GROUPS_EACH: Final = 16
"""A gate with so many groups gets one that can hold every entry known, instead of one more for each new signature."""
LEAST_RUN: Final = 4
"""Entries that ask the same are put together where this many do on average; testing one is cheaper than following a run."""

_NO_COLUMN: Final = Column(*(np.zeros(0, np.int64) for _ in range(3)))
_NO_CODES: Final = tuple(np.zeros(0, np.int64) for _ in range(3))


@dataclass(slots=True)
class Filing(Scheme):
    """`scales`: of each attribute with ranges the order codes of their ends."""

    scales: dict[str, Scale] = field(default_factory=dict)

    def is_crowded(self) -> bool:
        """Will a dictionary soon have outgrown its bits, or an attribute's order codes have to be given anew?"""
        dictionaries = self.attributes.dictionaries.values()
        return any(each.bits and 3 * len(each) > each.capacity for each in dictionaries) or any(
            each.is_crowded for each in self.scales.values()
        )

    def insert(self, ids: Ints, entries: Entries, chosen: Any = None) -> None:
        """File the entries, which the dictionaries have room for (`fits`), behind the gates `chosen` by the plan or else the
        best there are; `ids[owner]` is an entry's subscription.
        """
        words, masks = self.equal_words(entries)
        if chosen is None:
            chosen = self.assign(entries, masks)
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
        levels = self.levels_of(entries, chosen)
        gated = np.flatnonzero(chosen != BITMAPS)
        group_of = self._group_numbers(signatures, numbers[gated], chosen[gated], levels[gated])
        codes = self._range_codes(entries)
        for number in np.unique(group_of).tolist():
            rows = gated[group_of == number]
            group = self.store.groups[number]
            columns = self._columns(group, entries, words, masks, rows, tagged, codes)
            copies, keys = self._gate_keys(group, entries, words, rows)
            if copies is not None:
                rows, columns = rows[copies], columns[:, copies]
            cell_of = self.store.cells_for(number, keys, self._reach(group))
            referred_ids.append(ids[entries.owner[rows]])
            referred_cells.append(cell_of)
            columns, cell_of, lengths = self._runs(columns, cell_of)
            self.store.append(number, cell_of, columns, lengths)
        self.store.refer(np.concatenate(referred_ids), np.concatenate(referred_cells))

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

    def _gate_keys(self, group: Group, entries: Entries, words: Ints, rows: Ints) -> tuple[Ints | None, Ints]:
        """The key under which each of these entries is filed; behind a grid one comes once for each cell it lies in: which
        of them, or None if each comes once, as it stands.
        """
        gate = group.gate
        if gate.kind == "equal":
            return None, words[gate.word, rows] & gate.mask
        if gate.kind == "open":
            return None, np.zeros(len(rows), np.int64)
        place = np.full(entries.count, -1, np.int64)
        place[rows] = np.arange(len(rows))
        if gate.kind == "text":
            column = entries.columns["text", gate.attribute]
            keys = np.empty(len(rows), np.int64)
            mine = place[column.entry] >= 0
            keys[place[column.entry[mine]]] = column.value[mine] >> 2
            return None, keys
        entry, first, last = self.grid_span(entries, gate, place >= 0)
        first, last = first >> (LEVEL_BITS * group.level), last >> (LEVEL_BITS * group.level)
        spread = last - first + 1
        offsets = np.arange(spread.sum()) - np.repeat(np.cumsum(spread) - spread, spread)
        return np.repeat(place[entry], spread), np.repeat(first, spread) + offsets

    def _columns(
        self, group: Group, entries: Entries, words: Ints, masks: Ints, rows: Ints, tagged: Any, codes: dict[str, Any]
    ) -> Any:
        """The group's columns for these entries; a test that an entry does not need is left open."""
        columns = np.empty((group.width, len(rows)), np.int32)
        columns[0] = tagged[rows]
        place = np.full(entries.count, -1, np.int64)
        place[rows] = np.arange(len(rows))
        for (kind, arg), at in group.columns():
            if kind == "word":
                left = masks[arg // 2, rows]
                if group.gate.kind == "equal" and group.gate.word == arg // 2:
                    left &= ~group.gate.mask
                mask = (left >> (32 * (arg % 2))) & 0xFFFFFFFF
                columns[at], columns[at + 1] = (words[arg // 2, rows] >> (32 * (arg % 2))) & mask, mask
            elif kind in ("set", "text"):
                column = entries.columns.get((kind, arg), _NO_COLUMN)
                place_numbers(column.entry, column.value, place, -1, columns[at])
            else:
                entry, first, last = codes.get(arg, _NO_CODES)
                if kind != "high":
                    place_numbers(entry, first, place, ABSENT_CODE, columns[at])
                if kind != "low":
                    place_numbers(entry, last, place, GREATEST_CODE, columns[at + (kind == "range")])
        return columns

    def _range_codes(self, entries: Entries) -> dict[str, tuple[Ints, Ints, Ints]]:
        """The order codes of all ranges, by attribute: entries, first and last codes."""
        found = {}
        for (form, name), column in entries.columns.items():
            if form == "range":
                first, last = self.scales[name].codes_of_ranges(column.value, column.last, *self._open_ends(name))
                found[name] = column.entry, first, last
        return found

    def _open_ends(self, name: str) -> tuple[int, int]:
        """With which keys a range begins and ends that is open on that side."""
        least, greatest = key_ends(self.attributes.space.kinds[name])
        return max(least, ABSENT_KEY + 1), greatest

    def _runs(self, columns: Any, cell_of: Any) -> tuple[Any, Any, Ints]:
        """Entries of one cell that ask the same become one entry with a run of ids, where that makes fewer of them."""
        count = columns.shape[1]
        ones = np.ones(count, np.int64)
        if count < 64 or columns.shape[0] == 1:
            return columns, cell_of, ones
        mixed = cell_of.astype(np.int64)
        for column in columns[1:]:
            mixed = mixed_key(mixed, column)
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
