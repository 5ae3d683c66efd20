"""Algorithm 1 as the paper writes it, for one event: lists, counters, c3. Slow, and for people and tests to read.

Source: Triantafillou & Economides 2004, section 3.3. `matcher` gives the same answers by columns.
Departs from it in one point: an attribute that the event does not carry satisfies the row "absent" (IS NULL), which the paper's
language does not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from contentcast.matching.summaries.columns import Columns
from contentcast.model.values.kinds import Value


@dataclass(frozen=True, slots=True)
class Examined:
    """What step 1 collected and step 2 kept, by entry number."""

    lists: Mapping[str, tuple[int, ...]]
    counters: Mapping[int, int]
    wanted: Mapping[int, int]
    kept: tuple[int, ...]


def examine(columns: Columns, event: Mapping[str, Value]) -> Examined:
    """Which entries may match the event; `wanted` is the number of attributes in c3 of each entry that a list named."""
    c3_sizes = Counter(
        entry for rows in columns.rows.values() for entry in sorted(set(rows.members.tolist()))
    )  # an attribute counts once, however many rows of it an entry stands in
    lists: dict[str, tuple[int, ...]] = {}
    for name, rows in columns.rows.items():
        value = event.get(name)
        satisfied = [row for row in range(len(rows.offsets) - 1) if rows.constraint(row).accepts(value)]
        found = sorted({entry for row in satisfied for entry in rows.of_row(row).tolist()})
        if found:
            lists[name] = tuple(found)
    counters = Counter(entry for found in lists.values() for entry in found)
    kept = tuple(entry for entry in range(len(columns)) if counters[entry] == c3_sizes[entry])
    return Examined(lists, dict(counters), {entry: c3_sizes[entry] for entry in counters}, kept)
