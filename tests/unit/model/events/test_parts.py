"""A part of a batch is what `take` would have made, and is cut out when somebody reads it."""

from __future__ import annotations

import pickle
from copy import copy
from random import Random

import numpy as np
import pytest

from contentcast.model import EventBatch, Space
from contentcast.model.events import parts
from contentcast.model.events.parts import Part, cut
from contentcast.wire.encodings.rows import encode_rows

TRADES = Space("trades", issue="string", price="float", volume="int")


def trades(count: int) -> EventBatch:
    rows = [{"issue": f"s{row % 7}", "price": row / 2} if row % 3 else {"volume": row} for row in range(count)]
    return EventBatch.from_dicts(TRADES, rows, ids=range(100, 100 + count))


@pytest.mark.parametrize("seed", range(5))
def test_parts_are_what_take_makes(seed: int) -> None:
    dice = Random(seed)
    whole = trades(40)
    rows = [np.array(sorted(dice.sample(range(40), dice.randint(0, 12))), np.int64) for _ in range(5)]
    found = cut(whole, [*rows, None])
    assert found.pop() is whole
    for part, mine in zip(dice.sample(found, 5), dice.sample(rows, 5), strict=True):
        assert isinstance(part, EventBatch)
        expected = whole.take(part.rows if isinstance(part, Part) else mine)
        assert len(part) == len(expected)
        assert part.records.equals(expected.records)
        assert part.ids.equals(expected.ids)
        assert part.to_dicts() == expected.to_dicts()
        assert part.slice(1).records.equals(expected.slice(1).records)
        assert encode_rows(part) == encode_rows(expected)


def test_nothing_is_taken_until_somebody_reads_and_then_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def take(batch: EventBatch, rows: parts.Ints) -> EventBatch:
        taken.append(len(rows))
        return before(batch, rows)

    before = EventBatch.take
    monkeypatch.setattr(EventBatch, "take", take)
    whole = trades(10)
    one, other = cut(whole, [np.array([0, 3]), np.array([0, 1, 2, 3, 4, 5, 7, 9])])
    assert (len(one), len(other)) == (2, 8)
    assert len(encode_rows(one)) == 2 * (8 + 1 + 8)
    assert taken == []  # rows are written without columns
    assert other.ids.to_pylist() == [100, 101, 102, 103, 104, 105, 107, 109]
    assert one.records.column("price").to_pylist() == [None, None]
    assert taken == [10]
    (few,) = cut(whole, [np.array([1])])
    assert encode_rows(few) == encode_rows(whole.slice(1, 1))
    assert taken == [10, 1]  # one of ten: it is not worth while to write them all


def test_a_part_travels_alone() -> None:
    (part,) = cut(trades(1000), [np.array([7])])
    raw = pickle.dumps(part)
    assert len(raw) < 2000
    came = pickle.loads(raw)
    assert type(came) is EventBatch
    assert came.to_dicts() == part.to_dicts() == copy(part).to_dicts()
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = part.colour  # type: ignore[attr-defined]
