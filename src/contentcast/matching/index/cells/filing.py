"""Entries are filed: each goes by the plan (`active_plan`) to a group whose tests can hold it, and into the cells of its route.

Entries that come after the plan was made go to the smallest group that can hold them, or to a new one.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.cells.active_plan import ActivePlan
from contentcast.matching.index.cells.groups import Group, group_columns, ordered
from contentcast.matching.index.cells.store import Store
from contentcast.matching.index.machine.layout import GATE_LEVEL, GREATEST_CODE, MIXED, GroupColumns
from contentcast.matching.index.planning.bitmap_plan import sorting_keys
from contentcast.matching.index.planning.gates import Test
from contentcast.matching.index.planning.plan import finished
from contentcast.matching.index.planning.routes import MOST_LEVELS, route_entries
from contentcast.matching.index.planning.signatures import numbers_of, put_number
from contentcast.matching.index.planning.test_sets import widened
from contentcast.matching.index.values.dictionaries import FIRST
from contentcast.matching.index.values.entries import Attributes, Entries
from contentcast.matching.index.values.entry_rows import EntryRows, entry_rows_of, find_codes
from contentcast.matching.index.values.order_codes import OrderCodes

Ints = npt.NDArray[np.int64]

MOST_GROUPS_PER_GATE: Final = 16
"""When a gate has this many groups, the next one can hold every entry known; else there would be one for each signature."""


@dataclass(slots=True)
class Filing:
    """A store with the plan by which it is filled. `order_codes`: the order codes of each attribute that has ranges."""

    attributes: Attributes
    store: Store
    plan: ActivePlan = field(init=False)
    order_codes: dict[str, OrderCodes] = field(default_factory=dict)
    _known: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """The groups that gates, levels and signatures have gone to (see `routes`)."""
    _known_count: int = 0
    _columns: GroupColumns | None = None

    def __post_init__(self) -> None:
        self.plan = ActivePlan(self.attributes)

    def make_plan(self, entries: Entries) -> Any:
        """Choose gates and groups for these entries, before any is filed; returns the number of each one's gate."""
        return finished(self.make_plan_steps(entries))

    def make_plan_steps(
        self, entries: Entries, times: float = 1.0, expected: dict[str, int] | None = None
    ) -> Generator[int, None, Any]:
        """The same in steps (see `ActivePlan.make_steps`)."""
        chosen = yield from self.plan.make_steps(entries, times, expected)
        if self.plan.in_bitmaps:
            self.store.bitmaps.lay_out({name: self.attributes.dictionaries[name] for name in self.plan.in_bitmaps})
        return chosen

    def is_crowded(self) -> bool:
        """Will a dictionary soon have outgrown its bits, or an attribute's order codes have to be given anew?"""
        # Asked for after every change, so without a call for each of many attributes.
        for each in self.attributes.dictionaries.values():
            if each.bits and 3 * len(each.values) > (1 << each.bits) - FIRST:
                return True
        return any([each.is_crowded for each in self.order_codes.values()])

    def is_nearly_full(self) -> bool:
        """Has a dictionary used two thirds of its bits?"""
        return any(each.bits and 3 * len(each) > 2 * each.capacity for each in self.attributes.dictionaries.values())

    def insert(self, ids: Ints, entries: Entries, chosen: Any = None) -> None:
        """File the entries, which the dictionaries have room for (`fits`), behind the gates `chosen` by the plan or else the
        best there are; `ids[owner]` is an entry's subscription.
        """
        entry_rows = entry_rows_of(entries, self.attributes, self.plan.words)
        self._mark(entries, entry_rows)
        routes, signatures = route_entries(
            entry_rows, self.plan.gate_arrays(), self.attributes, chosen, self.plan.covered_by_bitmaps()
        )
        try:
            groups = self._groups_of(routes, signatures)
            columns = self.group_columns()
            used = [(number, self.store.groups[number]) for number in np.unique(groups).tolist() if number >= 0]
            reach = {number: self._reach(group) for number, group in used if group.gate.kind != "equal"}
            rows, cells = self.store.open_cells(columns, routes, groups, reach)
            in_bitmaps = np.flatnonzero(groups < 0)
            self.store.fit_id_table(len(ids), len(ids) + len(in_bitmaps) + len(rows))
            tagged = self._tagged(ids, entries)
            id_tables = np.concatenate([ids, ids[entries.owner[in_bitmaps]], ids[entries.owner[rows]]])
            leading = np.concatenate([np.full(len(ids), -1), in_bitmaps, cells])
            if len(in_bitmaps):  # what they write is not taken back: nothing may fail from here to `refer`
                slots = leading[len(ids) : len(ids) + len(in_bitmaps)]
                self._into_bitmaps(entry_rows, in_bitmaps, tagged, slots)
                np.invert(np.add(slots, 1, out=slots), out=slots)
            self.store.refer(id_tables, leading)
            self.store.append(columns, entry_rows, rows, cells, routes[:, MIXED], tagged)
            barren = np.ones(len(ids), np.bool_)
            barren[entries.owner] = False
            self.store.barren.update(ids[barren].tolist())
        except BaseException:
            self.store.take_back(ids)
            self._known, self._known_count, self._columns = np.zeros((0, 0), np.int64), 0, None
            raise

    def _into_bitmaps(self, entry_rows: EntryRows, rows: Ints, tagged: Any, slots: Ints) -> None:
        """Writes the slots that these entries get."""
        tested = {name: self.attributes.dictionaries[name] for name in self.store.bitmaps.names}
        order = np.argsort(sorting_keys(entry_rows.words[:, rows], entry_rows.masks[:, rows], tested), kind="stable")
        ordered_rows = rows[order]
        slots[order] = self.store.bitmaps.add(
            entry_rows.words[:, ordered_rows],
            entry_rows.masks[:, ordered_rows],
            tagged[ordered_rows],
            self.attributes.dictionaries,
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

    def _mark(self, entries: Entries, entry_rows: EntryRows) -> None:
        """Put the ends of new ranges on their attributes' scales, and give all their order codes."""
        for form, name in entries.columns:
            if form != "range":
                continue
            coding, field_code = self.order_codes.setdefault(name, OrderCodes()), 2 * self.attributes.numbers[name]
            missing = find_codes(entry_rows.tests, field_code, coding.points, coding.codes)
            if len(missing):
                coding.add(missing, partial(self.store.recode, name))
                find_codes(entry_rows.tests, field_code, coding.points, coding.codes)

    def _groups_of(self, routes: Ints, signatures: Ints) -> Ints:
        """The group of each entry by its gate, level and signature; -1 in the bitmaps."""
        wide, count = signatures.shape[1], len(routes)
        if not len(self._known):
            self._known = np.full((64, wide + 2), -1, np.int64)
        groups = np.empty(count, np.int64)
        at = numbers_of(self._known, routes, signatures, 0, groups)
        while at < count:
            if 2 * (self._known_count + 1) > len(self._known):
                larger = np.full((4 * len(self._known), wide + 2), -1, np.int64)
                held = self._known[self._known[:, -1] >= 0]
                behind, signed = held[:, :1].copy(), held[:, 1:-1].copy()
                for each, group in enumerate(held[:, -1].tolist()):
                    put_number(larger, behind, signed, each, group)
                self._known = larger
            gate, level = divmod(int(routes[at, GATE_LEVEL]), MOST_LEVELS)
            put_number(self._known, routes, signatures, at, self._group_for(gate, level, self.plan.tests_of(signatures[at])))
            self._known_count += 1
            at = numbers_of(self._known, routes, signatures, at, groups)
        return groups

    def _group_for(self, gate: int, level: int, signature: frozenset[Test]) -> int:
        """The group planned for a signature, or the smallest that can hold it, or a new one."""
        behind = self.plan.gates[gate], level
        groups = {
            frozenset(group.tests): number
            for number, group in enumerate(self.store.groups)
            if (group.gate, group.level) == behind
        }
        wanted = self.plan.planned.get(behind, {}).get(signature)
        if wanted is None:
            fitting = [tests for tests in groups if can_hold(tests, signature)]
            wanted = min(fitting, key=len) if fitting else signature
            if not fitting and len(groups) >= MOST_GROUPS_PER_GATE:
                wanted = widened(frozenset().union(signature, *groups))
        if wanted not in groups:
            groups[wanted] = len(self.store.groups)
            self.store.groups.append(Group(*behind, ordered(wanted)))
            for kind, name in wanted:  # also where those that it was planned for have gone
                if kind in ("range", "low", "high"):
                    self.order_codes.setdefault(name, OrderCodes())
        return groups[wanted]

    def group_columns(self) -> GroupColumns:
        """The groups as the kernels that fill them read them."""
        if self._columns is None or len(self._columns.width) < len(self.store.groups):
            self._columns = group_columns(self.store.groups, self.attributes.numbers)
        return self._columns

    def _reach(self, group: Group) -> int:
        if group.gate.kind == "cells":
            return self.plan.grids[group.gate.attribute].cells(group.level)
        return len(self.attributes.texts[group.gate.attribute]) if group.gate.kind == "text" else 1


def can_hold(tests: frozenset[Test], signature: frozenset[Test]) -> bool:
    """Can a group with these tests hold an entry with this signature?"""
    return all(test in tests or (test[0] in ("low", "high") and ("range", test[1]) in tests) for test in signature)
