"""SACS rows made fewer: a more general row takes in what it covers, and neighbours are joined under a budget.

Source: Triantafillou & Economides 2004, section 3.1: "OT*" takes in "= OTE" (figure 5). Departs from it where a budget is
given: rows that stand side by side in the order of texts become the range from the one's beginning to the other's end. Patterns
that are no prefix take at most half of the budget; the others are widened to the range of texts that can match, those with the
longest known beginning first.
Rule: every row that comes out holds all that the rows it was made of hold.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from contentcast.kernels.kernel import kernel
from contentcast.matching.summaries.columns import POINT, UNBOUNDED, Flat, Ints, Rows
from contentcast.model.predicates.constraint import Constraint
from contentcast.model.values.kinds import TOP, Kind, Value
from contentcast.model.values.patterns import Wildcard

Floats = npt.NDArray[np.float64]


def coarser_texts(rows: Rows, general: bool, budget: int | None) -> Rows:
    if general:
        rows = _generalized(rows)
    if budget is None or rows.intervals + len(rows.patterns) <= budget:
        return rows
    rows = _fewer_patterns(rows, budget // 2)
    left = max(1, budget - len(rows.patterns))
    return _joined(rows, left) if rows.intervals > left else rows


# --- general rows


def _generalized(rows: Rows) -> Rows:
    """Each row that another one covers gives its entries to that one."""
    target = np.arange(rows.intervals + len(rows.patterns))
    outer = _outermost(rows)
    target[: rows.intervals] = outer
    asked: dict[int, Constraint] = {}

    def constraint(row: int) -> Constraint:
        if row not in asked:
            asked[row] = rows.constraint(row)
        return asked[row]

    patterned = range(rows.intervals, len(target))
    by_anchor: dict[str, list[int]] = {}
    for row in patterned:
        pattern = constraint(row)
        if pattern.like:
            by_anchor.setdefault(max((each.anchor for each in pattern.like), key=len), []).append(row)
    lengths = sorted({len(each) for each in by_anchor})
    tops = np.unique(outer).tolist()  # in the order of the rows, so both their ends ascend
    lows = [rows.cuts[each] for each in rows.low[tops].tolist()]
    for row in patterned:
        wider = [each for each in _candidates(constraint(row), by_anchor, lengths) if each != row]
        found = [each for each in wider if _covers(constraint(each), constraint(row), each < row)]
        found += _around(rows, tops, lows, constraint(row))
        if found:
            target[row] = found[0]
    for top in tops if by_anchor else ():
        found = [each for each in _candidates(constraint(top), by_anchor, lengths) if constraint(each).covers(constraint(top))]
        if found:
            target[top] = found[0]
    return _moved(rows, _followed(target))


def _covers(wide: Constraint, narrow: Constraint, first: bool) -> bool:
    """Of two that cover each other, the first one stays."""
    return wide.covers(narrow) and (first or not narrow.covers(wide))


def _candidates(narrow: Constraint, by_anchor: dict[str, list[int]], lengths: list[int]) -> list[int]:
    """Pattern rows whose longest plain text stands in what the narrow one is sure to contain: no other can cover it."""
    texts = [each.anchor for each in narrow.like if not each.tokens]
    texts += ["".join(token if isinstance(token, str) else "\0" for token in each.tokens) for each in narrow.like]
    low = narrow.ranges.cuts[0] if narrow.ranges.cuts else ""
    texts.append(low if isinstance(low, str) else "")
    near = {text[at : at + length] for text in texts for length in lengths for at in range(len(text) - length + 1)}
    return sorted(row for text in near for row in by_anchor.get(text, ()))


def _around(rows: Rows, tops: list[int], lows: list[Value], narrow: Constraint) -> list[int]:
    """The outermost interval that holds every text of the pattern's ranges, if one does: the last that begins no later."""
    at = bisect_right(lows, narrow.ranges.cuts[0]) - 1
    return [tops[at]] if at >= 0 and narrow.ranges <= rows.constraint(tops[at]).ranges else []


def _outermost(rows: Rows) -> Ints:
    """For each interval the first one that holds it and is held by no other."""
    _, end = _bounds(rows)
    order = np.lexsort((-end, rows.low))
    reach = np.maximum.accumulate(end[order])
    outer = np.ones(len(order), bool)
    outer[1:] = reach[1:] > reach[:-1]
    tops = order[outer]  # both their ends ascend
    at = np.searchsorted(end[tops], end)  # the first that ends no earlier; it begins no later, or nothing holds the interval
    return tops[at]


def _bounds(rows: Rows) -> tuple[Ints, Ints]:
    """Begin and end of each interval in codes (see `codes`)."""
    begin = 2 * rows.low + 1
    end = np.where(rows.high == POINT, begin, np.where(rows.high == UNBOUNDED, 2 * len(rows.cuts), 2 * rows.high))
    return begin, end


def _followed(target: Ints) -> Ints:
    """Where each row ends up when the row it moves to moves on."""
    for _ in range(len(target)):
        further = target[target]
        if (further == target).all():
            break
        target = further
    return target


def _moved(rows: Rows, target: Ints) -> Rows:
    """The entries of each row moved to another row."""
    row = np.repeat(np.arange(len(target)), rows.weights[:-1])
    where, entry = target[row], rows.members[: len(row)]
    interval = where < rows.intervals
    made = Flat(
        rows.kind,
        list(rows.cuts),
        rows.low[where[interval]],
        rows.high[where[interval]],
        entry[interval],
        list(rows.patterns),
        where[~interval] - rows.intervals,
        entry[~interval],
        rows.of_row(len(rows.offsets) - 2),
    ).rows()
    return rows if made is None else made


# --- budgets


def _fewer_patterns(rows: Rows, most: int) -> Rows:
    if len(rows.patterns) <= most:
        return rows
    known = [_known(each) for each in rows.patterns]
    by_known = sorted(range(len(known)), key=lambda at: (-known[at], at))
    widened = set(by_known[: len(known) - most])
    flat = rows.flat()
    cuts, lows, highs = flat.cuts, np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)
    for at in sorted(widened):
        ends = rows.patterns[at].ranges.cuts
        lows[at] = len(cuts)
        cuts.append(ends[0])
        highs[at] = UNBOUNDED if ends[-1] is TOP else len(cuts)
        if ends[-1] is not TOP:
            cuts.append(ends[-1])
    moved = np.isin(flat.pattern, sorted(widened))
    flat.low, flat.high = (
        np.concatenate([flat.low, lows[flat.pattern[moved]]]),
        np.concatenate([flat.high, highs[flat.pattern[moved]]]),
    )
    flat.entry = np.concatenate([flat.entry, flat.pattern_entry[moved]])
    flat.pattern, flat.pattern_entry = flat.pattern[~moved], flat.pattern_entry[~moved]
    return flat.rows() or rows


def _known(asked: Constraint) -> int:
    """How many characters every match begins with."""
    found = 0
    for pattern in asked.like:
        begins = next((at for at, token in enumerate(pattern.tokens) if isinstance(token, Wildcard)), len(pattern.tokens))
        found = max(found, begins)
    return found


def _joined(rows: Rows, budget: int) -> Rows:
    """Neighbouring intervals joined until there are at most so many."""
    begin, end = _bounds(rows)
    order = np.lexsort((-end, begin))  # a wider row stands before those it holds
    places = _places(rows.kind, rows.cuts)
    left = places[rows.low]
    right = np.where(rows.high == POINT, left, np.append(places, places[-1] + (places[-1] - places[0]) + 1.0)[_ends(rows)])
    weights = rows.weights[: rows.intervals].astype(np.float64)
    group = join_rows(left[order], right[order], weights[order], budget)
    of_row = np.empty(len(order), np.int64)
    of_row[order] = group
    low = np.full(len(order), len(rows.cuts), np.int64)
    high = np.full(len(order), -1, np.int64)
    np.minimum.at(low, of_row, rows.low)
    np.maximum.at(high, of_row, end)
    cuts = list(rows.cuts)
    ends = np.zeros(len(order), np.int64)
    for at in np.unique(of_row).tolist():
        ends[at] = _high_of(cuts, rows, int(low[at]), int(high[at]))
    flat = rows.flat()
    row = np.repeat(np.arange(rows.intervals), weights.astype(np.int64))
    flat.cuts, flat.low, flat.high = cuts, low[of_row[row]], ends[of_row[row]]
    return flat.rows() or rows


def _ends(rows: Rows) -> Ints:
    """The cut at which each row ends; one past the last for those without an upper end."""
    return np.where(rows.high == POINT, rows.low, np.minimum(rows.high, len(rows.cuts)))


def _high_of(cuts: list[Value], rows: Rows, low: int, code: int) -> int:
    """The `high` of a row from cut `low` to this code; a row that ends with a single value ends right after it."""
    if code % 2 == 0:
        return UNBOUNDED if code == 2 * len(rows.cuts) else code // 2
    if code // 2 == low:
        return POINT
    cuts.append(rows.kind.successor(rows.cuts[code // 2]))
    return len(cuts) - 1


def _places(kind: Kind, cuts: tuple[Value, ...]) -> Floats:
    """Texts as numbers: the eight bytes after what all of them begin with."""
    raw = [each if isinstance(each, bytes) else each.encode() for each in cuts]
    first, last = raw[0], raw[-1]
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return np.array([int.from_bytes(each[same : same + 8].ljust(8, b"\0"), "big") for each in raw], np.float64)


@kernel
def join_rows(left, right, weights, budget):  # type: ignore[no-untyped-def]
    """The group of each row; a group reaches from its first row's left to the rightmost end in it.

    Joining two lets in, for the entries of each, what the other adds to its width. The two neighbours that let in least go
    first.
    """
    count = len(left)
    next_row, previous, right = np.arange(1, count + 1), np.arange(-1, count - 1), right.copy()
    weight, stamp, group = weights.copy(), np.zeros(count, np.int64), np.arange(count)
    waiting = [(_letting_in(left, right, weight, at, at + 1), at, 0, 0) for at in range(count - 1)]
    heapify(waiting)
    rows = count
    while rows > budget:
        _, at, mine, theirs = heappop(waiting)
        other = next_row[at]
        if stamp[at] != mine or other >= count or stamp[other] != theirs:
            continue
        right[at] = max(right[at], right[other])
        weight[at] += weight[other]
        group[other] = at
        stamp[at] += 1
        stamp[other] = -1
        next_row[at] = next_row[other]
        if next_row[other] < count:
            previous[next_row[other]] = at
        rows -= 1
        if next_row[at] < count:
            after = next_row[at]
            heappush(waiting, (_letting_in(left, right, weight, at, after), at, stamp[at], stamp[after]))
        if previous[at] >= 0:
            before = previous[at]
            heappush(waiting, (_letting_in(left, right, weight, before, at), before, stamp[before], stamp[at]))
    for at in range(count):  # a group's first row stands before the others, so its own group is final already
        group[at] = group[group[at]]
    return group


@kernel
def _letting_in(left, right, weight, at, other):  # type: ignore[no-untyped-def]
    whole = max(right[at], right[other]) - left[at]
    return weight[at] * (whole - (right[at] - left[at])) + weight[other] * (whole - (right[other] - left[other]))
