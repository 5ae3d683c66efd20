"""One Arrow column checked against one attribute, by columns: its canonical form and what is wrong in it, row by row.

Rule: a cast happens only where it loses nothing (int32 to int64, float32 to float64, an int that a double holds exactly, any
string encoding to plain strings, milliseconds to microseconds); everything else is a complaint. Columns that users bring come
with an `Intake`; then also whole floats become ints, and texts and numbers timestamps, each as `intake` takes a single value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from contentcast.model.errors import EventError
from contentcast.model.events.intake import BOUNDS, PER_UNIT_US, ROUND_HINT, Intake, take_of
from contentcast.model.space import Attribute, Space, is_list
from contentcast.model.values.kinds import TIMESTAMP, Kind

# Years 1 to 9999, which is what Python's datetime holds.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999


class Complaint(NamedTuple):
    row: int
    attribute: str
    value: Any
    reason: str


def check_column(space: Space, name: str, column: pa.Array, intake: Intake | None = None) -> tuple[pa.Array, list[Complaint]]:
    """The column in the attribute's Arrow type, and the complaints; complained-about rows hold anything."""
    column, complaints = _checked(space.kinds[name], name, column, intake)
    if space[name].has_domain:
        complaints += _outside_domain(space, name, column)
    return column, complaints


def _checked(kind: Kind, name: str, column: pa.Array, intake: Intake | None) -> tuple[pa.Array, list[Complaint]]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind.arrow), []
    if kind.element is not None:
        return _checked_lists(kind, kind.element, name, column, intake)
    complaints: list[Complaint] = []
    if (
        intake is not None
        and intake.nan == "absent"
        and pa.types.is_floating(column.type)
        and pc.any(pc.is_nan(column)).as_py()
    ):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if column.type != kind.arrow:
        cast = None if intake is None else _taken(kind.name, name, column, intake)
        column, complaints = _CASTS[kind.name](name, column) if cast is None else cast
    if kind.name == "float" and len(column):
        complaints += _complain(name, column, pc.is_nan(column), "NaN is not a value; leave it null if it is unknown")
    elif kind.name == "timestamp" and len(column):
        column, beyond = _within_years(name, column)
        complaints += beyond
    elif kind.name == "string":
        column, broken = _as_text(name, column)
        complaints += broken
    return column, complaints


def _checked_lists(
    kind: Kind, element: Kind, name: str, column: pa.Array, intake: Intake | None
) -> tuple[pa.Array, list[Complaint]]:
    """The elements of all lists as one column; what is wrong with one is wrong with its list."""
    if not is_list(column.type):
        raise _refused(name, column, kind.article)
    given = column.flatten()
    elements, wrong = _checked(element, name, given, intake)
    if elements is given and not wrong and column.type == kind.arrow:
        return column, []
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    parents = np.repeat(np.arange(len(column)), lengths)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    absent = pc.is_null(column) if column.null_count else None
    found = pa.ListArray.from_arrays(offsets, elements, type=kind.arrow, mask=absent)
    return found, [each._replace(row=int(parents[each.row])) for each in wrong]


def check_objects(
    space: Space, name: str, values: list[Any], intake: Intake, *, from_text: bool = False
) -> tuple[pa.Array, list[Complaint]]:
    """As `check_column`, of Python values; None is absent."""
    kind = space.kinds[name]
    take = take_of(kind, intake, from_text)
    kept: list[Any] = []
    complaints: list[Complaint] = []
    for row, value in enumerate(values):
        try:
            kept.append(None if value is None else take(value))
        except ValueError as reason:
            kept.append(None)
            complaints.append(Complaint(row, name, value, str(reason)))
    column = pa.array(kept, kind.arrow)
    if space[name].has_domain:
        complaints += _outside_domain(space, name, column)
    return column, complaints


def _within_years(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    """What Python's datetime cannot hold becomes null, so that nobody after this stumbles over it."""
    ticks = column.cast(pa.int64())
    beyond = pc.or_(pc.less(ticks, _FIRST_US), pc.greater(ticks, _LAST_US))
    found = list(_complain(name, ticks, beyond, "is outside the years 1 to 9999 (microseconds since 1970)"))
    return (pc.if_else(beyond, pa.scalar(None, column.type), column) if found else column), found


def _as_text(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    """Arrow takes any bytes for a string and never looks; what is not UTF-8 becomes null."""
    try:
        column.validate(full=True)
        return column, []
    except pa.ArrowInvalid:
        raw = pc.cast(column, pa.binary()).to_pylist()
    kept: list[str | None] = []
    found: list[Complaint] = []
    for row, each in enumerate(raw):
        try:
            kept.append(None if each is None else each.decode())
        except UnicodeDecodeError:
            kept.append(None)
            found.append(Complaint(row, name, each, f"{each!r} is not UTF-8 text"))
    return pa.array(kept, pa.string()), found


def _complain(name: str, column: pa.Array, wrong: pa.Array, reason: str) -> Iterator[Complaint]:
    if not pc.any(wrong).as_py():
        return
    for row in np.flatnonzero(wrong.fill_null(False).to_numpy(zero_copy_only=False)):
        value = column[int(row)].as_py()
        yield Complaint(int(row), name, value, reason if reason.startswith("NaN") else f"{value!r} {reason}")


def _refused(name: str, column: pa.Array, wanted: str) -> EventError:
    value = ""
    if column.null_count < len(column):
        row = int(np.argmax(column.is_valid().to_numpy(zero_copy_only=False)))
        with suppress(OverflowError, ValueError):  # a timestamp that Python does not have
            value = f" (event {row} has {column[row].as_py()!r})"
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
    least, end = (0.0, 2.0**64) if pa.types.is_uint64(column.type) else (-(2.0**63), 2.0**63)
    inside = pc.and_(pc.less(floats, end), pc.greater_equal(floats, least))
    back = pc.if_else(inside, floats, 0.0).cast(column.type, safe=False)
    same = pc.and_(inside, pc.equal(back, column))
    return floats, list(_complain(name, column, pc.invert(same), "has no exact float"))


def _to_bool(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    raise _refused(name, column, "a bool")


def _to_timestamp(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    if not pa.types.is_timestamp(column.type):
        raise _refused(name, column, "a timestamp")
    complaints: list[Complaint] = []
    # Arrow keeps instants in UTC whatever the zone; a column without one means UTC here, as everywhere in contentcast.
    ticks, unit = column.cast(pa.int64()), column.type.unit
    if unit == "ns":
        whole = pc.divide(ticks, 1000)
        finer = pc.not_equal(pc.multiply(whole, 1000), ticks)
        complaints = list(_complain(name, ticks, finer, f"is finer than a microsecond (ns since 1970); {ROUND_HINT}"))
        ticks = whole
    elif unit != "us":
        many = 1_000_000 if unit == "s" else 1000
        beyond = pc.or_(pc.less(ticks, _FIRST_US // many), pc.greater(ticks, _LAST_US // many))
        complaints = list(_complain(name, ticks, beyond, f"is outside the years 1 to 9999 ({unit} since 1970)"))
        ticks = pc.multiply(pc.if_else(beyond, 0, ticks), many)
    return ticks.cast(pa.timestamp("us", tz="UTC")), complaints


def _to_bytes(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    if pa.types.is_large_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary()), []
    if pa.types.is_binary_view(column.type):
        return column.cast(pa.binary()), []
    raise _refused(name, column, "bytes")


# --- what users bring


def _taken(kind: str, name: str, column: pa.Array, intake: Intake) -> tuple[pa.Array, list[Complaint]] | None:
    """A column that is taken though its type is another; None if it is not."""
    if kind == "int" and pa.types.is_floating(column.type):
        return _whole_floats(name, column)
    if kind != "timestamp":
        return None
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns" and intake.finer == "round":
        ticks = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _instants(column, ticks // 1000 + (ticks % 1000 >= 500)), []
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return _from_texts(name, column.cast(pa.string()), intake)
    if intake.epoch != "error" and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return _from_numbers(name, column, intake)
    return None


def _whole_floats(name: str, column: pa.Array) -> tuple[pa.Array, list[Complaint]]:
    """pandas has no ints with gaps, and JavaScript has no ints."""
    floats = column.cast(pa.float64())
    whole = pc.and_(pc.equal(pc.floor(floats), floats), pc.less(pc.abs(floats), 2.0**63))
    complaints = list(_complain(name, floats, pc.is_nan(floats), "NaN is not a value; leave it null if it is unknown"))
    wrong = pc.and_(pc.invert(whole), pc.invert(pc.is_nan(floats)))
    complaints += _complain(name, floats, wrong, "is a float, not an int")
    return pc.if_else(whole, floats, 0.0).cast(pa.int64()), complaints


def _from_texts(name: str, column: pa.Array, intake: Intake) -> tuple[pa.Array, list[Complaint]]:
    """Arrow reads the usual forms by columns; what it refuses is read one by one."""
    for zone in ("UTC", None):
        try:
            return column.cast(pa.timestamp("us", tz=zone)).cast(pa.int64()).cast(TIMESTAMP.arrow), []
        except pa.ArrowInvalid:
            continue
    take = take_of(TIMESTAMP, intake)
    kept: list[Any] = []
    complaints: list[Complaint] = []
    try:
        texts = column.to_pylist()
    except UnicodeDecodeError:
        raise _refused(name, column.cast(pa.binary()), "a timestamp") from None
    for row, text in enumerate(texts):
        try:
            kept.append(None if text is None else take(text))
        except ValueError as reason:
            kept.append(None)
            complaints.append(Complaint(row, name, text, str(reason)))
    return pa.array(kept, TIMESTAMP.arrow), complaints


def _from_numbers(name: str, column: pa.Array, intake: Intake) -> tuple[pa.Array, list[Complaint]]:
    """Seconds, milliseconds ... since 1970; see `intake.from_epoch`."""
    if pa.types.is_uint64(column.type):
        column, beyond = _to_int(name, column)
    else:
        beyond = []
    whole = pa.types.is_integer(column.type)
    numbers = column.fill_null(0).cast(pa.int64() if whole else pa.float64()).to_numpy(zero_copy_only=False)
    sizes = np.abs(numbers.astype(np.float64))
    unit = np.full(len(numbers), intake.epoch if intake.epoch != "guess" else "ns", dtype="U2")
    if intake.epoch == "guess":
        for bound, each in reversed(BOUNDS):
            unit[sizes < bound] = each
    ticks = np.zeros(len(numbers), np.int64)
    wrong = ~np.isfinite(sizes)
    complaints = list(_complain(name, column, pa.array(np.isnan(sizes)), "NaN is not a value; leave it null if it is unknown"))
    for each, many in PER_UNIT_US.items():
        mine = unit == each
        wrong |= mine & (sizes > _LAST_US / many + 1)
        kept = mine & ~wrong
        ticks[kept] = numbers[kept] * many if whole else np.rint(numbers[kept] * many).astype(np.int64)
    kept = (unit == "ns") & ~wrong & (sizes < 2.0**63)
    fine = numbers[kept].astype(np.int64)
    ticks[kept] = fine // 1000 + (fine % 1000 >= 500)
    if intake.finer == "error":
        finer = np.zeros(len(numbers), np.bool_)
        finer[kept] = fine % 1000 != 0
        complaints += _complain(name, column, pa.array(finer), f"is finer than a microsecond (ns since 1970); {ROUND_HINT}")
    gone = pa.array(wrong & ~np.isnan(sizes))
    complaints += _complain(name, column, gone, "is outside the years 1 to 9999 (a number since 1970)")
    return _instants(column, ticks), [*beyond, *complaints]


def _instants(column: pa.Array, ticks: Any) -> pa.Array:
    """Microseconds as instants, null where the column is."""
    gaps = ~column.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(ticks.astype(np.int64), mask=gaps).cast(TIMESTAMP.arrow)


_CASTS = {
    "string": _to_string,
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "timestamp": _to_timestamp,
    "bytes": _to_bytes,
}


@lru_cache(maxsize=1024)
def _lookup(attribute: Attribute, type_: pa.DataType) -> pc.SetLookupOptions:
    values = attribute.values or ()
    return pc.SetLookupOptions(pa.array([each + 0.0 for each in values] if attribute.kind == "float" else values, type_))


def _outside_domain(space: Space, name: str, column: pa.Array) -> Iterator[Complaint]:
    attribute: Attribute = space[name]
    if attribute.values is not None:
        # is_in looks values up by their bits, and -0.0 has others than 0.0, which it equals.
        sought = pc.add(column, 0.0) if attribute.kind == "float" else column
        inside = pc.is_in(sought, options=_lookup(attribute, column.type))
        if inside.true_count + column.null_count == len(column):
            return
        wrong = pc.and_(pc.invert(inside), column.is_valid())
        allowed = ", ".join(map(repr, attribute.values[:12]))
        yield from _complain(name, column, wrong, f"is not one of {allowed}")
        return
    if attribute.kind in ("int", "float") and _is_within(attribute, column):
        return
    for bound, beyond, words in ((attribute.low, pc.less, "below"), (attribute.high, pc.greater, "above")):
        if bound is not None:
            wrong = beyond(column, pa.scalar(bound, column.type))
            yield from _complain(name, column, wrong, f"is {words} the domain's {bound!r}")


def _is_within(attribute: Attribute, column: pa.Array) -> bool:
    """By the least and the greatest value: one pass over a batch in which nothing is wrong."""
    least, most = pc.min_max(column).as_py().values()
    if least is None:
        return True
    return (attribute.low is None or least >= attribute.low) and (attribute.high is None or most <= attribute.high)
