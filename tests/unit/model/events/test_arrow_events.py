"""Events by columns: every Arrow type that loses nothing is taken, everything else is a complaint with its row."""

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contentcast.model import Attribute, EventBatch, EventError, Rejection, Space

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_S = 1_772_366_400
THINGS = Space("things", string="string", int="int", float="float", bool="bool", timestamp="timestamp", bytes="bytes")


def read(kind: str, column: Any, **options: Any) -> EventBatch:
    return EventBatch.from_arrow(THINGS, pa.table({kind: column}), **options)


def values(batch: EventBatch, name: str) -> list[Any]:
    return [event.get(name) for event in batch.to_dicts()]


# --- what is taken


@pytest.mark.parametrize(
    ("kind", "column", "kept"),
    [
        ("string", pa.array(["a", None, ""]), ["a", None, ""]),
        ("string", pa.array(["a", None], pa.large_string()), ["a", None]),
        ("string", pa.array(["a", None], pa.string_view()), ["a", None]),
        ("string", pa.array(["b", None, "b", "a"]).dictionary_encode(), ["b", None, "b", "a"]),
        ("int", pa.array([-128, None, 127], pa.int8()), [-128, None, 127]),
        ("int", pa.array([2**32 - 1], pa.uint32()), [2**32 - 1]),
        ("int", pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
        ("int", pa.array([5, 6], pa.int16()).dictionary_encode(), [5, 6]),
        ("float", pa.array([0.1, None], pa.float32()), [0.10000000149011612, None]),
        ("float", pa.array(np.array([0.5, 65504], np.float16)), [0.5, 65504.0]),
        ("float", pa.array([math.inf, -math.inf, 5e-324]), [math.inf, -math.inf, 5e-324]),
        ("float", pa.array([3, None], pa.int8()), [3.0, None]),
        ("float", pa.array([2**53, -(2**53), -(2**63), None], pa.int64()), [2.0**53, -(2.0**53), -(2.0**63), None]),
        ("float", pa.array([2**63, 2**64 - 2048], pa.uint64()), [2.0**63, 2.0**64 - 2048]),
        ("bool", pa.array([True, None, False]), [True, None, False]),
        ("timestamp", pa.array([NOON_S], pa.timestamp("s")), [NOON]),
        ("timestamp", pa.array([NOON_S * 1000, None], pa.timestamp("ms", tz="UTC")), [NOON, None]),
        ("timestamp", pa.array([NOON_S * 10**6 + 1], pa.timestamp("us")), [NOON + timedelta(microseconds=1)]),
        ("timestamp", pa.array([NOON_S * 10**9 + 1000, None], pa.timestamp("ns")), [NOON + timedelta(microseconds=1), None]),
        ("timestamp", pa.array([-1000], pa.timestamp("ns")), [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)]),
        ("timestamp", pa.array([NOON_S], pa.timestamp("s", tz="America/New_York")), [NOON]),
        ("timestamp", pa.array([NOON], pa.timestamp("us", tz="Europe/Vienna")), [NOON]),
        ("timestamp", pa.array([-62_135_596_800], pa.timestamp("s")), [datetime(1, 1, 1, tzinfo=UTC)]),
        ("timestamp", pa.array([253_402_300_799], pa.timestamp("s")), [datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)]),
        ("bytes", pa.array([b"a", None], pa.large_binary()), [b"a", None]),
        ("bytes", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        ("bytes", pa.array([b"ab"], pa.binary_view()), [b"ab"]),
        ("int", pa.nulls(2), [None, None]),
        ("string", pa.nulls(2), [None, None]),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else "",
)
def test_types_that_lose_nothing(kind: str, column: pa.Array, kept: list[Any]) -> None:
    found = values(read(kind, column), kind)
    assert found == kept
    assert list(map(type, found)) == list(map(type, kept))


def test_a_zone_is_only_how_an_instant_is_shown() -> None:
    """Noon in Vienna, in summer and in winter, and the hour that the clock shows twice."""
    shown = pa.array(["2026-07-01T12:00:00", "2026-01-01T12:00:00"]).cast(pa.timestamp("us"))
    vienna = pa.compute.assume_timezone(shown, "Europe/Vienna")
    assert values(read("timestamp", vienna), "timestamp") == [
        datetime(2026, 7, 1, 10, tzinfo=UTC),
        datetime(2026, 1, 1, 11, tzinfo=UTC),
    ]


@pytest.mark.parametrize("kind", THINGS.names)
def test_columns_without_rows_and_columns_without_values(kind: str) -> None:
    arrow = THINGS.kinds[kind].arrow
    assert len(read(kind, pa.array([], arrow))) == 0
    assert values(read(kind, pa.array([None, None], arrow)), kind) == [None, None]
    assert len(read(kind, pa.chunked_array([], arrow))) == 0


def test_chunks_slices_and_dictionaries_that_differ_by_chunk() -> None:
    strings = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()])
    numbers = pa.chunked_array([[1], [], [2, None, 4]], pa.int16())
    table = pa.table({"string": strings, "int": numbers})
    whole = [{"string": "a", "int": 1}, {"string": "b", "int": 2}, {"string": "c"}, {"string": "a", "int": 4}]
    assert EventBatch.from_arrow(THINGS, table).to_dicts() == whole
    assert EventBatch.from_arrow(THINGS, table.slice(1, 2)).to_dicts() == whole[1:3]
    assert EventBatch.from_arrow(THINGS, table.combine_chunks().to_batches()[0].slice(2)).to_dicts() == whole[2:]


def test_columns_go_by_name_and_a_missing_one_is_absent() -> None:
    batch = EventBatch.from_arrow(THINGS, pa.table({"int": [1, 2], "string": ["a", None]}))
    assert batch.records.schema == THINGS.arrow_schema
    assert batch.to_dicts() == [{"string": "a", "int": 1}, {"int": 2}]


def test_structs_flatten_and_a_null_struct_carries_nothing() -> None:
    space = Space("calls", {"detail.state": "string", "detail.inner.depth": "int", "top": "int"})
    detail = pa.array([{"state": "up", "inner": {"depth": 1}}, None, {"state": None, "inner": None}, {"state": "down"}])
    table = pa.table({"detail": detail, "top": [1, 2, 3, 4]})
    expected = [{"detail.state": "up", "detail.inner.depth": 1, "top": 1}, {"top": 2}, {"top": 3}]
    assert EventBatch.from_arrow(space, table).to_dicts() == [*expected, {"detail.state": "down", "top": 4}]
    assert EventBatch.from_arrow(space, table.slice(1, 2)).to_dicts() == expected[1:]


def test_an_own_batch_goes_through_unchanged() -> None:
    batch = EventBatch.from_dicts(THINGS, [{"string": "a", "float": 0.5, "timestamp": NOON, "bytes": b"x", "bool": True}, {}])
    assert EventBatch.from_arrow(THINGS, batch.records) == batch


# --- unknown and double columns


def test_an_unknown_column_is_named_or_ignored() -> None:
    table = pa.table({"int": [1], "flaot": [1.0]})
    with pytest.raises(EventError, match=r"things has no attribute 'flaot'; did you mean 'float'\?.*unknown='ignore'"):
        EventBatch.from_arrow(THINGS, table)
    assert EventBatch.from_arrow(THINGS, table, unknown="ignore").to_dicts() == [{"int": 1}]
    assert len(EventBatch.from_arrow(THINGS, table.select(["flaot"]), unknown="ignore")) == 1
    with pytest.raises(EventError, match="unknown is 'error' or 'ignore', not 'drop'"):
        EventBatch.from_arrow(THINGS, table, unknown="drop")  # type: ignore[arg-type]


def test_a_column_that_comes_twice_is_not_decided_by_a_coin() -> None:
    with pytest.raises(EventError, match="the column int comes twice; rename or drop one"):
        EventBatch.from_arrow(THINGS, pa.table([pa.array([1]), pa.array([2])], names=["int", "int"]))
    space = Space("calls", {"detail.state": "string"})
    nested = pa.table({"detail": [{"state": "up"}], "detail.state": ["down"]})
    with pytest.raises(EventError, match=r"the column detail\.state comes twice"):
        EventBatch.from_arrow(space, nested)


def test_something_that_is_no_table() -> None:
    with pytest.raises(EventError, match="a record batch or a table is wanted, not a dict; see from_pandas and from_dicts"):
        EventBatch.from_arrow(THINGS, {"int": [1]})


# --- what is refused


@pytest.mark.parametrize(
    ("kind", "column", "says"),
    [
        ("int", pa.array(["5"]), "column int is string, and the attribute is an int (event 0 has '5'); cast the column first"),
        ("int", pa.array([True]), "column int is bool"),
        ("int", pa.array([Decimal("5")]), "column int is decimal128(1, 0)"),
        ("float", pa.array([True]), "column float is bool"),
        (
            "float",
            pa.array([Decimal("1.5")]),
            "column float is decimal128(2, 1), and the attribute is a float (event 0 has Decimal('1.5'))",
        ),
        ("float", pa.array(["1.5"]), "column float is string"),
        ("bool", pa.array([1], pa.int8()), "column bool is int8, and the attribute is a bool (event 0 has 1)"),
        ("string", pa.array([b"a"]), "column string is binary"),
        ("string", pa.array([5]), "column string is int64"),
        ("bytes", pa.array(["a"]), "column bytes is string"),
        ("timestamp", pa.array([date(2026, 3, 1)]), "column timestamp is date32[day]"),
        ("string", pa.array([["a"]]), "column string is list<item: string>"),
        ("string", pa.array([2**60], pa.timestamp("s")), "column string is timestamp[s]"),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else "",
)
def test_a_column_of_another_kind_refuses_the_batch_whatever_was_asked(kind: str, column: pa.Array, says: str) -> None:
    for on_error in ("raise", "reject"):
        with pytest.raises(EventError) as caught:
            read(kind, column, on_error=on_error)
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "column", "rejected"),
    [
        ("float", pa.array([1.0, math.nan, None]), {1: "NaN is not a value; leave it null if it is unknown"}),
        ("float", pa.array([math.nan, 2.0], pa.float32()), {0: "NaN is not a value; leave it null if it is unknown"}),
        (
            "float",
            pa.array([2**53, 2**53 + 1, None, 2**63 - 1]),
            {1: f"{2**53 + 1} has no exact float", 3: f"{2**63 - 1} has no"},
        ),
        ("float", pa.array([2**64 - 1, 5], pa.uint64()), {0: "18446744073709551615 has no exact float"}),
        ("int", pa.array([2**63, 1, None], pa.uint64()), {0: "9223372036854775808 is beyond 64 bits (signed)"}),
        (
            "timestamp",
            pa.array([1000, 1001, None, -1], pa.timestamp("ns")),
            {1: "1001 is finer than a microsecond", 3: "-1 is"},
        ),
        ("timestamp", pa.array([0, 2**60], pa.timestamp("us")), {1: "1152921504606846976 is outside the years 1 to 9999"}),
        (
            "timestamp",
            pa.array([0, 2**60, -(2**60)], pa.timestamp("s")),
            {1: f"{2**60} is outside the years", 2: f"-{2**60} is"},
        ),
        ("timestamp", pa.array([253_402_300_800_000, 0], pa.timestamp("ms")), {0: "253402300800000 is outside the years"}),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else "",
)
def test_a_value_that_would_change_is_set_aside_with_its_row(kind: str, column: pa.Array, rejected: dict[int, str]) -> None:
    with pytest.raises(EventError) as caught:
        read(kind, column)
    first = min(rejected)
    assert str(caught.value).startswith(f"event {first}, attribute {kind}: {rejected[first]}")
    ids = [10 * row for row in range(len(column))]
    batch = read(kind, column, on_error="reject", ids=ids)
    assert {each.event: each.reason[: len(rejected[each.event])] for each in batch.rejected} == rejected
    assert batch.ids.to_pylist() == [each for row, each in enumerate(ids) if row not in rejected]
    assert len(batch) == len(column) - len(rejected)
    assert all(isinstance(value, (int, float)) or value is None for value in [each.value for each in batch.rejected])


def test_bytes_that_arrow_calls_a_string_are_looked_at() -> None:
    """pyarrow never checks this by itself, and the reader far away would stumble over it."""
    raw = pa.array([b"ok", b"\xff\xfe", None, "é".encode()])
    claimed = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    batch = read("string", claimed, on_error="reject")
    assert values(batch, "string") == ["ok", None, "é"]
    assert batch.rejected == (Rejection(1, "string", b"\xff\xfe", r"b'\xff\xfe' is not UTF-8 text"),)


def test_several_faults_of_one_event_are_one_rejection_the_first_by_attribute() -> None:
    space = Space("trades", price=Attribute("float", low=0.0), volume=Attribute("int", low=0))
    table = pa.table({"volume": [-1, 1, -1], "price": [math.nan, -5.0, 1.0]})
    batch = EventBatch.from_arrow(space, table, on_error="reject")
    assert [(each.event, each.attribute) for each in batch.rejected] == [(0, "price"), (1, "price"), (2, "volume")]
    assert len(batch) == 0


# --- domains by columns, as value by value


@pytest.mark.parametrize(
    ("attribute", "given"),
    [
        (Attribute("int", low=0, high=7), [-1, 0, 7, 8, None]),
        (Attribute("int", values=(1, 3)), [0, 1, 2, 3, None]),
        (Attribute("float", low=0.0, high=1.0), [-5e-324, -0.0, 0.0, 1.0, 1.0000000000000002, math.inf, -math.inf, None]),
        (Attribute("float", values=(0.0, 2.5)), [-0.0, 0.0, 2.5, 1.0, None]),
        (Attribute("float", values=(-0.0,)), [-0.0, 0.0, 1.0]),
        (Attribute("string", low="b", high="\uffff"), ["", "a", "b", "z", "\uffff", "\uffff\0", "\U0001f600", None]),
        (Attribute("string", values=("", "é")), ["", "e", "é", "e\u0301", None]),
        (Attribute("bool", values=(True,)), [True, False, None]),
        (Attribute("bytes", low=b"\x01", high=b"\x80"), [b"", b"\x00\xff", b"\x01", b"\x80", b"\x80\x00", b"\xff", None]),
        (Attribute("timestamp", low=NOON), [NOON, NOON - timedelta(microseconds=1), NOON + timedelta(days=1), None]),
        (Attribute("timestamp", values=(NOON,)), [NOON, NOON + timedelta(microseconds=1), None]),
    ],
    ids=str,
)
def test_columns_and_values_agree_on_the_domain(attribute: Attribute, given: list[Any]) -> None:
    space = Space("things", {"a": attribute})
    one_by_one = EventBatch.from_dicts(space, [{"a": value} for value in given], on_error="reject")
    table = pa.table({"a": pa.array(given, space.kinds["a"].arrow)})
    by_column = EventBatch.from_arrow(space, table, on_error="reject")
    assert by_column == one_by_one
    expected = [row for row, value in enumerate(given) if value is not None and value not in attribute.domain]
    assert [each.event for each in by_column.rejected] == [each.event for each in one_by_one.rejected] == expected
    assert all("is not one of" in str(each) or "domain" in str(each) for each in by_column.rejected)


def test_a_timestamp_beyond_python_is_told_even_where_a_domain_is_declared() -> None:
    space = Space("things", a=Attribute("timestamp", low=datetime(1969, 1, 1), high=datetime(2000, 1, 1)))
    table = pa.table({"a": pa.array([0, 2**60, -(2**62)], pa.timestamp("us", tz="UTC"))})
    batch = EventBatch.from_arrow(space, table, on_error="reject")
    assert [each.event for each in batch.rejected] == [1, 2]
    assert batch.to_dicts() == [{"a": datetime(1970, 1, 1, tzinfo=UTC)}]
