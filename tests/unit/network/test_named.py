"""Named networks: the papers' figures, the plain shapes, and scenarios placed on them."""

import networkx
import numpy as np
import pytest

from contentcast.network.named import (
    DEFAULT_NETWORKS,
    LATERALS,
    NETWORKS,
    default_network,
    network,
    placed,
    random_network,
    topology,
)
from contentcast.network.topology import TopologyError
from contentcast.workload import SCENARIOS, scenario
from contentcast.workload.summaries import DEGREES


def test_the_39_brokers_of_the_paper():
    """Banavar et al. 1999, section 4.1: three trees of 13; roots 50, 65, 75 ms; then 25 and 10 ms; lateral links 50 ms."""
    gryphon = network("gryphon-39", laterals=0)
    assert gryphon.brokers == tuple(sorted(scenario("gryphon").brokers))
    assert (len(gryphon), len(gryphon.links)) == (39, 3 + 3 * 12)
    assert gryphon.path("r1-1-1", "r3-2-3") == ["r1-1-1", "r1-1", "r1", "r3", "r3-2", "r3-2-3"]
    assert gryphon.distances[gryphon.number("r1-1-1"), gryphon.number("r3-2-3")] == pytest.approx(0.010 + 0.025 + 0.065 + 0.035)
    assert gryphon.distances[gryphon.number("r2"), gryphon.number("r3")] == 0.075
    assert gryphon.diameter_hops == 5


def test_lateral_links_are_a_choice():
    plain, usual = network("gryphon-39", laterals=0), network("gryphon-39")
    assert len(usual.links) == len(plain.links) + 3
    assert usual.path("r1-3-1", "r2-1-1") == ["r1-3-1", "r1-3", "r2-1", "r2-1-1"]
    assert len(network("gryphon-39", laterals=len(LATERALS)).links) == len(plain.links) + len(LATERALS)
    assert network("gryphon-39", laterals=[("r1-1-1", "r3-1-1")]).link("r3-1-1", "r1-1-1").delay_s == 0.050
    for one, other in LATERALS:
        assert one.count("-") == other.count("-") > 0
        assert one.split("-")[0] != other.split("-")[0]
    with pytest.raises(TopologyError, match="gryphon-39 knows 9 lateral links, got laterals=10"):
        network("gryphon-39", laterals=10)


def test_events_of_some_publishers_follow_a_different_path_than_those_of_others():
    """What the lateral links are for; it is what makes virtual links necessary."""
    usual = network("gryphon-39")
    exits = usual.exits("r2")
    to = usual.number("r2-1-1")
    assert len(set(exits[:, to].tolist())) == 2  # over r2 for some publishers, not over r2 for others


def test_cable_and_wireless():
    """Papers README, section 3: 24 nodes, 29 links, greatest degree 5, mean path 3.58 hops, diameter 8."""
    cable = network("cable-wireless-24")
    assert (len(cable), len(cable.links)) == (24, 29)
    assert {broker: cable.degree(broker) for broker in cable.brokers} == DEGREES
    assert max(map(cable.degree, cable.brokers)) == 5
    assert (round(cable.mean_hops, 2), cable.diameter_hops) == (3.58, 8)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("line:6", networkx.path_graph(6)),
        ("line:1", networkx.path_graph(1)),
        ("ring:8", networkx.cycle_graph(8)),
        ("ring:2", networkx.path_graph(2)),
        ("star:500", networkx.star_graph(500)),
        ("tree:3x4", networkx.balanced_tree(3, 3)),
        ("tree:1x5", networkx.path_graph(5)),
        ("tree:2x1", networkx.path_graph(1)),
        ("grid:4x5", networkx.grid_2d_graph(4, 5)),
        ("grid:1x3", networkx.path_graph(3)),
    ],
)
def test_plain_shapes_are_those_that_networkx_draws(name, known):
    made = network(name)
    graph = networkx.Graph([(link.one, link.other) for link in made.links])
    graph.add_nodes_from(made.brokers)
    assert networkx.is_isomorphic(graph, known)
    assert set(made.brokers) == {f"b{number}" for number in range(1, len(known) + 1)}
    assert made.is_connected


def test_the_hub_of_a_star_and_the_root_of_a_tree_are_b1():
    assert network("star:5").degree("b1") == 5
    assert network("tree:3x3").neighbours("b1") == ("b2", "b3", "b4")
    assert network("tree:3x3").neighbours("b2") == ("b1", "b5", "b6", "b7")


def test_random_networks_are_connected_and_made_by_their_seed():
    made = network("random:100", seed=3)
    assert (len(made), len(made.links), made.is_connected) == (100, 200, True)
    assert made == network("random:100", seed=3)
    assert made != network("random:100", seed=4)
    assert {round(link.delay_s * 1000) for link in made.links} <= set(range(1, 51))
    assert len(network("random:30x29").links) == 29
    full = network("random:12x66")
    assert all(full.degree(broker) == 11 for broker in full.brokers)
    assert len(network("random:1").links) == 0
    assert len(random_network(3, 3).links) == 3


def test_a_random_network_stays_what_it_was():
    """Kept, because a seed in a bug report must still mean the same network."""
    told = [(link.one, link.other, link.delay_s) for link in network("random:4x4", seed=1).links]
    assert told == [("b1", "b2", 0.039), ("b1", "b4", 0.05), ("b2", "b3", 0.001), ("b3", "b4", 0.028)]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("stra", {}, "contentcast has no network 'stra'; did you mean 'star'?"),
        ("star:", {}, "star:: after the colon come sizes from 1, as in tree:3x4, got ''"),
        ("line:0", {}, "after the colon come sizes from 1"),
        ("line:-3", {}, "after the colon come sizes from 1"),
        ("line:3x3", {}, "line:3x3: at most 1 sizes can be said, got 2"),
        ("tree:3", {}, "tree:3: tree takes fan_out x levels, as in tree:3x3"),
        ("tree:10x9", {}, "at most 10,000 brokers"),
        ("line:99999", {}, "at most 10,000 brokers"),
        ("random:99999", {}, "at most 10,000 brokers"),
        ("random:10x3", {}, "10 brokers are connected by 9 to 45 links, got 3"),
        ("gryphon-39:4", {}, "gryphon-39 has one size; leave ':4' out"),
        ("line:4", {"delay": 1}, "line:4 has no parameter 'delay'; did you mean 'delay_s'?"),
        ("line:4", {"delay_s": -1}, "link b1-b2: the delay is a number of seconds"),
    ],
)
def test_a_network_that_there_is_not_is_refused(name, parameters, message):
    with pytest.raises(TopologyError) as refused:
        network(name, **parameters)
    assert message in str(refused.value)


def test_every_name_makes_a_network_of_the_default_size():
    for name in NETWORKS:
        made = topology(name)
        assert made.is_connected
        assert len(made) > 1


# --- scenarios on networks


def test_every_scenario_has_a_network_and_all_its_brokers_are_on_it():
    assert set(DEFAULT_NETWORKS) == set(SCENARIOS)
    for name in SCENARIOS:
        on = topology(default_network(name))
        there = placed(name, on, seed=3)
        assert all(broker in on for broker in there.brokers), name
        assert set(there.publishers(50).to_pylist()) <= set(there.brokers), name
        assert set(there.subscriptions(50)["broker"].to_pylist()) <= set(there.brokers), name


def test_the_market_on_the_39_brokers_is_the_same_market():
    on = network("gryphon-39")
    there, plain = placed("market", on, seed=7), scenario("market", seed=7, brokers=39)
    assert set(there.brokers) == set(on.brokers)
    assert there.parameters == plain.parameters
    assert there.events(100) == plain.events(100)
    told, before = there.subscriptions(100), plain.subscriptions(100)
    assert told["predicate"] == before["predicate"]
    assert told["subscriber"] == before["subscriber"]
    seats = dict(zip(plain.brokers, on.brokers, strict=True))
    assert told["broker"].to_pylist() == [seats[broker] for broker in before["broker"].to_pylist()]
    assert there.publishers(100).to_pylist() == [seats[broker] for broker in plain.publishers(100).to_pylist()]


def test_a_scenario_whose_brokers_are_all_there_keeps_them():
    assert placed("gryphon", network("gryphon-39")).brokers == scenario("gryphon").brokers
    assert placed("market", network("line:10")).brokers == scenario("market").brokers


def test_more_or_fewer_brokers_are_spread_evenly():
    few = placed("market", network("gryphon-39"), brokers=3)
    assert few.brokers == tuple(np.array(network("gryphon-39").brokers)[[0, 13, 26]])
    many = placed("gryphon", network("line:3"))
    assert many.brokers == ("b1", "b2", "b3")
    at = many.subscriptions(39)["broker"].to_pylist()
    assert [at.count(broker) for broker in many.brokers] == [13, 13, 13]
