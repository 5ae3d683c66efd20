"""A large batch as several messages: as few as there can be, and together they are the batch."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contentcast.model import EventBatch, Space
from contentcast.routing.multicast.portions import PORTION_BYTES, filled, portions
from contentcast.wire import Publish, message_bytes

VIDEO = Space("video", source="string", column="int", pixels="bytes")


def blocks(count: int, pixels: int) -> Publish:
    dicts = [{"source": "c1", "column": at, "pixels": bytes(pixels)} for at in range(count)]
    return Publish("a", 1, 7, EventBatch.from_dicts(VIDEO, dicts))


def test_the_example_of_the_module() -> None:
    assert [len(each) for each in filled(np.array([10, 10, 10, 10, 40, 10]), 32)] == [3, 1, 1, 1]


@given(st.lists(st.integers(1, 120), min_size=1, max_size=60))
def test_no_other_cut_makes_fewer(sizes: list[int]) -> None:
    """`fewest[n]`: of all ways to cut the first n rows, the one with the fewest portions."""
    fewest = [0]
    for end in range(1, len(sizes) + 1):
        begins = (at for at in range(end) if sum(sizes[at:end]) <= 100 or at == end - 1)
        fewest.append(1 + min(fewest[at] for at in begins))
    found = filled(np.array(sizes), 100)
    assert list(chain(*found)) == list(range(len(sizes)))
    assert len(found) == fewest[-1]


@pytest.mark.parametrize(("count", "pixels", "messages"), [(1, 100_000, 1), (3, 11_000, 2), (11, 9_000, 4), (45, 256, 1)])
def test_a_batch_is_cut_where_it_must_be(count: int, pixels: int, messages: int) -> None:
    whole = blocks(count, pixels)
    cut = list(portions(whole))
    assert len(cut) == messages
    assert [each for part in cut for each in part.events.to_dicts()] == whole.events.to_dicts()
    assert {(part.origin, part.incarnation, part.serial) for part in cut} == {("a", 1, 7)}


def test_a_batch_that_fits_in_columns_is_not_cut_although_its_rows_would_be_longer() -> None:
    whole = Publish("a", 1, 7, EventBatch.from_dicts(VIDEO, [{"column": at} for at in range(2000)]))
    assert message_bytes(whole) <= PORTION_BYTES
    assert len(list(portions(whole))) == 1
