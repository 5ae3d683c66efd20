"""How precise a summary is: exact, as general as the paper's, or as good as a budget of rows allows.

Source: Triantafillou & Economides 2004, section 3.1 (what a row takes in) and table 2 (n_sr = 2, the paper's only setting).
Departs from it in two points: without a budget nothing is widened, and with one, neighbouring rows are joined where that lets
in least.

    EXACT                   no row says yes wrongly for its attribute
    PAPER                   ranges that overlap are one row, single values inside it too; general patterns take in others
    Precision(rows=8)       at most 8 rows for each attribute besides absent
    Precision(bytes=256)    as many rows as 256 bytes hold, ids not counted: no budget can make those fewer

Letting in is measured as width of values times entries: a row of width w that an entry did not ask for, joined into one of its
rows, lets in w. Widths are those of the values (of texts: of their first bytes), ends that are open count as the whole width
between the outermost cuts, or to the end of the declared domain.
Rule: what comes out is a function of the exact rows alone, so that a summary that has changed equals one that is built anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel
from contentcast.matching.summaries.codes import key_cuts
from contentcast.matching.summaries.columns import Flat, Ints, Rows
from contentcast.matching.summaries.text_rows import coarser_texts
from contentcast.model.errors import ContentcastError
from contentcast.model.space import Attribute
from contentcast.model.values.keys import KEYED, NO_FLOAT, key_ends, key_of, last_key
from contentcast.model.values.kinds import Kind

Floats = npt.NDArray[np.float64]
BUDGET: Final = re.compile(r"(\d+)\s*(rows|bytes)")
KEY_ROW_BYTES: Final = 16
"""A row of a kind with order keys: its first and its last key."""


@dataclass(frozen=True, slots=True)
class Precision:
    """At most `rows` rows, or `bytes` bytes of rows, for each attribute; `general` joins as the paper does, before any
    budget."""

    rows: int | None = None
    bytes: int | None = None
    general: bool = False

    def __post_init__(self) -> None:
        for name, value in (("rows", self.rows), ("bytes", self.bytes)):
            if value is not None and value < 1:
                raise ContentcastError(f"a budget of {value} {name} leaves no row; give at least 1, or None for no budget")

    @classmethod
    def of(cls, text: str) -> Self:
        """As it is told on a command line: exact, general, 64 rows, 256 bytes, or several of these, such as general 8 rows."""
        budgets, words = BUDGET.findall(text), BUDGET.sub(" ", text).split()
        told = {unit: int(number) for number, unit in budgets}
        known = words == ["general"] or (not words and told) or (words == ["exact"] and not told)
        if not known or len(told) < len(budgets):
            raise ContentcastError(f"a precision is exact, general, 64 rows, 256 bytes or general 8 rows; got {text!r}")
        return cls(**told, general=words == ["general"])

    @property
    def is_exact(self) -> bool:
        return self.rows is None and self.bytes is None and not self.general

    def most_rows(self, row_bytes: float) -> int | None:
        """The budget as rows, when a row takes so many bytes."""
        budgets = [] if self.rows is None else [self.rows]
        if self.bytes is not None:
            budgets.append(max(1, int(self.bytes // max(1.0, row_bytes))))
        return min(budgets, default=None)

    def __str__(self) -> str:
        said = ["as general as the paper's"] if self.general else []
        said += [f"at most {self.rows} rows an attribute"] if self.rows is not None else []
        said += [f"at most {self.bytes} bytes of rows an attribute"] if self.bytes is not None else []
        return ", ".join(said) or "exact"


EXACT: Final = Precision()
PAPER: Final = Precision(general=True)


def coarser(rows: Rows, precision: Precision, attribute: Attribute | None = None) -> Rows:
    """The rows under this precision. They hold whatever the exact ones hold, for the same entries."""
    if precision.is_exact:
        return rows
    if rows.kind.name not in KEYED:
        texts = [each if isinstance(each, bytes) else each.encode() for each in rows.cuts]
        mean = sum(map(len, texts)) / max(1, len(texts))
        return coarser_texts(rows, precision.general, precision.most_rows(mean))
    if precision.general:
        rows = _components(rows)
    budget = precision.most_rows(KEY_ROW_BYTES)
    return rows if budget is None else _within(rows, budget, attribute)


def _components(rows: Rows) -> Rows:
    """Ranges that share a value are one; a single value inside one belongs to it."""
    wide = rows.low < rows.high
    if not wide.any():
        return rows
    low, reach = rows.low[wide], np.maximum.accumulate(rows.high[wide])  # they ascend by their low ends
    begins = np.ones(len(low), bool)
    begins[1:] = low[1:] > reach[:-1]
    starts = np.flatnonzero(begins)
    first, last = low[starts], reach[np.append(starts[1:], len(low)) - 1]
    at = np.searchsorted(first, rows.low, "right") - 1
    inside = (at >= 0) & (rows.low <= last[at])
    return _snapped(rows, np.where(inside, first[at], rows.low), np.where(inside, last[at], rows.high))


def _within(rows: Rows, budget: int, attribute: Attribute | None) -> Rows:
    """Neighbouring rows of the elementary cut joined until there are at most so many."""
    first, last = elementary(rows)
    if len(first) <= budget:
        return rows
    begin, end = np.searchsorted(first, rows.low), np.searchsorted(last, rows.high)
    weights = rows.weights[: rows.intervals].astype(np.float64)
    begun = np.cumsum(np.bincount(begin, weights, len(first)))
    ended = np.cumsum(np.bincount(end, weights, len(first)))
    left, right = _positions(rows.kind, first, last, attribute)
    there = begun - np.concatenate([[0.0], ended[:-1]])  # entries of each row
    group = join_neighbours(left, right, begun, ended, np.cumsum(there * (right - left)), budget)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    row_first, row_last = first[starts], last[np.append(starts[1:], len(first)) - 1]
    return _snapped(rows, row_first[group[begin]], row_last[group[end]])


def elementary(rows: Rows) -> tuple[Ints, Ints]:
    """The paper's AACS rows: sub-ranges that do not overlap, first and last key of each, cut at every end of an interval."""
    cuts = key_cuts(rows)
    last = np.append(cuts[1:] - 1, key_ends(rows.kind)[1])
    if rows.kind.name == "float":
        last[last == NO_FLOAT] -= 1
    change = np.bincount(np.searchsorted(cuts, rows.low), minlength=len(cuts) + 1)
    change -= np.bincount(np.searchsorted(cuts, rows.high, "right"), minlength=len(cuts) + 1)
    covered = np.cumsum(change)[: len(cuts)] > 0
    return cuts[covered], last[covered]


def _snapped(rows: Rows, low: Ints, high: Ints) -> Rows:
    """Each interval replaced by a wider one."""
    flat = rows.flat()
    row = np.repeat(np.arange(rows.intervals), rows.weights[: rows.intervals])
    made = Flat(
        flat.kind, low=low[row], high=high[row], entry=flat.entry, absent_entry=flat.absent_entry, cuts=flat.cuts
    ).rows()
    return rows if made is None else made


def _positions(kind: Kind, first: Ints, last: Ints, attribute: Attribute | None) -> tuple[Floats, Floats]:
    """Where each row begins and ends, as numbers whose differences are widths."""
    least, greatest = key_ends(kind)
    left, right = _numbers(kind, first), _numbers(kind, last) + (0.0 if kind.name == "float" else 1.0)
    inner = np.concatenate([left[first > least], right[last < greatest]])
    inner = inner[np.isfinite(inner)]
    low, high = (float(inner.min()), float(inner.max())) if len(inner) else (0.0, 1.0)
    span = max(high - low, 1.0)
    low, high = low - span, high + span
    if attribute is not None and attribute.has_domain and attribute.domain:
        cuts = attribute.domain.cuts
        ends = _numbers(kind, np.array([key_of(kind, cuts[0]), last_key(kind, cuts[-1])]))
        low, high = max(low, float(ends[0])), min(high, float(ends[1]) + 1.0)
        high = max(high, low)
    return np.clip(left, low, high), np.clip(right, low, high)


def _numbers(kind: Kind, keys: Ints) -> Floats:
    if kind.name != "float":
        return keys.astype(np.float64)
    bits = np.where(keys >= 0, keys, keys ^ np.int64(0x7FFF_FFFF_FFFF_FFFF))
    # Beyond this, widths would overflow; such values differ from all others by more than anything else does.
    return np.clip(bits.view(np.float64), -1e150, 1e150)


@kernel
def join_neighbours(left, right, begun, ended, filled, budget):  # type: ignore[no-untyped-def]
    """The group of each row, ascending, so that there are at most `budget` groups.

    A group from row i to row j has begun[j] - ended[i - 1] entries, is right[j] - left[i] wide, and filled[j] - filled[i - 1]
    of width times entries were asked for; the rest is let in. The two neighbours whose joining lets in least are joined first.
    """
    count = len(left)
    next_group, previous, end = np.arange(1, count + 1), np.arange(-1, count - 1), np.arange(count)
    stamp = np.zeros(count, np.int64)
    waiting = [(_joining(left, right, begun, ended, filled, at, at, at + 1, at + 1), at, 0, 0) for at in range(count - 1)]
    heapify(waiting)
    groups = count
    while groups > budget:
        _, at, mine, theirs = heappop(waiting)
        other = next_group[at]
        if stamp[at] != mine or other >= count or stamp[other] != theirs:
            continue
        end[at] = end[other]
        stamp[at] += 1
        stamp[other] = -1
        next_group[at] = next_group[other]
        if next_group[other] < count:
            previous[next_group[other]] = at
        groups -= 1
        after, before = next_group[at], previous[at]
        if after < count:
            cost = _joining(left, right, begun, ended, filled, at, end[at], after, end[after])
            heappush(waiting, (cost, at, stamp[at], stamp[after]))
        if before >= 0:
            cost = _joining(left, right, begun, ended, filled, before, end[before], at, end[at])
            heappush(waiting, (cost, before, stamp[before], stamp[at]))
    found = np.empty(count, np.int64)
    at, number = 0, 0
    while at < count:
        found[at : end[at] + 1] = number
        number += 1
        at = next_group[at]
    return found


@kernel
def _joining(left, right, begun, ended, filled, at, end, other, other_end):  # type: ignore[no-untyped-def]
    """How much more is let in when the two groups are one."""
    return (
        _let_in(left, right, begun, ended, filled, at, other_end)
        - _let_in(left, right, begun, ended, filled, at, end)
        - _let_in(left, right, begun, ended, filled, other, other_end)
    )


@kernel
def _let_in(left, right, begun, ended, filled, at, end):  # type: ignore[no-untyped-def]
    before_ended = ended[at - 1] if at else 0.0
    before_filled = filled[at - 1] if at else 0.0
    return (begun[end] - before_ended) * (right[end] - left[at]) - (filled[end] - before_filled)
