"""One Arrow column checked against one attribute, by columns: its canonical form and what is wrong in it, row by row.

Rule: a cast happens only where it loses nothing (int32 to int64, float32 to float64, an int that a double holds exactly, any
string encoding to plain strings, milliseconds to microseconds); everything else is a complaint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.errors import EventError
from contentcast.model.space import Attribute, Space

_EXACT = 2**53
# Years 1 to 9999, which is what Python's datetime holds.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


class Complaint(NamedTuple):
    row: int
    attribute: str
    value: Any
    reason: str


def check_column(space: Space, name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    """The column in the attribute's Arrow type, and the complaints; complained-about rows hold anything."""
    kind = space.kinds[name]
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind.arrow), []
    complaints: list[Complaint] = []
    if column.type != kind.arrow:
        column, complaints = _CASTS[kind.name](name, column)
    if kind.name == "float" and len(column):
        complaints += _complain(name, column, pc.is_nan(column), "NaN is not a value; leave it null if it is unknown")
    elif kind.name == "timestamp" and len(column):
        ticks = column.cast(pa.int64())
        beyond = pc.or_(pc.less(ticks, _FIRST_US), pc.greater(ticks, _LAST_US))
        complaints += _complain(name, ticks, beyond, "is outside the years 1 to 9999 (microseconds since 1970)")
    if space[name].has_domain:
        complaints += _outside_domain(space, name, column)
    return column, complaints


def _complain(name: str, column: pa.Array, wrong: pa.Array, reason: str) -> Iterator[Complaint]:
    if not pc.any(wrong).as_py():
        return
    for row in np.flatnonzero(wrong.fill_null(False).to_numpy(zero_copy_only=False)):
        value = column[int(row)].as_py()
        yield Complaint(int(row), name, value, reason if reason.startswith("NaN") else f"{value!r} {reason}")


def _refused(name: str, column: pa.Array, wanted: str) -> EventError:
    row = int(np.argmax(column.is_valid().to_numpy(zero_copy_only=False))) if len(column) else 0
    value = f" (event {row} has {column[row].as_py()!r})" if len(column) else ""
    return EventError(f"column {name} is {column.type}, and the attribute is {wanted}{value}; cast the column first")


def _to_string(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.string()), []
    raise _refused(name, column, "a string")


def _to_int(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    if not pa.types.is_integer(column.type):
        raise _refused(name, column, "an int")
    if pa.types.is_uint64(column.type):
        beyond = pc.greater(column, pa.scalar(2**63 - 1, pa.uint64()))
        complaints = list(_complain(name, column, beyond, "is beyond 64 bits (signed)"))
        return column.cast(pa.int64(), safe=False), complaints
    return column.cast(pa.int64()), []


def _to_float(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    if pa.types.is_floating(column.type):
        return column.cast(pa.float64()), []
    if not pa.types.is_integer(column.type):
        raise _refused(name, column, "a float")
    floats = column.cast(pa.float64(), safe=False)
    if column.type.bit_width < 64:
        return floats, []
    # Beyond 2^53 not every int is a double; the round trip tells which, but must not itself overflow.
    inside = pc.and_(pc.less(floats, 2.0**63), pc.greater_equal(floats, -(2.0**63)))
    back = pc.if_else(inside, floats, 0.0).cast(pa.int64(), safe=False)
    same = pc.and_(inside, pc.equal(back, column.cast(pa.int64(), safe=False)))
    return floats, list(_complain(name, column, pc.invert(same), "has no exact float"))


def _to_bool(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    raise _refused(name, column, "a bool")


def _to_timestamp(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    if not pa.types.is_timestamp(column.type):
        raise _refused(name, column, "a timestamp")
    complaints: list[Complaint] = []
    if column.type.unit == "ns":
        ticks = column.cast(pa.int64())
        whole = pc.multiply(pc.divide(ticks, 1000), 1000)
        complaints = list(_complain(name, ticks, pc.not_equal(whole, ticks), "is finer than a microsecond (ns since 1970)"))
    # Arrow keeps instants in UTC whatever the zone; a column without one means UTC here, as everywhere in contentcast.
    naive = column.cast(pa.timestamp(column.type.unit))
    try:
        return naive.cast(pa.timestamp("us"), safe=column.type.unit != "ns").cast(pa.timestamp("us", tz="UTC")), complaints
    except pa.ArrowInvalid:
        raise EventError(f"column {name} holds timestamps outside the years 1 to 9999") from None


def _to_bytes(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    if pa.types.is_large_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary()), []
    if pa.types.is_binary_view(column.type):
        return column.cast(pa.binary()), []
    raise _refused(name, column, "bytes")


_CASTS = {
    "string": _to_string,
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "timestamp": _to_timestamp,
    "bytes": _to_bytes,
}


def _outside_domain(space: Space, name: str, column: pa.Array) -> Iterator[Complaint]:
    attribute: Attribute = space[name]
    if attribute.values is not None:
        inside = pc.is_in(column, value_set=pa.array(attribute.values, column.type))
        wrong = pc.and_(pc.invert(inside), column.is_valid())
        allowed = ", ".join(map(repr, attribute.values[:12]))
        yield from _complain(name, column, wrong, f"is not one of {allowed}")
        return
    for bound, beyond, words in ((attribute.low, pc.less, "below"), (attribute.high, pc.greater, "above")):
        if bound is not None:
            wrong = beyond(column, pa.scalar(bound, column.type))
            yield from _complain(name, column, wrong, f"is {words} the domain's {bound!r}")
