"""One broker's search tree with the trits of its links: to whom do events go from here?

Source: Banavar et al. 1999, section 3.1 (annotation) and 3.3 (matching). The links are those of `masks`, and in the paper's own
form (`client_links`) one to each client of the broker.
Rule: an annotation belongs to one audience in one topology; after a change of either, `Annotated.of` makes a
new one and takes from the one `before` what is still true.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contentcast.matching.search_tree.links import Annotation
from contentcast.model import EventBatch
from contentcast.network.topology import Topology
from contentcast.routing.audience import Audience, TreeAudience
from contentcast.routing.link_matching.masks import VirtualLinks, Words, link_words, packed, unpacked
from contentcast.routing.link_matching.starts import NONE, Ints, Start, Ways


@dataclass(slots=True)
class Annotated:
    audience: TreeAudience
    links: VirtualLinks
    clients: tuple[str, ...]
    annotation: Annotation
    chosen: Annotation
    """What is searched: the annotation itself, or one with guesses in it."""
    look_ahead: bool
    starts: dict[str, Start] = field(default_factory=dict)

    @classmethod
    def of(
        cls, audience: TreeAudience, topology: Topology, broker: str, client_links: bool, before: Annotated | None = None
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
            found = self.starts[publisher] = Start.of(self.links, publisher, len(self.clients))
        return found

    def ways(self, events: EventBatch, publisher: str) -> Ways:
        start = self.start(publisher)
        if start is None:
            return Ways([], NONE, NONE, np.zeros(len(events), np.int64))
        if not start.neighbours and not self.clients:
            return Ways([], NONE, NONE, np.zeros(len(events), np.int64))  # an end of the publisher's tree
        found = self.chosen.match_links(events, start.mask, look_ahead=self.look_ahead)
        rows, who = self._clients(found.yes)
        return Ways(start.onward(found.yes), rows, who, found.steps)

    def _clients(self, yes: Words) -> tuple[Ints, Ints]:
        """Pairs (event, client), if clients are links."""
        if not self.clients:
            return NONE, NONE
        if len(yes) > 1:
            rows, who = np.nonzero(unpacked(yes, self.links.count + len(self.clients))[:, self.links.count :])
            return rows, who
        # For one event plain ints are faster. The clients' links stand last; the network's are shifted out.
        whole = 0
        for at, word in enumerate(yes[0].tolist()):
            whole |= word << (64 * at)
        whole >>= self.links.count
        found = []
        while whole:
            found.append((whole & -whole).bit_length() - 1)
            whole &= whole - 1
        return np.zeros(len(found), np.int64), np.array(found, np.int64)


def _number(origins: tuple[str, ...], broker: str) -> int:
    return origins.index(broker) if broker in origins else -1


def _words(audience: Audience, links: VirtualLinks, mine: npt.NDArray[np.bool_], clients: tuple[str, ...]) -> Words:
    """For each row the link behind which its subscriber is, as bits."""
    words = link_words(links, audience.origins, len(clients))[audience.origin]
    if clients:
        bits = packed(np.eye(links.count + len(clients), dtype=bool)[links.count :])
        numbers = {name: at for at, name in enumerate(clients)}
        rows = np.flatnonzero(mine)
        words[rows] = bits[[numbers[name] for name in audience.names[rows].tolist()]]
    return words
