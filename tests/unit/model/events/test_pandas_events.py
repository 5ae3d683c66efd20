"""Events from pandas, where a missing value has four names and a column of objects may hold anything."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from contentcast.model import Attribute, EventBatch, EventError, Space

THINGS = Space("things", string="string", int="int", float="float", bool="bool", timestamp="timestamp", bytes="bytes")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def read(kind: str, column: Any, **options: Any) -> EventBatch:
    return EventBatch.from_pandas(THINGS, pd.DataFrame({kind: column}), **options)


def objects(*values: Any) -> pd.Series:
    return pd.Series(list(values), dtype=object)


@pytest.mark.parametrize(
    ("kind", "column", "kept"),
    [
        ("float", [1.5, np.nan], [1.5, None]),
        ("float", np.array([0.1], np.float32), [0.10000000149011612]),
        ("float", pd.array([1, None], "Float64"), [1.0, None]),
        ("float", [1, 2], [1.0, 2.0]),
        ("int", [1, 2], [1, 2]),
        ("int", np.array([1, 255], np.uint8), [1, 255]),
        ("int", pd.array([1, None, 2**63 - 1], "Int64"), [1, None, 2**63 - 1]),
        ("bool", [True, False], [True, False]),
        ("bool", pd.array([True, None], "boolean"), [True, None]),
        ("string", pd.array(["a", None], "string"), ["a", None]),
        ("string", pd.array(["a", None], "string[pyarrow]"), ["a", None]),
        ("string", pd.Categorical(["b", None, "a", "b"]), ["b", None, "a", "b"]),
        ("timestamp", pd.to_datetime(["2026-03-01 12:00", None]), [NOON, None]),
        ("timestamp", pd.to_datetime(["2026-03-01 13:00"]).tz_localize("Europe/Vienna"), [NOON]),
        ("timestamp", pd.to_datetime(["2026-03-01 12:00"]).astype("datetime64[s]"), [NOON]),
        ("string", objects("a", None, np.nan, pd.NA, pd.NaT), ["a", None, None, None, None]),
        ("bool", objects(True, np.nan, np.False_), [True, None, False]),
        ("int", objects(1, None, np.int64(2), np.nan), [1, None, 2, None]),
        ("float", objects(1, 0.5, np.float32(0.5), None), [1.0, 0.5, 0.5, None]),
        ("bytes", objects(b"a", None), [b"a", None]),
        ("timestamp", objects(NOON, pd.Timestamp("2026-03-01 13:00", tz="Europe/Vienna"), pd.NaT), [NOON, NOON, None]),
        ("int", objects(None, None), [None, None]),
    ],
    ids=lambda each: str(getattr(each, "dtype", "")),
)
def test_what_is_missing_is_absent_and_the_rest_is_as_it_was(kind: str, column: Any, kept: list[Any]) -> None:
    found = [event.get(kind) for event in read(kind, column).to_dicts()]
    assert found == kept
    assert list(map(type, found)) == list(map(type, kept))


@pytest.mark.parametrize(
    ("kind", "column", "says"),
    [
        ("int", objects(1, True), "event 1, attribute int: True is a bool, not an int"),
        ("int", objects(1, 2.5), "event 1, attribute int: 2.5 is a float, not an int"),
        ("int", objects(1, "2"), "event 1, attribute int: '2' is a string, not an int"),
        ("int", objects(2**63), "event 0, attribute int: 9223372036854775808 is beyond 64 bits"),
        ("float", objects(0.5, 2**53 + 1), "event 1, attribute float: 9007199254740993 has no exact float"),
        ("float", objects(Decimal("0.5")), "event 0, attribute float: Decimal('0.5') is a Python Decimal, not a float"),
        ("string", objects("a", 5), "event 1, attribute string: 5 is an int, not a string"),
        ("string", objects("a", b"b"), "event 1, attribute string: b'b' is bytes, not a string"),
        ("string", objects("a", "\ud800"), "event 1, attribute string: '\\ud800' holds a lone surrogate"),
        ("string", objects({"a": 1}), "event 0, attribute string: {'a': 1} is a nested object, not a string"),
        ("bytes", objects(b"a", "b"), "event 1, attribute bytes: 'b' is a string, not bytes"),
        ("bool", objects(True, 1), "event 1, attribute bool: 1 is an int, not a bool"),
        ("timestamp", objects(NOON, date(2026, 3, 1)), "event 1, attribute timestamp: datetime.date(2026, 3, 1) is a Python"),
    ],
)
def test_a_column_of_objects_is_checked_value_by_value(kind: str, column: pd.Series, says: str) -> None:
    with pytest.raises(EventError) as caught:
        read(kind, column)
    assert says in str(caught.value)
    batch = read(kind, column, on_error="reject", ids=range(100, 100 + len(column)))
    assert len(batch.rejected) == 1
    assert batch.ids.to_pylist() == [100 + row for row in range(len(column)) if row != batch.rejected[0].event]


@pytest.mark.parametrize(
    ("kind", "column", "says"),
    [
        ("int", [1, 2.5], "event 1, attribute int: 2.5 is a float, not an int"),
        ("string", [1, 2], "column string is int64"),
        ("timestamp", pd.to_datetime(["2026-03-01 12:00:00.000000001"]), "is finer than a microsecond"),
        ("timestamp", pd.period_range("2026", periods=1), "column timestamp is extension<pandas.period"),
        ("float", np.array([1j]), "column float is complex128, which Arrow cannot hold"),
    ],
)
def test_a_column_of_another_type_is_refused(kind: str, column: Any, says: str) -> None:
    with pytest.raises(EventError) as caught:
        read(kind, column)
    assert says in str(caught.value)


def test_domains_hold_for_objects_too() -> None:
    space = Space("trades", side=Attribute("string", values=("buy", "sell")), price=Attribute("float", low=0.0))
    frame = pd.DataFrame({"side": ["buy", "hold", None], "price": [1.0, 2.0, -1.0]})
    batch = EventBatch.from_pandas(space, frame, on_error="reject")
    assert [(each.event, each.attribute) for each in batch.rejected] == [(1, "side"), (2, "price")]
    assert batch.to_dicts() == [{"side": "buy", "price": 1.0}]


def test_the_index_stays_behind_and_objects_flatten() -> None:
    space = Space("calls", {"detail.state": "string", "volume": "int"})
    frame = pd.DataFrame({"volume": [1, 2], "detail": [{"state": "up"}, None]}, index=pd.Index(["x", "y"], name="detail.state"))
    assert EventBatch.from_pandas(space, frame).to_dicts() == [{"detail.state": "up", "volume": 1}, {"volume": 2}]


def test_unknown_and_double_columns() -> None:
    frame = pd.DataFrame({"int": [1], "junk": [object()]})
    with pytest.raises(EventError, match="things has no attribute 'junk'"):
        EventBatch.from_pandas(THINGS, frame)
    assert EventBatch.from_pandas(THINGS, frame, unknown="ignore").to_dicts() == [{"int": 1}]
    twice = pd.DataFrame([[1, 2]], columns=["int", "int"])
    with pytest.raises(EventError, match="the column int comes twice"):
        EventBatch.from_pandas(THINGS, twice)


def test_a_frame_made_of_a_batch_makes_it_again() -> None:
    events = [{"string": "a", "float": 0.5, "bool": True, "bytes": b"x", "timestamp": NOON}, {"string": ""}]
    batch = EventBatch.from_dicts(THINGS, events)
    frame = batch.records.to_pandas(types_mapper=pd.ArrowDtype)
    assert EventBatch.from_pandas(THINGS, frame) == batch
