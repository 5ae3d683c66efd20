"""Subscriptions of one space by columns, as they stand in their PredicateTable (see `model.predicates.table`).

    space | how many subscriptions, conjunctions, subscribers, columns
    ids | subscribers, each name once | which of them, for each subscription | predicate_of
    for each column:  position of the attribute, how many rows, rows with an other, others, values | conjunction of each row
        rows that are one of `others`: which rows, which other | the others
        the remaining rows:  first and last key, or the values wanted, each once, and which of them

An *other* constraint (several intervals, patterns, may be absent) is its cuts and patterns, all others of a column together:

    flags (1 may be absent, 2 the last cut is TOP) | how many cuts, like, unlike of each | cuts as keys or texts | patterns

Arrays are written as in `fields`. Ten thousand subscriptions of the market-data scenario take 18.5 bytes each (their texts 44),
of the Gryphon scenario 17.1 (47), of the summaries scenario 68.4 (121).
Rule: what comes in is a table as the model makes them: in order, every number inside its range, cuts ascending, patterns in
their one canonical text. Whether one constraint could be said more shortly is not asked, it means the same.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from contentcast.model import Constraint, Ranges, Space, SubscriptionBatch
from contentcast.model.predicates.table import ConstraintColumn, PredicateTable
from contentcast.model.predicates.test_texts import checked_test
from contentcast.model.values.keys import KEYED, NO_FLOAT, key_ends, key_of, value_of
from contentcast.model.values.kinds import TOP, Kind, Value
from contentcast.model.values.value_test import ValueTest
from contentcast.wire.fields import Ints, Reader, WireError, numbers_field, space_field, texts_field, utf8

_ABSENT, _TOP = 1, 2


def encode_subscriptions(batch: SubscriptionBatch) -> bytes:
    table = batch.table
    if table.refused:
        raise WireError(f"a predicate that was refused cannot travel: {next(iter(table.refused.values()))}")
    numbers: dict[str, int] = {}
    who = np.array([numbers.setdefault(each, len(numbers)) for each in batch.subscribers], np.int64)
    columns = {name: each for name, each in table.columns.items() if len(each.conjunction)}
    parts = [
        space_field(batch.space),
        _counts(len(batch), table.conjunction_count, len(numbers), len(columns)),
        numbers_field(batch.ids),
        texts_field([utf8(each, "a subscriber") for each in numbers]),
        numbers_field(who),
        numbers_field(table.predicate_of),
    ]
    for name in table.space.names:
        if name in columns:
            parts += _encode_column(table.space.position(name), columns[name])
    return b"".join(parts)


def _counts(*counts: int) -> bytes:
    return numbers_field(np.array(counts, np.int64))


def _read_counts(reader: Reader, how_many: int, what: str) -> list[int]:
    found: list[int] = reader.within(how_many, 2**32, f"the counts of {what}").tolist()
    return found


def _encode_column(position: int, column: ConstraintColumn) -> list[bytes]:
    """A table that was taken from a larger one still has all its values and others; only those in use travel."""
    special = np.flatnonzero(column.other >= 0)
    plain = np.flatnonzero(column.other < 0)
    used_others, other = np.unique(column.other[special], return_inverse=True)
    keyed = column.kind.name in KEYED
    used_values, code = np.unique(column.code[plain], return_inverse=True) if not keyed else (np.empty(0, np.int64), None)
    parts = [
        _counts(position, len(column.conjunction), len(special), len(used_others), len(used_values)),
        numbers_field(column.conjunction),
    ]
    if len(special):
        others = [column.others[each] for each in used_others.tolist()]
        parts += (numbers_field(special), numbers_field(other.astype(np.int64)))
        parts += encode_constraints(column.kind, others)
    if keyed:
        first, last = column.first[plain], column.last[plain]
        # Most are one value (price = 5) or have one end only: the shorter of the last key and its distance from the first.
        lasts = min((b"\0" + numbers_field(last), b"\1" + numbers_field(last - first)), key=len)
        parts += (numbers_field(first), lasts)
    elif code is not None:
        texts = column.values.take(pa.array(used_values)).cast(pa.binary()).to_pylist()
        parts += (texts_field(texts), numbers_field(code.astype(np.int64)))
    return parts


def encode_constraints(kind: Kind, others: list[Constraint]) -> list[bytes]:
    flags = bytearray()
    sizes: list[int] = []
    cuts: list[Value] = []
    patterns: list[bytes] = []
    for each in others:
        ends_in_top = bool(each.ranges.cuts) and each.ranges.cuts[-1] is TOP
        mine = each.ranges.cuts[:-1] if ends_in_top else each.ranges.cuts
        flags.append(_ABSENT * each.absent | _TOP * ends_in_top)
        sizes += (len(mine), len(each.like), len(each.unlike))
        cuts += mine
        patterns += (pattern.text.encode() for pattern in (*each.like, *each.unlike))
    if kind.name in KEYED:
        written = numbers_field(np.array([key_of(kind, cut) for cut in cuts], np.int64))
    else:
        written = texts_field([cut if isinstance(cut, bytes) else cut.encode() for cut in cuts])
    return [bytes(flags), numbers_field(np.array(sizes, np.int64)), written, texts_field(patterns)]


# --- in


def decode_subscriptions(reader: Reader) -> SubscriptionBatch:
    space = reader.space()
    count, conjunctions, names, columns = _read_counts(reader, 4, "a batch of subscriptions")
    ids = _ascending(reader.numbers(count, "the ids of subscriptions"), "the ids of subscriptions")
    subscribers = reader.names(names, "the subscribers")
    who = reader.within(count, names, "who subscribes").tolist()
    predicate_of = reader.within(conjunctions, count, "the owners of conjunctions")
    if (predicate_of[1:] < predicate_of[:-1]).any():
        raise WireError("the conjunctions do not stand in the order of their predicates")
    found: dict[str, ConstraintColumn] = {}
    before = -1
    for _ in range(columns):
        position, column = _decode_column(reader, space, conjunctions)
        if position <= before:
            raise WireError(f"the column of attribute {position} comes after that of {before}")
        before = position
        found[space.names[position]] = column
    table = PredicateTable(space, count, predicate_of, found, {})
    return SubscriptionBatch(ids, table, tuple([subscribers[each] for each in who]))


def _ascending(numbers: Ints, what: str) -> Ints:
    if (numbers[1:] <= numbers[:-1]).any():
        raise WireError(f"{what} do not ascend")
    return numbers


def _decode_column(reader: Reader, space: Space, conjunctions: int) -> tuple[int, ConstraintColumn]:
    position, rows, other_count, different, value_count = _read_counts(reader, 5, "a column of constraints")
    if position >= len(space):
        raise WireError(f"{space.name} has {len(space)} attributes, so none at position {position}")
    name = space.names[position]
    kind, what = space.kinds[name], f"the constraints on {name}"
    keyed = kind.name in KEYED
    if not 0 < rows <= conjunctions or other_count > rows or bool(different) != bool(other_count) or (keyed and value_count):
        counts = f"{rows} rows, {other_count} with one of {different} others, {value_count} values"
        raise WireError(f"{what}: {counts} for {conjunctions} conjunctions cannot be")
    conjunction = _ascending(reader.within(rows, conjunctions, f"{what}, conjunctions"), f"{what}: the conjunctions")
    other = np.full(rows, -1, np.int64)
    others: list[Constraint] = []
    if other_count:
        special = _ascending(reader.within(other_count, rows, f"{what}, others"), f"{what}: the rows of others")
        other[special] = reader.within(other_count, different, f"{what}, which other")
        others = decode_constraints(reader, kind, different, what)
    plain = np.flatnonzero(other < 0)
    first, last, code = np.zeros(rows, np.int64), np.full(rows, -1, np.int64), np.full(rows, -1, np.int64)
    values = pa.array([], kind.stored)
    if keyed:
        first[plain], last[plain] = _decode_keys(reader, kind, len(plain), what)
    else:
        values = _decode_values(reader, kind, value_count, what)
        code[plain] = reader.within(len(plain), value_count, f"{what}, which value")
    return position, ConstraintColumn(kind, conjunction, first, last, code, other, values, tuple(others))


def _decode_keys(reader: Reader, kind: Kind, count: int, what: str) -> tuple[Ints, Ints]:
    low, high = key_ends(kind)
    first = reader.within(count, high + 1, f"{what}, first keys", low)
    (distance,) = reader.take(1, f"{what}, last keys")
    last = reader.numbers(count, f"{what}, last keys")
    if distance == 1:
        last += first  # wraps around 2^64 as the difference did
    elif distance:
        raise WireError(f"{what}: there is no way {distance} to write the last keys")
    wrong = (last < first) | (last > high)
    if kind.name == "float":
        wrong |= (first == NO_FLOAT) | (last == NO_FLOAT)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise WireError(f"{what}: the keys from {first[at]} to {last[at]} are no interval of {kind.article}")
    return first, last


def _decode_values(reader: Reader, kind: Kind, count: int, what: str) -> pa.Array:
    texts = reader.texts(count, f"{what}, values")
    values = pa.array(texts, pa.binary())
    if kind.name == "string":
        try:
            values = values.cast(pa.string())  # which looks at every byte
        except pa.ArrowInvalid as reason:
            raise WireError(f"{what}: {reason}") from None
    if len(values.unique()) != count:
        raise WireError(f"{what}: a value stands twice")
    return values


def decode_constraints(reader: Reader, kind: Kind, count: int, what: str) -> list[Constraint]:
    flags = reader.take(count, f"{what}, flags").tobytes()
    sizes = reader.within(3 * count, 2**32, f"{what}, sizes")
    cut_count = int(sizes[0::3].sum())
    reader.need(cut_count, f"{what}, {cut_count} cuts")
    cuts = _decode_cuts(reader, kind, cut_count, what)
    pattern_count = int(sizes.sum()) - cut_count
    reader.need(pattern_count, f"{what}, {pattern_count} patterns")
    if pattern_count and kind.name != "string" and kind.element is None:
        raise WireError(f"{what}: patterns are for strings, and tests of elements for lists")
    patterns = [_test(kind, text, what) for text in reader.names(pattern_count, f"{what}, patterns")]
    found: list[Constraint] = []
    cut = pattern = 0
    for at, flag in enumerate(flags):
        mine, like, unlike = sizes[3 * at : 3 * at + 3].tolist()
        chosen = tuple(cuts[cut : cut + mine]) + ((TOP,) if flag & _TOP else ())
        likes = tuple(patterns[pattern : pattern + like])
        unlikes = tuple(patterns[pattern + like : pattern + like + unlike])
        cut, pattern = cut + mine, pattern + like + unlike
        found.append(_constraint(kind, flag, chosen, likes, unlikes, what))
    if len(set(found)) != len(found):
        raise WireError(f"{what}: one stands twice")
    return found


def _decode_cuts(reader: Reader, kind: Kind, count: int, what: str) -> list[Any]:
    if kind.name == "string":
        return reader.names(count, f"{what}, cuts")
    if kind.name == "bytes" or kind.element is not None:
        return reader.texts(count, f"{what}, cuts")
    low, high = key_ends(kind)
    keys = reader.within(count, high + 1, f"{what}, cuts", low)
    if kind.name == "float" and (keys == NO_FLOAT).any():
        raise WireError(f"{what}: no float has the key {NO_FLOAT}")
    return [value_of(kind, key) for key in keys.tolist()]


def _test(kind: Kind, text: str, what: str) -> ValueTest:
    try:
        return checked_test(kind, text)
    except ValueError as reason:
        raise WireError(f"{what}, pattern {text!r}: {reason}") from None


def _constraint(
    kind: Kind, flag: int, cuts: tuple[Value, ...], like: tuple[ValueTest, ...], unlike: tuple[ValueTest, ...], what: str
) -> Constraint:
    if flag & ~(_ABSENT | _TOP):
        raise WireError(f"{what}: there is no flag {flag}")
    if len(cuts) % 2 or any(not low < high for low, high in pairwise(cuts)):
        raise WireError(f"{what}: the cuts of a set of values come in pairs and ascend")
    if list(like) != sorted(set(like)) or list(unlike) != sorted(set(unlike)):
        raise WireError(f"{what}: patterns stand in order, each once")
    found = Constraint(Ranges(kind, cuts), bool(flag & _ABSENT), like, unlike)
    if found.is_empty or found.is_anything:
        raise WireError(f"{what}: one that {'nothing' if found.is_empty else 'everything'} satisfies has no place in a table")
    return found
