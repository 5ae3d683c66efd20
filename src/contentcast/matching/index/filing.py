"""How entries get to their cells: the group that can hold them, the columns they need, the cells they go to.

By the plan there is (`scheme`), both those it was made for and those that come later, which go into the first group whose
tests can hold them, or a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index import bitmaps
from contentcast.matching.index.asks import MOST_LEVELS, Asks, asks_of, find_codes, places_of
from contentcast.matching.index.entries import Entries
from contentcast.matching.index.groups import Group, group_columns, ordered
from contentcast.matching.index.layout import GATE_LEVEL, GREATEST_CODE, MIXED, GroupColumns
from contentcast.matching.index.numbering import numbers_of, put_number
from contentcast.matching.index.plan import Test, widened
from contentcast.matching.index.scales import Scale
from contentcast.matching.index.scheme import Scheme

Ints = npt.NDArray[np.int64]

MOST_GROUPS_EACH: Final = 16
"""A gate with so many groups gets one that can hold every entry known, instead of one more for each new signature."""


@dataclass(slots=True)
class Filing(Scheme):
    """`scales`: of each attribute with ranges the order codes of their ends."""

    scales: dict[str, Scale] = field(default_factory=dict)
    _known: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """The groups that gates, levels and signatures have gone to (see `asks`)."""
    _known_count: int = 0
    _columns: GroupColumns | None = None

    def is_crowded(self) -> bool:
        """Will a dictionary soon have outgrown its bits, or an attribute's order codes have to be given anew?"""
        dictionaries = self.attributes.dictionaries.values()
        return any(each.bits and 3 * len(each) > each.capacity for each in dictionaries) or any(
            each.is_crowded for each in self.scales.values()
        )

    def is_nearly_full(self) -> bool:
        """Has a dictionary used two thirds of its bits?"""
        return any(each.bits and 3 * len(each) > 2 * each.capacity for each in self.attributes.dictionaries.values())

    def insert(self, ids: Ints, entries: Entries, chosen: Any = None) -> None:
        """File the entries, which the dictionaries have room for (`fits`), behind the gates `chosen` by the plan or else the
        best there are; `ids[owner]` is an entry's subscription.
        """
        asks = asks_of(entries, self.attributes, self.words)
        self._mark(entries, asks)
        where, signatures = places_of(asks, self.gate_arrays(), self.attributes, chosen, self.covered_by_bitmaps())
        try:
            groups = self._groups_of(where, signatures)
            columns = self.group_columns()
            reach = {number: self._reach(group) for number, group in enumerate(self.store.groups) if group.gate.kind != "equal"}
            rows, cells = self.store.open_cells(columns, where, groups, reach)
            in_bitmaps = np.flatnonzero(groups < 0)
            self.store.fit_references(len(ids), len(ids) + len(in_bitmaps) + len(rows))
            tagged = self._tagged(ids, entries)
            referring = np.concatenate([ids, ids[entries.owner[in_bitmaps]], ids[entries.owner[rows]]])
            leading = np.concatenate([np.full(len(ids), -1), in_bitmaps, cells])
            if len(in_bitmaps):  # what they write is not taken back: nothing may fail from here to `refer`
                slots = leading[len(ids) : len(ids) + len(in_bitmaps)]
                self._into_bitmaps(asks, in_bitmaps, tagged, slots)
                np.invert(np.add(slots, 1, out=slots), out=slots)
            self.store.refer(referring, leading)
            self.store.append(columns, asks, rows, cells, where[:, MIXED], tagged)
            barren = np.ones(len(ids), np.bool_)
            barren[entries.owner] = False
            self.store.barren.update(ids[barren].tolist())
        except BaseException:
            self.store.take_back(ids)
            self._known, self._known_count, self._columns = np.zeros((0, 0), np.int64), 0, None
            raise

    def _into_bitmaps(self, asks: Asks, rows: Ints, tagged: Any, slots: Ints) -> None:
        """Writes the slots that these entries get."""
        tested = {name: self.attributes.dictionaries[name] for name in self.store.bitmaps.names}
        order = np.argsort(bitmaps.sorting_keys(asks.words[:, rows], asks.masks[:, rows], tested), kind="stable")
        ordered_rows = rows[order]
        slots[order] = self.store.bitmaps.add(
            asks.words[:, ordered_rows], asks.masks[:, ordered_rows], tagged[ordered_rows], self.attributes.dictionaries
        )

    def _tagged(self, ids: Ints, entries: Entries) -> Any:
        """Each entry's id as it will carry it."""
        long = ids > GREATEST_CODE
        if entries.multiple.any():
            long[entries.owner[entries.multiple]] = True
        elif not long.any():
            return ids.astype(np.int32)[entries.owner]
        tagged = ids.copy()
        tagged[long] = self.store.add_several(ids[long])
        return tagged[entries.owner].astype(np.int32)

    def _mark(self, entries: Entries, asks: Asks) -> None:
        """Put the ends of new ranges on their attributes' scales, and give all their order codes."""
        for form, name in entries.columns:
            if form != "range":
                continue
            scale, subject = self.scales.setdefault(name, Scale()), 2 * self.attributes.numbers[name]
            missing = find_codes(asks.asks, subject, scale.points, scale.codes)
            if len(missing):
                scale.add(missing, partial(self.store.recode, name))
                find_codes(asks.asks, subject, scale.points, scale.codes)

    def _groups_of(self, where: Ints, signatures: Ints) -> Ints:
        """The group of each entry by its gate, level and signature; -1 in the bitmaps."""
        wide, count = signatures.shape[1], len(where)
        if not len(self._known):
            self._known = np.full((64, wide + 2), -1, np.int64)
        groups = np.empty(count, np.int64)
        at = numbers_of(self._known, where, signatures, 0, groups)
        while at < count:
            if 2 * (self._known_count + 1) > len(self._known):
                larger = np.full((4 * len(self._known), wide + 2), -1, np.int64)
                held = self._known[self._known[:, -1] >= 0]
                behind, signed = held[:, :1].copy(), held[:, 1:-1].copy()
                for each, group in enumerate(held[:, -1].tolist()):
                    put_number(larger, behind, signed, each, group)
                self._known = larger
            gate, level = divmod(int(where[at, GATE_LEVEL]), MOST_LEVELS)
            put_number(self._known, where, signatures, at, self._group_for(gate, level, self.tests_of(signatures[at])))
            self._known_count += 1
            at = numbers_of(self._known, where, signatures, at, groups)
        return groups

    def _group_for(self, gate: int, level: int, signature: frozenset[Test]) -> int:
        """The group planned for a signature, or the smallest that can hold it, or a new one."""
        behind = self.gates[gate], level
        groups = {
            frozenset(group.tests): number
            for number, group in enumerate(self.store.groups)
            if (group.gate, group.level) == behind
        }
        wanted = self.planned.get(behind, {}).get(signature)
        if wanted is None:
            fitting = [tests for tests in groups if can_hold(tests, signature)]
            wanted = min(fitting, key=len) if fitting else signature
            if not fitting and len(groups) >= MOST_GROUPS_EACH:
                wanted = widened(frozenset().union(signature, *groups))
        if wanted not in groups:
            groups[wanted] = len(self.store.groups)
            self.store.groups.append(Group(*behind, ordered(wanted)))
            for kind, name in wanted:  # also where those that it was planned for have gone
                if kind in ("range", "low", "high"):
                    self.scales.setdefault(name, Scale())
        return groups[wanted]

    def group_columns(self) -> GroupColumns:
        """The groups as the kernels that fill them read them."""
        if self._columns is None or len(self._columns.width) < len(self.store.groups):
            self._columns = group_columns(self.store.groups, self.attributes.numbers)
        return self._columns

    def _reach(self, group: Group) -> int:
        if group.gate.kind == "cells":
            return self.grids[group.gate.attribute].cells(group.level)
        return len(self.attributes.texts[group.gate.attribute]) if group.gate.kind == "text" else 1


def can_hold(tests: frozenset[Test], signature: frozenset[Test]) -> bool:
    """Can a group with these tests hold an entry with this signature?"""
    return all(test in tests or (test[0] in ("low", "high") and ("range", test[1]) in tests) for test in signature)
