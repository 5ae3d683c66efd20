"""What follows from the brokers' degrees alone: whom each tells its merged summary, who then knows whom, and who examines next.

Source: Triantafillou & Economides 2004, Algorithms 2 and 3 (sections 4.2 and 4.3). In iteration i the brokers of degree i send
what they have merged to one neighbour of equal or higher degree, the smallest degree first. On figure 7:

    broker      1  2  3  4  5  6  7  8  9  10  11  12  13        5 has merged 1 2 3 4 5 6
    degree      1  2  1  1  5  1  2  3  1   2   3   1   1        8 has merged 7 8 9 10
    target      2  5  5  5  -  5  8  -  8   8   -  11  11        11 has merged 11 12 13

What a broker hears in its own iteration or later comes too late to be told on: between equal degrees a summary ends.
Virtual degrees, which the paper announces: no broker counts as having more than `most`. Brokers at that limit are then equals,
among which the nearest examines.
Beyond the paper, `highest`: of several neighbours the one of the highest degree is told, not of the smallest. Summaries then
end less often between equals, and fewer brokers must examine an event: 7.6 instead of 10.4 on cable-wireless-24.
Rule: everything here is a function of the topology; brokers that agree on the network agree on all of it. Ties are broken by
the shorter name, and then by the alphabet, so that 8 comes before 11.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

from contentcast.network.topology import Topology

KEPT_ANSWERS: Final = 4096
"""Who examines next is looked up for so many lists of brokers: in a quiet network the same lists come again and again."""


def name_order(broker: str) -> tuple[int, str]:
    return len(broker), broker


class Degrees:
    """Of all brokers of one topology."""

    def __init__(self, topology: Topology, most: int | None = None, *, highest: bool = False) -> None:
        self.topology = topology
        self.highest = highest
        brokers = topology.brokers
        self.degree = {each: min(topology.degree(each), most or len(brokers)) for each in brokers}
        self.target = {each: self._target(each) for each in brokers}
        """Whom each broker tells; None if all its neighbours have lower degrees."""
        merged: dict[str, set[str]] = {each: {each} for each in brokers}
        carried: dict[str, set[str]] = {each: set() for each in brokers}
        for broker in brokers:
            at = broker
            while (onto := self.target[at]) is not None:
                carried[at].add(broker)
                merged[onto].add(broker)
                if self.degree[onto] == self.degree[at]:
                    break
                at = onto
        self.merged = {each: frozenset(found) for each, found in merged.items()}
        """The paper's Merged_Brokers when a period is over: whose summaries each broker has, its own included."""
        self.carried = {each: frozenset(found) for each, found in carried.items()}
        """Whose summaries each broker tells its target."""
        self._part = {each: frozenset(part) for part in topology.components() for each in part}
        self._examiners: dict[tuple[str, frozenset[str]], str] = {}
        self._shares: dict[tuple[str, frozenset[str]], list[tuple[str, frozenset[str]]]] = {}
        self._rank = {degree: at for at, degree in enumerate(sorted(set(self.degree.values())), 1)}

    @classmethod
    def of(cls, topology: Topology, most: int | None = None, *, highest: bool = False) -> Degrees:
        """The same object for equal topologies, which the brokers of one process share."""
        return _degrees(topology, most, highest)

    def _target(self, broker: str) -> str | None:
        mine = self.degree[broker]
        others = [each for each in self.topology.neighbours(broker) if self.degree[each] >= mine]
        sign = -1 if self.highest else 1
        return min(others, key=lambda each: (sign * self.degree[each], *name_order(each)), default=None)

    def reachable(self, broker: str) -> frozenset[str]:
        """Those that it can reach, itself included."""
        return self._part[broker]

    # --- when

    @property
    def iterations(self) -> int:
        """How many a period has in which somebody has something to do; the others are passed over."""
        return len(self._rank)

    def iteration(self, broker: str) -> int:
        """The place of its degree among those that there are, from 1."""
        return self._rank[self.degree[broker]]

    # --- who examines

    def examiner(self, at: str, left: frozenset[str]) -> str:
        """Of these brokers the one of the highest degree; among equals the one that is nearest to `at`."""
        found = self._examiners.get((at, left))
        if found is None:
            found = self._nearest_of_highest(at, left)
            if len(self._examiners) == KEPT_ANSWERS:
                self._examiners.clear()
            self._examiners[at, left] = found
        return found

    def _nearest_of_highest(self, at: str, left: Collection[str]) -> str:
        topology = self.topology
        far = topology.distances[topology.number(at)]
        return min(left, key=lambda each: (-self.degree[each], far[topology.number(each)], *name_order(each)))

    def shares(self, at: str, left: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
        """These brokers divided among examiners: the one that Algorithm 3 takes, with all that it has merged, and so on."""
        found = self._shares.get((at, left))
        if found is None:
            found = []
            waiting = left
            while waiting:
                examiner = self._nearest_of_highest(at, waiting)
                share = self.merged[examiner] & waiting
                found.append((examiner, share))
                waiting -= share
            if len(self._shares) == KEPT_ANSWERS:
                self._shares.clear()
            self._shares[at, left] = found
        return found


@lru_cache(maxsize=64)
def _degrees(topology: Topology, most: int | None, highest: bool) -> Degrees:
    return Degrees(topology, most, highest=highest)
