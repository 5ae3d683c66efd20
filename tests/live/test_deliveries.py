"""How pairs of events and subscriptions are put in order for the clients that get them."""

from __future__ import annotations

import numpy as np
import pytest

from contentcast.live.serving.sessions import sort_into


@pytest.mark.parametrize(
    ("sessions", "events", "numbers"),
    [
        (1, 1, (0, 1)),
        (3, 50, (1, 40)),
        (7, 1, (2**40, 2**40 + 9)),
        (2, 9, (-5, 5)),
        (3, 50, (0, 2**62)),
        (2, 3, (-(2**62), 2**62)),
    ],
)
def test_pairs_stand_by_sessions_events_and_numbers(sessions: int, events: int, numbers: tuple[int, int]) -> None:
    """Also if the three do not fit into one int64 together."""
    dice = np.random.default_rng(1)
    pairs = np.stack([dice.integers(0, sessions, 200), dice.integers(0, events, 200), dice.integers(*numbers, 200)])
    slots, rows, sorted_numbers, parts = sort_into(*pairs)
    assert list(zip(slots, rows, sorted_numbers, strict=True)) == sorted(zip(*pairs, strict=True))
    assert [slot for slot, _, _ in parts] == sorted(set(pairs[0].tolist()))
    assert [slot for slot, begin, end in parts for _ in range(begin, end)] == slots.tolist()
