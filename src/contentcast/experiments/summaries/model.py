"""The paper's own model: who sends to whom, subsumption as a probability, sizes by equations (1) and (2).

Source: Triantafillou & Economides 2004, sections 4.2, 4.3, 5.1 and 5.2 with table 2. Subscriptions are not there; a broker
stops one with its subsumption probability, which is the stated one times its degree over the greatest degree. What the paper
draws by dice is here the expected value, link by link.
What the paper leaves open. Brokers of the same degree send at the same time; of several neighbours that may be chosen the one
with the smallest degree is, then that with the smallest name. In a summary, a value that is subsumed takes no row besides the
n_sr ranges of its attribute, in arithmetic attributes and strings alike; merged, distinct values add up and ranges stay.
Rule: a hop is a message from one broker to another, neighbours or not (section 5.2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.summaries import aacs_bytes, sacs_bytes
from contentcast.network.topology import Topology

Floats = npt.NDArray[np.float64]

SUBSUMPTIONS: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
SUBSCRIPTION_BYTES: Final = 50
ARITHMETIC, STRINGS = 4, 6
"""Of ten attributes; a subscription has half of both."""
RANGES: Final = 2


class Told(NamedTuple):
    """One message of Algorithm 2: the merged summaries of these brokers."""

    sender: str
    receiver: str
    merged: frozenset[str]


@dataclass(frozen=True)
class Propagation:
    """A whole period: the messages in order, and whose summaries each broker has in the end, its own included."""

    told: tuple[Told, ...]
    knows: dict[str, frozenset[str]]


def propagate(
    topology: Topology, most_degree: int | None = None, *, in_turn: bool = False, highest: bool = False
) -> Propagation:
    """Algorithm 2. `most_degree`: virtual degrees, announced in section 6: who has more links counts as one with so many.

    Two other readings: brokers of one degree act `in_turn`, so that one tells on what another of its degree has just told it;
    of several neighbours the one of the `highest` degree is told.
    """
    degrees = {each: min(topology.degree(each), most_degree or len(topology)) for each in topology.brokers}
    knows = {each: frozenset((each,)) for each in topology.brokers}
    spoken: set[tuple[str, str]] = set()
    told: list[Told] = []
    for degree in range(1, max(degrees.values()) + 1):
        sending = []
        for broker in (each for each in topology.brokers if degrees[each] == degree):
            open_to = [
                each
                for each in topology.neighbours(broker)
                if degrees[each] >= degree and (each, broker) not in spoken and (broker, each) not in spoken
            ]
            if open_to:
                chosen = min(open_to, key=lambda each: (-degrees[each] if highest else degrees[each], each))
                sending.append(Told(broker, chosen, knows[broker]))
            if in_turn:
                told += _heard(sending, spoken, knows)
        told += _heard(sending, spoken, knows)
    return Propagation(tuple(told), knows)


def _heard(sending: list[Told], spoken: set[tuple[str, str]], knows: dict[str, frozenset[str]]) -> list[Told]:
    """These messages arrive."""
    heard = [*sending]
    sending.clear()
    for each in heard:
        spoken.add((each.sender, each.receiver))
        knows[each.receiver] |= each.merged
    return heard


def examiners(
    topology: Topology, knows: dict[str, frozenset[str]], publisher: str, most_degree: int | None = None
) -> list[str]:
    """Algorithm 3: the brokers that look at an event one after the other, the publisher's first. Degrees as in `propagate`."""
    checked: set[str] = set()
    chain = [publisher]
    here = topology.number
    while True:
        checked |= knows[chain[-1]]
        left = [each for each in topology.brokers if each not in checked]
        if not left:
            return chain
        at = chain[-1]
        chain.append(
            min(
                left,
                key=lambda each: (
                    -min(topology.degree(each), most_degree or len(topology)),
                    int(topology.hops[here(at), here(each)]),
                    each,
                ),
            )
        )


def event_hops(chain: list[str], wanted: set[str]) -> int:
    """Messages of one event: to each next examiner, and to each owner that examines nothing itself."""
    return len(chain) - 1 + len(wanted - set(chain))


def covering_hops(topology: Topology, publisher: str, wanted: set[str]) -> int:
    """The links of the ways from the publisher to all that want it, each once."""
    links = set()
    for broker in wanted:
        way = topology.path(publisher, broker)
        links |= set(pairwise(way))
    return len(links)


# --- propagation with covering, by probabilities


def stops(topology: Topology, subsumption: float) -> Floats:
    """The subsumption probability of each broker."""
    degrees = np.array([topology.degree(each) for each in topology.brokers], float)
    found: Floats = subsumption * degrees / degrees.max()
    return found


def reached(topology: Topology, subsumption: float) -> Floats:
    """[origin, broker]: how likely a subscription of the origin gets to the broker over its tree."""
    stop = stops(topology, subsumption)
    found = np.zeros((len(topology), len(topology)))
    for origin in range(len(topology)):
        found[origin, origin] = 1.0
        order = np.argsort(topology.hops[origin], kind="stable")
        for at in order[1:]:
            parent = topology.parents[origin, at]
            found[origin, at] = found[origin, parent] * (1 - stop[parent])
    return found


# --- sizes


def summary_bytes(sigma: int, subsumptions: list[float], *, with_ids: bool = True) -> float:
    """A merged summary of brokers with these subsumption probabilities and `sigma` subscriptions each."""
    distinct = sum(1 - each for each in subsumptions) * sigma / 2
    ids = len(subsumptions) * sigma / 2 if with_ids else 0.0
    arithmetic = ARITHMETIC * (aacs_bytes(RANGES, 0, 0) + distinct * 4 + ids * 4)
    strings = STRINGS * (sacs_bytes(RANGES, 0) + distinct * 10 + ids * 4)
    return arithmetic + strings


@dataclass(frozen=True)
class Costs:
    """Of one period: bytes sent, messages, and bytes stored in all brokers together."""

    bytes: float
    hops: float
    stored: float


def by_summaries(topology: Topology, sigma: int, subsumption: float, *, with_ids: bool = True) -> Costs:
    """Without ids nobody could route; that is the least that the rows alone take."""
    plan = propagate(topology)
    stop = dict(zip(topology.brokers, stops(topology, subsumption).tolist(), strict=True))

    def size(merged: frozenset[str]) -> float:
        return summary_bytes(sigma, [stop[each] for each in sorted(merged)], with_ids=with_ids)

    return Costs(sum(size(each.merged) for each in plan.told), len(plan.told), sum(map(size, plan.knows.values())))


def by_covering(topology: Topology, sigma: int, subsumption: float) -> Costs:
    """Siena, as the paper models it: each subscription by itself, and a broker stores what reaches it."""
    arrive = reached(topology, subsumption)
    hops = float(arrive.sum()) - len(topology)
    return Costs(hops * sigma * SUBSCRIPTION_BYTES, hops, float(arrive.sum()) * sigma * SUBSCRIPTION_BYTES)


def by_broadcast(topology: Topology, sigma: int) -> Costs:
    """The baseline: (brokers - 1) * mean hops * brokers * sigma * 50 bytes; everybody stores everything."""
    brokers = len(topology)
    pairs = brokers * (brokers - 1)
    bytes_sent = pairs * topology.mean_hops * sigma * SUBSCRIPTION_BYTES
    return Costs(bytes_sent, pairs * topology.mean_hops, brokers * brokers * sigma * SUBSCRIPTION_BYTES)
