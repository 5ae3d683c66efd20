"""Expressions and predicates over whole record batches, by Arrow and NumPy: the fast form of `expression` and `predicate`.

A computed column is its values and, where there are any, the rows that have none (`wrong`); these are null in the values, so
that whatever is computed from them stays null and wrong. Only rows whose value is asked for count: of a CASE the branch taken.
Rule: equals `Expression.of` on every row, which also gives the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.predicates.constraint import Constraint
from contentcast.model.predicates.predicate import Predicate
from contentcast.model.transforms.expression import (
    CASTS,
    Arithmetic,
    Case,
    Cast,
    Coalesce,
    Expression,
    Joined,
    Lettered,
    Literal,
    Read,
    Size,
    Unfit,
    lettered,
)
from contentcast.model.values.kinds import INT_LEAST, TOP, Kind
from contentcast.model.values.ranges import Ranges

Truths = npt.NDArray[np.bool_]


class Column(NamedTuple):
    values: pa.Array
    wrong: Truths | None = None


def compute(expression: Expression, records: pa.RecordBatch) -> Column:
    match expression:
        case Read(name):
            return Column(records.column(name))
        case Literal(value, kind):
            type_ = pa.null() if kind is None else kind.arrow
            return Column(pa.repeat(pa.scalar(value, type_), records.num_rows))
        case Arithmetic(op, left, right):
            return _arithmetic(op, compute(left, records), compute(right, records))
        case Joined(parts):
            columns = [compute(part, records) for part in parts]
            joined = pc.binary_join_element_wise(*(each.values for each in columns), "", null_handling="emit_null")
            return Column(joined, _either(*(each.wrong for each in columns)))
        case Lettered(how, part):
            return _lettered(how, compute(part, records))
        case Size(part):
            column = compute(part, records)
            return Column(pc.list_value_length(column.values).cast(pa.int64()), column.wrong)
        case Cast(part, kind):
            column = compute(part, records)
            return column if part.kind in (None, kind) else _cast(column, part.kind, kind)
        case Coalesce(parts):
            return _first_present([compute(part, records) for part in parts])
        case Case(branches, otherwise):
            found = compute(otherwise, records)
            for predicate, value in reversed(branches):
                found = _chosen(accepted(predicate, records), compute(value, records), found)
            return found
    raise TypeError(f"not an expression: {expression!r}")


# --- joining columns


def _either(*wrongs: Truths | None) -> Truths | None:
    found = [wrong for wrong in wrongs if wrong is not None]
    return np.logical_or.reduce(found) if found else None


def _chosen(choose: Truths, one: Column, other: Column) -> Column:
    """Row by row the one where chosen, else the other."""
    values = pc.if_else(pa.array(choose), one.values, other.values)
    if one.wrong is None and other.wrong is None:
        return Column(values)
    none = np.zeros(len(choose), dtype=np.bool_)
    return Column(
        values, np.where(choose, none if one.wrong is None else one.wrong, none if other.wrong is None else other.wrong)
    )


def _first_present(columns: list[Column]) -> Column:
    found = columns[-1]
    for column in reversed(columns[:-1]):
        there = _valid(column.values)
        found = _chosen(there if column.wrong is None else there | column.wrong, column, found)
    return found


def _valid(values: pa.Array) -> Truths:
    valid: Truths = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


# --- arithmetic


def _arithmetic(op: str, left: Column, right: Column) -> Column:
    before = _either(left.wrong, right.wrong)
    there = _valid(left.values) & _valid(right.values)
    # 1 for what is null: it divides, and overflows nothing.
    one, other = (each.values.fill_null(1).to_numpy(zero_copy_only=False) for each in (left, right))
    one, other = np.where(there, one, one.dtype.type(1)), np.where(there, other, other.dtype.type(1))
    with np.errstate(all="ignore"):
        values, bad = (_of_floats if one.dtype == np.float64 else _of_ints)(op, one, other)
    bad &= there
    array = pa.array(values, mask=~there | bad)
    return Column(array, _either(before, bad) if bad.any() else before)


def _of_floats(op: str, one: Any, other: Any) -> tuple[Any, Truths]:
    compute_, divides = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}[op], op in "/%"
    values = compute_(one, other)
    return values, np.isnan(values) | (other == 0 if divides else False)


def _of_ints(op: str, one: Any, other: Any) -> tuple[Any, Truths]:
    """Wrapped around at 64 bits, and where that happened."""
    match op:
        case "+":
            values = one + other
            return values, ((one ^ values) & (other ^ values)) < 0
        case "-":
            values = one - other
            return values, ((one ^ other) & (one ^ values)) < 0
        case "*":
            values = one * other
            # Dividing back tells, but for -1 times the least int, whose quotient wraps around as well.
            safe = np.where((one == 0) | (one == -1), 1, one)
            back = (one == 0) | (one == -1) | ((values // safe == other) & (values % safe == 0))
            return values, ~back | ((one == -1) & (other == INT_LEAST))
        case "%":
            by_zero = other == 0
            safe = np.where(by_zero | (other == -1), 1, other)  # by -1 and by 1 nothing remains; the least int by -1 would trap
            return np.fmod(one, safe), by_zero
    raise TypeError(f"no arithmetic of ints: {op!r}")


# --- text and casts


def _lettered(how: str, column: Column) -> Column:
    # Arrow maps letter by letter ('ß' stays); Python, Java and Unicode's full rules do not. On ASCII all agree.
    if pc.all(pc.string_is_ascii(column.values)).as_py() in (True, None):
        return Column((pc.ascii_upper if how == "upper" else pc.ascii_lower)(column.values), column.wrong)
    return _by_value(column, lambda text: lettered(how, text), pa.string())


def _by_value(column: Column, change: Callable[[Any], Any], type_: pa.DataType) -> Column:
    """Each different value once, in Python."""
    coded = column.values.dictionary_encode()
    changed, unfit = [], []
    for value in coded.dictionary.to_pylist():
        try:
            changed.append(change(value))
            unfit.append(False)
        except Unfit:
            changed.append(None)
            unfit.append(True)
    values = pa.array(changed, type_).take(coded.indices)
    if not any(unfit):
        return Column(values, column.wrong)
    bad = np.array(unfit)[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)] & _valid(column.values)
    return Column(values, _either(column.wrong, bad))


def _cast(column: Column, given: Kind | None, wanted: Kind) -> Column:
    assert given is not None
    match given.name, wanted.name:
        case "float", "int":
            return _whole(column)
        case "float", "bool":
            return Column(pc.not_equal(column.values, 0.0), column.wrong)
        case ("string", "int" | "float" | "bool" | "timestamp") | ("bytes", "string"):
            return _by_value(column, CASTS[given.name, wanted.name], wanted.arrow)
        case "bool", "float":
            return Column(column.values.cast(pa.int64()).cast(pa.float64()), column.wrong)
    return Column(column.values.cast(wanted.arrow, safe=False), column.wrong)


def _whole(column: Column) -> Column:
    there = _valid(column.values)
    floats = column.values.fill_null(0.0).to_numpy(zero_copy_only=False)
    fits = (floats >= -(2.0**63)) & (floats < 2.0**63)
    values = pa.array(np.where(fits, floats, 0.0).astype(np.int64), mask=~(there & fits))
    bad = there & ~fits
    return Column(values, _either(column.wrong, bad) if bad.any() else column.wrong)


# --- predicates


def accepted(predicate: Predicate, records: pa.RecordBatch) -> Truths:
    """`Predicate.accepts` of every row."""
    found = np.zeros(records.num_rows, dtype=np.bool_)
    for conjunction in predicate.conjunctions:
        row = np.ones(records.num_rows, dtype=np.bool_)
        for name, constraint in conjunction.items:
            row &= _met(constraint, records.column(name))
        found |= row
    return found


def _met(constraint: Constraint, values: pa.Array) -> Truths:
    if constraint.only_ranges:
        met = _within(constraint, values)
    else:
        present = Constraint(constraint.ranges, False, constraint.like, constraint.unlike)
        if pa.types.is_list(values.type):  # Arrow finds no equal lists
            met = pa.array([None if each is None else present.accepts(each) for each in values.to_pylist()], pa.bool_())
        else:
            met = _by_value(Column(values), present.accepts, pa.bool_()).values
    found: Truths = met.fill_null(constraint.absent).to_numpy(zero_copy_only=False)
    return found


def _within(constraint: Constraint, values: pa.Array) -> pa.Array:
    """Null where the values are."""
    ranges = constraint.ranges
    if ranges.is_everything:
        return pc.if_else(values.is_valid(), True, None)
    if pa.types.is_boolean(values.type):
        return _by_value(Column(values), ranges.__contains__, pa.bool_()).values
    points = _single_values(ranges)
    if len(points) > 2:
        # is_in looks values up by their bits, and -0.0 has others than 0.0, which it equals.
        sought = pc.add(values, 0.0) if pa.types.is_floating(values.type) else values
        inside = pc.is_in(sought, value_set=pa.array(points, values.type))
    else:
        inside = pa.repeat(False, len(values))
        for low, high in ranges.pairs():
            part = pc.greater_equal(values, pa.scalar(low, values.type))
            if high is not TOP:
                part = pc.and_(part, pc.less(values, pa.scalar(high, values.type)))
            inside = pc.or_(inside, part)
    return pc.if_else(values.is_valid(), inside, None)


@lru_cache(maxsize=1024)
def _single_values(ranges: Ranges) -> tuple[Any, ...]:
    """The values, if it is a list of such and no interval is among them; else none."""
    pairs = list(ranges.pairs())
    follows = ranges.kind.successor
    return tuple(low for low, _ in pairs) if all(follows(low) == high for low, high in pairs) else ()
