"""Named broker networks: those of the papers, and the plain shapes in any size.

    gryphon-39           three regional trees of 13, their roots linked, a few lateral links (Banavar et al. 1999, figure 5)
    cable-wireless-24    the U.S. backbone of Cable & Wireless (Triantafillou & Economides 2004, section 5.2)
    line:6  ring:8  star:500 (a hub and 500 others)  tree:3x4 (three children each, four levels)  grid:4x5
    random:100  random:100x250 (brokers x links; a random tree and links between random pairs; by seed)

Source: the delays of gryphon-39 are the paper's; which brokers its lateral links join is not in the text, see `LATERALS`.
Rule: the same name and parameters make an equal network on every machine. Brokers of the plain shapes are b1, b2, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import signature
from itertools import combinations, count
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from contentcast.model.errors import nearest
from contentcast.network.files import read_topology
from contentcast.network.topology import DEFAULT_DELAY_S, Link, Topology, TopologyError
from contentcast.workload import scenario
from contentcast.workload.contract import Scenario
from contentcast.workload.dice import Dice
from contentcast.workload.gryphon import Gryphon, GryphonParameters
from contentcast.workload.summaries import DEGREES

ROOT_DELAYS_S: Final = (("r1", "r2", 0.050), ("r1", "r3", 0.065), ("r2", "r3", 0.075))
CHILD_DELAY_S, GRANDCHILD_DELAY_S, LATERAL_DELAY_S = 0.025, 0.010, 0.050

LATERALS: Final = (
    # Figure 5 is not in the text. The first three join the middles of neighbouring trees, so that all three pairs of regions
    # have another way than that over their roots; then three between leaves, then three more between middles.
    *(("r1-3", "r2-1"), ("r2-3", "r3-1"), ("r3-3", "r1-1")),
    *(("r1-2-3", "r2-2-1"), ("r2-2-3", "r3-2-1"), ("r3-2-3", "r1-2-1")),
    *(("r1-2", "r2-2"), ("r2-2", "r3-2"), ("r3-2", "r1-2")),
)
DEFAULT_LATERALS: Final = 3

CABLE_WIRELESS: Final = {
    "Akron": ("Chicago", "Cleveland", "Pittsburgh2"),
    "Atlanta": ("Tampa",),
    "Baltimore": ("Atlanta", "Pittsburgh2"),
    "Boston": ("Hartford", "New York"),
    "Dallas": ("Atlanta", "Houston", "Kansas City", "Los Angeles"),
    "Denver": ("Kansas City",),
    "Fort Lauderdale": ("Miami", "Orlando", "Tampa"),
    "Jacksonville": ("Raleigh",),
    "Kansas City": ("Chicago",),
    "New York": ("Chicago", "Hartford", "San Francisco"),
    "Orlando": ("Jacksonville",),
    "Philadelphia": ("Baltimore", "Pittsburgh1"),
    "Pittsburgh1": ("New York",),
    "Richmond": ("Baltimore", "Raleigh"),
    "San Francisco": ("Denver", "Los Angeles"),
}

SLOWEST_RANDOM_MS: Final = 50
MOST_BROKERS: Final = 10_000
DRAWN_PAIRS: Final = 1024


def gryphon(laterals: int | Iterable[tuple[str, str]] = DEFAULT_LATERALS, bandwidth: float | None = None) -> Topology:
    """The paper's 39 brokers, named as the scenario `gryphon` names them; `laterals`: how many of `LATERALS`, or your pairs."""
    brokers = Gryphon(0, GryphonParameters()).brokers
    links: list[tuple[Any, ...]] = list(ROOT_DELAYS_S)
    for broker in brokers:
        above, dash, _ = broker.rpartition("-")
        if dash:
            links.append((above, broker, GRANDCHILD_DELAY_S if "-" in above else CHILD_DELAY_S))
    if isinstance(laterals, int):
        if not 0 <= laterals <= len(LATERALS):
            raise TopologyError(
                f"gryphon-39 knows {len(LATERALS)} lateral links, got laterals={laterals}; name the pairs to have others"
            )
        laterals = LATERALS[:laterals]
    links += [(one, other, LATERAL_DELAY_S) for one, other in laterals]
    return Topology.of(brokers, [(*link, bandwidth) for link in links])


def cable_wireless(delay_s: float = DEFAULT_DELAY_S, bandwidth: float | None = None) -> Topology:
    """24 cities, 29 links; the paper counts hops, so all links are alike."""
    links = [Link.of(one, other, delay_s, bandwidth) for one, others in CABLE_WIRELESS.items() for other in others]
    return Topology.of(DEGREES, links)


# --- the plain shapes, as pairs of numbers from 1


def _line(brokers: int) -> list[tuple[int, int]]:
    return [(at, at + 1) for at in range(1, brokers)]


def _ring(brokers: int) -> list[tuple[int, int]]:
    return [*_line(brokers), (1, brokers)] if brokers > 2 else _line(brokers)


def _star(others: int) -> list[tuple[int, int]]:
    return [(1, at) for at in range(2, others + 2)]


def _tree(fan_out: int, levels: int) -> list[tuple[int, int]]:
    return [((at - 2) // fan_out + 1, at) for at in range(2, _tree_brokers(fan_out, levels) + 1)]


def _tree_brokers(fan_out: int, levels: int) -> int:
    brokers = 1
    for _ in range(levels - 1):
        brokers = 1 + brokers * fan_out
        if brokers > MOST_BROKERS:  # too many already
            break
    return brokers


def _grid(rows: int, columns: int) -> list[tuple[int, int]]:
    right = [(at, at + 1) for at in range(1, rows * columns + 1) if at % columns]
    return right + [(at, at + columns) for at in range(1, (rows - 1) * columns + 1)]


def random_network(brokers: int, links: int, seed: int = 0, bandwidth: float | None = None) -> Topology:
    """Connected: each broker is linked to an earlier one, then random pairs are. Delays are 1 to 50 whole milliseconds."""
    least, most = brokers - 1, brokers * (brokers - 1) // 2
    if not least <= links <= most:
        raise TopologyError(f"random: {brokers:,} brokers are connected by {least:,} to {most:,} links, got {links:,}")
    dice = Dice(seed, "random network")
    later = range(1, brokers)
    above = dice.below("above", later, np.arange(1, brokers))
    pairs = dict.fromkeys(zip(above.tolist(), later, strict=True))
    if links > most // 2:  # dense: drawing pairs would mostly meet old ones
        everyone = list(combinations(range(brokers), 2))
        more = iter([everyone[at] for at in dice.order("pairs", len(everyone))])
    else:
        more = _drawn(dice, brokers)
    while len(pairs) < links:
        pairs.setdefault(next(more))
    delays = dice.below("delay", range(links), SLOWEST_RANDOM_MS) + 1
    return Topology.of(
        _names(brokers),
        [
            Link.of(f"b{one + 1}", f"b{other + 1}", int(delay) / 1000, bandwidth)
            for (one, other), delay in zip(pairs, delays, strict=True)
        ],
    )


def _drawn(dice: Dice, brokers: int) -> Iterator[tuple[int, int]]:
    """Pairs of different brokers, without end."""
    for start in count(0, DRAWN_PAIRS):
        rows = range(start, start + DRAWN_PAIRS)
        ones, others = dice.below("one", rows, brokers).tolist(), dice.below("other", rows, brokers).tolist()
        yield from ((min(pair), max(pair)) for pair in zip(ones, others, strict=True) if pair[0] != pair[1])


def _names(brokers: int) -> list[str]:
    return [f"b{number}" for number in range(1, brokers + 1)]


# --- by name


@dataclass(frozen=True)
class Shape:
    """What stands after the colon, with its defaults; how many brokers that makes, and their links."""

    sizes: Mapping[str, int]
    brokers: Callable[..., int]
    pairs: Callable[..., list[tuple[int, int]]]


SHAPES: Final[Mapping[str, Shape]] = {
    "line": Shape({"brokers": 6}, lambda brokers: brokers, _line),
    "ring": Shape({"brokers": 8}, lambda brokers: brokers, _ring),
    "star": Shape({"others": 8}, lambda others: others + 1, _star),
    "tree": Shape({"fan_out": 3, "levels": 3}, _tree_brokers, _tree),
    "grid": Shape({"rows": 4, "columns": 4}, lambda rows, columns: rows * columns, _grid),
}

NETWORKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gryphon-39": "three regional trees of 13 brokers, with lateral links (laterals=3)",
        "cable-wireless-24": "24 cities of a U.S. backbone, 29 links",
        "line": "line:6, six brokers one after the other",
        "ring": "ring:8, eight brokers in a circle",
        "star": "star:8, a hub and eight others",
        "tree": "tree:3x3, three children each, three levels",
        "grid": "grid:4x4, four rows of four",
        "random": "random:20 or random:20x40, 20 brokers and 40 links by seed; twice as many links as brokers unless said",
    }
)


def network(name: str, **parameters: Any) -> Topology:
    """The named network: `network("tree:3x4", delay_s=0.005)`; see the top of this file for the names."""
    kind, colon, given = name.partition(":")
    if kind not in NETWORKS:
        raise TopologyError(f"contentcast has no network {name!r}{nearest(kind, NETWORKS, 'there are')}")
    sizes = _sizes(name, given) if colon else []
    if kind in ("gryphon-39", "cable-wireless-24"):
        if sizes:
            raise TopologyError(f"{kind} has one size; leave ':{given}' out")
        return _told(kind, gryphon if kind == "gryphon-39" else cable_wireless, parameters)
    if kind == "random":
        brokers = sizes[0] if sizes else 20
        links = sizes[1] if len(sizes) > 1 else max(brokers - 1, min(2 * brokers, brokers * (brokers - 1) // 2))
        _check_sizes(name, sizes, 2, brokers)
        return _told(name, random_network, {"brokers": brokers, "links": links, **parameters})
    shape = SHAPES[kind]
    sizes = sizes or list(shape.sizes.values())
    _check_sizes(name, sizes, len(shape.sizes), shape.brokers(*sizes) if len(sizes) == len(shape.sizes) else 0)
    if len(sizes) != len(shape.sizes):
        raise TopologyError(f"{name}: {kind} takes {' x '.join(shape.sizes)}, as in {NETWORKS[kind].partition(',')[0]}")

    def plain(delay_s: float = DEFAULT_DELAY_S, bandwidth: float | None = None) -> Topology:
        pairs = shape.pairs(*sizes)
        names = _names(shape.brokers(*sizes))
        return Topology.of(names, [Link.of(f"b{one}", f"b{other}", delay_s, bandwidth) for one, other in pairs])

    return _told(name, plain, parameters)


def _sizes(name: str, given: str) -> list[int]:
    parts = given.split("x")
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise TopologyError(f"{name}: after the colon come sizes from 1, as in tree:3x4, got {given!r}")
    return [int(part) for part in parts]


def _check_sizes(name: str, sizes: list[int], most: int, brokers: int) -> None:
    if len(sizes) > most:
        raise TopologyError(f"{name}: at most {most} sizes can be said, got {len(sizes)}")
    if brokers > MOST_BROKERS:
        raise TopologyError(f"{name}: at most {MOST_BROKERS:,} brokers; all pairs of them have a way each")


def _told(name: str, make: Callable[..., Topology], parameters: Mapping[str, Any]) -> Topology:
    known = [each for each in signature(make).parameters]
    for each in parameters:
        if each not in known:
            raise TopologyError(f"{name} has no parameter {each!r}{nearest(each, known)}")
    return make(**parameters)


def topology(
    name_or_path: str | PathLike[str],
    *,
    largest_part: bool = False,
    delay_attribute: str | None = None,
    undirected: bool = False,
    **parameters: Any,
) -> Topology:
    """A named network, or one from a file (GraphML, JSON, edge list); connected, or an error that says what is wrong.

    `largest_part` takes the largest part of a file's network that is not connected; `delay_attribute` and `undirected` are as
    in `read_topology`.
    """
    text = fspath(name_or_path)
    if not isinstance(name_or_path, str) or any(sign in text for sign in "/\\."):  # no network's name has one
        return read_topology(text, largest_part=largest_part, delay_attribute=delay_attribute, undirected=undirected)
    if delay_attribute is not None or undirected:
        raise TopologyError(f"{text} is a network by name; delay_attribute and undirected are of files")
    return network(text, **parameters)


# --- scenarios on networks

DEFAULT_NETWORKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("gryphon", "w1", "w1b", "market", "market-hot", "desks"), "gryphon-39"),
        "summaries": "cable-wireless-24",
        "overlay": "random:500",
        "video": "star:5",
    }
)
COUNTS_BROKERS: Final = {"market": "brokers", "desks": "brokers", "market-hot": "brokers", "overlay": "nodes"}
"""Scenarios that can be told how many brokers there are, and their word for it."""


def default_network(scenario_name: str) -> str:
    """The network on which a scenario makes sense, unless the user names another."""
    if scenario_name not in DEFAULT_NETWORKS:
        raise TopologyError(f"contentcast has no scenario {scenario_name!r}{nearest(scenario_name, DEFAULT_NETWORKS)}")
    return DEFAULT_NETWORKS[scenario_name]


def placed(scenario_name: str, on: Topology, *, seed: int = 0, **parameters: Any) -> Scenario:
    """The scenario with its publishers and subscribers at brokers of this network.

    As it stands when the network has all the scenario's brokers; else its brokers are spread evenly over the network's, and a
    scenario that can be told how many brokers there are is told, unless you did.
    """
    word = COUNTS_BROKERS.get(scenario_name)
    if word is not None:
        parameters.setdefault(word, len(on))
    made = scenario(scenario_name, seed=seed, **parameters)
    return made if all(broker in on for broker in made.brokers) else made.placed_at(on.brokers)
