"""m-cast: one message to a set of keys, each node at most once, over fingers only; and the two ways to do without it.

Source: Baldoni et al. 2005, section 4.3.1 and figure 4. Departs from the figure in one point: there, keys between two fingers
go to the *farther* one, from which they could only go back step by step, against the O(log n) that the text claims. Here they
go to the nearer one, as in El-Ansary et al. 2003; and since a finger also covers the keys before it down to its
predecessor, which a node learns with the finger, no node gets a message twice.

    node 8 with the fingers 14 (covers 9..14), 20 (covers 15..20), 1 (covers 22..1)      figure 1, m = 5
    keys 9..31 and 0         9..14 and 15..20: to 14 and to 20;   21: to 20, which passes it on;   22..31 and 0: to 1

Rule: every key goes to exactly one node, and each time nearer to its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.routing.chord.keys import BITS, Keys, Peer, cut_out, distance
from contentcast.routing.chord.ring import Member

Ints = npt.NDArray[np.int64]


class Targets(NamedTuple):
    """Closed intervals of keys, and for each the row (an event, a subscription) that it is for."""

    lows: Keys
    highs: Keys
    rows: Ints

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]], row: int = 0) -> Targets:
        chosen = list(ranges)
        return cls(
            np.array([low for low, _ in chosen], np.uint64),
            np.array([high for _, high in chosen], np.uint64),
            np.full(len(chosen), row, np.int64),
        )

    def __len__(self) -> int:
        return len(self.lows)

    def on(self, arc: tuple[int, int], bits: int = BITS) -> Targets:
        return Targets(*cut_out(self.lows, self.highs, self.rows, arc, bits))

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.lows.tolist(), self.highs.tolist(), strict=True))


class Finger(NamedTuple):
    """A node that others are reached by, and where its arc begins: the key of the node before it."""

    peer: Peer
    low: int


def fingers_of(member: Member, more: Iterable[Finger] = (), bits: int = BITS) -> list[Finger]:
    """The successors, each with the one before it, and other fingers; nearest first, each node once."""
    chain = (member.me, *member.successors)
    found = {each: Finger(each, before.key) for before, each in itertools.pairwise(chain)}
    for each in more:
        if each.peer != member.me:
            found.setdefault(each.peer, each)
    return sorted(found.values(), key=lambda each: distance(member.me.key, each.peer.key, bits))


def split(
    member: Member, fingers: Sequence[Finger], targets: Targets, bits: int = BITS
) -> tuple[Targets, list[tuple[Peer, Targets]]]:
    """What is for this node, and what goes on to which finger."""
    mine = targets.on(member.arc, bits)
    if not fingers:
        return (targets if len(targets) else mine), []
    onward: list[tuple[Peer, Targets]] = []
    # Arcs that are known to be stale may overlap: a boundary never goes back behind the one before it.
    begin = member.me.key
    last = distance(member.me.key, member.predecessor.key, bits)
    for at, finger in enumerate(fingers):
        end = min(distance(member.me.key, fingers[at + 1].low, bits), last) if at + 1 < len(fingers) else last
        start = distance(member.me.key, begin, bits)
        if end <= start:
            continue
        edge = (member.me.key + end) % (1 << bits)
        part = targets.on((begin, edge), bits)
        if len(part):
            onward.append((finger.peer, part))
        begin = edge
    return mine, onward
