"""The peers that contentcast is measured against are right: each finds what the oracle finds, on every workload that it takes.

A peer that finds less would be fast for nothing; one that finds too much would be slow for nothing.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.columns import Workload, strings
from benchmarks.peers import PEERS, Matches, Peer, Rules, Unsuitable
from benchmarks.peers.cells import cut
from benchmarks.peers.rules import Between
from contentcast.language import parse_many
from contentcast.matching import Scan
from contentcast.model import EventBatch, Space
from contentcast.workload import scenario

EVENTS = 120
SUBSCRIPTIONS = {"w1": 150, "w1b": 60, "market": 400, "market-hot": 200, "strings": 200}


def workload(name: str) -> Workload:
    if name == "strings":
        return strings(SUBSCRIPTIONS[name], distinct=50)
    # With its own parameters hardly anything of w1b would match.
    chosen = scenario(name, seed=3, care=0.1) if name == "w1b" else scenario(name, seed=3)
    return Workload(chosen.space, chosen.subscriptions(SUBSCRIPTIONS[name])["predicate"], chosen.events)


def oracle(space: Space, predicates: pa.Array, events: pa.RecordBatch) -> list[tuple[int, int]]:
    scan = Scan(space)
    for number, predicate in enumerate(parse_many(space, predicates)):
        scan.add(number, predicate)
    found = scan.match_batch(EventBatch.from_arrow(space, events))
    return [(event, each) for event, some in enumerate(found) for each in some]


def pairs(matches: Matches) -> list[tuple[int, int]]:
    event, subscription = matches.pairs()
    assert len(matches) == len(event)
    return list(zip(event.tolist(), subscription.tolist(), strict=True))


REFUSED = {
    ("pyroaring", "strings"): "bitmaps do not search in texts",
    ("pyroaring, combined", "strings"): "bitmaps do not search in texts",
    ("NumPy bitmaps", "strings"): "bitmaps do not search in texts",
    ("hyperscan", "market"): "regular expressions do not compare numbers",
    ("hyperscan", "market-hot"): "regular expressions do not compare numbers",
}


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_finds_what_the_oracle_finds(peer: Peer, name: str) -> None:
    pytest.importorskip(peer.module, reason=f"{peer.name} is in the extra `bench`, which is not installed")
    given = workload(name)
    rules = Rules.of(given.space, given.predicates)
    if reason := REFUSED.get((peer.name, name)):
        with pytest.raises(Unsuitable, match=reason):
            peer.build(rules)
        return
    events = given.events(EVENTS, 0)
    expected = oracle(given.space, given.predicates, events)
    assert len(expected) > EVENTS // 8, "too few pairs to tell anything"
    index = peer.build(rules)
    assert pairs(index.match(events)) == expected
    later = given.events(7, EVENTS)
    assert pairs(index.match(later)) == oracle(given.space, given.predicates, later)
    assert pairs(index.match(events.slice(0, 0))) == []


@pytest.mark.parametrize(
    "peer", [peer for peer in PEERS if "bitmaps" in peer.name or "roaring" in peer.name], ids=lambda p: p.name
)
def test_bitmaps_with_more_bounds_than_cells(peer: Peer) -> None:
    """Then a cell holds rules that reach into it only, and the pairs are compared once more."""
    pytest.importorskip(peer.module, reason=f"{peer.name} is in the extra `bench`, which is not installed")
    market = scenario("market", seed=5)
    predicates = market.subscriptions(2_000)["predicate"]
    events = market.events(25)
    found = pairs(peer.build(Rules.of(market.space, predicates)).match(events))
    assert found == oracle(market.space, predicates, events)


def test_rules_that_peers_do_not_take_are_refused() -> None:
    space = Space("s", a="int", name="string")
    for text in ("a = 1 OR name = 'x'", "name LIKE 'a_b%'", "a IS NULL"):
        with pytest.raises(Unsuitable):
            Rules.of(space, pa.array([text]))


@pytest.mark.parametrize("most", [3, 5, 100])
@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_a_value_within_a_range_lies_in_a_cell_that_the_range_meets(most: int, kind: type) -> None:
    dice = np.random.default_rng(1)
    ends = np.sort(dice.integers(-20, 20, (30, 2)).astype(kind), axis=1)
    ranges = Between(np.arange(30), ends[:, 0], ends[:, 1])
    cells = cut(ranges, most)
    met = set(zip(cells.rule.tolist(), cells.code.tolist(), strict=True))
    for value in np.arange(-22, 23).astype(kind):
        (cell,) = cells.of(np.array([value]))
        inside = {int(rule) for rule in ranges.rule if ranges.low[rule] <= value <= ranges.high[rule]}
        reached = {rule for rule, code in met if code == cell}
        assert inside == reached if cells.exact else inside <= reached
    assert cells.exact is (most == 100)
