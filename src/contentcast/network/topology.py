"""The broker network as a value: brokers, links, and for each publishing broker the tree on which its events travel.

Source: Banavar et al. 1999, section 3: an event follows the shortest-path spanning tree of the broker where it enters.
The ways of a four-broker line A-B-C-D, as `parents[p, d]` and what follows from it at B (neighbours A, C):

    parents   A  B  C  D        exits("B")   A  B  C  D      -1: B is not on the way from p to d, or is its end
      p = A  -1  0  1  2          p = A     -1 -1  1  1       0: the way goes on to A
      p = B   1 -1  1  2          p = B      0 -1  1  1       1: the way goes on to C
      p = C   1  2 -1  2          p = C      0 -1 -1 -1
      p = D   1  2  3 -1          p = D      0 -1 -1 -1

Rule: a way has the least delay, then the fewest hops, and among equal parents that with the smallest name, so that every broker
finds the same trees on every machine. A topology never changes; a changed network is another topology.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contentcast.model.errors import ContentcastError, nearest
from contentcast.network.trees import Trees, exits_at, trees_of

LONGEST_DELAY_S: Final = 86_400.0
"""A day. Ways are added up in whole nanoseconds of 64 bits, which hold 100,000 such links one after the other."""

MOST_NEIGHBOURS: Final = 2**15 - 1
"""`exits` counts them in 16 bits."""

DEFAULT_DELAY_S: Final = 0.01


class TopologyError(ContentcastError):
    """A network that cannot be: names the broker or the link, and what is wrong with it."""


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """Two brokers, the smaller name first; seconds one way, and bytes per second (None: as many as come)."""

    one: str
    other: str
    delay_s: float = DEFAULT_DELAY_S
    bandwidth: float | None = None

    @classmethod
    def of(cls, one: str, other: str, delay_s: float = DEFAULT_DELAY_S, bandwidth: float | None = None) -> Link:
        """The checked way to make one."""
        name = f"link {one}-{other}"
        if one == other:
            raise TopologyError(f"{name}: a broker needs no link to itself; leave it out")
        if not _is_number(delay_s) or not 0 <= delay_s <= LONGEST_DELAY_S:
            raise TopologyError(f"{name}: the delay is a number of seconds from 0 to {LONGEST_DELAY_S:,.0f}, got {delay_s!r}")
        if bandwidth is not None and (not _is_number(bandwidth) or not isfinite(bandwidth) or bandwidth <= 0):
            raise TopologyError(f"{name}: the bandwidth is a positive number of bytes per second, got {bandwidth!r}")
        ends = sorted((one, other))
        return cls(ends[0], ends[1], float(delay_s) + 0.0, None if bandwidth is None else float(bandwidth))

    def beyond(self, broker: str) -> str:
        """The end that is not this broker."""
        return self.other if broker == self.one else self.one


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


@dataclass(frozen=True, eq=False)
class Topology:
    """Made by `Topology.of(brokers, links)`. Brokers are sorted by name, links by their ends; `number` is a broker's place.

    What follows from it is computed when first asked for. Equal topologies share their trees: every broker of a simulated
    network asks for the same.
    """

    brokers: tuple[str, ...]
    links: tuple[Link, ...]

    @classmethod
    def of(cls, brokers: Iterable[str], links: Iterable[Link | tuple[Any, ...]] = ()) -> Topology:
        """Refuses what cannot be, by a `TopologyError`; a link is a `Link` or (one, other[, delay_s[, bandwidth]])."""
        known: dict[str, None] = {}
        for broker in brokers:
            if not isinstance(broker, str) or not broker:
                raise TopologyError(f"a broker's name is a string of at least one character, got {broker!r}")
            if broker in known:
                raise TopologyError(f"there are two brokers {broker!r}; give one of them another name")
            known[broker] = None
        if not known:
            raise TopologyError("a network has at least one broker; this one has none")
        between: dict[tuple[str, str], Link] = {}
        for given in links:
            link = (
                Link.of(given.one, given.other, given.delay_s, given.bandwidth) if isinstance(given, Link) else Link.of(*given)
            )
            for end in (link.one, link.other):
                if end not in known:
                    raise TopologyError(
                        f"link {link.one}-{link.other}: there is no broker {end!r}{nearest(end, known, 'there are')}"
                    )
            if (link.one, link.other) in between:
                raise TopologyError(f"link {link.one}-{link.other} is given twice; keep one of the two")
            between[link.one, link.other] = link
        made = cls(tuple(sorted(known)), tuple(between[ends] for ends in sorted(between)))
        for broker in made.brokers:
            if made.degree(broker) > MOST_NEIGHBOURS:
                raise TopologyError(f"broker {broker!r} has {made.degree(broker):,} links; at most {MOST_NEIGHBOURS:,} can be")
        return made

    # --- as a value

    @cached_property
    def _hash(self) -> int:
        return hash((self.brokers, self.links))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return self is other or (self._hash, self.brokers, self.links) == (other._hash, other.brokers, other.links)

    def __reduce__(self) -> tuple[Any, ...]:
        return Topology, (self.brokers, self.links)  # without what was computed, and not with this process's hash

    def __len__(self) -> int:
        return len(self.brokers)

    def __contains__(self, broker: object) -> bool:
        return broker in self._numbers

    def __repr__(self) -> str:
        return f"<Topology of {len(self.brokers)} brokers and {len(self.links)} links>"

    # --- the graph

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {broker: at for at, broker in enumerate(self.brokers)}

    @cached_property
    def _neighbours(self) -> dict[str, dict[str, Link]]:
        """Broker -> neighbour -> link, the neighbours sorted."""
        found: dict[str, dict[str, Link]] = {broker: {} for broker in self.brokers}
        for link in self.links:
            found[link.one][link.other] = link
            found[link.other][link.one] = link
        return {broker: dict(sorted(links.items())) for broker, links in found.items()}

    def number(self, broker: str) -> int:
        try:
            return self._numbers[broker]
        except KeyError:
            raise TopologyError(f"the network has no broker {broker!r}{nearest(str(broker), self.brokers)}") from None

    def neighbours(self, broker: str) -> tuple[str, ...]:
        """Sorted by name; their places here are what `exits` speaks of."""
        return tuple(self._neighbours[self.brokers[self.number(broker)]])

    def degree(self, broker: str) -> int:
        return len(self._neighbours[self.brokers[self.number(broker)]])

    def has_link(self, one: str, other: str) -> bool:
        return other in self._neighbours.get(one, ())

    def link(self, one: str, other: str) -> Link:
        self.number(one), self.number(other)
        try:
            return self._neighbours[one][other]
        except KeyError:
            raise TopologyError(f"there is no link {one}-{other}; {one} is linked to {_listed(self.neighbours(one))}") from None

    # --- other topologies

    def with_link(self, one: str, other: str, delay_s: float = DEFAULT_DELAY_S, bandwidth: float | None = None) -> Topology:
        """With this link; one that is there already takes these figures."""
        link = Link.of(one, other, delay_s, bandwidth)
        others = [each for each in self.links if (each.one, each.other) != (link.one, link.other)]
        return Topology.of(self.brokers, [*others, link])

    def without_link(self, one: str, other: str) -> Topology:
        gone = self.link(one, other)
        return Topology(self.brokers, tuple(each for each in self.links if each != gone))

    def with_broker(self, broker: str, links: Iterable[Link | tuple[Any, ...]] = ()) -> Topology:
        return Topology.of([*self.brokers, broker], [*self.links, *links])

    def without_broker(self, broker: str) -> Topology:
        """Without it and its links."""
        self.number(broker)
        return Topology.of(
            (each for each in self.brokers if each != broker),
            (each for each in self.links if broker not in (each.one, each.other)),
        )

    # --- parts

    @cached_property
    def _components(self) -> tuple[tuple[str, ...], ...]:
        parts: list[tuple[str, ...]] = []
        seen: set[str] = set()
        for broker in self.brokers:
            if broker in seen:
                continue
            part, waiting = {broker}, [broker]
            while waiting:
                new = self._neighbours[waiting.pop()].keys() - part
                part |= new
                waiting += new
            seen |= part
            parts.append(tuple(sorted(part)))
        return tuple(parts)

    def components(self) -> tuple[tuple[str, ...], ...]:
        """The connected parts, each sorted, in the order of their smallest names."""
        return self._components

    @property
    def is_connected(self) -> bool:
        return len(self._components) == 1

    def check_connected(self) -> Topology:
        """Itself, or an error that names the parts."""
        if not self.is_connected:
            shown = " and ".join(f"{{{_listed(part)}}}" for part in self._components[:4])
            more = f" and {len(self._components) - 4:,} more" if len(self._components) > 4 else ""
            raise TopologyError(
                f"the network is not connected, it has {len(self._components):,} parts: {shown}{more}; "
                "link them, or leave all but one out"
            )
        return self

    def largest_part(self) -> Topology:
        """The connected part with the most brokers, among equal ones that with the smallest name."""
        most = max(len(part) for part in self._components)
        kept = next(set(part) for part in self._components if len(part) == most)
        return Topology.of(kept, (link for link in self.links if link.one in kept))

    # --- the trees

    @cached_property
    def trees(self) -> Trees:
        return trees_of(self.brokers, tuple((link.one, link.other, link.delay_s) for link in self.links))

    @property
    def parents(self) -> npt.NDArray[np.int32]:
        """[p, d]: the parent of broker d in the tree of p; -1 for p itself and for what p cannot reach."""
        return self.trees.parents

    @property
    def distances(self) -> npt.NDArray[np.float64]:
        """[p, d]: seconds from p to d; inf where there is no way."""
        return self.trees.distances

    @property
    def hops(self) -> npt.NDArray[np.int32]:
        """[p, d]: links from p to d; -1 where there is no way."""
        return self.trees.hops

    def path(self, publisher: str, broker: str) -> list[str]:
        """Both ends included; empty where there is no way."""
        root, at = self.number(publisher), self.number(broker)
        parents = self.parents[root]
        if at != root and parents[at] < 0:
            return []
        way = [at]
        while at != root:
            at = int(parents[at])
            way.append(at)
        return [self.brokers[each] for each in reversed(way)]

    def next_hop(self, broker: str, destination: str) -> str | None:
        """Where the broker's own tree goes first on the way there; None when it is there, or cannot get there."""
        first = self.trees.first_hops[self.number(broker), self.number(destination)]
        return None if first < 0 else self.brokers[first]

    def children(self, publisher: str, broker: str) -> list[str]:
        """To whom the broker passes on what entered at the publisher, if all are to have it. Sorted."""
        below = np.flatnonzero(self.parents[self.number(publisher)] == self.number(broker))
        return [self.brokers[each] for each in below]

    def downstream(self, publisher: str, broker: str) -> set[str]:
        """All brokers behind this one in the publisher's tree; not itself."""
        found: set[str] = set()
        waiting = self.children(publisher, broker)
        while waiting:
            at = waiting.pop()
            found.add(at)
            waiting += self.children(publisher, at)
        return found

    def exits(self, broker: str) -> npt.NDArray[np.int16]:
        """[p, d]: on the way from p to d in p's tree, the place in `neighbours(broker)` of the hop after this broker.

        -1 when the broker is not on that way, or is its end. Not kept: 1000 brokers with 2 MB each would be 2 GB.
        """
        return exits_at(self.trees, self.number(broker), [self.number(each) for each in self.neighbours(broker)])

    # --- measures

    @property
    def diameter_hops(self) -> int:
        """The most hops of any way."""
        return int(self.hops.max())

    @property
    def mean_hops(self) -> float:
        """Over all ordered pairs of different brokers that reach each other."""
        apart = self.hops[self.hops > 0]
        return float(apart.mean()) if apart.size else 0.0


def _listed(names: Iterable[str], most: int = 8) -> str:
    each = list(names)
    if not each:
        return "nobody"
    return ", ".join(each[:most]) + (f", ... ({len(each):,} in all)" if len(each) > most else "")
