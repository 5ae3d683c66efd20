"""The plan in use: its gates, its grids, and which signatures share a group.

Subscriptions that come later go behind the same gates. `plan` chooses the gates, `filing` files entries by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.matching.index.machine import layout
from contentcast.matching.index.planning import bitmap_plan
from contentcast.matching.index.planning.gates import BITMAPS, Gate, Test
from contentcast.matching.index.planning.grids import Grid
from contentcast.matching.index.planning.plan import Plan, lay_out_words, plan_steps
from contentcast.matching.index.planning.routes import MOST_LEVELS, Gates, gates_of, route_entries, tests_of
from contentcast.matching.index.planning.signatures import kinds_among
from contentcast.matching.index.planning.test_sets import MOST_COMMON, merge_signatures
from contentcast.matching.index.values.dictionaries import Dictionary
from contentcast.matching.index.values.entries import Attributes, Entries
from contentcast.matching.index.values.entry_rows import EntryRows, entry_rows_of

Ints = npt.NDArray[np.int64]

HALF_NS: Final = 5.0
"""Cost of beginning to compare the entries of a cell with half a word, in nanoseconds."""


@dataclass(slots=True)
class ActivePlan:
    """`planned`: for a gate and level, which signature goes into the group with which tests."""

    attributes: Attributes
    gates: list[Gate] = field(default_factory=list)
    grids: dict[str, Grid] = field(default_factory=dict)
    words: int = 0
    spare: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Word, shift and bits that are kept for attributes without a dictionary."""
    in_bitmaps: list[str] = field(default_factory=list)
    """The attributes that the bitmaps compare, in the order by which entries are sorted there; none if there are no bitmaps."""
    planned: dict[tuple[Gate, int], dict[frozenset[Test], frozenset[Test]]] = field(default_factory=dict)
    _gates: Gates | None = None

    def make_steps(
        self, entries: Entries, times: float = 1.0, expected: dict[str, int] | None = None
    ) -> Generator[int, None, Any]:
        """Choose gates and groups for these entries; returns the number of each one's gate.

        Stops after each step and says how much work it was. Every entry stands for `times` entries. `expected`: how many values
        an attribute will have, where there will be more than there are.
        """
        self.words, self.spare = lay_out_words(self.attributes, entries, expected or {})
        entry_rows = entry_rows_of(entries, self.attributes, self.words)
        masks = entry_rows.masks
        rows = np.arange(entries.count)
        small = self._of_small_domains(entries)
        self.in_bitmaps = []
        yield entries.count // 16
        if small.any():
            tested = self._tested(masks[:, small])
            gated = yield from plan_steps(self.attributes, entries, masks, rows[small], times)
            halves = len({(each.word, each.shift // 32) for each in tested.values()})
            gated_ns = gated.cost_ns + len(gated.gates) * halves * HALF_NS
            if bitmap_plan.cost_ns(int(small.sum() * times), list(tested.values())) < gated_ns:
                rows = rows[~small]
                self.in_bitmaps = bitmap_plan.in_order_of_use(masks[:, small], tested)
        plan = yield from plan_steps(self.attributes, entries, masks, rows, times)
        if len(rows) < entries.count:
            plan.chosen[small] = BITMAPS
        self.gates, self.grids, self._gates = plan.gates, plan.grids, None
        yield from self._plan_groups(entry_rows, plan, times)
        return plan.chosen

    def _of_small_domains(self, entries: Entries) -> Any:
        """The entries that only compare values of attributes with few of them."""
        small = np.ones(entries.count, np.bool_)
        tests = np.zeros(entries.count, np.bool_)
        for (form, name), column in entries.columns.items():
            few = form == "equal" and len(self.attributes.dictionaries[name]) <= bitmap_plan.MOST_VALUES
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

    def _plan_groups(self, entry_rows: EntryRows, plan: Plan, times: float) -> Generator[int, None, None]:
        """For each gate (and level of a grid), which tests its groups have."""
        self.planned = {}
        routes, signatures = route_entries(entry_rows, self.gate_arrays(), self.attributes, plan.chosen)
        yield len(routes) // 16
        examples, counts = kinds_among(routes, signatures)
        expected: dict[tuple[Gate, int], Counter[frozenset[Test]]] = {}
        for example, count in zip(examples.tolist(), counts.tolist(), strict=True):
            gate, level = divmod(int(routes[example, layout.GATE_LEVEL]), MOST_LEVELS)
            expected.setdefault((self.gates[gate], level), Counter())[self.tests_of(signatures[example])] = count * times
        yield len(routes) // 32
        reached = routes[:, layout.LAST_CELL] - routes[:, layout.FIRST_CELL] + 1
        for behind, counted in expected.items():
            mine = routes[:, layout.GATE_LEVEL] == self.gates.index(behind[0]) * MOST_LEVELS + behind[1]
            odds = self._odds(*behind, sum(counted.values()), float(reached[mine].mean()))
            self.planned[behind] = merge_signatures(Counter({each: count * odds for each, count in counted.items()}))
            yield min(len(routes) // 16, 256) + min(len(counted), MOST_COMMON) ** 2

    def tests_of(self, signature: Ints) -> frozenset[Test]:
        return tests_of(signature, self.words, self.attributes.space)

    def gate_arrays(self) -> Gates:
        """The gates as the kernels read them."""
        if self._gates is None:
            self._gates = gates_of(self.gates, self.attributes, self.grids)
        return self._gates

    def cuts(self, name: str) -> Ints | None:
        """The cuts of the attribute's grid, or None if it has no grid."""
        return self.grids[name].cuts if name in self.grids else None

    def _odds(self, gate: Gate, level: int, entries: float, cells_each: float) -> float:
        """The share of a group's entries that an event looks at: one cell of those there are."""
        if gate.kind == "open":
            return 1.0
        if gate.kind == "cells":
            return min(1.0, cells_each / self.grids[gate.attribute].cells(level))
        return max(1.0 / max(entries, 1), 1e-3 if gate.kind == "equal" else 1e-2)

    def sorting_keys(self, entries: Entries) -> Any:
        """Numbers by which entries are in the order of the cells they will be in, those that ask the same side by side."""
        entry_rows = entry_rows_of(entries, self.attributes, self.words)
        routes, _ = route_entries(entry_rows, self.gate_arrays(), self.attributes, covered=self.covered_by_bitmaps())
        gate_level, cell = routes[:, layout.GATE_LEVEL], routes[:, layout.FIRST_CELL]
        keys = (
            (gate_level // MOST_LEVELS + 1) << 56
            | ((cell ^ cell >> 32) & 0xFFFFFFFF) << 24
            | routes[:, layout.MIXED] & 0xFFFFFF
        )
        if self.in_bitmaps:
            tested = {name: self.attributes.dictionaries[name] for name in self.in_bitmaps}
            keys = np.where(gate_level < 0, bitmap_plan.sorting_keys(entry_rows.words, entry_rows.masks, tested), keys)
        return keys

    def covered_by_bitmaps(self) -> Ints:
        """The bits of the words that the bitmaps compare, of attributes that still have few values; none if there are none."""
        rows = np.zeros(self.words if self.in_bitmaps else 0, np.int64)
        for name in self.in_bitmaps:
            each = self.attributes.dictionaries[name]
            if len(each) <= bitmap_plan.MOST_VALUES:
                rows[each.word] |= ((1 << each.bits) - 1) << each.shift
        return rows
