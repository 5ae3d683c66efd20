"""Topologies as GraphML, ours and those of NetworkX, Gephi and the Topology Zoo.

A broker's name is its data `name`, else `label`, else its id; nodes with one name get their ids behind it, `Chicago (12)`. An
edge has data `delay_ms` and `bandwidth`; `found` says what becomes of others. Published networks have several edges between two
nodes, of which the quickest becomes the link, and that is logged.
Rule: document types and entities are refused unread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from xml.parsers.expat import ExpatError, ParserCreate
from xml.sax.saxutils import escape, quoteattr

from contentcast.model.errors import nearest
from contentcast.network.found import Found, milliseconds
from contentcast.network.topology import Topology, TopologyError

LONGEST_DATA: Final = 10_000
"""Characters of a GraphML datum that are kept."""
GRAPHML: Final = "http://graphml.graphdrawing.org/xmlns"


class _GraphML:
    """Collects nodes and edges while expat reads; knows the line of each."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.keys: dict[str, str] = {}
        self.nodes: dict[str, tuple[str, dict[str, str]]] = {}
        self.edges: list[tuple[str, str, str, dict[str, str], bool]] = []
        self.directed = False
        self.data: dict[str, str] | None = None
        self.key: str | None = None
        self.parser = ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.parser.EntityDeclHandler = self.refuse

    @property
    def where(self) -> str:
        return f"{self.path}, line {self.parser.CurrentLineNumber}"

    def refuse(self, *_: Any) -> None:
        raise TopologyError(f"{self.where}: document types and entities are not read; take the DOCTYPE out")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        match tag.rpartition(" ")[2]:
            case "graph":
                self.directed = attributes.get("edgedefault") == "directed"
            case "key":
                self.keys[attributes.get("id", "")] = attributes.get("attr.name", attributes.get("id", ""))
            case "node":
                name = self.attribute(tag, attributes, "id")
                if name in self.nodes:
                    raise TopologyError(f"{self.where}: node {name!r} is there twice; keep one")
                self.data = {}
                self.nodes[name] = self.where, self.data
            case "edge":
                ends = self.attribute(tag, attributes, "source"), self.attribute(tag, attributes, "target")
                self.data = {}
                one_way = {"true": True, "false": False}.get(attributes.get("directed", ""), self.directed)
                self.edges.append((self.where, *ends, self.data, one_way))
            case "data" if self.data is not None:
                key = attributes.get("key", "")
                self.key = self.keys.get(key, key)
                self.data[self.key] = ""
            case "hyperedge" | "port" as other:
                raise TopologyError(f"{self.where}: a link joins two brokers; <{other}> is not read")

    def attribute(self, tag: str, attributes: dict[str, str], name: str) -> str:
        if not attributes.get(name):
            raise TopologyError(f"{self.where}: <{tag.rpartition(' ')[2]}> has no {name}")
        return attributes[name]

    def characters(self, text: str) -> None:
        if self.data is not None and self.key is not None and len(self.data[self.key]) < LONGEST_DATA:
            self.data[self.key] += text[:LONGEST_DATA]

    def end(self, tag: str) -> None:
        match tag.rpartition(" ")[2]:
            case "data":
                self.key = None
            case "node" | "edge":
                self.data = None

    def found(self) -> Iterator[Found]:
        names = self.names()
        for node, (where, _) in self.nodes.items():
            yield Found(where, (names[node],))
        for where, one, other, data, directed in self.edges:
            for end in (one, other):
                if end not in names:
                    raise TopologyError(f"{where}: there is no node {end!r}{nearest(end, names, 'there are')}")
            figures = {key: value.strip() for key, value in data.items()}
            yield Found(where, (names[one], names[other]), figures, parallel=True, directed=directed)

    def names(self) -> dict[str, str]:
        """Of each node the name, different from all others: published networks have two nodes `Chicago` and ten `None`."""
        labels = {
            node: (data.get("name") or data.get("label") or node).strip() or node for node, (_, data) in self.nodes.items()
        }
        times = Counter(labels.values())
        taken = {label for label in labels.values() if times[label] == 1}
        found: dict[str, str] = {}
        for node, label in labels.items():
            name = label
            while times[label] > 1 and (name == label or name in taken):
                name = f"{name} ({node})"
            taken.add(name)
            found[node] = name
        return found


def read_graphml(path: str, text: str) -> Iterator[Found]:
    document = _GraphML(path)
    try:
        document.parser.Parse(text, True)
    except ExpatError as error:
        raise TopologyError(f"{path}, line {error.lineno}, column {error.offset + 1}: not XML: {error}") from None
    yield from document.found()


def write_graphml(topology: Topology) -> str:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<graphml xmlns="{GRAPHML}">',
        '  <key id="delay_ms" for="edge" attr.name="delay_ms" attr.type="double"/>',
        '  <key id="bandwidth" for="edge" attr.name="bandwidth" attr.type="double"/>',
        '  <graph edgedefault="undirected">',
    ]
    lines += [f"    <node id={quoteattr(broker)}/>" for broker in topology.brokers]
    for link in topology.links:
        data = f'<data key="delay_ms">{escape(milliseconds(link))}</data>'
        if link.bandwidth is not None:
            data += f'<data key="bandwidth">{link.bandwidth!r}</data>'
        lines.append(f"    <edge source={quoteattr(link.one)} target={quoteattr(link.other)}>{data}</edge>")
    return "\n".join([*lines, "  </graph>", "</graphml>", ""])
