"""Topologies: the slides' line, the trees against NetworkX, ties, changes, and what cannot be."""

import pickle
from itertools import pairwise
from random import Random

import networkx
import numpy as np
import pytest

from contentcast.network import trees
from contentcast.network.topology import Link, Topology, TopologyError

LINE = Topology.of("ABCD", [("A", "B"), ("B", "C"), ("C", "D")])


def random_topology(seed: int, zero_delays: bool = False) -> Topology:
    """Small delays, so that there are many ties; not always connected."""
    random = Random(seed)
    brokers = [f"b{number}" for number in range(1, random.randint(2, 25))]
    links = {}
    for _ in range(random.randint(0, 3 * len(brokers))):
        one, other = sorted(random.sample(brokers, 2)) if len(brokers) > 1 else ("", "")
        if one:
            links[one, other] = random.choice([0, 1, 2] if zero_delays else [1, 2, 3]) / 1000
    return Topology.of(brokers, [(*ends, delay) for ends, delay in links.items()])


# --- the slides' four brokers


def test_the_line_of_the_slides():
    """Slides, initialisation masks: brokers A-B-C-D in a line; C's links lead to B (and A behind it) and to D."""
    assert LINE.path("A", "D") == ["A", "B", "C", "D"]
    assert LINE.neighbours("C") == ("B", "D")
    assert LINE.downstream("A", "B") == {"C", "D"}
    assert LINE.downstream("D", "B") == {"A"}
    assert LINE.children("C", "C") == ["B", "D"]
    assert LINE.next_hop("A", "D") == "B"
    assert LINE.next_hop("A", "A") is None
    assert LINE.distances[LINE.number("A")].tolist() == [0, 0.01, 0.02, 0.03]
    assert (LINE.diameter_hops, LINE.mean_hops, LINE.degree("B")) == (3, 5 / 3, 2)


def test_the_arrays_drawn_at_the_top_of_the_module():
    assert LINE.parents.tolist() == [[-1, 0, 1, 2], [1, -1, 1, 2], [1, 2, -1, 2], [1, 2, 3, -1]]
    assert LINE.exits("B").tolist() == [[-1, -1, 1, 1], [0, -1, 1, 1], [0, -1, -1, -1], [0, -1, -1, -1]]


# --- against NetworkX


@pytest.mark.parametrize("zero_delays", [False, True])
def test_random_networks_have_the_distances_that_networkx_finds(zero_delays):
    for seed in range(60):
        topology = random_topology(seed, zero_delays)
        graph = networkx.Graph()
        graph.add_nodes_from(topology.brokers)
        graph.add_weighted_edges_from((link.one, link.other, round(link.delay_s * 1e9)) for link in topology.links)
        for p, publisher in enumerate(topology.brokers):
            known = networkx.single_source_dijkstra_path_length(graph, publisher)
            for d, broker in enumerate(topology.brokers):
                where = f"seed {seed}, {publisher} to {broker}"
                if broker not in known:
                    assert topology.distances[p, d] == np.inf, where
                    assert (topology.hops[p, d], topology.parents[p, d]) == (-1, -1), where
                    assert topology.path(publisher, broker) == [], where
                    assert topology.next_hop(publisher, broker) is None, where
                    continue
                assert topology.distances[p, d] == known[broker] / 1e9, where
                best = networkx.all_shortest_paths(graph, publisher, broker, weight="weight") if not zero_delays else []
                fewest = min((len(way) - 1 for way in best), default=topology.hops[p, d])
                assert topology.hops[p, d] == fewest, where
                way = topology.path(publisher, broker)
                assert len(way) == topology.hops[p, d] + 1, where
                assert sum(round(topology.link(*pair).delay_s * 1e9) for pair in pairwise(way)) == known[broker], where
        parts = {tuple(sorted(part)) for part in networkx.connected_components(graph)}
        assert set(topology.components()) == parts, seed
        assert topology.is_connected == (len(parts) == 1), seed


def test_among_equal_parents_the_smallest_name_wins():
    for seed in range(60):
        topology = random_topology(seed, zero_delays=seed % 2 == 0)
        ways, hops = topology.trees.nanoseconds, topology.hops
        for p in range(len(topology)):
            for d, broker in enumerate(topology.brokers):
                if hops[p, d] <= 0:
                    continue
                fitting = [
                    number
                    for number in map(topology.number, topology.neighbours(broker))
                    if hops[p, number] == hops[p, d] - 1
                    and ways[p, number] + round(topology.link(topology.brokers[number], broker).delay_s * 1e9) == ways[p, d]
                ]
                assert topology.parents[p, d] == min(fitting), (seed, p, d)


def test_delays_that_add_up_to_the_same_are_the_same():
    """0.1 + 0.2 is not 0.3 in floats; in nanoseconds it is, and then the way with fewer hops is taken."""
    topology = Topology.of("abc", [("a", "b", 0.1), ("b", "c", 0.2), ("a", "c", 0.3)])
    assert topology.path("a", "c") == ["a", "c"]
    even = Topology.of("abcd", [("a", "c", 0.1), ("c", "d", 0.2), ("a", "b", 0.2), ("b", "d", 0.1)])
    assert even.path("a", "d") == ["a", "b", "d"]


def test_exits_follow_the_paths():
    for seed in range(30):
        topology = random_topology(seed)
        for broker in topology.brokers:
            exits, neighbours = topology.exits(broker), topology.neighbours(broker)
            for p, publisher in enumerate(topology.brokers):
                for d, destination in enumerate(topology.brokers):
                    way = topology.path(publisher, destination)
                    after = way[way.index(broker) + 1 :] if broker in way else []
                    expected = neighbours.index(after[0]) if after else -1
                    assert exits[p, d] == expected, (seed, broker, publisher, destination)


def test_children_downstream_and_next_hops_follow_the_paths():
    for seed in range(20):
        topology = random_topology(seed)
        for publisher in topology.brokers:
            ways = {broker: topology.path(publisher, broker) for broker in topology.brokers}
            for broker in topology.brokers:
                behind = {end for end, way in ways.items() if broker in way[:-1]}
                assert topology.downstream(publisher, broker) == behind, (seed, publisher, broker)
                last_steps = {way[-1] for way in ways.values() if len(way) > 1 and way[-2] == broker}
                assert topology.children(publisher, broker) == sorted(last_steps), (seed, publisher, broker)
                assert topology.next_hop(publisher, broker) == (ways[broker][1] if len(ways[broker]) > 1 else None)


def test_a_thousand_brokers():
    random = Random(4)
    brokers = [f"b{number}" for number in range(1000)]
    links = {tuple(sorted((broker, random.choice(brokers[:at])))) for at, broker in enumerate(brokers) if at}
    while len(links) < 2000:
        links.add(tuple(sorted(random.sample(brokers, 2))))
    topology = Topology.of(brokers, sorted(links))
    graph = networkx.Graph(links)
    for publisher in ("b0", "b500", "b999"):
        known = networkx.single_source_shortest_path_length(graph, publisher)
        assert topology.hops[topology.number(publisher)].tolist() == [known[broker] for broker in topology.brokers]
    exits = topology.exits("b7")
    assert exits.dtype == np.int16
    assert exits[topology.number("b7")].max() == topology.degree("b7") - 1


# --- a value


def test_equal_topologies_are_one_value_and_share_their_trees():
    again = Topology.of("DCBA", [("D", "C", 0.01), Link("B", "A"), ("B", "C")])
    assert again == LINE
    assert hash(again) == hash(LINE)
    assert again.trees is LINE.trees
    assert pickle.loads(pickle.dumps(again)) == LINE
    assert LINE.with_link("A", "D") != LINE
    assert LINE != "LINE"
    with pytest.raises(ValueError, match="read-only"):
        LINE.parents[0, 0] = 7


def test_only_so_many_trees_are_remembered(monkeypatch):
    monkeypatch.setattr(trees, "_kept", type(trees._kept)())
    monkeypatch.setattr(trees, "KEPT_CELLS", 40)
    networks = [Topology.of("abc", [("a", "b", delay), ("b", "c")]) for delay in (0.1, 0.2, 0.3, 0.4, 0.5)]
    grown = [network.trees for network in networks]
    assert len(trees._kept) == 4
    assert Topology.of(networks[4].brokers, networks[4].links).trees is grown[4]
    assert Topology.of(networks[0].brokers, networks[0].links).trees is not grown[0]


def test_changes_make_other_topologies():
    ring = LINE.with_link("D", "A", 0.005, 1e6)
    assert ring.link("A", "D") == Link("A", "D", 0.005, 1e6)
    assert ring.link("A", "D").beyond("D") == "A"
    assert ring.path("A", "C") == ["A", "D", "C"]
    assert ring.without_link("D", "A") == LINE
    assert ring.with_link("A", "D", 0.5).path("A", "C") == ["A", "B", "C"]
    longer = LINE.with_broker("E", [("D", "E", 0.02)])
    assert longer.path("A", "E") == ["A", "B", "C", "D", "E"]
    assert longer.without_broker("E") == LINE
    assert LINE.without_broker("B").components() == (("A",), ("C", "D"))
    assert len(LINE.links) == 3


# --- what cannot be


@pytest.mark.parametrize(
    ("brokers", "links", "message"),
    [
        ("ab", [("a", "c")], "link a-c: there is no broker 'c'"),
        (["paris", "rome"], [("paris", "rom")], "there is no broker 'rom'; did you mean 'rome'?"),
        ("ab", [("a", "a")], "link a-a: a broker needs no link to itself"),
        ("ab", [("a", "b", -0.5)], "link a-b: the delay is a number of seconds from 0 to 86,400, got -0.5"),
        ("ab", [("a", "b", float("nan"))], "got nan"),
        ("ab", [("a", "b", float("inf"))], "got inf"),
        ("ab", [("a", "b", "fast")], "got 'fast'"),
        ("ab", [Link("b", "a", -1.0)], "got -1.0"),
        ("ab", [("a", "b", 0.1, 0)], "link a-b: the bandwidth is a positive number of bytes per second, got 0"),
        ("ab", [("a", "b"), ("b", "a", 0.2)], "link a-b is given twice"),
        ("aa", [], "there are two brokers 'a'"),
        (["a", ""], [], "a broker's name is a string of at least one character, got ''"),
        ([], [], "a network has at least one broker"),
    ],
)
def test_a_network_that_cannot_be_is_refused(brokers, links, message):
    with pytest.raises(TopologyError) as refused:
        Topology.of(brokers, links)
    assert message in str(refused.value)


def test_a_network_in_parts_says_which():
    with pytest.raises(TopologyError, match=r"it has 2 parts: \{a, b\} and \{c\}; link them"):
        Topology.of("abc", [("a", "b")]).check_connected()
    assert LINE.check_connected() is LINE


def test_who_is_not_there_is_said():
    with pytest.raises(TopologyError, match="the network has no broker 'E'; it has A, B, C, D"):
        LINE.number("E")
    with pytest.raises(TopologyError, match="there is no link A-C; A is linked to B"):
        LINE.link("A", "C")
    with pytest.raises(TopologyError, match="there is no link A-D"):
        LINE.without_link("A", "D")
    with pytest.raises(TopologyError, match="'Z'"):
        LINE.without_broker("Z")
