"""What an event's value may be: each kind takes its own, as Python or NumPy have it, and refuses all that would change."""

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from contentcast.model import EventBatch, EventError, Space
from contentcast.model.values.keys import cut_after, float_keys, key_ends, key_of, last_key, value_of
from contentcast.model.values.kinds import KINDS, TOP

SCALARS = [name for name, kind in KINDS.items() if kind.element is None]

THINGS = Space("things", string="string", int="int", float="float", bool="bool", timestamp="timestamp", bytes="bytes")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Side(str, Enum):  # noqa: UP042 - its str() is 'Side.BUY', and people have such
    BUY = "buy"


class Venue(StrEnum):
    XETRA = "xetra"


class Level(IntEnum):
    HIGH = 3


class Loud(str):
    def __str__(self) -> str:
        return self.upper()


def carried(kind: str, value: object) -> Any:
    """What an event that is given the value carries."""
    return EventBatch.from_dicts(THINGS, [{kind: value}]).to_dicts()[0].get(kind)


TAKEN: list[tuple[str, Any, Any]] = [
    ("string", "", ""),
    ("string", "a\0b\U0010ffff", "a\0b\U0010ffff"),
    ("string", np.str_("x"), "x"),
    ("string", Side.BUY, "buy"),
    ("string", Venue.XETRA, "xetra"),
    ("string", Loud("quiet"), "quiet"),
    ("int", 0, 0),
    ("int", 2**63 - 1, 2**63 - 1),
    ("int", -(2**63), -(2**63)),
    ("int", np.int64(-5), -5),
    ("int", np.int8(5), 5),
    ("int", np.uint64(2**63 - 1), 2**63 - 1),
    ("int", Level.HIGH, 3),
    ("float", 0.1, 0.1),
    ("float", 120, 120.0),
    ("float", 2**53, 9007199254740992.0),
    ("float", 2**63, 9223372036854775808.0),
    ("float", 10**22, 1e22),
    ("float", -(2**1000), -(2.0**1000)),
    ("float", math.inf, math.inf),
    ("float", -math.inf, -math.inf),
    ("float", 5e-324, 5e-324),
    ("float", np.float64(0.1), 0.1),
    ("float", np.float32(0.1), 0.10000000149011612),
    ("float", np.float16(0.5), 0.5),
    ("float", np.longdouble(0.5), 0.5),
    ("float", np.int64(2**53), 9007199254740992.0),
    ("float", np.uint64(2**63), 9223372036854775808.0),
    ("bool", True, True),
    ("bool", np.bool_(False), False),
    ("timestamp", NOON, NOON),
    ("timestamp", NOON.replace(tzinfo=None), NOON),
    ("timestamp", datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2))), NOON),
    ("timestamp", datetime.min, datetime.min.replace(tzinfo=UTC)),
    ("timestamp", datetime.max, datetime.max.replace(tzinfo=UTC)),
    ("timestamp", pd.Timestamp("2026-03-01 13:00", tz="Europe/Vienna"), NOON),
    ("timestamp", pd.Timestamp("2026-03-01 12:00"), NOON),
    ("bytes", b"", b""),
    ("bytes", b"\x00\xff", b"\x00\xff"),
    ("bytes", bytearray(b"ab"), b"ab"),
    ("bytes", memoryview(b"abcd")[1:3], b"bc"),
    ("bytes", np.bytes_(b"ab"), b"ab"),
]

REFUSED: list[tuple[str, Any, str]] = [
    ("string", 5, "5 is an int, not a string"),
    ("string", b"x", "b'x' is bytes, not a string"),
    ("string", True, "True is a bool, not a string"),
    ("string", ["x"], "['x'] is a list, not a string"),
    ("string", "\ud800", r"'\ud800' holds a lone surrogate, which is not Unicode text"),
    ("string", "a\udfffb", "holds a lone surrogate"),
    ("int", True, "True is a bool, not an int"),
    ("int", np.True_, "np.True_ is a bool, not an int"),
    ("int", 1.5, "1.5 is a float, not an int"),
    ("int", np.float64(1.5), "np.float64(1.5) is a float, not an int"),
    ("int", "5", "'5' is a string, not an int"),
    ("int", Decimal(5), "Decimal('5') is a Python Decimal, not an int"),
    ("int", Fraction(5), "Fraction(5, 1) is a Python Fraction, not an int"),
    ("int", 2**63, "9223372036854775808 is beyond 64 bits"),
    ("int", -(2**63) - 1, "-9223372036854775809 is beyond 64 bits"),
    ("int", np.uint64(2**63), "9223372036854775808 is beyond 64 bits"),
    ("int", np.timedelta64(5, "s"), "np.timedelta64(5,'s') is a duration, not an int"),
    ("int", np.array(5), "is a Python ndarray, not an int"),
    ("int", pa.scalar(5), "is a Python Int64Scalar, not an int"),
    ("float", "1.5", "'1.5' is a string, not a float"),
    ("float", True, "True is a bool, not a float"),
    ("float", np.False_, "np.False_ is a bool, not a float"),
    ("float", Decimal("1.5"), "Decimal('1.5') is a Python Decimal, not a float"),
    ("float", 1j, "1j is a Python complex, not a float"),
    ("float", math.nan, "NaN is not a value; leave the attribute out if it is unknown"),
    ("float", np.float64("nan"), "NaN is not a value"),
    ("float", np.float32("nan"), "NaN is not a value"),
    ("float", 2**53 + 1, "9007199254740993 has no exact float; send 9007199254740992.0 if that is meant"),
    ("float", np.int64(2**53 + 1), "9007199254740993 has no exact float"),
    ("float", np.int64(2**63 - 1), "9223372036854775807 has no exact float"),
    ("float", 10**400, "is beyond the range of a float"),
    ("float", np.timedelta64(5, "s"), "is a duration, not a float"),
    ("bool", 1, "1 is an int, not a bool"),
    ("bool", 0.0, "0.0 is a float, not a bool"),
    ("bool", "true", "'true' is a string, not a bool"),
    ("timestamp", "soon", "'soon' is not a timestamp; write it as '2026-03-01T12:00:00Z'"),
    ("timestamp", 10**30, "is outside the years 1 to 9999"),
    ("timestamp", date(2026, 3, 1), "datetime.date(2026, 3, 1) is a Python date, not a timestamp"),
    ("timestamp", time(12), "is a Python time, not a timestamp"),
    ("timestamp", np.datetime64("2026-03-01"), "is a Python datetime64, not a timestamp"),
    ("timestamp", pd.Timestamp("2026-03-01 12:00:00.000000001"), "12:00:00.000000001 is finer than a microsecond"),
    ("timestamp", pd.NaT, "NaT is not a value; leave the attribute out if it is unknown"),
    ("timestamp", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "is outside the years 1 to 9999 in UTC"),
    ("timestamp", datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=2))), "is outside the years 1 to 9999"),
    ("bytes", "x", "'x' is a string, not bytes"),
    ("bytes", [1, 2], "[1, 2] is a list, not bytes"),
    ("string", {"x": {}}, "things has no attribute 'string.x'; did you mean 'string'?"),
]


@pytest.mark.parametrize(("kind", "value", "kept"), TAKEN, ids=lambda each: str(each).split(" at ")[0])
def test_a_value_of_its_kind_arrives_as_it_is(kind: str, value: object, kept: object) -> None:
    found = carried(kind, value)
    assert (found, type(found)) == (kept, type(kept))


def test_the_sign_of_zero_stays() -> None:
    assert math.copysign(1, carried("float", -0.0)) == -1


@pytest.mark.parametrize(("kind", "value", "says"), REFUSED, ids=str)
def test_a_value_of_another_kind_is_refused_and_named(kind: str, value: object, says: str) -> None:
    with pytest.raises(EventError) as caught:
        EventBatch.from_dicts(THINGS, [{}, {kind: value}])
    assert str(caught.value).startswith(f"event 1, attribute {kind}")
    assert says in str(caught.value)


@pytest.mark.parametrize("kind", SCALARS)
def test_an_absent_attribute_is_missing_or_none(kind: str) -> None:
    assert carried(kind, None) is None


def test_a_huge_value_is_kept_for_the_program_and_cut_short_for_the_reader() -> None:
    (rejection,) = EventBatch.from_dicts(THINGS, [{"int": "x" * 10**6}], on_error="reject").rejected
    assert rejection.value == "x" * 10**6
    assert len(str(rejection)) < 1000
    assert str(rejection).endswith("is a string, not an int")


# --- order keys


@pytest.mark.parametrize(
    ("kind", "ascending"),
    [
        ("int", [-(2**63), -1, 0, 1, 2**63 - 1]),
        ("float", [-math.inf, -1e308, -5e-324, 0.0, 5e-324, 0.1, 1e308, math.inf]),
        ("bool", [False, True]),
        (
            "timestamp",
            [datetime.min.replace(tzinfo=UTC), NOON, NOON + timedelta(microseconds=1), datetime.max.replace(tzinfo=UTC)],
        ),
    ],
)
def test_keys_sort_as_their_values_and_give_them_back(kind: str, ascending: list[Any]) -> None:
    keys = [key_of(KINDS[kind], value) for value in ascending]
    assert keys == sorted(set(keys))
    assert [value_of(KINDS[kind], key) for key in keys] == ascending
    assert (keys[0], keys[-1]) == key_ends(KINDS[kind])
    for value, key in zip(ascending, keys, strict=True):
        following = KINDS[kind].successor(value)
        assert cut_after(KINDS[kind], key) == following
        assert last_key(KINDS[kind], following) == key
    if kind == "float":
        assert float_keys(np.array(ascending)).tolist() == keys


def test_both_zeros_have_one_key() -> None:
    assert key_of(KINDS["float"], -0.0) == key_of(KINDS["float"], 0.0)
    assert len(set(float_keys(np.array([-0.0, 0.0])).tolist())) == 1


@pytest.mark.parametrize("kind", SCALARS)
def test_nothing_lies_between_a_value_and_its_successor(kind: str) -> None:
    samples: dict[str, list[Any]] = {
        "string": ["", "a", "a\0", "\ud7ff", "\U0010ffff"],
        "bytes": [b"", b"\xff"],
        "int": [-(2**63), 0, 2**63 - 1],
        "float": [-math.inf, -5e-324, 0.0, 1.0, math.inf],
        "bool": [False, True],
        "timestamp": [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)],
    }
    for value in samples[kind]:
        following = KINDS[kind].successor(value)
        assert value < following
        assert following is TOP or not isinstance(following, float) or math.nextafter(value, math.inf) == following
    assert KINDS[kind].least <= samples[kind][0]


def test_no_successor_is_a_negative_zero() -> None:
    assert math.copysign(1, KINDS["float"].successor(-5e-324)) == 1
