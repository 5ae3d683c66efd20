"""How large a summary is: rows, ids, and bytes by the paper's equations.

Source: Triantafillou & Economides 2004, section 5.1, equations (1) and (2). Departs from it in one point: the row "absent"
counts as one more value row of an AACS, or one more row of a SACS. The bytes on the wire are those of `wire.summaries`.
Rule: L, the length of the id lists, counts an id once for each of the paper's rows that it stands in, although the columns hold
the id of a wide range only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from contentcast.matching.summaries.columns import Columns, Rows
from contentcast.matching.summaries.ids import IdLayout
from contentcast.matching.summaries.precision import elementary
from contentcast.model.values.keys import KEYED


def aacs_bytes(ranges: int, values: int, ids: int, *, sst: float = 4, sid: float = 4) -> float:
    """Equation (1) for one attribute: n_sr ranges of two bounds, n_e single values, L_a ids."""
    return (2 * ranges + values) * sst + ids * sid


def sacs_bytes(rows: int, ids: int, *, ssv: float = 10, sid: float = 4) -> float:
    """Equation (2) for one attribute: n_r texts of ssv bytes, L_s ids."""
    return rows * ssv + ids * sid


@dataclass(frozen=True, slots=True)
class AttributeSize:
    """n_sr and n_e of an AACS, or n_r of a SACS; the other is 0."""

    kind: str
    ranges: int
    values: int
    texts: int
    text_bytes: int
    ids: int

    @property
    def rows(self) -> int:
        return self.ranges + self.values + self.texts

    def equation_bytes(self, sst: float, ssv: float | None, sid: float) -> float:
        if self.kind in KEYED:
            return aacs_bytes(self.ranges, self.values, self.ids, sst=sst, sid=sid)
        mean = self.text_bytes / self.texts if ssv is None and self.texts else ssv or 0.0
        return sacs_bytes(self.texts, self.ids, ssv=mean, sid=sid)


@dataclass(frozen=True, slots=True)
class Sizes:
    """`equation_bytes()` with the real sizes; `equation_bytes(sst=4, ssv=10, sid=4)` with those of the paper's table 2."""

    brokers: int
    entries: int
    attributes: Mapping[str, AttributeSize]
    layout: IdLayout

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.attributes.values())

    @property
    def ids(self) -> int:
        return sum(each.ids for each in self.attributes.values())

    def equation_bytes(self, sst: float = 8, ssv: float | None = None, sid: float | None = None) -> float:
        """Equations (1) and (2) together. By default keys of 8 bytes, the mean length of the texts, ids as `layout` packs
        them."""
        id_bytes = self.layout.id_bytes if sid is None else sid
        return sum(each.equation_bytes(sst, ssv, id_bytes) for each in self.attributes.values())


def sizes_of(columns: Columns, attributes: int) -> Sizes:
    """Of these columns in a space of so many attributes."""
    most = int(np.diff(columns.starts).max(initial=0))
    found = {name: _attribute(rows) for name, rows in columns.rows.items()}
    return Sizes(len(columns.brokers), len(columns), found, IdLayout(len(columns.brokers), most, attributes))


def _attribute(rows: Rows) -> AttributeSize:
    weights = rows.weights
    absent = int(weights[-1])
    kind = rows.kind.name
    if kind not in KEYED:
        lengths = [len(each if isinstance(each, bytes) else each.encode()) for each in rows.cuts]
        lengths += [len(pattern.text.encode()) for each in rows.patterns for pattern in (*each.like, *each.unlike)]
        texts = rows.intervals + len(rows.patterns) + bool(absent)
        return AttributeSize(kind, 0, 0, texts, sum(lengths), len(rows.members))
    first, last = elementary(rows)
    spanned = np.searchsorted(last, rows.high) - np.searchsorted(first, rows.low) + 1
    ids = int((spanned * weights[: rows.intervals]).sum()) + absent
    ranges = int((first < last).sum())
    return AttributeSize(kind, ranges, len(first) - ranges + bool(absent), 0, 0, ids)
