"""m-cast on random rings and ranges: each node once, O(log n + nodes) messages, O(log n) hops; beside it the two unicasts."""

from __future__ import annotations

from math import log2
from random import Random

import pytest

from contentcast.routing.chord.model import RingModel


@pytest.mark.parametrize("seed", range(30))
def test_every_node_of_the_range_gets_it_once_and_nobody_twice(seed: int) -> None:
    random = Random(seed)
    bits = random.choice([5, 13, 64])
    count = random.randint(2, min(300, 2**bits // 2))
    ring = RingModel.random(count, bits, seed)
    sender = random.randrange(count)
    low = random.randrange(2**bits)
    high = min(2**bits - 1, low + random.randrange(2 ** random.randint(0, bits - 1)))
    wanted = ring.covering(low, high)
    cast = ring.mcast(sender, [(low, high)])
    assert sorted(cast.reached) == sorted(wanted), (seed, count, bits)
    assert max(cast.received.values(), default=0) <= 1
    assert cast.messages <= 2 * log2(count) + 2 + len(wanted)
    assert cast.hops <= 2 * log2(count) + 2
    conservative = ring.conservative(sender, low, high)
    assert sorted(conservative.reached) == sorted(wanted)
    assert conservative.messages <= 2 * log2(count) + 2 + len(wanted)
    if high - low <= 200:
        aggressive = ring.aggressive(sender, [(low, high)])
        assert sorted(aggressive.reached) == sorted(wanted)
        assert aggressive.hops <= 2 * log2(count) + 2
        others = sum(ring.owner(key) != sender for key in range(low, high + 1))
        assert others <= aggressive.messages <= others * aggressive.hops  # a message for each key, not for each node


def test_what_mcast_saves() -> None:
    """A range over a tenth of 500 nodes: unicast to each key costs many times as much."""
    ring = RingModel.random(500, 13, 1)
    low, high = 1000, 1819
    cast, aggressive, conservative = (
        ring.mcast(3, [(low, high)]),
        ring.aggressive(3, [(low, high)]),
        ring.conservative(3, low, high),
    )
    assert cast.messages < 0.1 * aggressive.messages
    assert cast.hops < 0.3 * conservative.hops


def test_a_lookup_takes_half_the_logarithm_and_less_with_a_cache() -> None:
    """Section 5.1: about 2.5 hops at 500 nodes, thanks to the cache; without it half of log2 n."""
    ring = RingModel.random(500, 13, 2)
    plain = ring.mean_lookup(2000, seed=1)
    assert 3.5 < plain < 5.5
    cached = RingModel.random(500, 13, 2, cached=32).mean_lookup(2000, seed=1)
    assert cached < 0.8 * plain
