"""Topology files: what is written reads back equal, NetworkX reads ours and we read its, and bad files are refused by line."""

import json
import os

import networkx
import pytest

from contentcast.network.files import FILE_TYPES, read_topology, write_topology
from contentcast.network.named import network, topology
from contentcast.network.topology import Link, Topology, TopologyError

ODD_FIGURES = Topology.of("abcd", [("a", "b", 0.0101, 1e6), ("b", "c", 0.1 + 0.2, 0.1), ("c", "d", 1e-9), ("a", "d", 0)])


@pytest.mark.parametrize("ending", FILE_TYPES)
@pytest.mark.parametrize("made", [network("gryphon-39"), network("random:40"), ODD_FIGURES, network("line:1")], ids=repr)
def test_what_is_written_reads_back_equal(tmp_path, ending, made):
    write_topology(made, tmp_path / f"network{ending}")
    assert read_topology(tmp_path / f"network{ending}") == made


@pytest.mark.parametrize("ending", [".graphml", ".json", ".csv"])
def test_names_of_any_kind(tmp_path, ending):
    cable = network("cable-wireless-24").with_broker('Café "№ 5", <north> & south', [("Akron", 'Café "№ 5", <north> & south')])
    write_topology(cable, tmp_path / f"cable{ending}")
    assert topology(tmp_path / f"cable{ending}") == cable


def test_names_that_a_form_cannot_hold_are_refused_when_written(tmp_path):
    with pytest.raises(TopologyError, match=r"broker 'Fort Lauderdale' cannot stand in an edge list.*write \.csv"):
        write_topology(network("cable-wireless-24"), tmp_path / "cable.edges")
    with pytest.raises(TopologyError, match=r"cannot stand in a \.csv"):
        write_topology(Topology.of(["a\nb"]), tmp_path / "lines.csv")


# --- read by hand


def test_an_edge_list(tmp_path):
    told = tmp_path / "network.txt"
    told.write_text("# the slides' line\nA B 10\nB C 25 1e6   # slow\n\nC D\n")
    assert topology(told) == Topology.of("ABCD", [("A", "B", 0.01), ("B", "C", 0.025, 1e6), ("C", "D")])
    assert topology(str(told)) == topology(told)


def test_a_csv_with_or_without_its_header(tmp_path):
    told = tmp_path / "network.csv"
    told.write_text('one,other,delay_ms,bandwidth\n"New York", Boston ,3.5,\nBoston,Hartford\n')
    assert topology(told).links == (Link("Boston", "Hartford", 0.01), Link("Boston", "New York", 0.0035))
    told.write_text('"New York",Boston,3.5\n\n# the rest\nBoston,Hartford,,2000\n')
    assert topology(told).links == (Link("Boston", "Hartford", 0.01, 2000.0), Link("Boston", "New York", 0.0035))


def test_networkx_writes_and_we_read(tmp_path):
    graph = networkx.cycle_graph(5)
    networkx.set_edge_attributes(graph, 12.5, "delay_ms")
    networkx.write_graphml(graph, tmp_path / "ring.graphml")
    (tmp_path / "ring.json").write_text(json.dumps(networkx.node_link_data(graph, edges="links")))
    expected = Topology.of("01234", [(str(at), str((at + 1) % 5), 0.0125) for at in range(5)])
    assert topology(tmp_path / "ring.graphml") == expected
    assert topology(tmp_path / "ring.json") == expected


def test_we_write_and_networkx_reads(tmp_path):
    made = network("random:20")
    write_topology(made, tmp_path / "network.graphml")
    graph = networkx.read_graphml(tmp_path / "network.graphml")
    told = {(*sorted((one, other)), round(data["delay_ms"] * 1e6)) for one, other, data in graph.edges(data=True)}
    assert told == {(link.one, link.other, round(link.delay_s * 1e9)) for link in made.links}


GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d1" for="node" attr.name="label" attr.type="string"/>
  <key id="d2" for="edge" attr.name="delay_ms" attr.type="double"/>
  <graph edgedefault="undirected">
    <node id="0"><data key="d1">New York</data></node>
    <node id="1"><data key="d1">Boston</data></node>
    <edge source="0" target="1"><data key="d2"> 3.5 </data></edge>
  </graph>
</graphml>
"""


def test_nodes_with_labels_as_in_the_topology_zoo(tmp_path):
    told = tmp_path / "zoo.graphml"
    told.write_text(GRAPHML)
    assert topology(told) == Topology.of(["New York", "Boston"], [("New York", "Boston", 0.0035)])


# --- which attribute is the delay


def weighted(graph: networkx.Graph) -> networkx.Graph:
    for number, (_, _, data) in enumerate(graph.edges(data=True), start=1):
        data["weight"] = number / 2
    return graph


@pytest.mark.parametrize("ending", ["graphml", "json"])
def test_a_weight_of_networkx_may_be_anything_so_the_user_is_asked(tmp_path, ending, caplog):
    told = tmp_path / f"net.{ending}"
    graph = weighted(networkx.path_graph(3))
    if ending == "graphml":
        networkx.write_graphml(graph, told)
    else:
        told.write_text(json.dumps(networkx.node_link_data(graph, edges="links")))
    with pytest.raises(
        TopologyError, match=r"no delay_ms, but weight; say which is the delay in milliseconds: --delay-attribute weight"
    ):
        topology(told)
    assert topology(told, delay_attribute="weight").links == (Link("0", "1", 0.0005), Link("1", "2", 0.001))
    assert topology(told, delay_attribute="weight:s").links == (Link("0", "1", 0.5), Link("1", "2", 1.0))
    assert caplog.text == ""
    assert {link.delay_s for link in topology(told, delay_attribute="none").links} == {0.01}
    with pytest.raises(TopologyError, match="its links have no attribute 'wait'; did you mean 'weight'"):
        topology(told, delay_attribute="wait")


def test_ten_milliseconds_are_never_given_in_silence(tmp_path, caplog):
    networkx.write_graphml(networkx.path_graph(3), tmp_path / "net.graphml")
    assert {link.delay_s for link in topology(tmp_path / "net.graphml").links} == {0.01}
    assert "net.graphml: 2 links say no delay (delay_ms); each has 10 ms" in caplog.text


def test_words_are_no_delays(tmp_path, caplog):
    """The Topology Zoo's links have labels and types."""
    graph = networkx.path_graph(2)
    networkx.set_edge_attributes(graph, "OC-192", "LinkLabel")
    networkx.write_graphml(graph, tmp_path / "zoo.graphml")
    assert topology(tmp_path / "zoo.graphml").links == (Link("0", "1", 0.01),)
    assert "1 link says no delay" in caplog.text


@pytest.mark.parametrize("ending", ["graphml", "json"])
def test_a_directed_graph_is_asked_about(tmp_path, ending):
    graph = networkx.DiGraph([("a", "b", {"delay_ms": 4.0}), ("b", "a", {"delay_ms": 2.0}), ("b", "c", {"delay_ms": 1.0})])
    told = tmp_path / f"net.{ending}"
    if ending == "graphml":
        networkx.write_graphml(graph, told)
    else:
        told.write_text(json.dumps(networkx.node_link_data(graph, edges="links")))
    with pytest.raises(TopologyError, match=r"the graph is directed, .* --undirected"):
        topology(told)
    assert topology(told, undirected=True).links == (Link("a", "b", 0.002), Link("b", "c", 0.001))


def test_a_csv_of_gephi(tmp_path):
    told = tmp_path / "edges.csv"
    told.write_text(
        "Source,Target,Type,Id,Label,timeset,Weight\nNew York,Boston,Undirected,0,,,3.5\nBoston,Hartford,Undirected,1,,,2\n"
    )
    with pytest.raises(TopologyError, match=r"no delay_ms, but Weight; .* --delay-attribute Weight"):
        topology(told)
    assert topology(told, delay_attribute="Weight").links == (
        Link("Boston", "Hartford", 0.002),
        Link("Boston", "New York", 0.0035),
    )
    told.write_text(told.read_text().replace("Undirected", "Directed"))
    with pytest.raises(TopologyError, match=r"line 2: the graph is directed"):
        topology(told, delay_attribute="Weight")


@pytest.mark.parametrize("header", ["from,to,delay_ms", "src,dst,Delay_ms", "delay_ms,target,source"])
def test_a_csv_with_a_header_of_its_own(tmp_path, header):
    told = tmp_path / "edges.csv"
    first = "3,b,a" if header.startswith("delay") else "a,b,3"
    told.write_text(f"{header}\n{first}\n")
    assert topology(told).links == (Link("a", "b", 0.003),)


# --- refused


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("n.edges", "a b\nc d\n", "the network is not connected, it has 2 parts: {a, b} and {c, d}"),
        ("n.edges", "a b\nb c -5\n", "n.edges, line 2: link b-c: the delay is a number of milliseconds from 0, got -5"),
        ("n.edges", "a b\nb c nan\n", "n.edges, line 2: link b-c: the delay"),
        ("n.edges", "a b fast\n", "n.edges, line 1: the delay is a number of milliseconds, got 'fast'"),
        ("n.edges", "a b 1e999999999\n", "n.edges, line 1: "),
        ("n.edges", "a b 1 none\n", "n.edges, line 1: the bandwidth is a positive number of bytes per second, got 'none'"),
        ("n.edges", "a b\n\nb a\n", "n.edges, line 3: link a-b is given twice, first in "),
        ("n.edges", "a a\n", "n.edges, line 1: link a-a: a broker needs no link to itself"),
        ("n.edges", "a b 1 2 3\n", "n.edges, line 1: expected two brokers, delay_ms and bandwidth, got 5 words"),
        ("n.edges", "# nothing\n", "a network has at least one broker"),
        ("n.csv", "a,,3\n", "n.csv, line 1: a broker's name is missing"),
        ("n.csv", 'a,"b\n', "n.csv, line 1: unexpected end of data"),
        ("n.json", '{"brokers": ["a"],\n "links": [}', "n.json, line 2, column 12: not JSON"),
        ("n.json", "[1]", "expected an object with brokers and links, got list"),
        ("n.json", "[" * 100_000, "n.json"),
        ("n.json", '{"broker": ["a"], "links": []}', "expected a list 'brokers'; did you mean 'broker'?"),
        (
            "n.json",
            '{"brokers": ["a", "b"], "links": [{"one": "a", "other": "x"}]}',
            "n.json, links[0]: there is no broker 'x'",
        ),
        ("n.json", '{"brokers": ["a", "b"], "links": [{"one": "a"}]}', "n.json, links[0]: a broker's name is a string"),
        ("n.json", '{"brokers": ["a", "b"], "links": ["a-b"]}', "n.json, links[0]: expected an object with one, other"),
        (
            "n.json",
            '{"brokers": ["a", "b"], "links": [{"one": "a", "other": "b", "delay_ms": -1}]}',
            "n.json, links[0]: link a-b",
        ),
        (
            "n.json",
            '{"brokers": ["a", "b"], "links": [{"one": "a", "other": "b", "delay_ms": NaN}]}',
            "n.json, links[0]: link a-b",
        ),
        ("n.graphml", GRAPHML.replace('target="1"', 'target="7"'), "n.graphml, line 8: there is no node '7'"),
        ("n.graphml", GRAPHML.replace("3.5", "-3.5"), "n.graphml, line 8: link New York-Boston: the delay"),
        ("n.graphml", GRAPHML.replace('node id="1"', 'node id="0"'), "n.graphml, line 7: node '0' is there twice"),
        ("n.graphml", GRAPHML.replace('source="0" ', ""), "n.graphml, line 8: <edge> has no source"),
        ("n.graphml", GRAPHML.replace("</graph>", ""), "n.graphml, line 10, column 3: not XML: mismatched tag"),
        ("n.graphml", GRAPHML.replace("edge", "hyperedge"), "a link joins two brokers; <hyperedge> is not read"),
        ("n.graphml", "", "not XML: no element found"),
        ("n.yaml", "a: b", "no topology file ends in '.yaml'"),
        ("n.jsn", "{}", "no topology file ends in '.jsn'; did you mean '.json'?"),
        ("n", "a b", "no topology file ends in 'nothing'"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason_and_the_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(TopologyError) as refused:
        read_topology(tmp_path / name)
    assert message in str(refused.value)


def test_entities_are_refused_before_they_are_read(tmp_path):
    told = tmp_path / "bomb.graphml"
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha"}">' for n in range(9))
    told.write_text(GRAPHML.replace("<graphml ", f"<!DOCTYPE graphml [{laughs}]>\n<graphml ", 1).replace("Boston", "&l8;"))
    with pytest.raises(TopologyError, match="line 2: document types and entities are not read"):
        read_topology(told)


def test_nodes_of_one_name_have_their_ids_behind_it(tmp_path):
    """112 of 261 published networks have such: two cities of a name, or all the nodes that nobody named."""
    told = tmp_path / "n.graphml"
    told.write_text(GRAPHML.replace("Boston", "New York"))
    assert read_topology(told).brokers == ("New York (0)", "New York (1)")
    told.write_text(
        GRAPHML.replace("Boston", "New York").replace(
            "</graph>", '<node id="2"><data key="d1">New York (1)</data></node><edge source="1" target="2"/></graph>'
        )
    )
    assert read_topology(told).brokers == ("New York (0)", "New York (1)", "New York (1) (1)")


def test_of_parallel_edges_the_quickest_becomes_the_link_and_that_is_said(tmp_path, caplog):
    """42 of 261 published networks have such."""
    graph = networkx.MultiGraph()
    graph.add_edge("a", "b", delay_ms=9.0, bandwidth=1e9)
    graph.add_edge("a", "b", delay_ms=3.0, bandwidth=1e3)
    graph.add_edge("b", "a", delay_ms=3.0, bandwidth=1e6)
    networkx.write_graphml(graph, tmp_path / "n.graphml")
    assert read_topology(tmp_path / "n.graphml").links == (Link("a", "b", 0.003, 1e6),)
    assert "n.graphml: 2 links join brokers that are linked already; of each pair's the quickest was kept" in caplog.text


def test_the_largest_part_of_a_network_that_is_not_connected(tmp_path, caplog):
    told = tmp_path / "parts.edges"
    told.write_text("x y\na b\nb c\nd\n")
    with pytest.raises(
        TopologyError, match=r"not connected, it has 3 parts.*take the largest one \(largest_part=True, --largest"
    ):
        topology(told)
    assert topology(told, largest_part=True) == Topology.of("abc", [("a", "b"), ("b", "c")])
    assert "parts.edges: of 3 parts the largest was taken, 3 of 6 brokers" in caplog.text
    assert Topology.of("dcba", [("c", "d"), ("a", "b")]).largest_part().brokers == ("a", "b")


def test_what_is_no_file_or_would_not_fit(tmp_path):
    os.mkfifo(tmp_path / "n.json")
    with pytest.raises(TopologyError, match="is a pipe, not a file"):
        read_topology(tmp_path / "n.json")
    (tmp_path / "n.edges").symlink_to("/dev/zero")
    with pytest.raises(TopologyError, match="is a device, not a file"):
        read_topology(tmp_path / "n.edges")
    (tmp_path / "m.json").write_text('{"brokers": [' + "9" * 5_000 + "]}")
    with pytest.raises(TopologyError, match=r"m\.json: "):
        read_topology(tmp_path / "m.json")


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(TopologyError, match=r"gone\.json: No such file"):
        topology(tmp_path / "gone.json")
    (tmp_path / "france.edges").write_text("paris lyon\n")
    with pytest.raises(TopologyError, match=r"frnce\.edges: No such file or directory; did you mean '.*france\.edges'"):
        topology(tmp_path / "frnce.edges")
    with pytest.raises(TopologyError, match=r"p\.gexf: no topology file ends in '\.gexf'; there are \.graphml, \.json"):
        topology("p.gexf")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TopologyError, match=r"bytes\.json: not UTF-8 text"):
        topology(tmp_path / "bytes.json")


def test_a_network_in_parts_can_be_asked_for(tmp_path):
    (tmp_path / "parts.edges").write_text("a b\nc\n")
    assert read_topology(tmp_path / "parts.edges", connected=False).components() == (("a", "b"), ("c",))
