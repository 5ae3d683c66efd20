"""What has changed between two versions of a broker's summary, so that a period sends only what is new or gone.

Not in the paper, which sends the new subscriptions of a period and leaves unsubscription out. From one version to the next, say

    entries   gone [2]     new ones, at the places [6] of the new numbering, of subscriptions [40]
    price     row 0 gone   row 3 now ends at 12   row [20, 20] is new, with entry 6   entry 6 joins row 3   entry 1 leaves row 5

A row that was widened or narrowed keeps its entries: it follows from the old row with which it shares most. So a summary with a
budget, whose rows move when subscriptions come and go, does not send the lists of all their entries again.
Tried: one difference for all brokers of a message, so that they share rows. On 24 brokers it took 0.73 to 0.85 of the bytes
when 10 of 200 or 1,000 subscriptions were new, and 0.90 to 0.97 when 100 were; but a neighbour that lacked the version of one
broker could use none of it. So each broker has its own.
Rule: `patch(old, difference(old, new)) == new`; a difference from nothing (`since` 0) is the whole summary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from contentcast.matching.summaries.columns import NONE, POINT, UNBOUNDED, Columns, Flat, Ints, Rows, sorted_cuts, with_rows
from contentcast.model.errors import ContentcastError
from contentcast.model.values.keys import KEYED
from contentcast.model.values.kinds import Kind


@dataclass(frozen=True, slots=True, eq=False)
class RowsDelta:
    """One attribute. Row numbers are those of the old version, entry numbers those of the new one.

    `ends` has the rows that are new and those that have got other ends (`moved_to`, from `moved_from`), each with the entries
    that are new in it, perhaps none. `joined` and `left` are new and gone in rows that were there before.
    """

    ends: Rows
    moved_from: Ints
    moved_to: Ints
    gone: Ints
    joined_rows: Ints
    joined: Ints
    left_rows: Ints
    left: Ints

    @classmethod
    def of(cls, plain: Any) -> RowsDelta:
        arrays = (plain.moved_from, plain.moved_to, plain.gone, plain.joined_rows, plain.joined, plain.left_rows, plain.left)
        return cls(Rows.of(plain.ends), *arrays)


@dataclass(frozen=True, slots=True, eq=False)
class Delta:
    """Of one broker. `gone` are entries of the old version; `fresh_at` and `ids` are the places and ids of the new ones."""

    space: str
    broker: str
    since: int
    version: int
    gone: Ints
    fresh_at: Ints
    ids: Ints
    rows: Mapping[str, RowsDelta]

    @classmethod
    def of(cls, plain: Any) -> Delta:
        """From a value with the same fields, such as `wire.summaries` decodes; `patch` checks it against the old version."""
        rows = {name: RowsDelta.of(each) for name, each in plain.rows.items()}
        return cls(plain.space, plain.broker, plain.since, plain.version, plain.gone, plain.fresh_at, plain.ids, rows)

    @property
    def is_whole(self) -> bool:
        return self.since == 0


def difference(old: Columns, new: Columns) -> Delta:
    """From one version of a broker's summary to another."""
    if len(old.brokers) != 1 or old.brokers != new.brokers or old.space != new.space:
        raise ContentcastError("a difference is that of one broker's summaries of one space; take `parts()` first")
    before, after = _entry_keys(old.ids, new.ids)
    gone = np.flatnonzero(~np.isin(before, after))
    fresh_at = np.flatnonzero(~np.isin(after, before))
    place = _places(len(old), len(new), gone, fresh_at)
    rows = {}
    for name in sorted({*old.rows, *new.rows}):
        kind = (old.rows.get(name) or new.rows[name]).kind
        found = _rows_difference(old.rows.get(name) or no_rows(kind), new.rows.get(name) or no_rows(kind), place, len(new))
        if found is not None:
            rows[name] = found
    version = (old.versions[0], new.versions[0])
    return Delta(new.space, new.brokers[0], *version, gone, fresh_at, new.ids[fresh_at], rows)


def patch(old: Columns, delta: Delta) -> Columns:
    """The summary that the difference leads to."""
    if old.brokers != (delta.broker,) or old.versions != (delta.since,) or old.space != delta.space:
        raise ContentcastError(
            f"the difference leads from version {delta.since} of {delta.broker} and not from version {old.versions} of "
            f"{old.brokers}; ask for the whole summary (a difference since 0)"
        )
    count = len(old) - len(delta.gone) + len(delta.ids)
    _check(old, delta, count)
    place = _places(len(old), count, delta.gone, delta.fresh_at)
    ids = np.empty(count, np.int64)
    ids[place[place >= 0]] = old.ids[place >= 0]
    ids[delta.fresh_at] = delta.ids
    if (ids[1:] < ids[:-1]).any():
        raise ContentcastError(
            f"the difference of {delta.broker} puts its subscriptions out of order; ask for the whole summary"
        )
    made = []
    for name in sorted({*old.rows, *delta.rows}):
        change = delta.rows.get(name)
        if change is None:
            made.append((name, old.rows[name].flat().kept(place).rows()))
        else:
            made.append((name, _patched(old.rows.get(name) or no_rows(change.ends.kind), change, place, count).rows()))
    bare = Columns(delta.space, (delta.broker,), (delta.version,), np.array([0, count]), ids, {})
    return with_rows(bare, made)


def _check(old: Columns, delta: Delta, count: int) -> None:
    """Numbers that name nothing, as a difference from elsewhere may have."""
    within = [(delta.gone, len(old)), (delta.fresh_at, count)]
    for name, change in delta.rows.items():
        rows = old.rows.get(name) or no_rows(change.ends.kind)
        if rows.kind is not change.ends.kind:
            raise ContentcastError(f"the difference of {delta.broker} gives the attribute {name} another kind")
        last = len(rows.offsets) - 1
        within += [(each, last) for each in (change.gone, change.joined_rows, change.left_rows)]
        within += [(change.moved_from, last - 1), (change.moved_to, len(change.ends.offsets) - 2)]
        within += [(each, count) for each in (change.joined, change.left, change.ends.members)]
    if len(delta.gone) > len(old) or any(len(each) and int(each.max()) >= end for each, end in within):
        raise ContentcastError(f"the difference of {delta.broker} names what its old version does not have; ask for the whole")


def no_rows(kind: Kind) -> Rows:
    """Only the row of absent, and nobody in it."""
    return Rows(kind, NONE, NONE, (), (), np.zeros(2, np.int64), NONE)


def _entry_keys(old: Ints, new: Ints) -> tuple[Ints, Ints]:
    """Entries of both versions as numbers that agree where subscription and place among its entries agree."""
    every = np.unique(np.concatenate([old, new]))
    times = [np.arange(len(ids)) - np.searchsorted(ids, ids) for ids in (old, new)]
    most = 1 + max(int(each.max(initial=0)) for each in times)
    return (
        np.searchsorted(every, old) * most + times[0],
        np.searchsorted(every, new) * most + times[1],
    )


def _places(old: int, new: int, gone: Ints, fresh_at: Ints) -> Ints:
    """The new number of each old entry, -1 for those that are gone."""
    stays = np.ones(old, bool)
    stays[gone] = False
    free = np.ones(new, bool)
    free[fresh_at] = False
    place = np.full(old, -1, np.int64)
    place[stays] = np.flatnonzero(free)
    return place


def _rows_difference(old: Rows, new: Rows, place: Ints, count: int) -> RowsDelta | None:
    old_row, old_entry = _pairs(old, place)
    new_row, new_entry = _pairs(new, np.arange(count))
    same = _same_rows(old, new)
    moved = _moved_rows(old_row, old_entry, new_row, new_entry, same, len(new.offsets) - 1)
    becomes = np.where(same >= 0, same, moved)
    stays = becomes[old_row] >= 0
    gone = np.unique(old_row[~stays])
    before, after = becomes[old_row] * count + old_entry, new_row * count + new_entry
    left = stays & ~np.isin(before, after)
    added = ~np.isin(after, before[stays])
    if not (len(gone) or left.any() or added.any() or (moved >= 0).any()):
        return None
    from_old = np.full(len(new.offsets) - 1, -1, np.int64)
    from_old[same[same >= 0]] = np.flatnonzero(same >= 0)
    joins = added & (from_old[new_row] >= 0)
    fresh = added & (from_old[new_row] < 0)
    chosen = np.union1d(new_row[fresh], moved[moved >= 0])
    ends = _some_rows(new, chosen, new_row[fresh], new_entry[fresh])
    moved_from = np.flatnonzero(moved >= 0)
    return RowsDelta(
        ends,
        moved_from,
        np.searchsorted(chosen, moved[moved_from]),
        gone,
        from_old[new_row[joins]],
        new_entry[joins],
        old_row[left],
        old_entry[left],
    )


def _pairs(rows: Rows, place: Ints) -> tuple[Ints, Ints]:
    """Row and new entry number of each member that is still there."""
    entry = place[rows.members]
    row = np.repeat(np.arange(len(rows.offsets) - 1), rows.weights)
    return row[entry >= 0], entry[entry >= 0]


def _same_rows(old: Rows, new: Rows) -> Ints:
    """For each old row the new one with the same ends, or -1; absent is always the same."""
    number = {ends: at for at, ends in enumerate(_ends(new))}
    found = [number.get(ends, -1) for ends in _ends(old)]
    return np.array([*found, len(new.offsets) - 2], np.int64)


def _ends(rows: Rows) -> list[object]:
    if rows.kind.name in KEYED:
        return list(zip(rows.low.tolist(), rows.high.tolist(), strict=True))
    highs = [each if each in (POINT, UNBOUNDED) else rows.cuts[each] for each in rows.high.tolist()]
    return [*zip([rows.cuts[each] for each in rows.low.tolist()], highs, strict=True), *rows.patterns]


def _moved_rows(old_row: Ints, old_entry: Ints, new_row: Ints, new_entry: Ints, same: Ints, new_rows: int) -> Ints:
    """For each old row without an equal the new row without an equal that shares most of its entries, where that pays."""
    moved = np.full(len(same), -1, np.int64)
    unmatched = np.ones(new_rows, bool)
    unmatched[same[same >= 0]] = False
    theirs = unmatched[new_row]
    mine = same[old_row] < 0
    if not theirs.any() or not mine.any():
        return moved
    order = np.argsort(new_entry[theirs], kind="stable")
    entries, rows = new_entry[theirs][order], new_row[theirs][order]
    at = np.minimum(np.searchsorted(entries, old_entry[mine]), len(entries) - 1)
    shares = entries[at] == old_entry[mine]
    linked, times = np.unique(old_row[mine][shares] * new_rows + rows[at[shares]], return_counts=True)
    size = np.bincount(old_row, minlength=len(same))
    gain = 2 * times - size[linked // new_rows]  # an entry that is not shared must be told to leave
    taken: set[int] = set()
    for each in np.lexsort((linked, -gain)).tolist():
        one, other = divmod(int(linked[each]), new_rows)
        if gain[each] > 0 and moved[one] < 0 and other not in taken:
            moved[one] = other
            taken.add(other)
    return moved


def _some_rows(rows: Rows, chosen: Ints, pair_row: Ints, pair_entry: Ints) -> Rows:
    """Some rows (absent besides) with some of their entries; a row may have none."""
    absent = len(rows.offsets) - 2
    chosen = chosen[chosen < absent]
    intervals = chosen[chosen < rows.intervals]
    low, high, cuts = rows.low[intervals], rows.high[intervals], ()
    if rows.kind.name not in KEYED:
        low, high, cuts = sorted_cuts(rows.cuts, low, high)
    patterns = tuple(rows.patterns[each - rows.intervals] for each in chosen[chosen >= rows.intervals].tolist())
    number = np.searchsorted(np.append(chosen, absent), pair_row)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(chosen) + 1))])
    return Rows(rows.kind, low, high, cuts, patterns, offsets, pair_entry[np.lexsort((pair_entry, number))])


def _patched(old: Rows, change: RowsDelta, place: Ints, count: int) -> Flat:
    row, entry = _pairs(old, place)
    gone = np.zeros(len(old.offsets) - 1, bool)
    gone[change.gone] = True
    kept = ~gone[row] & ~np.isin(row * count + entry, change.left_rows * count + change.left)
    row, entry = np.concatenate([row[kept], change.joined_rows]), np.concatenate([entry[kept], change.joined])
    moved_to = np.full(len(old.offsets) - 1, -1, np.int64)
    moved_to[change.moved_from] = change.moved_to
    moves = moved_to[row] >= 0
    return Flat.joined(
        [
            pairs_flat(old, row[~moves], entry[~moves]),
            pairs_flat(change.ends, moved_to[row[moves]], entry[moves]),
            change.ends.flat(),
        ]
    )


def pairs_flat(rows: Rows, row: Ints, entry: Ints) -> Flat:
    """Pairs of a row number and an entry, with the ends of these rows."""
    interval = row < rows.intervals
    absent = row == len(rows.offsets) - 2
    pattern = ~interval & ~absent
    return Flat(
        rows.kind,
        list(rows.cuts),
        rows.low[row[interval]],
        rows.high[row[interval]],
        entry[interval],
        list(rows.patterns),
        row[pattern] - rows.intervals,
        entry[pattern],
        entry[absent],
    )
