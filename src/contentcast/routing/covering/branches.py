"""Which brokers' subscriptions go over a link, and which of them may stand in for which.

Source: Triantafillou & Economides 2004, section 5.2.1: "for every broker B a minimum spanning tree is formed and the
subscriptions are forwarded from neighbor to neighbor". The tree of B consists of everybody's way to B in the trees on which
events travel (`network.topology`), so an event goes back exactly the way on which the subscription came.

A departure that cycles force. In the ring a-b-c-d, b sends its own subscriptions to a, and they go on to d; those of c it
sends to a too, and there they end, since d has c on its other side. If one of c covered one of b, and b held its own back
from a, d would never hear of it. So a subscription holds another one back only if its own tree reaches, behind the link,
all that the other's tree reaches. In a network without cycles that is always so.
Rule: `behind[p, k]` is read from the same trees by which events are routed, so both always agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contentcast.network.topology import Topology

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Branch:
    """What lies behind one link of a broker, in the trees of those whose subscriptions go over it."""

    origins: tuple[str, ...]
    """The brokers whose subscriptions go over the link."""
    behind: dict[str, frozenset[str]]
    """Origin -> the brokers that its subscriptions reach over the link."""
    stands_in: Bools | None
    """[i, j]: origin i reaches over the link all that origin j reaches. None: true for all."""

    def same_as(self, other: Branch | None) -> bool:
        return other is not None and (self.origins, self.behind) == (other.origins, other.behind)


def branches(topology: Topology, broker: str) -> dict[str, Branch]:
    """For each neighbour of the broker, what lies behind the link to it."""
    return {neighbour: _branch(topology, broker, neighbour) for neighbour in topology.neighbours(broker)}


def _branch(topology: Topology, broker: str, neighbour: str) -> Branch:
    names = topology.brokers
    if topology.degree(neighbour) == 1:
        reached = set(topology.components()[0]) if topology.is_connected else _part_of(topology, broker)
        origins = tuple(each for each in names if each in reached and each != neighbour)
        only = frozenset((neighbour,))
        return Branch(origins, dict.fromkeys(origins, only), None)
    place = topology.neighbours(neighbour).index(broker)
    leaving = topology.exits(neighbour) == place
    chosen = np.flatnonzero(leaving[topology.number(neighbour)])
    behind = leaving[:, chosen]
    missed = (~behind).T.astype(np.float32) @ behind.astype(np.float32)
    origins = tuple(names[at] for at in chosen)
    sets = {each: frozenset(names[at] for at in np.flatnonzero(behind[:, k])) for k, each in enumerate(origins)}
    return Branch(origins, sets, None if not missed.any() else missed == 0)


def _part_of(topology: Topology, broker: str) -> set[str]:
    return next(set(part) for part in topology.components() if broker in part)
