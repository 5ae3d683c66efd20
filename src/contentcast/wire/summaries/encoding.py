"""Summaries and their differences as bytes: the columns of `matching.summaries`, as plain arrays, texts and constraints.

    summary   space name | how many brokers, entries, columns | broker names | versions | entries of each | ids | columns
    column    attribute name | kind u8 | rows
    rows      how many intervals, cuts, patterns | the ends of the intervals | patterns | entries of each row (see `varints`)
    ends      order keys: first keys | which are one value | last keys of the others
              texts: the cuts, sorted | where each row begins, as steps | 0 one value, 1 no upper end, else 2 + cuts to its end

    delta     space name | broker | since, version, how many entries gone, new, columns | those gone | places, ids of new ones
    column    attribute name | kind u8 | rows with other ends | the old rows they were | old rows gone | pairs joined, left

The names and kinds of attributes travel, not a print of the space: a broker whose space has gained attributes is understood by
one that does not know them yet.
Rule: what comes in is canonical, as `matching.summaries` makes it, or a `WireError`. wire and matching do not know each other:
what is encoded is known by its fields (`SummaryLike`), what is decoded is plain, and `Columns.of` and `Delta.of` take it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np

from contentcast.model import Constraint
from contentcast.model.values.keys import KEYED, NO_FLOAT, key_ends
from contentcast.model.values.kinds import KINDS, Kind, Value
from contentcast.wire.encodings.subscriptions import decode_constraints, encode_constraints
from contentcast.wire.encodings.varints import (
    ascending_lists,
    flags,
    read_flags,
    read_lists,
    read_sorted_texts,
    read_varints,
    sorted_texts,
    varints,
)
from contentcast.wire.fields import Ints, Reader, WireError, name_field, numbers_field, texts_field, utf8

POINT: Final = -1
UNBOUNDED: Final = 2**62
_KINDS: Final = tuple(KINDS)
_BYTE: Final = struct.Struct("<B")
MOST: Final = 2**32


class RowsLike(Protocol):
    """The rows of one attribute: see `matching.summaries.columns.Rows`."""

    @property
    def kind(self) -> Kind: ...
    @property
    def low(self) -> Ints: ...
    @property
    def high(self) -> Ints: ...
    @property
    def cuts(self) -> tuple[Value, ...]: ...
    @property
    def patterns(self) -> tuple[Constraint, ...]: ...
    @property
    def offsets(self) -> Ints: ...
    @property
    def members(self) -> Ints: ...


class SummaryLike(Protocol):
    """The summary of some brokers: see `matching.summaries.columns.Columns`."""

    @property
    def space(self) -> str: ...
    @property
    def brokers(self) -> tuple[str, ...]: ...
    @property
    def versions(self) -> tuple[int, ...]: ...
    @property
    def starts(self) -> Ints: ...
    @property
    def ids(self) -> Ints: ...
    @property
    def rows(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainRows:
    kind: Kind
    low: Ints
    high: Ints
    cuts: tuple[Value, ...]
    patterns: tuple[Constraint, ...]
    offsets: Ints
    members: Ints


@dataclass(frozen=True, slots=True, eq=False)
class PlainSummary:
    space: str
    brokers: tuple[str, ...]
    versions: tuple[int, ...]
    starts: Ints
    ids: Ints
    rows: Mapping[str, PlainRows]


@dataclass(frozen=True, slots=True, eq=False)
class PlainRowsDelta:
    ends: PlainRows
    moved_from: Ints
    moved_to: Ints
    gone: Ints
    joined_rows: Ints
    joined: Ints
    left_rows: Ints
    left: Ints


@dataclass(frozen=True, slots=True, eq=False)
class PlainDelta:
    space: str
    broker: str
    since: int
    version: int
    gone: Ints
    fresh_at: Ints
    ids: Ints
    rows: Mapping[str, PlainRowsDelta]


# --- out


def encode_summary(summary: SummaryLike) -> bytes:
    parts = [
        name_field(summary.space, "a space"),
        varints(np.array([len(summary.brokers), len(summary.ids), len(summary.rows)])),
        texts_field([utf8(each, "a broker") for each in summary.brokers]),
        numbers_field(np.array(summary.versions, np.int64)),
        varints(np.diff(summary.starts)),
        _encode_ids(summary.ids, summary.starts),
    ]
    for name, rows in summary.rows.items():
        parts += (name_field(name, "an attribute"), _BYTE.pack(_KINDS.index(rows.kind.name)), encode_rows(rows))
    return b"".join(parts)


def encode_rows(rows: RowsLike) -> bytes:
    parts = [varints(np.array([len(rows.low), len(rows.cuts), len(rows.patterns)]))]
    if rows.kind.name in KEYED:
        several = rows.high > rows.low
        parts += (numbers_field(rows.low), flags(several), numbers_field(rows.high[several]))
    else:
        parts.append(sorted_texts([each if isinstance(each, bytes) else each.encode() for each in rows.cuts]))
        ends = np.where(rows.high == UNBOUNDED, 1, np.where(rows.high == POINT, 0, rows.high - rows.low + 2))
        parts += (varints(np.diff(rows.low, prepend=0)), varints(ends))
    if rows.patterns:
        parts += encode_constraints(rows.kind, list(rows.patterns))
    parts.append(ascending_lists(rows.offsets, rows.members))
    return b"".join(parts)


def _encode_ids(ids: Ints, starts: Ints) -> bytes:
    """The first id of each broker, and the steps of the others, which are not negative."""
    begins = starts[:-1][np.diff(starts) > 0]
    steps = np.diff(ids, prepend=0)
    rest = np.ones(len(ids), bool)
    rest[begins] = False
    if len(steps) and int(steps[rest].max(initial=0)) < 2**62 and (ids[rest] >= ids[np.flatnonzero(rest) - 1]).all():
        return b"\0" + numbers_field(ids[begins]) + varints(steps[rest])
    return b"\1" + numbers_field(ids)


def encode_delta(delta: Any) -> bytes:
    counts = [delta.since, delta.version, len(delta.gone), len(delta.ids), len(delta.rows)]
    parts = [
        name_field(delta.space, "a space"),
        name_field(delta.broker, "a broker"),
        varints(np.array(counts)),
        _one_list(delta.gone),
        _one_list(delta.fresh_at),
        _encode_ids(delta.ids, np.array([0, len(delta.ids)])),
    ]
    for name, change in delta.rows.items():
        sizes = [len(change.moved_from), len(change.gone), len(change.joined), len(change.left)]
        parts += (
            name_field(name, "an attribute"),
            _BYTE.pack(_KINDS.index(change.ends.kind.name)),
            encode_rows(change.ends),
            varints(np.array(sizes)),
            varints(change.moved_from),
            varints(change.moved_to),
            varints(change.gone),
            varints(change.joined_rows),
            varints(change.joined),
            varints(change.left_rows),
            varints(change.left),
        )
    return b"".join(parts)


def _one_list(numbers: Ints) -> bytes:
    return ascending_lists(np.array([0, len(numbers)]), numbers)


# --- in


def decode_summary(reader: Reader) -> PlainSummary:
    space = reader.name("a space")
    brokers, entries, columns = read_varints(reader, 3, "the counts of a summary", MOST).tolist()
    reader.need(brokers, f"{brokers} brokers")
    names = tuple(reader.names(brokers, "the brokers"))
    if any(one >= other for one, other in pairwise(names)):
        raise WireError("the brokers of a summary stand in the order of their names, each once")
    versions = tuple(reader.within(brokers, 2**63, "the versions").tolist())
    sizes = read_varints(reader, brokers, "the entries of each broker", MOST)
    if int(sizes.sum()) != entries:
        raise WireError(f"{entries} entries are promised, and the brokers have {int(sizes.sum())}")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    ids = _decode_ids(reader, starts)
    rows: dict[str, PlainRows] = {}
    for _ in range(columns):
        name, kind = _attribute(reader, rows)
        rows[name] = _decode_rows(reader, kind, entries, f"the rows of {name}")
        if not (np.diff(rows[name].offsets)[:-1] > 0).all() or not len(rows[name].members):
            raise WireError(f"the rows of {name}: one has no entries")
    return PlainSummary(space, names, versions, starts, ids, rows)


def _attribute(reader: Reader, before: Mapping[str, object]) -> tuple[str, Kind]:
    name = reader.name("an attribute")
    if before and name <= next(reversed(list(before))):
        raise WireError(f"the attribute {name} does not come in the order of names, each once")
    (number,) = reader.unpack(_BYTE, f"the kind of {name}")
    if number >= len(_KINDS):
        raise WireError(f"the attribute {name} is of kind {number}; there are {len(_KINDS)}")
    return name, KINDS[_KINDS[number]]


def _decode_ids(reader: Reader, starts: Ints) -> Ints:
    count = int(starts[-1])
    (way,) = reader.unpack(_BYTE, "the ids")
    if way == 1:
        ids = reader.numbers(count, "the ids")
    elif way == 0:
        begins = starts[:-1][np.diff(starts) > 0]
        reader.need(count - len(begins), "the ids")
        steps = np.zeros(count, np.int64)
        rest = np.ones(count, bool)
        rest[begins] = False
        steps[begins] = reader.numbers(len(begins), "the first ids")
        steps[rest] = read_varints(reader, count - len(begins), "the ids")
        total = np.cumsum(steps.view(np.uint64))  # wraps around 2^64; ids that do not ascend then are refused below
        before = np.append(np.uint64(0), total)[begins]
        ids = (total - np.repeat(before, np.diff(np.append(begins, count)))).view(np.int64)
    else:
        raise WireError(f"there is no way {way} to write ids")
    inside = np.ones(count, bool)
    inside[starts[:-1][starts[:-1] < count]] = False
    if (ids[1:] < ids[:-1])[inside[1:]].any():
        raise WireError("the ids of a broker do not ascend")
    return ids


def _decode_rows(reader: Reader, kind: Kind, entries: int, what: str) -> PlainRows:
    intervals, cut_count, pattern_count = read_varints(reader, 3, f"{what}, counts", MOST).tolist()
    reader.need(intervals, f"{what}: {intervals} intervals")
    keyed = kind.name in KEYED
    if (keyed and (cut_count or pattern_count)) or (pattern_count and kind.name != "string" and kind.element is None):
        raise WireError(f"{what}: cuts are for texts, and patterns for strings and lists")
    low, high, cuts = (
        _decode_keys(reader, kind, intervals, what) if keyed else _decode_texts(reader, kind, intervals, cut_count, what)
    )
    steps = (low[1:] > low[:-1]) | ((low[1:] == low[:-1]) & (high[1:] > high[:-1]))
    if not steps.all():
        raise WireError(f"{what}: they do not ascend")
    patterns: tuple[Constraint, ...] = ()
    if pattern_count:
        reader.need(pattern_count, f"{what}: {pattern_count} patterns")
        patterns = tuple(decode_constraints(reader, kind, pattern_count, what))
        if any(each.absent or each.only_ranges or not each.ranges for each in patterns):
            raise WireError(f"{what}: a pattern row asks for present texts, and has a pattern")
        if list(patterns) != sorted(patterns, key=Constraint.sort_key):
            raise WireError(f"{what}: the patterns do not ascend")
    offsets, members = read_lists(reader, intervals + pattern_count + 1, entries, f"{what}, entries")
    return PlainRows(kind, low, high, cuts, patterns, offsets, members)


def _decode_keys(reader: Reader, kind: Kind, count: int, what: str) -> tuple[Ints, Ints, tuple[Value, ...]]:
    least, greatest = key_ends(kind)
    low = reader.within(count, greatest + 1, f"{what}, first keys", least)
    several = read_flags(reader, count, f"{what}, ranges")
    high = low.copy()
    high[several] = reader.within(int(several.sum()), greatest + 1, f"{what}, last keys", least)
    wrong = (high < low) | (several & (high == low))
    if kind.name == "float":
        wrong |= (low == NO_FLOAT) | (high == NO_FLOAT)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise WireError(f"{what}: the keys from {low[at]} to {high[at]} are no row of {kind.article}")
    return low, high, ()


def _decode_texts(reader: Reader, kind: Kind, count: int, cut_count: int, what: str) -> tuple[Ints, Ints, tuple[Value, ...]]:
    reader.need(2 * cut_count, f"{what}: {cut_count} cuts")
    raw = read_sorted_texts(reader, cut_count, f"{what}, cuts")
    cuts: tuple[Value, ...] = tuple(raw)
    if kind.name == "string":
        try:
            cuts = tuple(each.decode() for each in raw)
        except UnicodeDecodeError as reason:
            raise WireError(f"{what}: a cut is not UTF-8: {reason}") from None
    low = np.cumsum(read_varints(reader, count, f"{what}, where rows begin", cut_count + 1))
    ends = read_varints(reader, count, f"{what}, where rows end", cut_count + 2)
    high = np.where(ends == 0, POINT, np.where(ends == 1, UNBOUNDED, low + ends - 2))
    ended = ends > 1
    if count and (int(low.max()) >= cut_count or (high[ended] >= cut_count).any() or (high[ended] <= low[ended]).any()):
        raise WireError(f"{what}: a row begins or ends where there is no cut")
    for at in np.flatnonzero(ended).tolist():
        if kind.successor(cuts[int(low[at])]) == cuts[int(high[at])]:
            raise WireError(f"{what}: the row of the one value {cuts[int(low[at])]!r} is written as a range")
    used = np.zeros(cut_count, bool)
    used[low] = True
    used[high[ended]] = True
    if not used.all():
        raise WireError(f"{what}: a cut is used by no row")
    return low, high, cuts


def decode_delta(reader: Reader) -> PlainDelta:
    """Whether its row and entry numbers are there is seen when it is applied: only then is the old version known."""
    space, broker = reader.name("a space"), reader.name("a broker")
    since, version = read_varints(reader, 2, "the versions of a difference").tolist()
    gone_count, new_count, columns = read_varints(reader, 3, "the counts of a difference", MOST).tolist()
    gone, fresh_at = (_read_one_list(reader, count, "the entries") for count in (gone_count, new_count))
    ids = _decode_ids(reader, np.array([0, new_count]))
    rows: dict[str, PlainRowsDelta] = {}
    for _ in range(columns):
        name, kind = _attribute(reader, rows)
        rows[name] = _decode_rows_delta(reader, kind, f"the rows of {name}")
    return PlainDelta(space, broker, since, version, gone, fresh_at, ids, rows)


def _read_one_list(reader: Reader, count: int, what: str) -> Ints:
    _, members = read_lists(reader, 1, MOST, what)
    if len(members) != count:
        raise WireError(f"{what}: {count} are promised and {len(members)} are there")
    return members


def _decode_rows_delta(reader: Reader, kind: Kind, what: str) -> PlainRowsDelta:
    ends = _decode_rows(reader, kind, MOST, what)
    moved, gone, joined, left = read_varints(reader, 4, f"{what}, counts", MOST).tolist()
    moved_from = read_varints(reader, moved, f"{what}, moved", MOST)
    moved_to = read_varints(reader, moved, f"{what}, moved", len(ends.low) + len(ends.patterns))
    found = [read_varints(reader, count, what, MOST) for count in (gone, joined, joined, left, left)]
    return PlainRowsDelta(ends, moved_from, moved_to, *found)
