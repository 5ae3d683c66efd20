"""Virtual links and initialisation masks: where, from one broker, the events of each publisher may still have to go.

Source: Banavar et al. 1999, section 3.2 and its footnote 2. In a network with cycles a destination may be behind a link for the
events of one publisher and not for those of another. Destinations that no publisher's tree tells apart are one virtual link:
they are left by the same link, or by none, whoever publishes.

    broker c of the line a-b-c-d                virtual link   0 {a, b}   1 {d}
    exits       events of a, b                                 none       d
                events of c                                    b          d
                events of d                                    b          none
    the mask    of a: N M      of c: M M      of d: M N

Rule: for every publisher, a destination is behind exactly one virtual link, so a Yes there is a subscriber downstream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from contentcast.network.topology import Topology

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class VirtualLinks:
    """Of one broker in one topology. `of[d]` is the virtual link of destination d (-1: out of reach, or the broker itself),
    `exits[p, v]` the place among `neighbours` of the link by which events of p leave for v (-1: they do not).
    """

    topology: Topology
    broker: str
    of: Ints
    exits: npt.NDArray[np.int16]

    @classmethod
    def at(cls, topology: Topology, broker: str) -> VirtualLinks:
        exits = topology.exits(broker)
        here = topology.number(broker)
        destinations = np.flatnonzero((exits >= 0).any(axis=0) & (np.arange(len(exits)) != here))
        # Columns that are equal, found by a hash of each and then compared: sorting whole columns took 40 times as long.
        odd = np.arange(1, 2 * len(exits), 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        hashes = (exits[:, destinations].astype(np.uint64) * (odd ^ (odd >> np.uint64(29)))[:, None]).sum(
            axis=0, dtype=np.uint64
        )
        _, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        if (exits[:, destinations] != exits[:, destinations[first[which]]]).any():
            _, first, which = np.unique(exits[:, destinations], axis=1, return_index=True, return_inverse=True)
        # Numbered by their first destination, so that the numbers do not depend on the hash.
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        of = np.full(len(topology), -1, np.int64)
        of[destinations] = rank[which.reshape(-1)]
        return cls(topology, broker, of, exits[:, destinations[first[order]]])

    @property
    def count(self) -> int:
        return int(self.exits.shape[1])

    @cached_property
    def neighbours(self) -> tuple[str, ...]:
        return self.topology.neighbours(self.broker)

    def mask(self, publisher: str, extra: int = 0) -> Words:
        """The links that are a Maybe at first, as bits; `extra` links more, those to clients, always are."""
        open_links = np.zeros(self.count + extra, bool)
        open_links[: self.count] = self.exits[self.topology.number(publisher)] >= 0
        open_links[self.count :] = True
        return packed(open_links)

    def by_neighbour(self, publisher: str, extra: int = 0) -> list[tuple[str, Words]]:
        """Each neighbour with the virtual links that leave by it: copies over one physical link are one copy."""
        exits = self.exits[self.topology.number(publisher)]
        found = []
        for at, neighbour in enumerate(self.neighbours):
            chosen = np.zeros(self.count + extra, bool)
            chosen[: self.count] = exits == at
            if chosen.any():
                found.append((neighbour, packed(chosen)))
        return found


def link_words(links: VirtualLinks, brokers: Sequence[str], extra: int = 0) -> Words:
    """For each broker the bit of the virtual link it is behind (none: out of reach, or the broker itself), and one more row of
    nothing; `extra` links more have room.
    """
    count = links.count + extra
    table = np.concatenate([packed(np.eye(count, dtype=bool)), np.zeros((1, max(1, (count + 63) // 64)), np.uint64)])
    known = links.topology
    behind = [int(links.of[known.number(each)]) if each in known else -1 for each in brokers]
    words: Words = table[[*behind, -1]]
    return words


def packed(bits: npt.NDArray[np.bool_]) -> Words:
    """Bits as 64-bit words, the first as the lowest; along the last axis."""
    width = max(1, (bits.shape[-1] + 63) // 64)
    padded = np.zeros((*bits.shape[:-1], 64 * width), bool)
    padded[..., : bits.shape[-1]] = bits
    return np.packbits(padded, axis=-1, bitorder="little").view(np.uint64)


def unpacked(words: Words, count: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")[..., :count].astype(bool)
