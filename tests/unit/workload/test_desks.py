"""Desks with a taste: the same trades as `market`, and offices that want a small part of them each."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import pytest

from contentcast.language import parse_many
from contentcast.match_index import MatchIndex
from contentcast.model import EventBatch
from contentcast.workload import WorkloadError, scenario

SEED = 11
DESKS = scenario("desks", seed=SEED, brokers=39)


def wanted_by_offices(**parameters: float) -> tuple[np.ndarray, float]:
    """For each office the share of the events that somebody there wants; and how many offices want an event, in the mean."""
    drawn = scenario("desks", seed=SEED, brokers=39, **parameters)
    told = drawn.subscriptions(20_000)
    events = EventBatch.from_arrow(drawn.space, drawn.events(2_000))
    index = MatchIndex(drawn.space)
    index.add_many(told["subscription"], parse_many(drawn.space, told["predicate"]))
    found = index.match_batch(events)
    office = np.array([int(each[1:]) - 1 for each in told["broker"].to_pylist()])
    pairs = {
        (event, int(at)) for event, at in zip(found["event"].to_pylist(), office[found["subscription"].to_numpy()], strict=True)
    }
    shares = np.bincount([at for _, at in pairs], minlength=39) / len(events)
    return shares, len(pairs) / len(events)


def test_the_trades_are_those_of_market() -> None:
    market = scenario("market", seed=SEED, brokers=39)
    assert DESKS.events(500) == market.events(500)
    assert DESKS.publishers(500) == market.publishers(500)
    assert DESKS.subscriptions(3, start=700) == DESKS.subscriptions(703)[700:]


def test_an_office_follows_its_sectors_and_a_desk_its_watch_list() -> None:
    told = DESKS.subscriptions(40_000)
    of_office: dict[str, set[str]] = defaultdict(set)
    of_desk: dict[str, set[str]] = defaultdict(set)
    for text, desk, office in zip(*(told[name].to_pylist() for name in ("predicate", "subscriber", "broker")), strict=True):
        symbols = re.findall(r"symbol = '(\w+)'", text) or re.findall(r"'(\w+)'", text.partition(")")[0].partition("IN")[2])
        of_office[office].update(symbols)
        of_desk[desk].update(symbols)
    assert len(of_office) == 39
    assert max(map(len, of_office.values())) <= 2 * 1_000 // 40  # two sectors
    assert max(map(len, of_desk.values())) <= 24
    assert np.median([len(each) for each in of_desk.values()]) > 15


def test_an_event_is_wanted_in_few_offices_and_three_desks_want_all_large_ones() -> None:
    shares, offices = wanted_by_offices()
    assert offices < 3, "of 39"
    assert np.median(shares) < 0.05
    without, _ = wanted_by_offices(everything=0)
    assert (shares >= without).all()
    uniform, everywhere = wanted_by_offices(sectors=1, office_sectors=1, followed=1_000, home=0.0)
    assert everywhere > 3 * offices, "without a taste far more offices want an event"
    assert uniform.min() > np.median(shares)


@pytest.mark.parametrize("parameters", [{"symbols": 1}, {"symbols": 10, "sectors": 40}, {"subscribers": 2, "brokers": 5}])
def test_small_worlds_make_predicates_too(parameters: dict[str, int]) -> None:
    drawn = scenario("desks", seed=SEED, **parameters)
    assert not parse_many(drawn.space, drawn.subscriptions(200)["predicate"]).refused


def test_a_share_is_a_share() -> None:
    with pytest.raises(WorkloadError, match="home lies between 0 and 1"):
        scenario("desks", home=1.5)
