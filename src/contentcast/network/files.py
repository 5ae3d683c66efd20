"""Topologies from files and to files: GraphML (`graphml`), edge lists with commas or blanks (`edge_lists`), and JSON.

    {"brokers": ["a", "b"], "links": [{"one": "a", "other": "b", "delay_ms": 10, "bandwidth": 1e6}]}

JSON may also be NetworkX's node-link form (`nodes` with `id`, `links` or `edges` with `source` and `target`).
Rule: what is read is a connected network, or an error that says the file, the line and the reason; what is written reads back
equal. Which attribute of a link is its delay is decided in `found`, for all kinds of files alike.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any, Final

from contentcast.model.errors import ContentcastError, nearest
from contentcast.model.plain_files import check_plain, meant
from contentcast.network.edge_lists import read_csv, read_edges, write_csv, write_edges
from contentcast.network.found import BANDWIDTH, Found, milliseconds, settled
from contentcast.network.graphml import read_graphml, write_graphml
from contentcast.network.topology import Link, Topology, TopologyError

MOST_BYTES: Final = 64 * 2**20
NAMES: Final = ("one", "other", "source", "target", "key", "id")
"""Members of a link in JSON that are no figures."""
log = logging.getLogger(__name__)


def read_topology(
    path: str | PathLike[str],
    *,
    connected: bool = True,
    largest_part: bool = False,
    delay_attribute: str | None = None,
    undirected: bool = False,
) -> Topology:
    """By the ending of its name; `connected=False` also takes a network in parts, `largest_part` the largest of them.

    `delay_attribute`: which attribute of the file's links is the delay in milliseconds, if it is not called delay_ms; "NAME:s"
    for seconds, "none" if no attribute is. `undirected`: the edges of a directed graph are links that go both ways.
    """
    path = Path(path)
    read = _readers(path)
    try:
        check_plain(path, MOST_BYTES)
        text = path.read_text(encoding="utf-8-sig")
    except ContentcastError as error:
        raise TopologyError(f"{error}; a topology is a smaller file" if "bytes" in str(error) else str(error)) from None
    except OSError as error:
        hint = meant(path) if isinstance(error, FileNotFoundError) else ""
        raise TopologyError(f"{path}: {error.strerror or error}{hint}") from None
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: not UTF-8 text: byte {error.start} cannot be read") from None
    topology = _assembled(str(path), settled(str(path), read(str(path), text), delay_attribute, undirected))
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
            link = Link.of(each.names[0], each.names[1], each.delay_s, _number(each.figures.get(BANDWIDTH)))
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
    directed = told.get("directed") is True
    for key, at, each in _members(path, told, ("links", "edges")):
        where = f"{path}, {key}[{at}]"
        if not isinstance(each, dict):
            raise TopologyError(f"{where}: expected an object with one, other, delay_ms and bandwidth, got {each!r}")
        one, other = (each.get(ours, each.get(theirs)) for ours, theirs in (("one", "source"), ("other", "target")))
        figures = {key: value for key, value in each.items() if key not in NAMES}
        yield Found(where, (_name(where, one), _name(where, other)), figures, directed=directed, parallel=directed)


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
        row = f'"one": {json.dumps(link.one)}, "other": {json.dumps(link.other)}, "delay_ms": {milliseconds(link)}'
        rows.append(row if link.bandwidth is None else f'{row}, "bandwidth": {link.bandwidth!r}')
    links = ",\n".join(f"    {{{row}}}" for row in rows)
    return f'{{\n  "brokers": {json.dumps(topology.brokers)},\n  "links": [\n{links}\n  ]\n}}\n'


Reader = Callable[[str, str], Iterator[Found]]
Writer = Callable[[Topology], str]
FILE_TYPES: Final[Mapping[str, tuple[Reader, Writer]]] = {
    ".graphml": (read_graphml, write_graphml),
    ".json": (_read_json, _write_json),
    ".csv": (read_csv, write_csv),
    ".edges": (read_edges, write_edges),
    ".txt": (read_edges, write_edges),
}
