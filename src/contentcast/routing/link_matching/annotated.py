"""One broker's search tree with the trits of its links: to whom do events go from here?

Source: Banavar et al. 1999, section 3.1 (annotation) and 3.3 (matching). The links are those of `masks`, and in the paper's own
form (`client_links`) one to each client of the broker.
Rule: an annotation belongs to one audience in one topology; after a change of either, `Annotated.of` makes a
new one and takes from the one `before` what is still true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from contentcast.matching.search_tree.links import Annotation
from contentcast.model import EventBatch
from contentcast.network.topology import Topology
from contentcast.routing.audience import Audience
from contentcast.routing.link_matching.masks import VirtualLinks, Words, packed, unpacked

Ints = npt.NDArray[np.int64]


class Start(NamedTuple):
    """What is fixed for the events of one publisher."""

    mask: Words
    by_neighbour: list[tuple[str, Words]]
    single: list[tuple[str, list[int]]]
    """The same as plain ints, word by word: for one event they are faster than arrays."""


@dataclass(slots=True)
class Ways:
    """Where a batch goes: the rows for each neighbour (all rows: None), and pairs (row, client) if clients are links."""

    onward: list[tuple[str, Ints | None]]
    rows: Ints
    who: Ints
    steps: Ints


@dataclass(slots=True)
class Annotated:
    audience: Audience
    links: VirtualLinks
    clients: tuple[str, ...]
    annotation: Annotation
    chosen: Annotation
    """What is searched: the annotation itself, or one with guesses in it."""
    look_ahead: bool
    starts: dict[str, Start] = field(default_factory=dict)

    @classmethod
    def of(
        cls, audience: Audience, topology: Topology, broker: str, client_links: bool, before: Annotated | None = None
    ) -> Annotated:
        same_network = before is not None and before.links.topology == topology
        links = before.links if before is not None and same_network else VirtualLinks.at(topology, broker)
        mine = audience.living & (audience.origin == _number(audience.origins, broker))
        clients = tuple(dict.fromkeys(audience.names[mine].tolist())) if client_links else ()
        if before is not None and same_network and set(clients) <= set(before.clients):
            clients = before.clients  # links stay where they are, and so does the annotation
        elif before is not None and same_network and before.clients and clients:
            clients = (*before.clients, *(each for each in clients if each not in before.clients))
        words = _words(audience, links, mine, clients)
        reused = before.annotation if before is not None and same_network and clients == before.clients else None
        annotation = audience.tree.annotate_words(np.arange(len(audience.ids)), words, before=reused)
        return cls(audience, links, clients, annotation, annotation, not client_links)

    def start(self, publisher: str) -> Start | None:
        """None: this network has no such broker."""
        found = self.starts.get(publisher)
        if found is None and publisher in self.links.topology:
            extra = len(self.clients)
            by_neighbour = self.links.by_neighbour(publisher, extra)
            single = [(neighbour, [int(word) for word in words]) for neighbour, words in by_neighbour]
            found = self.starts[publisher] = Start(self.links.mask(publisher, extra), by_neighbour, single)
        return found

    def ways(self, events: EventBatch, publisher: str) -> Ways:
        start = self.start(publisher)
        if start is None:
            return Ways([], _NONE, _NONE, np.zeros(len(events), np.int64))
        if not start.by_neighbour and not self.clients:
            return Ways([], _NONE, _NONE, np.zeros(len(events), np.int64))  # an end of the publisher's tree
        found = self.chosen.match_links(events, start.mask, look_ahead=self.look_ahead)
        return self._one(found.yes, found.steps, start) if len(events) == 1 else self._many(found.yes, found.steps, start)

    def _one(self, yes: Words, steps: Ints, start: Start) -> Ways:
        words = yes[0].tolist()
        onward: list[tuple[str, Ints | None]] = [
            (neighbour, None)
            for neighbour, mask in start.single
            if any(word & bits for word, bits in zip(words, mask, strict=True))
        ]
        if not self.clients:
            return Ways(onward, _NONE, _NONE, steps)
        # The clients' links stand last; the network's are shifted out.
        whole = 0
        for at, word in enumerate(words):
            whole |= word << (64 * at)
        whole >>= self.links.count
        who = []
        while whole:
            who.append((whole & -whole).bit_length() - 1)
            whole &= whole - 1
        return Ways(onward, np.zeros(len(who), np.int64), np.array(who, np.int64), steps)

    def _many(self, yes: Words, steps: Ints, start: Start) -> Ways:
        onward: list[tuple[str, Ints | None]] = []
        for neighbour, mask in start.by_neighbour:
            rows = np.flatnonzero((yes & mask).any(axis=1))
            if len(rows):
                onward.append((neighbour, None if len(rows) == len(yes) else rows))
        if not self.clients:
            return Ways(onward, _NONE, _NONE, steps)
        bits = unpacked(yes, self.links.count + len(self.clients))[:, self.links.count :]
        rows, who = np.nonzero(bits)
        return Ways(onward, rows, who, steps)


_NONE: Final = np.empty(0, np.int64)


def _number(origins: tuple[str, ...], broker: str) -> int:
    return origins.index(broker) if broker in origins else -1


def _words(audience: Audience, links: VirtualLinks, mine: npt.NDArray[np.bool_], clients: tuple[str, ...]) -> Words:
    """For each row the link behind which its subscriber is, as bits."""
    count = links.count + len(clients)
    brokers = [links.topology.number(each) if each in links.topology else -1 for each in audience.origins]
    behind = np.array([links.of[each] if each >= 0 else -1 for each in brokers], np.int64)
    place = behind[audience.origin] if len(behind) else np.empty(0, np.int64)
    if clients:
        numbers = {name: links.count + at for at, name in enumerate(clients)}
        rows = np.flatnonzero(mine)
        place[rows] = [numbers[name] for name in audience.names[rows].tolist()]
    # One row of words for each link, and one of nothing for whoever is out of reach.
    table = np.concatenate([packed(np.eye(count, dtype=bool)), np.zeros((1, max(1, (count + 63) // 64)), np.uint64)])
    words: Words = table[place]
    return words
