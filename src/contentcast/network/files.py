"""Topologies from files and to files: GraphML, JSON, and edge lists with commas or blanks.

    a b 10               one link a line: two brokers, one-way delay in ms (10 if left out), bytes per second (no limit);
    b c 25 1e6           a line with one name is a broker; what follows # is a comment
    {"brokers": ["a", "b"], "links": [{"one": "a", "other": "b", "delay_ms": 10, "bandwidth": 1e6}]}

In GraphML a broker's name is its data `name`, else `label`, else its id; nodes with one name get their ids behind it, `Chicago
(12)`. An edge has data `delay_ms` and `bandwidth`; published networks have several edges between two nodes, of which the
quickest becomes the link, and that is logged. JSON may also be NetworkX's node-link form (`nodes` with `id`, `links` or `edges`
with `source` and `target`).
Rule: what is read is a connected network, or an error that says the file, the line and the reason; what is written reads back
equal. Document types and entities are refused unread.
"""

from __future__ import annotations

import csv
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate
from xml.sax.saxutils import escape, quoteattr

from contentcast.model.errors import ContentcastError, nearest
from contentcast.model.plain_files import check_plain
from contentcast.network.topology import DEFAULT_DELAY_S, Link, Topology, TopologyError

MOST_BYTES: Final = 64 * 2**20
LONGEST_DATA: Final = 10_000
"""Characters of a GraphML datum that are kept."""
GRAPHML: Final = "http://graphml.graphdrawing.org/xmlns"
log = logging.getLogger(__name__)

HEADER: Final = ("one", "other", "delay_ms", "bandwidth")


class Found(NamedTuple):
    """A broker (one name) or a link (two, of brokers found before), as a file says it, and where.

    `parallel`: another link between the two is no slip.
    """

    where: str
    names: tuple[str, ...]
    delay_ms: Any = None
    bandwidth: Any = None
    parallel: bool = False


def read_topology(path: str | PathLike[str], *, connected: bool = True, largest_part: bool = False) -> Topology:
    """By the ending of its name; `connected=False` also takes a network in parts, `largest_part` the largest of them."""
    path = Path(path)
    read = _readers(path)
    try:
        check_plain(path, MOST_BYTES)
        text = path.read_text(encoding="utf-8-sig")
    except ContentcastError as error:
        raise TopologyError(f"{error}; a topology is a smaller file" if "bytes" in str(error) else str(error)) from None
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: not UTF-8 text: byte {error.start} cannot be read") from None
    topology = _assembled(str(path), read(str(path), text))
    if largest_part and not topology.is_connected:
        whole, topology = topology, topology.largest_part()
        parts = len(whole.components())
        log.warning("%s: of %d parts the largest was taken, %d of %d brokers", path, parts, len(topology), len(whole))
    if connected:
        try:
            topology.check_connected()
        except TopologyError as error:
            raise TopologyError(f"{path}: {error}, or take the largest one (largest_part=True, --largest-part)") from None
    return topology


def write_topology(topology: Topology, path: str | PathLike[str]) -> None:
    """In the form that the ending of the name says."""
    path = Path(path)
    _readers(path)
    text = FILE_TYPES[path.suffix.lower()][1](topology)
    path.write_text(text, encoding="utf-8")


def _readers(path: Path) -> Callable[[str, str], Iterator[Found]]:
    ending = path.suffix.lower()
    if ending not in FILE_TYPES:
        raise TopologyError(
            f"{path}: no topology file ends in {ending or 'nothing'!r}{nearest(ending, FILE_TYPES, 'there are')}"
        )
    return FILE_TYPES[ending][0]


def _assembled(path: str, found: Iterable[Found]) -> Topology:
    """Checks each line by itself first, so that an error can say where it stands."""
    brokers: dict[str, None] = {}
    links: dict[tuple[str, str], Link] = {}
    places: dict[tuple[str, str], str] = {}
    merged = 0
    for each in found:
        try:
            if len(each.names) == 1:
                brokers.setdefault(each.names[0])
                continue
            delay_s = _seconds(each.delay_ms)
            if delay_s < 0:  # in the file's own unit; `Link` would speak of seconds
                name = f"{each.names[0]}-{each.names[1]}"
                raise TopologyError(f"link {name}: the delay is a number of milliseconds from 0, got {each.delay_ms}")
            link = Link.of(each.names[0], each.names[1], delay_s, _number(each.bandwidth))
        except TopologyError as error:
            raise TopologyError(f"{each.where}: {error}") from None
        ends = link.one, link.other
        for end in ends:
            if end not in brokers:
                raise TopologyError(f"{each.where}: there is no broker {end!r}{nearest(end, brokers, 'there are')}")
        if ends in links and each.parallel:
            merged += 1
            links[ends] = min(links[ends], link, key=_slowness)
            continue
        if ends in links:
            raise TopologyError(f"{each.where}: link {ends[0]}-{ends[1]} is given twice, first in {places[ends]}; keep one")
        links[ends], places[ends] = link, each.where
    if merged:
        log.warning("%s: %d links join brokers that are linked already; of each pair's the quickest was kept", path, merged)
    try:
        return Topology.of(brokers, links.values())
    except TopologyError as error:
        raise TopologyError(f"{path}: {error}") from None


def _slowness(link: Link) -> tuple[float, float]:
    return link.delay_s, -inf if link.bandwidth is None else -link.bandwidth


def _number(value: Any) -> float | None:
    if value is None or value == "":
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TopologyError(f"the bandwidth is a positive number of bytes per second, got {value!r}") from None


def _seconds(milliseconds: Any) -> float:
    """Through decimals, so that 10.1 ms is the float nearest to 0.0101 s."""
    if milliseconds is None or milliseconds == "":
        return DEFAULT_DELAY_S
    try:
        return float(Decimal(str(milliseconds)) / 1000)
    except ArithmeticError:
        raise TopologyError(f"the delay is a number of milliseconds, got {milliseconds!r}") from None


def _milliseconds(link: Link) -> str:
    exact = (Decimal(repr(link.delay_s)) * 1000).normalize()
    return f"{exact:f}"


# --- edge lists


def _read_edges(path: str, text: str) -> Iterator[Found]:
    for number, line in enumerate(text.splitlines(), 1):
        yield from _edge(f"{path}, line {number}", line.partition("#")[0].split())


def _read_csv(path: str, text: str) -> Iterator[Found]:
    reader = csv.reader(text.splitlines(), skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if row and not row[0].lstrip().startswith("#"):
                words = [word.strip() for word in row]
                while words and not words[-1]:
                    words.pop()
                yield from _edge(f"{path}, line {reader.line_num}", words)
    except csv.Error as error:
        raise TopologyError(f"{path}, line {reader.line_num}: {error}") from None


def _edge(where: str, words: list[str]) -> Iterator[Found]:
    if not words or tuple(words) in (HEADER[:3], HEADER):
        return
    if len(words) > len(HEADER):
        raise TopologyError(f"{where}: expected two brokers, delay_ms and bandwidth, got {len(words)} words: {' '.join(words)}")
    if "" in words[:2]:
        raise TopologyError(f"{where}: a broker's name is missing")
    for name in words[:2]:
        yield Found(where, (name,))
    if len(words) > 1:
        delay_ms, bandwidth = [*words[2:], None, None][:2]
        yield Found(where, (words[0], words[1]), delay_ms, bandwidth)


def _write_edges(topology: Topology) -> str:
    for broker in topology.brokers:
        if len(broker.split()) != 1 or "#" in broker or broker != broker.strip():
            raise TopologyError(f"broker {broker!r} cannot stand in an edge list with blanks; write .csv, .json or .graphml")
    return "".join(" ".join(row) + "\n" for row in _rows(topology))


def _write_csv(topology: Topology) -> str:
    def quoted(word: str) -> str:
        return '"' + word.replace('"', '""') + '"' if any(each in word for each in ',"#\n\r') else word

    for broker in topology.brokers:
        if broker != broker.strip() or len(broker.splitlines()) != 1 or broker.startswith("#"):
            raise TopologyError(f"broker {broker!r} cannot stand in a .csv; write .json or .graphml")
    rows = [HEADER, *_rows(topology)]
    return "".join(",".join(quoted(word) for word in row) + "\n" for row in rows)


def _rows(topology: Topology) -> Iterator[tuple[str, ...]]:
    yield from ((broker,) for broker in topology.brokers if not topology.degree(broker))
    for link in topology.links:
        row = link.one, link.other, _milliseconds(link)
        yield row if link.bandwidth is None else (*row, repr(link.bandwidth))


# --- JSON


def _read_json(path: str, text: str) -> Iterator[Found]:
    try:
        told = json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError as error:
        raise TopologyError(f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise TopologyError(f"{path}: nested too deeply for a topology") from None
    except ValueError as error:  # an int of thousands of digits
        raise TopologyError(f"{path}: {error}") from None
    if not isinstance(told, dict):
        raise TopologyError(f"{path}: expected an object with brokers and links, got {type(told).__name__}")
    for key, at, each in _members(path, told, ("brokers", "nodes")):
        name = each.get("id") if isinstance(each, dict) else each
        yield Found(f"{path}, {key}[{at}]", (_name(f"{path}, {key}[{at}]", name),))
    for key, at, each in _members(path, told, ("links", "edges")):
        where = f"{path}, {key}[{at}]"
        if not isinstance(each, dict):
            raise TopologyError(f"{where}: expected an object with one, other, delay_ms and bandwidth, got {each!r}")
        one, other = (each.get(ours, each.get(theirs)) for ours, theirs in (("one", "source"), ("other", "target")))
        yield Found(where, (_name(where, one), _name(where, other)), each.get("delay_ms"), each.get("bandwidth"))


def _members(path: str, told: Mapping[str, Any], keys: tuple[str, str]) -> Iterator[tuple[str, int, Any]]:
    key = next((each for each in keys if each in told), None)
    if key is None or not isinstance(told[key], list):
        raise TopologyError(f"{path}: expected a list {keys[0]!r}{nearest(keys[0], told)}")
    yield from ((key, at, each) for at, each in enumerate(told[key]))


def _name(where: str, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise TopologyError(f"{where}: a broker's name is a string of at least one character, got {value!r}")
    return value


def _write_json(topology: Topology) -> str:
    rows = []
    for link in topology.links:
        row = f'"one": {json.dumps(link.one)}, "other": {json.dumps(link.other)}, "delay_ms": {_milliseconds(link)}'
        rows.append(row if link.bandwidth is None else f'{row}, "bandwidth": {link.bandwidth!r}')
    links = ",\n".join(f"    {{{row}}}" for row in rows)
    return f'{{\n  "brokers": {json.dumps(topology.brokers)},\n  "links": [\n{links}\n  ]\n}}\n'


# --- GraphML


class _GraphML:
    """Collects nodes and edges while expat reads; knows the line of each."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.keys: dict[str, str] = {}
        self.nodes: dict[str, tuple[str, dict[str, str]]] = {}
        self.edges: list[tuple[str, str, str, dict[str, str]]] = []
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
                self.edges.append((self.where, *ends, self.data))
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
        for where, one, other, data in self.edges:
            for end in (one, other):
                if end not in names:
                    raise TopologyError(f"{where}: there is no node {end!r}{nearest(end, names, 'there are')}")
            figures = {key: value.strip() for key, value in data.items()}
            yield Found(where, (names[one], names[other]), figures.get("delay_ms"), figures.get("bandwidth"), parallel=True)

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


def _read_graphml(path: str, text: str) -> Iterator[Found]:
    document = _GraphML(path)
    try:
        document.parser.Parse(text, True)
    except ExpatError as error:
        raise TopologyError(f"{path}, line {error.lineno}, column {error.offset + 1}: not XML: {error}") from None
    yield from document.found()


def _write_graphml(topology: Topology) -> str:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<graphml xmlns="{GRAPHML}">',
        '  <key id="delay_ms" for="edge" attr.name="delay_ms" attr.type="double"/>',
        '  <key id="bandwidth" for="edge" attr.name="bandwidth" attr.type="double"/>',
        '  <graph edgedefault="undirected">',
    ]
    lines += [f"    <node id={quoteattr(broker)}/>" for broker in topology.brokers]
    for link in topology.links:
        data = f'<data key="delay_ms">{escape(_milliseconds(link))}</data>'
        if link.bandwidth is not None:
            data += f'<data key="bandwidth">{link.bandwidth!r}</data>'
        lines.append(f"    <edge source={quoteattr(link.one)} target={quoteattr(link.other)}>{data}</edge>")
    return "\n".join([*lines, "  </graph>", "</graphml>", ""])


Reader = Callable[[str, str], Iterator[Found]]
Writer = Callable[[Topology], str]
FILE_TYPES: Final[Mapping[str, tuple[Reader, Writer]]] = {
    ".graphml": (_read_graphml, _write_graphml),
    ".json": (_read_json, _write_json),
    ".csv": (_read_csv, _write_csv),
    ".edges": (_read_edges, _write_edges),
    ".txt": (_read_edges, _write_edges),
}
