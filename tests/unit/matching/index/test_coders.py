"""Columns are read where Arrow has them: whatever the way in which a batch holds its values, the matches are the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import contentcast as cc
from contentcast.matching import Scan
from contentcast.matching.index import CellIndex
from contentcast.matching.index.limits import Limits
from contentcast.model import EventBatch

THINGS = cc.Space(
    "things", name="string", raw="bytes", number="int", price="float", is_new="bool", at="timestamp", note="string"
)
START = datetime(2026, 1, 1, tzinfo=UTC)
LEAST = -(2**63)


def index_and_oracle(dice: Random, limits: Limits | None = None) -> tuple[cc.MatchIndex, Scan]:
    """Every kind of attribute, compared, in ranges, in sets of ranges and with text tests."""
    texts = [
        *(f"name = '{dice.choice(['IBM', 'SUN', '', 'a name of more than eight bytes'])}'" for _ in range(4)),
        *(f"number = {dice.randint(-3, 3)} AND price < {dice.randint(0, 9)}" for _ in range(20)),
        *(f"price BETWEEN {low} AND {low + dice.randint(0, 3)}" for low in range(-2, 8)),
        *(f"(price < {low} OR price > {low + 2}) AND number <> {low}" for low in range(4)),
        f"number = {LEAST}", f"number <= {LEAST + 1}", "number > 2", "number IS NULL", "price IS NULL", "price = 0",
        "price = -1.5", "is_new", "NOT is_new", "is_new IS NULL", "raw = X'0102'", "note LIKE 'a%'", "note NOT LIKE '%b'",
        "note IS NULL", "at < TIMESTAMP '2026-01-01 00:00:05Z'", "at = TIMESTAMP '2026-01-01 00:00:07Z'",
    ]  # fmt: skip
    index, oracle = cc.MatchIndex(THINGS, limits=limits or Limits()), Scan(THINGS)
    index.add_many(range(len(texts)), texts)
    oracle.add_many(np.arange(len(texts)), cc.parse_many(THINGS, texts))
    return index, oracle


def an_event(dice: Random) -> dict[str, Any]:
    values = {
        "name": dice.choice(["IBM", "SUN", "", "IB", "a name of more than eight bytes", "a name of more than eight bytex"]),
        "raw": dice.choice([b"\1\2", b"", b"\1"]),
        "number": dice.choice([LEAST, LEAST + 1, 2**63 - 1, *range(-4, 5)]),
        "price": dice.choice([0.0, -0.0, -1.5, 2.0, float("inf"), float("-inf"), dice.uniform(-3, 9)]),
        "is_new": dice.random() < 0.5,
        "at": START + timedelta(seconds=dice.randint(0, 9)),
        "note": dice.choice(["a", "b", "ab", ""]),
    }
    return {name: value for name, value in values.items() if dice.random() < 0.8}


def pairs(index: cc.MatchIndex, records: Any) -> list[tuple[int, int]]:
    found = index.match_pairs(records)
    return sorted(zip(found.rows.tolist(), found.ids.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_slices_and_columns_in_any_order(seed: int) -> None:
    dice = Random(seed)
    index, oracle = index_and_oracle(dice)
    events = [an_event(dice) for _ in range(70)]
    records = EventBatch.from_dicts(THINGS, events).records
    expected = [sorted(oracle.match(event)) for event in events]
    for begin, count in ((0, 70), (1, 1), (3, 16), (7, 0), (9, 60), (69, 1)):
        part = records.slice(begin, count)
        wanted = [(row, each) for row in range(count) for each in expected[begin + row]]
        assert pairs(index, part) == wanted
        offsets, ids = index.match_offsets(part)
        assert [sorted(ids[offsets[row] : offsets[row + 1]].tolist()) for row in range(count)] == expected[
            begin : begin + count
        ]
        names = dice.sample(records.schema.names, len(records.schema))
        assert pairs(index, part.select(names)) == wanted
        beside = part.append_column("other", pa.array(range(count), pa.int16()))
        with_more = index.match_batch(beside, unknown="ignore")  # a column that the space does not have
        assert sorted(zip(with_more["event"].to_pylist(), with_more["subscription"].to_pylist(), strict=True)) == wanted


@pytest.mark.parametrize("seed", range(3))
def test_a_column_that_is_missing_is_absent_everywhere(seed: int) -> None:
    dice = Random(seed)
    index, oracle = index_and_oracle(dice)
    events = [an_event(dice) for _ in range(30)]
    for name in THINGS.names:
        left = [{key: value for key, value in event.items() if key != name} for event in events]
        records = EventBatch.from_dicts(THINGS, events).records.drop_columns([name])
        assert pairs(index, records) == [(row, each) for row, event in enumerate(left) for each in oracle.match(event)]


def test_under_a_null_anything_may_stand() -> None:
    index, oracle = index_and_oracle(Random(1))
    bits = pa.py_buffer(bytes([0b1010]))
    prices = pa.Array.from_buffers(pa.float64(), 4, [bits, pa.py_buffer(np.array([np.nan, 2.0, 5.0, -1.5]))])
    numbers = pa.Array.from_buffers(pa.int64(), 4, [bits, pa.py_buffer(np.array([3, 3, 2, 2]))])
    events = [{}, {"price": 2.0, "number": 3}, {}, {"price": -1.5, "number": 2}]
    records = pa.record_batch({"number": numbers, "price": prices})
    assert pairs(index, records) == [(row, each) for row, event in enumerate(events) for each in sorted(oracle.match(event))]
    nothing = pa.record_batch({"price": pa.Array.from_buffers(pa.float64(), 4, [pa.py_buffer(b"\0"), pa.py_buffer(bytes(32))])})
    assert pairs(index, nothing) == [(row, each) for row in range(4) for each in sorted(oracle.match({}))]


def test_a_nan_is_named() -> None:
    cells = CellIndex(THINGS)
    cells.add(np.array([7]), cc.parse_many(THINGS, ["price < 3"]))
    columns = [pa.nulls(3, kind.arrow) for kind in THINGS.kinds.values()]
    columns[3] = pa.array([1.0, float("nan"), float("nan")])
    with pytest.raises(cc.EventError, match="event 1: NaN is not a value"):
        cells.match(pa.record_batch(columns, schema=THINGS.arrow_schema))


def test_a_column_of_another_type_never_reaches_the_kernel() -> None:
    cells = CellIndex(THINGS)
    cells.add(np.array([7]), cc.parse_many(THINGS, ["price < 3"]))
    with pytest.raises(cc.EventError, match="the column price is int32; things has double there"):
        cells.match(pa.record_batch({"price": pa.array([1], pa.int32())}))


@pytest.mark.parametrize("few_events", [0, 8, 1000])
def test_more_matches_than_there_was_room_for(few_events: int) -> None:
    space = cc.Space("one", number="int")
    index = cc.MatchIndex(space, limits=Limits(few_events=few_events))
    index.add_many(range(3000), ["number > 0"] * 3000)
    batch = EventBatch.from_dicts(space, [{"number": number} for number in (0, 1, 0, 5, 0, 7)])
    for _ in range(2):
        offsets, ids = index.match_offsets(batch)
        assert np.diff(offsets).tolist() == [0, 3000, 0, 3000, 0, 3000]
        assert ids.reshape(3, 3000).sum(axis=1).tolist() == [sum(range(3000))] * 3
